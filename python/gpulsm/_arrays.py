"""Arrays that come in: whether each can be used as it is, and where it begins.

Nothing here copies an array. One that can't be used as it is, is an error that names the argument,
says what was expected, and which call makes it so. Only lists and scalars are converted.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._families import (
    HOST,
    NUMPY,
    CuPy,
    DType,
    Family,
    Place,
    Span,
    Torch,
    describe,
    is_of,
    torch_dtype,
)


class OutOfRange(ValueError):
    """A scalar that the type can't hold."""


@dataclass(slots=True)
class Given:
    """An argument: an array that was found usable, or one scalar (an array of one)."""

    name: str
    dtype: DType
    array: Any
    length: int
    family: Family
    is_scalar: bool = False

    @property
    def span(self) -> Span:
        """Where it begins and how many elements it has, as the native half wants it."""
        return self.family.address(self.array), self.length


def read(name: str, given: Any, dtype: DType) -> Given:
    """The argument `name`, if it is an array, or one scalar, of the type that is wanted."""
    if isinstance(given, np.ndarray):
        return _numpy(name, given, dtype)
    if is_of("torch", "Tensor", given):
        return _torch(name, given, dtype)
    if is_of("cupy", "ndarray", given):
        return _cupy(name, given, dtype)
    if _is_scalar(given, dtype):
        return _scalar(name, given, dtype)
    column = _column(name, given, dtype)
    if column is not None:
        cast, copy = _CURES[type(given).__module__.partition(".")[0]]
        return _numpy(name, column, dtype, cast, copy)
    if hasattr(given, "__cuda_array_interface__"):
        return read(name, _adopt(name, given), dtype)
    if hasattr(given, "__dlpack__"):
        shared = _of_dlpack(name, given)
        if isinstance(shared, np.ndarray):
            return _numpy(name, shared, dtype, copy="numpy.from_dlpack(…).copy()")
        return read(name, shared, dtype)
    if hasattr(given, "__array__"):
        return _numpy(name, np.asarray(given), dtype, copy="numpy.asarray(…).copy()")
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes, bytearray, memoryview)):
        return Given(name, dtype, _of_sequence(name, given, dtype), len(given), NUMPY)
    try:
        buffer = memoryview(given)
    except TypeError:
        wanted, kind = describe(dtype), type(given).__name__
        cure = "; `list(…)` makes a list of it" if isinstance(given, Iterable) else ""
        cure = "" if isinstance(given, str) else cure
        raise TypeError(f"{name}: expected {wanted}, or an array of it, got {kind}{cure}") from None
    return _numpy(name, np.asarray(buffer), dtype, copy="numpy.asarray(…).copy()")


def dtype_of(name: str, given: Any) -> DType:
    """The type of an array's elements, for a dictionary that is to be made of it."""
    if is_of("torch", "Tensor", given):
        base = np.dtype(str(given.dtype).removeprefix("torch."))
        return _with_shape(base, tuple(given.shape[1:]))
    column = _column(name, given, None)
    if column is not None:
        return _with_shape(column.dtype, column.shape[1:])
    if not hasattr(given, "dtype"):
        if hasattr(given, "__cuda_array_interface__"):
            return _dtype(given.__cuda_array_interface__["typestr"])
        if not isinstance(given, Sequence):
            raise TypeError(f"{name}: expected an array, got {type(given).__name__}")
        return _dtype_of_sequence(name, given)
    try:
        dtype = _dtype(given.dtype)
    except TypeError:
        raise TypeError(f"{name}: no dictionary holds {given.dtype}") from None
    return _with_shape(dtype, tuple(getattr(given, "shape", ()))[1:])


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
    except ValueError as error:
        raise TypeError(f"{name}: {error}") from None
    return _with_shape(array.dtype, array.shape[1:])


def place_of(given: Any) -> Place:
    """Where an array is, for a dictionary that is to be made of it."""
    if is_of("torch", "Tensor", given):
        return _torch_family(given).place
    if is_of("cupy", "ndarray", given):
        place: int = given.device.id
        return place
    if hasattr(given, "__cuda_array_interface__"):
        return place_of(_adopt("keys", given))
    if hasattr(given, "__dlpack_device__"):
        kind, number = given.__dlpack_device__()
        return int(number) if kind in _DLPACK_CUDA else HOST
    return HOST


