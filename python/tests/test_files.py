"""CSV and Parquet files, in and out."""

from __future__ import annotations

import copy
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import gpulsm
from gpulsm import Dictionary, Imported

PAIRS = {5: 0.5, 7: 0.7}
TEXT = "id,name,price\n7,nut,0.7\n5,bolt,0.5\n"
TYPES = ["uint32", "uint64", "int32", "int64", "float32", "float64"]


def written(folder: Path, text: str, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def read(path: Path | str, device: str, **options: Any) -> dict[Any, Any]:
    """The pairs of a file of whole keys and floats."""
    types = {"key_type": "uint32", "value_type": "float64"}
    return dict(Dictionary.from_file(path, device=device, **{**types, **options}).items())


def test_text_is_read(tmp_path: Path, device: str) -> None:
    by_name = {"key": "id", "value": "price"}
    assert read(written(tmp_path, TEXT), device, **by_name) == PAIRS
    assert read(str(written(tmp_path, TEXT)), device, key=1, value=np.int64(3)) == PAIRS
    for name, separator in (
        ("a.tsv", "\t"),
        ("a.tab", "\t"),
        ("a.csv.gz", ","),
        ("a.tsv.gz", "\t"),
    ):
        path = tmp_path / name
        content = TEXT.replace(",", separator).encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        assert read(path, device, **by_name) == PAIRS
    path = written(tmp_path, TEXT.replace(",", ";"))
    assert read(path, device, separator=";", **by_name) == PAIRS
    assert read(written(tmp_path, "7,0.7\n5,0.5\n"), device) == PAIRS
    assert read(written(tmp_path, "2024,2025\n7,0.7\n5,0.5\n"), device, header="yes") == PAIRS
    assert read(written(tmp_path, "2024,2025\n7,0.7\n5,0.5\n"), device, key="2024") == PAIRS


def test_columns_are_read_where_they_are(tmp_path: Path) -> None:
    from gpulsm._files import read_columns

    dtype = np.dtype("uint32")
    path = written(tmp_path, "key,value\n7,1\n5,2\n")
    read = read_columns(path, (dtype, dtype), (None, None), None, "auto", "error")
    assert read.values is not None
    for array, numbers in ((read.keys, [7, 5]), (read.values, [1, 2])):
        assert array.dtype == dtype and array.tolist() == numbers
        assert type(array.base).__name__ == "Column" and not array.flags.writeable
    empty = written(tmp_path, "key,value\n")
    assert len(read_columns(empty, (dtype, None), (None, None), None, "auto", "error").keys) == 0


def test_a_set_is_read(tmp_path: Path, device: str) -> None:
    path = written(tmp_path, TEXT)
    d = gpulsm.Set.from_file(path, key="id", device=device)
    assert d.value_dtype is None and d.keys().tolist() == [5, 7]
    d.to_file(tmp_path / "set.csv")
    assert (tmp_path / "set.csv").read_text() == "key\n5\n7\n"
    assert d.insert_file(tmp_path / "set.csv") == Imported(2, 2, 0, 0, 0)
    with pytest.raises(TypeError, match="value: expected none, for a set has no values"):
        d.insert_file(path, "id", "price")


def test_settings_are_those_of_the_dictionary(tmp_path: Path, device: str) -> None:
    path = written(tmp_path, "1,2\n")
    d = Dictionary.from_file(path, device=device, batch_size=128, cleanup="manual")
    assert (d.batch_size, d.key_dtype, d.value_dtype) == (128, np.uint32, np.uint32)
    with pytest.raises(TypeError, match="batchsize"):
        Dictionary.from_file(path, batchsize=128)


def test_an_import_is_reported(tmp_path: Path, device: str) -> None:
    d = Dictionary("float32", "float32", device=device)
    d.insert([1.0], [9.0])
    path = written(tmp_path, "1,1\n2,2\n2,0.123456789\n,5\n16777217,3\n")
    report = d.insert_file(path, missing="skip")
    assert report == Imported(rows=5, replaced=2, skipped=1, keys_rounded=1, values_rounded=1)
    assert len(d) == 3 and d[1.0] == 1.0
    assert repr(report).startswith("Imported(rows=5, replaced=2") and copy.copy(report) == report


def test_missing_values_are_refused_or_skipped(tmp_path: Path, device: str) -> None:
    path = written(tmp_path, "key,value\n7,0.7\n,1\n6,\n5,0.5\n")
    with pytest.raises(
        ValueError, match=r"line 3: column 1 \(key\) is empty; .* give missing='skip'"
    ):
        read(path, device)
    assert read(path, device, missing="skip") == PAIRS
    table = pyarrow.table({"key": [7, None, 6, 5], "value": [0.7, 1.0, None, 0.5]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"row 2: column 1 \(key\) .* give missing='skip'"):
        read(tmp_path / "a.parquet", device)
    assert read(tmp_path / "a.parquet", device, missing="skip") == PAIRS


def test_duplicates_count_as_for_insert(tmp_path: Path, device: str) -> None:
    path = written(tmp_path, "key,value\n7,1\n,2\n5,3\n7,4\n")
    assert read(path, device, missing="skip")[7] == 4
    assert read(path, device, missing="skip", duplicates="first")[7] == 1
    d = Dictionary.build([1], [1], device=device, key="uint32", value="uint32")
    with pytest.raises(gpulsm.DuplicateKeyError, match="rows 1 and 3 .* both have the key 7") as at:
        d.insert_file(path, missing="skip", duplicates="error")
    assert (at.value.key, at.value.positions, d.keys().tolist()) == (7, (0, 2), [1])


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("key,value\n1,1\n2,x\n", {}, r"a.csv: line 3: column 2 \(value\) is `x`: .*float64"),
        ("1,1\n1.5,1\n", {}, r"line 2: column 1 is `1.5`: not an integer \(expected uint32\)"),
        ("1,1\n-1,1\n", {}, "out of range: uint32 goes from 0 to 4294967295"),
        ("1,1e39\n", {"value_type": "float32"}, "out of range: too large for float32"),
        ("abc,20\n", {}, "if this line names the columns, give header='yes'"),
        ("a,b,c\n1,2,3\n", {}, r"which column holds the keys\? .*\(argument key\)"),
        ("a,key,c\n1,2,3\n", {}, r"which column holds the values\? .*\(argument value\)"),
        ("a,b\n1,2\n", {"key": "c"}, r"no column is named `c`: the file has 2 columns \(a, b\)"),
        ("1,2\n", {"key": 3}, "there is no column 3"),
        ("1;2\n", {}, r"is the separator `;`, not `,`\? \(argument separator\)"),
        ("1,2\n3\n", {}, "line 2: 1 field, where the first line has 2"),
        ("2024-02-29,1\n", {}, "a date or time in text: convert it to a number first"),
        ("", {}, "this file is empty"),
        ("1,2\n", {"separator": "--"}, "separator: expected one ASCII character .*, got '--'"),
        ("1,2\n", {"header": True}, "header: expected 'auto', 'yes' or 'no', got True"),
        ("1,2\n", {"missing": "drop"}, "missing: expected 'error' or 'skip', got 'drop'"),
        ("1,2\n", {"duplicates": "any"}, "duplicates: expected 'last', 'first' or 'error'"),
        ("1,2\n", {"key": 0}, "key: expected a number from 1"),
    ],
)
def test_what_is_wrong_is_said(
    text: str, options: dict[str, Any], says: str, tmp_path: Path, device: str
) -> None:
    with pytest.raises(ValueError, match=says):
        read(written(tmp_path, text), device, **options)


