"""Arrays that come in: whether each can be used as it is, and where it begins.

Nothing here copies an array. One that can't be used as it is, is an error that names the argument,
says what was expected, and which call makes it so. Only lists and scalars are converted (`_scalars`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._columns import cures, of_column
from gpulsm._families import (
    HOST,
    NUMPY,
    CuPy,
    DType,
    Torch,
    describe,
    held,
    is_of,
    torch_dtype,
)
from gpulsm._given import Given
from gpulsm._interchange import adopt, of_dlpack
from gpulsm._scalars import NUMBERS, check_shape, is_scalar, of_scalar, of_sequence, times_cure
from gpulsm._times import in_unit


def read(name: str, given: Any, dtype: DType) -> Given:
    """The argument `name`, if it is an array, or one scalar, of the type that is wanted."""
    if isinstance(given, np.ndarray):
        return of_numpy(name, given, dtype)
    if is_of("torch", "Tensor", given):
        return _torch(name, given, dtype)
    if is_of("cupy", "ndarray", given):
        return _cupy(name, given, dtype)
    if is_scalar(given, dtype):
        return of_scalar(name, given, dtype)
    column = of_column(name, given, dtype)
    if column is not None:
        return of_numpy(name, column, dtype, *cures(given, dtype))
    if hasattr(given, "__cuda_array_interface__"):
        return read(name, adopt(name, given), dtype)
    if hasattr(given, "__dlpack__"):
        shared = of_dlpack(name, given)
        if isinstance(shared, np.ndarray):
            return of_numpy(name, shared, dtype, copy="numpy.from_dlpack(…).copy()")
        return read(name, shared, dtype)
    cast, copy = f"numpy.asarray(…).astype({dtype.base.name!r})", "numpy.asarray(…).copy()"
    if hasattr(given, "__array__"):
        return of_numpy(name, np.asarray(given), dtype, cast, copy)
    if is_list(given):
        return Given(name, dtype, of_sequence(name, given, dtype), len(given), NUMPY)
    try:
        buffer = memoryview(given)
    except TypeError:
        raise unreadable(name, given, dtype) from None
    if isinstance(given, (bytes, bytearray)) and dtype.base != np.uint8:
        kind, read_by = type(given).__name__, f"`numpy.frombuffer(…, {dtype.base.name!r})`"
        raise TypeError(
            f"{name}: expected {describe(dtype)}, got {kind}; {read_by} reads such numbers from bytes"
        )
    return of_numpy(name, np.asarray(buffer), dtype, cast, copy)


def is_list(given: Any) -> bool:
    """Whether this is a sequence of Python objects."""
    return isinstance(given, Sequence) and not isinstance(
        given, (str, bytes, bytearray, memoryview)
    )


def unreadable(name: str, given: Any, dtype: DType) -> TypeError:
    """An error for what is neither a scalar of the type nor any array."""
    if is_of("pandas", "Timestamp", given) or is_of("pandas", "Timedelta", given):
        kind = "datetime64" if is_of("pandas", "Timestamp", given) else "timedelta64"
        cure = times_cure(name, f"{kind}[{given.unit}]")
    elif type(given).__module__ == "datetime":
        kind = "timedelta64" if type(given).__name__ == "timedelta" else "datetime64"
        cure = times_cure(name, f"{kind}[us]")
    elif type(given).__name__ == "UUID":
        cure = "; make the dictionary with key='S16' for UUIDs, and give `….bytes` of each"
    else:
        cure = iterable_cure(given)
    kind = type(given).__name__
    return TypeError(f"{name}: expected {describe(dtype)}, or an array of it, got {kind}{cure}")


def iterable_cure(given: Any) -> str:
    """How to make lists of what can be iterated over."""
    if isinstance(given, Mapping):
        return "; `list(….keys())` and `list(….values())` make lists of keys and of values"
    if isinstance(given, zip):
        return "; `keys, values = zip(*…)` makes a tuple of keys and one of values"
    if isinstance(given, Iterable) and not isinstance(given, str):
        return "; `list(…)` makes a list of it"
    return ""


def of_numpy(
    name: str, array: NDArray[Any], dtype: DType, cast: str = "", copy: str = ".copy()"
) -> Given:
    """An array of NumPy's, or over someone else's memory, where other calls `cast` and `copy` it."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: expected an array without a mask; `.data` is one, and `~numpy.ma.getmaskarray(…)` says "
            "which of its elements to use, with their keys or values"
        )
    if array.shape == () and dtype.subdtype is None:
        return of_scalar(name, array[()], dtype)
    if dtype.base.kind in "Mm" and array.dtype.kind != "O":
        array = in_unit(name, array, dtype.base)
    if array.dtype != dtype.base:
        raise _wrong_type(name, dtype, array, cast)
    if array.shape == dtype.shape:
        return of_scalar(name, array, dtype)
    check_shape(name, array, dtype)
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{name}: expected a contiguous array; `numpy.ascontiguousarray` makes one"
        )
    if not array.flags.aligned:
        raise _not_aligned(name, copy)
    return Given(name, dtype, array, len(array), NUMPY)


