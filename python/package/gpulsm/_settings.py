"""What a dictionary is made with: its types, and how it works."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import DTypeLike

from gpulsm._base import whole
from gpulsm._families import DType, describe
from gpulsm._keys import KeyType
from gpulsm._layouts import Layout
from gpulsm._types import Combine, KeyLike

_KEYS = ("uint32", "uint64", "int32", "int64", "float32", "float64")
_TIMES = "datetime64[unit] or timedelta64[unit]"
#: What keys, or parts of them, can be.
_EXPECTED = f"{', '.join(_KEYS)}, {_TIMES.replace(' or', ',')}, or 'S1' to 'S16' for bytes"
_WIDTHS = (4, 8, 16)
#: How many parts, and how many bytes in all, a key may have.
_MOST_PARTS, _MOST_BYTES = 4, 16


def checked(
    device: str | Sequence[str],
    batch_size: int | None,
    threads: int | None,
    memory_limit: int | None,
    max_merge_per_batch: int | None,
    cleanup: str,
    combine: tuple[str, str],
) -> dict[str, Any]:
    """The settings as the native half takes them. Without a batch size, it is that of the files."""
    device = _checked_device(device)
    if cleanup not in ("automatic", "manual"):
        raise ValueError(f"cleanup: expected 'automatic' or 'manual', got {cleanup!r}")
    return {
        "device": device,
        "batch_size": None if batch_size is None else whole("batch_size", batch_size, 1),
        "threads": None if threads is None else whole("threads", threads, 1, 1024),
        "memory_limit": None if memory_limit is None else whole("memory_limit", memory_limit, 1),
        "max_merge_per_batch": None
        if max_merge_per_batch is None
        else whole("max_merge_per_batch", max_merge_per_batch, 1),
        "cleans_itself": cleanup == "automatic",
        "combine": combine,
    }


def _checked_device(device: Any) -> str:
    """One device, or several with commas between them, as the native half takes it."""
    if isinstance(device, str):
        return device
    if not isinstance(device, Sequence):
        raise TypeError(
            "device: expected a text such as 'cuda:0', or a list of them, got "
            + type(device).__name__
        )
    for index, one in enumerate(device):
        if not isinstance(one, str):
            kind = type(one).__name__
            raise TypeError(f"device[{index}]: expected a text such as 'cuda:0', got {kind}")
    if not device:
        raise ValueError("device: expected at least one, got an empty list")
    return ",".join(device)


def checked_progress(progress: Any) -> Any:
    """A function that is told how much is done; None for none."""
    if progress is None or callable(progress):
        return progress
    raise TypeError(f"progress: expected a function of two numbers, got {type(progress).__name__}")


def checked_rule(combine: Combine, value: DType | None) -> tuple[str, str]:
    """The rule of combining, and the type of number that values consist of."""
    rules = get_args(Combine)
    if combine not in rules:
        raise ValueError(f"combine: expected one of {', '.join(map(repr, rules))}, got {combine!r}")
    if combine == "replace":
        return combine, ""
    if value is None:
        raise TypeError(
            f"combine: expected 'replace' for a set, which has no values, got {combine!r}; give the type of values, "
            "such as value='int64'"
        )
    base = value.base
    if base.kind not in "iuf" or base.itemsize not in (4, 8):
        raise TypeError(
            f"combine: {combine!r} takes values of type int32, int64, uint32, uint64, float32 or float64, or "
            f"several of them together, got {describe(value)}"
        )
    if base.kind == "f" and combine in ("or", "and", "xor"):
        raise TypeError(
            f"combine: {combine!r} takes integers, got {describe(value)}; floats have 'add', 'min' and 'max'"
        )
    return combine, base.name


def key_type(key: KeyLike, name: str = "key") -> KeyType:
    """The type of keys that an argument names: one, or a tuple of several."""
    if isinstance(key, tuple) and not _is_shaped(key):
        return _composite(name, key)
    dtype = None if key is None else _dtype(name, key)
    if dtype is not None and dtype.kind == "S":
        _check_bytes(name, dtype)
        return Layout((dtype,), is_tuple=False)
    return key_dtype(cast(DTypeLike, key), name)


def _is_shaped(key: tuple[Any, ...]) -> bool:
    """Whether a tuple is NumPy's way to name a type of several elements: a type, and a shape."""
    shape = key[1] if len(key) == 2 else None
    is_shape = isinstance(shape, tuple) and all(isinstance(length, int) for length in shape)
    return is_shape or isinstance(shape, int)


