"""Keys of several parts, and of bytes: which parts there are, and how they are packed into integers.

Packing is the native half's work, without the GIL: on all cores, or, of arrays in a GPU's memory, there. A
dictionary sees the integers only.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._families import INTEGERS, NUMPY, WIDE, DType, Family, Span, describe
from gpulsm._native import Layout as NativeLayout

#: What holds the integers that keys of each width are packed into. They have no sign, but of integers without one
#: PyTorch can do little.
_PACKED: dict[int, DType] = {**INTEGERS, 16: WIDE}
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

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout, (self.parts, self.is_tuple)

    @property
    def dtype(self) -> DType:
        """The type of what holds the integers."""
        return _PACKED[self.native.width]

    @property
    def stored(self) -> str:
        """The native half's name of the integers."""
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

    def pack(
        self,
        columns: list[tuple[Span, bool]],
        length: int,
        family: Family = NUMPY,
        stream: int | None = None,
    ) -> Any:
        """The integers of as many keys. A column has an element for each of them; beside arrays on a GPU it may
        be one scalar on the host, which is said with it."""
        packed = family.empty(length, self.dtype)
        to = family.address(packed), length
        self.native.pack(columns, to, on_gpu(family, stream))
        return packed

    def unpack(
        self,
        packed: Any,
        found: Any,
        columns: tuple[Any, ...],
        family: Family = NUMPY,
        stream: int | None = None,
    ) -> None:
        """Fills columns with the parts of keys; of those that are not found with 0, or NaT."""
        spans = [(family.address(array), len(array)) for array in (packed, *columns)]
        there = None if found is None else (family.address(found), len(found))
        self.native.unpack(spans[0], there, spans[1:], on_gpu(family, stream))
        self.mark_missing(found, columns)

    def mark_missing(self, found: Any, columns: tuple[Any, ...]) -> None:
        """Makes times of keys that are not found NaT."""
        for part, column in zip(self.parts, columns, strict=True):
            if found is not None and part.kind in "Mm":
                column[~found] = np.array("NaT", part)


def kind_of(part: DType) -> tuple[str, int]:
    """The kind and the width of a part, as the native half names them."""
    return _KINDS[part.kind], part.itemsize


def on_gpu(family: Family, stream: int | None) -> tuple[int, int] | None:
    """Where the native half packs and unpacks arrays of a family: a GPU and a stream, or None, the host."""
    place = family.place
    return None if place is None or stream is None else (place, stream)


def listed_part(column: NDArray[Any]) -> list[Any]:
    """The elements of a column as a caller gets one of them: numbers are Python's, bytes have their full
    length, with the zeros at their end that NumPy leaves out."""
    if column.dtype.kind == "S":
        width, raw = column.dtype.itemsize, column.tobytes()
        return [raw[start : start + width] for start in range(0, len(raw), width)]
    return [*column] if column.dtype.kind in "Mm" else column.tolist()