def test_arguments_of_a_wrong_type_are_named(tmp_path: Path, device: str) -> None:
    path = written(tmp_path, "1,2\n")
    for options, says in (
        ({"separator": 5}, "separator: expected one character, got int"),
        ({"key": 1.5}, "key: expected the name or the number of a column, got float"),
        ({"key_type": "int16"}, "key_type: expected one of uint32"),
        ({"value_type": "int16"}, "value_type: expected a type of 4, 8 or 16 bytes"),
    ):
        with pytest.raises(TypeError, match=says):
            read(path, device, **options)
    with pytest.raises(TypeError, match="path: expected the name of a file, got float"):
        read(1.5, device)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="force: expected True or False, got str"):
        Dictionary(device=device).to_file(path, force="no")  # type: ignore[arg-type]
    assert path.read_text() == "1,2\n"


def test_errors_of_the_system_are_its_exceptions(tmp_path: Path, device: str) -> None:
    path = tmp_path / "nowhere.csv"
    with pytest.raises(FileNotFoundError) as error:
        read(path, device)
    assert error.value.filename == str(path)
    assert str(error.value) == f"[Errno 2] No such file or directory: {str(path)!r}"
    d = Dictionary(device=device)
    with pytest.raises(FileNotFoundError):
        d.to_file(tmp_path / "nowhere" / "a.csv")
    with pytest.raises(
        ValueError, match=r"a.txt: .* must end in .csv or .parquet.*`save` and `load`"
    ):
        d.to_file(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="this is a folder"):
        (tmp_path / "folder.csv").mkdir()
        read(tmp_path / "folder.csv", device)
    if os.name == "posix" and os.getuid() != 0:
        path = written(tmp_path, "1,2\n")
        path.chmod(0)
        with pytest.raises(PermissionError):
            read(path, device)


