"""How far the pair of an as-of query may be from what is asked about."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

from gpulsm._arrays import read
from gpulsm._errors import OutOfRangeError
from gpulsm._families import DType
from gpulsm._keys import KeyType, describe_key, last_part
from gpulsm._times import is_span, span_rounded_down

#: The greatest distance of two integers.
_MOST = (1 << 64) - 1


def read_tolerance(tolerance: Any, key: KeyType) -> int | float:
    """A tolerance, for keys of a type, as the native half takes it: of times, how many units."""
    on = last_part(key)
    if on.kind in "Mm":
        return _span(tolerance, key, on)
    if not _is_number(tolerance, whole=on.kind in "iu"):
        raise _wrong_kind(tolerance, key, on)
    if on.kind in "iu":
        if not 0 <= tolerance <= _MOST:
            raise _out_of_range(f"a number from 0 to {_MOST:,}", tolerance)
        return int(tolerance)
    distance = float(read("tolerance", tolerance, on).array[0])
    if not distance >= 0:  # Also NaN.
        raise _out_of_range("a distance of at least 0", tolerance)
    return distance


def _span(tolerance: Any, key: KeyType, on: DType) -> int:
    """A span of time, in units of the keys. They are whole units apart, so that a part of a unit does not count."""
    if not is_span(tolerance):
        raise _wrong_kind(tolerance, key, on)
    unit, count = np.datetime_data(on)
    try:
        units = span_rounded_down("tolerance", tolerance, np.dtype(f"m8[{count}{unit}]"))
    except OutOfRangeError as error:
        if error.above:
            raise ValueError(f"{error}; leave it out for any distance") from None
        raise _out_of_range("a distance of at least 0", tolerance) from None
    if units is None:
        raise _out_of_range("a distance of at least 0", "NaT; leave it out for any distance")
    if units < 0:
        raise _out_of_range("a distance of at least 0", tolerance)
    return units


def _is_number(given: Any, *, whole: bool) -> bool:
    # NumPy counts its times among the integers.
    if isinstance(given, (bool, np.timedelta64)):
        return False
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    return isinstance(given, kinds)


def _out_of_range(expected: str, got: Any) -> ValueError:
    return ValueError(f"tolerance: expected {expected}, got {got!s}")


def _wrong_kind(given: Any, key: KeyType, on: DType) -> TypeError:
    """An error for a tolerance that is no distance of keys: it says what would be one."""
    cure = ""
    if on.kind in "Mm":
        unit = np.datetime_data(on)[0]
        expected = f"a span of time, such as tolerance=numpy.timedelta64(5, '{unit}')"
        if isinstance(given, str):
            cure = "; `pandas.Timedelta(…)` reads a text"
        elif _is_number(given, whole=True):
            cure = f"; if it counts {unit}, `numpy.timedelta64({given}, '{unit}')` says so"
    else:
        example, what = ("5", "an integer") if on.kind in "iu" else ("0.5", "a number")
        expected = f"{what}, such as tolerance={example}"
        if isinstance(given, (str, np.timedelta64, datetime.timedelta)):
            cure = "; keys of times are made with a type such as 'datetime64[ns]'"
    shown = f" {given!s}" if np.isscalar(given) or isinstance(given, datetime.timedelta) else ""
    return TypeError(
        f"tolerance: expected {expected}, for keys {describe_key(key)}, got {type(given).__name__}{shown}{cure}"
    )
