"""Random operation lists, every type, every operation, against the oracle."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from families import Family
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, same

import gpulsm

KEYS = ["uint32", "uint64", "int32", "int64", "float32", "float64"]
CLOSED: list[Any] = ["both", "left", "right", "neither"]
VALUES = ["uint32", "float32", "int64", "float64", "complex128", None]


def key_strategy(dtype: str) -> st.SearchStrategy[Any]:
    """Keys that often meet each other, and the ends of the type."""
    if dtype.startswith("float"):
        width = 32 if dtype == "float32" else 64
        return st.sampled_from([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan]) | st.floats(
            -4, 4, width=width
        )
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.min + 1, limits.max - 1, limits.max]
    return st.integers(max(limits.min, -20), 40) | st.sampled_from([int(end) for end in ends])


def operation_strategy(dtype: str, *others: str) -> st.SearchStrategy[Any]:
    """One operation of those that every dictionary has, or of others."""
    keys = st.lists(key_strategy(dtype), max_size=24)
    return st.one_of(
        st.tuples(st.just("update"), keys, keys),
        st.tuples(st.just("update"), keys, keys),
        st.tuples(st.just("delete_range"), keys, keys),
        st.tuples(st.sampled_from(["ask", "ask", "cleanup", "clear", "copy", *others]), keys, keys),
    )


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", KEYS)
def test_operations_agree_with_the_oracle(
    key: str, value: str | None, family: Family, device: str
) -> None:
    if not family.holds(key) or (value is not None and not family.holds(value)):
        pytest.skip(f"{family.name} has no arrays of these types")

    @settings(max_examples=15 if device == "cpu" else 6, deadline=None)
    @given(
        operations=st.lists(operation_strategy(key, "write"), max_size=12),
        batch=st.sampled_from([1, 8, 64]),
    )
    def check(operations: list[Any], batch: int) -> None:
        run(operations, Run(key, value, family, device, batch))

    check()


class Run:
    """A dictionary and the oracle, side by side."""

    def __init__(
        self, key: str, value: str | None, family: Family, device: str, batch: int
    ) -> None:
        self.family = family
        self.key, self.value = np.dtype(key), None if value is None else np.dtype(value)
        made = gpulsm.Set(key, batch_size=batch, device=device)
        if value is not None:
            made = gpulsm.Dictionary(key, value, batch_size=batch, device=device)
        self.dictionary: Any = made
        self.oracle = Oracle()
        self.written = 0

    def keys(self, keys: list[Any]) -> Any:
        return self.family.make(np.array(keys, self.key))

    def exact(self, keys: list[Any]) -> list[Any]:
        """Keys as the type holds them."""
        exact: list[Any] = np.array(keys, self.key).tolist()
        return exact

    def new_values(self, count: int) -> tuple[Any, list[Any]]:
        """Values that were never written before."""
        self.written += count
        if self.value is None:
            return None, [None] * count
        values = np.arange(self.written - count, self.written).astype(self.value)
        return self.family.make(values), values.tolist()

    def pairs(self, keys: Any, values: Any, found: Any) -> list[tuple[Any, Any] | None]:
        """Answers of at most one pair each; those that are none must be zeros."""
        keys, found = self.family.read(keys), self.family.read(found)
        assert found.dtype == bool and not keys[~found].any()
        return [
            (same(key), value) if there else None
            for key, value, there in zip(
                keys.tolist(), self.values(values, found), found.tolist(), strict=True
            )
        ]

    def values(self, values: Any, found: Any) -> list[Any]:
        if self.value is None:
            assert values is None
            return [None] * len(found)
        values = self.family.read(values)
        assert values.dtype == self.value and not values[~found].any()
        listed: list[Any] = values.tolist()
        return listed


def run(operations: list[Any], run: Run) -> None:
    for name, first, second in operations:
        dictionary, oracle = run.dictionary, run.oracle
        if name == "update":
            given, values = run.new_values(len(first))
            keys = run.keys(first)
            inserts = keys if run.value is None else (keys, given)
            dictionary.update(insert=inserts, delete=run.keys(second))
            oracle.update(run.exact(first), values, run.exact(second))
        elif name == "delete_range":
            count = min(len(first), len(second))
            lo, hi, closed = first[:count], second[:count], CLOSED[count % 4]
            dictionary.delete_range(run.keys(lo), run.keys(hi), closed=closed)
            oracle.delete_range(run.exact(lo), run.exact(hi), closed)
        elif name == "write":
            write(run, first, second)
        elif name == "clear":
            dictionary.clear()
            oracle.clear()
        elif name == "cleanup":
            dictionary.cleanup()
        elif name == "copy":
            run.dictionary = dictionary.copy()
        else:
            ask(run, first, second)
        dictionary.validate()
    ask(run, [0, 1, 5], [5, 0, 9])


def write(run: Run, first: list[Any], second: list[Any]) -> None:
    """Inserts, deletes a range, inserts some of them again, and deletes: in this order."""
    given, values = run.new_values(len(first))
    lo, hi = first[:1], second[:1]
    count = min(len(lo), len(hi))
    inserted, again = run.exact(first), run.exact(first[:3])
    pairs = (given,) if run.value is not None else ()
    some = (given[:3],) if run.value is not None else ()
    operations = [
        ("insert", np.array(first, run.key), *map(run.family.read, pairs)),
        ("delete_range", np.array(lo[:count], run.key), np.array(hi[:count], run.key)),
        ("insert", np.array(first[:3], run.key), *map(run.family.read, some)),
        ("delete", np.array(second[1:], run.key)),
    ]
    run.dictionary.write(operations)
    run.oracle.update(inserted, values, [])
    run.oracle.delete_range(run.exact(lo[:count]), run.exact(hi[:count]), "both")
    run.oracle.update(again, values[:3], [])
    run.oracle.update([], [], run.exact(second[1:]))


def ask(run: Run, first: list[Any], second: list[Any]) -> None:
    """Asks everything of the dictionary, of a snapshot, and of the oracle."""
    oracle, family = run.oracle, run.family
    first, second = (np.array(keys, run.key).tolist() for keys in (first, second))
    count = min(len(first), len(second))
    lo, hi = first[:count], second[:count]
    for asked in (run.dictionary, run.dictionary.snapshot()):
        assert len(asked) == len(oracle.pairs)
        there = family.read(asked.contains(run.keys(first)))
        values = None
        if run.value is not None:
            values, found = asked.lookup(run.keys(first))
            assert family.read(found).tolist() == there.tolist()
        answers = [v if f else None for v, f in zip(run.values(values, there), there, strict=True)]
        assert answers == oracle.lookup(first)
        for closed in CLOSED:
            counts = asked.count(run.keys(lo), run.keys(hi), closed=closed)
            assert family.read(counts).tolist() == oracle.count(lo, hi, closed)
        assert family.read(asked.rank(run.keys(first))).tolist() == oracle.rank(first)
        expected = [_same(pair) for pair in oracle.successor(first)]
        assert run.pairs(*asked.successor(run.keys(first))) == expected
        expected = [_same(pair) for pair in oracle.predecessor(first)]
        assert run.pairs(*asked.predecessor(run.keys(first))) == expected
        length = len(oracle.pairs)
        indices = [-1, 0, 1, -length, length - 1, length, -length - 1, 2**62, -(2**62)]
        expected = [_same(pair) for pair in oracle.select(indices)]
        assert run.pairs(*asked.select(family.make(np.array(indices, np.int64)))) == expected
        for closed in CLOSED:
            check_ranges(run, asked, lo, hi, closed)
        check_all(run, asked)


def check_ranges(run: Run, asked: Any, lo: list[Any], hi: list[Any], closed: Any) -> None:
    offsets, keys, values = asked.range(run.keys(lo), run.keys(hi), closed=closed)
    offsets, keys = run.family.read(offsets), run.family.read(keys)
    found = np.ones(len(keys), bool)
    pairs = list(zip(map(same, keys.tolist()), run.values(values, found), strict=True))
    answers = [pairs[start:end] for start, end in pairwise(offsets)]
    expected = [
        [(same(key), value) for key, value in answer] for answer in run.oracle.range(lo, hi, closed)
    ]
    assert answers == expected


def check_all(run: Run, asked: Any) -> None:
    expected = [_same(pair) for pair in run.oracle.items()]
    keys, values = asked.arrays()
    assert keys.dtype == run.key
    found = np.ones(len(keys), bool)
    values = [None] * len(keys) if values is None else values[found].tolist()
    assert list(zip(map(same, keys.tolist()), values, strict=True)) == expected
    assert [same(key) for key in asked] == [pair[0] for pair in expected if pair]
    first, last = asked.first(), asked.last()
    ends = [_same(pair) for pair in (first, last)]
    assert ends == ([expected[0], expected[-1]] if expected else [None, None])


def _same(pair: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
    return None if pair is None else (same(pair[0]), pair[1])
