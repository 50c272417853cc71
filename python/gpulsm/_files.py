"""Columns of files: CSV and Parquet, which the native half reads and writes."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from gpulsm._base import whole
from gpulsm._families import NUMPY, DType, describe
from gpulsm._keys import KeyType
from gpulsm._layouts import Layout
from gpulsm._native import Column, read_file, write_file
from gpulsm._times import check_no_nat, in_unit
from gpulsm._types import ColumnChoice, FilePath, Header, Missing

_TYPES = ("uint32", "uint64", "int32", "int64", "float32", "float64")

#: Units of `datetime64` that are finer than those of any file.
_TOO_FINE = ("ps", "fs", "as")


class FileColumns(NamedTuple):
    """What was read from a file."""

    keys: NDArray[Any]
    values: NDArray[Any] | None
    skipped: int
    keys_rounded: int
    values_rounded: int


def read_columns(
    path: FilePath,
    types: tuple[KeyType, DType | None],
    columns: tuple[ColumnChoice | None, ColumnChoice | None],
    separator: str | None,
    header: Header,
    missing: Missing,
) -> FileColumns:
    """The keys and values of a file, as arrays of these types over the memory that they were read to."""
    path, key, value = file_name(path), _key_of_file(types[0]), types[1]
    if value is None and columns[1] is not None:
        raise TypeError("value: expected none, for a set has no values")
    keys, values, skipped = read_file(
        path,
        {
            "key_type": _stored("keys", key, path),
            "value_type": None if value is None else _stored("values", value, path),
            "key_column": _chosen("key", columns[0]),
            "value_column": _chosen("value", columns[1]),
            "separator": _separator(separator),
            "header": _one_of("header", header, get_args(Header)),
            "missing": _one_of("missing", missing, get_args(Missing)),
        },
    )
    return FileColumns(
        _array(f"{path}: keys", keys, key),
        None if value is None else _array(f"{path}: values", values, value),
        skipped,
        keys.rounded,
        values.rounded,
    )


def write_columns(
    path: FilePath,
    keys: NDArray[Any],
    values: NDArray[Any] | None,
    types: tuple[KeyType, DType | None],
    separator: str | None,
    force: bool,
) -> None:
    """Writes keys and values to a file."""
    path, key, value = file_name(path), _key_of_file(types[0]), types[1]
    if not isinstance(force, (bool, np.bool_)):
        raise TypeError(f"force: expected True or False, got {type(force).__name__}")
    options = {
        "key_type": _stored("keys", key, path),
        "value_type": None if value is None else _stored("values", value, path),
        "separator": _separator(separator),
        "force": bool(force),
    }
    keys, options["key_times"] = _timestamps("keys", keys)
    options["value_times"] = None
    if values is not None:
        values, options["value_times"] = _timestamps("values", values)
    # Those of a set have no bytes.
    with_values = 0 if values is None else NUMPY.address(values)
    write_file(path, ((NUMPY.address(keys), len(keys)), (with_values, len(keys))), options)


def file_name(path: FilePath) -> str:
    """The name of a file, as text."""
    try:
        return os.fsdecode(path)
    except TypeError:
        kind = type(path).__name__
        raise TypeError(f"path: expected the name of a file, got {kind}") from None


def _key_of_file(key: KeyType) -> DType:
    """The type of keys, if one column of a file can hold them."""
    if isinstance(key, Layout):
        raise TypeError(
            f"keys: expected keys of one number, for which a file has a column, got {key}; use pandas, Polars "
            "or PyArrow for the file, and `from_pandas(…, key=[…])`, `to_pandas` and the like"
        )
    return key


def _stored(name: str, dtype: DType, path: str) -> str:
    """The type of number that a file has for a type."""
    if dtype.kind == "M" and np.datetime_data(dtype)[0] not in _TOO_FINE:
        if not path.lower().endswith(".parquet"):
            raise TypeError(
                f"{name}: expected a .parquet file, for text has no {describe(dtype)}; with pandas, "
                "`read_csv(…, parse_dates=[…])` and `from_pandas` read times, and `to_pandas().to_csv(…)` "
                "writes them"
            )
        return "int64"
    if dtype.name in _TYPES:
        return dtype.name
    raise TypeError(
        f"{name}: expected {', '.join(_TYPES)} or datetime64, which files hold, got {describe(dtype)}; use "
        "pandas, Polars or PyArrow for the file, and `from_pandas`, `to_pandas` and the like"
    )


def _array(name: str, column: Column, dtype: DType) -> NDArray[Any]:
    """The numbers of a column, where they are; times in the unit of the type."""
    array: NDArray[Any] = np.asarray(column)
    if dtype.kind != "M":
        return array
    if column.datetime_unit is None:
        what = f"which count {column.unit}" if column.unit else "which are no times in the file"
        raise TypeError(
            f"{name}: expected {describe(dtype)}, got numbers, {what}; int64 reads them"
        )
    times: NDArray[Any] = array.view(f"datetime64[{column.datetime_unit}]")
    return in_unit(name, times, dtype)


def _timestamps(name: str, array: NDArray[Any]) -> tuple[NDArray[Any], str | None]:
    """Times in a unit that Parquet has, and that unit; what is no time stays as it is."""
    if array.dtype.kind != "M":
        return array, None
    check_no_nat(name, array, "which no file can hold")
    unit = np.datetime_data(array.dtype)[0]
    unit = unit if unit in ("ms", "us", "ns") else "ms"
    return in_unit(name, array, np.dtype(f"datetime64[{unit}]")), unit


def _chosen(name: str, column: Any) -> ColumnChoice | None:
    if column is None or isinstance(column, str):
        return column
    if not isinstance(column, (int, np.integer)) or isinstance(column, bool):
        kind = type(column).__name__
        raise TypeError(f"{name}: expected the name or the number of a column, got {kind}")
    return whole(name, column, 1)


def _separator(separator: Any) -> str | None:
    if separator is None or isinstance(separator, str):
        return separator
    raise TypeError(f"separator: expected one character, got {type(separator).__name__}")


def _one_of(name: str, given: Any, known: tuple[str, ...]) -> str:
    if given in known:
        return str(given)
    *most, last = map(repr, known)
    raise ValueError(f"{name}: expected {', '.join(most)} or {last}, got {given!r}")
