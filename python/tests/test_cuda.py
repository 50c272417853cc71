"""On a GPU (`--device cuda`): streams, order, memory that is given back, and the same answers as the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpulsm

N = 1 << 20


@pytest.fixture(autouse=True)
def only_on_a_gpu(device: str) -> None:
    if device == "cpu":
        pytest.skip("needs --device cuda")


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def history(key: str, rng: np.random.Generator) -> list[tuple[str, Any, Any]]:
    """Batches that insert, replace, delete and mix, over keys that often meet each other."""
    steps = []
    for number in range(12):
        keys = rng.integers(0, 1 << 18, 30_000).astype(key)
        values = rng.integers(0, 1 << 30, 30_000).astype(np.int32)
        steps.append((["insert", "delete", "update"][number % 3], keys, values))
    return steps


@pytest.mark.parametrize("key", ["uint32", "int64", "float32", "float64"])
def test_every_answer_is_that_of_the_cpu(key: str, device: str, cupy: Any) -> None:
    rng = np.random.default_rng(3)
    on_cpu = gpulsm.Dictionary(key, "int32", device="cpu", batch_size=8192)
    on_gpu = gpulsm.Dictionary(key, "int32", device=device, batch_size=8192)
    for what, keys, values in history(key, rng):
        for d, make in ((on_cpu, np.asarray), (on_gpu, cupy.asarray)):
            if what == "insert":
                d.insert(make(keys), make(values))
            elif what == "delete":
                d.delete(make(keys[::3].copy()))
            else:
                d.update(insert=(make(keys), make(values)), delete=make(keys[:5000].copy()))
        on_gpu.validate()
    asked = rng.integers(0, 1 << 18, 100_000).astype(key)
    far = asked + np.array(200, key)
    few, few_far = asked[:2000], far[:2000]
    indices = rng.integers(-5, 1 << 19, 100_000)
    for ask in (
        lambda d, make: d.lookup(make(asked)),
        lambda d, make: (d.contains(make(asked)),),
        lambda d, make: (d.count(make(asked), make(far)),),
        lambda d, make: d.range(make(few), make(few_far)),
        lambda d, make: d.successor(make(asked)),
        lambda d, make: d.predecessor(make(asked)),
        lambda d, make: d.select(make(indices)),
        lambda d, make: (d.rank(make(asked)),),
    ):
        expected = ask(on_cpu, np.asarray)
        for answers in (ask(on_gpu, cupy.asarray), ask(on_gpu, np.asarray)):
            for answer, right in zip(answers, expected, strict=True):
                answer = answer.get() if hasattr(answer, "get") else answer
                assert answer.dtype == right.dtype and (answer == right).all()
    for answer, right in zip(on_gpu.arrays(like="cupy"), on_cpu.arrays(), strict=True):
        assert (answer.get() == right).all()


def test_calls_happen_in_the_order_of_the_callers_stream(device: str, cupy: Any) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    for stream in (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(), cupy.cuda.Stream.null):
        with stream:
            for step in range(20):
                slow = cupy.zeros(N, cupy.int64)
                for _ in range(20):
                    slow += 1  # What comes next must wait for all of these.
                keys = cupy.arange(N, dtype=cupy.int64) + slow
                d.insert(keys, keys * step)
                keys[...] = -1  # …and this for the insert.
                again = cupy.arange(20, N + 20, dtype=cupy.int64)
                values, found = d.lookup(again)
                right = (values == again * step).all() & found.all()
                again[...] = 0
                assert bool(right)
    assert len(d) == N
    d.validate()


def test_memory_may_be_given_back_at_once(device: str, cupy: Any) -> None:
    d = gpulsm.Dictionary("uint32", "uint32", device=device)
    reference = np.random.default_rng(5).permutation(N).astype(np.uint32)
    keys = cupy.asarray(reference)
    d.insert(keys, keys)
    sums = []
    for _ in range(50):
        # Nothing here is kept: the pool hands the same memory out again.
        sums.append(d.lookup(cupy.asarray(reference))[0].sum(dtype=cupy.uint64))
        cupy.full(N, 7, cupy.uint32)
    assert {int(one) for one in sums} == {N * (N - 1) // 2}


def test_two_streams_ask_one_dictionary(device: str, torch: Any) -> None:
    keys = torch.randperm(N, device="cuda")
    d = gpulsm.Dictionary.build(keys, keys * 3, device=device)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    results = []
    for step in range(40):
        with torch.cuda.stream(streams[step % 2]):
            asked = torch.arange(N, device="cuda").flip(0).contiguous()
            for _ in range(step % 5):
                asked = (asked + 1) % N
            values, found = d.lookup(asked)
            results.append(((values == asked * 3).all() & found.all(), d.count(asked, asked).sum()))
    torch.cuda.synchronize()
    assert all(bool(right) and int(count) == N for right, count in results)


def test_a_snapshot_on_one_stream_while_another_updates(device: str, torch: Any) -> None:
    keys = torch.arange(N, device="cuda")
    d = gpulsm.Dictionary.build(keys, keys, device=device)
    snapshot = d.snapshot()
    reading, writing = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    sums = []
    for step in range(1, 20):
        with torch.cuda.stream(writing):
            d.insert(torch.arange(N, device="cuda"), torch.full((N,), step, device="cuda"))
        with torch.cuda.stream(reading):
            sums.append(snapshot.lookup(torch.arange(N, device="cuda"))[0].sum())
    torch.cuda.synchronize()
    assert {int(one) for one in sums} == {N * (N - 1) // 2}
    assert int(d.values(like="torch").sum()) == 19 * N


def test_a_threads_own_default_stream(device: str, cupy: Any) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    with cupy.cuda.Stream.ptds:
        for step in range(20):
            keys = cupy.arange(N, dtype=cupy.int64)
            d.insert(keys, keys + step)
            values, found = d.lookup(keys)
            assert bool((values == keys + step).all() & found.all())


@pytest.mark.parametrize("key", ["uint32", "uint64", "int64", "float32"])
def test_excluded_and_open_ends_on_the_gpu(key: str, device: str, cupy: Any, torch: Any) -> None:
    keys = np.arange(1000).astype(key)
    ends = [np.finfo(key).max, np.inf, np.nan] if key == "float32" else [np.iinfo(key).max]
    keys = np.append(keys, np.array(ends, key))
    on_cpu = gpulsm.Set.build(keys, device="cpu")
    on_gpu = gpulsm.Set.build(keys, device=device)
    makes = [cupy.asarray]
    if hasattr(torch, key):
        makes.append(lambda array: torch.from_numpy(array).cuda())
    other = keys[::-1].copy()
    for make in makes:
        for closed in ("both", "left", "right", "neither"):
            for lo, hi in ((keys, other), (keys, None), (None, keys), (keys[5], keys), (keys, 7)):
                expected = on_cpu.count(lo, hi, closed=closed).tolist()
                lo, hi = (make(end) if np.ndim(end) else end for end in (lo, hi))
                assert on_gpu.count(lo, hi, closed=closed).tolist() == expected


def test_duplicates_and_defaults_on_the_gpu(device: str, cupy: Any, torch: Any) -> None:
    keys = np.array([5, 3, 5, 3], np.int64)
    for make in (cupy.asarray, lambda array: torch.from_numpy(array).cuda()):
        d = gpulsm.Dictionary("int64", ("float32", 4), device=device)
        rows = make(np.arange(16, dtype=np.float32).reshape(4, 4))
        d.insert(make(keys), rows, duplicates="first")
        assert d.values()[:, 0].tolist() == [4.0, 0.0]
        with pytest.raises(gpulsm.DuplicateKeyError, match=r"keys\[2\] is 5, as keys\[0\] is"):
            d.insert(make(keys), rows, duplicates="error")
        values, found = d.lookup(make(np.array([3, 4])), default=[1.0, 2.0, 3.0, 4.0])
        assert values.tolist() == [[4.0, 5.0, 6.0, 7.0], [1.0, 2.0, 3.0, 4.0]]
        assert found.tolist() == [True, False]


def test_an_array_may_be_changed_once_the_call_has_returned(device: str, torch: Any) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    pinned = torch.arange(N).pin_memory()
    plain = np.arange(N)
    on_gpu = torch.arange(N, device="cuda")
    for keys in (pinned, plain, on_gpu):
        d.clear()
        torch.cuda._sleep(100_000_000)
        d.insert(keys, keys)
        keys[:] = -1
        assert len(d) == N and d.last() == (N - 1, N - 1)


class Interface:
    """An array that only speaks CUDA's array interface."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def test_the_cuda_array_interface_comes_in(device: str, cupy: Any) -> None:
    keys = Interface(cupy.array([3, 1, 2], cupy.int32))
    d = gpulsm.Dictionary("int32", "int32", device=device)
    d.insert(keys, Interface(cupy.array([30, 10, 20], cupy.int32)))
    values, found = d.lookup(keys)
    assert values.tolist() == [30, 10, 20] and found.all()


