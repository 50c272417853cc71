"""Several GPUs: everything for an array happens with its own GPU current, whichever the caller's is.

No GPU is needed: small stand-ins for CuPy and PyTorch record which GPU is current at each step.
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpulsm
from gpulsm import _arrays, _inference, _interchange
from gpulsm._dictionary import Dictionary
from gpulsm._families import DEFAULT_STREAM, PER_THREAD_STREAM, CuPy
from gpulsm._updates import Updates

#: The caller's current GPU, and the one where the arrays and the dictionary are.
CALLERS, HOME = 0, 1


class Gpus:
    """A machine with a few GPUs: which one is current, and what happened on which."""

    def __init__(self) -> None:
        self.current = CALLERS
        self.steps: list[tuple[str, int]] = []
        self.stream_pointer: Any = lambda device: 1000 + device

    def step(self, what: str) -> None:
        """Notes that something happens now, on the current GPU and its current stream."""
        self.steps.append((what, self.current))

    def device(self, number: int) -> Any:
        """A context in which another GPU is current."""
        return _Device(self, number)

    def stream(self, device: int | None = None) -> Any:
        number = self.current if device is None else device
        return SimpleNamespace(
            ptr=self.stream_pointer(number), synchronize=lambda: self.step("synchronize")
        )

    def all_happened_at_home(self, *steps: str) -> bool:
        """Whether these steps were taken, and none on the wrong GPU."""
        return {what for what, _ in self.steps} >= set(steps) and all(
            device == HOME for _, device in self.steps
        )


class _Device:
    def __init__(self, gpus: Gpus, number: int) -> None:
        self.gpus, self.id = gpus, number
        self.before: list[int] = []

    def __enter__(self) -> _Device:
        self.before.append(self.gpus.current)
        self.gpus.current = self.id
        return self

    def __exit__(self, *_: Any) -> None:
        self.gpus.current = self.before.pop()


class OnGpu:
    """An array that only speaks CUDA's array interface, on one of the GPUs."""

    def __init__(self, elements: Any, place: int = HOME) -> None:
        self.elements, self.place = np.ascontiguousarray(elements), place
        self.dtype, self.shape = self.elements.dtype, self.elements.shape

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.elements.__array_interface__, "stream": 1}


@pytest.fixture
def gpus() -> Gpus:
    return Gpus()


