"""Ranges with open and excluded ends, and ends that the key type can't hold."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from families import Family

import gpulsm

CLOSED: list[Any] = ["both", "left", "right", "neither"]
INTEGERS = ["uint32", "uint64", "int32", "int64"]


def ends_of(key: str) -> Any:
    """Keys that are all there, with the first and the last that there can be, in order."""
    if key.startswith("float"):
        limits = np.finfo(key)
        tiny = limits.smallest_subnormal
        some = [-np.inf, limits.min, -1.5, -tiny, 0.0, tiny, 1.5, limits.max, np.inf, np.nan]
        return np.array(some, key)
    limits = np.iinfo(key)
    return np.array([limits.min, limits.min + 1, 7, limits.max - 1, limits.max], key)


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("key", [*INTEGERS, "float32", "float64"])
def test_every_pair_of_ends_in_every_way(
    key: str, closed: Any, family: Family, device: str
) -> None:
    if not family.holds(key):
        pytest.skip(f"{family.name} has no arrays of {key}")
    keys = ends_of(key)
    d = gpulsm.Set(key, device=device)
    d.insert(keys)
    first, last = (part.reshape(-1) for part in np.meshgrid(range(len(keys)), range(len(keys))))
    low = first + (closed in ("right", "neither"))
    high = last - (closed in ("left", "neither"))
    expected = np.maximum(high - low + 1, 0).tolist()
    lo, hi = keys[first], keys[last]
    counts = d.count(family.make(lo), family.make(hi), closed=closed)
    assert family.read(counts).tolist() == expected
    offsets = d.range(family.make(lo), family.make(hi), closed=closed)[0]
    assert np.diff(family.read(offsets)).tolist() == expected
    # A scalar on either side, and on both.
    for at, (one, other) in enumerate(zip(lo, hi, strict=True)):
        assert d.count(one, other, closed=closed) == expected[at]
    for index, item in enumerate(keys):
        rows = np.flatnonzero(last == index)
        beside = d.count(family.make(lo[rows]), item, closed=closed)
        assert family.read(beside).tolist() == [expected[row] for row in rows]
        rows = np.flatnonzero(first == index)
        beside = d.count(item, family.make(hi[rows]), closed=closed)
        assert family.read(beside).tolist() == [expected[row] for row in rows]


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("key", [*INTEGERS, "float32", "float64"])
def test_an_open_end_is_beyond_every_key(key: str, closed: Any, device: str) -> None:
    keys = ends_of(key)
    d = gpulsm.Set.build(keys, device=device)
    assert d.count(closed=closed) == d.count(None, None, closed=closed) == len(keys)
    assert d.count(None, keys[2], closed=closed) == 2 + (closed in ("both", "right"))
    assert d.count(keys[2], None, closed=closed) == len(keys) - 3 + (closed in ("both", "left"))
    assert d.count(keys, closed=closed).tolist() == [
        len(keys) - index - (closed in ("right", "neither")) for index in range(len(keys))
    ]
    d.delete_range(None, None, closed=closed)
    assert len(d) == 0


def test_minus_zero_is_zero_at_an_excluded_end(device: str) -> None:
    d = gpulsm.Set.build([-1.0, 0.0, 1.0], device=device)
    for zero in (0.0, -0.0):
        assert d.count(zero, 1.0, closed="right") == 1 and d.count(-1.0, zero, closed="left") == 1
        assert d.count([zero], [zero], closed="neither").tolist() == [0]


def test_nothing_is_less_than_an_unsigned_zero(device: str) -> None:
    keys = np.arange(5, dtype=np.uint32)
    d = gpulsm.Dictionary.build(keys, keys, device=device)
    d.delete_range(None, 0, closed="left")
    d.delete_range([0, 0], [0, 0], closed="left")
    d.delete_range(2**32 - 1, None, closed="right")
    d.delete_range(-5, 0, closed="left")
    d.delete_range(None, -1)
    del d[:0]
    assert len(d) == 5
    d.delete_range(None, 0)
    assert d.keys().tolist() == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'hi'"):
        d.delete_range(0)  # type: ignore[call-arg]


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("key", INTEGERS)
def test_ends_that_the_type_can_not_hold(key: str, closed: Any, device: str) -> None:
    limits = np.iinfo(key)
    least, most = int(limits.min), int(limits.max)
    keys = np.array([least, 5, most], key)
    d = gpulsm.Set.build(keys, device=device)
    below, above = least - 1, most + 1
    for lo, hi, expected in (
        (below, above, 3),
        (2 * below - 9, 2 * above + 9, 3),
        (above, above + 1, 0),
        (above, None, 0),
        (below - 1, below, 0),
        (None, below, 0),
        (above, below, 0),
        (5, above, 1 + (closed in ("both", "left"))),
        (below, 5, 1 + (closed in ("both", "right"))),
    ):
        assert d.count(lo, hi, closed=closed) == expected, (lo, hi)
        assert len(d.range(lo, hi, closed=closed)[1]) == expected
        if lo is not None and hi is not None:
            assert d.count([lo, 5], [hi, 4], closed=closed).tolist() == [expected, 0]
    assert d.count(above, keys, closed=closed).tolist() == [0, 0, 0]
    assert d.count(keys, below, closed=closed).tolist() == [0, 0, 0]


def test_floats_that_the_type_can_not_hold(device: str) -> None:
    most = float(np.finfo(np.float32).max)
    d = gpulsm.Set("float32", device=device)
    d.insert([-np.inf, -most, 0.0, most, np.inf])
    for closed in CLOSED:
        assert d.count(-1e40, 1e40, closed=closed) == 3  # The infinities are beyond.
        assert d.count(1e40, None, closed=closed) == d.count(None, -1e40, closed=closed) == 1
    assert d.rank(1e40) == 4 and d.rank(-1e40) == 1
    assert d.successor(1e40)[0] == np.inf and d.predecessor(1e40)[0] == most
    assert d.successor(-1e40)[0] == -most and d.predecessor(-1e40)[0] == -np.inf


def test_scalars_that_the_type_can_not_hold_are_not_there(device: str) -> None:
    d = gpulsm.Dictionary.build(np.array([1, 2], np.uint32), np.array([10, 20]), device=device)
    for key in (2**32, -1, 2**70, np.int64(-1)):
        assert key not in d and d.contains(key) is False
        assert d.lookup(key) == (0, False) and d.lookup(key, default=-5) == (-5, False)
        assert d.get(key) is None and d.pop(key, 7) == 7
        d.delete(key)
        d.update(delete=key)
        for subscript in (d.__getitem__, d.__delitem__, d.pop):
            with pytest.raises(KeyError):
                subscript(key)
        with pytest.raises(ValueError, match="uint32 goes from 0 to 4294967295"):
            d.insert(key, 5)
        with pytest.raises(ValueError, match="uint32 goes from 0 to 4294967295"):
            d[key] = 5
    assert d.rank(2**32) == 2 and d.rank(-1) == 0
    assert d.successor(-1) == (1, 10, True) and d.successor(2**32) == (0, 0, False)
    assert d.predecessor(2**32) == (2, 20, True) and d.predecessor(-1) == (0, 0, False)
    assert d.select(2**70) == d.select(-(2**70)) == (0, 0, False)
    assert d[-5:2][0].tolist() == [1] and d[2 : 2**40][0].tolist() == [2]
    # Of lists and arrays every element must fit, for each has its place in the answer.
    with pytest.raises(ValueError, match=r"keys\[1\] is -1"):
        d.lookup([1, -1])
    with pytest.raises(ValueError, match=r"keys\[1\] is -1: uint32 goes from 0"):
        d.lookup(np.array([1, -1]))
    assert d.count(np.array([0, -5, 2]), np.array([2**32, 1, 2**40])).tolist() == [2, 1, 1]
    assert len(d) == 2


def test_slices_are_half_open(device: str) -> None:
    d = gpulsm.Dictionary.build([1, 2, 3, 4], [10, 20, 30, 40], device=device)
    for part, expected in (
        (slice(2, 4), [2, 3]),
        (slice(None, 3), [1, 2]),
        (slice(3, None), [3, 4]),
        (slice(None), [1, 2, 3, 4]),
        (slice(4, 2), []),
    ):
        for of in (d, d.snapshot()):
            keys, values = of[part]
            assert keys.tolist() == expected and values.tolist() == [10 * key for key in expected]
    del d[2:4]
    assert d.keys().tolist() == [1, 4]
    del d[:]
    assert len(d) == 0
    floats = gpulsm.Dictionary.build([1.0, np.inf, np.nan], [1, 2, 3], device=device)
    assert len(floats[:][0]) == 3 and len(floats[: np.nan][0]) == 2


def test_ends_that_a_part_does_not_hold_cost_no_more_than_others() -> None:
    """There was one native call for each row of such a query."""
    d = gpulsm.Set.build(([1, 2, 3], [10, 20, 30]), key=("uint32", "uint32"), device="cpu")
    rows = 100_000
    first, second = np.arange(rows) % 5, np.arange(rows) % 40
    far = second.copy()
    far[rows // 2] = 2**40

    def seconds(last: Any) -> float:
        start = time.perf_counter()
        d.count((first, second), (first, last))
        return time.perf_counter() - start

    usual = min(seconds(second) for _ in range(3))
    assert min(seconds(far) for _ in range(3)) < 10 * usual + 0.1
    counts = d.count((first, second), (first, far))
    expected = d.count((first, second), (first, np.where(far > 2**32 - 1, 2**32 - 1, far)))
    assert counts.tolist() == expected.tolist()
