"""One call: its arguments together, and its answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulsm._arrays import read
from gpulsm._families import (
    HOST,
    NUMPY,
    DType,
    Family,
    Place,
    Span,
    describe,
    held,
    is_of,
    torch_dtype,
)
from gpulsm._given import Given
from gpulsm._layouts import Layout, listed_part

BOOL: DType = np.dtype(np.bool_)
#: Counts, ranks and offsets. They never reach 2^63, and signed ones mix with other integers.
INT64: DType = np.dtype(np.int64)


class Call:
    """The arguments of one call, all in one place, and the answers, in their family.

    A scalar beside arrays stands for as many of itself as they have elements. Where all are scalars, so
    is the answer.
    """

    def __init__(self, place: Place, *given: Given) -> None:
        arrays = [one for one in given if not one.is_scalar]
        for one in arrays:
            _check_place(arrays[0], one, place)
        self.is_scalar = not arrays
        self.family = arrays[0].family if arrays else NUMPY
        self.length = arrays[0].length if arrays else 1
        self.stream = self.family.stream()
        self.given = given
        self._spread: list[Any] = []  # Alive for as long as their spans are used.

    @property
    def spans(self) -> list[Span]:
        """Every argument, scalars as often as the arrays have elements."""
        return [self.span(one, self.length) for one in self.given]

    def span(self, one: Given, times: int = 1) -> Span:
        """Where an argument begins and how many elements it has; a scalar is repeated `times` times."""
        if not one.is_scalar or (times == 1 and self.family.place is HOST):
            return one.span
        array = self.family.full(times, one.dtype, one.array[0])
        self._spread.append(array)
        return self.family.address(array), times

    def room(self, dtype: DType | Layout | None, length: int | None = None) -> Room:
        """An array for answers; none of the values of a set."""
        length = self.length if length is None else length
        if dtype is None:
            return Room(None, (0, length))
        if isinstance(dtype, Layout):
            columns = [self.family.empty(length, part) for part in dtype.parts]
            return self._packed_room(dtype, columns, length)
        # On the host, booleans must be booleans from the start; all others may be anything.
        is_free = dtype is not BOOL or self.family.place is not HOST
        array = (self.family.empty if is_free else self.family.zeros)(length, dtype)
        return Room(array, (self.family.address(array), length))

    def rooms(self, out: Any, *dtypes: DType | Layout | None) -> list[Room]:
        """Arrays for answers: new ones, or the caller's `out`, if those can be used."""
        if out is None:
            return [self.room(dtype) for dtype in dtypes]
        if self.is_scalar:
            raise ValueError("out: expected none with a scalar question; give an array of one key")
        if len(dtypes) > 1 and (not isinstance(out, tuple) or len(out) != len(dtypes)):
            what = f"{len(out)} of them" if isinstance(out, tuple) else type(out).__name__
            raise TypeError(f"out: expected a tuple of {len(dtypes)} arrays, got {what}")
        given = out if len(dtypes) > 1 else (out,)
        names = [f"out[{index}]" for index in range(len(given))] if len(dtypes) > 1 else ["out"]
        rooms: list[Room] = []
        used = [one for one in self.given if not one.is_scalar]
        for name, array, dtype in zip(names, given, dtypes, strict=True):
            if dtype is None:
                if array is not None:
                    raise TypeError(f"{name}: expected None, for a set has no values")
                rooms.append(self.room(None))
                continue
            if isinstance(dtype, Layout):
                columns = self._out_columns(name, array, dtype, used)
                rooms.append(self._packed_room(dtype, columns, self.length))
                continue
            one = self._check_out(name, array, dtype)
            _check_all_apart(one, used)
            if dtype is BOOL and self.family.place is HOST:
                one.array[...] = False  # Whatever bytes there were.
            rooms.append(Room(array, one.span))
        return rooms

    def _packed_room(self, layout: Layout, columns: list[Any], length: int) -> Room:
        return PackedRoom(layout, columns, length, (self.family, self.stream))

    def _out_columns(self, name: str, given: Any, layout: Layout, used: list[Given]) -> list[Any]:
        """The caller's arrays for the parts of keys."""
        if not layout.is_tuple:
            given = (given,)
        elif not isinstance(given, tuple) or len(given) != len(layout.parts):
            what = f"{len(given)} of them" if isinstance(given, tuple) else type(given).__name__
            raise TypeError(f"{name}: expected a tuple of {len(layout.parts)} arrays, got {what}")
        for at, (array, part) in enumerate(zip(given, layout.parts, strict=True)):
            label = f"{name}[{at}]" if layout.is_tuple else name
            _check_all_apart(self._check_out(label, array, part), used)
        return [*given]

    def _check_out(self, name: str, array: Any, dtype: DType) -> Given:
        """The caller's array, if answers can be written to it as they would be to one of ours."""
        _check_out_type(name, array, dtype, self.length)
        one = read(name, array, dtype)
        is_array = isinstance(array, np.ndarray) or any(
            is_of(*kind, array) for kind in (("torch", "Tensor"), ("cupy", "ndarray"))
        )
        if one.is_scalar or not is_array:
            kind = type(array).__name__
            raise TypeError(f"{name}: expected an array of {self.family.name}, got {kind}")
        if one.family.name != self.family.name or one.family.place != self.family.place:
            raise TypeError(
                f"{name}: expected an array of {self.family.name} {_where(self.family.place)}, as the "
                f"question is, got one of {one.family.name} {_where(one.family.place)}"
            )
        if one.length != self.length:
            raise ValueError(
                f"{name} has {_elements(one.length)}: expected {self.length:,}, one for each question"
            )
        if one.span[0] != one.family.address(array):
            raise ValueError(f"{name}: expected a contiguous array of aligned elements")
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            raise ValueError(f"{name}: expected an array that can be written to")
        return one

    def keys(self, room: Room, found: Room) -> Any:
        """What the caller gets of keys, where those that are not found are 0, or NaT."""
        keys = room.unpacked(found.array)
        if not self.is_scalar:
            return keys
        return _one(keys)

    def one_key(self, room: Room) -> Any:
        """The only key that was filled in, as a caller gets it."""
        return _one(room.unpacked())

    def answer(self, room: Room) -> Any:
        """What the caller gets: the array, or its only element."""
        return listed(room.array)[0] if self.is_scalar and room.array is not None else room.array


