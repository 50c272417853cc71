"""Answers in arrays of the caller's, and values for keys that are missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from families import Family

import gpulsm


def test_answers_are_written_to_the_callers_arrays(family: Family, device: str) -> None:
    d = gpulsm.Dictionary("int64", "float32", device=device)
    keys = family.make(np.array([5, 1, 3], np.int64))
    d.insert(keys, family.make(np.array([0.5, 0.1, 0.3], np.float32)))
    asked = family.make(np.array([3, 4, 5, -1], np.int64))

    def room(dtype: Any) -> Any:
        return family.make(np.full(4, 99, np.uint8).view(np.uint8).astype(dtype))

    for question, dtypes in (
        (lambda out: d.lookup(asked, out=out), ["f4", "?"]),
        (lambda out: d.lookup(asked, default=7.5, out=out), ["f4", "?"]),
        (lambda out: d.successor(asked, out=out), ["i8", "f4", "?"]),
        (lambda out: d.predecessor(asked, out=out), ["i8", "f4", "?"]),
        (lambda out: d.select(asked, out=out), ["i8", "f4", "?"]),
        (lambda out: d.contains(asked, out=out), ["?"]),
        (lambda out: d.rank(asked, out=out), ["i8"]),
        (lambda out: d.count(asked, 4, out=out), ["i8"]),
        (lambda out: d.snapshot().count(None, asked, closed="left", out=out), ["i8"]),
    ):
        rooms = tuple(map(room, dtypes))
        answers = question(rooms if len(rooms) > 1 else rooms[0])
        expected = question(None)
        if len(rooms) == 1:
            answers, expected = (answers,), (expected,)
        assert all(answer is one for answer, one in zip(answers, rooms, strict=True))
        for answer, right in zip(answers, expected, strict=True):
            assert family.read(answer).tolist() == family.read(right).tolist()


def test_a_set_has_no_array_of_values(device: str) -> None:
    s = gpulsm.Set.build(np.array([1, 2]), device=device)
    found = np.ones(2, bool)
    keys, values, answer = s.successor(np.array([2, 3]), out=(np.zeros(2, int), None, found))
    assert values is None and answer is found and found.tolist() == [True, False]
    with pytest.raises(TypeError, match=r"out\[1\]: expected None, for a set has no values"):
        s.successor(np.array([2, 3]), out=(np.zeros(2, int), np.zeros(2), found))
    assert keys.tolist() == [2, 0]


def test_booleans_may_have_been_any_bytes(device: str) -> None:
    d = gpulsm.Set.build(np.arange(5), device=device)
    found = np.full(3, 77, np.uint8).view(bool)
    d.contains(np.array([1, 9, 2]), out=found)
    assert found.view(np.uint8).tolist() == [1, 0, 1]


KEYS = np.array([1, 2, 3])
WRONG: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    (
        "type",
        lambda d: d.rank(KEYS, out=np.zeros(3, np.int32)),
        TypeError,
        r"out: expected int64, got int32",
    ),
    (
        "length",
        lambda d: d.rank(KEYS, out=np.zeros(4, np.int64)),
        ValueError,
        "out has 4 elements: expected 3, one for each question",
    ),
    ("shape", lambda d: d.rank(KEYS, out=np.zeros((3, 1), np.int64)), ValueError, r"shape \(n,\)"),
    ("strides", lambda d: d.rank(KEYS, out=np.zeros(6, np.int64)[::2]), ValueError, "contiguous"),
    ("list", lambda d: d.rank(KEYS, out=[0, 0, 0]), TypeError, "an array of NumPy, got list"),
    (
        "scalar",
        lambda d: d.rank(5, out=np.zeros(1, np.int64)),
        ValueError,
        "with a scalar question",
    ),
    ("one", lambda d: d.lookup(KEYS, out=np.zeros(3)), TypeError, "tuple of 2 arrays, got ndarray"),
    ("few", lambda d: d.lookup(KEYS, out=(KEYS,)), TypeError, "a tuple of 2 arrays, got 1 of them"),
    (
        "read-only",
        lambda d: d.rank(KEYS, out=np.frombuffer(bytes(24), np.int64)),
        ValueError,
        "out: expected an array that can be written to",
    ),
    ("the question", lambda d: d.rank(KEYS, out=KEYS), ValueError, "out and keys share memory"),
    (
        "twice the same",
        lambda d: d.successor(KEYS, out=(*[np.zeros(3, np.int64)] * 2, np.zeros(3, bool))),
        ValueError,
        r"out\[1\] and out\[0\] share memory",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "text"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_arrays_that_can_not_be_written_to_are_refused(
    call: Callable[[Any], Any], kind: type[Exception], text: str, device: str
) -> None:
    d = gpulsm.Dictionary.build(KEYS.copy(), KEYS.copy(), device=device)
    with pytest.raises(kind, match=text):
        call(d)
    assert KEYS.tolist() == [1, 2, 3]


def test_out_is_of_the_family_of_the_question(family: Family, device: str) -> None:
    if family.name == "numpy":
        pytest.skip("it is the family of both")
    d = gpulsm.Dictionary.build(KEYS.copy(), KEYS.copy(), device=device)
    with pytest.raises(TypeError, match="out: expected an array of .*, as the question is, got"):
        d.rank(family.make(KEYS), out=np.zeros(3, np.int64))
    with pytest.raises(TypeError, match="out: expected an array of NumPy on the host, as the"):
        d.rank(KEYS, out=family.make(np.zeros(3, np.int64)))


@pytest.mark.parametrize(
    ("value", "default"),
    [
        ("uint32", 2**32 - 1),
        ("int64", -1),
        ("float32", np.nan),
        ("float64", -0.5),
        ("complex128", 1j),
        (("float32", 2), [1.5, 2.5]),
        (("float64", 2), 0.5),
        (("uint8", 4), [1, 2, 3, 255]),
        ("datetime64[s]", np.datetime64("NaT")),
        ([("a", "f4"), ("b", "u4")], (0.5, 7)),
    ],
    ids=str,
)
def test_what_missing_keys_get(value: Any, default: Any, family: Family, device: str) -> None:
    dtype = np.dtype(value)
    if not family.holds(dtype.base):
        pytest.skip(f"{family.name} has no arrays of {dtype.base}")
    d = gpulsm.Dictionary("int64", value, device=device)
    d.insert([1, 3], np.zeros((2, *dtype.shape), dtype.base))
    asked = family.make(np.array([1, 2, 3, 4], np.int64))
    values, found = d.lookup(asked, default=default)
    expected = np.zeros((4, *dtype.shape), dtype.base)
    expected[[1, 3]] = default
    assert family.read(values).tobytes() == expected.tobytes()
    assert family.read(found).tolist() == [True, False, True, False]
    assert len(d.lookup(asked[:0], default=default)[0]) == 0
    one, there = d.lookup(2, default=default)
    assert there is False and np.array(one, dtype.base).tobytes() == expected[1].tobytes()
    none = d.lookup(family.make(np.array([1, 3], np.int64)), default=default)[0]
    assert family.read(none).tobytes() == expected[[0, 2]].tobytes()


def test_a_default_must_fit(device: str) -> None:
    d = gpulsm.Dictionary("int64", "uint32", device=device)
    with pytest.raises(ValueError, match="default is -1: uint32 goes from 0"):
        d.lookup([1], default=-1)
    with pytest.raises(TypeError, match=r"default: expected uint32, got float 1.5"):
        d.lookup(1, default=1.5)
