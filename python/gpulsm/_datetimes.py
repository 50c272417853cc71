"""Keys that are times: NumPy's `datetime64` and `timedelta64`, stored as 64-bit integers.

The dictionary remembers the unit. Times of another unit are converted if that is exact, and refused if not;
NaT is no key, and neither is a time with a time zone, which NumPy's types can't express.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._arrays import is_list, of_numpy, read, unreadable
from gpulsm._columns import CURES, of_column
from gpulsm._errors import OutOfRangeError
from gpulsm._families import NUMPY, DType, describe, is_of
from gpulsm._given import Given

#: Moments and spans of time, as Python's and NumPy's libraries have them; pandas's are subclasses.
_SCALARS = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)


def stored(key: DType) -> DType:
    """The type of number that keys of a type are stored as."""
    return np.dtype(np.int64) if key.kind in "Mm" else key


def read_keys(name: str, given: Any, dtype: DType) -> Given:
    """The argument `name`, if it is an array, or one scalar, of keys."""
    if dtype.kind not in "Mm":
        return read(name, given, dtype)
    if isinstance(given, np.ndarray):
        return _of_array(name, given, dtype)
    if _is_time(given):
        return _of_scalar(name, given, dtype)
    column = of_column(name, given, dtype)
    if column is not None:
        return _of_array(name, column, dtype, *CURES[type(given).__module__.partition(".")[0]])
    if is_list(given):
        return _of_list(name, given, dtype)
    if is_of("torch", "Tensor", given) or is_of("cupy", "ndarray", given):
        library = type(given).__module__.partition(".")[0]
        raise TypeError(f"{name}: {library} has no arrays of {describe(dtype)}: give NumPy arrays")
    if isinstance(given, str):
        raise TypeError(f"{name}: expected {describe(dtype)}, got a text{_read_by(dtype)}")
    if isinstance(given, (int, float, np.number)):
        raise _is_a_number(name, describe(dtype), type(given).__name__, dtype)
    raise unreadable(name, given, dtype)


def dtype_of_times(given: Sequence[Any]) -> DType | None:
    """The finest unit of a list's times, as a type; None if its elements are something else."""
    if not all(map(_is_time, given)):
        return None
    array: NDArray[Any] = np.array([_to_numpy("keys", item) for item in given])
    return array.dtype if array.dtype.kind in "Mm" else None


def check_no_nat(name: str, times: NDArray[Any], why: str) -> None:
    """An error if one of many times is NaT."""
    nowhere = np.isnat(times)
    if nowhere.any():
        at = int(np.flatnonzero(nowhere)[0])
        raise ValueError(f"{name}[{at}] is NaT, {why}")


def in_unit(name: str, times: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Times in the unit of a type; an error if one of them can't be expressed in it."""
    if times.dtype == dtype:
        return times
    converted, wrong = _converted(times, dtype)
    if wrong is not None:
        raise _inexact(f"{name}[{wrong[0]}]", wrong[1], dtype, is_one_of_many=True)
    return converted


def _is_time(given: Any) -> bool:
    return isinstance(given, _SCALARS)


def _of_array(
    name: str, array: NDArray[Any], dtype: DType, cast: str = "astype", copy: str = ".copy()"
) -> Given:
    if array.dtype.kind in "iu":
        raise _is_a_number(name, describe(dtype), describe(array.dtype), dtype)
    if array.dtype.kind != dtype.kind:
        raise TypeError(f"{name}: expected {describe(dtype)}, got {describe(array.dtype)}")
    if array.shape == ():
        return _of_scalar(name, array[()], dtype)
    check_no_nat(name, array, "which is no key: leave it and its value out")
    return of_numpy(name, in_unit(name, array, dtype), dtype, cast, copy)


def _of_scalar(name: str, given: Any, dtype: DType) -> Given:
    time = np.asarray(_to_numpy(name, given))
    if time.dtype.kind != dtype.kind:
        kind = type(given).__name__
        raise TypeError(f"{name}: expected {describe(dtype)}, got {kind} {given!s}")
    if np.isnat(time):
        raise ValueError(f"{name} is NaT, which is no key")
    array, wrong = _converted(time.reshape(1), dtype)
    if wrong is not None:
        raise _inexact(name, wrong[1], dtype)
    return Given(name, dtype, array, 1, NUMPY, is_scalar=True)


def _of_list(name: str, given: Sequence[Any], dtype: DType) -> Given:
    """A list of times, each converted by itself, for each may be of another unit."""
    array = np.empty(len(given), dtype)
    for index, item in enumerate(given):
        if not _is_time(item):
            kind = type(item).__name__
            cure = _read_by(dtype) if isinstance(item, str) else ""
            raise TypeError(f"{name}[{index}] is of type {kind}: expected {describe(dtype)}{cure}")
        try:
            array[index] = _of_scalar(f"{name}[{index}]", item, dtype).array[0]
        except OutOfRangeError as error:
            raise OutOfRangeError(str(error)) from None  # One of many.
    return Given(name, dtype, array, len(array), NUMPY)


def _to_numpy(name: str, given: Any) -> Any:
    """A time of any library as NumPy's, exactly."""
    if type(given).__name__ == "NaTType":
        raise ValueError(f"{name} is NaT, which is no key")
    if isinstance(given, (np.datetime64, np.timedelta64)):
        return given
    if getattr(given, "tzinfo", None) is not None:
        cure = (
            "`.tz_convert('UTC').tz_localize(None)`"
            if is_of("pandas", "Timestamp", given)
            else "`.astimezone(datetime.timezone.utc).replace(tzinfo=None)`"
        )
        raise TypeError(
            f"{name}: expected a time without a time zone, got {given!s}; {cure} makes it UTC"
        )
    if is_of("pandas", "Timestamp", given):
        return given.to_datetime64()
    if is_of("pandas", "Timedelta", given):
        return given.to_timedelta64()
    if isinstance(given, datetime.timedelta):
        return np.timedelta64(given)
    return np.datetime64(given)


def _converted(times: NDArray[Any], dtype: DType) -> tuple[NDArray[Any], tuple[int, Any] | None]:
    """Times in another unit, and the first that it can't express, if there is one, with its index."""
    try:
        converted = times.astype(dtype)
        there_and_back = converted.astype(times.dtype) == times
    except TypeError:  # Between months and days, which have no common length.
        return times, (0, times[0])
    if there_and_back.all():
        return converted, None
    index = int(np.flatnonzero(~there_and_back)[0])
    return converted, (index, times[index])


def _inexact(name: str, time: Any, dtype: DType, *, is_one_of_many: bool = False) -> ValueError:
    """An error for a time that a unit can't express: it is too coarse, or does not count that far."""
    text = f"{name} is {time!s}, which {describe(dtype)} can't hold"
    if _converted(np.ones(1, np.int64).view(time.dtype), dtype)[1] is None:
        above = None if is_one_of_many else bool(time.astype(np.int64) > 0)
        return OutOfRangeError(f"{text}: a dictionary of a coarser unit can", above)
    return ValueError(f"{text} exactly: round it first, or make the dictionary with a finer unit")


def _read_by(dtype: DType) -> str:
    return f"; `numpy.{dtype.type.__name__}(…)` reads a text"


def _is_a_number(name: str, wanted: str, got: str, dtype: DType) -> TypeError:
    unit = np.datetime_data(dtype)[0]
    since = " since 1970" if dtype.kind == "M" else ""
    return TypeError(
        f"{name}: expected {wanted}, got {got}; if it counts {unit}{since}, "
        f"`numpy.asarray(…, 'int64').view('{dtype}')` says so"
    )