def _one(keys: Any) -> Any:
    """The only one of some keys as a caller gets it."""
    if isinstance(keys, tuple):
        return tuple(listed_part(column)[0] for column in keys)
    return listed_part(keys)[0]


class Room:
    """An array to be filled in, and where it is."""

    __slots__ = ("array", "span")

    def __init__(self, array: Any, span: Span) -> None:
        self.array = array
        self.span = span

    def unpacked(self, found: Any = None) -> Any:
        """The keys that were filled in; NaT for times that are not found."""
        array = self.array
        if found is not None and isinstance(array, np.ndarray) and array.dtype.kind in "Mm":
            array[~found] = np.array("NaT", array.dtype)
        return array


class PackedRoom(Room):
    """Integers to be filled in, and the columns that they are unpacked to."""

    __slots__ = ("columns", "layout", "order")

    def __init__(
        self, layout: Layout, columns: list[Any], length: int, order: tuple[Family, int | None]
    ) -> None:
        packed = order[0].empty(length, layout.dtype)
        super().__init__(packed, (order[0].address(packed), length))
        self.layout = layout
        self.columns = tuple(columns)
        self.order = order

    def unpacked(self, found: Any = None) -> Any:
        """The columns of keys; one array, where keys are bytes alone."""
        self.layout.unpack(self.array, found, self.columns, *self.order)
        return self.columns if self.layout.is_tuple else self.columns[0]


def listed(array: Any) -> list[Any]:
    """The elements of a NumPy array as a caller gets one of them: numbers are Python's."""
    is_numbers = array.dtype.kind in "biufc" and array.ndim == 1
    return array.tolist() if is_numbers else [*array]


def _check_place(first: Given, one: Given, place: Place) -> None:
    """An error if an array is not where its neighbour is, or where the dictionary can't reach it."""
    here = one.family.place
    if here is not HOST and here != place:
        home = "on the CPU" if place is HOST else f"on cuda:{place}"
        cure = "`.cpu()`" if one.family.name == "torch" else "`.get()`"
        raise ValueError(
            f"{one.name} is on cuda:{here} but the dictionary is {home}: copy it there "
            f"({cure} copies to the host), or make the dictionary with device='cuda:{here}'"
        )
    if here != first.family.place:
        raise ValueError(
            f"{one.name} is {_where(here)} but {first.name} is {_where(first.family.place)}: "
            "give both in one place"
        )
    if here is not HOST and one.family.name != first.family.name:
        raise TypeError(
            f"{one.name} is of {one.family.name} but {first.name} of {first.family.name}: on a GPU "
            "give all arrays of a call in one family"
        )


def check_lengths(first: Given, second: Given) -> None:
    """An error if arrays that go together element by element differ in length."""
    if first.length != second.length and not first.is_scalar and not second.is_scalar:
        raise ValueError(
            f"{first.name} has {_elements(first.length)} but {second.name} has "
            f"{_elements(second.length)}: give one of {second.name} for each of {first.name}"
        )


def _check_all_apart(one: Given, used: list[Given]) -> None:
    """An error if an array that is written to has a byte in common with others, which it then joins."""
    for other in used:
        _check_apart(one, other)
    used.append(one)


def _check_apart(one: Given, other: Given) -> None:
    """An error if two arrays have a byte in common: one of them is written to."""
    (start, length), (at, count) = one.span, other.span
    end, stop = start + length * one.dtype.itemsize, at + count * other.dtype.itemsize
    if start < stop and at < end and length and count:
        raise ValueError(f"{one.name} and {other.name} share memory: give arrays that don't")


def _check_out_type(name: str, array: Any, dtype: DType, length: int) -> None:
    """An error for an array of another type: one that is converted would be another array."""
    if not isinstance(array, np.ndarray):
        dtype = held(dtype)
    shape = (length, *dtype.shape) if dtype.shape else length
    if is_of("torch", "Tensor", array):
        got = str(array.dtype).removeprefix("torch.")
        is_right = array.dtype == torch_dtype(dtype.base)
        make = f"torch.empty({shape}, dtype={torch_dtype(dtype.base)}, device=…)"
    elif isinstance(array, np.ndarray) or is_of("cupy", "ndarray", array):
        got, is_right = describe(array.dtype), array.dtype == dtype.base
        library = "numpy" if isinstance(array, np.ndarray) else "cupy"
        make = f"{library}.empty({shape}, {str(dtype.base)!r})"
    else:
        return
    if not is_right:
        raise TypeError(
            f"{name}: expected {describe(dtype)}, got {got}; `{make}` makes an array to write to"
        )


def _elements(length: int) -> str:
    return "1 element" if length == 1 else f"{length:,} elements"


def _where(place: Place) -> str:
    return "on the host" if place is HOST else f"on cuda:{place}"
