"""Keys of several parts, and of bytes, in arrays of every family, against NumPy's on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from families import Family

import gpulsm

CLOSED: list[Any] = ["both", "left", "right", "neither"]
DIRECTIONS: list[Any] = ["backward", "forward", "nearest"]
#: Types of keys of every width, with parts of every kind but times, of which only NumPy has arrays.
KEYS: list[Any] = [
    ("uint32", "int32"),
    ("uint32", "int64"),
    ("int64", "uint64"),
    ("float32", "uint32"),
    ("uint32", "float64"),
    ("S2", "int32", "S1"),
    ("int32", "uint32", "float32", "S4"),
    "S1",
    "S3",
    "S8",
    "S16",
]
#: Types of keys that end with a number, each with tolerances.
ENDING_WITH_A_NUMBER: list[tuple[Any, list[Any]]] = [
    ("uint32", [None, 0, 2, 2**64 - 1]),
    ("int64", [None, 0, 2, 2**63]),
    ("float32", [None, 0.0, 1.5]),
    ("float64", [None, 0.0, 3.0]),
    (("uint32", "int32"), [None, 1, 2**32]),
    (("uint32", "int64"), [None, 3, 2**64 - 1]),
    (("S2", "uint32"), [None, 0, 2]),
    (("uint32", "float64"), [None, 1.0]),
    (("float32", "int32", "float32"), [None, 0.0, 2.0]),
    (("int32", "uint64"), [None, 4]),
]


class Keys:
    """Random keys of a type, that often meet each other and the ends of their types, in arrays of a family."""

    def __init__(self, spec: Any, family: Family, seed: int = 1) -> None:
        self.parts = [np.dtype(part) for part in (spec if isinstance(spec, tuple) else (spec,))]
        self.is_tuple = isinstance(spec, tuple)
        self.family = family
        self.random = np.random.default_rng(seed)
        for part in self.parts:
            if part.kind != "S" and not family.holds(part):
                pytest.skip(f"{family.name} has no arrays of {part}")

    def draw(self, count: int) -> Any:
        return self._whole([self._column(part, count) for part in self.parts])

    def _column(self, part: Any, count: int) -> Any:
        if part.kind == "S":
            some = np.array([0, 1, 97, 255], np.uint8)
            return self.random.choice(some, count * part.itemsize).view(part)
        if part.kind == "f":
            some = [0.0, -0.0, 1.5, -1.5, 2.5, 3.0, np.inf, -np.inf, np.nan]
            return self.random.choice(np.array(some, part), count)
        limits = np.iinfo(part)
        near = [max(limits.min, -3) + step for step in range(9)]
        return self.random.choice(np.array([*near, limits.min, limits.max], part), count)

    def _whole(self, columns: list[Any]) -> Any:
        return tuple(columns) if self.is_tuple else columns[0]

    def columns(self, keys: Any) -> list[Any]:
        return [*keys] if self.is_tuple else [keys]

    def make(self, keys: Any) -> Any:
        """The same keys in arrays of the family, where bytes are rows of uint8."""
        is_numpy = self.family.name == "numpy"
        made = [
            self.family.make(
                column
                if part.kind != "S" or is_numpy
                else column.view(np.uint8).reshape(-1, part.itemsize)
            )
            for column, part in zip(self.columns(keys), self.parts, strict=True)
        ]
        return self._whole(made)

    def read(self, keys: Any) -> Any:
        """The reverse; keys of answers."""
        read = []
        for column, part in zip(self.columns(keys), self.parts, strict=True):
            assert isinstance(column, self.family.kind())
            array = self.family.read(column)
            read.append(array.reshape(-1).view(part) if part.kind == "S" else array)
        return self._whole(read)

    def check(self, answer: Any, expected: Any) -> None:
        """An error unless keys are the same, bit for bit."""
        for one, other in zip(self.columns(self.read(answer)), self.columns(expected), strict=True):
            assert one.dtype == other.dtype and one.tobytes() == other.tobytes()


def check_arrays(family: Family, answers: Any, expected: Any) -> None:
    for answer, right in zip(answers, expected, strict=True):
        assert isinstance(answer, family.kind())
        read = family.read(answer)
        assert read.dtype == right.dtype and (read == right).all()


def two(spec: Any, device: str, keys: Keys) -> tuple[gpulsm.Dictionary, gpulsm.Dictionary]:
    """A dictionary on the CPU with NumPy's arrays, and one with those of the family, changed in every way."""
    on_cpu = gpulsm.Dictionary(spec, "int32", device="cpu", batch_size=64)
    here = gpulsm.Dictionary(spec, "int32", device=device, batch_size=64)
    for step in range(8):
        some, others, ends = keys.draw(100), keys.draw(40), keys.draw(40)
        values = keys.random.integers(0, 1000, 100).astype(np.int32)
        for d, make, array in (
            (on_cpu, lambda given: given, np.asarray),
            (here, keys.make, keys.family.make),
        ):
            if step % 4 == 0:
                d.insert(make(some), array(values), duplicates="first")
            elif step % 4 == 1:
                d.update(insert=(make(some), array(values)), delete=make(others))
            elif step % 4 == 2:
                d.set(make(some), array(values))
                d.delete(make(others))
            elif step == 7:
                d.delete_range(make(others), make(ends), closed="neither")
                d.insert(make(some), array(values))
        here.validate()
    return on_cpu, here


