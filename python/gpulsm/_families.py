"""Families of arrays: NumPy's, CuPy's, PyTorch's. Answers come back in the family of the question."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

DType = np.dtype[Any]

#: Where elements begin, and how many there are.
Span = tuple[int, int]

#: Where an array is: the host's memory, or a GPU's, by its number.
Place = int | None
HOST: Place = None

#: CUDA's names for its default streams: the one of all threads, and the one that each thread has.
DEFAULT_STREAM, PER_THREAD_STREAM = 0, 2


class Family(Protocol):
    """How one library makes and shows arrays."""

    @property
    def name(self) -> str:
        """The library."""

    @property
    def place(self) -> Place:
        """Where the arrays are."""

    def empty(self, length: int, dtype: DType) -> Any:
        """An array of `length` elements, whatever they are."""

    def zeros(self, length: int, dtype: DType) -> Any:
        """An array of `length` zeros."""

    def full(self, length: int, dtype: DType, item: Any) -> Any:
        """An array of `length` times the same."""

    def address(self, array: Any) -> int:
        """Where the array's elements begin."""

    def stream(self) -> int | None:
        """The caller's current stream, in whose order arrays are used; none on the host."""


class NumPy:
    """Arrays of the host's memory."""

    name = "NumPy"
    place = HOST

    def empty(self, length: int, dtype: DType) -> NDArray[Any]:
        return np.empty(length, dtype)

    def zeros(self, length: int, dtype: DType) -> NDArray[Any]:
        return np.zeros(length, dtype)

    def full(self, length: int, dtype: DType, item: Any) -> NDArray[Any]:
        array = np.empty(length, dtype)
        array[...] = item
        return array

    def address(self, array: Any) -> int:
        address: int = array.__array_interface__["data"][0]
        return address

    def stream(self) -> int | None:
        return None


NUMPY = NumPy()


@dataclass(slots=True)
class CuPy:
    """Arrays of a GPU's memory, as CuPy keeps them.

    CuPy allocates, fills and reads on the current GPU and its current stream, which may be another than
    that of the arrays: every step here makes theirs current first. (PyTorch goes by its arguments.)
    """

    place: int
    name = "CuPy"

    def empty(self, length: int, dtype: DType) -> Any:
        return self._make("empty", length, dtype)

    def zeros(self, length: int, dtype: DType) -> Any:
        return self._make("zeros", length, dtype)

    def full(self, length: int, dtype: DType, item: Any) -> Any:
        import cupy

        array = self.empty(length, dtype)
        with cupy.cuda.Device(self.place):
            array[...] = cupy.asarray(item)
        return array

    def get(self, array: Any) -> NDArray[Any]:
        """Returns a copy on the host, once what the GPU's current stream does to the array is done."""
        import cupy

        with cupy.cuda.Device(self.place):
            copy: NDArray[Any] = array.get()
        return copy

    def address(self, array: Any) -> int:
        address: int = array.data.ptr
        return address

    def stream(self) -> int | None:
        import cupy

        # A thread's own default stream has the same name on every GPU, and means that of the current one.
        with cupy.cuda.Device(self.place):
            stream = cupy.cuda.get_current_stream(self.place)
            return _known_stream(stream.ptr, stream.synchronize)

    def _make(self, how: str, length: int, dtype: DType) -> Any:
        import cupy

        try:
            with cupy.cuda.Device(self.place):
                return getattr(cupy, how)((length, *dtype.shape), dtype.base)
        except (TypeError, ValueError) as error:
            raise TypeError(f"CuPy has no arrays of {dtype}: ask with NumPy arrays") from error


@dataclass(slots=True)
class Torch:
    """PyTorch's tensors, on the host or a GPU."""

    device: Any
    place: Place
    name = "torch"

    def empty(self, length: int, dtype: DType) -> Any:
        return self._make("empty", length, dtype)

    def zeros(self, length: int, dtype: DType) -> Any:
        return self._make("zeros", length, dtype)

    def full(self, length: int, dtype: DType, item: Any) -> Any:
        import torch

        one = torch.from_numpy(NUMPY.full(1, dtype, item)).to(self.device)
        return one.expand(length, *dtype.shape).contiguous()

    def address(self, array: Any) -> int:
        address: int = array.data_ptr()
        return address

    def stream(self) -> int | None:
        if self.place is HOST:
            return None
        import torch

        stream = torch.cuda.current_stream(self.place)
        return _known_stream(stream.cuda_stream, stream.synchronize)

    def _make(self, how: str, length: int, dtype: DType) -> Any:
        import torch

        return getattr(torch, how)(
            (length, *dtype.shape), dtype=torch_dtype(dtype.base), device=self.device
        )


def _known_stream(pointer: int, synchronize: Any) -> int:
    """The stream as the native half takes it. A thread's own default stream has no name that others
    could wait for: it is waited for here, and stands in line behind the default stream of all."""
    if pointer != PER_THREAD_STREAM:
        return pointer
    synchronize()
    return DEFAULT_STREAM


@cache
def torch_dtype(dtype: DType) -> Any:
    """PyTorch's name for a type."""
    import torch

    found = getattr(torch, dtype.name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"torch has no tensors of {dtype}: ask with NumPy arrays")
    return found


def like(family: Any, place: Place) -> Family:
    """The family that an argument `like` names: by its name, or by an array of it."""
    if isinstance(family, np.ndarray):
        family = "numpy"
    elif is_of("torch", "Tensor", family):
        family = "torch"
    elif is_of("cupy", "ndarray", family):
        family = "cupy"
    if family is None:
        return NUMPY
    if not isinstance(family, str) or family not in ("numpy", "cupy", "torch"):
        what = repr(family) if isinstance(family, str) else type(family).__name__
        raise ValueError(
            f"like: expected 'numpy', 'cupy', 'torch' or an array of those, got {what}"
        )
    if family == "numpy":
        return NUMPY
    if family == "torch":
        return Torch("cpu" if place is HOST else f"cuda:{place}", place)
    if place is None:
        raise ValueError("like: CuPy arrays are on a GPU, and this dictionary is on the CPU")
    return CuPy(place)


def describe(dtype: DType) -> str:
    """A type as messages and programs name it."""
    if dtype.subdtype is not None:
        return f"{dtype.base.name} of shape {dtype.shape}"
    return dtype.name if dtype.isbuiltin == 1 and dtype.kind not in "SUV" else str(dtype)


def is_of(module: str, kind: str, given: Any) -> bool:
    """Whether this is an array of a library, without importing that library to find out."""
    loaded = sys.modules.get(module)
    found = getattr(loaded, kind, None)
    return isinstance(found, type) and isinstance(given, found)