def _cupy(name: str, array: Any, dtype: DType) -> Given:
    _check_no_times(name, "cupy", dtype)
    family = CuPy(array.device.id)
    if array.ndim == 0 and dtype.subdtype is None:
        return of_scalar(name, family.get(array)[()], dtype)
    kept = held(dtype)
    if array.dtype != kept.base:
        raise _wrong_type(name, kept, array, "")
    check_shape(name, array, kept)
    if not array.flags.c_contiguous:
        raise ValueError(f"{name}: expected a contiguous array; `cupy.ascontiguousarray` makes one")
    given = Given(name, dtype, array, len(array), family)
    if not _is_aligned(given):
        raise _not_aligned(name, ".copy()")
    return given


def _torch(name: str, tensor: Any, dtype: DType) -> Given:
    import torch

    _check_no_times(name, "torch", dtype)
    if tensor.layout != torch.strided:
        raise TypeError(f"{name}: expected a dense tensor; `.to_dense()` makes one")
    family = torch_family(tensor)
    if tensor.dim() == 0 and dtype.subdtype is None:
        return of_scalar(name, tensor.item(), dtype)
    kept = held(dtype)
    wanted = torch_dtype(kept.base)
    if tensor.dtype != wanted:
        given = str(tensor.dtype).removeprefix("torch.")
        raise TypeError(
            f"{name}: expected {describe(kept)}, got {given}; `.to({wanted})` converts it"
        )
    check_shape(name, tensor, kept)
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        raise ValueError(f"{name}: expected a contiguous tensor; `.contiguous()` makes one")
    read = Given(name, dtype, tensor, len(tensor), family)
    if not _is_aligned(read):
        raise _not_aligned(name, ".clone()")
    return read


def _check_no_times(name: str, library: str, dtype: DType) -> None:
    """An error for arrays of a library that has none of times."""
    if dtype.base.kind in "Mm":
        raise TypeError(f"{name}: {library} has no arrays of {describe(dtype)}: give NumPy arrays")


def torch_family(tensor: Any) -> Torch:
    """The family of a tensor: PyTorch, on the tensor's device."""
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise ValueError(
            f"{kind} tensors can't be read: expected one on the CPU or on a CUDA device"
        )
    return Torch(tensor.device, tensor.get_device() if kind == "cuda" else HOST)


def _is_aligned(given: Given) -> bool:
    """Whether the elements can be read where they are. A GPU reads each whole, unless it has as many bytes as no
    number; on the host, one of several numbers is read number by number."""
    address, length = given.span
    dtype = given.dtype
    on_gpu = given.family.place is not HOST and dtype.itemsize in (4, 8, 16)
    return length == 0 or address % (dtype.itemsize if on_gpu else dtype.base.alignment) == 0


def _not_aligned(name: str, copy: str) -> ValueError:
    return ValueError(f"{name}: expected aligned elements; `{copy}` makes them so")


def _wrong_type(name: str, dtype: DType, array: Any, cast: str) -> TypeError:
    """An error that says how to convert an array, where that loses nothing, or may lose nothing."""
    wanted, to, given = describe(dtype), dtype.base, array.dtype
    cast = cast or f".astype({to.name!r})"
    cure = ""
    if given.kind in "Mm" and to.kind in "iu":
        cure = times_cure(name, given)
    elif given.kind == "O":
        cure = "; `list(…)` is converted, if every element fits"
    elif given.kind == "f" and to.kind in "iu" and isinstance(array, np.ndarray):
        cure = _integers_or_not(name, array, f"`{cast}`")
    elif given.kind in "SU" and to.kind == "S":
        cure = f"; `.astype('{describe(to)}')` converts it, if every element has at most {to.itemsize} bytes"
    elif given.kind in "iuf" and to.kind in NUMBERS and given.kind in NUMBERS[to.kind]:
        exactly = "" if np.can_cast(given, to, "safe") else ", if every element fits"
        cure = f"; `{cast}` converts it{exactly}"
    return TypeError(f"{name}: expected {wanted}, got {describe(given)}{cure}")


def _integers_or_not(name: str, array: NDArray[Any], cast: str) -> str:
    """Which of the floats is no integer, if any; how they are converted."""
    flat = array.reshape(-1)
    broken = np.flatnonzero(~(np.isfinite(flat) & (flat == np.trunc(flat))))
    if len(broken):
        at = int(broken[0])
        if np.isnan(flat[at]):
            return f"; {name}[{at}] is nan: take what `numpy.isfinite(…)` says, then {cast}"
        return f"; {name}[{at}] is {flat[at]}, which is no integer: round first, then {cast}"
    if not len(flat):
        return f"; {cast} converts it"
    return f"; all of them are integers: {cast} converts them, if every element fits"
