"""Ranges of keys, whichever ends belong to them: as the ranges with both ends that engines know.

An excluded end becomes the next key inside: of integers ± 1, of floats the next float, in the order of keys
(−0 is 0, and NaN comes after +∞). Where there is no such key, the range is empty, whatever its other end is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gpulsm._arrays import is_list
from gpulsm._call import Call, check_lengths
from gpulsm._columns import of_column
from gpulsm._datetimes import read_keys, stored
from gpulsm._errors import OutOfRangeError
from gpulsm._families import HOST, INTEGERS, NUMPY, DType, Family, Place
from gpulsm._given import Given
from gpulsm._types import Closed


def bounds(key: DType) -> tuple[Any, Any]:
    """The first and the last key that there can be; of floats, a NaN comes last."""
    if key.kind == "f":
        return key.type(-np.inf), key.type(np.nan)
    if key.kind == "S":
        return bytes(key.itemsize), b"\xff" * key.itemsize
    limits = np.iinfo(stored(key))
    # The least integer is no time, but NaT.
    ends = np.array([limits.min + (key.kind in "Mm"), limits.max], stored(key)).view(key)
    return ends[0], ends[1]


def read_ranges(lo: Any, hi: Any, closed: Closed, key: DType, place: Place) -> tuple[Given, Given]:
    """The first and the last key of every range; of one that is empty, any two in the wrong order."""
    check_closed(closed)
    first = _End.read("lo", lo, key, closed in ("right", "neither"), is_low=True)
    last = _End.read("hi", hi, key, closed in ("left", "neither"), is_low=False)
    check_lengths(first.given, last.given)
    if not any(end.is_excluded or end.nothing is not False for end in (first, last)):
        return first.given, last.given
    Call(place, first.given, last.given)  # Both can be used together.
    lowest, highest = bounds(key)
    first, last = first.moved(), last.moved()
    if first.nothing is True or last.nothing is True:
        return _all(first.given, highest), _all(last.given, lowest)
    masks = [(end.nothing, end.given) for end in (first, last) if end.nothing is not False]
    if not masks:
        return first.given, last.given
    family, length = masks[0][1].family, masks[0][1].length
    with family.current():
        mask = masks[0][0] if len(masks) == 1 else masks[0][0] | masks[1][0]
        if family.place is HOST and not mask.any():
            return first.given, last.given
        return (
            _where(mask, highest, first.given, family, length),
            _where(mask, lowest, last.given, family, length),
        )


def check_closed(closed: Closed) -> None:
    """An error unless it says which ends belong to a range."""
    if closed not in get_args(Closed):
        raise ValueError(f"closed: expected 'both', 'left', 'right' or 'neither', got {closed!r}")


def nearest(name: str, given: Any, key: DType, *, is_low: bool) -> Given | None:
    """Keys; for one scalar that the type can't hold, the next key that it can: the least above it if
    `is_low`, else the greatest below it. None if there is no such key."""
    try:
        return read_keys(name, given, key)
    except OutOfRangeError as error:
        if error.above is None:
            raise
        return beyond(name, key, error.above, is_low)


def beyond(name: str, key: DType, above: bool, is_low: bool) -> Given | None:
    """The key next to a number above, or below, all that the type can hold; None if there is none."""
    if key.kind == "f":
        # Between the infinities and the greatest numbers there are no floats.
        limits = np.finfo(key)
        end = (np.inf if is_low else limits.max) if above else (limits.min if is_low else -np.inf)
    elif above == is_low:
        return None
    else:
        end = bounds(key)[0 if is_low else 1]
    return Given(name, key, NUMPY.full(1, key, end), 1, NUMPY, is_scalar=True)


def split(name: str, given: Any, key: DType) -> tuple[Given, NDArray[np.int8]]:
    """A list or an array of the host's, of whose elements the type can't hold some: others stand for those (of
    bytes, their beginnings). Beside it, which of them are above (1) or below (-1) all that it can hold."""
    items = list(given) if is_list(given) else of_column(name, given, None)
    if items is None:
        if not isinstance(given, np.ndarray):
            return read_keys(name, given, key), np.zeros(1, np.int8)  # Raises an error.
        items = np.asarray(given)
    if key.kind == "S":
        sides = np.array([len(item) > key.itemsize for item in items], np.int8)
        items = [bytes(item[: key.itemsize]) for item in items]
    elif key.kind in "Mm":
        sides = np.array([_side(name, item, key) for item in items], np.int8)
        other = np.zeros(1, key)[0]
        items = [other if side else item for item, side in zip(items, sides, strict=True)]
    else:
        numbers = items if isinstance(items, np.ndarray) else np.array(items, object)
        limits = np.iinfo(key) if key.kind in "iu" else np.finfo(key)
        is_finite = np.abs(numbers) != np.inf
        above, below = numbers > limits.max, numbers < limits.min
        sides = (above & is_finite).astype(np.int8) - (below & is_finite)
        numbers = np.where(sides == 0, numbers, 0)
        items = numbers.tolist() if numbers.dtype.kind == "O" else numbers
    return read_keys(name, items, key), sides


def _side(name: str, item: Any, key: DType) -> int:
    """Whether one time is above (1) or below (-1) all that a type can hold."""
    try:
        read_keys(name, item, key)
    except OutOfRangeError as error:
        return 1 if error.above else -1
    return 0


@dataclass(slots=True)
class _End:
    """One end of all ranges.

    `nothing` says where there is no key beyond it, so that the range is empty: a Boolean for a scalar, and
    an array of them (or False) for an array.
    """

    given: Given
    is_low: bool
    is_excluded: bool
    nothing: Any = False

    @classmethod
    def read(cls, name: str, given: Any, key: DType, is_excluded: bool, *, is_low: bool) -> _End:
        if given is None:
            end = NUMPY.full(1, key, bounds(key)[0 if is_low else 1])
            return cls(Given(name, key, end, 1, NUMPY, is_scalar=True), is_low, False)
        try:
            return cls(read_keys(name, given, key), is_low, is_excluded)
        except OutOfRangeError as error:
            if error.above is None:
                return cls._of_many(name, given, key, is_excluded, is_low=is_low)
            found = beyond(name, key, error.above, is_low)
        if found is not None:
            return cls(found, is_low, False)  # It is inside, whether the end given is or not.
        any_key = Given(name, key, NUMPY.zeros(1, key), 1, NUMPY, is_scalar=True)
        return cls(any_key, is_low, False, nothing=True)

    @classmethod
    def _of_many(
        cls, name: str, given: Any, key: DType, is_excluded: bool, *, is_low: bool
    ) -> _End:
        """Numbers of which the type can't hold some."""
        held, sides = split(name, given, key)
        end = cls(held, is_low, is_excluded).moved()
        array, nothing = end.given.array.copy(), np.zeros(held.length, np.bool_) | end.nothing
        for side in (-1, 1):
            found, there = beyond(name, key, side > 0, is_low), sides == side
            nothing[there] = found is None
            if found is not None:
                array[there] = found.array[0]
        return cls(held.with_array(array), is_low, False, nothing)

    def moved(self) -> _End:
        """The same end, included."""
        if not self.is_excluded:
            return self
        given, family = self.given, self.given.family
        with family.current():
            move = _next_float if given.dtype.kind == "f" else _next_integer
            array, nothing = move(given.array, given.dtype, family, self.is_low)
        nothing = bool(nothing[0]) if given.is_scalar else nothing
        return _End(given.with_array(array), self.is_low, False, nothing)


