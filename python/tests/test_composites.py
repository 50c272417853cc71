"""Keys of several parts, and of bytes: random operation lists, every operation, against the oracle."""

from __future__ import annotations

import pickle
import uuid
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from composites import COMPOSITES, Composite
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, same

import gpulsm

CLOSED: list[Any] = ["both", "left", "right", "neither"]


def operations(composite: Composite) -> st.SearchStrategy[Any]:
    keys = st.lists(composite.keys(), max_size=16)
    names = ["update", "update", "set", "delete_range", "ask", "cleanup", "clear", "copy", "merge"]
    return st.lists(st.tuples(st.sampled_from(names), keys, keys), max_size=10)


@pytest.mark.parametrize("spec", COMPOSITES, ids=str)
def test_operations_agree_with_the_oracle(spec: Any, device: str) -> None:
    composite = Composite(spec)

    @settings(max_examples=25, deadline=None)
    @given(operations=operations(composite), batch=st.sampled_from([1, 8, 64]))
    def check(operations: list[Any], batch: int) -> None:
        run(operations, composite, batch, device)

    check()


def run(operations: list[Any], composite: Composite, batch: int, device: str) -> None:
    d = gpulsm.Dictionary(composite.spec, "int64", batch_size=batch, device=device)
    oracle, written = Oracle(), 0
    for name, first, second in operations:
        keys, others = composite.columns(first), composite.columns(second)
        values = np.arange(written, written + len(first))
        written += len(first)
        count = min(len(first), len(second))
        if name == "update":
            d.update(insert=(keys, values), delete=others)
            oracle.update(composite.exact(first), values.tolist(), composite.exact(second))
        elif name == "set":
            d.set(keys, values)
            oracle.update(composite.exact(first), values.tolist(), [])
        elif name == "merge":
            d.merge_from(gpulsm.Dictionary.build(keys, values, key=composite.spec, device=device))
            oracle.update(composite.exact(first), values.tolist(), [])
        elif name == "delete_range":
            lo, hi = composite.columns(first[:count]), composite.columns(second[:count])
            d.delete_range(lo, hi, closed=CLOSED[count % 4])
            lo, hi = composite.exact(first[:count]), composite.exact(second[:count])
            oracle.delete_range(lo, hi, CLOSED[count % 4])
        elif name == "clear":
            d.clear()
            oracle.clear()
        elif name == "cleanup":
            d.cleanup()
        elif name == "copy":
            d = d.copy()
        else:
            ask(composite, d, oracle, first, second)
        d.validate()
    ask(composite, d.snapshot(), oracle, *(keys for _, *lists in operations[:1] for keys in lists))


def ask(composite: Composite, d: Any, oracle: Oracle, *lists: list[Any]) -> None:
    first, second = lists or ([], [])
    count = min(len(first), len(second))
    keys, exact = composite.columns(first), composite.exact(first)
    lo, hi = composite.columns(first[:count]), composite.columns(second[:count])
    exact_lo, exact_hi = composite.exact(first[:count]), composite.exact(second[:count])
    values, found = d.lookup(keys, default=-1)
    assert values.tolist() == [-1 if v is None else v for v in oracle.lookup(exact)]
    assert d.contains(keys).tolist() == found.tolist()
    assert d.rank(keys).tolist() == oracle.rank(exact)
    check_pairs(composite, d.successor(keys), oracle.successor(exact))
    check_pairs(composite, d.predecessor(keys), oracle.predecessor(exact))
    indices = [0, 1, -1, len(oracle.pairs), -len(oracle.pairs) - 1]
    check_pairs(composite, d.select(indices), oracle.select(indices))
    for closed in CLOSED:
        assert d.count(lo, hi, closed=closed).tolist() == oracle.count(exact_lo, exact_hi, closed)
        expected = oracle.range(exact_lo, exact_hi, closed)
        offsets, in_ranges, values = d.range(lo, hi, closed=closed)
        pairs = [*zip(map(same, composite.listed(in_ranges)), values.tolist(), strict=True)]
        answers = [pairs[start:end] for start, end in pairwise(offsets)]
        assert answers == [[(same(key), value) for key, value in one] for one in expected]
        sums = [sum(value for _, value in one) for one in expected]
        assert d.sum(lo, hi, closed=closed).tolist() == sums
    everything = [(same(key), value) for key, value in oracle.items()]
    assert [(same(composite.plain(key)), value) for key, value in d.items()] == everything
    columns, values = d.arrays()
    assert [*zip(map(same, composite.listed(columns)), values.tolist(), strict=True)] == everything
    ends = [everything[0], everything[-1]] if everything else [None, None]
    pairs = [pair and (same(composite.plain(pair[0])), pair[1]) for pair in (d.first(), d.last())]
    assert pairs == ends
    for key, value in [*d.items()][:3]:
        assert (
            d[key] == value and key in d and d.get(key) == value and d.lookup(key) == (value, True)
        )


