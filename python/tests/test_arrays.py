"""What comes in, and what goes out: families, buffers, types of values."""

from __future__ import annotations

import array
import copy
import datetime
import pickle
from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np
import pytest
from families import Family

import gpulsm

VALUE_TYPES = [
    "uint32",
    "int32",
    "float32",
    "uint64",
    "int64",
    "float64",
    "complex64",
    "complex128",
    "datetime64[ns]",
    "timedelta64[s]",
    "S8",
    "U1",
    "V16",
    [("x", "f4"), ("y", "f4"), ("name", "u8")],
    ("float32", 4),
    ("float64", 2),
    ("uint8", 8),
    ("uint16", (2, 2)),
]


def bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("value", VALUE_TYPES, ids=str)
def test_values_of_every_type_come_back_bit_by_bit(value: Any, device: str) -> None:
    dtype = np.dtype(value)
    rng = np.random.default_rng(7)
    keys = rng.permutation(1000).astype(np.uint32)
    raw = rng.integers(1, 100, 1000 * dtype.itemsize, dtype=np.uint8)
    if dtype.kind == "U":
        raw.reshape(-1, 4)[:, 1:] = 0  # A character's number has an end.
    values = raw.view(dtype.base).reshape(1000, *dtype.shape)
    d = gpulsm.Dictionary("uint32", value, device=device)
    d.insert(keys, values)
    found_values, found = d.lookup(keys)
    assert found.all() and found_values.dtype == dtype.base and found_values.shape == values.shape
    assert bits(found_values) == bits(values)
    in_order = values[np.argsort(keys)]
    assert bits(d.values()) == bits(in_order)
    assert bits(np.array(d[int(keys[3])], dtype.base)) == bits(values[3])
    d[5000] = values[0]
    assert bits(np.array(d[5000], dtype.base)) == bits(values[0])


def test_answers_are_of_the_family_of_the_question(family: Family, device: str) -> None:
    d = gpulsm.Dictionary("int64", "float32", device=device)
    keys = family.make(np.array([5, 1, 3], np.int64))
    d.insert(keys, family.make(np.array([0.5, 0.1, 0.3], np.float32)))
    answers = [
        *d.lookup(keys),
        d.contains(keys),
        d.count(keys, keys),
        d.count(0, keys),
        d.count(keys, 9),
        *d.range(keys, 9),
        *d.successor(keys),
        *d.predecessor(keys),
        *d.select(keys),
        d.rank(keys),
    ]
    if family.on_gpu == (device != "cpu"):
        # What no array is asked with comes from the dictionary's device.
        answers += [*d.arrays(like=keys), d.keys(like=keys), d.values(like=keys)]
    for answer in answers:
        assert isinstance(answer, family.kind())
        assert family.read(answer).dtype in ("int64", "float32", "bool")
    assert family.read(d.count(0, keys)).tolist() == [3, 1, 2]
    assert family.read(d.count(keys, 9)).tolist() == [1, 3, 2]
    if hasattr(keys, "device"):
        assert {str(answer.device) for answer in answers} == {str(keys.device)}


def test_a_scalar_goes_with_every_key(family: Family, device: str) -> None:
    e = gpulsm.Dictionary("int64", "int64", device=device)
    e.insert(family.make(np.arange(5)), 7)
    assert e.values().tolist() == [7] * 5
    e.update(insert=(9, 8), delete=family.make(np.arange(3)))
    assert e.keys().tolist() == [3, 4, 9]
    e.update(insert=(family.make(np.arange(3)), 1), delete=9)
    assert e.keys().tolist() == [0, 1, 2, 3, 4]
    points = gpulsm.Dictionary("int64", ("float32", 2), device=device)
    points.insert(family.make(np.arange(5)), np.array([1.0, 2.0], np.float32))
    assert points.values().tolist() == [[1.0, 2.0]] * 5
    points.insert(family.make(np.arange(5)), 0.5)
    points[2] = [3, 4]
    points[3] = (5.0, 6.0)
    assert points.values()[1:4].tolist() == [[0.5, 0.5], [3.0, 4.0], [5.0, 6.0]]


