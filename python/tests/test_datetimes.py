"""Keys that are times: units, scalars of every library, columns, and what is refused."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import gpulsm

DAY = np.datetime64("2024-02-29")


def hours(unit: str = "ns") -> Any:
    return np.arange(48).astype("timedelta64[h]") + DAY.astype(f"datetime64[{unit}]")


@pytest.mark.parametrize("unit", ["h", "m", "s", "ms", "us", "ns"])
def test_every_answer_has_the_unit_of_the_keys(unit: str, device: str) -> None:
    keys = hours(unit)
    kind = np.dtype(f"datetime64[{unit}]")
    assert keys.dtype == kind
    d = gpulsm.Dictionary.build(keys[::-1].copy(), np.arange(48.0), device=device)
    assert d.key_dtype == kind and f"key='{kind}'" in repr(d)
    assert d.lookup(keys)[1].all() and d[keys[3]] == 44.0
    for answer in (d.keys(), d.range(keys[:2], keys[:2])[1], d.successor(keys)[0], d[:][0]):
        assert answer.dtype == kind
    assert (d.keys() == keys).all() and list(d) == list(keys)
    assert next(reversed(d)) == keys[-1] and next(iter(d.items())) == (keys[0], 47.0)
    assert d.first() == (keys[0], 47.0) and d.last() == (keys[-1], 0.0)
    assert d.first()[0].dtype == kind  # type: ignore[index]
    assert d.count(DAY, DAY + 1) == 25 and d.count(DAY, DAY + 1, closed="left") == 24
    assert d.count([DAY, DAY + 1], [DAY + 1, DAY + 2], closed="left").tolist() == [24, 24]
    assert d.rank(DAY + 1) == 24 and d.select(-1)[0] == keys[-1]
    later, _, found = d.successor([DAY + 7])
    assert np.isnat(later).all() and not found.any() and np.isnat(d.select(99)[0])
    d.delete_range(None, DAY + 1, closed="left")
    assert len(d) == 24 and (d[DAY + 1 :][0] == keys[24:]).all()
    for copied in (pickle.loads(pickle.dumps(d)), d.copy(), d.snapshot(), d.snapshot().thaw()):
        assert copied.key_dtype == kind and (copied.keys() == d.keys()).all()
    d.validate()


def test_spans_of_time_are_keys_too(device: str) -> None:
    d = gpulsm.Dictionary("timedelta64[s]", "int32", device=device)
    d.insert(np.array([90, -5], "timedelta64[s]"), [1, 2])
    d.insert(np.array([2], "timedelta64[m]"), [3])
    assert d[datetime.timedelta(minutes=1, seconds=30)] == 1
    assert d[pandas.Timedelta(seconds=-5)] == 2 and np.timedelta64(2, "m") in d
    assert d.count(None, np.timedelta64(0, "s")) == 1
    with pytest.raises(TypeError, match=r"expected timedelta64\[s\], got datetime64 2024"):
        d.lookup(np.datetime64("2024-01-01"))
    with pytest.raises(ValueError, match=r"500000 microseconds, which timedelta64\[s\] can't hold"):
        d.lookup(datetime.timedelta(milliseconds=500))


def test_scalars_of_every_library(device: str) -> None:
    d = gpulsm.Dictionary("datetime64[us]", "int64", device=device)
    d[datetime.datetime(2024, 2, 29, 12, 30, 0, 5)] = 1
    d[datetime.date(2024, 2, 29)] = 2
    d[pandas.Timestamp("2024-02-29T01")] = 3
    d[np.datetime64("2024-02-29T02", "h")] = 4
    assert d.values().tolist() == [2, 3, 4, 1]
    assert pandas.Timestamp("2024-02-29T12:30:00.000005") in d
    listed = [datetime.datetime(2024, 2, 29), pandas.Timestamp("2024-02-29T01"), DAY]
    assert d.lookup(listed)[0].tolist() == [2, 3, 2]
    built = gpulsm.Dictionary.build(listed[:2], [1, 2], device=device)
    assert built.key_dtype.kind == "M" and len(built) == 2
    assert d.lookup(np.array(DAY)) == (2, True)


REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    (
        "not exact",
        np.datetime64("2024-01-01T00:00:00.5"),
        ValueError,
        "keys is 2024-01-01T00:00:00.5",
    ),
    (
        "an element",
        np.array(["2024-01-01T00:00:00", "2024-01-01T00:00:00.5"], "M8[ms]"),
        ValueError,
        r"keys\[1\] is 2024-01-01T00:00:00.500, which datetime64\[s\] can't hold exactly",
    ),
    ("in a list", [DAY, np.datetime64("2024-01-01T00:00:00.5")], ValueError, r"keys\[1\] is 2024"),
    ("NaT", np.datetime64("NaT"), ValueError, "keys is NaT, which is no key"),
    ("pandas's NaT", pandas.NaT, ValueError, "keys is NaT, which is no key"),
    (
        "a NaT",
        np.array(["2024-01-01", "NaT"], "M8[s]"),
        ValueError,
        r"keys\[1\] is NaT, which is no key; `numpy.isnat\(…\)` finds every NaT",
    ),
    ("a missing one", pandas.Series([pandas.NaT, DAY]), ValueError, "expected no missing values"),
    (
        "integers",
        np.array([5]),
        TypeError,
        r"got int64; if it counts s since 1970, `numpy.asarray\(…, 'int64'\).view\('datetime64\[s\]'\)`",
    ),
    ("an integer", 5, TypeError, r"expected datetime64\[s\], got int; if it counts s since 1970"),
    (
        "an integer in a list",
        [5],
        TypeError,
        r"keys\[0\]: expected datetime64\[s\], got int; if it",
    ),
    ("no unit", np.array([5], "m8"), TypeError, r"expected datetime64\[s\], got timedelta64"),
    ("a text", "2024-01-01", TypeError, r"got a text; `numpy.datetime64\(…\)` reads a text"),
    (
        "a span",
        np.array([5], "m8[s]"),
        TypeError,
        r"expected datetime64\[s\], got timedelta64\[s\]",
    ),
    (
        "a zone",
        datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),
        TypeError,
        r"`.astimezone\(datetime.timezone.utc\).replace\(tzinfo=None\)` makes it UTC",
    ),
    (
        "a Timestamp's zone",
        pandas.Timestamp("2024", tz="UTC"),
        TypeError,
        r"`.tz_convert\('UTC'\).tz_localize\(None\)` makes it UTC",
    ),
    (
        "a column's zone",
        pandas.Series(pandas.date_range("2024", periods=2, tz="UTC")),
        TypeError,
        r"`.dt.tz_convert\('UTC'\).dt.tz_localize\(None\)` makes them UTC",
    ),
    (
        "an index's zone",
        pandas.date_range("2024", periods=2, tz="UTC"),
        TypeError,
        r"; `.tz_convert\('UTC'\).tz_localize\(None\)` makes them UTC",
    ),
    (
        "Arrow's zone",
        pyarrow.array([5], pyarrow.timestamp("us", "UTC")),
        TypeError,
        r"`.cast\(pyarrow.timestamp\('us'\)\)` makes them UTC",
    ),
    (
        "Polars's zone",
        polars.Series([datetime.datetime(2024, 1, 1)]).dt.replace_time_zone("UTC"),
        TypeError,
        r"`.dt.convert_time_zone\('UTC'\).dt.replace_time_zone\(None\)` makes them UTC",
    ),
]


@pytest.mark.parametrize(
    ("given", "kind", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_no_key_is_refused(
    given: Any, kind: type[Exception], text: str, device: str
) -> None:
    d = gpulsm.Set("datetime64[s]", device=device)
    for call in (d.contains, d.insert, d.delete, lambda keys: d.count(keys, None)):
        with pytest.raises(kind, match=text.replace("keys", "(keys|lo)")):
            call(given)
    assert len(d) == 0


def test_the_cures_for_time_zones_work(device: str) -> None:
    tokyo = pandas.Series(pandas.date_range("2024", periods=3, tz="Asia/Tokyo"))
    utc = tokyo.dt.tz_convert("UTC").dt.tz_localize(None)
    arrow = pyarrow.array(tokyo)
    frame = polars.Series(arrow)
    for keys in (
        utc,
        arrow.cast(pyarrow.timestamp(arrow.type.unit)),
        frame.dt.convert_time_zone("UTC").dt.replace_time_zone(None),
    ):
        d = gpulsm.Set.build(keys, device=device)
        assert d.first() == (np.datetime64("2023-12-31T15"), None)


def test_moments_that_a_unit_does_not_reach(device: str) -> None:
    d = gpulsm.Set.build(hours("ns"), device=device)
    late, early = np.datetime64("3000-01-01"), datetime.datetime(1, 1, 1)
    assert late not in d and early not in d and d.contains(late) is False
    assert d.count(early, late) == d.count(early, late, closed="neither") == 48
    assert d.count(late, None) == d.count(None, early) == 0
    assert d.count([early], [late]).tolist() == [48]
    many = np.array([DAY, late], "datetime64[D]")
    assert d.count(many).tolist() == [d.count(DAY), 0]  # As an end it means what it says.
    for call in (d.contains, d.delete, d.successor, d.rank):
        with pytest.raises(gpulsm.OutOfRangeError, match=r"\[1\] is 3000-01-01, which datetime64"):
            call(many)
    with pytest.raises(ValueError, match=r"keys is 3000-01-01, which datetime64\[ns\] can't hold"):
        d.insert(late)


def test_columns_of_every_library(device: str) -> None:
    times = pandas.Series(pandas.date_range("2024-01-01", periods=4, freq="h"))
    unit = np.datetime_data(np.asarray(times).dtype)[0]
    for column in (
        times,
        pandas.DatetimeIndex(times),
        times.astype(f"timestamp[{unit}][pyarrow]"),
        pyarrow.array(times),
        pyarrow.chunked_array([pyarrow.array(times[:2]), pyarrow.array(times[2:])]),
        polars.Series(times.to_list()),
    ):
        d = gpulsm.Dictionary.build(column, np.arange(4), device=device)
        assert d.key_dtype.kind == "M" and d.lookup(column)[0].tolist() == [0, 1, 2, 3]
        assert d.lookup(times)[0].tolist() == [0, 1, 2, 3]  # Of another unit, perhaps.
        assert d.to_pandas()["key"].tolist() == times.tolist()
        assert d.to_polars()["key"].to_list() == times.dt.to_pydatetime().tolist()
        assert d.to_arrow()["key"].cast(pyarrow.timestamp("ns")).to_numpy().tolist() == (
            times.astype("datetime64[ns]").astype("int64").tolist()
        )
    days = pyarrow.array([datetime.date(2024, 1, 1)])
    for column in (days, polars.Series(days)):
        d = gpulsm.Set.build(column, device=device)
        assert d.key_dtype == "datetime64[D]" and datetime.date(2024, 1, 1) in d
        assert (
            d.to_arrow()["key"].to_pylist()
            == d.to_polars()["key"].to_list()
            == [datetime.date(2024, 1, 1)]
        )
    spans = polars.Series([datetime.timedelta(seconds=3)])
    assert gpulsm.Set.build(spans, device=device).key_dtype == "timedelta64[us]"
    by_hour = gpulsm.Set.build(hours("h"), device=device)
    assert by_hour.to_arrow()["key"].to_pylist()[1] == datetime.datetime(2024, 2, 29, 1)


def test_units_do_not_mix_unnoticed(device: str) -> None:
    seconds = gpulsm.Set.build(hours("s"), device=device)
    with pytest.raises(TypeError, match=r"expected keys and values of datetime64\[s\] and None"):
        seconds.merge_from(gpulsm.Set.build(hours("ms"), device=device))
    with pytest.raises(TypeError, match=r"key: expected one of .*, got datetime64$"):
        gpulsm.Dictionary("datetime64", device=device)


def test_tensors_are_no_times(device: str) -> None:
    torch = pytest.importorskip("torch")
    seconds = gpulsm.Set.build(hours("s"), device=device)
    with pytest.raises(TypeError, match=r"torch has no tensors of datetime64\[s\]: give NumPy"):
        seconds.arrays(like="torch")
    with pytest.raises(TypeError, match=r"torch has no arrays of datetime64\[s\]: give NumPy"):
        seconds.contains(torch.zeros(2, dtype=torch.int64))


def test_duplicates_among_times(device: str) -> None:
    keys = hours("s")[[0, 1, 0]]
    with pytest.raises(gpulsm.DuplicateKeyError, match=r"keys\[2\] is 2024-02-29T00:00:00, as"):
        gpulsm.Set.build(keys, duplicates="error", device=device)
    d = gpulsm.Dictionary.build(keys, [1, 2, 3], duplicates="first", device=device)
    assert d.values().tolist() == [1, 2]


LATE, HALF = np.datetime64("3000-01-01"), pandas.Timestamp("2024-01-01T00:00:00.000000001")
NO_VALUES: list[tuple[str, Any, type[Exception], str]] = [
    ("M8[us]", HALF, ValueError, r"is 2024-01-01T00:00:00.000000001, which .* can't hold exactly"),
    ("M8[ns]", LATE, gpulsm.OutOfRangeError, r"is 3000-01-01, which datetime64\[ns\] can't hold"),
    ("M8[D]", datetime.datetime(2024, 1, 1, 5), ValueError, r"can't hold exactly"),
    ("m8[s]", datetime.timedelta(milliseconds=1500), ValueError, r"can't hold exactly"),
    ("m8[s]", np.timedelta64(5), TypeError, r"which has no unit"),
    ("m8[s]", DAY, TypeError, r"expected timedelta64\[s\], got datetime64"),
    ("M8[s]", 5, TypeError, r"expected datetime64\[s\], got int; if it counts s since 1970"),
    ("M8[s]", np.int64(5), TypeError, r"expected datetime64\[s\], got int64; if it counts s"),
    ("M8[s]", "2024-01-01", TypeError, r"got a text; `numpy.datetime64\(…\)` reads a text"),
    ("M8[s]", pandas.Timestamp("2024", tz="Asia/Tokyo"), TypeError, r"makes it UTC"),
]


@pytest.mark.parametrize(("value", "item", "kind", "text"), NO_VALUES)
def test_values_are_converted_exactly_or_not_at_all(
    value: str, item: Any, kind: type[Exception], text: str, device: str
) -> None:
    def plain(given: Any) -> Any:
        return given

    def structure(given: Any) -> Any:
        return (given, 7)

    for dtype, make in (
        (value, plain),
        ((value, 2), lambda given: [given, given]),
        ([("when", value), ("n", "i8")], structure),
    ):
        d = gpulsm.Dictionary("int64", dtype, device=device)
        place = r"(\['when'\])?(\[0\])*:? "
        with pytest.raises(kind, match=f"^values{place}.*{text}"):
            d.insert([1, 2], make(item))
        with pytest.raises(kind, match=f"^values{place}.*{text}"):
            d[1] = make(item)
        with pytest.raises(kind, match=rf"^values\[0\]{place}.*{text}"):
            d.insert([1], [make(item)])
        with pytest.raises(kind, match=f"^default{place}.*{text}"):
            d.lookup([1], default=make(item))
        with pytest.raises(kind, match=rf"^values\[0\]{place}.*{text}"):
            gpulsm.Dictionary.build([1], [make(item)], value=dtype, device=device)
        assert len(d) == 0


def test_values_of_another_unit(device: str) -> None:
    d = gpulsm.Dictionary("int64", "datetime64[ns]", device=device)
    exact = pandas.Timestamp("2024-01-01T00:00:00.123456789")
    d[1] = exact
    d.insert([2], [exact])
    assert d[1] == d[2] == d.lookup(9, default=exact)[0] == exact.to_datetime64()
    assert d.get(9, "nothing") == "nothing"
    for unit in ("D", "s", "us", "ns"):
        days = np.array([DAY, DAY + 1], f"datetime64[{unit}]")
        for given in (days, pandas.Series(days), pandas.Series(days).array, [*days]):
            d.insert([3, 4], given)
            assert (d.lookup([3, 4])[0] == days).all()
            d.delete([3, 4])
    with pytest.raises(gpulsm.OutOfRangeError, match=r"values\[1\] is 3000-01-01, which"):
        d.insert([3, 4], np.array([DAY, LATE]))
    with pytest.raises(TypeError, match=r"values: expected datetime64\[ns\], got int64; if it"):
        d.insert([3, 4], np.array([5, 6]))
    rows = gpulsm.Dictionary("int64", ("datetime64[s]", 2), device=device)
    rows.insert([1, 2], np.array([[DAY, DAY], [DAY, DAY + 1]]))
    rows.insert([3], [[datetime.date(2024, 2, 29), pandas.Timestamp("2024-03-01")]])
    assert (rows[3] == rows[2]).all() and rows.values().dtype == "datetime64[s]"
    with pytest.raises(ValueError, match=r"values\[1\]\[0\] is .*, which datetime64\[s\] can't"):
        rows.insert([1, 2], np.array([[0, 0], [1, 0]], "M8[ms]"))
    with pytest.raises(TypeError, match=r"value: expected datetime64\[unit\] or .* without a unit"):
        gpulsm.Dictionary("int64", "datetime64", device=device)


def test_nat_is_a_value_but_no_key(device: str) -> None:
    for kind in ("datetime64[s]", "timedelta64[s]"):
        d = gpulsm.Dictionary("int64", kind, device=device)
        nat = np.array(["NaT"], kind)
        d[1] = pandas.NaT
        d.insert([2], [pandas.NaT])
        d.insert([3], nat)
        d.insert([4], nat[0])
        assert np.isnat(d.values()).all() and len(d) == 4
        assert np.isnat(d.lookup([9], default=pandas.NaT)[0]).all()
        # In a column it is a missing value, as a null is.
        with pytest.raises(ValueError, match="values: expected no missing values"):
            d.insert([5], pandas.Series(nat))
    listed = [pandas.Timestamp("2024-01-01"), pandas.NaT]
    built = gpulsm.Dictionary.build([1, 2], listed, device=device)
    assert np.isnat(built[2]) and built[1] == listed[0].to_datetime64()
    with pytest.raises(ValueError, match=r"keys\[1\] is NaT, which is no key"):
        gpulsm.Set.build(listed, device=device)
    with pytest.raises(TypeError, match="values.*time zone"):
        gpulsm.Dictionary.build([1], [pandas.Timestamp("2024", tz="UTC")], device=device)
