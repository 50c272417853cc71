"""Times of every library as NumPy's `datetime64` and `timedelta64`, in the unit of a dictionary, exactly.

A time of another unit is converted if that is exact, and refused if it is not. So is a time with a time zone,
which NumPy's types can't express, and a number or a text, whose unit or time zone can only be guessed.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._errors import OutOfRangeError
from gpulsm._families import DType, describe, is_of

#: Moments and spans of time, as Python's and NumPy's libraries have them; pandas's are subclasses.
_SCALARS = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)


#: What units of a fixed length last.
_ATTOSECONDS = {
    unit: seconds * 10**18
    for unit, seconds in {"W": 604_800, "D": 86_400, "h": 3600, "m": 60, "s": 1}.items()
} | {
    unit: 10**power
    for power, unit in zip(range(15, -1, -3), ("ms", "us", "ns", "ps", "fs", "as"), strict=True)
}


def is_time(given: Any) -> bool:
    """Whether this is one moment or one span of time, of any library; NaT is both."""
    return isinstance(given, _SCALARS)


def is_span(given: Any) -> bool:
    """Whether this is one span of time, of any library, or NaT."""
    return isinstance(given, (np.timedelta64, datetime.timedelta)) or _is_nat(given)


def of_time(name: str, given: Any, dtype: DType) -> Any:
    """One time in the unit of a type; an error if it is none, or can't be expressed in it."""
    if not is_time(given):
        raise is_no_time(name, given, dtype)
    time = _to_numpy(name, given, dtype.kind)
    if time.dtype.kind != dtype.kind:
        kind = type(given).__name__
        raise TypeError(f"{name}: expected {describe(dtype)}, got {kind} {given!s}")
    if np.datetime_data(time.dtype)[0] == "generic" and not np.isnat(time):
        raise TypeError(f"{name}: expected {describe(dtype)}, got {time!r}, which has no unit")
    array, wrong = in_other_unit(np.asarray(time).reshape(1), dtype)
    if wrong is not None:
        raise _inexact(name, wrong[1], dtype)
    return array[0]


