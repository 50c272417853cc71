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
from gpulsm._times import is_time, of_time

#: The kinds of numbers that a number of each kind may be made of.
NUMBERS = {"i": "iu", "u": "iu", "f": "iuf"}

#: What one element may be, by the kind of its type; NumPy's own scalars always may. Some of these are errors,
#: but not for being no array.
_SCALARS: dict[str, tuple[type, ...]] = {
    "M": (datetime.date, datetime.timedelta, str, int, float),
    "m": (datetime.date, datetime.timedelta, str, int, float),
    "S": (bytes, str),
    "U": (bytes, str),
    "V": (bytes, tuple),
}


def is_scalar(given: Any, dtype: DType) -> bool:
    """Whether this is one element rather than an array."""
    if isinstance(given, (list, tuple)) and dtype.subdtype is not None:
        try:
            return np.shape(given) == dtype.shape
        except ValueError:  # Lists of different lengths.
            return False
    return isinstance(given, (np.generic, *_SCALARS.get(dtype.base.kind, (int, float, complex))))


def of_scalar(name: str, given: Any, dtype: DType) -> Given:
    """One element, if it fits the type."""
    if isinstance(given, np.ndarray) and given.dtype == dtype.base:
        element: Any = given
    else:
        element = _element(name, given, dtype)
    return Given(name, dtype, NUMPY.full(1, dtype, element), 1, NUMPY, is_scalar=True)


def of_sequence(name: str, given: Sequence[Any], dtype: DType) -> NDArray[Any]:
    """An array of a list's elements, if each fits the type."""
    if not len(given):
        return np.empty((0, *dtype.shape), dtype.base)
    try:
        if dtype.base.kind in NUMBERS:
            array = _numbers(name, given, dtype)
        else:
            array = np.empty(len(given), dtype)
            for index, item in enumerate(given):
                array[index] = _element(f"{name}[{index}]", item, dtype)
    except OutOfRangeError as error:
        raise OutOfRangeError(str(error)) from None  # One of many.
    return np.ascontiguousarray(check_shape(name, array, dtype))


def check_shape(name: str, array: Any, dtype: DType) -> Any:
    """The array, if it has one element of the type after the other."""
    shape = tuple(array.shape)
    if len(shape) != 1 + len(dtype.shape) or shape[1:] != dtype.shape:
        wanted = ", ".join(["n", *map(str, dtype.shape)]) + ("" if dtype.shape else ",")
        cure = (
            "; the ends of ranges are two arrays, lo and hi" if name == "lo" and 2 in shape else ""
        )
        raise ValueError(
            f"{name}: expected an array of shape ({wanted}), got one of shape {shape}{cure}"
        )
    return array


def _element(name: str, given: Any, dtype: DType) -> Any:
    """One element as NumPy stores it in the type without changing it; an error that names it if it can't."""
    if dtype.subdtype is not None:
        return _row(name, given, dtype)
    if dtype.names is not None:
        return _structure(name, given, dtype)
    if dtype.kind in "Mm":
        return of_time(name, given, dtype)
    if dtype.kind in NUMBERS:
        _check_number(name, given, dtype)
    elif dtype.kind == "c":
        _check_complex(name, given, dtype)
    elif dtype.kind == "b":
        if not isinstance(given, (bool, np.bool_)):
            raise _wrong(name, given, dtype)
    else:
        _check_text(name, given, dtype)
    return given


def _row(name: str, given: Any, dtype: DType) -> Any:
    """One element of several numbers; of one number, as many of it."""
    if not isinstance(given, (list, tuple, np.ndarray)) or (
        dtype.base.names is not None and isinstance(given, tuple)
    ):
        return _element(name, given, dtype.base)
    if len(given) != dtype.shape[0]:
        raise _wrong_length(name, len(given), dtype)
    inner: DType = np.dtype((dtype.base, dtype.shape[1:]))
    row = np.empty(dtype.shape, dtype.base)
    for index, item in enumerate(given):
        row[index] = _element(f"{name}[{index}]", item, inner)
    return row


