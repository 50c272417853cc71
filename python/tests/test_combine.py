"""Dictionaries that combine values, against a dict."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from families import Family

import gpulsm

RULES: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "or": np.bitwise_or,
    "and": np.bitwise_and,
    "xor": np.bitwise_xor,
}
VALUES: list[Any] = ["uint32", "int32", "float32", "uint64", "int64", "float64", ("float32", 4)]


def numbers(draw: np.random.Generator, value: Any, count: int) -> Any:
    """Values whose sums are exact, also of floats."""
    dtype = np.dtype(value)
    return draw.integers(0, 1000, (count, *dtype.shape)).astype(dtype.base)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule(rule: Any, value: Any, family: Family, device: str) -> None:
    dtype = np.dtype(value)
    if not family.holds("int64") or not family.holds(dtype.base.name):
        pytest.skip(f"{family.name} has no arrays of these types")
    if dtype.base.kind == "f" and rule in ("or", "and", "xor"):
        with pytest.raises(TypeError, match=f"combine: '{rule}' takes integers"):
            gpulsm.Dictionary("int64", value, combine=rule, device=device)
        return
    draw = np.random.default_rng(3)
    d = gpulsm.Dictionary("int64", value, combine=rule, batch_size=16, device=device)
    model: dict[int, Any] = {}
    for step in range(60):
        keys, values = draw.integers(0, 50, 30), numbers(draw, value, 30)
        what = step % 4
        if what == 3:
            d.delete(family.make(keys[:5]))
            for key in keys[:5].tolist():
                model.pop(key, None)
        elif what == 2:
            d.set(family.make(keys[:7]), family.make(values[:7]))
            model.update(zip(keys[:7].tolist(), values[:7], strict=True))
        else:
            d.insert(family.make(keys), family.make(values))
            for key, number in zip(keys.tolist(), values, strict=True):
                model[key] = RULES[rule](model[key], number) if key in model else number
        if step % 7 == 0:
            d.validate()
    found_keys, found_values = d.arrays()
    assert found_keys.tolist() == sorted(model)
    expected = np.array([model[key] for key in sorted(model)])
    np.testing.assert_array_equal(found_values, expected)
    assert d.combine == d.snapshot().combine == d.copy().combine == rule


def test_counters(device: str) -> None:
    words = [7, 8, 7, 9, 7, 8] * 1000
    d = gpulsm.Dictionary("uint64", "int64", combine="add", device=device)
    for start in range(0, len(words), 500):
        d.add(words[start : start + 500])
    d.add(9, -5)
    d.add([1, 2], [10, 20])
    counted = Counter(words) + Counter({1: 10, 2: 20})
    counted[9] -= 5
    assert dict(d.items()) == counted
    assert repr(d).endswith(f"combine='add', device={d.device!r}>")


def test_assignment_replaces(device: str) -> None:
    d = gpulsm.Dictionary("int32", "int32", combine="add", device=device)
    d.insert([1, 2, 3], 10)
    d[1] = 5
    d.set([2, 2], [6, 7])
    d.insert([1, 2], 1)
    d[4] = 4
    assert dict(d.items()) == {1: 6, 2: 8, 3: 10, 4: 4}
    assert d.pop(1) == 6
    d.insert(1, 1)
    assert d[1] == 1
    d.update(insert=([2, 3], [100, 100]), delete=[3])
    assert dict(d.items()) == {1: 1, 2: 108, 4: 4}
    replacing = gpulsm.Dictionary.build([1, 2], [10, 20], device=device)
    replacing.set([1, 3], [11, 33])
    assert dict(replacing.items()) == {1: 11, 2: 20, 3: 33}


def test_merging_combines(device: str) -> None:
    d = gpulsm.Dictionary.build([1, 1, 2], [1, 10, 2], combine="add", device=device)
    d.merge_from(gpulsm.Dictionary.build([2, 3], [20, 30], device=device))
    assert dict(d.items()) == {1: 11, 2: 22, 3: 30}
    assert d.sum() == 63


def test_pickled(device: str) -> None:
    d = gpulsm.Dictionary.build([1, 2], [10, 20], combine="max", device=device)
    for copy in (pickle.loads(pickle.dumps(d)), pickle.loads(pickle.dumps(d.snapshot())).thaw()):
        copy.insert([1, 2], [5, 50])
        assert dict(copy.items()) == {1: 10, 2: 50}
        assert copy.combine == "max"


def test_files(tmp_path: Path, device: str) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("key,value\n1,10\n2,20\n1,5\n")
    d = gpulsm.Dictionary.from_file(path, combine="add", device=device)
    assert dict(d.items()) == {1: 15, 2: 20}
    assert d.insert_file(path).replaced == 3
    assert dict(d.items()) == {1: 30, 2: 40}


def test_what_is_refused(device: str) -> None:
    make: Any = gpulsm.Dictionary
    with pytest.raises(ValueError, match="combine: expected one of 'replace', 'add', .*got 'plus'"):
        make(combine="plus", device=device)
    with pytest.raises(TypeError, match="value: expected the type of values"):
        make("uint32", None, combine="add", device=device)
    for value in ("complex128", "datetime64[ns]", [("a", "u4"), ("b", "u4")]):
        with pytest.raises(TypeError, match="combine: 'add' takes values of type int32"):
            make("uint32", value, combine="add", device=device)
    d = make("uint32", "uint32", combine="max", device=device)
    with pytest.raises(TypeError, match="add: expected a dictionary made with combine='add'"):
        d.add([1])
    for how in ("last", "first", "error"):
        with pytest.raises(ValueError, match="duplicates: this dictionary combines all values"):
            d.insert([1, 1], [1, 2], duplicates=how)
    with pytest.raises(ValueError, match="duplicates: expected 'last', 'first' or 'error'"):
        d.insert([1], [1], duplicates="bogus")
    d.update(delete=[1], duplicates="error")
    with pytest.raises(ValueError, match="keys: 2 keys but 3 values"):
        d.set([1, 2], [1, 2, 3])
    assert len(d) == 0
