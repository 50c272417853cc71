"""Single keys, ends, and the order of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from families import Family

import gpulsm


def test_pop(device: str) -> None:
    d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2], device=device)
    assert d.pop(20) == 2 and 20 not in d
    assert d.pop(20, "no") == "no" and d.pop(20, None) is None
    with pytest.raises(KeyError, match="20"):
        d.pop(20)
    with pytest.raises(TypeError, match="key: expected one int64, got an array"):
        d.pop([10])  # type: ignore[arg-type]
    assert d.pop_first() == (10, 1) and d.pop_last() == (30, 3) and len(d) == 0
    for pop in (d.pop_first, d.pop_last):
        with pytest.raises(KeyError, match="the dictionary is empty"):
            pop()
    s = gpulsm.Set.build([5, 6], device=device)
    assert s.pop_first() == (5, None) and s.keys().tolist() == [6]


def test_negative_indices_count_from_the_end(family: Family, device: str) -> None:
    keys = np.arange(100, 110)
    d = gpulsm.Dictionary.build(keys, keys * 2, device=device)
    for of in (d, d.snapshot()):
        indices = np.array([-1, -10, -11, 0, 9, 10, -(2**62)])
        answers, values, found = of.select(family.make(indices))
        assert family.read(found).tolist() == [True, True, False, True, True, False, False]
        assert family.read(answers).tolist() == [109, 100, 0, 100, 109, 0, 0]
        assert family.read(values).tolist() == [218, 200, 0, 200, 218, 0, 0]
        assert of.select(-3) == (107, 214, True) and of.select(-11) == (0, 0, False)
    assert indices.tolist() == [-1, -10, -11, 0, 9, 10, -(2**62)]
    assert gpulsm.Dictionary(device=device).select(-1) == (0, 0, False)


def test_the_least_and_the_greatest(family: Family, device: str) -> None:
    d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2], device=device)
    like = family.make(np.zeros(1)) if family.on_gpu == (device != "cpu") else "numpy"
    for n in (0, 1, 2, 3, 9):
        for (keys, values), expected in (
            (d.first(n, like=like), [10, 20, 30][:n]),
            (d.last(n, like=like), [30, 20, 10][:n]),
        ):
            assert keys.tolist() == expected and values.tolist() == [key // 10 for key in expected]
            assert isinstance(like, str) or isinstance(keys, family.kind())
    s = gpulsm.Set.build([1.5, np.nan], device=device)
    assert np.isnan(s.last(1)[0][0]) and s.last(1)[1] is None
    assert len(gpulsm.Dictionary(device=device).last(5)[0]) == 0
    with pytest.raises(TypeError, match="n: expected an integer, got float"):
        d.last(2.0)  # type: ignore[arg-type]


def test_a_dictionary_is_a_mapping(device: str) -> None:
    d = gpulsm.Dictionary.build([10, 30, 20], [1.5, 3.5, 2.5], device=device)
    for of in (d, d.snapshot()):
        assert isinstance(of, Mapping) and dict(of) == dict(of.items()) == {
            10: 1.5,
            20: 2.5,
            30: 3.5,
        }
        series: Any = pd.Series([20, 99, 10], index=["a", "b", "c"])
        mapped = series.map(of)
        assert mapped.to_dict() == pytest.approx({"a": 2.5, "b": np.nan, "c": 1.5}, nan_ok=True)
        made: Any = pd.Series(of)
        assert made.to_dict() == {10: 1.5, 20: 2.5, 30: 3.5}
    assert d != dict(d) and d == d


def test_what_is_no_key_is_not_there(device: str) -> None:
    d = gpulsm.Dictionary.build([10, 20], [1, 2], device=device)
    for foreign in ("a", None, 1.5, np.nan, np.inf, b"x", 2**80, -(2**70), (1, 2), 1e300):
        assert foreign not in d and d.get(foreign) is None and d.get(foreign, 7) == 7
    for same in (10.0, np.float32(10)):
        assert same in d and d.get(same) == {10: 1}[same] == 1
        with pytest.raises(TypeError):
            d[same]
    assert True in gpulsm.Set.build([1], device=device)
    parts = gpulsm.Dictionary.build(([1], [2]), [3], device=device)
    assert parts.get((1.0, 2)) == 3 and (1, 2.5) not in parts and ("a", 2.0) not in parts
    assert np.datetime64("NaT") not in gpulsm.Set("datetime64[s]", device=device)
    for many in ([10], np.array([10])):
        with pytest.raises(TypeError):
            many in d  # noqa: B015


def test_setdefault(device: str) -> None:
    counts = gpulsm.Dictionary("uint32", "int64", combine="add", device=device)
    assert counts.setdefault(5, 3) == 3 and counts.setdefault(5, 4) == 3
    counts.add(5)
    assert counts.setdefault(5, 0) == 4 and len(counts) == 1
    pairs = gpulsm.Dictionary(("int64", "S4"), ("float32", 2), device=device)
    assert pairs.setdefault((1, b"ab"), [0.5, 1]).tolist() == [0.5, 1.0]
    assert pairs.setdefault((1, b"ab"), [2, 3]).tolist() == [0.5, 1.0]
    with pytest.raises(TypeError, match="key: expected"):
        counts.setdefault([5], 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="default"):
        counts.setdefault(6, "a")
    assert 6 not in counts


def test_writes_are_in_order(device: str) -> None:
    d = gpulsm.Dictionary.build([10, 11, 12, 20], [1, 2, 3, 4], device=device)
    d.write(
        [("delete_range", 10, 15), ("insert", [11], [5]), ("delete", [20, 21]), ("insert", 20, 6)]
    )
    assert list(d.items()) == [(11, 5), (20, 6)]
    d.write([("insert", [1, 2, 1], [1, 2, 3]), ("delete_range", None, 1), ("set", 2, 9)])
    assert list(d.items()) == [(2, 9), (11, 5), (20, 6)]
    d.write([])
    before = list(d.items())
    wrong: list[tuple[Any, str]] = [
        (("delete_range", 1), r"operations\[1\]: expected 2 arguments of 'delete_range', got 1"),
        (("nonsense", 1), r"operations\[1\]: expected a tuple that begins with 'insert'"),
        (["insert", 1, 1], r"operations\[1\]: expected a tuple that begins"),
        (("insert", [1, 2], [1]), "2 keys but 1 value"),
        (("insert", ["a"], [1]), r"operations\[1\]\[1\]"),
    ]
    for operation, text in wrong:
        with pytest.raises((TypeError, ValueError), match=text):
            d.write([("delete", [2, 11]), operation])
        assert list(d.items()) == before
    s = gpulsm.Set.build([1, 2, 3], device=device)
    s.write([("delete_range", 1, 2), ("insert", [1])])
    assert list(s) == [1, 3]
    counts = gpulsm.Dictionary("uint32", "int64", combine="add", device=device)
    counts.write([("insert", [1, 1], [2, 3]), ("set", 1, 7), ("insert", 1, 1), ("delete", 4)])
    assert list(counts.items()) == [(1, 8)]
    times = gpulsm.Dictionary(("S4", "int64"), "float64", device=device)
    times.write(
        [("insert", ([b"a", b"a"], [1, 2]), [0.5, 1.5]), ("delete_range", (b"a", 2), (b"a", 9))]
    )
    assert list(times.items()) == [((b"a\0\0\0", 1), 0.5)]
    d.validate()
    times.validate()