@pytest.mark.parametrize("spec", KEYS, ids=str)
def test_every_answer_is_that_of_numpy(spec: Any, family: Family, device: str) -> None:
    keys = Keys(spec, family)
    on_cpu, d = two(spec, device, keys)
    asked, ends = keys.draw(500), keys.draw(500)
    here, last = keys.make(asked), keys.make(ends)
    check_arrays(family, d.lookup(here, default=-1), on_cpu.lookup(asked, default=-1))
    check_arrays(family, [d.contains(here)], [on_cpu.contains(asked)])
    check_arrays(family, [d.rank(here)], [on_cpu.rank(asked)])
    for closed in CLOSED:
        counts = on_cpu.count(asked, ends, closed=closed)
        check_arrays(family, [d.count(here, last, closed=closed)], [counts])
        counts = on_cpu.count(None, asked, closed=closed)
        check_arrays(family, [d.count(None, here, closed=closed)], [counts])
        offsets, in_ranges, values = d.range(here, last, closed=closed)
        right = on_cpu.range(asked, ends, closed=closed)
        check_arrays(family, [offsets, values], [right[0], right[2]])
        keys.check(in_ranges, right[1])
        check_arrays(
            family, [d.sum(here, last, closed=closed)], [on_cpu.sum(asked, ends, closed=closed)]
        )
    check_arrays(family, d.max(here, last), on_cpu.max(asked, ends))
    indices = np.arange(-5, 400)
    for answer, right in (
        (d.successor(here), on_cpu.successor(asked)),
        (d.snapshot().predecessor(here), on_cpu.predecessor(asked)),
        (d.select(family.make(indices)), on_cpu.select(indices)),
    ):
        keys.check(answer[0], right[0])
        check_arrays(family, answer[1:], right[1:])
    if family.on_gpu or device == "cpu":
        like: Any = family.name.partition("-")[0]
        for answer, right in (
            (d.arrays(like=like), on_cpu.arrays()),
            (d.last(7, like=like), on_cpu.last(7)),
        ):
            keys.check(answer[0], right[0])
            check_arrays(family, answer[1:], right[1:])


@pytest.mark.parametrize(("spec", "tolerances"), ENDING_WITH_A_NUMBER, ids=str)
@pytest.mark.parametrize("value", ["int32", ("float64", 2), None], ids=str)
def test_as_of_answers_are_those_of_numpy(
    spec: Any, tolerances: list[Any], value: Any, family: Family, device: str
) -> None:
    keys = Keys(spec, family)
    make: Any = gpulsm.Set if value is None else partial(gpulsm.Dictionary, value=value)
    on_cpu, d = make(spec, device="cpu", batch_size=64), make(spec, device=device, batch_size=64)
    for _ in range(4):
        some, others = keys.draw(30), keys.draw(10)
        values = np.ones((30, 2)) if isinstance(value, tuple) else np.ones(30, value)
        values = values * keys.random.integers(1, 99, values.shape).astype(values.dtype)
        on_cpu.update(insert=some if value is None else (some, values), delete=others)
        made = keys.make(some)
        inserted = made if value is None else (made, family.make(values))
        d.update(insert=inserted, delete=keys.make(others))
    asked = keys.draw(1000)
    here = keys.make(asked)
    for direction in DIRECTIONS:
        for tolerance in tolerances:
            for exact in (True, False):
                options: Any = {
                    "direction": direction,
                    "tolerance": tolerance,
                    "allow_exact_matches": exact,
                }
                answer, right = d.asof(here, **options), on_cpu.asof(asked, **options)
                keys.check(answer[0], right[0])
                if value is None:
                    assert answer[1] is None
                else:
                    check_arrays(family, answer[1:2], right[1:2])
                check_arrays(family, answer[2:], right[2:])