def test_scalars_in_scalars_out(device: str) -> None:
    d = gpulsm.Dictionary("int32", "float64", device=device)
    d.insert(5, 0.5)
    d[-7] = 1.5
    assert d.lookup(5) == (0.5, True) and d.lookup(np.int32(6)) == (0.0, False)
    assert type(d.count(-10, 10)) is int and d.count(-10, 10) == 2
    assert d.successor(-6) == (5, 0.5, True) and d.predecessor(4) == (-7, 1.5, True)
    assert d.select(0) == (-7, 1.5, True) and d.select(-1) == (5, 0.5, True)
    assert type(d.rank(5)) is int and d.rank(5) == 1
    assert d.contains(5) is True and 5 in d and 6 not in d
    assert 2**40 not in d and d.get(2**40) is None
    assert (d[5], d.get(6), d.get(6, 9.0)) == (0.5, None, 9.0)
    assert d.range(-10, 10)[1].tolist() == [-7, 5]
    del d[5]
    assert (d.first(), d.last(), len(d), bool(d)) == ((-7, 1.5), (-7, 1.5), 1, True)
    assert list(d) == [-7]
    d.clear()
    assert (d.first(), d.last(), len(d), bool(d), list(d)) == (None, None, 0, False, [])
    assert d.contains(np.array(5, np.int32)) is False  # An array of no dimension is a scalar.


def test_an_array_may_be_changed_once_the_call_has_returned(family: Family, device: str) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    keys, values = family.make(np.arange(5)), family.make(np.arange(5))
    for start in (0, 10, 20):  # Short batches are buffered.
        keys[:] = family.make(np.arange(start, start + 5))
        values[:] = keys
        d.insert(keys, values)
        keys[:] = -1
        values[:] = -1
    expected = [start + index for start in (0, 10, 20) for index in range(5)]
    assert [part.tolist() for part in d.arrays()] == [expected, expected]


def test_items_are_pairs_however_many_there_are(device: str) -> None:
    # Of exactly two keys, an iteration over two arrays would pass for one over pairs.
    d = gpulsm.Dictionary.build([20, 10], [2.5, 1.5], device=device)
    assert [(key, value) for key, value in d.items()] == [(10, 1.5), (20, 2.5)]
    assert [*reversed(d.items())] == [(20, 2.5), (10, 1.5)]
    assert dict(d.items()) == {10: 1.5, 20: 2.5} and len(d.items()) == 2
    assert (10, 1.5) in d.items() and (10, 2.5) not in d.items() and (11, 1.5) not in d.items()
    assert 10 not in d.items() and (-1, 1.5) not in d.items()
    view = d.items()
    iteration = iter(view)
    next(iteration)
    d.clear()
    assert [*iteration] == [(20, 2.5)] and [*view] == []
    many = np.arange(40_000, dtype=np.uint32)
    d = gpulsm.Dictionary.build(many, many * 3, device=device)
    assert [*d.items()] == [(key, key * 3) for key in range(40_000)]
    assert [*reversed(d.items())] == [(key, key * 3) for key in reversed(range(40_000))]


@pytest.mark.parametrize("value", VALUE_TYPES, ids=str)
def test_items_have_the_values_that_subscripts_have(value: Any) -> None:
    dtype = np.dtype(value)
    raw = np.arange(1, 1 + 3 * dtype.itemsize, dtype=np.uint8)
    values = raw.view(dtype.base).reshape(3, *dtype.shape)
    if dtype.kind == "U":  # Any bytes are no text.
        values = np.array(["a", "é", "∞"])
    d = gpulsm.Dictionary("int64", value, device="cpu")
    d.insert([-1, 0, 1], values)
    for key, item in d.items():
        assert type(item) is type(d[key])
        assert bits(item) == bits(d[key])


