"""Arrays in the memory of a GPU as arguments: they go through the host, and answers come back to where they were.

PyTorch's tensors become tensors of the host, which the methods of a dictionary take as they are; CuPy's arrays become
NumPy's. So types are checked, and answers made, as for arrays of the host.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

import numpy as np

from gpulsm._families import is_of
from gpulsm._interchange import DLPACK_CUDA, adopt, of_dlpack

#: The methods whose arguments may be arrays.
_METHODS = (
    *("insert", "set", "add", "delete", "update", "delete_range"),
    *("lookup", "contains", "rank", "successor", "predecessor", "select", "asof"),
    *("count", "range", "prefix_range", "sum", "min", "max"),
)

T = TypeVar("T", bound=type)


class Home(Protocol):
    """Where the arrays of a call are, and how they are copied to the host and back."""

    def to_host(self, array: Any) -> Any:
        """A copy on the host."""

    def of_host(self, array: Any) -> Any:
        """A copy of an array of the host."""

    def write(self, out: Any, array: Any) -> None:
        """Copies an array of the host to the caller's."""


class TorchHome:
    """A device of PyTorch's."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def to_host(self, array: Any) -> Any:
        return array.cpu()

    def of_host(self, array: Any) -> Any:
        if isinstance(array, np.ndarray):  # Of offsets, for which the question had no array.
            import torch

            array = torch.from_numpy(array)
        return array.to(self._device) if is_of("torch", "Tensor", array) else array

    def write(self, out: Any, array: Any) -> None:
        out.copy_(array)


class CuPyHome:
    """A GPU of CuPy's, which has no arrays of bytes: rows of uint8 stand for them."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def to_host(self, array: Any) -> Any:
        with self._device:
            host = array.get()
        is_bytes = host.dtype == np.uint8 and host.ndim == 2
        return host.view(f"S{host.shape[1]}").reshape(-1) if is_bytes else host

    def of_host(self, array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return array
        import cupy

        if array.dtype.kind == "S":
            array = array.view(np.uint8).reshape(len(array), -1)
        with self._device:
            return cupy.asarray(array)

    def write(self, out: Any, array: Any) -> None:
        with self._device:
            out.set(array.reshape(out.shape) if array.dtype.kind != "S" else array.view(np.uint8))


def on_any_device(dictionary: T) -> T:
    """Lets the methods of a class take arrays of GPUs."""
    for name in _METHODS:
        if hasattr(dictionary, name):
            setattr(dictionary, name, _through_host(getattr(dictionary, name)))
    return dictionary


def _through_host(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        home = _home((*arguments, *named.values()))
        if home is None:
            return method(self, *arguments, **named)
        out = named.get("out")
        hosted = [_each(_hosted, one) for one in arguments]
        answer = method(self, *hosted, **{name: _each(_hosted, one) for name, one in named.items()})
        if out is None:
            return _each(home.of_host, answer)
        _write(home, out, answer)
        return out

    return call


def _write(home: Home, out: Any, answer: Any) -> None:
    """Copies answers to the caller's arrays."""
    if isinstance(out, tuple):
        for own, array in zip(out, answer, strict=True):
            _write(home, own, array)
    elif out is not None:
        home.write(out, answer)


def _home(arguments: tuple[Any, ...]) -> Home | None:
    """Where the first array is that is not on the host; None if all are."""
    for one in arguments:
        home = _home(one) if isinstance(one, tuple) else _home_of(one)
        if home is not None:
            return home
    return None


def _home_of(one: Any) -> Home | None:
    """Where an array of a GPU is; None for whatever else."""
    if isinstance(one, (np.ndarray, int, float, str, list)) or one is None:
        return None
    one = _adopted(one)
    if is_of("torch", "Tensor", one):
        return TorchHome(one.device) if is_elsewhere(one) else None
    return CuPyHome(one.device) if is_of("cupy", "ndarray", one) else None


def is_elsewhere(tensor: Any) -> bool:
    """Whether a tensor is not on the host."""
    return bool(tensor.device.type != "cpu")


def _hosted(one: Any) -> Any:
    """An array on the host; whatever is none, or is there, as it is."""
    home = _home_of(one)
    return one if home is None else home.to_host(_adopted(one))


def _adopted(one: Any) -> Any:
    """An array of another library on a GPU, as CuPy's or PyTorch's."""
    if is_of("torch", "Tensor", one) or is_of("cupy", "ndarray", one):
        return one
    if hasattr(one, "__cuda_array_interface__"):
        return adopt("array", one)
    if hasattr(one, "__dlpack_device__") and one.__dlpack_device__()[0] in DLPACK_CUDA:
        return of_dlpack("array", one)
    return one


def _each(change: Callable[[Any], Any], arrays: Any) -> Any:
    """The same for each array of a tuple, or for one."""
    if isinstance(arrays, tuple):
        return tuple(_each(change, array) for array in arrays)
    return change(arrays)