def test_scalars_stand_for_a_whole_column(family: Family, device: str) -> None:
    d = gpulsm.Dictionary(("uint32", "int64"), "int32", device=device)
    times = family.make(np.array([1, 2, 3]))
    d.insert((7, times), family.make(np.array([10, 20, 30], np.int32)))
    d.insert((8, times), 5)
    values, found = d.lookup((7, family.make(np.array([3, 4]))))
    assert values.tolist() == [30, 0] and found.tolist() == [True, False]
    assert d.count((7, times), (8, 1)).tolist() == [4, 3, 2]
    assert d.count((7, times), (8, 1), closed="neither").tolist() == [2, 1, 0]
    assert d.count((7, times), None, closed="right").tolist() == [5, 4, 3]
    (by, on), values, found = d.asof((7, family.make(np.array([0, 9]))))
    assert by.tolist() == [0, 7] and on.tolist() == [0, 3] and values.tolist() == [0, 30]
    d.delete((7, times))
    assert list(d) == [(8, 1), (8, 2), (8, 3)]


@pytest.mark.parametrize("spec", [("uint32", "float32"), ("int64", "S3", "S5")], ids=str)
def test_prefixes_are_ranges_of_the_family(spec: Any, family: Family, device: str) -> None:
    keys = Keys(spec, family)
    on_cpu, d = two(spec, device, keys)
    prefix = keys.columns(keys.draw(50))[0]
    lo, hi = d.prefix_range(family.make(prefix))
    expected = on_cpu.prefix_range(prefix)
    keys.check(lo, expected[0])
    keys.check(hi, expected[1])
    check_arrays(family, [d.count(lo, hi)], [on_cpu.count(*expected)])
    d.delete_range(lo, hi)
    on_cpu.delete_range(*expected)
    assert len(d) == len(on_cpu)


def test_answers_are_written_to_columns_of_the_caller(family: Family, device: str) -> None:
    columns = [family.make(np.array([1, 1])), family.make(np.array([5, 9], np.int32))]
    values = family.make(np.array([50, 90]))
    d = gpulsm.Dictionary.build((columns[0], columns[1]), values, device=device)
    assert d.key_dtype == (np.dtype("int64"), np.dtype("int32"))
    out: Any = (
        (family.make(np.full(2, 99)), family.make(np.full(2, 99, np.int32))),
        family.make(np.full(2, 99)),
        family.make(np.full(2, True)),
    )
    asked = family.make(np.array([1, 0])), family.make(np.array([7, 7], np.int32))
    (by, on), values, found = d.predecessor(asked, out=out)
    assert by is out[0][0] and on is out[0][1] and values is out[1] and found is out[2]
    assert (by.tolist(), on.tolist(), values.tolist()) == ([1, 0], [5, 0], [50, 0])
    with pytest.raises(TypeError, match=r"out\[0\]\[1\]: expected int32, got int64"):
        d.predecessor(asked, out=((out[0][0], out[1]), *out[1:]))


@pytest.mark.parametrize("spec", [("uint32", "uint32"), ("uint32", "int64"), "S12"], ids=str)
def test_duplicates_are_found(spec: Any, family: Family, device: str) -> None:
    keys = Keys(spec, family)
    drawn = keys.draw(2)
    thrice = [np.concatenate([column, column[:1]]) for column in keys.columns(drawn)]
    some = keys.make(tuple(thrice) if keys.is_tuple else thrice[0])
    d = gpulsm.Set(spec, device=device)
    with pytest.raises(
        gpulsm.DuplicateKeyError, match=r"keys\[2\] is .*, as keys\[0\] is"
    ) as error:
        d.insert(some, duplicates="error")
    assert error.value.positions == (0, 2)
    d.insert(keys.make(drawn), duplicates="error")
    assert len(d) == 2


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda d, make: d.lookup((make([1], "u4"), make([1, 2], "i8"))),
            ValueError,
            r"keys\[0\] has 1 element but keys\[1\] has 2 elements",
        ),
        (
            lambda d, make: d.lookup((make([1], "u4"), make([1], "f8"))),
            TypeError,
            r"keys\[1\]: expected int64, got float64",
        ),
        (
            lambda d, make: d.insert((make([1], "u4"), make([1], "i8")), make([1, 2], "i4")),
            ValueError,
            "keys: 1 key but 2 values",
        ),
    ],
)
def test_mistakes_are_named(
    call: Callable[[Any, Any], Any],
    kind: type[Exception],
    text: str,
    family: Family,
    device: str,
) -> None:
    d = gpulsm.Dictionary(("uint32", "int64"), "int32", device=device)
    with pytest.raises(kind, match=text):
        call(d, lambda items, dtype: family.make(np.array(items, dtype)))
    assert len(d) == 0
