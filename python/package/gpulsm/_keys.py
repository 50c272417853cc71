"""Keys of every type: of one number or time, or, packed into integers, of several parts and of bytes."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from gpulsm import _composites, _datetimes, _ranges
from gpulsm._call import listed
from gpulsm._families import NUMPY, DType, Place, describe
from gpulsm._given import Given
from gpulsm._layouts import Layout, kind_of, listed_part
from gpulsm._types import Closed

#: A type of keys.
KeyType: TypeAlias = DType | Layout


def describe_key(key: KeyType) -> str:
    """A type of keys as messages and programs name it."""
    return str(key) if isinstance(key, Layout) else describe(key)


def stored_name(key: KeyType) -> str:
    """The native half's name of the type that keys are stored as."""
    return key.stored if isinstance(key, Layout) else _datetimes.stored(key).name


def spec_of(key: KeyType) -> DType | tuple[DType, ...]:
    """What `Dictionary` takes as `key`."""
    return key.spec if isinstance(key, Layout) else key


def read_keys(name: str, given: Any, key: KeyType, place: Place) -> Given:
    """The argument `name`, if it is an array, or one scalar, of keys (of each part of them)."""
    if isinstance(key, Layout):
        return _composites.read_keys(name, given, key, place)
    return _datetimes.read_keys(name, given, key)


def read_ranges(
    lo: Any, hi: Any, closed: Closed, key: KeyType, place: Place
) -> tuple[Given, Given]:
    """The first and the last key of every range; of one that is empty, any two in the wrong order."""
    if isinstance(key, Layout):
        return _composites.read_ranges(lo, hi, closed, key, place)
    return _ranges.read_ranges(lo, hi, closed, key, place)


def nearest(name: str, given: Any, key: KeyType, place: Place, *, is_low: bool) -> Given | None:
    """Keys; for one scalar that the type can't hold, the next key that it can: the least above it if
    `is_low`, else the greatest below it. None if there is no such key."""
    if isinstance(key, Layout):
        return _composites.nearest(name, given, key, place, is_low=is_low)
    return _ranges.nearest(name, given, key, is_low=is_low)


def beside(
    name: str, given: Any, key: KeyType, place: Place, above: bool, *, is_low: bool
) -> Given | None:
    """The key next to a scalar whose last part is above, or below, all that its type can hold; None if there is
    none that agrees in the other parts."""
    if isinstance(key, Layout):
        return _composites.beside(name, given, key, place, above, is_low=is_low)
    return _ranges.beyond(name, key, above, is_low)


def outermost(key: KeyType, *, is_low: bool) -> Given:
    """The first key that there can be, or the last."""
    if isinstance(key, Layout):
        return _composites.outermost("key", key, is_low=is_low)
    end = NUMPY.full(1, key, _ranges.bounds(key)[0 if is_low else 1])
    return Given("key", key, end, 1, NUMPY, is_scalar=True)


def listed_keys(keys: Any) -> list[Any]:
    """The keys of an answer, one by one, as a caller gets one of them."""
    if isinstance(keys, tuple):
        return [*zip(*map(listed_part, keys), strict=True)]
    return listed_part(keys) if keys.dtype.kind == "S" else listed(keys)


def no_key(key: KeyType) -> Any:
    """What an answer has in the place of a key that is not there."""
    if isinstance(key, Layout):
        nothing = [no_key(part) for part in key.parts]
        return tuple(nothing) if key.is_tuple else nothing[0]
    if key.kind in "Mm":
        return np.array("NaT", key)[()]
    return listed_keys(NUMPY.zeros(1, key))[0]


def last_part(key: KeyType) -> DType:
    """The part that is least significant."""
    return key.parts[-1] if isinstance(key, Layout) else key


def kind_of_last_part(key: KeyType) -> tuple[str, int]:
    """Its kind and width, as the native half names them."""
    return kind_of(last_part(key))
