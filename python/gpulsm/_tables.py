"""Every pair as a table of PyArrow's or of pandas's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas
    import pyarrow


def to_arrow(keys: NDArray[Any], values: NDArray[Any] | None) -> pyarrow.Table:
    """A table with the columns `key` and, unless it is of a set, `value`."""
    import pyarrow

    columns = {"key": pyarrow.array(keys)}
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
    if values.dtype.kind in "cSUV":
        # Arrow knows no such numbers or texts of one length: their bytes, as they are.
        width = pyarrow.binary(values.dtype.itemsize)
        buffers = [None, pyarrow.py_buffer(values)]
        return pyarrow.FixedSizeBinaryArray.from_buffers(width, len(values), buffers)
    return pyarrow.array(values)


def to_pandas(keys: NDArray[Any], values: NDArray[Any] | None) -> pandas.DataFrame:
    """A data frame with the column `key` and, unless it is of a set, `value`; where a value is a few
    numbers or a structure, a column for each of its parts: `value_0`, `value_1`, …, or `value_name`."""
    import pandas

    columns = {"key": keys}
    if values is not None and values.dtype.fields is not None:
        columns.update({f"value_{name}": values[name] for name in values.dtype.fields})
    elif values is not None and values.ndim > 1:
        parts = values.reshape(len(values), int(np.prod(values.shape[1:])))
        columns.update({f"value_{part}": parts[:, part] for part in range(parts.shape[1])})
    elif values is not None:
        columns["value"] = values
    try:
        return pandas.DataFrame(columns)
    except ValueError as error:
        what = None if values is None else values.dtype
        raise TypeError(f"pandas has no columns for values of {what}: {error}") from None