def test_a_file_is_replaced_only_with_force(tmp_path: Path, device: str) -> None:
    path = written(tmp_path, "old")
    d = Dictionary.build([2, 1], [20, 10], device=device)
    with pytest.raises(FileExistsError, match="to replace it, give force=True") as error:
        d.to_file(path)
    assert path.read_text() == "old" and error.value.filename == str(path)
    d.to_file(path, force=True)
    assert path.read_text() == "key,value\n1,10\n2,20\n"
    d.snapshot().to_file(path, separator="|", force=True)
    assert path.read_text() == "key|value\n1|10\n2|20\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("value", TYPES)
@pytest.mark.parametrize("key", TYPES)
def test_what_is_written_is_read(key: str, value: str, tmp_path: Path, device: str) -> None:
    def some(dtype: str) -> Any:
        limits: Any = np.finfo(dtype) if dtype[0] == "f" else np.iinfo(dtype)
        return np.array([limits.min, 1, limits.max], dtype)

    d = Dictionary.build(some(key), some(value), device=device)
    for name in ("a.csv", "a.tsv.gz", "a.parquet"):
        d.to_file(tmp_path / name)
        types = {"key_type": key, "value_type": value}
        again = Dictionary.from_file(tmp_path / name, device=device, **types)
        assert (again.key_dtype, again.value_dtype) == (key, value)
        assert [*again.items()] == [*d.items()]
    table = pyarrow.parquet.read_table(tmp_path / "a.parquet")
    assert table.schema.types == d.to_arrow().schema.types
    assert table.to_pydict() == d.to_arrow().to_pydict()
    assert pandas.read_parquet(tmp_path / "a.parquet").equals(d.to_pandas())