def _of_sequence(name: str, given: Sequence[Any], dtype: DType) -> NDArray[Any]:
    """An array of a list's elements, each of which fits the type."""
    if not len(given):
        return np.empty((0, *dtype.shape), dtype.base)
    if dtype.base.kind in _NUMBERS:
        array = _numbers(name, given, dtype.base)
    else:
        array = _converted(name, given, dtype.base)
    return np.ascontiguousarray(_of_shape(name, array, dtype))


#: The kinds of numbers that a number of each kind may be made of.
_NUMBERS = {"i": "iu", "u": "iu", "f": "iuf"}


def _numbers(name: str, given: Sequence[Any], dtype: DType) -> NDArray[Any]:
    try:
        array = np.asarray(given)
    except ValueError as error:  # Of different lengths.
        raise TypeError(f"{name}: expected {describe(dtype)}: {error}") from None
    if array.dtype.kind not in _NUMBERS[dtype.kind] or bool in map(type, given):
        # Python's own integers may be longer than any of NumPy's.
        array = np.array(given, object)
        types = (int, np.integer) if dtype.kind in "iu" else (int, float, np.integer, np.floating)
        for index, item in enumerate(array.flat):
            if not isinstance(item, types) or isinstance(item, bool):
                kind = type(item).__name__
                raise TypeError(f"{name}[{index}] is of type {kind}: expected {describe(dtype)}")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    outside = (array < limits.min) | (array > limits.max)
    if dtype.kind == "f":
        outside &= np.abs(array) != np.inf
    if outside.any():
        index = int(np.flatnonzero(outside)[0])
        item = array.flat[index]
        raise ValueError(f"{name}[{index}] is {item}: {_limits(dtype)}")
    return array.astype(dtype)


def _converted(name: str, given: Any, dtype: DType) -> NDArray[Any]:
    """Anything but plain numbers, as NumPy converts it; texts must fit."""
    try:
        if dtype.kind in "SU" and np.asarray(given).dtype.itemsize > dtype.itemsize:
            raise ValueError(f"a text is longer than {dtype} holds")
        return np.array(given, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name}: expected {describe(dtype)}: {error}") from None


def _limits(dtype: DType) -> str:
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return f"{dtype.name} goes from {limits.min} to {limits.max}"


