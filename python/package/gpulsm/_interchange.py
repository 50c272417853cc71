"""Arrays of other libraries on a GPU, which CuPy or PyTorch read for us."""

from __future__ import annotations

from typing import Any

import numpy as np

#: DLPack's numbers for kinds of memory: what the host can read, and what a GPU has.
_DLPACK_HOST = (1, 3)  # The CPU's; the CPU's, pinned for CUDA.
DLPACK_CUDA = (2, 13)  # A GPU's; managed by CUDA.


def of_dlpack(name: str, given: Any) -> Any:
    """An array that speaks DLPack, as NumPy's, CuPy's or PyTorch's."""
    kind, _ = given.__dlpack_device__()
    if kind in _DLPACK_HOST:
        return np.from_dlpack(given)
    if kind in DLPACK_CUDA:
        # Both make the array's own GPU wait for it, whichever is the current one.
        return _gpu_library(name, given).from_dlpack(given)
    raise ValueError(f"{name}: expected an array on the CPU or on a CUDA device")


def adopt(name: str, given: Any) -> Any:
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
