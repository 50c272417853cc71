"""Columns of files: CSV and Parquet, which the native half reads and writes."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpulsm._base import whole
from gpulsm._families import NUMPY, DType, describe
from gpulsm._keys import KeyType, describe_key
from gpulsm._layouts import Layout
from gpulsm._native import Column, file_types, read_file, write_file
from gpulsm._settings import key_type, value_dtype
from gpulsm._times import check_no_nat, in_unit
from gpulsm._types import ColumnChoice, FilePath, Header, KeyColumns, KeyLike, Missing

_TYPES = ("uint32", "uint64", "int32", "int64", "float32", "float64")

#: Units of `datetime64` that are finer than those of any file.
_TOO_FINE = ("ps", "fs", "as")

_TABLE = re.compile(r"\.((csv|tsv|tab)(\.gz)?|parquet)$", re.IGNORECASE)


class FileColumns(NamedTuple):
    """What was read from a file."""

    keys: NDArray[Any] | tuple[NDArray[Any], ...]
    values: NDArray[Any] | None
    rows: int
    skipped: int
    keys_rounded: int
    values_rounded: int


def read_columns(
    path: FilePath,
    types: tuple[KeyType, DType | None],
    columns: tuple[KeyColumns | None, ColumnChoice | None],
    separator: str | None,
    header: Header,
    missing: Missing,
) -> FileColumns:
    """The keys and values of a file, as arrays of these types over the memory that they were read to."""
    path, value = file_name(path), types[1]
    check_regular(path)
    parts = _named_parts(types[0])
    if value is None and columns[1] is not None:
        raise TypeError("value: expected none, for a set has no values")
    keys, values, skipped = read_file(
        path,
        {
            "key_types": [_stored_part(name, part, path) for name, part in parts],
            "value_type": None if value is None else _stored("values", value, path),
            "key_columns": _chosen_keys(columns[0], types[0]),
            "value_column": _chosen("value", columns[1]),
            "separator": _separator(separator),
            "header": _one_of("header", header, get_args(Header)),
            "missing": _one_of("missing", missing, get_args(Missing)),
        },
    )
    arrays = tuple(
        _array(f"{path}: {name}", column, part)
        for (name, part), column in zip(parts, keys, strict=True)
    )
    return FileColumns(
        keys=arrays if _is_tuple(types[0]) else arrays[0],
        values=None if value is None else _array(f"{path}: values", values, value),
        rows=len(arrays[0]),
        skipped=skipped,
        keys_rounded=sum(column.rounded for column in keys),
        values_rounded=values.rounded,
    )


def write_columns(
    path: FilePath,
    keys: NDArray[Any] | tuple[NDArray[Any], ...],
    values: NDArray[Any] | None,
    types: tuple[KeyType, DType | None],
    separator: str | None,
    force: bool,
) -> None:
    """Writes keys and values to a file."""
    path = file_name(path)
    check_regular(path)
    parts, value = _named_parts(types[0]), types[1]
    options = {"separator": _separator(separator), "force": flag("force", force)}
    stored = [_stored_part(name, part, path) for name, part in parts]
    arrays = list(keys) if isinstance(keys, tuple) else [keys]
    # As the program names them.
    titles = ["key"] if len(parts) == 1 else [f"key{at}" for at in range(1, len(parts) + 1)]
    names = [name for name, _ in parts]
    if value is not None and values is not None:
        stored.append(_stored("values", value, path))
        arrays.append(values)
        titles.append("value")
        names.append("values")
    written, kept = [], []
    for title, name, cell_type, array in zip(titles, names, stored, arrays, strict=True):
        array, times = _timestamps(name, array)
        kept.append(array)  # Until the file is written.
        cells = NUMPY.address(array), len(array)
        written.append({"name": title, "cell_type": cell_type, "times": times, "cells": cells})
    with naming_missing_folder(path):
        write_file(path, written, options)


def types_of_file(
    path: FilePath,
    columns: tuple[KeyColumns | None, ColumnChoice | None],
    types: tuple[KeyLike | None, DTypeLike | None],
    *,
    has_values: bool,
) -> tuple[KeyType, DType | None]:
    """The types of keys and values that were given, or else those of the columns of a Parquet file; of text, uint32."""
    path, (key, value) = file_name(path), types
    check_regular(path)
    if key is None or (value is None and has_values):
        is_list = isinstance(columns[0], (list, tuple))
        chosen: list[Any] = [columns[0]]
        if columns[0] is None or isinstance(columns[0], (list, tuple)):
            chosen = [*(columns[0] or ())]
        if path.lower().endswith(".parquet"):
            keys = [_chosen(f"key[{at}]", one) for at, one in enumerate(chosen)]
            count = None if key is None else len(key) if isinstance(key, tuple) else 1
            found = file_types(path, count, keys, _chosen("value", columns[1]), has_values)
        else:
            found = [("", "uint32")] * (max(len(chosen), 1) + has_values)
        if value is None and has_values:
            value = _found_type("value", *found[-1])
        if key is None:
            parts = found[:-1] if has_values else found
            names = [f"key[{at}]" for at in range(len(parts))]
            if len(parts) == 1 and not is_list:
                key = _found_type("key", *parts[0])
            else:
                key = tuple(
                    _found_type(name, *part) for name, part in zip(names, parts, strict=True)
                )
    return key_type(key, "key_type"), value_dtype(value, "value_type") if has_values else None


def _found_type(argument: str, column: str, found: str | None) -> str:
    """The type of a column; an error if it does not say one."""
    if found is not None:
        return found
    kind = argument.partition("[")[0]
    raise TypeError(
        f"{argument}: {column} has no type that dictionaries have: give one, such as {kind}_type='S12' for texts of "
        "at most 12 bytes, or 'float64' for decimals"
    )


@contextmanager
def naming_missing_folder(path: str) -> Iterator[None]:
    """If a file or folder can't be created because the folder that it is to be in is missing, the error names that."""
    try:
        yield
    except FileNotFoundError:
        folder = os.path.dirname(path.rstrip(os.sep))
        if not folder or os.path.isdir(folder):
            raise
        text = "there is no such folder; `os.makedirs(…)` creates it"
        if folder.startswith("~"):
            text = "there is no such folder; `os.path.expanduser(…)` replaces ~ by the home folder"
        raise FileNotFoundError(errno.ENOENT, text, folder) from None


