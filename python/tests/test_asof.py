"""As-of queries against the oracle, and against pandas."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import pandas
import pytest
from composites import Composite
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle, same

import gpulsm

DIRECTIONS: list[Any] = ["backward", "forward", "nearest"]
#: Types of keys that end with a number, each with some tolerances.
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


class Numbers(Composite):
    """A type of keys that end with a number, of which one part may be all."""

    def plain_keys(self) -> st.SearchStrategy[Any]:
        return st.lists(self.keys(), max_size=20)


@pytest.mark.parametrize(("spec", "tolerances"), ENDING_WITH_A_NUMBER, ids=str)
def test_answers_agree_with_the_oracle(spec: Any, tolerances: list[Any], device: str) -> None:
    numbers = Numbers(spec)

    @settings(max_examples=40, deadline=None)
    @given(numbers.plain_keys(), numbers.plain_keys(), numbers.plain_keys())
    def check(first: list[Any], deleted: list[Any], questions: list[Any]) -> None:
        d, oracle = gpulsm.Dictionary(spec, "int32", batch_size=8, device=device), Oracle()
        values = [*range(1, len(first) + 1)]
        d.insert(numbers.columns(first), values)
        d.delete(numbers.columns(deleted))
        oracle.update(numbers.exact(first), values, numbers.exact(deleted))
        asked = d if len(questions) % 2 else d.snapshot()
        for direction in DIRECTIONS:
            for tolerance in tolerances:
                for exact in (True, False):
                    expected = oracle.asof(numbers.exact(questions), direction, tolerance, exact)
                    answers = asked.asof(
                        numbers.columns(questions),
                        direction=direction,
                        tolerance=tolerance,
                        allow_exact_matches=exact,
                    )
                    assert listed(numbers, answers) == [
                        None if pair is None else (same(pair[0]), pair[1]) for pair in expected
                    ]

    check()


def listed(numbers: Composite, answers: Any) -> list[Any]:
    """Answers as pairs; those that are none must be zeros."""
    keys, values, found = answers
    assert not values[~found].any()
    for column in keys if isinstance(keys, tuple) else (keys,):
        assert not column[~found].any()
    pairs = zip(numbers.listed(keys), values.tolist(), found.tolist(), strict=True)
    return [(same(key), value) if there else None for key, value, there in pairs]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("tolerance", [None, 40])
@pytest.mark.parametrize("exact", [True, False])
def test_answers_agree_with_pandas(
    direction: Any, tolerance: int | None, exact: bool, device: str
) -> None:
    random = np.random.default_rng(1)
    count = 150_000  # Several threads work on them.
    codes = random.permutation(4 * count)[:count]
    symbols, times = (codes % 50).astype(np.uint32), codes // 50 * 10
    bids = random.normal(size=count)
    asked_symbols = random.integers(0, 55, count).astype(np.uint32)
    asked_times = np.sort(random.integers(-100, 45 * count // 50 * 10, count))
    quotes = pandas.DataFrame({"symbol": symbols, "time": times, "bid": bids, "at": times})
    trades = pandas.DataFrame({"symbol": asked_symbols, "time": asked_times})
    expected = pandas.merge_asof(
        trades,
        quotes.sort_values("time"),
        on="time",
        by="symbol",
        direction=direction,
        tolerance=tolerance,
        allow_exact_matches=exact,
    )

    d = gpulsm.Dictionary.build((symbols, times), bids, device=device)
    (by, on), values, found = d.asof(
        (asked_symbols, asked_times),
        direction=direction,
        tolerance=tolerance,
        allow_exact_matches=exact,
    )
    assert (found == expected["bid"].notna()).all() and found.any()
    assert (by[found] == asked_symbols[found]).all()
    if direction == "nearest":  # Of two as far, pandas may take the later one.
        distances = np.abs(expected["at"] - asked_times)[found]
        assert (np.abs(on - asked_times)[found] == distances).all()
    else:
        assert (on[found] == expected["at"][found]).all()
        assert (values[found] == expected["bid"][found]).all()


def test_columns_of_more_questions_than_are_packed_at_a_time(device: str) -> None:
    count = (1 << 20) + 1000
    quoted = np.arange(0, count, 10)
    d = gpulsm.Dictionary(("uint32", "datetime64[s]"), "int64", device=device)
    for symbol in range(6):
        d.insert((symbol, quoted.astype("datetime64[s]")), quoted + symbol)
    symbols = np.arange(count, dtype=np.uint32) % 7
    times = np.random.default_rng(1).permutation(count)
    (by, when), values, found = d.asof((symbols, times.astype("datetime64[s]")))
    assert (found == (symbols < 6)).all()
    assert (by == np.where(found, symbols, 0)).all()
    assert (np.isnat(when) == ~found).all()
    last = times // 10 * 10
    assert (when[found].astype(np.int64) == last[found]).all()
    assert (values == np.where(found, last + symbols, 0)).all()


def test_columns_have_the_answers_of_single_questions(device: str) -> None:
    random, count = np.random.default_rng(2), 9_000
    parts = np.array([-1.5, 0.0, 2.0, np.nan], np.float32)

    def draw(seed: int) -> tuple[Any, Any]:
        on = np.random.default_rng(seed).integers(-3_000, 3_000, count) / 2
        on[random.integers(0, count, 50)] = np.nan
        return random.choice(parts, count), on

    quotes, questions = draw(1), draw(2)
    for threads in (1, 3) if device == "cpu" else (None,):
        d = gpulsm.Dictionary.build(quotes, np.arange(count), threads=threads, device=device)
        for direction in DIRECTIONS:
            answers = d.asof(questions, direction=direction, tolerance=0.5)
            keys, values, found = answers
            assert found.any() and not found.all()
            for at in range(0, count, 61):
                question = questions[0][at], questions[1][at]
                key, value, there = d.asof(question, direction=direction, tolerance=0.5)
                assert (values[at], found[at]) == (value, there)
                assert np.array_equal(key, (keys[0][at], keys[1][at]), equal_nan=True)


def test_a_tie_goes_backward_and_nan_has_no_match(device: str) -> None:
    d = gpulsm.Dictionary.build([10, 20], [1, 2], device=device)
    assert d.asof(15, direction="nearest") == (10, 1, True)
    assert d.asof(10, direction="nearest", allow_exact_matches=False) == (20, 2, True)
    assert d.asof(9) == (0, 0, False) and d.asof(21, direction="forward") == (0, 0, False)
    floats = gpulsm.Dictionary.build([1.0, np.inf, np.nan], [1, 2, 3], device=device)
    assert floats.asof(np.nan)[2] is False and floats.asof(np.inf)[1] == 2
    assert floats.asof(np.inf, tolerance=1.0)[2] is False
    assert floats.asof(np.inf, direction="forward", allow_exact_matches=False)[2] is False
    assert floats.asof(-np.inf, allow_exact_matches=False)[2] is False


def test_times_have_tolerances_of_time(device: str) -> None:
    d = gpulsm.Dictionary(("uint32", "datetime64[ms]"), "float64", device=device)
    noon = np.datetime64("2024-01-01T12:00", "ms")
    d.insert(([1, 1], np.array([noon, noon + 500])), [1.5, 2.5])
    later = datetime.datetime(2024, 1, 1, 12, 0, 0, 400_000)
    assert d.asof((1, later)) == ((1, noon), 1.5, True)
    assert d.asof((1, later), tolerance=np.timedelta64(399, "ms"))[2] is False
    assert d.asof((1, later), tolerance=datetime.timedelta(milliseconds=400))[2] is True
    (_, times), values, found = d.asof(([1, 2], np.array([noon + 600, noon])), direction="nearest")
    assert values.tolist() == [2.5, 0.0] and found.tolist() == [True, False] and np.isnat(times[1])


def test_tolerances_may_be_finer_than_keys(device: str) -> None:
    """Keys are whole seconds apart, so what is within 1.999 s is within 1 s."""
    d = gpulsm.Dictionary("datetime64[s]", "int32", device=device)
    noon = np.datetime64("2024-01-01T12:00", "s")
    d.insert(np.array([noon]), [1])
    later = np.arange(4) + noon
    for tolerance, expected in (
        (np.timedelta64(999, "ms"), [True, False, False, False]),
        (np.timedelta64(1, "as"), [True, False, False, False]),
        (pandas.Timedelta("1999999999ns"), [True, True, False, False]),
        (datetime.timedelta(seconds=2, microseconds=1), [True, True, True, False]),
        (np.timedelta64(1, "m"), [True] * 4),
    ):
        assert d.asof(later, tolerance=tolerance)[2].tolist() == expected
        beyond = np.datetime64(noon + 1, "ms")
        assert d.asof(beyond, tolerance=tolerance)[2] is expected[1]
    days = gpulsm.Dictionary("timedelta64[D]", "int32", device=device)
    days.insert(np.array([5], "m8[D]"), [1])
    for hours, expected_one in ((47, False), (48, True), (49, True)):
        found = days.asof(np.timedelta64(7, "D"), tolerance=np.timedelta64(hours, "h"))[2]
        assert found is expected_one


@pytest.mark.parametrize("spec", ["datetime64[s]", ("uint32", "datetime64[s]")], ids=str)
def test_questions_that_are_no_whole_units_are_refused(spec: Any, device: str) -> None:
    is_tuple = isinstance(spec, tuple)
    keys = np.array(["1969-12-31T12:00:00", "2024-01-01T12:00:00"], "M8[s]")
    at = "keys[1]" if is_tuple else "keys"

    def key(times: Any) -> Any:
        return (7, times) if is_tuple else times

    d = gpulsm.Dictionary(spec, "int32", device=device)
    d.insert(key(keys), [1, 2])
    exact = keys.astype("M8[ns]")
    assert d.asof(key(exact))[1].tolist() == d.asof(key(pandas.Series(exact)))[1].tolist() == [1, 2]
    finer = exact + np.timedelta64(999_999_999, "ns")
    for times in (finer, list(finer), pandas.Series(finer), pandas.DatetimeIndex(finer)):
        says = re.escape(
            f"{at}[0] is 1969-12-31T12:00:00.999999999, which datetime64[s] can't hold"
        )
        with pytest.raises(ValueError, match=f"{says} exactly: round it first .*rounds down"):
            d.asof(key(times))
    for time in (finer[1], pandas.Timestamp(finer[1]), datetime.datetime(2024, 1, 1, 12, 0, 0, 5)):
        with pytest.raises(ValueError, match=f"{re.escape(at)} is 2024-01-01T12:00:00.* exactly"):
            d.asof(key(time))
    # What the message says finds the pairs at or before the questions.
    assert d.asof(key(finer.astype("datetime64[s]")))[1].tolist() == [1, 2]


@pytest.mark.parametrize("spec", ["datetime64[s]", ("uint32", "datetime64[s]")], ids=str)
def test_questions_that_are_nat_are_named(spec: Any, device: str) -> None:
    is_tuple = isinstance(spec, tuple)
    at = re.escape("keys[1]" if is_tuple else "keys")
    d = gpulsm.Dictionary(spec, "int32", device=device)
    times = np.array(["2024-01-01", "NaT", "NaT"], "M8[s]")
    for column in (times, list(times), times.astype("M8[ns]")):
        with pytest.raises(ValueError, match=rf"{at}\[1\] is NaT, which is no key"):
            d.asof((7, column) if is_tuple else column)
    with pytest.raises(ValueError, match=rf"{at}: .* 2 missing values, the first at \[1\]"):
        d.asof((7, pandas.Series(times)) if is_tuple else pandas.Series(times))
    for one in (pandas.NaT, np.datetime64("NaT"), np.datetime64("NaT", "ns")):
        with pytest.raises(ValueError, match=f"{at} is NaT, which is no key"):
            d.asof((7, one) if is_tuple else one)


@pytest.mark.parametrize(
    ("spec", "arguments", "kind", "text"),
    [
        (("uint32", "S2"), {}, TypeError, "asof: expected keys that end with a number or a time"),
        (
            "int64",
            {"direction": "left"},
            ValueError,
            "direction: expected 'backward', 'forward' or",
        ),
        ("int64", {"tolerance": -1}, ValueError, "tolerance: expected a number from 0 to"),
        (
            "int64",
            {"tolerance": 1.5},
            TypeError,
            "expected an integer, such as tolerance=5, for keys int64, got float 1.5$",
        ),
        (
            "int64",
            {"tolerance": np.timedelta64(5, "s")},
            TypeError,
            r"keys int64, got timedelta64 5 seconds; keys of times are made with .* 'datetime64\[ns\]'",
        ),
        (
            ("uint32", "uint64"),
            {"tolerance": "5s"},
            TypeError,
            r"expected an integer, such as tolerance=5, for keys \(uint32, uint64\), got str 5s; keys of",
        ),
        (
            "int64",
            {"tolerance": datetime.timedelta(5)},
            TypeError,
            "got timedelta 5 days, 0:00:00; keys of times",
        ),
        ("int64", {"tolerance": True}, TypeError, "tolerance: expected an integer.*got bool True"),
        ("int64", {"tolerance": pandas.NaT}, TypeError, "expected an integer, .*got NaTType"),
        (
            "float64",
            {"tolerance": "0.5"},
            TypeError,
            "expected a number, such as tolerance=0.5, for keys float64, got str 0.5",
        ),
        ("float64", {"tolerance": True}, TypeError, "expected a number, .*got bool True"),
        (
            "float32",
            {"tolerance": -1.0},
            ValueError,
            "tolerance: expected a distance of at least 0",
        ),
        ("float64", {"tolerance": np.nan}, ValueError, "tolerance: .* at least 0, got nan"),
        (
            "float64",
            {"tolerance": [1.0, 2.0]},
            TypeError,
            "tolerance: expected a number, .*got list$",
        ),
        (
            "datetime64[s]",
            {"tolerance": 5},
            TypeError,
            r"a span of time, such as tolerance=numpy.timedelta64\(5, 's'\), for keys datetime64\[s\], got "
            r"int 5; if it counts s, `numpy.timedelta64\(5, 's'\)` says so",
        ),
        (
            ("S4", "datetime64[25us]"),
            {"tolerance": "5s"},
            TypeError,
            r"timedelta64\(5, 'us'\), for keys \(S4, datetime64\[25us\]\), got str 5s; `pandas.Timedelta",
        ),
        ("datetime64[s]", {"tolerance": 2.5}, TypeError, r"expected a span .*got float 2.5$"),
        ("datetime64[s]", {"tolerance": np.datetime64("2024")}, TypeError, "got datetime64 2024$"),
        ("datetime64[s]", {"tolerance": datetime.date(2024, 1, 1)}, TypeError, "got date$"),
        ("datetime64[s]", {"tolerance": np.timedelta64(5)}, TypeError, "which has no unit"),
        (
            "datetime64[s]",
            {"tolerance": [np.timedelta64(5, "s")]},
            TypeError,
            "a span of time, .*got list$",
        ),
        (
            "datetime64[s]",
            {"tolerance": np.timedelta64("NaT", "s")},
            ValueError,
            "tolerance: expected a distance of at least 0, got NaT; leave it out for any distance",
        ),
        ("timedelta64[s]", {"tolerance": pandas.NaT}, ValueError, "at least 0, got NaT; leave it"),
        (
            "datetime64[s]",
            {"tolerance": pandas.Timedelta("-1ms")},
            ValueError,
            "expected a distance of at least 0, got -1 days",
        ),
        (
            "datetime64[s]",
            {"tolerance": np.timedelta64(2**62, "D")},
            ValueError,
            r"timedelta64\[s\] can't hold: .*leave it out for any distance",
        ),
        (
            "datetime64[M]",
            {"tolerance": np.timedelta64(40, "D")},
            ValueError,
            r"tolerance is 40 days, which timedelta64\[M\] can't hold exactly",
        ),
    ],
)
def test_mistakes_are_named(
    spec: Any, arguments: dict[str, Any], kind: type[Exception], text: str, device: str
) -> None:
    d = gpulsm.Dictionary(spec, "int32", device=device)
    with pytest.raises(kind, match=text):
        d.asof(d.keys(), **arguments)
