"""Keys of several parts that come in: tuples with a column for each part, or with a scalar for each."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpulsm._call import Call, check_lengths
from gpulsm._datetimes import read_keys as read_part
from gpulsm._errors import OutOfRangeError
from gpulsm._families import HOST, NUMPY, DType, Place
from gpulsm._given import Given
from gpulsm._layouts import Layout, listed_part, on_gpu
from gpulsm._ranges import beyond, bounds, check_closed
from gpulsm._ranges import split as split_column
from gpulsm._scalars import is_scalar
from gpulsm._types import Closed

#: A column of keys, or a scalar: its name, itself, and the type of its part.
_Column: TypeAlias = tuple[str, Any, DType]


def read_keys(name: str, given: Any, layout: Layout, place: Place) -> Given:
    """The argument `name`, if it is a tuple of columns, or of scalars, of the types of the parts."""
    return packed(name, read_columns(name, given, layout, place), layout)


def read_columns(name: str, given: Any, layout: Layout, place: Place) -> Call:
    """The same, not packed."""
    columns = _columns(name, given, layout)
    try:
        read = [read_part(*column) for column in columns]
    except OutOfRangeError as error:
        raise error if _are_scalars(columns) else OutOfRangeError(str(error)) from None
    return _together(read, place)


def prefix_range(
    prefix: Any, layout: Layout, place: Place
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The first and the last key that begin with these parts; if none can, two in the wrong order."""
    columns = _prefix_columns("prefix", prefix, layout)
    if _are_scalars(columns):
        return _possible_prefix_range(columns, layout, place)
    try:
        return _prefix_range(columns, layout, place)
    except OutOfRangeError:
        split = _Split.of("prefix", columns)
    is_possible = split.kinds(_length([split])) == 0
    lo, hi = _prefix_range(
        [
            (label, bounds(part)[0] if np.ndim(side) == 0 and side else column, part)
            for (label, column, part), side in zip(split.columns, split.sides, strict=True)
        ],
        layout,
        place,
    )
    # Where one of the parts is impossible, no key begins with them.
    nothing = _bounds(layout, is_low=False), _bounds(layout, is_low=True)
    for end, key in zip((lo, hi), nothing, strict=True):
        for column, part in zip(end, key, strict=True):
            column[~is_possible] = part
    return lo, hi


