"""Families of arrays: NumPy's, CuPy's, PyTorch's. Answers come back in the family of the question."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpulsm._native import address_of

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

    def current(self) -> AbstractContextManager[Any]:
        """A context in which operators and methods of the arrays work where the arrays are."""

    def of_host(self, array: NDArray[Any]) -> Any:
        """A copy of a NumPy array."""

    def to_host(self, array: Any) -> NDArray[Any]:
        """A NumPy array of the same elements."""

    def integers(self, array: Any) -> Any:
        """The bits of an array of numbers of 4 or 8 bytes, over the same memory, as signed integers."""

    def flipped(self, array: Any) -> Any:
        """A copy with the elements in reverse order."""

    def order(self, integers: Any) -> Any:
        """The positions of signed integers in ascending order; of equal ones, the first one first."""

    def replace_missing(self, values: Any, found: Any, item: NDArray[Any]) -> None:
        """Writes the only element of `item` to `values` wherever `found` is false."""


#: Signed integers of each width.
INTEGERS: dict[int, DType] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


#: Integers of 16 bytes, of which NumPy has none. Native code wants each of them at a multiple of 16.
WIDE: DType = np.dtype("V16")


def held(dtype: DType) -> DType:
    """The type of the arrays that hold elements of a type in libraries that have fewer types than NumPy: bytes
    are rows of uint8, and integers of 16 bytes rows of two halves."""
    if dtype == WIDE:
        return np.dtype((np.int64, (2,)))
    return np.dtype((np.uint8, (dtype.itemsize,))) if dtype.kind == "S" else dtype


class NumPy:
    """Arrays of the host's memory."""

    name = "NumPy"
    place = HOST

    def empty(self, length: int, dtype: DType) -> NDArray[Any]:
        if dtype != WIDE:
            return np.empty(length, dtype)
        raw = np.empty(16 * length + 15, np.uint8)
        start = -self.address(raw) % 16
        return raw[start : start + 16 * length].view(WIDE)

    def zeros(self, length: int, dtype: DType) -> NDArray[Any]:
        return np.zeros(length, dtype)

    def full(self, length: int, dtype: DType, item: Any) -> NDArray[Any]:
        array = self.empty(length, dtype)
        array[...] = item
        return array

    def address(self, array: Any) -> int:
        return address_of(array)

    def stream(self) -> int | None:
        return None

    def current(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def of_host(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()

    def to_host(self, array: Any) -> NDArray[Any]:
        return np.asarray(array)

    def integers(self, array: Any) -> NDArray[Any]:
        return np.asarray(array).view(INTEGERS[array.dtype.itemsize])

    def flipped(self, array: Any) -> NDArray[Any]:
        flipped = self.empty(len(array), np.dtype((array.dtype, array.shape[1:])))
        flipped[...] = array[::-1]
        return flipped

    def order(self, integers: Any) -> NDArray[Any]:
        return np.argsort(integers, kind="stable")

    def replace_missing(self, values: Any, found: Any, item: NDArray[Any]) -> None:
        values[~found] = item[0]


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

        array, kept = self.empty(length, dtype), held(dtype)
        if kept != dtype:
            item = NUMPY.full(1, dtype, item).view(kept.base).reshape(kept.shape)
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

    def current(self) -> AbstractContextManager[Any]:
        import cupy

        device: AbstractContextManager[Any] = cupy.cuda.Device(self.place)
        return device

    def of_host(self, array: NDArray[Any]) -> Any:
        import cupy

        with self.current():
            return cupy.asarray(array)

    def to_host(self, array: Any) -> NDArray[Any]:
        return self.get(array)

    def integers(self, array: Any) -> Any:
        return array.view(INTEGERS[array.dtype.itemsize])

    def flipped(self, array: Any) -> Any:
        import cupy

        with self.current():
            return cupy.ascontiguousarray(array[::-1])

    def order(self, integers: Any) -> Any:
        import cupy

        with self.current():
            return cupy.argsort(integers)  # CuPy's sorts are stable.

    def replace_missing(self, values: Any, found: Any, item: NDArray[Any]) -> None:
        if not len(values):
            return
        import cupy

        with self.current():
            # Bits, whatever they mean: CuPy can't choose among structures.
            bits = values.reshape(len(values), -1).view(np.int32)
            one = cupy.asarray(item.reshape(-1).view(np.int32))
            bits[...] = cupy.where(found[:, None], bits, one)

    def _make(self, how: str, length: int, dtype: DType) -> Any:
        import cupy

        kept = held(dtype)
        try:
            with cupy.cuda.Device(self.place):
                return getattr(cupy, how)((length, *kept.shape), kept.base)
        except (TypeError, ValueError) as error:
            raise TypeError(f"CuPy has no arrays of {dtype}: give NumPy arrays") from error


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

        kept = torch_dtype(held(dtype).base)
        words = NUMPY.full(1, dtype, item).view(np.uint8)
        if dtype.itemsize % 4 == 0:
            words = words.view(np.int32)
        rows = torch.empty((length, words.size), dtype=torch_dtype(words.dtype), device=self.device)
        for at, word in enumerate(words.reshape(-1).tolist()):
            rows[:, at].fill_(word)  # A copy from the host would wait for the stream.
        return rows.view(kept).reshape(length, *held(dtype).shape)

    def address(self, array: Any) -> int:
        address: int = array.data_ptr()
        return address

    def stream(self) -> int | None:
        if self.place is HOST:
            return None
        import torch

        stream = torch.cuda.current_stream(self.place)
        return _known_stream(stream.cuda_stream, stream.synchronize)

    def current(self) -> AbstractContextManager[Any]:
        return nullcontext()  # PyTorch goes by its arguments.

    def of_host(self, array: NDArray[Any]) -> Any:
        import torch

        return torch.from_numpy(array).to(self.device, copy=True)

    def to_host(self, array: Any) -> NDArray[Any]:
        host: NDArray[Any] = array.cpu().numpy()
        return host

    def integers(self, array: Any) -> Any:
        # Of unsigned integers PyTorch can do little else.
        return array.view(torch_dtype(INTEGERS[array.element_size()]))

    def flipped(self, array: Any) -> Any:
        if not str(array.dtype).startswith("torch.uint"):
            return array.flip(0)
        import torch

        signed = array.view(getattr(torch, str(array.dtype).removeprefix("torch.u")))
        return signed.flip(0).view(array.dtype)

    def order(self, integers: Any) -> Any:
        return integers.argsort(stable=True)

    def replace_missing(self, values: Any, found: Any, item: NDArray[Any]) -> None:
        if not len(values):
            return
        import torch

        # Bits, whatever they mean: PyTorch can't choose among numbers of every type.
        bits = values.reshape(len(values), -1).view(torch.int32)
        one = torch.from_numpy(item.reshape(-1).view(np.int32)).to(self.device)
        bits.copy_(torch.where(found[:, None], bits, one))

    def _make(self, how: str, length: int, dtype: DType) -> Any:
        import torch

        kept = held(dtype)
        return getattr(torch, how)(
            (length, *kept.shape), dtype=torch_dtype(kept.base), device=self.device
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
        raise TypeError(f"torch has no tensors of {dtype}: give NumPy arrays")
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
    return (
        dtype.name if dtype.isbuiltin == 1 and dtype.kind not in "SUV" else str(dtype).lstrip("|")
    )


def is_of(module: str, kind: str, given: Any) -> bool:
    """Whether this is an array of a library, without importing that library to find out."""
    loaded = sys.modules.get(module)
    found = getattr(loaded, kind, None)
    return isinstance(found, type) and isinstance(given, found)
