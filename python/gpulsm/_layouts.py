"""Keys of several parts, and of bytes: which parts there are, and how they are packed into integers.

Packing is the native half's work, on all cores and without the GIL. A dictionary sees the integers only.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._families import NUMPY, WIDE, DType, Family, Span, describe
from gpulsm._native import Layout as NativeLayout

#: The integers that keys of each width are packed into; NumPy has no numbers of 16 bytes.
_PACKED: dict[int, DType] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64), 16: WIDE}
_PACKED_ON_HOST = "keys of several parts, and of bytes, are packed on the host"
#: The native half's names for kinds of parts; times are signed integers.
_KINDS = {"u": "unsigned", "i": "signed", "f": "float", "M": "signed", "m": "signed", "S": "bytes"}


@dataclass(frozen=True)
class Layout:
    """The parts of a key, the most significant one first. One that is no tuple is of bytes alone."""

    parts: tuple[DType, ...]
    is_tuple: bool
    native: NativeLayout = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "native", NativeLayout([kind_of(part) for part in self.parts]))

    @property
    def dtype(self) -> DType:
        """The type of the integers."""
        return _PACKED[self.native.width]

    @property
    def stored(self) -> str:
        """The native half's name of that type."""
        return f"uint{8 * self.native.width}"

    @property
    def spec(self) -> DType | tuple[DType, ...]:
        """What `Dictionary` takes as `key`."""
        return self.parts if self.is_tuple else self.parts[0]

    def __str__(self) -> str:
        names = ", ".join(map(describe, self.parts))
        return f"({names})" if self.is_tuple else names

    def number(self, number: int) -> NDArray[Any]:
        """One integer, as an array."""
        one = NUMPY.empty(1, self.dtype)
        one.view(np.uint8)[...] = [*number.to_bytes(self.native.width, sys.byteorder)]
        return one

    def highest(self) -> int:
        """The greatest integer."""
        return (1 << self.native.bits) - 1

    def pack(self, columns: list[NDArray[Any]], length: int) -> NDArray[Any]:
        """The integers of the keys whose parts are in columns."""
        packed = NUMPY.empty(length, self.dtype)
        spans = [_span(column) for column in columns]
        self.native.pack(spans, _span(packed))
        return packed

    def unpack(
        self, packed: NDArray[Any], found: NDArray[Any] | None, columns: tuple[NDArray[Any], ...]
    ) -> None:
        """Fills columns with the parts of keys; of those that are not found with 0, or NaT."""
        there = None if found is None else _span(found)
        self.native.unpack(_span(packed), there, [_span(column) for column in columns])
        for column in columns:
            if found is not None and column.dtype.kind in "Mm":
                column[~found] = np.array("NaT", column.dtype)


def kind_of(part: DType) -> tuple[str, int]:
    """The kind and the width of a part, as the native half names them."""
    return _KINDS[part.kind], part.itemsize


def check_host(name: str, family: Family, why: str = _PACKED_ON_HOST) -> None:
    """An error for arrays that can't be used where they are: packed, for example, or unpacked to."""
    if family is NUMPY:
        return
    cure = "`.cpu().numpy()`" if family.name == "torch" else "`.get()`"
    raise TypeError(
        f"{name}: {why} for now: give NumPy arrays instead of those of {family.name}; {cure} makes one"
    )


def listed_part(column: NDArray[Any]) -> list[Any]:
    """The elements of a column as a caller gets one of them: numbers are Python's, bytes have their full
    length, with the zeros at their end that NumPy leaves out."""
    if column.dtype.kind == "S":
        width, raw = column.dtype.itemsize, column.tobytes()
        return [raw[start : start + width] for start in range(0, len(raw), width)]
    return [*column] if column.dtype.kind in "Mm" else column.tolist()


def _span(array: NDArray[Any]) -> Span:
    return NUMPY.address(array), len(array)
