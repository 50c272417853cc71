"""Every pair as a table of PyArrow's, pandas's or Polars's, and columns of such tables."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpulsm._columns import of_column
from gpulsm._families import DType, is_of
from gpulsm._times import in_other_unit

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


#: An array of keys, or one for each of their parts.
Keys: TypeAlias = NDArray[Any] | tuple[NDArray[Any], ...]


def check_table(table: Any, argument: str, expected: str) -> None:
    """An error for what has no columns. Tables of other libraries may have the methods of these."""
    if is_of("polars", "LazyFrame", table):
        raise TypeError("expected a DataFrame, got a LazyFrame; `.collect()` makes one")
    if not hasattr(table, "column_names") and not hasattr(table, "columns"):
        kind = type(table).__name__
        raise TypeError(
            f"{argument}: expected {expected}, got {kind}; `Dictionary.build(keys, values)` takes columns, "
            "arrays and lists"
        )


def index(frame: Any) -> Any:
    """The index of a data frame, as its column of keys; of several levels, a column for each."""
    if frame.index.nlevels > 1:
        return tuple(frame.index.get_level_values(level) for level in range(frame.index.nlevels))
    return frame.index


def column(table: Any, name: Any, argument: str) -> Any:
    """A column of a table by its name."""
    names = names_of(table)
    if name not in names:
        known = ", ".join(map(repr, names))
        cure = ""
        if isinstance(name, tuple) and all(part in names for part in name):
            cure = f"; a list takes several columns: {argument}={[*name]}"
        raise KeyError(f"{argument}: no column is named {name!r}; there are {known}{cure}")
    if names.count(name) > 1:
        raise ValueError(f"{argument}: expected one column, got {names.count(name)} named {name!r}")
    return table[name]


def exported_key(table: Any) -> Any:
    """The names of the columns of keys that tables of dictionaries have; None if they are not there."""
    return _exported(names_of(table), "key")


def exported_value(table: Any) -> Any:
    """The names of the columns of values that tables of dictionaries have; None if they are not there."""
    names = names_of(table)
    value = _exported(names, "value")
    parts = [name for name in names if isinstance(name, str) and name.startswith("value_")]
    if value is None and parts:
        raise KeyError(
            f"value: no column is named 'value'; to take {', '.join(map(repr, parts))}, name key and value"
        )
    return value


def _exported(names: list[Any], name: str) -> Any:
    """The column of a name, or those of its parts."""
    if name in names:
        return name
    parts = [*itertools.takewhile(names.__contains__, (f"{name}_{at}" for at in itertools.count()))]
    return parts or None


def key_columns(table: Any, names: Any) -> Any:
    """The keys: one column, or those of a list, one for each part of the keys."""
    if not isinstance(names, list):
        return column(table, names, "key")
    return tuple(column(table, name, "key") for name in names)


def columns_of(table: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """The keys and the values of a table that has no index."""
    key = exported_key(table) if key is None else key
    value = exported_value(table) if value is None else value
    missing = [name for name, chosen in (("key", key), ("value", value)) if chosen is None]
    if missing:
        raise _not_chosen(table, missing)
    return key_columns(table, key), value_columns(table, value)


def indexed_columns(frame: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """The keys and the values of a pandas data frame, whose index has the keys if no column is chosen for them."""
    key = exported_key(frame) if key is None else key
    value = exported_value(frame) if value is None else value
    if key is None:
        if value is None and len(frame.columns) == 1 and not _is_numbered(frame.index):
            value = frame.columns[0]
        if value is None:
            raise _not_chosen(frame, ["key", "value"])
        return index(frame), value_columns(frame, value)
    if value is None:
        raise _not_chosen(frame, ["value"])
    return key_columns(frame, key), value_columns(frame, value)


def keys_of(table: Any, key: Any, expected: str) -> Any:
    """The keys of a set: a column of a table, or several; or one column that is given by itself."""
    has_columns = hasattr(table, "column_names") or hasattr(table, "columns")
    if not has_columns:
        if key is not None:
            raise TypeError("key: expected none with a single column, which has the keys")
        if is_of("pandas", "MultiIndex", table):
            return tuple(table.get_level_values(level) for level in range(table.nlevels))
        return table
    check_table(table, "table", expected)
    names = names_of(table)
    if key is None:
        key = exported_key(table)
    if key is None and len(names) == 1:
        [key] = names
    if key is None:
        raise _not_chosen(table, ["key"])
    return key_columns(table, key)


def names_of(table: Any) -> list[Any]:
    """The names of the columns of a table."""
    return list(table.column_names if hasattr(table, "column_names") else table.columns)


def _not_chosen(table: Any, arguments: list[str]) -> TypeError:
    """An error that says which columns there are to choose from."""
    known = ", ".join(map(repr, names_of(table)))
    needed = " and ".join(f"{name}=…" for name in arguments)
    cure = "" if arguments == ["key"] else "; `gpulsm.Set` has ways to make a set of keys alone"
    return TypeError(f"choose columns by {needed}: none has that name, and there are {known}{cure}")


def _is_numbered(index: Any) -> bool:
    """Whether an index only numbers the rows."""
    return is_of("pandas", "RangeIndex", index) and index.name is None


def value_columns(table: Any, names: Any) -> Any:
    """The values: one column; or those of a list, of one type, as rows."""
    if not isinstance(names, list):
        return column(table, names, "value")
    columns = [
        np.asarray(of_column(f"value[{at}]", column(table, name, "value"), None))
        for at, name in enumerate(names)
    ]
    types = sorted({str(one.dtype) for one in columns})
    if len(types) != 1:
        raise TypeError(f"value: expected columns of one type, got {', '.join(types) or 'none'}")
    return np.stack(columns, axis=1)


def to_arrow(keys: Keys, values: NDArray[Any] | None) -> pyarrow.Table:
    """A table with the columns `key` and, unless it is of a set, `value`."""
    import pyarrow

    columns = {name: _arrow_column(part) for name, part in _key_columns(keys).items()}
    if values is not None:
        try:
            columns["value"] = _arrow_column(values)
        except (pyarrow.ArrowException, TypeError, ValueError) as error:
            raise TypeError(f"Arrow has no column of {values.dtype}: {error}") from None
    return pyarrow.table(columns)


def _arrow_column(values: NDArray[Any]) -> Any:
    import pyarrow

    if values.ndim > 1:
        items = pyarrow.array(values.reshape(-1))
        return pyarrow.FixedSizeListArray.from_arrays(items, int(np.prod(values.shape[1:])))
    if values.dtype.fields is not None:
        names = list(values.dtype.fields)
        columns = [pyarrow.array(values[name].copy()) for name in names]
        return pyarrow.StructArray.from_arrays(columns, names)
    if values.dtype.kind == "S":
        # Without the zeros at their end, so that they are equal to those that came in.
        lengths = np.char.str_len(values)
        raw = values.view(np.uint8).reshape(len(values), values.dtype.itemsize)
        data = raw[np.arange(values.dtype.itemsize) < lengths[:, None]]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(data)]
        large = pyarrow.LargeBinaryArray.from_buffers(pyarrow.large_binary(), len(values), buffers)
        return large.cast(pyarrow.binary()) if offsets[-1] < 1 << 31 else large
    if values.dtype.kind in "cUV":
        # Arrow knows no such numbers or texts of one length: their bytes, as they are.
        width = pyarrow.binary(values.dtype.itemsize)
        buffers = [None, pyarrow.py_buffer(values)]
        return pyarrow.FixedSizeBinaryArray.from_buffers(width, len(values), buffers)
    return pyarrow.array(_in_unit("Arrow", values, ("s", "ms", "us", "ns")))


def to_pandas(keys: Keys, values: NDArray[Any] | None) -> pandas.DataFrame:
    """A data frame with the columns of `_columns`."""
    import pandas

    try:
        return pandas.DataFrame(_columns(keys, values))
    except ValueError as error:
        what = None if values is None else values.dtype
        raise TypeError(f"pandas has no columns for values of {what}: {error}") from None


def to_polars(keys: Keys, values: NDArray[Any] | None) -> polars.DataFrame:
    """A data frame with the columns of `_columns`."""
    import polars

    columns = _columns(keys, values)
    for name, array in columns.items():
        if array.dtype.kind in "cV":
            raise TypeError(f"Polars has no column of {array.dtype}, which {name} is")
        columns[name] = _in_unit("Polars", array, ("ms", "us", "ns"))
    bytes_of_keys = {
        name: polars.Series(name, array.tolist(), polars.Binary)
        for name, array in columns.items()
        if array.dtype.kind == "O"
    }
    return polars.DataFrame({**columns, **bytes_of_keys})


def _key_columns(keys: Keys) -> dict[str, NDArray[Any]]:
    """The column `key`, or a column for each part: `key_0`, `key_1`, …"""
    if isinstance(keys, tuple):
        return {f"key_{at}": part for at, part in enumerate(keys)}
    return {"key": keys}


def _columns(keys: Keys, values: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
    """The column `key` and, unless it is of a set, `value`; where a value is a few numbers or a structure,
    a column for each of its parts: `value_0`, `value_1`, …, or `value_name`."""
    columns = {name: _bytes_as_objects(part) for name, part in _key_columns(keys).items()}
    if values is not None and values.dtype.fields is not None:
        columns.update({f"value_{name}": values[name].copy() for name in values.dtype.fields})
    elif values is not None and values.ndim > 1:
        parts = values.reshape(len(values), int(np.prod(values.shape[1:])))
        columns.update({f"value_{part}": parts[:, part].copy() for part in range(parts.shape[1])})
    elif values is not None:
        columns["value"] = values
    return columns


def _bytes_as_objects(column: NDArray[Any]) -> NDArray[Any]:
    """Bytes as Python's objects, without the zeros at their end; other elements as they are."""
    return column.astype(object) if column.dtype.kind == "S" else column


def _in_unit(library: str, array: NDArray[Any], units: tuple[str, ...]) -> NDArray[Any]:
    """Times in a unit that a library's tables know, the coarsest first: the nearest to their own."""
    unit, count = np.datetime_data(array.dtype) if array.dtype.kind in "Mm" else ("", 1)
    if not unit or array.dtype == "datetime64[D]" or (unit in units and count == 1):
        return array
    known = units[-1] if unit in ("ns", "ps", "fs", "as") else unit if unit in units else units[0]
    wanted: DType = np.dtype(f"{array.dtype.type.__name__}[{known}]")
    times, wrong = in_other_unit(array, wanted)
    if wrong is not None:
        raise ValueError(
            f"{library} has no column of {array.dtype}, and one of {wanted} can't hold {wrong[1]}"
        )
    return times
