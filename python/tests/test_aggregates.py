"""Sums, minima and maxima of ranges, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from families import Family
from hypothesis import given, settings
from hypothesis import strategies as st

import gpulsm

CLOSED: list[Any] = ["both", "left", "right", "neither"]
NUMBERS: list[Any] = ["uint32", "int32", "float32", "uint64", "int64", "float64"]
ARRAYS: list[Any] = [("uint32", 2), ("int32", 4), ("float32", (2, 2)), ("int64", 2), ("float64", 2)]
SUMS = {"u": np.uint64, "i": np.int64, "f": np.float64}


def values_of(value: Any, draw: np.random.Generator, count: int) -> Any:
    """Random values: integers of every size, floats that add up exactly."""
    dtype = np.dtype(value)
    shape = (count, *dtype.shape)
    if dtype.base.kind == "f":
        return draw.integers(-1000, 1000, shape).astype(dtype.base) / 4
    limits = np.iinfo(dtype.base)
    return draw.integers(limits.min, limits.max, shape, dtype.base, endpoint=True)


class Pairs:
    """Sorted keys and their values, as NumPy has them."""

    def __init__(self, keys: Any, values: Any) -> None:
        self.keys, self.values = keys, values

    def between(self, lo: Any, hi: Any, closed: str = "both") -> Any:
        above = self.keys >= lo if closed in ("both", "left") else self.keys > lo
        below = self.keys <= hi if closed in ("both", "right") else self.keys < hi
        return self.values[above & below]

    def sums(self, lo: Any, hi: Any, closed: str = "both") -> Any:
        dtype = SUMS[self.values.dtype.kind]
        parts = [self.between(*ends, closed) for ends in zip(lo, hi, strict=True)]
        with np.errstate(over="ignore"):
            return np.array([part.sum(axis=0, dtype=dtype) for part in parts])

    def extremes(self, how: str, lo: Any, hi: Any, default: Any = 0) -> tuple[Any, Any]:
        parts = [self.between(*ends) for ends in zip(lo, hi, strict=True)]
        answers = np.full((len(parts), *self.values.shape[1:]), default, self.values.dtype)
        for index, part in enumerate(parts):
            if len(part):
                answers[index] = getattr(part, how)(axis=0)
        return answers, np.array([len(part) > 0 for part in parts], bool)


def history(value: Any, device: str, batch: int = 64) -> tuple[gpulsm.Dictionary, Pairs]:
    """A dictionary that was changed many times, and what it should hold."""
    draw = np.random.default_rng(7)
    d = gpulsm.Dictionary("int64", value, batch_size=batch, device=device)
    pairs: dict[int, Any] = {}
    for _ in range(12):
        keys = draw.integers(-500, 500, 150)
        values = values_of(value, draw, len(keys))
        deletes = draw.integers(-500, 500, 60)
        d.update(insert=(keys, values), delete=deletes)
        pairs.update(zip(keys.tolist(), values, strict=True))
        for key in deletes.tolist():
            pairs.pop(key, None)
        d.flush()
    d.validate()
    keys = np.array(sorted(pairs))
    return d, Pairs(keys, np.array([pairs[key] for key in keys.tolist()]))


@pytest.mark.parametrize("value", [*NUMBERS, *ARRAYS], ids=str)
def test_every_type_agrees_with_numpy(value: Any, family: Family, device: str) -> None:
    dtype = np.dtype(value)
    if not family.holds(dtype.base) or not family.holds(SUMS[dtype.base.kind]):
        pytest.skip(f"{family.name} has no arrays of {dtype.base}")
    d, pairs = history(value, device)
    draw = np.random.default_rng(8)
    lo, hi = draw.integers(-600, 600, 200), draw.integers(-600, 600, 200)
    for asked in (d, d.snapshot()):
        for closed in CLOSED:
            sums = family.read(asked.sum(family.make(lo), family.make(hi), closed=closed))
            expected = pairs.sums(lo, hi, closed)
            assert sums.dtype == SUMS[dtype.base.kind] and sums.shape == expected.shape
            assert (sums == expected).all()
        for how in ("min", "max"):
            values, found = getattr(asked, how)(family.make(lo), family.make(hi))
            expected, there = pairs.extremes(how, lo, hi)
            assert family.read(values).dtype == dtype.base
            assert (family.read(values) == expected).all()
            assert family.read(found).tolist() == there.tolist()
            values, found = getattr(asked, how)(
                family.make(lo), family.make(hi), default=np.ones(dtype.shape, dtype.base)
            )
            assert (family.read(values) == pairs.extremes(how, lo, hi, 1)[0]).all()


@pytest.mark.parametrize("value", ["int32", "float64"])
def test_random_ranges_agree_with_numpy(value: str, device: str) -> None:
    d, pairs = history(value, device, batch=8)
    end = st.integers(-520, 520)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(end, end), min_size=1, max_size=30))
    def check(ends: list[tuple[int, int]]) -> None:
        lo, hi = (np.array(column) for column in zip(*ends, strict=True))
        assert d.sum(lo, hi).tolist() == pairs.sums(lo, hi).tolist()
        for how in ("min", "max"):
            values, found = getattr(d, how)(lo, hi)
            expected, there = pairs.extremes(how, lo, hi)
            assert (values.tolist(), found.tolist()) == (expected.tolist(), there.tolist())

    check()


def test_everything_and_open_ends(device: str) -> None:
    d = gpulsm.Dictionary.build([10, 20, 30], [1.5, 2.5, -4.0], device=device)
    assert (
        d.sum() == d.sum(None, None) == 0.0
        and d.min() == -4.0
        and d.min(None, 10**30) == (-4.0, True)
    )
    assert d.sum(15) == -1.5 and d.sum(None, 20) == 4.0 and d.max(None, 15) == (1.5, True)
    assert d.sum(None, 20, closed="left") == 1.5
    assert d.sum(40) == 0.0 and d.min(40, 50) == (0.0, False) == d.max(30, 20)
    assert d.max(40, 50, default=-1) == (-1.0, False)
    assert isinstance(d.sum(), float) and isinstance(d.min(), float)
    assert d.sum([0, 15]).tolist() == [0.0, -1.5] and d.sum(0, [15, 25]).tolist() == [1.5, 4.0]
    empty = gpulsm.Dictionary("uint32", "int32", device=device)
    assert (
        empty.sum() == 0
        and empty.min() is None
        and empty.min(default=5) == 5
        and len(empty.sum([], [])) == 0
    )


def test_sums_of_integers_are_wide_and_wrap_around(device: str) -> None:
    most = np.full(10, 2**32 - 1, np.uint32)
    assert gpulsm.Dictionary.build(np.arange(10), most, device=device).sum() == 10 * (2**32 - 1)
    d = gpulsm.Dictionary.build([1, 2], np.array([2**64 - 1, 3], np.uint64), device=device)
    assert d.sum() == 2 and isinstance(d.sum(), int) and d.max() == 2**64 - 1
    d = gpulsm.Dictionary.build([1, 2], np.array([2**63 - 1, 1]), device=device)
    assert d.sum() == -(2**63) and d.min() == 1


def test_zeros_are_one_and_nan_is_greatest(device: str) -> None:
    floats = np.array([-0.0, np.nan, 1.5, -np.inf], np.float32)
    d = gpulsm.Dictionary.build([1, 2, 3, 4], floats, device=device)
    assert d.min() == -np.inf and np.isnan(d.max()) and np.isnan(d.sum())
    assert str(d.min(1, 1)[0]) == "0.0" and d.max(3, 4) == (1.5, True)
    assert d.sum(3, 4) == -np.inf and np.isnan(d.min(2, 2)[0])


def test_several_numbers_are_taken_each_by_itself(device: str) -> None:
    values = np.array([[1, -5], [7, 2], [3, 3]], np.float32)
    d = gpulsm.Dictionary("uint32", ("float32", 2), device=device)
    d.insert([10, 20, 30], values)
    assert d.sum().tolist() == [11.0, 0.0] and d.sum().dtype == np.float64
    assert d.sum([0, 15], [15, 99]).tolist() == [[1.0, -5.0], [10.0, 5.0]]
    assert d.min().tolist() == [1.0, -5.0]
    values, found = d.max([15, 50], [99, 60], default=[-1, -2])
    assert values.tolist() == [[7.0, 3.0], [-1.0, -2.0]] and found.tolist() == [True, False]


def test_answers_are_written_to_the_callers_arrays(family: Family, device: str) -> None:
    d = gpulsm.Dictionary("int64", "float32", device=device)
    keys = family.make(np.array([5, 1, 3], np.int64))
    d.insert(keys, family.make(np.array([0.5, 0.25, 2.0], np.float32)))
    lo, hi = (family.make(np.array(ends, np.int64)) for ends in ([0, 2, 6], [9, 4, 9]))
    sums = family.make(np.full(3, 99.0))
    assert d.sum(lo, hi, out=sums) is sums and family.read(sums).tolist() == [2.75, 2.0, 0.0]
    rooms = family.make(np.full(3, 99, np.float32)), family.make(np.ones(3, bool))
    answers = d.min(lo, hi, out=rooms)
    assert answers[0] is rooms[0] and answers[1] is rooms[1]
    assert family.read(rooms[0]).tolist() == [0.25, 2.0, 0.0]
    assert family.read(rooms[1]).tolist() == [True, True, False]
    d.max(lo, hi, default=-1.0, out=rooms)
    assert family.read(rooms[0]).tolist() == [2.0, 2.0, -1.0]


def test_what_can_not_be_written_to_is_refused(device: str) -> None:
    d = gpulsm.Dictionary.build([1, 2], np.array([1, 2], np.int32), device=device)
    with pytest.raises(TypeError, match="out: expected int64, got int32"):
        d.sum([1], [2], out=np.zeros(1, np.int32))
    with pytest.raises(TypeError, match=r"out\[1\]: expected bool, got int64"):
        d.max([1], [2], out=(np.zeros(1, np.int32), np.zeros(1, np.int64)))
    with pytest.raises(ValueError, match="out has 2 elements: expected 1"):
        d.sum([1], [2], out=np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="lo has 2 elements but hi has 1 element"):
        d.sum([1, 2], [2])
    with pytest.raises(ValueError, match="closed"):
        d.min(1, 2, closed="open")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="default: expected int32, got float 1.5"):
        d.max(1, 2, default=1.5)


@pytest.mark.parametrize(
    "value", ["datetime64[s]", "timedelta64[ms]", "S8", "complex64", ("int16", 2), "i4,f4"], ids=str
)
def test_values_that_are_no_such_numbers_are_refused(value: Any, device: str) -> None:
    d = gpulsm.Dictionary("int64", value, device=device)
    for how in ("sum", "min", "max"):
        with pytest.raises(TypeError, match=f"{how}: expected values of type int32, int64, uint32"):
            getattr(d, how)(1, 5)


def test_a_set_has_nothing_to_add_up(device: str) -> None:
    d = gpulsm.Set.build(np.arange(5), device=device)
    for how in ("sum", "min", "max", "lookup", "get", "values", "items", "pop", "add", "set"):
        assert not hasattr(d, how)
