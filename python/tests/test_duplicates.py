"""Which of equal keys in one call counts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from families import Family

import gpulsm

KEYS = ["uint32", "uint64", "int32", "int64", "float32", "float64"]


@pytest.mark.parametrize("key", KEYS)
def test_first_and_last(key: str, family: Family, device: str) -> None:
    if not family.holds(key):
        pytest.skip(f"{family.name} has no arrays of {key}")
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 50, 400).astype(key)
    values = np.arange(400, dtype=np.uint32)
    for value in (values, np.stack([values] * 2, axis=1).astype(np.float32)):
        if not family.holds(value.dtype):
            continue
        first: dict[Any, Any] = {}
        for one, item in zip(keys.tolist(), value.tolist(), strict=True):
            first.setdefault(one, item)
        last = dict(zip(keys.tolist(), value.tolist(), strict=True))
        for choice, expected in (("first", first), ("last", last)):
            given = family.make(keys), family.make(value)
            built = gpulsm.Dictionary.build(*given, device=device, duplicates=choice)
            updated = gpulsm.Dictionary(key, built.value_dtype, device=device)
            updated.update(insert=given, duplicates=choice)
            for d in (built, updated):
                listed = [part.tolist() for part in d.arrays()]
                assert dict(zip(*listed, strict=True)) == expected
            assert (family.read(given[0]) == keys).all(), "the caller's array was changed"


@pytest.mark.parametrize("key", KEYS)
def test_an_error_names_the_first_repeat(key: str, family: Family, device: str) -> None:
    if not family.holds(key):
        pytest.skip(f"{family.name} has no arrays of {key}")
    d = gpulsm.Set(key, device=device)
    d.insert(family.make(np.array([8, 3, 5], key)), duplicates="error")
    keys = family.make(np.array([9, 7, 6, 4, 7, 9, 7], key))
    with pytest.raises(
        gpulsm.DuplicateKeyError, match=r"keys\[4\] is 7.*, as keys\[1\] is"
    ) as raised:
        d.insert(keys, duplicates="error")
    assert raised.value.key == 7 and raised.value.positions == (1, 4)
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value) and again.positions == (1, 4)
    with pytest.raises(ValueError, match=r"insert\[4\] is 7"):
        d.update(insert=keys, delete=family.make(np.array([3], key)), duplicates="error")
    with pytest.raises(ValueError, match=r"keys\[4\] is 7"):
        gpulsm.Set.build(keys, device=device, duplicates="error")
    assert d.keys().tolist() == [3, 5, 8]


@pytest.mark.parametrize("key", ["float32", "float64"])
def test_floats_that_are_one_key_are_duplicates(key: str, family: Family, device: str) -> None:
    d = gpulsm.Set(key, device=device)
    integer = np.dtype(f"uint{8 * np.dtype(key).itemsize}")
    other_nan = (np.array([np.nan], key).view(integer) + np.array(1, integer)).view(key)
    tiny = np.finfo(key).smallest_subnormal
    d.insert(family.make(np.array([0.0, tiny, -tiny, np.inf, np.nan], key)), duplicates="error")
    assert len(d) == 5
    with pytest.raises(gpulsm.DuplicateKeyError, match=r"keys\[2\] is -0.0, as keys\[0\] is"):
        d.insert(family.make(np.array([0.0, 1.0, -0.0], key)), duplicates="error")
    with pytest.raises(gpulsm.DuplicateKeyError, match=r"keys\[1\] is nan, as keys\[0\] is"):
        d.insert(family.make(np.array([np.nan, other_nan[0]], key)), duplicates="error")


def test_one_value_for_every_key(device: str) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    d.insert([2, 1, 2], 7, duplicates="first")
    assert d.values().tolist() == [7, 7]
    d.insert(5, 8, duplicates="error")
    d.insert([], [], duplicates="error")
    assert d[5] == 8
    with pytest.raises(ValueError, match=r"insert\[0\]\[1\] is 3, as insert\[0\]\[0\] is"):
        d.update(insert=([3, 3], 1), duplicates="error")
