"""Arrays that come in: whether each can be used as it is, and where it begins.

An array of the right type that lies in order is used where it is. Others are converted if every element stays what
it is; one that can't be is an error that names the argument, says what was expected, and what to do. Lengths and
addresses are those of the array that was found usable: what objects of the caller's say of themselves is not relied
on, for they may say something else the next time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._columns import cure, of_column
from gpulsm._errors import OutOfRangeError
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
from gpulsm._scalars import check_shape, fitting, is_scalar, of_scalar, of_sequence, times_cure
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
        return of_numpy(name, column, dtype, cure(given, dtype))
    if hasattr(given, "__cuda_array_interface__"):
        return read(name, adopt(name, given), dtype)
    if hasattr(given, "__dlpack__"):
        shared = of_dlpack(name, given)
        if isinstance(shared, np.ndarray):
            return of_numpy(name, shared, dtype)
        return read(name, shared, dtype)
    cast = f"numpy.asarray(…).astype({dtype.base.name!r})"
    if hasattr(given, "__array__"):
        return of_numpy(name, np.asarray(given), dtype, cast)
    if is_list(given):
        return _of_array(name, of_sequence(name, list(given), dtype), dtype)
    try:
        buffer = memoryview(given)
    except TypeError:
        raise unreadable(name, given, dtype) from None
    if isinstance(given, (bytes, bytearray)) and dtype.base != np.uint8:
        kind, read_by = type(given).__name__, f"`numpy.frombuffer(…, {describe(dtype.base)!r})`"
        raise TypeError(
            f"{name}: expected {describe(dtype)}, got {kind}; {read_by} reads such numbers from bytes"
        )
    return of_numpy(name, np.asarray(buffer), dtype, cast)


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


def of_numpy(name: str, array: NDArray[Any], dtype: DType, cast: str = "") -> Given:
    """An array of NumPy's, or over someone else's memory, where another call casts it."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{name}: expected an array without a mask; `.data` is one, and `~numpy.ma.getmaskarray(…)` says "
            "which of its elements to use, with their keys or values"
        )
    array = np.asarray(array)  # Not of a subclass, whose methods may be others.
    if array.shape == () and dtype.subdtype is None:
        return of_scalar(name, array[()], dtype)
    if dtype.base.kind in "Mm" and array.dtype.kind != "O":
        array = in_unit(name, array, dtype.base)
    if array.dtype != dtype.base:
        array = _converted(name, array, dtype, cast)
    if array.shape == dtype.shape:
        return of_scalar(name, array, dtype)
    return _of_array(name, check_shape(name, array, dtype), dtype)


def _of_array(name: str, array: NDArray[Any], dtype: DType) -> Given:
    """An array of the right type, moved to where it lies in order if it does not."""
    if not array.flags.c_contiguous or not array.flags.aligned:
        array = np.array(array, order="C")
    return Given(name, dtype, array, array.shape[0], NUMPY)


def _converted(name: str, array: NDArray[Any], dtype: DType, cast: str) -> NDArray[Any]:
    """An array of the same elements in another type; an error if one of them would not be the same."""
    to, kinds = dtype.base, (array.dtype.kind, dtype.base.kind)
    if array.dtype.newbyteorder("=") == to or (
        kinds[0] in "iufc" and _is_lossless(array.dtype, to)
    ):
        return array.astype(to)
    if kinds[0] in "iu" and kinds[1] in "iuf":
        return fitting(name, array, to)
    if kinds == ("S", "S"):
        lengths = np.char.str_len(array)
        if lengths.size and int(lengths.max()) > to.itemsize:
            at = int(np.argmax(lengths > to.itemsize))
            raise OutOfRangeError(
                f"{name}[{at}] has {int(lengths[at])} bytes: {describe(to)} holds {to.itemsize}"
            )
        return array.astype(to)
    raise _wrong_type(name, dtype, array, cast)


def _is_lossless(given: DType, to: DType) -> bool:
    """Whether every number of a type is one of another. (NumPy calls 64-bit integers safe as float64.)"""
    exceeds = given.kind in "iu" and to.kind in "fc" and given.itemsize >= to.itemsize
    return given.kind != "b" and not exceeds and np.can_cast(given, to, "safe")


