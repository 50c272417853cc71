"""The types that signatures name."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Column(Protocol):
    """A column of a table: pandas's, PyArrow's, Polars's."""

    def to_numpy(self) -> Any: ...


class SharesMemory(Protocol):
    """An array of any library that lends its memory: CuPy's, PyTorch's, JAX's, …"""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...


#: One key, one index, or one end of a range.
Scalar: TypeAlias = int | float | np.generic | datetime.date | datetime.timedelta
#: A key of several parts, or many, as columns: a tuple of scalars or of arrays; or one key that is bytes.
#: What the answers are, one or many, depends on which it is.
Composite: TypeAlias = tuple[Any, ...] | bytes
#: What is answered with NumPy's arrays.
Host: TypeAlias = NDArray[Any] | Sequence[Any] | Column
#: An array of the family of the question: NumPy's, CuPy's, PyTorch's, …
Array: TypeAlias = NDArray[Any] | SharesMemory
#: Many elements: an array, a list, or a column of a table.
ArrayLike: TypeAlias = Host | SharesMemory
#: One value, of any type that NumPy has.
Value: TypeAlias = Scalar | complex | str | bytes | Sequence[Any] | NDArray[Any]
A = TypeVar("A", bound=SharesMemory)

#: Which ends belong to a range.
Closed: TypeAlias = Literal["both", "left", "right", "neither"]
#: Which of equal keys in one call counts.
Duplicates: TypeAlias = Literal["last", "first", "error"]
#: Where the answer of an as-of query is, seen from its question.
Direction: TypeAlias = Literal["backward", "forward", "nearest"]
#: How far it may be.
Tolerance: TypeAlias = int | float | np.generic | datetime.timedelta
#: The types of keys: one, or one for each part.
KeyLike: TypeAlias = DTypeLike | tuple[DTypeLike, ...]
#: A file.
FilePath: TypeAlias = str | os.PathLike[str]
#: A column of a file, by its name or by its number, counted from 1.
ColumnChoice: TypeAlias = str | int
#: The column of keys, or those of their parts.
KeyColumns: TypeAlias = ColumnChoice | Sequence[ColumnChoice]
#: Whether the first line of text names the columns.
Header: TypeAlias = Literal["auto", "yes", "no"]
#: What to do with a row that lacks its key or value.
Missing: TypeAlias = Literal["error", "skip"]
#: What an insert does to a key that is already there.
Combine: TypeAlias = Literal["replace", "add", "min", "max", "or", "and", "xor"]
#: What is durable when an update of a dictionary in a folder returns.
Durability: TypeAlias = Literal["batch", "os", "checkpoint"]
#: Is told how many bytes are done, of how many.
Progress: TypeAlias = Callable[[int, int], object]
#: When stale entries are removed.
Cleanup: TypeAlias = Literal["automatic", "manual"]
#: The family that arrays come in, by its name or by an array of it.
Like: TypeAlias = Literal["numpy", "cupy", "torch"] | Array