def _structure(name: str, given: Any, dtype: DType) -> tuple[Any, ...]:
    """One structure: a tuple of its fields."""
    names = dtype.names or ()
    if isinstance(given, np.void) and given.dtype.names is not None:
        given = tuple(given[field] for field in given.dtype.names)
    if not isinstance(given, tuple):
        raise TypeError(
            f"{name}: expected a tuple of {', '.join(names)}, got {type(given).__name__}"
        )
    if len(given) != len(names):
        raise ValueError(
            f"{name}: expected a tuple of {', '.join(names)}, got {len(given)} of them"
        )
    return tuple(
        _element(f"{name}[{field!r}]", item, dtype[field])
        for field, item in zip(names, given, strict=True)
    )


def _numbers(name: str, given: Sequence[Any], dtype: DType) -> NDArray[Any]:
    base = dtype.base
    try:
        array = np.asarray(given)
    except ValueError:
        raise _ragged(name, given, dtype) from None
    types = set(map(type, given))
    if dtype.shape and types <= {list, tuple}:
        types = set(map(type, np.array(given, object).flat))
    if array.dtype.kind not in NUMBERS[base.kind] or not types.isdisjoint((bool, np.bool_)):
        # Python's own integers may be longer than any of NumPy's.
        array = np.array(given, object)
        expected = (int, np.integer) if base.kind in "iu" else (int, float, np.integer, np.floating)
        for index, item in enumerate(array.flat):
            if not isinstance(item, expected) or isinstance(item, (bool, np.timedelta64)):
                place, kind = _place(index, array.shape), type(item).__name__
                raise TypeError(f"{name}{place} is of type {kind}: expected {describe(base)}")
    has_integers = any(issubclass(one, (int, np.integer)) for one in types)
    if base.kind == "f" and array.dtype.kind == "f" and has_integers:
        # Among floats, an integer may have been rounded already.
        _check_exact(name, np.array(given, object), base)
    return fitting(name, array, base)


def fitting(name: str, array: NDArray[Any], base: DType) -> NDArray[Any]:
    """Numbers in another type; an error if one of them is beyond it, or an integer would be rounded."""
    limits = np.iinfo(base) if base.kind in "iu" else np.finfo(base)
    outside = (array < limits.min) | (array > limits.max)
    if base.kind == "f":
        outside &= np.abs(array) != np.inf
    if outside.any():
        index = int(np.flatnonzero(outside)[0])
        number = array.flat[index]
        raise OutOfRangeError(f"{name}{_place(index, array.shape)} is {number}: {_limits(base)}")
    if base.kind == "f" and array.dtype.kind in "iuO":
        _check_exact(name, array, base)
    return array.astype(base)


def _check_exact(name: str, array: NDArray[Any], dtype: DType) -> None:
    """An error if an integer of a list would be rounded."""
    most = 1 << (np.finfo(dtype).nmant + 1)
    with np.errstate(invalid="ignore"):  # Of objects, a NaN among them would be a warning.
        large = np.flatnonzero((array > most) | (array < -most))
    for index in map(int, large):
        number = array.flat[index]
        if isinstance(number, (int, np.integer)) and int(dtype.type(number)) != int(number):
            raise _rounded(f"{name}{_place(index, array.shape)}", int(number), dtype)


def _check_number(name: str, given: Any, dtype: DType) -> None:
    # To NumPy, spans of time are integers.
    integer = isinstance(given, (int, np.integer)) and not isinstance(given, (bool, np.timedelta64))
    if not integer and not (dtype.kind == "f" and isinstance(given, (float, np.floating))):
        kind = type(given).__name__
        cure = _cure(name, given) if dtype.kind in "iu" else ""
        raise TypeError(f"{name}: expected {describe(dtype)}, got {kind} {given!r}{cure}")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    number = int(given) if integer else float(given)
    if number != number or (abs(number) == float("inf") and given == number):
        return
    if not int(limits.min) <= number <= int(limits.max):
        raise OutOfRangeError(f"{name} is {given}: {_limits(dtype)}", above=number > 0)
    if integer and dtype.kind == "f" and int(dtype.type(number)) != number:
        raise _rounded(name, int(number), dtype)


def _check_complex(name: str, given: Any, dtype: DType) -> None:
    """An error unless both parts fit."""
    part: DType = np.dtype(f"f{dtype.itemsize // 2}")
    if isinstance(given, (complex, np.complexfloating)):
        _check_number(name, given.real, part)
        _check_number(name, given.imag, part)
    elif isinstance(given, (int, float, np.integer, np.floating)) and not (
        isinstance(given, (bool, np.timedelta64))
    ):
        _check_number(name, given, part)
    else:
        raise _wrong(name, given, dtype)