def _cupy(name: str, array: Any, dtype: DType) -> Given:
    import cupy

    _check_no_times(name, "cupy", dtype)
    family = CuPy(array.device.id)
    if type(array) is not cupy.ndarray:
        with family.current():
            array = cupy.asarray(array)  # What a subclass makes of it is not relied on.
    if array.ndim == 0 and dtype.subdtype is None:
        return of_scalar(name, family.get(array)[()], dtype)
    kept = held(dtype)
    if array.dtype != kept.base:
        raise _wrong_type(name, kept, array, "")
    check_shape(name, array, kept)
    with family.current():
        if not array.flags.c_contiguous:
            array = array.copy()
        given = Given(name, dtype, array, array.shape[0], family)
        return given if _is_aligned(given) else given.with_array(array.copy())


def _torch(name: str, tensor: Any, dtype: DType) -> Given:
    import torch

    if type(tensor) is not torch.Tensor:
        with (
            torch._C.DisableTorchFunctionSubclass()
        ):  # What a subclass makes of it is not relied on.
            tensor = torch.Tensor.as_subclass(tensor, torch.Tensor)
    _check_no_times(name, "torch", dtype)
    if tensor.layout != torch.strided:
        raise TypeError(f"{name}: expected a dense tensor; `.to_dense()` makes one")
    family = torch_family(tensor)
    if tensor.dim() == 0 and dtype.subdtype is None:
        return of_scalar(name, tensor.item(), dtype)
    kept = held(dtype)
    wanted = torch_dtype(kept.base)
    if tensor.dtype != wanted:
        if family.place is not HOST or kept != dtype or tensor.dtype == torch.bfloat16:
            raise _wrong_tensor(name, kept, tensor)
        tensor = torch.from_numpy(_converted(name, tensor.numpy(force=True), dtype, ""))
    check_shape(name, tensor, kept)
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg().contiguous()
    read = Given(name, dtype, tensor, tensor.shape[0], family)
    return read if _is_aligned(read) else read.with_array(tensor.clone())


def _wrong_tensor(name: str, wanted: DType, tensor: Any) -> TypeError:
    """An error that says how to convert a tensor, where that loses nothing."""
    given = str(tensor.dtype).removeprefix("torch.")
    cure = ""
    if wanted.kind in "iu" and given.removeprefix("u").startswith("int"):
        cure = "; `.cpu()` of it is converted, if every element fits"
    elif wanted.kind == "f" and given in ("float16", "bfloat16", "float32"):
        cure = f"; `.to({torch_dtype(wanted.base)})` converts it"
    return TypeError(f"{name}: expected {describe(wanted)}, got {given}{cure}")


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
        int64 = cast.replace(to.name, "int64").replace(to.name.title(), "Int64")
        cure = _integers_or_not(name, array, f"`{int64}`")
    elif given.kind == "U" and to.kind == "S":
        cure = "; `numpy.char.encode(…, 'utf-8')` makes bytes of it"
    elif given.kind == "f" and to.kind == "f":
        cure = f"; `{cast}` rounds it"
    return TypeError(f"{name}: expected {wanted}, got {describe(given)}{cure}")


def _integers_or_not(name: str, array: NDArray[Any], cast: str) -> str:
    """Which of the floats is no integer, if any; how they are converted, so that each is checked."""
    flat = array.reshape(-1)
    broken = np.flatnonzero(~(np.isfinite(flat) & (flat == np.trunc(flat))))
    if len(broken):
        at = int(broken[0])
        if np.isnan(flat[at]):
            return f"; {name}[{at}] is nan: take what `numpy.isfinite(…)` says first"
        return f"; {name}[{at}] is {flat[at]}, which is no integer: round first"
    if not len(flat) or np.abs(flat).max() < 2.0**63:
        return (
            f"; all of them are integers: {cast} makes a column of them, and then each is checked"
        )
    return "; all of them are integers: `list(map(int, …))` makes a list of them, and then each is checked"