def check_pairs(composite: Composite, answers: Any, expected: list[Any]) -> None:
    """Answers of at most one pair each; where there is none, zeros (of times, NaT)."""
    keys, values, found = answers
    listed = zip(composite.listed(keys), values.tolist(), found.tolist(), strict=True)
    pairs = [(same(key), value) if there else None for key, value, there in listed]
    assert pairs == [None if pair is None else (same(pair[0]), pair[1]) for pair in expected]
    for column in keys if isinstance(keys, tuple) else (keys,):
        missing = column[~found]
        assert np.isnat(missing).all() if column.dtype.kind in "Mm" else not missing.any()


def test_columns_are_packed_as_tuples_of_rust_are() -> None:
    # As `key/layout.rs` tests it: (1, -1) of (uint32, int32), and bytes from the first on.
    from gpulsm._layouts import Layout

    def packed(*columns: Any) -> Any:
        layout = Layout(tuple(column.dtype for column in columns), is_tuple=True)
        spans = [((column.__array_interface__["data"][0], 1), False) for column in columns]
        return layout.pack(spans, 1).tolist()

    assert packed(np.array([1], "u4"), np.array([-1], "i4")) == [1 << 32 | 0x7FFF_FFFF]
    assert packed(np.array([b"abc"]), np.array([b"d"])) == [0x61626364]


def test_many_keys_are_packed_on_all_cores(device: str) -> None:
    count = 300_000
    first, second = np.arange(count, dtype=np.uint32) // 7, np.arange(count) % 7 - 3
    d = gpulsm.Dictionary.build((first, second), np.arange(count), device=device)
    assert d.key_dtype == (np.dtype("uint32"), np.dtype("int64"))
    (again, others), values = d.arrays()
    assert (again == first).all() and (others == second).all()
    assert (values == np.arange(count)).all()
    found_values, found = d.lookup((first[::-1].copy(), second[::-1].copy()))
    assert found.all() and (found_values == np.arange(count)[::-1]).all()


def test_scalars_go_with_each_element_of_a_column(device: str) -> None:
    d = gpulsm.Dictionary(("uint32", "int64"), "int32", device=device)
    d.insert((7, [1, 2, 3]), [10, 20, 30])
    assert d.lookup((7, np.array([3, 4])))[1].tolist() == [True, False]
    assert d.count((7, [0, 2]), (7, 2)).tolist() == [2, 1]
    d.delete((7, 2))
    d[7, 9] = 90
    assert list(d) == [(7, 1), (7, 3), (7, 9)] and list(reversed(d)) == [(7, 9), (7, 3), (7, 1)]
    assert d.pop((7, 9)) == 90 and d.pop_first() == ((7, 1), 10)
    del d[(7, 3)]
    d.insert((7, [1, 2, 3]), 0)
    (by, on), values = d[(7, 2) : (8, 0)]
    assert by.tolist() == [7, 7] and on.tolist() == [2, 3] and values.tolist() == [0, 0]
    assert ((7, 2), 0) in d.items() and d.last(1)[0][1].tolist() == [3]
    del d[: (8, 0)]
    assert len(d) == 0 and d.first() is None


def test_a_part_that_its_type_cannot_hold_is_no_key_but_an_end(device: str) -> None:
    d = gpulsm.Dictionary.build((np.array([7, 7, 8], "u4"), np.array([1, 2, 0], "i4")), [1, 2, 3])
    assert (7, 2**40) not in d and d.lookup((7, 2**40)) == (0, False) and (2**40, 1) not in d
    assert d.count((7, 2), (7, 2**40)) == 1 and d.count((7, -(2**40)), (7, 1)) == 1
    assert d.count((7, 2**40), None) == 1 and d.count(None, (8, -(2**40))) == 2
    assert d.count((2**40, 0), None) == 0 and d.count(None, (-1, 0)) == 0
    assert d.successor((7, 2**40)) == ((8, 0), 3, True)
    assert d.predecessor((8, -(2**40))) == ((7, 2), 2, True)
    assert d.successor((2**40, 0)) == ((0, 0), 0, False) and d.rank((2**40, 0)) == 3
    floats = gpulsm.Dictionary.build((np.array([1, 1], "u4"), np.array([5, np.inf], "f4")), [1, 2])
    assert floats.count((1, 10**40), (1, None or np.inf)) == 1
    assert floats.count((1, 0), (1, 10**40)) == 1


def test_bytes_have_their_full_length(device: str) -> None:
    d = gpulsm.Dictionary("S4", "int32", device=device)
    d.insert(np.array([b"ab", b"a\0b", b"abcd"], "S4"), [1, 2, 3])
    assert list(d) == [b"a\0b\0", b"ab\0\0", b"abcd"]
    assert d[b"ab"] == 1 and d[b"ab\0\0"] == 1 and d.first() == (b"a\0b\0", 2)
    keys, values = d[b"ab":b"abce"]
    assert keys.tolist() == [b"ab", b"abcd"] and values.tolist() == [1, 3]