def test_a_set_has_no_values(device: str) -> None:
    s = gpulsm.Set("uint64", device=device)
    s.insert([3, 1, 2])
    s.update(insert=[7, 8], delete=[1, 8])
    s.update(insert=9)
    assert s.keys().tolist() == [2, 3, 7, 9] and s.arrays()[1] is None
    assert s.contains([2, 4]).tolist() == [True, False]
    assert s.first() == (2, None) and s.successor(4) == (7, None, True)
    assert s.range(0, 5)[2] is None and 2 in s and list(s) == [2, 3, 7, 9]
    with pytest.raises(TypeError, match="insert: expected keys alone, for a set has no values"):
        s.update(insert=([1, 2], None))
    with pytest.raises(TypeError, match="values: expected none"):
        s.insert([1], [1])
    assert isinstance(s, Set) and isinstance(s.snapshot(), Set) and not isinstance(s, Mapping)
    assert s & {2, 4} == {2} and s | {1} == {1, 2, 3, 7, 9} and s - {2, 3} == {7, 9}
    assert s == s and s != s.copy() and len({s, s.copy()}) == 2
    again = pickle.loads(pickle.dumps(s))
    assert isinstance(again, gpulsm.Set) and list(again) == list(s)
    thawed = pickle.loads(pickle.dumps(s.snapshot())).thaw()
    assert isinstance(thawed, gpulsm.Set) and list(thawed) == list(s)
    with pytest.raises(
        TypeError, match=r"`gpulsm.Set\('uint64'\)` makes a dictionary without values"
    ):
        gpulsm.Dictionary("uint64")
    with pytest.raises(TypeError, match=r"`gpulsm.Set.build\(keys\)` takes keys alone"):
        gpulsm.Dictionary.build([1, 2])
    assert gpulsm.Set.build(np.arange(3, dtype=np.uint32), device=device).value_dtype is None


def test_who_gives_values_to_a_set_is_told_how_it_became_one(device: str) -> None:
    made = gpulsm.Set("uint64", device=device)
    built = gpulsm.Set.build(np.arange(3, dtype=np.uint64), device=device)
    uses: list[Callable[[Any], Any]] = [
        lambda s: s.insert([1], [1]),
        lambda s: s.update(insert=([1, 2], [3, 4])),
        lambda s: s.update(insert=(np.arange(2, dtype=np.uint64), np.arange(2))),
    ]
    for s in (made, built, built.copy()):
        before = s.keys().tolist()
        for use in uses:
            with pytest.raises(TypeError, match="made without a `value` type, such as value='fl"):
                use(s)
        assert s.keys().tolist() == before
    made.update(insert=(5, 6))
    made.update(insert=(7,))
    assert list(made) == [5, 6, 7]


def test_lists_are_converted_if_every_element_fits(device: str) -> None:
    d = gpulsm.Dictionary("uint64", "int32", device=device)
    d.insert([2**64 - 1, 0], [-1, 2**31 - 1])
    d.insert(range(5, 8), (1, 2, 3))
    d.insert([], [])
    assert d.keys().tolist() == [0, 5, 6, 7, 2**64 - 1]
    with pytest.raises(ValueError, match=r"keys\[1\] is -1: uint64 goes from 0 to"):
        d.lookup([3, -1])
    with pytest.raises(TypeError, match=r"keys\[1\] is of type float: expected uint64"):
        d.lookup([3, 1.5])
    with pytest.raises(TypeError, match=r"keys\[0\] is of type bool"):
        d.lookup([True])
    with pytest.raises(ValueError, match=r"values\[0\] is 2147483648"):
        d.insert([1], [2**31])
    f = gpulsm.Dictionary("float32", "float64", device=device)
    f.insert([1, 2.5], [1, 2])
    assert f.keys().tolist() == [1.0, 2.5]
    with pytest.raises(TypeError, match=r"keys\[0\] is of type str: expected float32"):
        f.lookup(["a"])


def test_buffers_come_in_without_a_copy(device: str) -> None:
    d = gpulsm.Dictionary("int32", "float64", device=device)
    d.insert(array.array("i", [3, 1]), array.array("d", [0.3, 0.1]))
    raw = bytearray(np.array([7, 9], np.int32).tobytes())
    d.insert(memoryview(raw).cast("i"), memoryview(np.array([0.7, 0.9])))
    assert d.keys().tolist() == [1, 3, 7, 9]
    with pytest.raises(TypeError, match=r"got bytearray; `numpy.frombuffer\(…, 'int32'\)` reads"):
        d.lookup(raw)
    assert d.lookup(np.frombuffer(raw, "int32"))[1].all()
    assert d.lookup(memoryview(array.array("q", [3])))[1].all()
    with pytest.raises(TypeError, match=r"got float64; .* `numpy.asarray\(…\).astype\('int64'\)`"):
        d.lookup(memoryview(array.array("d", [3.0])))


