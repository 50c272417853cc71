"""Keys that are times: NumPy's `datetime64` and `timedelta64`, stored as 64-bit integers.

The dictionary remembers the unit. NaT is a value, but no key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulsm._arrays import read
from gpulsm._families import DType
from gpulsm._given import Given
from gpulsm._times import check_no_nat


def stored(key: DType) -> DType:
    """The type of number that keys of a type are stored as."""
    return np.dtype(np.int64) if key.kind in "Mm" else key


def read_keys(name: str, given: Any, dtype: DType) -> Given:
    """The argument `name`, if it is an array, or one scalar, of keys."""
    keys = read(name, given, dtype)
    if dtype.kind in "Mm":
        if keys.is_scalar and np.isnat(keys.array[0]):
            raise ValueError(f"{name} is NaT, which is no key")
        check_no_nat(name, keys.array, "which is no key; `numpy.isnat(…)` finds every NaT")
    return keys
