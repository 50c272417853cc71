"""The types and the device of a dictionary that is made of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from gpulsm._arrays import iterable_cure, torch_family
from gpulsm._columns import of_column
from gpulsm._families import HOST, DType, Place, is_of
from gpulsm._interchange import DLPACK_CUDA, adopt
from gpulsm._keys import spec_of
from gpulsm._settings import key_type, value_dtype
from gpulsm._times import dtype_of_times, is_time
from gpulsm._types import KeyLike


def types_of(
    keys: Any, values: Any, key: KeyLike | None, value: DTypeLike | None
) -> tuple[KeyLike, DTypeLike | None]:
    """The types of keys and values that were given, or else those of the arrays."""
    if key is None:
        key = spec_of(key_type(type_of_keys(keys), "keys"))
    if value is None and values is not None:
        value = value_dtype(dtype_of("values", values), "values")
    return key, value


def dtype_of(name: str, given: Any) -> DType:
    """The type of an array's elements, for a dictionary that is to be made of it."""
    if is_of("torch", "Tensor", given):
        base = np.dtype(str(given.dtype).removeprefix("torch."))
        return _with_shape(base, tuple(given.shape[1:]))
    column = of_column(name, given, None)
    if column is not None:
        return _with_shape(column.dtype, column.shape[1:])
    if not hasattr(given, "dtype"):
        if hasattr(given, "__cuda_array_interface__"):
            return _dtype(given.__cuda_array_interface__["typestr"])
        if not isinstance(given, Sequence):
            one = "; of one number, give the type (`value=`)" if np.isscalar(given) else ""
            cure = one or iterable_cure(given)
            raise TypeError(f"{name}: expected an array, got {type(given).__name__}{cure}")
        return _dtype_of_sequence(name, given)
    try:
        dtype = _dtype(given.dtype)
    except TypeError:
        raise TypeError(f"{name}: no dictionary holds {given.dtype}") from None
    return _with_shape(dtype, tuple(getattr(given, "shape", ()))[1:])


def type_of_keys(given: Any) -> DType | tuple[DType, ...]:
    """The type of keys, for a dictionary that is to be made of them: of a tuple of columns, of each part."""
    if isinstance(given, tuple) and any(map(_is_column, given)):
        return tuple(_key_of(f"keys[{at}]", column) for at, column in enumerate(given))
    return _key_of("keys", given)


def _key_of(name: str, given: Any) -> DType:
    """The type of keys, or of a part of them."""
    dtype = dtype_of(name, given)
    is_arrow = is_of("pyarrow", "Array", given) or is_of("pyarrow", "ChunkedArray", given)
    # Arrow's bytes of one length.
    return np.dtype(f"S{dtype.itemsize}") if is_arrow and dtype.kind == "V" else dtype


def _is_column(given: Any) -> bool:
    """Whether this is an array or a list rather than one element of a list."""
    return not np.isscalar(given) and not is_time(given) and given is not None


def _dtype_of_sequence(name: str, given: Sequence[Any]) -> DType:
    """The type that holds every element of a list: of integers, never one of floats."""
    if not len(given):
        raise TypeError(
            f"{name}: of an empty list the type can't be told; give it (`key=`, `value=`)"
        )
    if set(map(type, given)) == {int}:
        least, most = min(given), max(given)
        if np.iinfo(np.int64).min <= least and most <= np.iinfo(np.int64).max:
            return np.dtype(np.int64)
        if least >= 0 and most <= np.iinfo(np.uint64).max:
            return np.dtype(np.uint64)
        raise ValueError(f"{name}: no type of integers goes from {least} to {most}")
    try:
        array = np.asarray(given)
    except ValueError:
        raise TypeError(
            f"{name}: expected numbers, or lists of as many numbers each; got lists of different lengths"
        ) from None
    if array.dtype.hasobject:
        times = dtype_of_times(name, given)
        if times is None and str not in map(type, given):
            _check_numbers(name, given)
        return times or array.dtype
    return _with_shape(array.dtype, array.shape[1:])


def _check_numbers(name: str, given: Sequence[Any]) -> None:
    """An error that names the first element of a list that is no number and no time."""
    for index, item in enumerate(given):
        if not isinstance(item, (int, float, complex, np.generic)) and not is_time(item):
            kind = type(item).__name__
            raise TypeError(f"{name}[{index}] is of type {kind}: expected a number or a time")


def place_of(given: Any) -> Place:
    """Where an array is, for a dictionary that is to be made of it; of columns, where the first is that is on a
    GPU."""
    if isinstance(given, tuple):
        places = (place_of(column) for column in given)
        return next((place for place in places if place is not HOST), HOST)
    if is_of("torch", "Tensor", given):
        return torch_family(given).place
    if is_of("cupy", "ndarray", given):
        place: int = given.device.id
        return place
    if hasattr(given, "__cuda_array_interface__"):
        return place_of(adopt("keys", given))
    if hasattr(given, "__dlpack_device__"):
        kind, number = given.__dlpack_device__()
        return int(number) if kind in DLPACK_CUDA else HOST
    return HOST


def _dtype(given: Any) -> DType:
    dtype: DType = np.dtype(given)
    return dtype


def _with_shape(dtype: DType, shape: tuple[int, ...]) -> DType:
    return np.dtype((dtype, shape)) if shape else dtype
