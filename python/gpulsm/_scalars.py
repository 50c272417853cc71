"""Scalars and lists: the only arguments that are converted, and only if every element fits."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._errors import OutOfRangeError
from gpulsm._families import NUMPY, DType, describe
from gpulsm._given import Given

#: The kinds of numbers that a number of each kind may be made of.
NUMBERS = {"i": "iu", "u": "iu", "f": "iuf"}

#: What one element may be, by the kind of its type; NumPy's own scalars always may.
_SCALARS: dict[str, tuple[type, ...]] = {
    "c": (int, float, complex),
    "M": (datetime.date, str),
    "m": (datetime.timedelta,),
    "S": (bytes,),
    "U": (str,),
    "V": (bytes, tuple),
}


def is_scalar(given: Any, dtype: DType) -> bool:
    """Whether this is one element rather than an array."""
    if isinstance(given, (list, tuple)) and dtype.subdtype is not None:
        return np.shape(given) == dtype.shape
    return isinstance(given, (np.generic, *_SCALARS.get(dtype.base.kind, (int, float, complex))))


def of_scalar(name: str, given: Any, dtype: DType) -> Given:
    """One element, if it fits the type."""
    base = dtype.base
    if base.kind in NUMBERS and not isinstance(given, (list, tuple, np.ndarray)):
        _check_number(name, given, base)
    elif base.kind not in NUMBERS:
        given = _converted(name, given, base)
    try:
        array = NUMPY.full(1, dtype, given)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name}: expected {describe(dtype)}: {error}") from None
    return Given(name, dtype, array, 1, NUMPY, is_scalar=True)


def of_sequence(name: str, given: Sequence[Any], dtype: DType) -> NDArray[Any]:
    """An array of a list's elements, if each fits the type."""
    if not len(given):
        return np.empty((0, *dtype.shape), dtype.base)
    if dtype.base.kind in NUMBERS:
        array = _numbers(name, given, dtype.base)
    else:
        array = _converted(name, given, dtype.base)
    return np.ascontiguousarray(check_shape(name, array, dtype))


def check_shape(name: str, array: Any, dtype: DType) -> Any:
    """The array, if it has one element of the type after the other."""
    shape = tuple(array.shape)
    if len(shape) != 1 + len(dtype.shape) or shape[1:] != dtype.shape:
        wanted = ", ".join(["n", *map(str, dtype.shape)]) + ("" if dtype.shape else ",")
        raise ValueError(f"{name}: expected an array of shape ({wanted}), got one of shape {shape}")
    return array


def _numbers(name: str, given: Sequence[Any], dtype: DType) -> NDArray[Any]:
    try:
        array = np.asarray(given)
    except ValueError as error:  # Of different lengths.
        raise TypeError(f"{name}: expected {describe(dtype)}: {error}") from None
    if array.dtype.kind not in NUMBERS[dtype.kind] or bool in map(type, given):
        # Python's own integers may be longer than any of NumPy's.
        array = np.array(given, object)
        types = (int, np.integer) if dtype.kind in "iu" else (int, float, np.integer, np.floating)
        for index, item in enumerate(array.flat):
            if not isinstance(item, types) or isinstance(item, (bool, np.timedelta64)):
                kind = type(item).__name__
                raise TypeError(f"{name}[{index}] is of type {kind}: expected {describe(dtype)}")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    outside = (array < limits.min) | (array > limits.max)
    if dtype.kind == "f":
        outside &= np.abs(array) != np.inf
    if outside.any():
        index = int(np.flatnonzero(outside)[0])
        raise OutOfRangeError(f"{name}[{index}] is {array.flat[index]}: {_limits(dtype)}")
    return array.astype(dtype)


def _converted(name: str, given: Any, dtype: DType) -> NDArray[Any]:
    """Anything but plain numbers, as NumPy converts it; texts must fit."""
    try:
        if dtype.kind in "SU" and np.asarray(given).dtype.itemsize > dtype.itemsize:
            raise ValueError(f"a text is longer than {dtype} holds")
        return np.array(given, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name}: expected {describe(dtype)}: {error}") from None


def _check_number(name: str, given: Any, dtype: DType) -> None:
    # To NumPy, spans of time are integers.
    integer = isinstance(given, (int, np.integer)) and not isinstance(given, (bool, np.timedelta64))
    if not integer and not (dtype.kind == "f" and isinstance(given, (float, np.floating))):
        kind = type(given).__name__
        cure = _cure(given) if dtype.kind in "iu" else ""
        raise TypeError(f"{name}: expected {describe(dtype)}, got {kind} {given!r}{cure}")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    number = int(given) if integer else float(given)
    if number != number or abs(number) == float("inf"):
        return
    if not int(limits.min) <= number <= int(limits.max):
        raise OutOfRangeError(f"{name} is {given}: {_limits(dtype)}", above=number > 0)


def _cure(given: Any) -> str:
    """What to give instead of a number that is no integer."""
    if isinstance(given, (np.datetime64, np.timedelta64)):
        return f"; make the dictionary with key='{np.dtype(given.dtype)}' for keys that are times"
    if isinstance(given, (float, np.floating)) and abs(given) == float("inf"):
        return "; None stands for an end of a range that is open"
    if isinstance(given, (float, np.floating)) and float(given).is_integer():
        return "; `int(…)` converts it"
    return ""


def _limits(dtype: DType) -> str:
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return f"{dtype.name} goes from {limits.min} to {limits.max}"