def _possible_prefix_range(
    columns: list[_Column], layout: Layout, place: Place
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The same of scalars; the types may not be able to hold them."""
    try:
        return _prefix_range(columns, layout, place)
    except OutOfRangeError as error:
        if error.above is None:
            raise
        return _bounds(layout, is_low=False), _bounds(layout, is_low=True)


def _prefix_range(
    columns: list[_Column], layout: Layout, place: Place
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The same of parts that the types can hold."""
    read = [read_part(*column) for column in columns]
    call, rest = _together(read, place), layout.parts[len(read) :]
    lo, hi = (
        [
            *(_spread(part, call).array for part in read),
            *(call.family.full(call.length, part, bounds(part)[end]) for part in rest),
        ]
        for end in (0, 1)
    )
    if not call.is_scalar:
        return tuple(lo), tuple(hi)
    return tuple(listed_part(part)[0] for part in lo), tuple(listed_part(part)[0] for part in hi)


def _bounds(layout: Layout, *, is_low: bool) -> tuple[Any, ...]:
    """The first key that there can be, or the last, as a caller gets it."""
    return tuple(listed_part(_bound("", part, is_low=is_low).array)[0] for part in layout.parts)


def _prefix_columns(name: str, given: Any, layout: Layout) -> list[_Column]:
    """The first parts of keys: a tuple of columns or scalars, fewer than there are parts."""
    given = given if isinstance(given, tuple) else (given,)
    if not 0 < len(given) < len(layout.parts):
        count = len(layout.parts) - 1
        most = f"1 to {count} of the first parts" if count > 1 else "the first part"
        got = f"{len(given)} of them" if count else "keys of one part"
        raise TypeError(f"{name}: expected {most} of {layout}, got {got}")
    parts = zip(given, layout.parts, strict=False)
    return [(f"{name}[{at}]", one, part) for at, (one, part) in enumerate(parts)]


def read_ranges(
    lo: Any, hi: Any, closed: Closed, layout: Layout, place: Place
) -> tuple[Given, Given]:
    """The first and the last integer of every range; of one that is empty, any two in the wrong order."""
    check_closed(closed)
    excludes = closed in ("right", "neither"), closed in ("left", "neither")
    try:
        first = _end("lo", lo, layout, place, excludes[0], is_low=True)
        last = _end("hi", hi, layout, place, excludes[1], is_low=False)
    except OutOfRangeError:
        # Lists or arrays of numbers, some of which the types can't hold.
        first_split, last_split = (
            _Split.of(name, [] if end is None else _columns(name, end, layout), is_excluded)
            for name, end, is_excluded in zip(("lo", "hi"), (lo, hi), excludes, strict=True)
        )
        return _read_split_ranges(first_split, last_split, layout, place)
    return _included(first, last, layout, place)


def _included(
    first: tuple[Given, bool], last: tuple[Given, bool], layout: Layout, place: Place
) -> tuple[Given, Given]:
    """The ends of ranges, with which of them are excluded, as ends that are included."""
    (lo, excludes_lo), (hi, excludes_hi) = first, last
    check_lengths(lo, hi)
    if excludes_lo or excludes_hi:
        call = Call(place, lo, hi)
        lo, hi = _spread(lo, call), _spread(hi, call)
        at = on_gpu(call.family, call.stream)
        layout.native.exclude_ends((lo.span, hi.span), (excludes_lo, excludes_hi), at)
    return lo, hi


@dataclass(slots=True)
class _Split:
    """The ends of all ranges on one side, as columns on the host, with which of their elements the types can't
    hold: above (1) or below (-1) all that they can. No columns: no end."""

    name: str
    is_excluded: bool
    columns: list[_Column]
    sides: list[Any]
    arrays: list[Given]

    @classmethod
    def of(cls, name: str, columns: list[_Column], is_excluded: bool = False) -> _Split:
        split = cls(name, is_excluded, [], [], [])
        for label, column, part in columns:
            side: Any
            if is_scalar(column, part):
                side = _side(label, column, part)
                split.columns.append((label, column, part))
            else:
                held, side = split_column(label, column, part)
                split.columns.append((label, held.array, part))
                split.arrays.append(held)
            split.sides.append(side)
        return split

    def kinds(self, length: int) -> NDArray[np.int64]:
        """For each range, which is the first part that the type can't hold, and on which side; 0: none."""
        kinds = np.zeros(length, np.int64)
        for at, side in reversed([*enumerate(self.sides)]):
            side = np.broadcast_to(side, length)
            kinds = np.where(side == 0, kinds, 1 + 2 * at + (side > 0))
        return kinds

    def end(
        self, rows: NDArray[np.int64], kind: int, layout: Layout, place: Place, *, is_low: bool
    ) -> tuple[Given, bool]:
        """The ends of some ranges, which are of one kind."""
        if not self.columns:
            return outermost(self.name, layout, is_low=is_low), False
        columns = [
            (label, column if is_scalar(column, part) else column[rows], part)
            for label, column, part in self.columns
        ]
        at, above = divmod(kind - 1, 2) if kind else (len(columns), 0)
        read = [read_part(*column) for column in columns[:at]]
        return _rest_of_end(
            self.name,
            read,
            columns[at:],
            bool(above),
            layout,
            place,
            self.is_excluded,
            is_low=is_low,
        )


def _length(splits: list[_Split]) -> int:
    """How many elements their arrays have; an error if they differ in that."""
    arrays = [array for split in splits for array in split.arrays]
    for array in arrays[1:]:
        check_lengths(arrays[0], array)
    return arrays[0].length


def _side(name: str, given: Any, part: DType) -> int:
    """Whether a scalar is above (1) or below (-1) all that a type can hold."""
    try:
        read_part(name, given, part)
    except OutOfRangeError as error:
        return 1 if error.above else -1
    return 0


def _read_split_ranges(lo: _Split, hi: _Split, layout: Layout, place: Place) -> tuple[Given, Given]:
    """The ranges between such ends: all those of one kind together."""
    length = _length([lo, hi])
    first, last = NUMPY.empty(length, layout.dtype), NUMPY.empty(length, layout.dtype)
    count = 1 + 2 * len(layout.parts)
    kinds = lo.kinds(length) * count + hi.kinds(length)
    for kind in map(int, np.unique(kinds)):
        rows = np.flatnonzero(kinds == kind)
        ends = (
            lo.end(rows, kind // count, layout, place, is_low=True),
            hi.end(rows, kind % count, layout, place, is_low=False),
        )
        begin, end = _included(*ends, layout, place)
        first[rows], last[rows] = begin.array, end.array
    return (
        Given("lo", layout.dtype, first, length, NUMPY),
        Given("hi", layout.dtype, last, length, NUMPY),
    )


def nearest(name: str, given: Any, layout: Layout, place: Place, *, is_low: bool) -> Given | None:
    """Keys; for one of scalars that the types can't hold, the next key that they can: the least above it
    if `is_low`, else the greatest below it. None if there is no such key."""
    end, is_excluded = _end(name, given, layout, place, False, is_low=is_low)
    if not is_excluded:
        return end
    number = int.from_bytes(end.array.tobytes(), sys.byteorder) + (1 if is_low else -1)
    return end.with_array(layout.number(number)) if 0 <= number <= layout.highest() else None


def beside(
    name: str, given: Any, layout: Layout, place: Place, above: bool, *, is_low: bool
) -> Given | None:
    """The key next to one of scalars whose last is above, or below, all that its type can hold; None if there
    is none that agrees in the other parts."""
    *columns, last = _columns(name, given, layout)
    try:
        read = [read_part(*column) for column in columns]
    except OutOfRangeError:
        return None
    found = beyond(last[0], last[2], above, is_low)
    return None if found is None else packed(name, _together([*read, found], place), layout)


def outermost(name: str, layout: Layout, *, is_low: bool) -> Given:
    """The first key that there can be, or the last."""
    number = layout.number(0 if is_low else layout.highest())
    return Given(name, layout.dtype, number, 1, NUMPY, is_scalar=True)


def _end(
    name: str, given: Any, layout: Layout, place: Place, is_excluded: bool, *, is_low: bool
) -> tuple[Given, bool]:
    """One end of all ranges, and whether it is excluded."""
    if given is None:
        return outermost(name, layout, is_low=is_low), False
    columns = _columns(name, given, layout)
    read: list[Given] = []
    above = False
    for column in columns:
        try:
            read.append(read_part(*column))
        except OutOfRangeError as error:
            if error.above is None or not _are_scalars(columns):
                raise OutOfRangeError(str(error)) from None
            above = error.above
            break
    return _rest_of_end(
        name, read, columns[len(read) :], above, layout, place, is_excluded, is_low=is_low
    )


def _rest_of_end(
    name: str,
    read: list[Given],
    rest: list[_Column],
    above: bool,
    layout: Layout,
    place: Place,
    is_excluded: bool,
    *,
    is_low: bool,
) -> tuple[Given, bool]:
    """One end of ranges, and whether it is excluded: after parts that were read, the rest, if any, begins with
    elements above, or below, all that their type can hold, or with too many bytes. Where no such part is on this side
    of them, the keys beside them are other ones."""
    if rest:
        beside, is_excluded = _beyond(rest, above, is_low)
        read = [*read, *beside]
    return packed(name, _together(read, place), layout), is_excluded


def _beyond(columns: list[_Column], above: bool, is_low: bool) -> tuple[list[Given], bool]:
    label, given, part = columns[0]
    if part.kind == "S":
        # Among keys, more bytes than they have come right after as many of them.
        begins = bytes(given)[: part.itemsize] if is_scalar(given, part) else given
        return [
            read_part(label, begins, part),
            *(_bound(label, part, is_low=False) for label, _, part in columns[1:]),
        ], is_low
    found = beyond(label, part, above, is_low)
    if found is None:
        return [_bound(label, part, is_low=not above) for label, _, part in columns], True
    return [found, *(_bound(label, part, is_low=is_low) for label, _, part in columns[1:])], False


def _bound(name: str, part: DType, *, is_low: bool) -> Given:
    end = NUMPY.full(1, part, bounds(part)[0 if is_low else 1])
    return Given(name, part, end, 1, NUMPY, is_scalar=True)


def _columns(name: str, given: Any, layout: Layout) -> list[_Column]:
    """The columns with their names and types; an error if there is not one for each part."""
    if not layout.is_tuple:
        return [(name, given, layout.parts[0])]
    count = len(layout.parts)
    if not isinstance(given, tuple):
        cure = ""
        if isinstance(given, list):
            cure = "; `tuple(map(list, zip(*…)))` makes columns of a list of tuples"
        elif isinstance(given, np.ndarray) and given.ndim == 2:
            cure = "; `tuple(numpy.ascontiguousarray(….T))` makes columns of rows"
        elif hasattr(given, "columns"):
            cure = "; `tuple(frame[name] for name in […])` makes one of the columns of a table"
        kind = type(given).__name__
        raise TypeError(
            f"{name}: expected a tuple of {count} columns, or of {count} scalars, {layout}, got {kind}{cure}"
        )
    if len(given) != count:
        cure = (
            "; `prefix_range` gives the first and the last key that begin with some parts"
            if len(given) < count
            else ""
        )
        raise TypeError(
            f"{name}: expected a tuple of {count}, {layout}, got {len(given)} of them{cure}"
        )
    if any(isinstance(column, tuple) for column in given):
        raise TypeError(
            f"{name}: expected columns, as lists or arrays, got tuples, which may be rows; "
            "`tuple(map(list, zip(*…)))` makes columns of rows"
        )
    parts = zip(given, layout.parts, strict=True)
    return [(f"{name}[{at}]", column, part) for at, (column, part) in enumerate(parts)]


def _are_scalars(columns: list[_Column]) -> bool:
    return all(is_scalar(column, part) for _, column, part in columns)


def _together(read: list[Given], place: Place) -> Call:
    """The columns of keys, which are all in one place; an error if they differ in length."""
    call = Call(place, *read)
    arrays = [column for column in read if not column.is_scalar]
    for column in arrays[1:]:
        check_lengths(arrays[0], column)
    return call


def packed(name: str, call: Call, layout: Layout) -> Given:
    """The integers of keys, from their columns."""
    if call.family.place is HOST:
        columns = [(span, False) for span in call.spans]
    else:
        columns = [(column.span, column.is_scalar) for column in call.given]
    integers = layout.pack(columns, call.length, call.family, call.stream)
    return Given(name, layout.dtype, integers, call.length, call.family, is_scalar=call.is_scalar)


def _spread(one: Given, call: Call) -> Given:
    """One argument of a call; a scalar as often as there are elements in the arrays beside it."""
    if not one.is_scalar or call.is_scalar:
        return one
    array = call.family.full(call.length, one.dtype, one.array[0])
    return Given(one.name, one.dtype, array, call.length, call.family)
