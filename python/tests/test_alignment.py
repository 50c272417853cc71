"""Elements that are not where their type wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpulsm


def unaligned(dtype: Any, length: int = 4) -> Any:
    """Zeros in memory that begins where no element should."""
    size = np.dtype(dtype).itemsize * length
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64 + 1
    return raw[start : start + size].view(dtype)


class Lends:
    """An array that only speaks DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Converts:
    """An array that only speaks NumPy's `__array__`."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


def _arrow(array: Any) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    buffers = [None, pyarrow.py_buffer(array.view(np.uint8))]
    return pyarrow.Array.from_buffers(pyarrow.int64(), len(array), buffers)


def _torch(array: Any) -> Any:
    return pytest.importorskip("torch").from_numpy(array)


UNALIGNED: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda array: array,
    "torch": _torch,
    "dlpack": Lends,
    "memoryview": memoryview,
    "__array__": Converts,
    "pyarrow": _arrow,
    "pyarrow chunks": lambda array: pytest.importorskip("pyarrow").chunked_array([_arrow(array)]),
    "pandas": lambda array: pytest.importorskip("pandas").Series(array, copy=False),
}


@pytest.mark.parametrize("make", UNALIGNED.values(), ids=UNALIGNED)
def test_elements_that_are_not_aligned_are_moved(make: Callable[[Any], Any], device: str) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    array = unaligned(np.int64)
    array[:] = [5, -7, 9, 1 << 40]
    given = make(array)
    d.insert(given, given)
    assert d.keys().tolist() == d.values().tolist() == [-7, 5, 9, 1 << 40]
    assert np.asarray(d.lookup(given)[1]).all() and np.asarray(d.rank(given)).tolist() == [
        1,
        0,
        2,
        3,
    ]
    d.delete(given)
    assert len(d) == 0


def test_a_tensor_over_someone_elses_bytes_is_checked_for_alignment(device: str) -> None:
    torch = pytest.importorskip("torch")
    d = gpulsm.Dictionary("int64", "int64", device=device)
    raw = bytearray(64)
    aligned, shifted = (
        torch.frombuffer(raw, dtype=torch.int64, count=7, offset=at) for at in (0, 4)
    )
    if aligned.data_ptr() % 8:
        pytest.skip("the bytes themselves are not aligned")
    assert not d.lookup(aligned)[1].any()
    assert not d.lookup(shifted)[1].any()
    assert len(d.lookup(shifted[:0])[1]) == 0  # Without an element nothing is out of place.