def _check_text(name: str, given: Any, dtype: DType) -> None:
    """An error unless these are as many characters, or bytes, as the type holds."""
    if dtype.kind == "U":
        if not isinstance(given, str):
            raise _wrong(name, given, dtype)
        if len(given) > dtype.itemsize // 4:
            raise ValueError(
                f"{name} has {len(given):,} characters: {describe(dtype)} holds {dtype.itemsize // 4}"
            )
        return
    if isinstance(given, str):
        raise TypeError(
            f"{name}: expected {describe(dtype)}, which is bytes, got a text; `.encode()` makes bytes of it, and "
            "`.str.encode('utf-8')` of a column of pandas"
        )
    if not isinstance(given, (bytes, np.void)):
        raise _wrong(name, given, dtype)
    length = len(given) if isinstance(given, bytes) else given.dtype.itemsize
    # NumPy fills up with zeros, which belong to raw data, but not to texts.
    text = (
        f"{name} has {length:,} byte{'s' * (length != 1)}: {describe(dtype)} holds {dtype.itemsize}"
    )
    if dtype.kind == "S" and length > dtype.itemsize:
        raise OutOfRangeError(text, above=True)
    if dtype.kind == "V" and length != dtype.itemsize:
        raise ValueError(text)
    raw = given if isinstance(given, bytes) else given.tobytes()
    if dtype.kind == "S" and length < dtype.itemsize and raw.endswith(b"\0"):
        raise ValueError(
            f"{name} is {raw!r}, which ends in a zero: {describe(dtype)} takes it for shorter bytes, to which "
            f"zeros are appended; give all {dtype.itemsize} bytes, or others"
        )


def _wrong(name: str, given: Any, dtype: DType) -> TypeError:
    kind = type(given).__name__
    cure = "; `.bytes` are those of a UUID" if kind == "UUID" and dtype.kind == "S" else ""
    return TypeError(f"{name}: expected {describe(dtype)}, got {kind} {given!r}{cure}")


def _ragged(name: str, given: Sequence[Any], dtype: DType) -> Exception:
    """An error for lists of different lengths."""
    for index, item in enumerate(given):
        is_list = isinstance(item, (list, tuple, np.ndarray))
        if is_list != bool(dtype.shape):
            kind = type(item).__name__
            return TypeError(f"{name}[{index}] is of type {kind}: expected {describe(dtype)}")
        if is_list and len(item) != dtype.shape[0]:
            return _wrong_length(f"{name}[{index}]", len(item), dtype)
    return ValueError(f"{name}: expected {describe(dtype)}, got lists of different lengths")


def _wrong_length(name: str, length: int, dtype: DType) -> ValueError:
    many = f"{length:,} element{'s' * (length != 1)}"
    return ValueError(f"{name}: expected {describe(dtype)}, got {many}")


def _rounded(name: str, number: int, dtype: DType) -> ValueError:
    return ValueError(
        f"{name} is {number}, which {describe(dtype)} can't hold exactly: `float(…)` says that it may be "
        "rounded"
    )


def _cure(name: str, given: Any) -> str:
    """What to give instead of a number that is no integer."""
    if is_time(given):
        return times_cure(name, np.dtype(given.dtype))
    if isinstance(given, (float, np.floating)) and abs(given) == float("inf"):
        return "; None stands for an end of a range that is open" if name in ("lo", "hi") else ""
    if isinstance(given, (float, np.floating)) and float(given).is_integer():
        return "; `int(…)` converts it"
    return ""


def times_cure(name: str, dtype: Any) -> str:
    """How to make a dictionary that takes times where this one takes numbers."""
    if name.startswith(("values", "insert[1]", "default")):
        return f"; make the dictionary with value='{dtype}' for values that are times"
    return f"; make the dictionary with key='{dtype}' for keys that are times"


def _place(index: int, shape: tuple[int, ...]) -> str:
    """An element's place in an array, as a subscript of lists."""
    return "".join(f"[{at}]" for at in np.unravel_index(index, shape))


def _limits(dtype: DType) -> str:
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return f"{dtype.name} goes from {limits.min} to {limits.max}"
