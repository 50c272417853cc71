"""What can be wrong with keys of several parts and of bytes, what is said of it, and that nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpulsm

WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (
        lambda d: d.lookup(np.array([1, 2], np.uint32)),
        TypeError,
        r"keys: expected a tuple of 2 columns, or of 2 scalars, \(uint32, int64\), got ndarray",
    ),
    (
        lambda d: d.lookup([(1, 2), (3, 4)]),
        TypeError,
        r"got list; `tuple\(map\(list, zip\(\*…\)\)\)` makes columns of a list of tuples",
    ),
    (
        lambda d: d.lookup(np.zeros((3, 2), np.int64)),
        TypeError,
        r"got ndarray; `tuple\(numpy.ascontiguousarray\(….T\)\)` makes columns of rows",
    ),
    (lambda d: d[7], TypeError, "key: expected a tuple of 2 columns, or of 2 scalars, .* got int"),
    (lambda d: d[None], TypeError, r"key: expected one \(uint32, int64\), got NoneType"),
    (
        lambda d: d.insert(([1], [2], [3]), [1.0]),
        TypeError,
        r"keys: expected a tuple of 2, \(uint32, int64\), got 3 of them",
    ),
    (
        lambda d: d.count(([1],), ([1],)),
        TypeError,
        r"lo: expected a tuple of 2, .* got 1 of them; `prefix_range` gives the first and the last",
    ),
    (
        lambda d: d.insert(([1, 2], [3]), [1.0]),
        ValueError,
        r"keys\[0\] has 2 elements but keys\[1\] has 1 element: give one of keys\[1\]",
    ),
    (
        lambda d: d.lookup((np.array([1.0]), [2])),
        TypeError,
        r"keys\[0\]: expected uint32, got float64; all of them are integers: `.astype\('int64'\)` makes",
    ),
    (
        lambda d: d.lookup(([1], [2.5])),
        TypeError,
        r"keys\[1\]\[0\] is of type float: expected int64",
    ),
    (
        lambda d: d.insert((2**40, 1), 1.0),
        gpulsm.OutOfRangeError,
        r"keys\[0\] is 1099511627776: uint32 goes from 0",
    ),
    (
        lambda d: d.lookup((2**40, [1])),
        gpulsm.OutOfRangeError,
        r"keys\[0\] is 1099511627776: uint32 goes",
    ),
    (lambda d: d.insert(([1], [2]), [1.0, 2.0]), ValueError, "keys: 1 key but 2 values"),
    (
        lambda d: d.update(insert=([1], [2])),
        TypeError,
        r"insert\[0\]: expected a tuple of 2 columns, .* got list",
    ),
    (
        lambda d: d.prefix_range((1, 2)),
        TypeError,
        r"prefix: expected the first part of \(uint32, int64\), got 2 of them",
    ),
    (lambda d: d.prefix_range(1.5), TypeError, r"prefix\[0\]: expected uint32, got float 1.5"),
    (lambda d: d.arrays(like="cupy"), ValueError, "like: CuPy arrays are on a GPU"),
    (lambda d: d.count((1, 2), (3, 4), closed="open"), ValueError, "closed: expected 'both'"),
    (
        lambda d: d.merge_from(gpulsm.Dictionary(("uint32", "uint32"), "float64")),
        TypeError,
        r"other: expected keys and values of \(uint32, int64\) and float64, got \(uint32, uint32\)",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_mistakes_are_named_and_change_nothing(
    call: Callable[[Any], Any], kind: type[Exception], text: str
) -> None:
    d = gpulsm.Dictionary(("uint32", "int64"), "float64", device="cpu")
    d.insert(([5, 6], [50, 60]), [0.5, 0.6])
    with pytest.raises(kind, match=text):
        call(d)
    assert list(d.items()) == [((5, 50), 0.5), ((6, 60), 0.6)]
    d.validate()


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (("uint32",), "key: expected one type, or a tuple of 2 to 4, got a tuple of 1"),
        (("uint32",) * 5, "key: expected one type, or a tuple of 2 to 4, got a tuple of 5"),
        (("uint32", "uint16"), r"key\[1\]: expected one of uint32, .* got uint16"),
        (("uint32", None), r"key\[1\]: expected one of uint32, .* got None"),
        (("uint32", "nonsense"), r"key\[1\]: expected a type, such as .*, got 'nonsense'"),
        (
            ("uint64", "uint64", "uint32"),
            r"key: expected parts of at most 16 bytes in all, got 20: \(uint64, uint64, uint32\)",
        ),
        (("S13", "uint32"), "at most 16 bytes in all, got 17"),
        ("S17", "key: expected from 1 to 16 bytes, such as 'S12', got 17"),
        ("S", "key: expected from 1 to 16 bytes, such as 'S12', got 0"),
        (("float32", 4), "key: expected one of uint32"),
        ("U4", r"key: expected one of .* `.astype\('S12'\)` bytes of short texts"),
    ],
)
def test_types_are_checked(key: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        gpulsm.Dictionary(key)


def test_bytes_that_do_not_fit_are_refused(device: str) -> None:
    d = gpulsm.Dictionary("S4", "int32", device=device)
    with pytest.raises(ValueError, match=r"keys\[1\] has 5 bytes: S4 holds 4"):
        d.insert([b"abcd", b"abcde"], [1, 2])
    with pytest.raises(ValueError, match=r"keys\[1\] has 8 bytes: S4 holds 4"):
        d.lookup(np.array([b"ab", b"abcdefgh"]))
    with pytest.raises(ValueError, match=r"keys\[1\] is b'b\\x00', which ends in a zero"):
        d.insert([b"b", b"b\0"], [1, 2])
    assert not d.contains(np.array([b"ab", b"abcd"], "S8")).any()
    with pytest.raises(TypeError, match=r"keys: expected S4, which is bytes, got a text; `.encode"):
        d.lookup("abcd")
    with pytest.raises(TypeError, match=r"keys: expected S4, got .*U4; `numpy.char.encode"):
        d.lookup(np.array(["abcd"]))
    assert len(d) == 0


def test_a_dictionary_of_plain_keys_has_no_prefixes(device: str) -> None:
    with pytest.raises(TypeError, match="prefix_range: expected keys of several parts"):
        gpulsm.Dictionary(device=device).prefix_range(1)
    with pytest.raises(TypeError, match="prefix: expected .* got keys of one part"):
        gpulsm.Set("S4", device=device).prefix_range(b"a")