def test_files_of_other_libraries_are_read(tmp_path: Path, device: str) -> None:
    columns = {"id": [7, 5], "price": [0.7, 0.5], "name": ["nut", "bolt"]}
    frame, table = pandas.DataFrame(columns), pyarrow.table(columns)
    frame.to_csv(tmp_path / "pandas.csv")
    frame.to_csv(tmp_path / "pandas.csv.gz", index=False)
    frame.to_parquet(tmp_path / "pandas.parquet")
    polars.DataFrame(columns).write_csv(tmp_path / "polars.csv")
    polars.DataFrame(columns).write_parquet(tmp_path / "polars.parquet")
    for compression in ("none", "snappy", "gzip", "brotli", "lz4", "zstd"):
        path = tmp_path / f"{compression}.parquet"
        pyarrow.parquet.write_table(table, path, compression=compression)
    files = list(tmp_path.iterdir())
    assert len(files) == 11
    for path in files:
        assert read(path, device, key="id", value="price") == PAIRS, path
    with pytest.raises(ValueError, match=r"column 3 \(name\) holds text, not numbers"):
        read(tmp_path / "pandas.parquet", device, key="id", value="name")
    with pytest.raises(ValueError, match="separator and header are options for text"):
        read(tmp_path / "pandas.parquet", device, separator=",")


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_of_parquet_are_keys(unit: str, tmp_path: Path, device: str) -> None:
    times = np.array(["2024-01-02", "1969-12-31T12"], f"datetime64[{unit}]")
    path = tmp_path / "a.parquet"
    for zone in (None, "UTC"):
        at = pyarrow.array(times).cast(pyarrow.timestamp(unit, zone))
        pyarrow.parquet.write_table(pyarrow.table({"at": at, "load": [1, 2]}), path)
        for dtype in ("datetime64[s]", "datetime64[h]", f"datetime64[{unit}]"):
            d = Dictionary.from_file(path, "at", "load", key_type=dtype, device=device)
            assert d.key_dtype == dtype and (d.keys() == np.sort(times)).all()
        number = Dictionary.from_file(path, "at", "load", key_type="int64", device=device).last()
        assert number == (int(times[0].astype(np.int64)), 1)
    with pytest.raises(
        ValueError, match=r"a.parquet: keys\[1\] is 1969.*datetime64\[D\] can't hold"
    ):
        Dictionary.from_file(path, "at", "load", key_type="datetime64[D]", device=device)


def test_days_are_read_and_numbers_are_no_times(tmp_path: Path, device: str) -> None:
    days = np.array(["2024-02-29", "1960-01-01"], "datetime64[D]")
    path = tmp_path / "a.parquet"
    clock = pyarrow.array([1, 2], pyarrow.time64("us"))
    pyarrow.parquet.write_table(
        pyarrow.table({"day": days, "number": [1, 2], "clock": clock}), path
    )
    types = {"key_type": "datetime64[D]", "value_type": "datetime64[ms]", "device": device}
    d = Dictionary.from_file(path, "day", "number", key_type="datetime64[D]", value_type="int64")
    assert list(d.items()) == [
        (day, number) for day, number in zip(days[::-1], (2, 1), strict=True)
    ]
    with pytest.raises(
        TypeError, match=r"keys: expected datetime64\[D\], got numbers, which are no"
    ):
        Dictionary.from_file(path, "number", "day", **types)
    with pytest.raises(
        TypeError, match="which count microseconds since midnight; int64 reads them"
    ):
        Dictionary.from_file(path, "clock", "day", **types)


@pytest.mark.parametrize("unit", ["Y", "D", "s", "ms", "10ms", "us", "ns"])
def test_times_are_written_as_timestamps(unit: str, tmp_path: Path, device: str) -> None:
    dtype = f"datetime64[{unit}]"
    d = Dictionary(dtype, dtype, device=device)
    path = tmp_path / "a.parquet"
    for times in (np.array([], dtype), np.array(["1960-01-01", "2024-01-01"], dtype)):
        d.insert(times, times)
        d.to_file(path, force=True)
        again = Dictionary.from_file(path, key_type=dtype, value_type=dtype, device=device)
        assert list(again.items()) == list(d.items())
        assert (pandas.read_parquet(path)["key"].to_numpy() == times).all()
    with pytest.raises(TypeError, match=r"expected a .parquet file, for text has no datetime64"):
        d.to_file(tmp_path / "a.csv")
    with pytest.raises(TypeError, match=r"`read_csv\(…, parse_dates=\[…\]\)` and `from_pandas`"):
        d.insert_file(written(tmp_path, "1,2\n"))
    d.insert(times[:1], np.array(["NaT"], dtype))
    with pytest.raises(ValueError, match=r"values\[0\] is NaT, which no file can hold"):
        d.to_file(path, force=True)


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("uint32", "complex64", "values: .*got complex64"),
        ("uint32", ("float32", 2), "values: .*got"),
        ("uint32", [("a", "f4"), ("b", "u4")], "values: .*got"),
        ("uint32", "timedelta64[s]", r"values: .*got timedelta64\[s\]"),
        ("timedelta64[s]", "uint32", r"keys: .*got timedelta64\[s\]"),
        ("datetime64[ps]", "uint32", r"keys: .*got datetime64\[ps\]"),
    ],
)
def test_other_types_are_for_other_libraries(
    key: Any, value: Any, what: str, tmp_path: Path, device: str
) -> None:
    says = f"{what}.*use pandas, Polars or PyArrow"
    path = written(tmp_path, "1,2\n")
    with pytest.raises(TypeError, match=says):
        Dictionary.from_file(path, key_type=key, value_type=value, device=device)
    with pytest.raises(TypeError, match=says):
        Dictionary(key, value, device=device).to_file(tmp_path / "b.parquet")
    assert not (tmp_path / "b.parquet").exists()


