"""Keys that their types can't hold: they are not there, and as ends of ranges they are beyond all that are."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpulsm

_FIRST = [-(2**70), -1, 0, 3, 7, 2**32 - 1, 2**32, 2**70]
_SECOND = [-(2**40), -(2**31), -5, 0, 9, 2**31 - 1, 2**31]
_KEYS = [
    *itertools.product((0, 3, 7, 2**32 - 1), (-(2**31), -5, 0, 9, 2**31 - 1)),
]
_ENDS = [*itertools.product(_FIRST, _SECOND)]
_CLOSED: Any = ["both", "left", "right", "neither"]


def _pairs(device: str) -> gpulsm.Dictionary:
    d = gpulsm.Dictionary(("uint32", "int32"), "int64", device=device)
    first, second = map(list, zip(*_KEYS, strict=True))
    d.insert((first, second), [*range(len(_KEYS))])
    return d


def _texts(device: str) -> gpulsm.Dictionary:
    d = gpulsm.Dictionary("S2", "int64", device=device)
    d.insert([b"ab", b"b", b"\0\0", b"\xff\xff"], [0, 1, 2, 3])
    return d


def _is_inside(lo: Any, key: Any, hi: Any, closed: str) -> bool:
    return (lo < key or (lo == key and closed in ("both", "left"))) and (
        key < hi or (key == hi and closed in ("both", "right"))
    )


@pytest.mark.parametrize("closed", _CLOSED)
def test_ends_of_ranges_of_several_parts(closed: Any, device: str) -> None:
    d = _pairs(device)
    ranges = [*itertools.product(_ENDS[::3], _ENDS[::2])]
    expected = [sum(_is_inside(lo, key, hi, closed) for key in _KEYS) for lo, hi in ranges]
    lo, hi = (tuple(map(list, zip(*ends, strict=True))) for ends in zip(*ranges, strict=True))
    assert d.count(lo, hi, closed=closed).tolist() == expected
    for (one, other), count in zip(ranges[::7], expected[::7], strict=True):
        assert d.count(one, other, closed=closed) == count
    offsets, (first, _), _ = d.range(lo, hi, closed=closed)
    assert np.diff(offsets).tolist() == expected and len(first) == sum(expected)
    # A scalar goes with each element; None is an open end.
    seconds = [second for _, second in _ENDS[:7]]
    assert d.count((2**70, seconds), None, closed=closed).tolist() == [0] * 7
    assert d.count((-1, np.array([1, 2], np.int32)), None).tolist() == [len(_KEYS)] * 2
    assert d.count(None, ([2**70, 0], [0, -(2**40)])).tolist() == [len(_KEYS), 0]


@pytest.mark.parametrize("closed", _CLOSED)
def test_ends_of_more_bytes_than_keys_have(closed: Any, device: str) -> None:
    d = _texts(device)
    ends = [b"ab\0", b"abc", b"\xff\xff\xff", b"\0\0\0", b"b\0", b"aa"]
    keys = [b"\0\0", b"ab", b"b\0", b"\xff\xff"]
    expected = [
        [sum(_is_inside(lo, key, hi, closed) for key in keys) for hi in ends] for lo in ends
    ]
    assert [[d.count(lo, hi, closed=closed) for hi in ends] for lo in ends] == expected
    assert [d.count([lo] * 6, ends, closed=closed).tolist() for lo in ends] == expected
    parts = gpulsm.Set(("S2", "uint32"), device=device)
    parts.insert(([b"ab", b"ab", b"ac"], [0, 2**32 - 1, 0]))
    assert parts.count((b"abc", 0), None, closed=closed) == 1
    assert parts.count(None, (b"abc", 0), closed=closed) == 2


def test_keys_of_more_bytes_are_not_there(device: str) -> None:
    d = _texts(device)
    assert b"abc" not in d and d.get(b"abc", -1) == -1 and d.pop(b"abc", -2) == -2
    assert d.lookup(b"abc", default=-3) == (-3, False) and not d.contains(b"abc")
    d.delete(b"abc")
    assert len(d) == 4
    assert d.predecessor(b"abc") == (b"ab", 0, True)
    assert d.successor(b"abc") == (b"b\0", 1, True)
    assert d.successor(b"\xff\xff\0") == (b"\0\0", 0, False)
    assert [d.rank(key) for key in (b"\0\0\0", b"abc", b"\xff\xff\xff")] == [1, 2, 4]
    with pytest.raises(KeyError):
        d[b"abc"]
    for refused in (lambda: d.insert(b"abc", 1), lambda: d.lookup([b"ab", b"abc"])):
        with pytest.raises(gpulsm.OutOfRangeError, match="has 3 bytes: S2 holds 2"):
            refused()
    parts = gpulsm.Set(("S2", "uint32"), device=device)
    assert (b"abc", 1) not in parts


def test_prefixes_that_no_key_has(device: str) -> None:
    d = _pairs(device)
    for prefix in (2**32, -1, 2**70):
        lo, hi = d.prefix_range(prefix)
        assert lo > hi and d.count(lo, hi) == 0
    lo, hi = d.prefix_range([3, 2**32, -1, 7])
    assert [part.dtype.name for part in lo] == ["uint32", "int32"]
    assert d.count(lo, hi).tolist() == [5, 0, 0, 5]
    d.delete_range(lo, hi)
    assert len(d) == len(_KEYS) - 10
    wide = gpulsm.Set(("S2", "uint32", "uint32"), device=device)
    wide.insert(([b"ab", b"ab"], [1, 2], [3, 4]))
    lo, hi = wide.prefix_range((b"ab", [1, 2**40, 2]))
    assert wide.count(lo, hi).tolist() == [1, 0, 1]
    assert wide.count(*wide.prefix_range([b"ab", b"abc"])).tolist() == [2, 0]
    with pytest.raises(TypeError, match=r"prefix\[0\]"):
        d.prefix_range("x")


def _nearest(keys: list[int], on: int, direction: str, tolerance: int | None) -> int | None:
    inside = [
        key
        for key in keys
        if (direction == "nearest" or (key <= on if direction == "backward" else key >= on))
        and (tolerance is None or abs(key - on) <= tolerance)
    ]
    return min(inside, key=lambda key: (abs(key - on), key), default=None)


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_as_of_a_time_that_the_type_cannot_hold(direction: Any, device: str) -> None:
    d = _pairs(device)
    plain = gpulsm.Set("int32", device=device)
    seconds = sorted({second for _, second in _KEYS})
    plain.insert(seconds)
    for on, tolerance, exact in itertools.product(
        (-(2**31) - 1, -(2**40), 2**31, 2**31 + 9, 2**70), (None, 0, 1, 10, 2**33), (True, False)
    ):
        settings: Any = {
            "direction": direction,
            "tolerance": tolerance,
            "allow_exact_matches": exact,
        }
        expected = _nearest(seconds, on, direction, tolerance)
        (_, time), _, found = d.asof((7, on), **settings)
        assert (time if found else None) == expected, (on, tolerance)
        key, _, found = plain.asof(on, **settings)
        assert (key if found else None) == expected, (on, tolerance)
    assert d.asof((2**32, 0), direction=direction) == ((0, 0), 0, False)
    assert d.asof((2**32, 2**70), direction=direction) == ((0, 0), 0, False)
    with pytest.raises(gpulsm.OutOfRangeError):
        d.asof(([7], [2**31]))


def test_as_of_floats_and_moments_that_the_type_cannot_hold(device: str) -> None:
    d = gpulsm.Set("float32", device=device)
    d.insert([1.0, np.inf])
    assert d.asof(1e300)[0] == 1.0 and d.asof(1e300, direction="forward")[0] == np.inf
    assert d.asof(10**400, direction="nearest")[0] == 1.0
    assert not d.asof(1e300, tolerance=1e30)[2]
    moments = gpulsm.Set(("uint32", "datetime64[ns]"), device=device)
    last = np.datetime64("2262-04-11T23:47:16", "ns")
    moments.insert((7, last))
    late = np.datetime64("2262-04-12", "D")
    assert moments.asof((7, late))[0] == (7, last)
    enough, too_little = np.timedelta64(764, "s"), np.timedelta64(763, "s")
    assert moments.asof((7, late), tolerance=enough)[2]
    assert not moments.asof((7, late), tolerance=too_little)[2]
    assert not moments.asof((7, late), direction="forward")[2]
    assert moments.asof((7, np.datetime64("2300", "Y")), direction="nearest")[2]
    assert moments.asof((7, np.datetime64("1500", "Y")), direction="forward")[2]
    assert np.isnat(moments.asof((8, late))[0][1])
