"""Elements that are not where their type wants them."""

from __future__ import annotations

import re
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


def _numpy_copy(given: Any) -> Any:
    return np.asarray(given).copy()


UNALIGNED: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any], str]] = [
    ("numpy", lambda array: array, lambda array: array.copy(), ".copy()"),
    ("torch", _torch, lambda tensor: tensor.clone(), ".clone()"),
    ("dlpack", Lends, lambda array: np.from_dlpack(array).copy(), "numpy.from_dlpack(…).copy()"),
    ("memoryview", memoryview, _numpy_copy, "numpy.asarray(…).copy()"),
    ("__array__", Converts, _numpy_copy, "numpy.asarray(…).copy()"),
    ("pyarrow", _arrow, _numpy_copy, "numpy.asarray(…).copy()"),
    (
        "pyarrow chunks",
        lambda array: pytest.importorskip("pyarrow").chunked_array([_arrow(array)]),
        _numpy_copy,
        "numpy.asarray(…).copy()",
    ),
    (
        "pandas",
        lambda array: pytest.importorskip("pandas").Series(array, copy=False),
        lambda series: series.copy(),
        ".copy()",
    ),
]


@pytest.mark.parametrize(
    ("make", "cure", "named"), [row[1:] for row in UNALIGNED], ids=[row[0] for row in UNALIGNED]
)
def test_elements_that_are_not_aligned_are_refused_with_a_cure_that_works(
    make: Callable[[Any], Any], cure: Callable[[Any], Any], named: str, device: str
) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    array = make(unaligned(np.int64))
    text = re.escape(f"keys: expected aligned elements; `{named}` makes them so")
    for call in (d.lookup, d.delete, lambda keys: d.insert(keys, 1), d.rank):
        with pytest.raises(ValueError, match=text):
            call(array)
    with pytest.raises(ValueError, match="values: expected aligned elements"):
        d.insert(np.arange(4), array)
    assert len(d) == 0
    d.insert(cure(array), cure(array))
    assert d.keys().tolist() == [0]


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
    with pytest.raises(ValueError, match="keys: expected aligned elements"):
        d.lookup(shifted)
    assert not d.lookup(shifted.clone())[1].any()
    assert len(d.lookup(shifted[:0])[1]) == 0  # Without an element nothing is out of place.