class Capsule:
    """An array that only speaks DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_dlpack_comes_in(family: Family, device: str) -> None:
    d = gpulsm.Dictionary("int32", "int32", device=device)
    keys = Capsule(family.make(np.array([4, 2], np.int32)))
    d.insert(keys, Capsule(family.make(np.array([40, 20], np.int32))))
    values, found = d.lookup(keys)
    assert values.tolist() == [40, 20] and found.all()


def test_build_takes_its_types_from_the_arrays(family: Family, device: str) -> None:
    keys, values = np.array([3, 1, 3], np.int32), np.array([1.0, 2.0, 3.0], np.float32)
    d = gpulsm.Dictionary.build(
        family.make(keys), family.make(values), device=device, batch_size=256
    )
    assert (d.key_dtype, d.value_dtype, d.batch_size) == (np.int32, np.float32, 256)
    assert d.arrays()[1].tolist() == [2.0, 3.0]  # Of equal keys the last one wins.
    wide = gpulsm.Dictionary.build(
        family.make(keys), family.make(np.ones((3, 2), np.float64)), device=device
    )
    assert wide.value_dtype == np.dtype(("float64", 2))
    assert wide.values().shape == (2, 2)


def test_lists_of_integers_stay_integers(device: str) -> None:
    d = gpulsm.Dictionary.build([1, 2**63, 2**63 + 1], [1, 2, 3], device=device)
    assert d.key_dtype == np.uint64 and d.keys().tolist() == [1, 2**63, 2**63 + 1]
    assert gpulsm.Set.build([1, -2], device=device).key_dtype == np.int64


def test_scalars_of_other_kinds(device: str) -> None:
    d = gpulsm.Dictionary("uint32", "datetime64[s]", device=device)
    d[1] = datetime.datetime(2024, 5, 6, 7)
    assert d[1] == np.datetime64("2024-05-06T07:00:00")
    texts = gpulsm.Dictionary("uint32", "S4", device=device)
    texts[1] = b"abcd"
    assert texts[1] == b"abcd"
    for long in (b"abcde", [b"abcde"]):
        with pytest.raises(ValueError, match=r"values(\[0\])? has 5 bytes: S4 holds 4"):
            texts.insert([1], long)
    named = gpulsm.Dictionary("uint32", [("a", "f4"), ("b", "u4")], device=device)
    named[1] = (0.5, 7)
    assert named[1].tolist() == (0.5, 7)


PAIR = [("a", "i4"), ("b", "i4")]
MISFITS: list[tuple[Any, Any, type[Exception], str]] = [
    ("U4", 12345678, TypeError, "expected <U4.*, got int"),
    ("U4", None, TypeError, "expected <U4.*, got NoneType|expected <U4; only a set"),
    ("U4", 3.14159, TypeError, "expected <U4.*, got float"),
    ("U4", "abcde", ValueError, "has 5 characters: <U4 holds 4"),
    ("S4", "ab", TypeError, r"expected S4, which is bytes, got a text; `.encode\(\)` makes"),
    ("V4", b"abcdefgh", ValueError, "has 8 bytes: V4 holds 4"),
    ("V4", b"ab", ValueError, "has 2 bytes: V4 holds 4"),
    (PAIR, (1.9, 7), TypeError, "expected int32, got float 1.9"),
    (PAIR, (1, "7"), TypeError, "expected int32, got str '7'"),
    (PAIR, (1, 2**31), gpulsm.OutOfRangeError, "is 2147483648: int32 goes from"),
    (PAIR, (1,), ValueError, "expected a tuple of a, b, got 1 of them"),
    ([("a", "f4")], (None,), TypeError, "expected float32, got NoneType"),
    ("complex64", "1+2j", TypeError, "expected complex64.*, got str"),
    ("complex64", 1e300, gpulsm.OutOfRangeError, r"is 1e\+300: float32 goes from"),
    ("complex64", 1e300j, gpulsm.OutOfRangeError, r"is 1e\+300: float32 goes from"),
    ("complex64", True, TypeError, "expected complex64, got bool True"),
    (("i4", 2), [True, 2], TypeError, "is of type bool: expected int32|expected int32, got bool"),
    (("i4", 2), [1, 2.5], TypeError, "is of type float: expected int32|expected int32, got float"),
    (("bool", 4), [0, 1, 2, 3], TypeError, "expected bool, got int 0"),
    (("S2", 2), [b"ab", b"abc"], ValueError, "has 3 bytes: S2 holds 2"),
]


@pytest.mark.parametrize(("value", "item", "kind", "text"), MISFITS, ids=str)
def test_values_that_do_not_fit_are_refused(
    value: Any, item: Any, kind: Any, text: str, device: str
) -> None:
    d = gpulsm.Dictionary("uint32", value, device=device)
    with pytest.raises(kind, match=rf"^values\[0\]\S* ({text})"):
        d.insert([1], [item])
    with pytest.raises(kind, match=rf"^insert\[1\]\S* ({text})"):
        d.update(insert=([1], item))
    with pytest.raises(kind, match=rf"^values\S* ({text})"):
        d[1] = item
    if item is not None:
        with pytest.raises(kind, match=rf"^default\S* ({text})"):
            d.lookup([1], default=item)
    assert len(d) == 0


def test_elements_are_named_where_they_are(device: str) -> None:
    d = gpulsm.Dictionary("uint32", PAIR, device=device)
    with pytest.raises(TypeError, match=r"^values\[1\]\['b'\]: expected int32, got float 2.5"):
        d.insert([1, 2], [(1, 2), (3, 2.5)])
    with pytest.raises(TypeError, match=r"^values\[0\]: expected a tuple of a, b, got int"):
        d.insert([1, 2], [1, 2])
    rows = gpulsm.Dictionary("uint32", ("i4", 2), device=device)
    with pytest.raises(TypeError, match=r"^values\[1\]\[0\] is of type float: expected int32"):
        rows.insert([1, 2], [[1, 2], [3.5, 4]])
    with pytest.raises(ValueError, match=r"^values\[1\]\[1\] is 2147483648: int32 goes from"):
        rows.insert([1, 2], [[1, 2], [3, 2**31]])
    with pytest.raises(ValueError, match=r"^values\[1\]: expected int32 of shape \(2,\), got 3 "):
        rows.insert([1, 2], [[1, 2], [1, 2, 3]])
    with pytest.raises(ValueError, match=r"^values: expected an array of shape \(n, 2\)"):
        rows.insert([1, 2], [[1, 2, 3], [1, 2, 3]])


def test_elements_of_every_kind(device: str) -> None:
    """Those that fit are stored as they are, one or in a list, and so is a default."""
    nested = [("a", "M8[s]"), ("b", "i2", 2), ("c", [("d", "f2"), ("e", "S2")])]
    for value, item in (
        ("complex64", 1 - 2j),
        ("complex128", 2**53),
        ("U2", "é∞"),
        ("S4", b"ab"),
        ("V4", b"a\0\0\0"),
        (("bool", 4), [True, False, True, True]),
        (("uint16", (2, 2)), [[1, 2], [3, 4]]),
        (("S2", 2), [b"ab", b"c"]),
        (("f2", 2), [0.5, 1]),
        (nested, (np.datetime64("2024-01-01", "s"), [1, 2], (0.5, b"ab"))),
    ):
        d = gpulsm.Dictionary("uint32", value, device=device)
        d[1] = item
        d.insert([2, 3], [item, item])
        d.insert([4, 5], item)
        expected = np.array([item], np.dtype(value).base)[0]
        for found in (*d.values(), *d.lookup([1, 9], default=item)[0], d[3]):
            assert np.array_equal(found, expected)
        d[6] = d[1]  # As it comes out.
        assert np.array_equal(d[6], expected)


@pytest.mark.parametrize(("key", "odd"), [("float64", 2**53 + 1), ("float32", 2**24 + 1)])
def test_integers_are_never_rounded(key: str, odd: int, device: str) -> None:
    d = gpulsm.Dictionary(key, key, device=device)
    d.insert([odd - 1, odd + 1, 0.1, 3], [odd - 1, 0.1, 2**60, -odd + 1])
    assert len(d) == 4 and odd - 1 in d and 0.1 in d
    for given in (odd, -odd, np.int64(odd), [0, odd], [0.5, odd], [odd, 2**80], [odd, np.nan]):
        for call in (d.lookup, d.delete, d.rank, lambda one: d.insert(one, 0.5)):
            with pytest.raises(ValueError, match=f"is -?{odd}, which {key} can't hold exactly"):
                call(given)
        with pytest.raises(ValueError, match=r"`float\(…\)` says that it may be rounded"):
            d.insert([1, 2] if isinstance(given, list) else 1, given)
    d.insert(float(odd), 1)
    assert len(d) == 4


def test_copies_are_of_their_own(device: str) -> None:
    d = gpulsm.Dictionary("uint32", "float64", device=device, batch_size=64, cleanup="manual")
    d.insert(np.arange(1000, dtype=np.uint32), np.arange(1000.0))
    s = d.snapshot()
    copies = [d.copy(), copy.copy(d), copy.deepcopy(d), pickle.loads(pickle.dumps(d))]
    frozen = [s, s.copy(), copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s))]
    d.delete_range(100, 999)
    for one in copies:
        one.insert([5000], [1.0])
        assert len(one) == 1001 and one.batch_size == 64 and one.key_dtype == d.key_dtype
    for one in frozen:
        assert len(one) == 1000 and not hasattr(one, "insert")
        thawed = one.thaw()
        thawed.insert([5000], [1.0])
        assert (len(thawed), len(one)) == (1001, 1000) and thawed.batch_size == 64
        assert thawed.stats().bytes_shared < 2 * one.stats().bytes_shared
    assert len(d) == 100
    d.merge_from(s)
    assert len(d) == 1000
    d.merge_from(d)
    assert len(d) == 1000
    d.validate()


def test_statistics(device: str) -> None:
    d = gpulsm.Set.build(np.arange(100_000, dtype=np.uint32), device=device)
    d.delete(np.arange(10, dtype=np.uint32))
    stats = d.stats()
    assert (stats.live, stats.device, stats.batch_size) == (99_990, d.device, 65536)
    assert stats.entries == sum(level.entries for level in stats.levels) == stats.live + stats.stale
    assert stats.bytes_peak >= stats.bytes > 400_000
    assert "99,990 keys" in str(stats) and "99,990" in repr(d)
    assert str(d).splitlines()[0].startswith(str(stats).partition(", ")[0])
    d.flush()
    d.synchronize()


def test_keys_in_both_directions(device: str) -> None:
    d = gpulsm.Set.build(np.arange(40_000, dtype=np.uint64) * 3, device=device)
    assert list(d) == list(range(0, 120_000, 3))
    assert list(reversed(d)) == list(range(119_997, -1, -3))
    walk = iter(d)
    assert next(walk) == 0
    d.clear()
    assert len(list(walk)) == 39_999  # As it was when iterating began.


def test_building_says_which_array_is_wrong() -> None:
    with pytest.raises(TypeError, match="keys: expected one of uint32, .*, got int16"):
        gpulsm.Set.build(np.zeros(3, np.int16))
    with pytest.raises(TypeError, match="values: expected a type of 4, 8 or 16 bytes"):
        gpulsm.Dictionary.build(np.zeros(3), np.zeros(3, bool))
    for texts in (["a", "b"], np.array(["a"]), np.array(["a"], object)):
        with pytest.raises(TypeError, match=r"`pandas.factorize\(…\)` makes numbers of texts"):
            gpulsm.Set.build(texts)
    with pytest.raises(TypeError, match="keys: of an empty list the type can't be told"):
        gpulsm.Dictionary.build([], [])
    with pytest.raises(ValueError, match="keys: no type of integers goes from -1 to"):
        gpulsm.Set.build([-1, 2**63])
    with pytest.raises(TypeError, match=r"values\[1\] is of type NoneType: expected a number"):
        gpulsm.Dictionary.build([1, 2], [1.0, None])
    with pytest.raises(TypeError, match="values: expected plain data, got object"):
        gpulsm.Dictionary.build([1, 2], np.array([1.0, None]))
    with pytest.raises(TypeError, match="keys: .* got lists of different lengths"):
        gpulsm.Set.build([[1], [1, 2]])
    with pytest.raises(TypeError, match=r"got generator; `list\(…\)` makes a list of it"):
        gpulsm.Set.build(key for key in (1, 2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got zip; `keys, values = zip\(\*…\)` makes"):
        gpulsm.Set.build(zip([1], [2], strict=True))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"values: expected an array, got int; .*`value=`"):
        gpulsm.Dictionary.build([1, 2], 5)
    assert gpulsm.Dictionary.build([1, 2], 5, value="int32")[1] == 5
    with pytest.raises(TypeError, match=r"keys: expected an array, got dict; `list\(….keys"):
        gpulsm.Set.build({1: 2})
    with pytest.raises(TypeError, match="key: expected a type, .*, got {1: 2}"):
        gpulsm.Dictionary({1: 2})


def test_devices_are_listed(device: str) -> None:
    assert gpulsm.devices()[0] == "cpu"
    assert gpulsm.best_device() in gpulsm.devices()
    assert device.removesuffix(":0") in gpulsm.devices()


class LongList(list[int]):
    """A list that says that it has more than it has."""

    def __len__(self) -> int:
        return 1 << 20


class LongArray(np.ndarray):  # type: ignore[type-arg]
    """An array that says that it has more than it has, and is somewhere else."""

    def __len__(self) -> int:
        return 1 << 20

    @property
    def ctypes(self) -> Any:
        return None

    @property
    def __array_interface__(self) -> Any:
        return {**np.arange(3).__array_interface__, "shape": (1 << 20,)}


def test_what_arrays_say_of_themselves_is_not_relied_on(device: str) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    keys = np.arange(3)
    for given in (LongList([0, 1, 2]), keys.view(LongArray)):
        d.insert(given, given)
        d.set(given, keys)
        assert len(d) == 3 and d.values().tolist() == [0, 1, 2]
        assert d.lookup(given)[0].tolist() == [0, 1, 2]
        assert d.count(given, given).tolist() == [1, 1, 1] and d.rank(given).tolist() == [0, 1, 2]
        assert d.range(given, given)[1].tolist() == [0, 1, 2]
        d.delete(given)
        assert len(d) == 0 and gpulsm.Set.build(given, device=device).keys().tolist() == [0, 1, 2]
    d.validate()


def test_a_tensor_of_a_subclass_is_read_as_a_tensor(device: str) -> None:
    torch = pytest.importorskip("torch")

    class LongTensor(torch.Tensor):  # type: ignore[misc]
        def __len__(self) -> int:
            return 1 << 20

        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            return torch.zeros(1 << 20, dtype=torch.int64)

    d = gpulsm.Dictionary("int64", "int64", device=device)
    keys = torch.arange(3).as_subclass(LongTensor)
    d.insert(keys, keys)
    assert d.keys().tolist() == [0, 1, 2] and d.lookup(keys)[0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("uint32", np.arange(20)[::2]),
        ("uint32", np.arange(10, dtype=">u4")),
        ("int64", np.arange(10, dtype=np.int64)[::-1]),
        ("uint64", np.arange(40, dtype=np.uint64).reshape(20, 2)[:, 1]),
        ("int64", np.arange(10, dtype=np.uint8)),
        ("float64", np.arange(10)),
        ("float32", np.arange(10, dtype=np.float32)[::-3]),
        ("float64", np.arange(10, dtype=np.float16)),
        ("S4", np.array([b"a", b"bcd"], "S9")),
        ("datetime64[s]", np.arange(10).astype("datetime64[m]")[::-1]),
        ("int64", np.frombuffer(b"\1" * 81, np.uint8)[1:].view(np.int64)),
    ],
)
def test_what_fits_is_converted(key: str, given: Any, device: str) -> None:
    d = gpulsm.Dictionary(key, "int64", device=device)
    wanted = given.astype(key)
    d.insert(given, np.arange(len(given)))
    kept, order = np.unique(wanted[::-1], return_index=True)
    assert (d.keys() == kept).all() and d.keys().dtype == key
    assert d.values().tolist() == (len(given) - 1 - order).tolist()
    assert d.contains(given).all() and d.count(given, given).tolist() == [1] * len(given)
    d.delete(given)
    assert len(d) == 0


@pytest.mark.parametrize(
    ("key", "given", "text"),
    [
        ("uint32", np.array([1, -1]), r"keys\[1\] is -1: uint32 goes from 0 to"),
        (
            "uint32",
            np.array([1, 2**32]),
            r"keys\[1\] is 4294967296: uint32 goes from 0 to 4294967295",
        ),
        ("float64", np.array([1, 2**53 + 1]), r"keys\[1\] is 9007199254740993.* float64"),
        ("S4", np.array([b"a", b"abcde"]), r"keys\[1\] has 5 bytes: S4 holds 4"),
        ("S4", [b"ab\0"], r"keys\[0\].* zero"),
    ],
)
def test_what_does_not_fit_is_named(key: str, given: Any, text: str, device: str) -> None:
    d = gpulsm.Set(key, device=device)
    with pytest.raises((ValueError, OverflowError), match=text):
        d.insert(given)
    assert len(d) == 0


def test_rows_are_not_taken_for_columns(device: str) -> None:
    d = gpulsm.Set(("int64", "int64"), device=device)
    for rows in (((1, 2), (3, 4)), [(1, 2), (3, 4)]):
        with pytest.raises(TypeError, match="column"):
            d.insert(rows)
    d.insert(([1, 3], [2, 4]))
    assert list(d) == [(1, 2), (3, 4)]
