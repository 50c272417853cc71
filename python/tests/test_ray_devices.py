"""Arrays of GPUs as arguments of `gpulsm.ray` dictionaries, without a GPU: with a stand-in for CuPy, and with
PyTorch's tensors of the host, if it is installed, as if they were elsewhere."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray")

import gpulsm
from gpulsm.ray import devices, transport


class Fake:
    """An array that NumPy can't read."""

    def __init__(self, elements: Any) -> None:
        self._elements = np.array(elements)
        self.shape, self.dtype = self._elements.shape, self._elements.dtype
        self.device = nullcontext()

    def get(self) -> Any:
        return self._elements.copy()

    def set(self, elements: Any) -> None:
        self._elements[...] = elements

    def tolist(self) -> Any:
        return self._elements.tolist()


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("cupy")
    module.ndarray, module.asarray = Fake, Fake
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@devices.on_any_device
class Anywhere(gpulsm.Dictionary):
    """A dictionary on the host whose arguments may be elsewhere, as those over Ray are."""


def test_cupy_arrays_come_back_as_such(cupy: Any) -> None:
    d = Anywhere("int64", "float64", device="cpu")
    keys = np.arange(0, 100, 2)
    d.insert(Fake(keys), Fake(keys / 4))
    values, found = d.lookup(Fake([4, 5]))
    assert isinstance(values, Fake) and isinstance(found, Fake)
    assert values.tolist() == [1.0, 0.0] and found.tolist() == [True, False]
    out = Fake(np.zeros(2)), Fake(np.zeros(2, bool))
    assert d.lookup(Fake([6, 7]), out=out) is out
    assert out[0].tolist() == [1.5, 0.0] and out[1].tolist() == [True, False]
    offsets, inside, _ = d.range(Fake([0, 10]), Fake([3, 11]))
    assert offsets.tolist() == [0, 2, 3] and inside.tolist() == [0, 2, 10]
    assert d.count(Fake([0]), 100).tolist() == [50] and d.sum(Fake([0]), 2).tolist() == [0.5]
    assert d.successor(Fake([1]))[0].tolist() == [2]
    d.delete(Fake(keys))
    assert len(d) == 0 and d.lookup(4) == (0.0, False)
    with pytest.raises(TypeError, match="keys: expected int64"):
        d.lookup(Fake(np.zeros(2, np.float32)))


def test_bytes_and_keys_of_several_parts(cupy: Any) -> None:
    names = np.array([b"ab", b"cdef"], "S4")
    d = Anywhere("S4", "int64", device="cpu")
    d.insert(Fake(names.view(np.uint8).reshape(2, 4)), Fake(np.arange(2)))
    keys, values, _ = d.select(Fake(np.arange(2)))
    assert keys.tolist() == names.view(np.uint8).reshape(2, 4).tolist()
    assert values.tolist() == [0, 1]
    pairs = Anywhere(("uint32", "int64"), "int64", device="cpu")
    parts = Fake(np.arange(3, dtype=np.uint32)), Fake(np.arange(3))
    pairs.insert(parts, Fake(np.arange(3)))
    (first, second), _, _ = pairs.successor(parts)
    assert first.tolist() == second.tolist() == [0, 1, 2] and isinstance(first, Fake)


def test_a_transport_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "find_spec", lambda name: None)
    assert transport.checked_transport(None) is None
    with pytest.raises(ValueError, match="expected None or 'nixl', got 'nccl'"):
        transport.checked_transport("nccl")
    with pytest.raises(ValueError, match="needs torch and nixl"):
        transport.checked_transport("nixl")
    raw = SimpleNamespace(numpy=lambda: np.arange(3, dtype=np.uint32).view(np.uint8))
    assert transport.received(("<u4", raw)).tolist() == [0, 1, 2]


def test_tensors_come_back_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(devices, "is_elsewhere", lambda tensor: True)
    d = Anywhere("int64", "float64", device="cpu")
    keys = torch.arange(0, 100, 2)
    d.insert(keys, keys.double() / 4)
    values, found = d.lookup(keys)
    assert isinstance(values, torch.Tensor) and bool(found.all())
    assert values.tolist() == (keys / 4).tolist()
    out = torch.zeros(50, dtype=torch.float64), torch.zeros(50, dtype=torch.bool)
    d.lookup(keys, out=out)
    assert out[0].tolist() == values.tolist() and bool(out[1].all())
