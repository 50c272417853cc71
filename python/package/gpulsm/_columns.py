"""Columns of tables: pandas's, Polars's, PyArrow's."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._families import DType, describe, is_of
from gpulsm._scalars import of_sequence

#: Polars's own names of types.
_POLARS = {
    "uint32": "UInt32",
    "uint64": "UInt64",
    "int32": "Int32",
    "int64": "Int64",
    "float32": "Float32",
    "float64": "Float64",
}

#: Whole tables, and how one column of each is named.
_TABLES = [
    ("pandas", "DataFrame", "frame['name']"),
    ("polars", "DataFrame", "frame['name']"),
    ("polars", "LazyFrame", "frame.collect()['name']"),
    ("pyarrow", "Table", "table['name']"),
    ("pyarrow", "RecordBatch", "batch['name']"),
]


def cure(given: Any, dtype: DType) -> str:
    """How the library of a column converts it to a type."""
    base = dtype.base.name
    if is_of("polars", "Series", given):
        return f".cast(polars.{_POLARS.get(base, base)})"
    if is_of("pyarrow", "Array", given) or is_of("pyarrow", "ChunkedArray", given):
        return f".cast({base!r})"
    return f".astype({base!r})"


def of_column(name: str, given: Any, dtype: DType | None) -> NDArray[Any] | None:
    """A column of a table, over its own buffer where it has one; None if this is no column."""
    if is_of("pandas", "Series", given) or is_of("pandas", "Index", given):
        return _of_bytes(name, _of_pandas(name, given), dtype)
    if is_extension_array(given):
        import pandas

        return _of_bytes(name, _of_pandas(name, pandas.Series(given, copy=False)), dtype)
    if is_of("pyarrow", "Array", given) or is_of("pyarrow", "ChunkedArray", given):
        return _of_bytes(name, _of_arrow(name, given, dtype), dtype)
    if is_of("polars", "Series", given):
        return _of_bytes(name, _of_polars(name, given), dtype)
    for module, kind, column in _TABLES:
        if is_of(module, kind, given):
            raise TypeError(
                f"{name}: expected one column, got a {module} {kind}; `{column}` is one, and "
                f"`Dictionary.from_{module.replace('py', '')}` takes the table with the names of its columns"
            )
    return None


def _of_bytes(name: str, array: NDArray[Any], dtype: DType | None) -> NDArray[Any]:
    """Bytes of any length, which are Python's objects, as bytes of one length: that of a type, or the greatest.
    Zeros are appended to shorter ones."""
    is_wanted = dtype is None or dtype.kind == "S"
    if array.dtype.kind != "O" or array.ndim != 1 or not len(array) or not is_wanted:
        return array
    items = array.tolist()
    if not all(isinstance(item, bytes) for item in items):
        return array if dtype is None else of_sequence(name, items, dtype)
    longest = max(map(len, items))
    wanted = np.dtype(f"S{longest}") if dtype is None else dtype
    if longest > wanted.itemsize or any(item.endswith(b"\0") for item in items):
        return of_sequence(name, items, wanted)  # Each is checked.
    return np.array(items, wanted)


def is_extension_array(given: Any) -> bool:
    """Whether this is what pandas keeps a column in: `Series.array`, `pandas.array(…)`, a `Categorical`, …"""
    pandas = sys.modules.get("pandas")
    extensions = getattr(getattr(pandas, "api", None), "extensions", None)
    found = getattr(extensions, "ExtensionArray", None)
    return isinstance(found, type) and isinstance(given, found)


def _of_pandas(name: str, series: Any) -> NDArray[Any]:
    if is_of("pandas", "MultiIndex", series):
        raise TypeError(
            f"{name}: expected one column, got an index of {series.nlevels} levels; "
            "`tuple(map(….get_level_values, range(….nlevels)))` makes columns of them, for keys of several parts"
        )
    kind = series.dtype
    is_plain = isinstance(kind, np.dtype)
    zone = getattr(kind, "tz", None) or getattr(getattr(kind, "pyarrow_dtype", None), "tz", None)
    if zone is not None:
        at = "" if is_of("pandas", "Index", series) else ".dt"
        cure = f"`{at}.tz_convert('UTC'){at}.tz_localize(None)`"
        raise _has_time_zone(name, zone, cure)
    # In an array of NumPy's a NaN is a number; in one of pandas's own a missing value is none.
    if series.hasnans and not (is_plain and kind.kind == "f"):
        raise _has_nulls(
            name, "missing value", np.asarray(series.isna()), "keep = keys.notna()", "[keep]"
        )
    if is_plain:
        return np.asarray(series)
    # Types of pandas's own, over NumPy's or Arrow's buffers.
    base = getattr(kind, "numpy_dtype", None)
    return np.asarray(series.to_numpy(dtype=base) if base is not None else series.to_numpy())


def _of_polars(name: str, series: Any) -> NDArray[Any]:
    zone = getattr(series.dtype, "time_zone", None)
    if zone is not None:
        cure = "`.dt.convert_time_zone('UTC').dt.replace_time_zone(None)`"
        raise _has_time_zone(name, zone, cure)
    if series.null_count():
        nulls = series.is_null().to_numpy()
        raise _has_nulls(name, "null", nulls, "keep = keys.is_not_null()", ".filter(keep)")
    if hasattr(series.dtype, "fields"):
        # Their parts would become numbers of one type.
        raise TypeError(
            f"{name}: expected numbers, got {series.dtype}; `.struct.unnest()` makes columns of it, and "
            "`from_polars(…, value=[…])` takes several of one type"
        )
    parts = series
    while hasattr(parts.dtype, "inner"):
        parts = parts.explode()
        if parts.null_count():
            raise _has_inner_nulls(name, parts.is_null().to_numpy(), len(parts) // len(series))
    try:
        return np.asarray(series.to_numpy())
    except Exception:  # Polars's own: there is no such type in NumPy.
        raise TypeError(f"{name}: expected numbers, got {series.dtype}") from None


def _of_arrow(name: str, array: Any, dtype: DType | None) -> NDArray[Any]:
    import pyarrow

    zone = getattr(array.type, "tz", None)
    if zone is not None:
        cure = f"`.cast(pyarrow.timestamp('{array.type.unit}'))`"
        raise _has_time_zone(name, zone, cure)
    if array.null_count:
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        raise _has_nulls(name, "null", nulls, "keep = keys.is_valid()", ".filter(keep)")
    if isinstance(array, pyarrow.ChunkedArray):
        # One chunk stays where it is; several are put together.
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array.type, pyarrow.FixedSizeListType):
        parts = array.flatten()
        if parts.null_count:
            nulls = parts.is_null().to_numpy(zero_copy_only=False)
            raise _has_inner_nulls(name, nulls, array.type.list_size)
        items = _of_arrow(name, parts, None if dtype is None else dtype.base)
        return np.asarray(items.reshape(len(array), array.type.list_size, *items.shape[1:]))
    if pyarrow.types.is_decimal(array.type):
        # To Arrow, they are bytes.
        cure = "`.cast('float64')` makes numbers of them, which may be rounded"
        wanted = "numbers" if dtype is None else describe(dtype)
        raise TypeError(f"{name}: expected {wanted}, got {array.type}; {cure}")
    if isinstance(array.type, pyarrow.FixedSizeBinaryType):
        width = array.type.byte_width
        as_bytes: DType = (
            dtype if dtype is not None and dtype.itemsize == width else np.dtype(f"V{width}")
        )
        raw = np.frombuffer(array.buffers()[1], as_bytes, len(array), array.offset * width)
        if dtype is not None and dtype.kind == "S" and width < dtype.itemsize:
            return raw.view(f"S{width}").astype(dtype)
        return raw
    if pyarrow.types.is_binary(array.type) or pyarrow.types.is_large_binary(array.type):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    try:
        # Days are counted in other integers than NumPy's.
        is_date = pyarrow.types.is_date(array.type)
        return np.asarray(array.to_numpy(zero_copy_only=not is_date))
    except pyarrow.ArrowInvalid:
        wanted = "numbers" if dtype is None else describe(dtype)
        raise TypeError(f"{name}: expected {wanted}, got {array.type}") from None


def _has_nulls(name: str, what: str, nulls: Any, keep: str, pick: str) -> ValueError:
    """An error that says which elements are missing, and how to leave them out on both sides."""
    at = np.flatnonzero(nulls)
    many = f"{len(at):,} {what}{'' if len(at) == 1 else 's'}"
    given = "values" if name.startswith(("value", "insert[1]")) else "keys"
    other = "keys" if given == "values" else "values"
    return ValueError(
        f"{name}: expected no {what}s, got {many}, the first at [{at[0]}]; leave them out: "
        f"`{keep.replace('keys', given)}`, and take `{given}{pick}` with `{other}{pick}`, so that each key "
        "keeps its value"
    )


def _has_inner_nulls(name: str, nulls: Any, width: int) -> ValueError:
    """An error that says which element has a null among its numbers."""
    row, part = divmod(int(np.flatnonzero(nulls)[0]), max(width, 1))
    return ValueError(
        f"{name}: expected no nulls, got one at [{row}][{part}]; leave the whole element out, and its key, or "
        "fill it in first"
    )


def _has_time_zone(name: str, zone: Any, cure: str) -> TypeError:
    return TypeError(
        f"{name}: expected times without a time zone, got some of {zone}; {cure} makes them UTC"
    )
