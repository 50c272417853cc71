"""Moving keys between shards: which, to keep them of the same length, and the batch that does it."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsm._families import NUMPY, WIDE, DType
from gpulsm.ray.layout import Layout, aligned, halves, is_at_least

#: Shards differ by no more than this from their average after rebalancing.
BALANCED = 1.1


class Move(NamedTuple):
    """Keys from `lo` to `hi`, both included, go from one shard to another."""

    lo: NDArray[Any]
    hi: NDArray[Any]
    source: int
    target: int


def moves(old: Layout, new: Layout, dtype: DType) -> list[Move]:
    """What has to move, so that keys are divided in another way."""
    least, greatest = _least(dtype), _greatest(dtype)
    cuts = _sorted(np.concatenate([least, old.splitters, new.splitters]))
    found = []
    for at in range(len(cuts)):
        lo = aligned(cuts[at : at + 1])
        hi = greatest if at + 1 == len(cuts) else below(aligned(cuts[at + 1 : at + 2]))
        is_empty = hi is None or (at + 1 < len(cuts) and _same(lo, cuts[at + 1 : at + 2]))
        source, target = (layout.shards[int(layout.places(lo)[0])] for layout in (old, new))
        if not is_empty and source != target:
            assert hi is not None
            found.append(Move(lo, hi, source, target))
    return found


def with_shards(layout: Layout, added: list[int], lengths: list[int], dtype: DType) -> Layout:
    """A layout with further shards, without keys, each below one of those that have the most."""
    shards, splitters = list(layout.shards), list(layout.splitters)
    sizes = dict(zip(layout.shards, lengths, strict=True))
    for shard in added:
        largest = max(sizes, key=lambda each: sizes[each])
        sizes[largest] /= 2  # type: ignore[assignment]
        place = shards.index(largest)
        lower = splitters[place - 1] if place else _least(dtype)[0]
        shards.insert(place, shard)
        splitters.insert(place, lower)
    return Layout(layout.version + 1, tuple(shards), _array(splitters, dtype))


class Border(NamedTuple):
    """How a border between two shards moves: its new splitter is the key at an index of the shard at a place."""

    place: int
    at: int


def borders(lengths: list[int], step: int) -> dict[int, Border]:
    """The borders that have to move, each by at most `step` keys, so that shards become of the same length."""
    shards, total = len(lengths), sum(lengths)
    is_balanced = max(lengths) <= max(BALANCED * total / shards, total / shards + 1)
    if shards == 1 or is_balanced:
        return {}
    left = list(lengths)
    found = {}
    prefix = 0
    for border in range(shards - 1):
        prefix += lengths[border]
        surplus = prefix - total * (border + 1) // shards
        if surplus > 0:
            moved = min(surplus, step, left[border], max(1, lengths[border] // 2))
            if moved:
                left[border] -= moved
                found[border] = Border(border, lengths[border] - moved)
        elif surplus < 0:
            most = lengths[border + 1] - 1 if border + 1 == shards - 1 else lengths[border + 1] // 2
            moved = min(-surplus, step, most)
            if moved > 0:
                left[border + 1] -= moved
                found[border] = Border(border + 1, moved)
    return found


def with_splitters(layout: Layout, keys: dict[int, NDArray[Any]], dtype: DType) -> Layout:
    """A layout with other keys at some borders."""
    splitters = list(layout.splitters)
    for border, key in keys.items():
        splitters[border] = key[0]
    return Layout(layout.version + 1, layout.shards, _array(splitters, dtype))


def below(key: NDArray[Any]) -> NDArray[Any] | None:
    """The key before one, as an array of one; None if there is none."""
    dtype = key.dtype
    if dtype == WIDE:
        number = int.from_bytes(key.tobytes(), sys.byteorder) - 1
        return (
            None if number < 0 else aligned(np.frombuffer(number.to_bytes(16, sys.byteorder), WIDE))
        )
    if dtype.kind == "f":
        if key[0] != key[0]:
            return np.array([np.inf], dtype)
        return None if key[0] == -np.inf else np.nextafter(key, dtype.type(-np.inf))
    return None if key[0] == np.iinfo(dtype).min else key - dtype.type(1)


def _least(dtype: DType) -> NDArray[Any]:
    if dtype == WIDE:
        return np.zeros(1, WIDE)
    return np.array([-np.inf if dtype.kind == "f" else np.iinfo(dtype).min], dtype)


def _greatest(dtype: DType) -> NDArray[Any]:
    if dtype == WIDE:
        return aligned(np.frombuffer(b"\xff" * 16, WIDE))
    return np.array([np.nan if dtype.kind == "f" else np.iinfo(dtype).max], dtype)


def _sorted(keys: NDArray[Any]) -> NDArray[Any]:
    if keys.dtype == WIDE:
        low, high = halves(aligned(keys))
        return keys[np.lexsort((low, high))]
    return np.sort(keys)


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    one, other = aligned(one), aligned(other)
    return bool(is_at_least(one, other)[0] and is_at_least(other, one)[0])


def _array(keys: list[Any], dtype: DType) -> NDArray[Any]:
    array = NUMPY.empty(len(keys), dtype)
    for index, key in enumerate(keys):
        array[index] = key
    return array