def _composite(name: str, key: tuple[Any, ...]) -> Layout:
    """The type of keys of several parts."""
    if not 2 <= len(key) <= _MOST_PARTS:
        raise TypeError(
            f"{name}: expected one type, or a tuple of 2 to {_MOST_PARTS}, got a tuple of {len(key)}"
        )
    parts = []
    for at, part in enumerate(key):
        if isinstance(part, tuple):
            raise TypeError(
                f"{name}[{at}]: expected one type, got a tuple; parts are not nested: list them one after the other"
            )
        dtype = None if part is None else _dtype(f"{name}[{at}]", part)
        if dtype is not None and dtype.kind == "S":
            _check_bytes(f"{name}[{at}]", dtype)
            parts.append(dtype)
        else:
            parts.append(key_dtype(part, f"{name}[{at}]"))
    width = sum(part.itemsize for part in parts)
    if width > _MOST_BYTES:
        names = ", ".join(map(describe, parts))
        raise TypeError(
            f"{name}: expected parts of at most {_MOST_BYTES} bytes in all, got {width}: ({names}); narrower "
            "types, such as uint32 for uint64, take fewer"
        )
    return Layout(tuple(parts), is_tuple=True)


def _check_bytes(name: str, dtype: DType) -> None:
    """An error unless keys can have this many bytes."""
    if not 1 <= dtype.itemsize <= _MOST_BYTES:
        raise TypeError(
            f"{name}: expected from 1 to {_MOST_BYTES} bytes, such as 'S12', got {dtype.itemsize} ('S' with the "
            "number of bytes says how many)"
        )


def key_dtype(key: DTypeLike, name: str = "key") -> DType:
    """The type of keys of one number, or time, that an argument names."""
    expected = f"{name}: expected one of {_EXPECTED}"
    if key is None:
        raise TypeError(f"{expected}, got None")
    dtype = _dtype(name, key)
    is_time = dtype.kind in "Mm" and np.datetime_data(dtype)[0] != "generic"
    if not dtype.isnative or (dtype.name not in _KEYS and not is_time):
        cure = ""
        if dtype.kind in "iu" and dtype.itemsize < 4:
            wide = "int32" if dtype.kind == "i" else "uint32"
            cure = f"; `.astype({wide!r})` widens it"
        if dtype.kind in "OSU":
            cure = (
                "; `pandas.factorize(…)` makes numbers of texts, `pandas.to_datetime(…)` times of dates, and "
                "`.astype('S12')` bytes of short texts"
            )
        if dtype.names is not None:
            cure = "; a tuple of types makes keys of several parts"
        raise TypeError(f"{expected}, got {describe(dtype)}{cure}")
    return dtype


def value_dtype(value: DTypeLike | None, name: str = "value") -> DType | None:
    """The type of values that an argument names; None for a set."""
    if value is None:
        return None
    dtype = _dtype(name, value)
    if dtype.hasobject:
        raise TypeError(
            f"{name}: expected plain data, got {describe(dtype)} with Python objects in it"
        )
    if not dtype.base.isnative:
        raise TypeError(f"{name}: expected this machine's byte order, got {describe(dtype)}")
    if dtype.base.kind in "Mm" and np.datetime_data(dtype.base)[0] == "generic":
        raise TypeError(f"{name}: expected {_TIMES}, got {describe(dtype)} without a unit")
    if dtype.itemsize not in _WIDTHS:
        raise TypeError(
            f"{name}: expected a type of 4, 8 or 16 bytes, "
            f"got {describe(dtype)} of {dtype.itemsize} byte{'s' * (dtype.itemsize != 1)}"
        )
    return dtype


def _dtype(name: str, given: Any) -> DType:
    if str(type(given)) == "<class 'torch.dtype'>":
        given = str(given).removeprefix("torch.")
    given = getattr(given, "numpy_dtype", given)  # That of a type of pandas's own.
    try:
        dtype: DType | None = np.dtype(given)
    except (TypeError, ValueError):
        dtype = None
    # Classes that NumPy does not know it takes for objects.
    if dtype is not None and (dtype.kind != "O" or given is object or not isinstance(given, type)):
        return dtype
    cure = ""
    if isinstance(given, str) and (short := re.fullmatch(r"([uif])(32|64)", given)):
        kind = {"u": "uint", "i": "int", "f": "float"}[short[1]]
        cure = f"; NumPy's name of that is '{kind}{short[2]}'"
    elif isinstance(given, list) and name.startswith("key"):
        cure = "; a tuple of types makes keys of several parts"
    elif isinstance(given, type) and issubclass(given, (datetime.date, datetime.timedelta)):
        cure = "; times have a type such as 'datetime64[us]' or 'timedelta64[us]'"
    raise TypeError(f"{name}: expected a type, such as 'uint32' or 'float64', got {given!r}{cure}")