def _next_integer(array: Any, dtype: DType, family: Family, is_low: bool) -> tuple[Any, Any]:
    limits = np.iinfo(stored(dtype))
    bits = family.integers(array)
    moved = bits + (1 if is_low else -1)  # Wraps where there is none.
    return moved.view(array.dtype), bits == _bits(limits.max if is_low else limits.min, dtype)


def _next_float(array: Any, dtype: DType, family: Family, is_low: bool) -> tuple[Any, Any]:
    """Moves by one in the bits: GPUs' libraries may take numbers next to 0 for 0."""
    width = 8 * dtype.itemsize
    lowest = -(1 << (width - 1))  # The bits of -0.
    bits = family.integers(array) + 0  # A copy.
    bits[bits == lowest] = 0
    away = (bits >> (width - 1)) | 1  # From 0: 1 of what is not negative, else -1.
    moved = bits + away if is_low else bits - away
    if not is_low:
        moved[bits == 0] = lowest + 1
    moved, is_nan = moved.view(array.dtype), array != array
    if is_low:
        moved[array == np.inf] = np.nan
        return moved, is_nan
    moved[is_nan] = np.inf
    return moved, array == -np.inf


def _bits(item: Any, dtype: DType) -> int:
    """The bits of one key, as a signed integer."""
    return int(np.array([item], stored(dtype)).view(INTEGERS[dtype.itemsize])[0])


def _all(given: Given, item: Any) -> Given:
    """As many of one key as there are ends."""
    return given.with_array(given.family.full(given.length, given.dtype, item))


def _where(mask: Any, item: Any, given: Given, family: Family, length: int) -> Given:
    """The ends, with one key in the place of those that a mask says."""
    array = family.full(length, given.dtype, given.array[0]) if given.is_scalar else given.array
    bits = family.integers(array) + 0  # A copy.
    if given.dtype.kind in "Mm":
        item = item.astype(np.int64)
    bits[mask] = _bits(item, given.dtype)
    return Given(given.name, given.dtype, bits.view(array.dtype), length, family)
