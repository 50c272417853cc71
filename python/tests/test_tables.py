"""Tables of pandas, Polars and Arrow, in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import gpulsm

COLUMNS = {"id": [7, 5, 7], "x": [0.7, 0.5, 0.9], "y": [1.0, 2.0, 3.0], "n": [1, 2, 3]}
TABLES: list[tuple[str, str, Any]] = [
    ("pandas", "from_pandas", pandas.DataFrame(COLUMNS)),
    ("polars", "from_polars", polars.DataFrame(COLUMNS)),
    ("arrow", "from_arrow", pyarrow.table(COLUMNS)),
    ("a record batch", "from_arrow", pyarrow.table(COLUMNS).to_batches()[0]),
]


@pytest.mark.parametrize(
    ("name", "table"), [row[1:] for row in TABLES], ids=[row[0] for row in TABLES]
)
def test_dictionaries_of_tables(name: str, table: Any, device: str) -> None:
    make, make_set = getattr(gpulsm.Dictionary, name), getattr(gpulsm.Set, name)
    d = make(table, key="id", value="x", device=device, batch_size=128)
    assert (d.key_dtype, d.value_dtype, d.batch_size) == (np.int64, np.float64, 128)
    assert list(d.items()) == [(5, 0.5), (7, 0.9)]
    assert make(table, "id", "x", duplicates="first", device=device)[7] == 0.7
    assert list(make_set(table, key="id", device=device)) == [5, 7]
    with pytest.raises(TypeError, match="choose columns by value=…: .* `gpulsm.Set`"):
        make(table, key="id", device=device)
    with pytest.raises(TypeError, match="choose columns by key=…: .* there are 'id', 'x'"):
        make_set(table, device=device)
    rows = make(table, key="id", value=["x", "y"], device=device)
    assert rows.value_dtype == np.dtype(("float64", 2)) and rows[5].tolist() == [0.5, 2.0]
    with pytest.raises(gpulsm.DuplicateKeyError):
        make(table, key="id", value="x", duplicates="error", device=device)
    with pytest.raises(KeyError, match="key: no column is named 'nonsense'; there are 'id', 'x'"):
        make(table, key="nonsense", value="x", device=device)
    with pytest.raises(KeyError, match="value: no column is named 'z'"):
        make(table, key="id", value="z", device=device)
    with pytest.raises(TypeError, match="value: expected columns of one type, got float64, int64"):
        make(table, key="id", value=["x", "n"], device=device)
    with pytest.raises(TypeError, match="batchsize"):
        make(table, key="id", value="x", batchsize=5, device=device)


def test_a_lazy_frame_is_collected_by_its_user() -> None:
    with pytest.raises(TypeError, match=r"got a LazyFrame; `.collect\(\)` makes one"):
        gpulsm.Dictionary.from_polars(polars.LazyFrame(COLUMNS), "id", "x")  # type: ignore[arg-type]


def test_the_index_of_a_data_frame_is_its_key(device: str) -> None:
    frame = pandas.DataFrame({"x": [1, 2]}, index=pandas.date_range("2024", periods=2))
    d = gpulsm.Dictionary.from_pandas(frame, value="x", device=device)
    assert d.key_dtype.kind == "M" and d[pandas.Timestamp("2024-01-02")] == 2
    names = pandas.Series([b"a", b"bc"])
    levels = frame.set_index([names, frame.index])
    for parts in (
        gpulsm.Dictionary.from_pandas(levels, value="x", device=device),
        gpulsm.Dictionary.from_pandas(levels["x"], device=device),
    ):
        assert parts.key_dtype == (np.dtype("S2"), d.key_dtype)
        assert parts[b"bc", pandas.Timestamp("2024-01-02")] == 2


def test_every_table_has_the_same_columns(device: str) -> None:
    for value, item, columns in (
        ("float32", 0.5, ["key", "value"]),
        (("int32", 2), [1, 2], ["key", "value_0", "value_1"]),
        ([("a", "f4"), ("b", "u4")], (0.5, 7), ["key", "value_a", "value_b"]),
    ):
        d = gpulsm.Dictionary("uint32", value, device=device)
        d.insert([2, 1], item)
        pandas_frame, polars_frame = d.to_pandas(), d.to_polars()
        assert list(pandas_frame.columns) == polars_frame.columns == columns
        for name in columns:
            assert pandas_frame[name].tolist() == polars_frame[name].to_list()
    points = gpulsm.Dictionary("uint32", ("int32", 2), device=device)
    points.insert([2, 1], [[3, 4], [5, 6]])
    parts = ["value_0", "value_1"]
    for again in (
        gpulsm.Dictionary.from_pandas(points.to_pandas(), "key", parts, device=device),
        gpulsm.Dictionary.from_polars(points.to_polars(), "key", parts, device=device),
        gpulsm.Dictionary.from_arrow(points.to_arrow(), "key", "value", device=device),
    ):
        assert again.key_dtype == points.key_dtype and again.value_dtype == points.value_dtype
        assert again.values().tolist() == [[5, 6], [3, 4]]
    wide = gpulsm.Dictionary("uint32", "complex128", device=device)
    with pytest.raises(TypeError, match="Polars has no column of complex128, which value is"):
        wide.to_polars()


def test_nulls_are_left_out_of_keys_and_values_alike(device: str) -> None:
    frame = pandas.DataFrame({"k": pandas.array([1, None, 3], dtype="Int64"), "v": [10, 20, 30]})
    keys, values = frame["k"], frame["v"]
    with pytest.raises(ValueError, match=r"`keep = keys.notna\(\)`, and take `keys\[keep\]`"):
        gpulsm.Dictionary.from_pandas(frame, "k", "v", device=device)
    keep = keys.notna()
    d = gpulsm.Dictionary.build(keys[keep], values[keep], device=device)
    assert dict(d.items()) == {1: 10, 3: 30}
    for column, choose in (
        (polars.Series([1, None, 3]), lambda one, keep: one.filter(keep)),
        (pyarrow.array([1, None, 3]), lambda one, keep: one.filter(keep)),
        (pyarrow.chunked_array([[1, None], [3]]), lambda one, keep: one.filter(keep)),
    ):
        with pytest.raises(ValueError, match=r"got 1 null, the first at \[1\]; .* `keys.filter"):
            gpulsm.Dictionary.build(column, values, device=device)
        mask = column.is_not_null() if isinstance(column, polars.Series) else column.is_valid()
        assert gpulsm.Set.build(choose(column, mask), device=device).keys().tolist() == [
            1,
            3,
        ]


def test_pandas_and_arrow_come_in_and_go_out(device: str) -> None:
    times = pandas.Series(pandas.date_range("2024-01-01", periods=4, freq="h")).astype(
        "datetime64[ns]"
    )
    d = gpulsm.Dictionary("int64", "datetime64[ns]", device=device)
    d.insert(pandas.Series([4, 3, 2, 1]), times)
    d.delete(pandas.Index([3]))
    frame = d.to_pandas()
    assert frame["key"].tolist() == [1, 2, 4]
    assert frame["value"].tolist() == [times[3], times[2], times[0]]
    table = d.to_arrow()
    assert table.column_names == ["key", "value"]
    again = gpulsm.Dictionary.build(table["key"], table["value"], device=device)
    assert again.arrays()[0].tolist() == d.arrays()[0].tolist()
    assert (again.arrays()[1] == d.arrays()[1]).all()
    d.insert(pyarrow.array([9, 10, 11], pyarrow.int64())[1:], times[:2])
    assert d.keys().tolist() == [1, 2, 4, 10, 11]
    d.insert(pandas.Series([20, 21], dtype="Int64"), times[:2])
    d.insert(pandas.Series([22, 23], dtype="int64[pyarrow]"), times[:2])
    assert d.count(20, 23) == 4
    with pytest.raises(ValueError, match="keys: expected no nulls"):
        d.lookup(pyarrow.array([1, None]))
    for missing in ("Int64", "Float64", "double[pyarrow]"):
        with pytest.raises(ValueError, match="keys: expected no missing values"):
            d.lookup(pandas.Series([1, None], dtype=missing))
    with pytest.raises(TypeError, match="keys: expected int64"):
        d.lookup(pyarrow.array(["a"]))


def test_tables_of_every_kind_of_value(device: str) -> None:
    points = gpulsm.Dictionary("uint32", ("float32", 2), device=device)
    points.insert([2, 1], [[2.0, 20.0], [1.0, 10.0]])
    assert points.to_arrow()["value"].to_pylist() == [[1.0, 10.0], [2.0, 20.0]]
    assert points.to_pandas().columns.tolist() == ["key", "value_0", "value_1"]
    listed = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array([5.0, 6.0], pyarrow.float32()), 2)
    points.insert([3], listed)
    assert points[3].tolist() == [5.0, 6.0]
    named = gpulsm.Dictionary("uint32", [("a", "f4"), ("b", "u4")], device=device)
    named.insert([1], [(0.5, 7)])
    assert named.to_arrow()["value"].to_pylist() == [{"a": 0.5, "b": 7}]
    assert named.to_pandas().to_dict("list") == {"key": [1], "value_a": [0.5], "value_b": [7]}
    wide = gpulsm.Dictionary("uint32", "complex128", device=device)
    wide.insert([1], [1 + 2j])
    column = wide.to_arrow()["value"]
    again = gpulsm.Dictionary("uint32", "complex128", device=device)
    again.insert([1], column)
    assert again[1] == 1 + 2j
    for d in (points, named, wide):
        d.clear()
        assert d.to_arrow().num_rows == 0 and len(d.to_pandas()) == 0
    members = gpulsm.Set.build(np.arange(3, dtype=np.int32), device=device)
    assert members.to_arrow().column_names == ["key"] and isinstance(
        members.to_pandas(), pandas.DataFrame
    )


def test_building_from_columns(device: str) -> None:
    frame = pandas.DataFrame({"t": [2, 1], "x": [0.2, 0.1]})
    for one in (frame, frame.convert_dtypes(), frame.convert_dtypes(dtype_backend="pyarrow")):
        d = gpulsm.Dictionary.build(one["t"], one["x"], device=device)
        assert (d.key_dtype, d.value_dtype) == (np.int64, np.float64)
        assert d.to_pandas()["value"].tolist() == [0.1, 0.2]


def test_polars_comes_in(device: str) -> None:
    d = gpulsm.Dictionary.build(polars.Series([2, 1]), polars.Series([0.2, 0.1]), device=device)
    assert d.lookup(polars.Series([1]))[0].tolist() == [0.1]
    with pytest.raises(ValueError, match="keys: expected no nulls"):
        d.lookup(polars.Series([1, None]))
    assert d.lookup(polars.Series([1], dtype=polars.Int32))[0].tolist() == [0.1]
    with pytest.raises(TypeError, match="keys: expected int64, got"):
        d.lookup(polars.Series(["1"]))


def test_what_pandas_keeps_columns_in_comes_in_too(device: str) -> None:
    d = gpulsm.Dictionary("int64", "float64", device=device)
    for values in (
        pandas.array([0.5, 1.5], dtype="Float64"),
        pandas.array([0.5, 1.5], dtype="double[pyarrow]"),
        pandas.Series([0.5, 1.5]).array,
        pandas.Categorical([0.5, 1.5]),
        pandas.arrays.SparseArray([0.5, 1.5]),
    ):
        d.insert(pandas.array([1, 2], dtype="Int64"), values)
        assert d.values().tolist() == [0.5, 1.5]
        d.clear()
    for keys in (pandas.array([1, 2], dtype="Int64"), pandas.Categorical([1, 2])):
        assert gpulsm.Set.build(keys, device=device).key_dtype == "int64"
    for missing in (
        pandas.array([0.5, None], dtype="Float64"),
        pandas.array([0.5, None], dtype="double[pyarrow]"),
        pandas.Categorical([0.5, None]),
    ):
        with pytest.raises(ValueError, match=r"values: expected no missing .* first at \[1\]"):
            d.insert([1, 2], missing)
        with pytest.raises(ValueError, match="values: expected no missing"):
            gpulsm.Dictionary.build([1, 2], missing, device=device)
        floats = gpulsm.Set("float64", device=device)
        for call in (floats.insert, floats.delete, floats.contains):
            with pytest.raises(ValueError, match="keys: expected no missing"):
                call(missing)
    times = pandas.Series(pandas.date_range("2024", periods=2)).array
    assert gpulsm.Set.build(times, device=device).contains(times).all()
    with pytest.raises(TypeError, match="some of UTC"):
        gpulsm.Set.build(times.tz_localize("UTC"), device=device)


def test_decimals_of_arrow_are_no_bytes(device: str) -> None:
    decimals = pyarrow.array([1.5, 2.25]).cast(pyarrow.decimal128(10, 2))
    for column in (decimals, pyarrow.chunked_array([decimals])):
        with pytest.raises(TypeError, match=r"got decimal128\(10, 2\); `.cast\('float64'\)` makes"):
            gpulsm.Set.build(column, device=device)
        d = gpulsm.Dictionary("int64", "float64", device=device)
        with pytest.raises(TypeError, match="values: expected float64, got decimal128"):
            d.insert([1, 2], column)
        d.insert([1, 2], column.cast("float64"))
        assert d.values().tolist() == [1.5, 2.25]


def test_nulls_inside_of_values(device: str) -> None:
    d = gpulsm.Dictionary("int64", ("float32", 2), device=device)
    lists = pyarrow.array([[1, 2], [3, None]], pyarrow.list_(pyarrow.float32(), 2))
    arrays = polars.Series([[1, 2], [3, None]], dtype=polars.Array(polars.Float32, 2))
    for values in (lists, pyarrow.chunked_array([lists]), arrays):
        with pytest.raises(ValueError, match=r"values: expected no nulls, got one at \[1\]\[1\]"):
            d.insert([1, 2], values)
        d.insert([1], values[:1])
        assert d[1].tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"got one at \[0\]\[1\]"):
        d.insert([1], lists[1:])
    with pytest.raises(TypeError, match=r"got Struct.*`.struct.unnest\(\)` makes columns"):
        d.insert([1], polars.Series([{"a": 1, "b": None}]))
    with pytest.raises(TypeError, match="keys: expected numbers, got Int128"):
        d.lookup(polars.Series([1], dtype=polars.Int128))


def test_a_series_goes_from_its_index_to_its_values(device: str) -> None:
    series = pandas.Series([1.5, 2.5], index=[6, 5])
    d = gpulsm.Dictionary.from_pandas(series, device=device)
    assert dict(d.items()) == {5: 2.5, 6: 1.5}
    with pytest.raises(TypeError, match="key, value: expected none with a series"):
        gpulsm.Dictionary.from_pandas(series, "id", device=device)


def test_what_is_no_table_is_named(device: str) -> None:
    build: Any = gpulsm.Dictionary
    two = pandas.MultiIndex.from_tuples([(1, 2), (3, 4)])
    for call, text in (
        (
            lambda: build.from_pandas({1: 2}),
            "frame: expected a pandas DataFrame or Series, got dict",
        ),
        (lambda: build.from_polars(polars.Series([1]), "a"), "frame: expected a Polars DataFrame"),
        (lambda: build.from_arrow({1: 2}, "a"), "table: expected a PyArrow Table or RecordBatch"),
        (
            lambda: build.build(two, [1, 2]),
            r"keys: .* an index of 2 levels; `tuple\(map\(….get_level_values",
        ),
    ):
        with pytest.raises(TypeError, match=text):
            call()
    twice = pandas.DataFrame([[1, 2, 3]], columns=["k", "v", "v"])
    with pytest.raises(ValueError, match="value: expected one column, got 2 named 'v'"):
        gpulsm.Dictionary.from_pandas(twice, "k", "v", device=device)
    nulls = pandas.DataFrame({"k": [1, 2], "a": [1, 2], "b": pandas.array([1, None], "Int64")})
    with pytest.raises(ValueError, match=r"value\[1\]: .*`keep = values.notna\(\)`"):
        gpulsm.Dictionary.from_pandas(nulls, "k", ["a", "b"], device=device)


#: The libraries whose tables are made, and made into dictionaries.
both_ways = pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])


def table_of(d: gpulsm.Dictionary | gpulsm.Set, library: str) -> Any:
    return getattr(d, f"to_{library}")()


@both_ways
def test_what_goes_out_comes_in_again(library: str, device: str) -> None:
    make = getattr(gpulsm.Dictionary, f"from_{library}")
    for key, keys in (
        ("S4", [b"ab\0\0", b"abcd", bytes(4), b"\0b\0\0"]),
        ("S1", [b"\0", b"a"]),
        ("S16", [bytes(15) + b"a", b"a" + bytes(15)]),
        (("S3", "uint32"), ([b"a\0\0", bytes(3)], [1, 2**32 - 1])),
        (("int32", "float64", "S2"), ([1, 1], [0.5, -np.inf], [b"\0\0", b"\xff\0"])),
        ("uint64", [7, 2**64 - 1]),
    ):
        d = gpulsm.Dictionary(key, "int64", device=device)
        d.insert(keys, [*range(len(keys[0] if isinstance(keys, tuple) else keys))])
        # Zeros at the end of bytes stay behind, so that others find what they wrote.
        again = make(table_of(d, library), key_type=key, device=device)
        assert (again.key_dtype, again.value_dtype) == (d.key_dtype, d.value_dtype)
        assert list(again.items()) == list(d.items())
    rows = gpulsm.Dictionary("uint32", ("float32", 2), device=device)
    rows.insert([3], [[1.0, 2.0]])
    parts = "value" if library == "arrow" else ["value_0", "value_1"]
    assert make(table_of(rows, library), value=parts, device=device)[3].tolist() == [1.0, 2.0]
    keys_alone = gpulsm.Set("S2", device=device)
    keys_alone.insert([b"a", b"\0\0"])
    make_set = getattr(gpulsm.Set, f"from_{library}")
    again = make_set(table_of(keys_alone, library), key_type="S2", device=device)
    assert list(again) == [b"\0\0", b"a\0"]


@both_ways
def test_columns_of_bytes_of_a_given_length(library: str, device: str) -> None:
    make = getattr(gpulsm.Dictionary, f"from_{library}")
    d = gpulsm.Dictionary("S3", "uint32", device=device)
    d.insert([b"abc", b"d\0\0"], [1, 2])
    table = table_of(d, library)
    wide = make(table, key="key", value="value", key_type="S5", device=device)
    assert wide.key_dtype == "S5" and list(wide) == [b"abc\0\0", b"d\0\0\0\0"]
    assert make(table, key_type="S5", value_type="uint32", device=device)[b"d"] == 2
    with pytest.raises((TypeError, ValueError), match=r"keys.*(S2 holds 2|expected S2)"):
        make(table, key_type="S2", device=device)
    assert wide.lookup(table["key"])[0].tolist() == [1, 2]


def test_columns_of_bytes_of_any_length(device: str) -> None:
    texts = [b"a", b"bcde", b""]
    for column in (
        pandas.Series(texts),
        pandas.Series(texts, dtype=pandas.ArrowDtype(pyarrow.binary())),
        polars.Series(texts, dtype=polars.Binary),
        pyarrow.array(texts),
        pyarrow.array(texts, pyarrow.large_binary()),
        pyarrow.chunked_array([texts[:1], texts[1:]]),
    ):
        d = gpulsm.Set.build(column, device=device)
        assert d.key_dtype == "S4" and list(d) == [bytes(4), b"a\0\0\0", b"bcde"]
        assert gpulsm.Set.build(column, key="S9", device=device).key_dtype == "S9"
        assert d.contains(column).all()
    with pytest.raises(ValueError, match="keys: expected no nulls, got 1 null"):
        gpulsm.Set.build(pyarrow.array([b"a", None]), device=device)
    with pytest.raises(TypeError, match=r"keys\[1\]: expected S2, which is bytes, got a text"):
        gpulsm.Set.build(pandas.Series([b"a", "b"], dtype=object), key="S2", device=device)


@both_ways
def test_names_of_columns_are_given_in_a_list(library: str, device: str) -> None:
    make = getattr(gpulsm.Dictionary, f"from_{library}")
    d = gpulsm.Dictionary(("uint32", "uint32"), "uint32", device=device)
    d.insert(([1], [2]), [3])
    table = table_of(d, library)
    with pytest.raises(KeyError, match=r"a list takes several columns: key=\['key_0', 'key_1'\]"):
        make(table, key=("key_0", "key_1"), value="value", device=device)
    make_set = getattr(gpulsm.Set, f"from_{library}")
    assert list(make_set(table, key=["key_1", "value"], device=device)) == [(2, 3)]


@both_ways
def test_structures_are_not_taken_for_a_set(library: str, device: str) -> None:
    make = getattr(gpulsm.Dictionary, f"from_{library}")
    d = gpulsm.Dictionary("uint32", np.dtype([("x", "f4"), ("y", "f4")]), device=device)
    d.insert([1], np.zeros(1, d.value_dtype))
    if library == "arrow":
        with pytest.raises(TypeError, match="values"):
            make(table_of(d, library), device=device)
        return
    with pytest.raises(KeyError, match="to take 'value_x', 'value_y', name key and value"):
        make(table_of(d, library), device=device)


def test_a_table_without_the_columns_of_a_dictionary(device: str) -> None:
    make: Any = gpulsm.Dictionary
    numbered = pandas.DataFrame({"k": [1], "v": [2]})
    for call in (
        lambda: make.from_arrow(pyarrow.table({"k": [1], "v": [2]})),
        lambda: make.from_polars(polars.DataFrame({"k": [1], "v": [2]})),
        lambda: make.from_pandas(numbered),
        lambda: make.from_pandas(numbered[["v"]]),
    ):
        with pytest.raises(TypeError, match="choose columns by key=… and value=…: .* 'v'"):
            call()
    d = gpulsm.Dictionary.from_pandas(pandas.DataFrame({"a": [1]}, index=[8]), device=device)
    assert list(d.items()) == [(8, 1)]


def test_times_go_out_in_a_unit_that_tables_know(device: str) -> None:
    for unit in ("s", "m", "h", "10s"):
        d = gpulsm.Dictionary(f"datetime64[{unit}]", f"timedelta64[{unit}]", device=device)
        time, span = np.array([60], d.key_dtype), np.array([-60], d.value_dtype)
        d.insert(time, span)
        for frame in (d.to_polars(), d.to_arrow()):
            again = np.asarray(frame["key"].to_numpy()), np.asarray(frame["value"].to_numpy())
            assert again[0] == time and again[1] == span, (unit, type(frame))
    polars_only = gpulsm.Set("datetime64[s]", device=device)
    polars_only.insert(np.array([2**62], "datetime64[s]"))
    with pytest.raises(ValueError, match="Polars has no column of datetime64.s., and one of"):
        polars_only.to_polars()
    assert polars_only.to_arrow()["key"].type == pyarrow.timestamp("s")
    fine = gpulsm.Set("datetime64[ps]", device=device)
    fine.insert(np.array([5000], "datetime64[ps]"))
    assert fine.to_arrow()["key"].cast("int64").to_pylist() == [5]
    fine.insert(np.array([5001], "datetime64[ps]"))
    with pytest.raises(ValueError, match="Arrow has no column of datetime64.ps."):
        fine.to_arrow()
