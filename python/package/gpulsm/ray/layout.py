"""Which keys belong to which shard, and how arrays are divided among shards and put together again."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm import _native
from gpulsm._families import NUMPY, WIDE, DType, Span

#: The most shards of a dictionary: their places, and one more, have 16 bits.
MAX_SHARDS = 1 << 15


@dataclass(frozen=True, eq=False)
class Layout:
    """How keys are divided among shards.

    Attributes
    ----------
    version
        Every change increases it.
    shards
        The shards in the order of their keys.
    splitters
        The keys between them. One that is equal to a splitter belongs to the shard above it; between two equal
        splitters there is a shard without keys.
    """

    version: int
    shards: tuple[int, ...]
    splitters: NDArray[Any]

    def places(self, keys: NDArray[Any]) -> NDArray[Any]:
        """For each key the place of its shard in `shards`."""
        if not len(self.splitters):
            return np.zeros(len(keys), np.uint16)
        keys = aligned(np.ascontiguousarray(keys))
        splitters = aligned(np.ascontiguousarray(self.splitters, keys.dtype))
        places = np.empty(len(keys), np.uint16)
        _native.places(keys.dtype.str[1:], _span(keys), _span(splitters), _span(places))
        return places

    def to_json(self) -> dict[str, Any]:
        """The layout as text can hold it."""
        splitters = self.splitters.tobytes().hex()
        return {"version": self.version, "shards": self.shards, "splitters": splitters}

    @classmethod
    def of_json(cls, stored: dict[str, Any], dtype: DType) -> Layout:
        """What `to_json` made this of."""
        splitters = np.frombuffer(bytes.fromhex(stored["splitters"]), dtype)
        return cls(stored["version"], tuple(stored["shards"]), aligned(splitters))


def even_layout(shards: int, dtype: DType) -> Layout:
    """The layout of a new dictionary: every shard has as many of all possible keys."""
    width = dtype.itemsize
    steps = [(index << (8 * width)) // shards for index in range(1, shards)]
    return Layout(
        0,
        tuple(range(shards)),
        np.concatenate([of_order(s, dtype) for s in steps] or [NUMPY.empty(0, dtype)]),
    )


def of_order(number: int, dtype: DType) -> NDArray[Any]:
    """The key at a place in the order of all bit patterns of its type, as an array of one."""
    width = dtype.itemsize
    top = 1 << (8 * width - 1)
    if dtype.kind == "i":
        number ^= top
    elif dtype.kind == "f":
        number = number ^ top if number & top else number ^ (2 * top - 1)
    raw = np.frombuffer(number.to_bytes(width, sys.byteorder), dtype)
    return np.nan_to_num(raw, nan=np.inf) if dtype.kind == "f" else raw


def is_at_least(keys: NDArray[Any], one: NDArray[Any]) -> NDArray[np.bool_]:
    """For each key whether it is not less than the one key of another array. NaN is the greatest of floats."""
    if keys.dtype == WIDE:
        (low, high), (low_one, high_one) = halves(keys), halves(one)
        return np.asarray((high > high_one) | ((high == high_one) & (low >= low_one)))
    if keys.dtype.kind == "f":
        return np.asarray(~(keys < one) if one[0] == one[0] else keys != keys)
    return np.asarray(keys >= one)


def halves(keys: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The less and the more significant halves of integers of 16 bytes."""
    both = keys.view(np.uint64).reshape(-1, 2)
    low, high = (0, 1) if sys.byteorder == "little" else (1, 0)
    return both[:, low], both[:, high]


def quantiles(keys: NDArray[Any], parts: int) -> NDArray[Any]:
    """The keys that divide others into parts of the same length; sorted, and all different if keys are."""
    if keys.dtype == WIDE:
        low, high = halves(keys)
        ordered = keys[np.lexsort((low, high))]
    else:
        ordered = np.sort(keys)
    return aligned(ordered[[len(keys) * part // parts for part in range(1, parts)]])


class Division:
    """Where the elements of a call go: grouped by shard, in their order within each."""

    def __init__(self, places: NDArray[Any], shards: int) -> None:
        places = np.ascontiguousarray(places, np.uint16)
        self.order: NDArray[np.intp] | None = None  # None if they are already grouped.
        if shards == 1 or bool((places[1:] >= places[:-1]).all()):
            self.offsets = np.searchsorted(places, np.arange(shards + 1, dtype=np.uint16))
        else:
            self.order = np.empty(len(places), np.intp)
            self.offsets = np.empty(shards + 1, np.intp)
            _native.group(_span(places), _span(self.order), _span(self.offsets))
        self.used = np.flatnonzero(np.diff(self.offsets)).tolist()

    def parts(self, array: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """The elements of each shard that has any, by its place."""
        ordered = array if self.order is None else taken(array, self.order)
        return {place: aligned(ordered[self.slice(place)]) for place in self.used}

    def slice(self, place: int) -> slice:
        """Where the elements of a shard are, when they are grouped."""
        return slice(self.offsets[place], self.offsets[place + 1])

    def gather(self, to: NDArray[Any], parts: dict[int, NDArray[Any]]) -> None:
        """Puts the answers of shards into the order of the questions."""
        if not len(to):
            return  # Values of a set.
        if self.order is None:
            for place, part in parts.items():
                plain(to)[self.slice(place)] = plain(part)
            return
        sources = [aligned(np.ascontiguousarray(part, to.dtype)) for part in parts.values()]
        indices = [self.order[self.slice(place)] for place in parts]
        groups = [(_span(each), _span(own)) for each, own in zip(sources, indices, strict=True)]
        _native.put(groups, _span(to), to.dtype.itemsize)


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """The same elements as a type that NumPy copies fast and bit by bit."""
    return array.view(np.complex128) if array.dtype.itemsize == 16 and array.ndim == 1 else array


def taken(array: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    """The elements at these indices."""
    to = NUMPY.empty(len(order), array.dtype)
    source = aligned(np.ascontiguousarray(array))
    _native.take(_span(source), _span(order), _span(to), array.dtype.itemsize)
    return to


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """The same contiguous elements, each at a multiple of its width."""
    if NUMPY.address(array) % array.dtype.itemsize == 0:
        return array
    copy = NUMPY.empty(len(array), array.dtype)
    copy[...] = array
    return copy


def _span(array: NDArray[Any]) -> Span:
    """Where an array is, as the native half wants it."""
    if array.ndim != 1 or not array.flags.c_contiguous:
        raise ValueError("expected a contiguous array of one dimension")
    return NUMPY.address(array), len(array)