def in_unit(name: str, times: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Times in the unit of a type; an error if they are none, or one can't be expressed in it."""
    if times.dtype == dtype:
        return times
    if times.dtype.kind in "iu":
        raise _is_a_number(name, describe(times.dtype), dtype)
    if times.dtype.kind != dtype.kind:
        raise TypeError(f"{name}: expected {describe(dtype)}, got {describe(times.dtype)}")
    converted, wrong = in_other_unit(times, dtype)
    if wrong is not None:
        place = "".join(f"[{index}]" for index in np.unravel_index(wrong[0], times.shape))
        raise _inexact(f"{name}{place}", wrong[1], dtype, is_one_of_many=times.ndim > 0)
    return converted


def ticks(name: str, given: Any, dtype: DType) -> int:
    """How many units of a type one time counts, whether or not the type can hold it."""
    time, (unit, count) = _to_numpy(name, given, dtype.kind), np.datetime_data(dtype)
    if time.dtype.kind == "M" and unit in _ATTOSECONDS and np.datetime_data(time.dtype)[0] in "YM":
        time = time.astype("datetime64[D]")
    (of, steps), months = np.datetime_data(time.dtype), {"Y": 12, "M": 1}
    lengths = _ATTOSECONDS if unit in _ATTOSECONDS else months
    return int(time.astype(np.int64)) * lengths[of] * steps // (lengths[unit] * count)


def span_rounded_down(name: str, span: Any, dtype: DType) -> int | None:
    """How many whole units of a type one span of time has, if the type can hold as many; None for NaT."""
    if _is_nat(span):
        return None
    try:
        return int(of_time(name, span, dtype).astype(np.int64))
    except OutOfRangeError:
        raise
    except ValueError:
        units = (np.datetime_data(one)[0] for one in (_to_numpy(name, span, "m").dtype, dtype))
        if not all(unit in _ATTOSECONDS for unit in units):
            raise
        return ticks(name, span, dtype)


def is_no_time(name: str, given: Any, dtype: DType) -> TypeError:
    """An error for one element that is not a time."""
    if isinstance(given, str):
        read = f"`numpy.{dtype.type.__name__}(…)` reads a text"
        return TypeError(f"{name}: expected {describe(dtype)}, got a text; {read}")
    kind = type(given).__name__
    if isinstance(given, (int, float, np.number)) and not isinstance(given, bool):
        return _is_a_number(name, kind, dtype)
    return TypeError(f"{name}: expected {describe(dtype)}, got {kind}")


def dtype_of_times(name: str, given: Iterable[Any]) -> DType | None:
    """The finest unit of many times, as a type; None if they are something else, or NaT all of them."""
    items = [*given]
    if not all(map(is_time, items)):
        return None
    types = {_to_numpy(name, item).dtype for item in items if not _is_nat(item)}
    try:
        found: DType | None = np.result_type(*types) if types else None
    except TypeError:  # Moments among spans.
        return None
    return found


def check_no_nat(name: str, times: NDArray[Any], why: str) -> None:
    """An error if one of many times is NaT."""
    nowhere = np.isnat(times)
    if nowhere.any():
        at = int(np.flatnonzero(nowhere)[0])
        raise ValueError(f"{name}[{at}] is NaT, {why}")


def _is_nat(given: Any) -> bool:
    return type(given).__name__ == "NaTType" or (
        isinstance(given, (np.datetime64, np.timedelta64)) and bool(np.isnat(given))
    )


def _to_numpy(name: str, given: Any, kind: str = "M") -> Any:
    """A time of any library as NumPy's, exactly. pandas's NaT is both a moment and a span."""
    if isinstance(given, (np.datetime64, np.timedelta64)):
        return given
    if _is_nat(given):
        return np.datetime64("NaT") if kind == "M" else np.timedelta64("NaT")
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


def in_other_unit(times: NDArray[Any], dtype: DType) -> tuple[NDArray[Any], tuple[int, Any] | None]:
    """Times in another unit, and the first that it can't express, if there is one, with its index."""
    try:
        converted = times.astype(dtype)
        is_exact = converted.astype(times.dtype) == times
    except TypeError:  # Between months and days, which have no common length.
        return times, (0, times.flat[0])
    except OverflowError:  # Since NumPy 2.5; others wrap around.
        return times, _first_wrong(times.reshape(-1), dtype)
    is_exact |= np.isnat(times)
    if is_exact.all():
        return converted, None
    index = int(np.flatnonzero(~is_exact)[0])
    return converted, (index, times.reshape(-1)[index])


def _first_wrong(times: NDArray[Any], dtype: DType) -> tuple[int, Any]:
    """The first of some times that a unit can't express, with its index; one of them overflows."""
    overflows, fits = (
        len(times),
        0,
    )  # Those before `fits` don't overflow, those before `overflows` do.
    while overflows - fits > 1:
        middle = (fits + overflows) // 2
        try:
            times[fits:middle].astype(dtype).astype(times.dtype)
            fits = middle
        except OverflowError:
            overflows = middle
    before = in_other_unit(times[:fits], dtype)[1] if fits else None
    return before or (fits, times[fits])


def _inexact(name: str, time: Any, dtype: DType, *, is_one_of_many: bool = False) -> ValueError:
    """An error for a time that a unit can't express: it is too coarse, or does not count that far."""
    text = f"{name} is {time!s}, which {describe(dtype)} can't hold"
    if in_other_unit(np.ones(1, np.int64).view(time.dtype), dtype)[1] is None:
        above = None if is_one_of_many else bool(time.astype(np.int64) > 0)
        return OutOfRangeError(f"{text}: a dictionary of a coarser unit can", above)
    return ValueError(
        f"{text} exactly: round it first (`.astype('{dtype}')` rounds down), or make the dictionary with a finer unit"
    )


def _is_a_number(name: str, got: str, dtype: DType) -> TypeError:
    unit = np.datetime_data(dtype)[0]
    since = " since 1970" if dtype.kind == "M" else ""
    return TypeError(
        f"{name}: expected {describe(dtype)}, got {got}; if it counts {unit}{since}, "
        f"`numpy.asarray(…, 'int64').view('{dtype}')` says so"
    )