def test_tensors_of_every_key_type(device: str, torch: Any) -> None:
    for name in ("uint32", "uint64", "int32", "int64", "float32", "float64"):
        if not hasattr(torch, name):
            continue
        keys = torch.tensor([3, 1, 2], device="cuda").to(getattr(torch, name))
        d = gpulsm.Dictionary.build(keys, torch.ones(3, 2, device="cuda"), device=device)
        assert d.key_dtype == np.dtype(name) and d.value_dtype == np.dtype(("float32", 2))
        values, found = d.lookup(keys)
        assert values.shape == (3, 2) and values.device == keys.device and bool(found.all())
        assert d.range(keys[:1], keys[:1])[1].dtype == keys.dtype
    views = torch.arange(10, device="cuda")
    s = gpulsm.Set.build(views[3:6])
    assert s.device == "cuda" and s.keys().tolist() == [3, 4, 5]


def test_families_on_a_gpu_do_not_mix(device: str, cupy: Any, torch: Any) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    with pytest.raises(TypeError, match="values is of torch but keys of CuPy"):
        d.insert(cupy.zeros(2, cupy.int64), torch.zeros(2, dtype=torch.int64, device="cuda"))
    with pytest.raises(TypeError, match=r"CuPy has no arrays of datetime64"):
        times = gpulsm.Dictionary("int64", "datetime64[ns]", device=device)
        times.lookup(cupy.zeros(2, cupy.int64))