def test_a_bad_file_changes_nothing(tmp_path: Path, device: str) -> None:
    d = Dictionary.build([1], [1], device=device)
    with pytest.raises(ValueError, match="line 3"):
        d.insert_file(written(tmp_path, "1,2\n2,3\nx,4\n"))
    assert list(d.items()) == [(1, 1)]


def test_names_match_regardless_of_case_where_none_is_equal(tmp_path: Path, device: str) -> None:
    path = tmp_path / "names.csv"
    for text, expected in (("ID,Price\n7,1\n", (7, 1)), ("ID,id,price\n7,8,1\n", (8, 1))):
        path.write_text(text)
        assert Dictionary.from_file(path, "id", "price", device=device).first() == expected
    path.write_text("ID,Id,price\n7,8,1\n")
    with pytest.raises(ValueError, match="2 columns are named `id`; choose one by its number"):
        Dictionary.from_file(path, "id", "price", device=device)


def test_a_link_to_a_file_stays_a_link(tmp_path: Path, device: str) -> None:
    file, link = tmp_path / "file.csv", tmp_path / "link.csv"
    file.write_text("old")
    link.symlink_to(file)
    d = Dictionary.build([1], [2], device=device)
    with pytest.raises(FileExistsError):
        d.to_file(link)
    d.to_file(link, force=True)
    assert link.is_symlink() and file.read_text() == "key,value\n1,2\n"
    file.unlink()
    d.to_file(link)
    assert not link.is_symlink() and not file.exists()


COMPOSITES: list[Any] = [
    ("uint32", "int64"),
    ("S4", "int32", "float64"),
    ("float32", "S3"),
    ("uint32", "uint32", "uint32", "uint32"),
    "S16",
    "S5",
]


def some_parts(key: Any) -> Any:
    """Three keys of a type, out of order."""
    if isinstance(key, tuple):
        return tuple(some_parts(part) for part in key)
    if key.startswith("S"):
        return np.array([b"nut", b"b\x00t", b""], key)
    return np.array([7, 5, 6], key)


@pytest.mark.parametrize("value", ["float64", None])
@pytest.mark.parametrize("key", COMPOSITES, ids=str)
def test_keys_of_several_parts_have_a_column_for_each(
    key: Any, value: Any, tmp_path: Path, device: str
) -> None:
    d: Any = gpulsm.Set(key, device=device)
    if value is not None:
        d = Dictionary(key, value, device=device)
    d.insert(some_parts(key), None if value is None else [0.7, 0.5, 0.6])
    for name in ("a.csv", "a.tsv.gz", "a.parquet"):
        d.to_file(tmp_path / name)
        types = {"key_type": key, "device": device}
        again: Any = gpulsm.Set.from_file(tmp_path / name, **types)  # Ignores values.
        if value is not None:
            again = Dictionary.from_file(tmp_path / name, value_type=value, **types)
        assert (again.key_dtype, again.value_dtype) == (d.key_dtype, d.value_dtype)
        assert len(again) == 3 and [*again] == [*d]
        assert value is None or again.values().tolist() == d.values().tolist()
        assert again.insert_file(tmp_path / name) == Imported(3, 3, 0, 0, 0)
    parts = len(key) if isinstance(key, tuple) else 1
    keys = [f"key{at}" for at in range(1, parts + 1)] if parts > 1 else ["key"]
    names = [*keys, *([] if value is None else ["value"])]
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == ",".join(names)
    assert pandas.read_parquet(tmp_path / "a.parquet").columns.tolist() == names