@pytest.fixture
def cupy(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A CuPy whose arrays are NumPy's; like the real one it works on the current GPU."""
    module: Any = ModuleType("cupy")

    class ndarray:
        def __init__(self, elements: Any, place: int) -> None:
            self.elements, self.place = elements, place
            self.dtype, self.shape, self.ndim = elements.dtype, elements.shape, elements.ndim
            self.flags, self.device = elements.flags, gpus.device(place)
            self.data = SimpleNamespace(ptr=elements.ctypes.data)

        def __len__(self) -> int:
            return len(self.elements)

        def copy(self) -> Any:
            gpus.step("fill")
            return ndarray(self.elements.copy(), gpus.current)

        def __setitem__(self, where: Any, given: Any) -> None:
            gpus.step("fill")
            self.elements[_elements(where)] = _elements(given)

        def _computed(self, how: Any, *others: Any) -> Any:
            gpus.step("compute")
            return ndarray(np.asarray(how(self.elements, *map(_elements, others))), gpus.current)

        def __lt__(self, other: Any) -> Any:
            return self._computed(np.less, other)

        def __eq__(self, other: Any) -> Any:
            return self._computed(np.equal, other)

        def __ne__(self, other: Any) -> Any:
            return self._computed(np.not_equal, other)

        def __add__(self, other: Any) -> Any:
            return self._computed(np.add, other)

        def __mul__(self, other: Any) -> Any:
            return self._computed(np.multiply, other)

        def __sub__(self, other: Any) -> Any:
            return self._computed(np.subtract, other)

        def __rshift__(self, other: Any) -> Any:
            return self._computed(np.right_shift, other)

        def __or__(self, other: Any) -> Any:
            return self._computed(np.bitwise_or, other)

        def __getitem__(self, where: Any) -> Any:
            return self._computed(lambda elements, at: elements[at], where)

        def any(self) -> Any:
            return self._computed(np.any)

        def __bool__(self) -> bool:
            return bool(self.elements)

        def reshape(self, *shape: int) -> Any:
            return ndarray(self.elements.reshape(*shape), self.place)

        def view(self, dtype: Any) -> Any:
            return ndarray(self.elements.view(dtype), self.place)

        def get(self) -> Any:
            gpus.step("read")
            return self.elements.copy()

    def make(how: Any) -> Any:
        def made(*given: Any) -> Any:
            gpus.step("allocate")
            return ndarray(how(*given), gpus.current)

        return made

    def asarray(given: Any) -> Any:
        gpus.step("convert")
        if isinstance(given, OnGpu):
            is_here = given.place == gpus.current
            elements = given.elements if is_here else given.elements.copy()
            return ndarray(elements, gpus.current)
        return ndarray(np.asarray(given), gpus.current)

    def unowned(pointer: int, size: int, owner: Any) -> Any:
        return SimpleNamespace(device=gpus.device(owner.place))

    def compute(how: Any) -> Any:
        return lambda array, *others, **named: array._computed(partial(how, **named), *others)

    module.ndarray, module.asarray = ndarray, asarray
    for name in ("ascontiguousarray", "argsort", "where"):
        setattr(module, name, compute(getattr(np, name)))
    module.empty, module.zeros = make(np.empty), make(np.zeros)
    module.cuda = SimpleNamespace(
        Device=gpus.device, get_current_stream=gpus.stream, UnownedMemory=unowned
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def _elements(given: Any) -> Any:
    return getattr(given, "elements", given)


class RecordingStore:
    """Stands for a dictionary on the arrays' GPU: notes on which streams it is called."""

    device = f"cuda:{HOME}"

    def __init__(self) -> None:
        self.streams: list[int | None] = []

    def copy(self, kind: str) -> RecordingStore:
        return self

    def range_offsets(self, *given: Any) -> int:
        self.streams.append(given[-1])
        return 3

    def len(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.streams.append(given[-1])


def dictionary(store: Any) -> Any:
    d: Any = Dictionary.__new__(Dictionary)
    settings = {"combine": ("replace", "")}
    Updates.__init__(d, store, np.dtype("int64"), np.dtype("float64"), settings)
    return d


def test_an_array_is_filled_on_its_own_gpu(gpus: Gpus, cupy: Any) -> None:
    for dtype, item in ((np.dtype("int64"), 7), (np.dtype(("float32", 2)), np.ones(2, "f4"))):
        array = CuPy(HOME).full(5, dtype, item)
        assert (array.elements == item).all() and array.device.id == HOME
    assert gpus.all_happened_at_home("allocate", "convert", "fill")
    assert gpus.current == CALLERS


def test_calls_work_on_the_gpu_of_their_arrays(gpus: Gpus, cupy: Any) -> None:
    store = RecordingStore()
    d = dictionary(store)
    keys = cupy.ndarray(np.arange(4), HOME)
    values = cupy.ndarray(np.ones(4), HOME)
    d.insert(keys, values)
    d.insert(keys, 0.5)
    d.update(insert=(keys, values), delete=3)
    d.delete_range(keys, 9)
    answers = [*d.lookup(keys), d.contains(keys), d.count(keys, 9), d.count(0, keys), d.rank(keys)]
    answers += [*d.range(keys, 9), *d.successor(keys), *d.select(keys), *d.arrays(like="cupy")]
    answers += [d.keys(like=keys), d.values(like="cupy")]
    assert {answer.device.id for answer in answers} == {HOME}
    assert gpus.all_happened_at_home("allocate", "convert", "fill")
    assert set(store.streams) == {1000 + HOME}


def test_what_is_computed_of_arrays_is_computed_on_their_gpu(gpus: Gpus, cupy: Any) -> None:
    d = dictionary(RecordingStore())
    keys = cupy.ndarray(np.array([3, 1, 3]), HOME)
    values = cupy.ndarray(np.ones(3), HOME)
    d.insert(keys, values, duplicates="first")
    with pytest.raises(gpulsm.DuplicateKeyError, match=r"keys\[2\] is 3, as keys\[0\] is"):
        d.insert(keys, values, duplicates="error")
    d.count(keys, None, closed="neither")
    d.lookup(keys, default=0.5)
    assert d.first(0, like="cupy")[0].device.id == HOME
    assert gpus.all_happened_at_home("compute", "fill", "read")
    assert gpus.current == CALLERS


def test_an_array_of_no_dimension_is_read_on_its_own_gpu(gpus: Gpus, cupy: Any) -> None:
    given = _arrays.read("key", cupy.ndarray(np.array(7), HOME), np.dtype("int64"))
    assert given.is_scalar and given.array.tolist() == [7]
    assert gpus.all_happened_at_home("read")


def test_a_threads_own_default_stream_is_waited_for_on_its_gpu(gpus: Gpus, cupy: Any) -> None:
    gpus.stream_pointer = lambda _: PER_THREAD_STREAM  # The same number on every GPU.
    assert CuPy(HOME).stream() == DEFAULT_STREAM
    assert gpus.all_happened_at_home("synchronize")


def test_cupy_adopts_an_array_where_it_is(gpus: Gpus, cupy: Any) -> None:
    foreign = OnGpu(np.arange(3))
    given = _arrays.read("keys", foreign, np.dtype("int64"))
    assert given.family.place == HOME
    assert given.span == (foreign.elements.ctypes.data, 3), "a copy was made"
    assert gpus.all_happened_at_home("convert")
    assert _inference.place_of(foreign) == HOME


def test_an_empty_array_that_has_no_address_is_adopted(gpus: Gpus, cupy: Any) -> None:
    class Empty(OnGpu):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {**super().__cuda_array_interface__, "data": (0, False)}

    assert _arrays.read("keys", Empty(np.arange(0)), np.dtype("int64")).length == 0


@pytest.mark.parametrize("place", [0, 1, 2])
def test_torch_adopts_an_array_where_it_is(
    place: int, gpus: Gpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_tensor(given: OnGpu, device: str) -> Any:
        assert device == "cuda"  # The current one: an array of another is copied there.
        is_here = given.place == gpus.current
        elements = given.elements if is_here else given.elements.copy()
        return SimpleNamespace(
            device=gpus.device(gpus.current),
            data_ptr=lambda: elements.ctypes.data,
            numel=lambda: elements.size,
        )

    waited: list[int] = []
    torch: Any = ModuleType("torch")
    torch.as_tensor = as_tensor
    torch.cuda = SimpleNamespace(
        device=gpus.device,
        device_count=lambda: 3,
        current_device=lambda: gpus.current,
        synchronize=lambda device: waited.append(device.id),
    )
    monkeypatch.setitem(sys.modules, "cupy", None)  # Not installed.
    monkeypatch.setitem(sys.modules, "torch", torch)
    foreign = OnGpu(np.arange(3), place)
    adopted = _interchange.adopt("keys", foreign)
    assert adopted.device.id == place
    assert adopted.data_ptr() == foreign.elements.ctypes.data, "a copy was made"
    assert waited == [place]  # For the producer's stream, of which torch takes no notice.
    assert gpus.current == CALLERS


def test_a_dictionary_is_built_on_the_gpu_of_its_keys(gpus: Gpus, cupy: Any) -> None:
    class Shared:
        """Speaks DLPack."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, HOME

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("only where it is was asked")

    assert _inference.place_of(Shared()) == HOME
    assert _inference.place_of(cupy.ndarray(np.arange(3), HOME)) == HOME
    assert _inference.place_of(np.arange(3)) is None
    assert _inference.place_of([1, 2]) is None


def test_arrays_on_a_gpu_are_aligned_to_their_elements(gpus: Gpus, cupy: Any) -> None:
    raw = np.zeros(72, np.uint8)
    start = -raw.ctypes.data % 16
    for dtype, offset, aligned in (
        (np.dtype("int64"), 8, True),
        (np.dtype("int64"), 4, False),
        (np.dtype(("float32", 4)), 16, True),
        (np.dtype(("float32", 4)), 4, False),  # Aligned to its numbers, but not to four of them.
    ):
        some = raw[start + offset :][: 2 * dtype.itemsize].view(dtype.base).reshape(2, *dtype.shape)
        array = cupy.ndarray(some, HOME)
        read = _arrays.read("values", array, dtype)
        assert read.length == 2 and (read.array is array) == aligned