def test_uuids_are_keys(device: str) -> None:
    ids = [uuid.UUID(int=number << 64) for number in (3, 1, 2)]
    d = gpulsm.Dictionary("S16", "int64", device=device)
    d.insert([one.bytes for one in ids], [30, 10, 20])
    assert d[ids[2].bytes] == 20
    assert [uuid.UUID(bytes=key).int >> 64 for key in d] == [1, 2, 3]
    with pytest.raises(TypeError, match="keys: expected S16, .*`….bytes` of each"):
        d.lookup(ids[0])


def test_answers_are_written_to_columns_of_the_caller(device: str) -> None:
    d = gpulsm.Dictionary.build(([1, 1], np.array([5, 9], "u4")), [50, 90], device=device)
    out = (np.empty(2, np.int64), np.empty(2, np.uint32)), np.empty(2, np.int64), np.empty(2, bool)
    (by, on), values, found = d.predecessor(([1, 0], np.array([7, 7], "u4")), out=out)
    assert by is out[0][0] and on is out[0][1] and values is out[1] and found is out[2]
    assert (by.tolist(), on.tolist(), values.tolist()) == ([1, 0], [5, 0], [50, 0])
    with pytest.raises(TypeError, match=r"out\[0\]: expected a tuple of 2 arrays, got ndarray"):
        d.successor(([1], np.array([7], "u4")), out=(out[0][0], out[1], out[2]))
    with pytest.raises(ValueError, match=r"out\[0\]\[1\] has 2 elements: expected 1"):
        one = np.empty(1, np.int64)
        d.successor(([1], np.array([7], "u4")), out=((one, out[0][1]), one, np.empty(1, bool)))
    same_array = np.empty(2, np.int64)
    with pytest.raises(ValueError, match="share memory"):
        d.successor(
            ([1, 1], np.array([7, 8], "u4")), out=((same_array, out[0][1]), same_array, out[2])
        )


@pytest.mark.parametrize("spec", [("uint32", "uint32"), ("uint32", "int64"), "S12"], ids=str)
def test_duplicates_are_found_and_resolved(spec: Any, device: str) -> None:
    composite = Composite(spec)
    some = [b"one", b"two", b"one"] if spec == "S12" else [(1, 2), (3, 4), (1, 2)]
    keys = composite.columns(some)
    d = gpulsm.Dictionary(spec, "int32", device=device)
    with pytest.raises(
        gpulsm.DuplicateKeyError, match=r"keys\[2\] is .*, as keys\[0\] is"
    ) as error:
        d.insert(keys, [1, 2, 3], duplicates="error")
    assert error.value.key == composite.exact(some)[0] and error.value.positions == (0, 2)
    d.insert(keys, [1, 2, 3], duplicates="first")
    assert d[some[0]] == 1 and len(d) == 2


def test_tables_have_a_column_for_each_part(device: str) -> None:
    import pandas
    import polars

    frame = pandas.DataFrame({"symbol": [2, 1], "time": [5, 6], "price": [0.5, 0.6]})
    d = gpulsm.Dictionary.from_pandas(frame, key=["symbol", "time"], value="price", device=device)
    assert list(d.items()) == [((1, 6), 0.6), ((2, 5), 0.5)]
    assert d.to_pandas().columns.tolist() == ["key_0", "key_1", "value"]
    assert d.to_arrow().to_pydict() == {"key_0": [1, 2], "key_1": [6, 5], "value": [0.6, 0.5]}
    assert d.to_polars()["key_1"].to_list() == [6, 5]
    again = gpulsm.Dictionary.from_polars(polars.DataFrame(frame), ["symbol", "time"], "price")
    assert list(again.items()) == list(d.items())
    copy = pickle.loads(pickle.dumps(d))
    assert copy.key_dtype == d.key_dtype and list(copy.items()) == list(d.items())


def test_sets_and_counters(device: str) -> None:
    edges = gpulsm.Set(("uint32", "uint32"), device=device)
    edges.update(insert=([1, 1, 2], [2, 3, 1]), delete=([1], [3]))
    assert list(edges) == [(1, 2), (2, 1)] and (1, 2) in edges and (1, 3) not in edges
    counters = gpulsm.Dictionary(("S2", "int32"), "int64", combine="add", device=device)
    counters.add(([b"a", b"b", b"a"], [1, 1, 1]))
    assert list(counters.items()) == [((b"a\0", 1), 2), ((b"b\0", 1), 1)]
    assert counters.sum(*counters.prefix_range(b"a")) == 2


@pytest.mark.parametrize("part", [("uint32", "uint32"), ("int64", "S4"), ()])
def test_parts_are_not_nested(part: tuple[str, ...]) -> None:
    nested: Any = ("uint32", part, "uint32")
    with pytest.raises(TypeError, match=r"key\[1\]: expected one type, got a tuple; .*not nested"):
        gpulsm.Set(key=nested, device="cpu")
    nested = ("uint32", ("uint32", "uint32"))
    with pytest.raises(TypeError, match=r"key\[1\]: expected one type, got a tuple"):
        gpulsm.Set(key=nested, device="cpu")