def test_columns_of_parts_are_chosen(tmp_path: Path, device: str) -> None:
    path = written(tmp_path, "time,price,symbol\n100,0.5,AAPL\n200,0.7,MSFT\n")
    types = {"key_type": ("S4", "int64"), "value_type": "float64", "device": device}
    expected = {(b"AAPL", 100): 0.5, (b"MSFT", 200): 0.7}
    for key in (["symbol", "time"], ("symbol", 1), [3, "TIME"]):
        d = Dictionary.from_file(path, key, "price", **types)
        assert dict(d.items()) == expected
    assert d.insert_file(path, ["symbol", "time"], 2).replaced == 2
    path = written(tmp_path, "AAPL,100,0.5\nMSFT,200,0.7\n")
    assert dict(Dictionary.from_file(path, **types).items()) == expected
    frame = d.to_pandas()
    frame["key_0"] = frame["key_0"].str.decode("ascii")
    frame.to_csv(tmp_path / "pandas.csv", index=False)
    assert dict(Dictionary.from_file(tmp_path / "pandas.csv", **types).items()) == expected


def test_times_are_parts(tmp_path: Path, device: str) -> None:
    key = ("uint32", "datetime64[s]")
    times = np.array(["2024-01-01", "1960-01-01", "2030-01-01"], "M8[s]")
    d = Dictionary(key, "int64", device=device)
    d.insert(([7, 7, 8], times), [1, 2, 3])
    path = tmp_path / "a.parquet"
    d.to_file(path)
    again = Dictionary.from_file(path, key_type=key, value_type="int64", device=device)
    assert [*again.items()] == [*d.items()]
    assert pandas.read_parquet(path)["key2"].dtype.kind == "M"
    with pytest.raises(TypeError, match=r"keys\[1\]: expected a .parquet file, for text has no"):
        d.to_file(tmp_path / "a.csv")
    fine = ("uint32", "datetime64[D]")
    at = pyarrow.table({"key1": [7], "key2": [times[0] + 1], "value": [1]})
    pyarrow.parquet.write_table(at, path)
    with pytest.raises(ValueError, match=r"keys\[1\]\[0\] is 2024.*datetime64\[D\] can't hold"):
        Dictionary.from_file(path, key_type=fine, device=device)


