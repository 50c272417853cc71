"""Keys that one call has twice: which of them counts."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from gpulsm._errors import DuplicateKeyError
from gpulsm._families import INTEGERS, NUMPY, WIDE, Family
from gpulsm._given import Given
from gpulsm._keys import KeyType, listed_keys
from gpulsm._layouts import Layout
from gpulsm._types import Duplicates


def check_duplicates(duplicates: Duplicates) -> None:
    """An error unless it is a way to resolve duplicates."""
    if duplicates not in get_args(Duplicates):
        raise ValueError(f"duplicates: expected 'last', 'first' or 'error', got {duplicates!r}")


def resolved(
    keys: Given, values: Given | None, duplicates: Duplicates, key: KeyType
) -> tuple[Given, Given | None]:
    """The pairs in an order in which the last of equal keys is the one that counts."""
    if keys.is_scalar or keys.length < 2 or duplicates == "last":
        return keys, values
    if duplicates == "error":
        _check_unique(keys, key)
        return keys, values
    return _flipped(keys), None if values is None else _flipped(values)


def _flipped(given: Given) -> Given:
    return given if given.is_scalar else given.with_array(given.family.flipped(given.array))


def _check_unique(keys: Given, key_type: KeyType) -> None:
    """An error if a key is there twice. Of floats, −0 is 0, and every NaN is one NaN."""
    family = keys.family
    with family.current():
        bits = _halves(keys.array) if keys.dtype == WIDE else family.integers(keys.array)
        if keys.dtype.kind == "f":
            integer = INTEGERS[keys.dtype.itemsize]
            bits = bits + 0  # A copy.
            bits[keys.array != keys.array] = int(np.array([np.nan], keys.dtype).view(integer)[0])
            bits[bits == np.iinfo(integer).min] = 0
        order = _wide_order(bits, family) if keys.dtype == WIDE else family.order(bits)
        ordered = bits[order]
        again = ordered[1:] == ordered[:-1]
        if keys.dtype == WIDE:
            again = again.all(1)
        if not bool(again.any()):
            return
        # Of equal keys the first comes first: each repeat follows the one that it repeats.
        repeats, befores = family.to_host(order[1:][again]), family.to_host(order[:-1][again])
        at = int(np.argmin(repeats))
        first, second = int(befores[at]), int(repeats[at])
        key = _one(family.to_host(keys.array[second : second + 1]), key_type)
    raise DuplicateKeyError(
        f"{keys.name}[{second}] is {key}, as {keys.name}[{first}] is: give each key once, or choose "
        "duplicates='last' or 'first'",
        key,
        (first, second),
    )


def _halves(integers: Any) -> Any:
    """Integers of 16 bytes as rows of two halves, which they are already but in NumPy."""
    is_numpy = isinstance(integers, np.ndarray)
    return integers.view(np.int64).reshape(-1, 2) if is_numpy else integers


def _wide_order(halves: Any, family: Family) -> Any:
    """The positions of integers of 16 bytes in an order in which equal ones follow each other, the first one
    first."""
    order = family.order(halves[:, 0])
    return order[family.order(halves[:, 1][order])]


def _one(key: NDArray[Any], key_type: KeyType) -> Any:
    """One key as a caller gets it."""
    if not isinstance(key_type, Layout):
        return listed_keys(key)[0]
    packed = NUMPY.empty(1, key_type.dtype)
    packed.view(np.uint8)[...] = np.frombuffer(key.tobytes(), np.uint8)
    columns = tuple(NUMPY.empty(1, part) for part in key_type.parts)
    key_type.unpack(packed, None, columns)
    return listed_keys(columns if key_type.is_tuple else columns[0])[0]