def flag(name: str, given: Any) -> bool:
    """True or False."""
    if not isinstance(given, (bool, np.bool_)):
        raise TypeError(f"{name}: expected True or False, got {type(given).__name__}")
    return bool(given)


def file_name(path: FilePath) -> str:
    """The name of a file, as text."""
    try:
        name = os.fsdecode(path)
    except TypeError:
        kind = type(path).__name__
        raise TypeError(f"path: expected the name of a file, got {kind}") from None
    if not name or "\0" in name:
        what = "one with a null character" if name else "an empty text"
        raise ValueError(f"path: expected the name of a file, got {what}")
    return name


def check_regular(path: str) -> None:
    """An error for a pipe or a device: reading from one, or opening it to be written, may wait for ever."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # Nothing, or nothing that can be seen: opening it says why.
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError(f"path: expected a file, got a pipe or a device, {path!r}")


def is_table(path: str) -> bool:
    """Whether a file is CSV or Parquet by its name."""
    return _TABLE.search(path) is not None


def _is_tuple(key: KeyType) -> bool:
    return isinstance(key, Layout) and key.is_tuple


def _named_parts(key: KeyType) -> list[tuple[str, DType]]:
    """The parts of keys, each of which has a column, with the names that messages give them."""
    if not isinstance(key, Layout):
        return [("keys", key)]
    if not key.is_tuple:
        return [("keys", key.parts[0])]
    return [(f"keys[{at}]", part) for at, part in enumerate(key.parts)]


def _stored_part(name: str, dtype: DType, path: str) -> str:
    """The type that a file has for a part of keys, which may also be bytes."""
    return f"S{dtype.itemsize}" if dtype.kind == "S" else _stored(name, dtype, path)


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


def _chosen_keys(columns: Any, key: KeyType) -> list[ColumnChoice]:
    """The columns of the parts of keys; none, if they are to be found by their names."""
    if columns is None:
        return []
    is_list = isinstance(columns, (list, tuple))
    if not _is_tuple(key):
        if is_list:
            raise TypeError(
                f"key: expected one column, for keys are {describe_key(key)}, got a {type(columns).__name__}; "
                "a tuple of types makes keys of several parts (`from_file(…, key_type=('uint32', 'int64'))`)"
            )
        one = _chosen("key", columns)
        return [] if one is None else [one]
    parts = len(key.parts) if isinstance(key, Layout) else 1
    if not is_list or len(columns) != parts:
        got = f"{len(columns)} of them" if is_list else repr(columns)
        raise TypeError(
            f"key: expected a list of {parts} columns, one for each part of keys {describe_key(key)}, got {got}"
        )
    chosen = [_chosen(f"key[{at}]", column) for at, column in enumerate(columns)]
    if None in chosen:
        raise TypeError(
            f"key[{chosen.index(None)}]: expected the name or the number of a column, got None"
        )
    return [column for column in chosen if column is not None]


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