def test_queries_do_not_wait(device: str, torch: Any) -> None:
    keys = torch.arange(N, device="cuda")
    d = gpulsm.Dictionary.build(keys, keys, device=device)
    d.lookup(keys)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)  # About a second.
    values, found = d.lookup(keys)
    waited = torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert not waited, "the lookup waited for the stream"
    assert bool(found.all()) and bool((values == keys).all())


def pairs_of(cupy: Any, length: int, seed: int = 0) -> tuple[Any, Any]:
    """The parts of different keys, in any order."""
    order = cupy.asarray(np.random.default_rng(seed).permutation(length))
    return (order % 1000).astype(cupy.uint32), order // 1000


def test_columns_are_used_in_the_order_of_the_callers_stream(device: str, cupy: Any) -> None:
    d = gpulsm.Dictionary(("uint32", "int64"), "int64", device=device)
    for stream in (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(), cupy.cuda.Stream.null):
        with stream:
            for step in range(10):
                slow = cupy.zeros(N, cupy.int64)
                for _ in range(20):
                    slow += 1  # What comes next must wait for all of these.
                by, on = pairs_of(cupy, N)
                on += slow
                d.insert((by, on), on * step)
                by[...] = 0  # …and these for the insert.
                on[...] = -1
                by, on = pairs_of(cupy, N, seed=1)
                on += 20
                (found_by, found_on), values, found = d.asof((by, on), direction="nearest")
                right = (found_by == by).all() & (found_on == on).all() & found.all()
                right &= (values == on * step).all()
                by[...] = 0
                on[...] = -1
                assert bool(right)
    assert len(d) == N
    d.validate()


def test_memory_of_columns_may_be_given_back_at_once(device: str, cupy: Any) -> None:
    by, on = pairs_of(cupy, N)
    d = gpulsm.Dictionary.build((by, on), on, device=device)
    sums = []
    for _ in range(30):
        # Nothing here is kept: the pool hands the same memory out again.
        (_, times), values, _ = d.asof((by + 0, on + 0))
        sums += [times.sum(), values.sum()]
        for size in (4, 8, 16):
            cupy.full(N * size, 7, cupy.uint8)
    assert {int(one) for one in sums} == {int(on.sum())}


def test_queries_with_columns_do_not_wait(device: str, torch: Any) -> None:
    on = torch.arange(N, device="cuda")
    by = (on % 1000).to(torch.int32)
    d = gpulsm.Dictionary.build((by, on), on, device=device)
    queries = [
        lambda: d.lookup((by, on)),
        lambda: d.lookup((7, on)),
        lambda: d.count((by, on), (1000, 0), closed="neither"),
        lambda: d.count(*d.prefix_range(by)),
        lambda: d.successor((by, on)),
        lambda: d.asof((by, on), direction="nearest", allow_exact_matches=False),
    ]
    for query in queries:
        query()  # Loads its kernels.
        torch.cuda.synchronize()
        torch.cuda._sleep(1_000_000_000)  # About half a second.
        query()
        is_done = torch.cuda.current_stream().query()
        torch.cuda.synchronize()
        assert not is_done, "the query waited for the stream"


def test_columns_say_where_a_dictionary_is(device: str, cupy: Any, torch: Any) -> None:
    assert gpulsm.Set.build(pairs_of(cupy, 5)).device == "cuda"
    on_cpu = gpulsm.Set(("uint32", "int64"), device="cpu")
    with pytest.raises(
        ValueError, match=r"keys\[0\] is on cuda:0 but the dictionary is on the CPU"
    ):
        on_cpu.contains(pairs_of(cupy, 5))
    d = gpulsm.Set(("uint32", "int64"), device=device)
    by, on = pairs_of(cupy, 5)
    with pytest.raises(TypeError, match=r"keys\[1\] is of torch but keys\[0\] of CuPy"):
        d.insert((by, torch.as_tensor(on, device="cuda")))
    with pytest.raises(ValueError, match=r"keys\[1\] is on the host but keys\[0\] is on cuda:0"):
        d.insert((by, on.get()))
    times = gpulsm.Set(("uint32", "datetime64[ms]"), device=device)
    with pytest.raises(TypeError, match="cupy has no arrays of datetime64"):
        times.insert((by, on))
    with pytest.raises(TypeError, match=r"CuPy has no arrays of datetime64\[ms\]"):
        times.prefix_range(by)
