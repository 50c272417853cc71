"""Every family of arrays that is installed here, as tests use it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Family:
    """A library of arrays: how tests make one of a NumPy array, and read one back."""

    name: str
    module: str
    on_gpu: bool
    make: Callable[[Any], Any]
    read: Callable[[Any], Any]
    kind: Callable[[], type]

    def is_usable(self, device: str) -> bool:
        """Whether the library is there, and the dictionary's device can reach its arrays."""
        if self.on_gpu and "cuda" not in device:
            return False
        try:
            importlib.import_module(self.module)
        except ImportError:
            return False
        return True

    def holds(self, dtype: Any) -> bool:
        """Whether the library has arrays of a type."""
        try:
            self.make(np.zeros(1, dtype))
        except (TypeError, ValueError, AttributeError):
            return False
        return True


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _torch(array: Any) -> Any:
    return _module("torch").from_numpy(np.ascontiguousarray(array))


FAMILIES = [
    Family("numpy", "numpy", False, np.asarray, np.asarray, lambda: np.ndarray),
    Family(
        "torch-cpu", "torch", False, _torch, lambda t: t.numpy(), lambda: _module("torch").Tensor
    ),
    Family(
        "cupy",
        "cupy",
        True,
        lambda array: _module("cupy").asarray(array),
        lambda array: array.get(),
        lambda: _module("cupy").ndarray,
    ),
    Family(
        "torch-cuda",
        "torch",
        True,
        lambda array: _torch(array).cuda(),
        lambda tensor: tensor.cpu().numpy(),
        lambda: _module("torch").Tensor,
    ),
]
