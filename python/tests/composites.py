"""Keys of several parts, and of bytes, as tests use them: lists of tuples, and columns of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

#: Types of keys, of every width, with parts of every kind.
COMPOSITES: list[Any] = [
    ("uint32", "int32"),
    ("uint32", "int64"),
    ("int64", "uint64"),
    ("float32", "uint32"),
    ("uint32", "float64"),
    ("S2", "int32", "S1"),
    ("int32", "uint32", "float32", "S4"),
    ("uint32", "datetime64[ms]"),
    ("timedelta64[s]", "S3"),
    "S1",
    "S3",
    "S6",
    "S16",
]


@dataclass(frozen=True)
class Composite:
    """A type of keys."""

    spec: Any

    @property
    def parts(self) -> tuple[Any, ...]:
        spec = self.spec if isinstance(self.spec, tuple) else (self.spec,)
        return tuple(np.dtype(part) for part in spec)

    def columns(self, keys: list[Any]) -> Any:
        """Keys as the dictionary takes them."""
        if not isinstance(self.spec, tuple):
            return np.array(keys, self.spec)
        parts = zip(*keys, strict=True) if keys else [[] for _ in self.parts]
        return tuple(
            np.array(part, np.int64).view(dtype) if dtype.kind in "Mm" else np.array(part, dtype)
            for part, dtype in zip(parts, self.parts, strict=True)
        )

    def listed(self, columns: Any) -> list[Any]:
        """Keys as lists of tuples, of plain numbers and bytes of full length."""
        given = columns if isinstance(self.spec, tuple) else (columns,)
        for column, dtype in zip(given, self.parts, strict=True):
            assert isinstance(column, np.ndarray) and column.dtype == dtype
        lists = [_listed(column) for column in given]
        return [*zip(*lists, strict=True)] if isinstance(self.spec, tuple) else lists[0]

    def plain(self, key: Any) -> Any:
        """One key of an answer with times as numbers."""
        if isinstance(key, tuple):
            return tuple(map(self.plain, key))
        is_time = isinstance(key, (np.datetime64, np.timedelta64))
        return int(key.astype(np.int64)) if is_time else key

    def keys(self) -> st.SearchStrategy[Any]:
        """Keys that often meet each other, and the ends of their types."""
        parts = [_part(dtype) for dtype in self.parts]
        return st.tuples(*parts) if isinstance(self.spec, tuple) else parts[0]

    def exact(self, keys: list[Any]) -> list[Any]:
        """Keys as the types hold them."""
        return self.listed(self.columns(keys))


def _listed(column: Any) -> list[Any]:
    if column.dtype.kind == "S":
        return [bytes(raw) for raw in column.view(np.uint8).reshape(-1, column.dtype.itemsize)]
    plain = column.view(np.int64) if column.dtype.kind in "Mm" else column
    listed: list[Any] = plain.tolist()
    return listed


def _part(dtype: Any) -> st.SearchStrategy[Any]:
    if dtype.kind == "S":
        return st.lists(
            st.sampled_from([0, 1, 97, 255]), min_size=dtype.itemsize, max_size=dtype.itemsize
        ).map(bytes)
    if dtype.kind == "f":
        some = [0.0, -0.0, 1.5, -1.5, 2.5, np.inf, -np.inf, np.nan]
        return st.sampled_from(some)
    limits = np.iinfo(np.int64 if dtype.kind in "Mm" else dtype)
    # The least integer is no time, but NaT.
    ends = [int(limits.min) + (dtype.kind in "Mm"), int(limits.max)]
    return st.integers(max(int(limits.min), -3), 5) | st.sampled_from(ends)
