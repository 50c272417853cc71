"""Arguments that were found usable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpulsm._families import DType, Family, Span


@dataclass(slots=True)
class Given:
    """An argument: an array that was found usable, or one scalar (a NumPy array of one)."""

    name: str
    dtype: DType
    array: Any
    length: int
    family: Family
    is_scalar: bool = False

    @property
    def span(self) -> Span:
        """Where it begins and how many elements it has, as the native half wants it."""
        return self.family.address(self.array), self.length

    def with_array(self, array: Any) -> Given:
        """The same argument with other elements."""
        return Given(self.name, self.dtype, array, self.length, self.family, self.is_scalar)
