"""A dynamic, ordered dictionary on GPUs and CPUs: arrays in, arrays out.

>>> import gpulsm
>>> import numpy as np
>>> d = gpulsm.Dictionary(key="uint32", value="uint32")
>>> d.insert(np.array([30, 10, 20], np.uint32), np.array([3, 1, 2], np.uint32))
>>> values, found = d.lookup(np.array([10, 15], np.uint32))
>>> values.tolist(), found.tolist()
([1, 0], [True, False])
>>> d.count(0, 25)
2

Arrays may be NumPy's, CuPy's or PyTorch's, or of anything that speaks `__dlpack__`,
`__cuda_array_interface__` or the buffer protocol, and come in without a copy; answers come back in the
family of the question.
"""

import atexit as _atexit
import os as _os

from gpulsm._devices import best_device, devices
from gpulsm._dictionary import Dictionary
from gpulsm._errors import (
    CorruptFile,
    CudaError,
    DuplicateKeyError,
    Error,
    ForkError,
    InternalError,
    Locked,
    OutOfMemoryError,
    OutOfRangeError,
    ThreadsError,
    UpdatesRefused,
)
from gpulsm._imports import Imported
from gpulsm._native import BUILT_WITH_CUDA
from gpulsm._native import VERSION as __version__
from gpulsm._native import after_fork as _after_fork
from gpulsm._native import at_exit as _at_exit
from gpulsm._opening import FileInfo, check, info, open
from gpulsm._set import Set
from gpulsm._snapshot import SetSnapshot, Snapshot
from gpulsm._stats import Holders, LevelStats, MemoryStats, Stats

__all__ = [
    "BUILT_WITH_CUDA",
    "CorruptFile",
    "CudaError",
    "Dictionary",
    "DuplicateKeyError",
    "Error",
    "FileInfo",
    "ForkError",
    "Holders",
    "Imported",
    "InternalError",
    "LevelStats",
    "Locked",
    "MemoryStats",
    "OutOfMemoryError",
    "OutOfRangeError",
    "Set",
    "SetSnapshot",
    "Snapshot",
    "Stats",
    "ThreadsError",
    "UpdatesRefused",
    "__version__",
    "best_device",
    "check",
    "devices",
    "info",
    "open",
]

_atexit.register(_at_exit)
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_after_fork)