def _numpy(
    name: str, array: NDArray[Any], dtype: DType, cast: str = "astype", copy: str = ".copy()"
) -> Given:
    """An array of NumPy's, or over someone else's memory, where other calls `cast` and `copy` it."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name}: expected an array without a mask; `.compressed()` makes one")
    if array.shape == () and dtype.subdtype is None:
        return _scalar(name, array[()], dtype)
    if array.dtype != dtype.base:
        raise _wrong_type(name, dtype, array.dtype, cast)
    if array.shape == dtype.shape:
        return _scalar(name, array, dtype)
    _of_shape(name, array, dtype)
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{name}: expected a contiguous array; `numpy.ascontiguousarray` makes one"
        )
    if not array.flags.aligned:
        raise _not_aligned(name, copy)
    return Given(name, dtype, array, len(array), NUMPY)


def _cupy(name: str, array: Any, dtype: DType) -> Given:
    family = CuPy(array.device.id)
    if array.ndim == 0 and dtype.subdtype is None:
        return _scalar(name, family.get(array)[()], dtype)
    if array.dtype != dtype.base:
        raise _wrong_type(name, dtype, array.dtype, "astype")
    _of_shape(name, array, dtype)
    if not array.flags.c_contiguous:
        raise ValueError(f"{name}: expected a contiguous array; `cupy.ascontiguousarray` makes one")
    given = Given(name, dtype, array, len(array), family)
    if not _is_aligned(given):
        raise _not_aligned(name, ".copy()")
    return given


def _torch(name: str, tensor: Any, dtype: DType) -> Given:
    import torch

    if tensor.layout != torch.strided:
        raise TypeError(f"{name}: expected a dense tensor; `.to_dense()` makes one")
    family = _torch_family(tensor)
    if tensor.dim() == 0 and dtype.subdtype is None:
        return _scalar(name, tensor.item(), dtype)
    wanted = torch_dtype(dtype.base)
    if tensor.dtype != wanted:
        given = str(tensor.dtype).removeprefix("torch.")
        raise TypeError(
            f"{name}: expected {describe(dtype)}, got {given}; `.to({wanted})` converts it"
        )
    _of_shape(name, tensor, dtype)
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        raise ValueError(f"{name}: expected a contiguous tensor; `.contiguous()` makes one")
    read = Given(name, dtype, tensor, len(tensor), family)
    if not _is_aligned(read):
        raise _not_aligned(name, ".clone()")
    return read


def _torch_family(tensor: Any) -> Torch:
    kind = tensor.device.type
    if kind not in ("cpu", "cuda"):
        raise ValueError(
            f"{kind} tensors can't be read: expected one on the CPU or on a CUDA device"
        )
    return Torch(tensor.device, tensor.get_device() if kind == "cuda" else HOST)


def _is_aligned(given: Given) -> bool:
    """Whether the elements can be read where they are. A GPU reads each whole; on the host, one of
    several numbers is read number by number."""
    address, length = given.span
    on_host = given.family.place is HOST
    to = given.dtype.base.alignment if on_host else given.dtype.itemsize
    return length == 0 or address % to == 0


def _not_aligned(name: str, copy: str) -> ValueError:
    return ValueError(f"{name}: expected aligned elements; `{copy}` makes them so")


#: What one element may be, by the kind of its type; NumPy's own scalars always may.
_SCALARS: dict[str, tuple[type, ...]] = {
    "c": (int, float, complex),
    "M": (datetime.date, str),
    "m": (datetime.timedelta,),
    "S": (bytes,),
    "U": (str,),
    "V": (bytes, tuple),
}


def _is_scalar(given: Any, dtype: DType) -> bool:
    if isinstance(given, (list, tuple)) and dtype.subdtype is not None:
        return np.shape(given) == dtype.shape
    return isinstance(given, (np.generic, *_SCALARS.get(dtype.base.kind, (int, float, complex))))


def _scalar(name: str, given: Any, dtype: DType) -> Given:
    base = dtype.base
    if base.kind in _NUMBERS and not isinstance(given, (list, tuple, np.ndarray)):
        _check_number(name, given, base)
    elif base.kind not in _NUMBERS:
        given = _converted(name, given, base)
    try:
        array = NUMPY.full(1, dtype, given)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name}: expected {describe(dtype)}: {error}") from None
    return Given(name, dtype, array, 1, NUMPY, is_scalar=True)


def _check_number(name: str, given: Any, dtype: DType) -> None:
    integer = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if not integer and not (dtype.kind == "f" and isinstance(given, (float, np.floating))):
        kind = type(given).__name__
        raise TypeError(f"{name}: expected {describe(dtype)}, got {kind} {given!r}")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    number = int(given) if integer else float(given)
    if number != number or abs(number) == float("inf"):
        return
    if not int(limits.min) <= number <= int(limits.max):
        raise OutOfRange(f"{name} is {given}: {_limits(dtype)}")


def _wrong_type(name: str, dtype: DType, given: DType, cast: str) -> TypeError:
    """An error that says how to convert an array, where that loses nothing, or may lose nothing."""
    wanted, to = describe(dtype), dtype.base
    cure = ""
    if given.kind == "M" and to == np.int64:
        cure = "; `.astype('datetime64[ns]').astype('int64')` makes nanoseconds of times"
    elif given.kind in "iuf" and to.kind in _NUMBERS and given.kind in _NUMBERS[to.kind]:
        exactly = "" if np.can_cast(given, to, "safe") else ", if every element fits"
        cure = f"; `.{cast}({to.name!r})` converts it{exactly}"
    return TypeError(f"{name}: expected {wanted}, got {describe(given)}{cure}")


def _of_shape(name: str, array: Any, dtype: DType) -> Any:
    shape = tuple(array.shape)
    if len(shape) != 1 + len(dtype.shape) or shape[1:] != dtype.shape:
        wanted = ", ".join(["n", *map(str, dtype.shape)]) + ("" if dtype.shape else ",")
        raise ValueError(f"{name}: expected an array of shape ({wanted}), got one of shape {shape}")
    return array


def _dtype(given: Any) -> DType:
    dtype: DType = np.dtype(given)
    return dtype


def _with_shape(dtype: DType, shape: tuple[int, ...]) -> DType:
    return np.dtype((dtype, shape)) if shape else dtype


#: How each library converts a column, and how one is copied to aligned memory.
_CURES = {
    "pandas": ("astype", ".copy()"),
    "pyarrow": ("cast", "numpy.asarray(…).copy()"),
    "polars": ("cast", "numpy.asarray(…).copy()"),
}


def _column(name: str, given: Any, dtype: DType | None) -> NDArray[Any] | None:
    """A column of a table, over its own buffer where it has one; None if this is no column."""
    if is_of("pandas", "Series", given) or is_of("pandas", "Index", given):
        return _of_pandas(name, given)
    if is_of("pyarrow", "Array", given) or is_of("pyarrow", "ChunkedArray", given):
        return _of_arrow(name, given, dtype)
    if is_of("polars", "Series", given):
        if given.null_count():
            raise ValueError(f"{name}: expected no nulls; `.drop_nulls()` removes them")
        return np.asarray(given.to_numpy())
    return None


def _of_pandas(name: str, series: Any) -> NDArray[Any]:
    is_plain = isinstance(series.dtype, np.dtype)
    # In an array of NumPy's a NaN is a number; in one of pandas's own a missing value is none.
    if series.hasnans and not (is_plain and series.dtype.kind == "f"):
        raise ValueError(f"{name}: expected no missing values; `.dropna()` removes them")
    if is_plain:
        return np.asarray(series)
    # Types of pandas's own, over NumPy's or Arrow's buffers.
    base = getattr(series.dtype, "numpy_dtype", None)
    return np.asarray(series.to_numpy(dtype=base) if base is not None else series.to_numpy())


def _of_arrow(name: str, array: Any, dtype: DType | None) -> NDArray[Any]:
    import pyarrow

    if array.null_count:
        raise ValueError(f"{name}: expected no nulls; `.drop_null()` removes them")
    if isinstance(array, pyarrow.ChunkedArray):
        # One chunk stays where it is; several are put together.
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array.type, pyarrow.FixedSizeListType):
        items = array.flatten().to_numpy(zero_copy_only=True)
        return np.asarray(items.reshape(len(array), array.type.list_size))
    if isinstance(array.type, pyarrow.FixedSizeBinaryType):
        width = array.type.byte_width
        as_bytes: DType = (
            dtype if dtype is not None and dtype.itemsize == width else np.dtype(f"V{width}")
        )
        return np.frombuffer(array.buffers()[1], as_bytes, len(array), array.offset * width)
    try:
        return np.asarray(array.to_numpy(zero_copy_only=True))
    except pyarrow.ArrowInvalid:
        wanted = "numbers" if dtype is None else describe(dtype)
        raise TypeError(f"{name}: expected {wanted}, got {array.type}") from None


#: DLPack's numbers for kinds of memory: what the host can read, and what a GPU has.
_DLPACK_HOST = (1, 3)  # The CPU's; the CPU's, pinned for CUDA.
_DLPACK_CUDA = (2, 13)  # A GPU's; managed by CUDA.


def _of_dlpack(name: str, given: Any) -> Any:
    kind, _ = given.__dlpack_device__()
    if kind in _DLPACK_HOST:
        return np.from_dlpack(given)
    if kind in _DLPACK_CUDA:
        # Both make the array's own GPU wait for it, whichever is the current one.
        return _gpu_library(name, given).from_dlpack(given)
    raise ValueError(f"{name}: expected an array on the CPU or on a CUDA device")


def _adopt(name: str, given: Any) -> Any:
    """Someone else's array on a GPU, which speaks CUDA's array interface, as CuPy's or PyTorch's.

    Both copy an array to the current GPU if it is on another: its own is made current.
    """
    library = _gpu_library(name, given)
    interface = given.__cuda_array_interface__
    address: int = interface["data"][0]
    if library.__name__ == "cupy":
        if not address:  # An empty array: it is nowhere.
            return library.asarray(given)
        with library.cuda.UnownedMemory(address, 0, given).device:
            return library.asarray(given)
    # PyTorch does not say where memory is: it is where adopting it makes no copy.
    here = library.cuda.current_device()
    for number in (here, *(n for n in range(library.cuda.device_count()) if n != here)):
        with library.cuda.device(number):
            tensor = library.as_tensor(given, device="cuda")
        if tensor.data_ptr() == address or not tensor.numel():
            if interface.get("stream") is not None:
                # The interface asks to wait for this stream. CuPy does, PyTorch does not.
                library.cuda.synchronize(tensor.device)
            return tensor
    raise ValueError(f"{name}: expected an array on a CUDA device")


def _gpu_library(name: str, given: Any) -> Any:
    """CuPy or PyTorch, whichever is there."""
    try:
        import cupy

        return cupy
    except ImportError:
        pass
    try:
        import torch

        return torch
    except ImportError:
        kind = type(given).__name__
        raise TypeError(
            f"{name}: a {kind} on a GPU is read through CuPy or torch; install one"
        ) from None