def test_what_is_wrong_with_parts_is_said(tmp_path: Path, device: str) -> None:
    path = written(tmp_path, "symbol,time,price\nAAPL,100,0.5\nMSFTX,200,0.7\n")
    types = {"key_type": ("S4", "int64"), "value_type": "float64", "device": device}
    for options, says in (
        ({}, r"line 3: column 1 \(symbol\) is `MSFTX`: 5 bytes \(expected at most 4 bytes\)"),
        ({"key": ["symbol", "date"]}, "no column is named `date`"),
        ({"key": ["symbol", "symbol"]}, "is to hold both part 1 of the keys and part 2"),
        ({"key_type": ("S5", "int32", "int32")}, r"which column holds .*\(argument key, a list\)"),
        ({"key": ["symbol", 0]}, r"key\[1\]: expected a number from 1"),
    ):
        with pytest.raises(ValueError, match=says):
            Dictionary.from_file(path, **{**types, **options})
    for options, says in (
        ({"key": "symbol"}, r"key: expected a list of 2 columns, one for each part .*got 'symbol'"),
        ({"key": ["symbol"]}, r"expected a list of 2 columns.* keys \(S4, int64\), got 1 of them"),
        ({"key": ["symbol", None]}, r"key\[1\]: expected the name or the number .* got None"),
        ({"key": ["symbol", 1.5]}, r"key\[1\]: expected the name or the number .* got float"),
        ({"key_type": ("S4", "timedelta64[s]")}, r"keys\[1\]: .*got timedelta64\[s\]; use pandas"),
        (
            {"key": ["symbol", "time"], "key_type": "uint32"},
            r"one column, for keys are uint32, got a list; a tuple of types makes keys of several",
        ),
    ):
        with pytest.raises(TypeError, match=says):
            Dictionary.from_file(path, **{**types, **options})
    d = Dictionary("S4", "float64", device=device)
    (tmp_path / "a.csv").write_text("key,value\n,1\n")
    with pytest.raises(ValueError, match=r"line 2: column 1 \(key\) is empty"):
        d.insert_file(tmp_path / "a.csv")
    duplicates = written(tmp_path, "key1,key2,value\n7,1,2\n7,1,3\n")
    pairs = Dictionary(("uint32", "uint32"), "uint32", device=device)
    with pytest.raises(gpulsm.DuplicateKeyError, match=r"rows 1 and 2 .* both have the key \(7, 1"):
        pairs.insert_file(duplicates, duplicates="error")
    with pytest.raises(ValueError, match="none named `key`; keys of several parts have a tuple of"):
        Dictionary.from_file(duplicates, device=device)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, device: str) -> None:
    """To open a pipe waits for its other end: for ever, and Ctrl-C does not end it."""
    d = Dictionary.build([1, 2], [3, 4], device=device)
    for name in ("pipe", "pipe.csv", "pipe.parquet"):
        os.mkfifo(tmp_path / name)
    calls: list[Callable[[Path], Any]] = [
        lambda path: d.to_file(path),
        lambda path: d.to_file(path, force=True),
        lambda path: d.save(path, overwrite=True),
        lambda path: Dictionary.from_file(path, "a", "b"),
        lambda path: gpulsm.Set.from_file(path, "a"),
        lambda path: d.insert_file(path, "a", "b"),
        lambda path: Dictionary.load(path),
        lambda path: gpulsm.info(path),
    ]
    for path in (tmp_path / "pipe.csv", tmp_path / "pipe.parquet", Path("/dev/null")):
        for call in calls:
            with pytest.raises((OSError, ValueError)):
                call(path)
    assert len(d) == 2 and (tmp_path / "pipe.csv").is_fifo()


def test_types_are_those_of_parquet(tmp_path: Path, device: str) -> None:
    path = tmp_path / "a.parquet"
    columns = {
        "id": pyarrow.array([7, 5], pyarrow.int64()),
        "price": pyarrow.array([0.7, 0.5], pyarrow.float64()),
        "day": pyarrow.array([1, 2], pyarrow.int32()).cast(pyarrow.date32()),
        "at": pyarrow.array([1, 2], pyarrow.timestamp("ms")),
        "small": pyarrow.array([1, 2], pyarrow.int16()),
        "name": pyarrow.array(["a", "bc"]),
        "half": pyarrow.array(np.array([1, 2], np.float16)),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    d = Dictionary.from_file(path, "id", "price", device=device)
    assert (d.key_dtype, d.value_dtype) == (np.int64, np.float64) and d[5] == 0.5
    d = Dictionary.from_file(path, ["at", "small"], "day", device=device)
    assert d.key_dtype == (np.dtype("datetime64[ms]"), np.int32)
    assert d.value_dtype == np.dtype("datetime64[D]")
    assert gpulsm.Set.from_file(path, "id", device=device).key_dtype == np.int64
    assert Dictionary.from_file(path, "id", "price", key_type="uint32", device=device)[7] == 0.7
    for column in ("name", "half"):
        with pytest.raises((TypeError, ValueError), match="key_type"):
            Dictionary.from_file(path, column, "price", device=device)
    with pytest.raises((TypeError, ValueError), match="holds numbers, not bytes"):
        gpulsm.Set.from_file(path, "half", key_type="S2", device=device)


def test_a_column_is_not_both_key_and_value(tmp_path: Path, device: str) -> None:
    path = written(tmp_path, "7,1\n5,2\n")
    with pytest.raises(ValueError, match="both"):
        Dictionary.from_file(path, 1, 1, header="no", device=device)
