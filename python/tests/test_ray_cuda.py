"""`gpulsm.ray` on a GPU that several actors share (`--device cuda`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ray_cluster import kill

pytest.importorskip("ray")

from test_ray import compare_with_the_oracle

import gpulsm
from gpulsm.ray import ShardedDictionary


@pytest.fixture(autouse=True)
def one_gpu(device: str, request: pytest.FixtureRequest) -> None:
    """A cluster with a GPU, of which actors take parts."""
    if "cuda" not in device:
        pytest.skip("needs --device cuda")
    request.getfixturevalue("cluster")


def make(shards: int, key: str, value: str | None, **settings: Any) -> ShardedDictionary:
    resources = {"num_gpus": 1 / shards, "num_cpus": 0}
    return ShardedDictionary(
        key, value, shards=shards, resources=resources, device="cuda", timeout=300.0, **settings
    )


@pytest.mark.parametrize(
    ("key", "value", "shards"),
    [
        ("uint32", "uint32", 2),
        ("float64", None, 2),
        ("int64", "float64", 4),
        ("int32", "uint64", 4),
    ],
)
def test_operations_agree_with_the_oracle(key: str, value: str | None, shards: int) -> None:
    d = make(shards, key, value, batch_size=8)
    compare_with_the_oracle(d)
    assert {shard.device for shard in d.stats().shards} == {"cuda"}
    d.close()


@pytest.mark.parametrize("shards", [2, 4])
def test_many_pairs_are_those_of_a_dictionary_in_this_process(shards: int) -> None:
    random = np.random.default_rng(shards)
    d = make(shards, "uint64", "uint32", batch_size=1 << 16)
    local = gpulsm.Dictionary("uint64", "uint32", device="cuda", batch_size=1 << 16)
    for _ in range(6):
        keys = random.integers(0, 1 << 20, 100_000).astype(np.uint64) << np.uint64(40)
        values = random.integers(0, 1 << 32, 100_000).astype(np.uint32)
        for dictionary in (d, local):
            dictionary.update(insert=(keys, values), delete=keys[:9_000])
    queries = random.integers(0, 1 << 20, 300_000).astype(np.uint64) << np.uint64(40)
    for answer, expected in zip(d.lookup(queries), local.lookup(queries), strict=True):
        assert np.array_equal(answer, expected)
    for answer, expected in zip(d.successor(queries), local.successor(queries), strict=True):
        assert np.array_equal(answer, expected)
    assert np.array_equal(d.rank(queries), local.rank(queries))
    assert len(d) == len(local) > 100_000
    d.close()


@pytest.mark.parametrize("module", ["cupy", "torch"])
def test_arrays_on_the_gpu_are_taken_and_returned(module: str) -> None:
    arrays = pytest.importorskip(module)
    on_gpu = arrays.asarray if module == "cupy" else lambda array: arrays.tensor(array).cuda()
    d = make(2, "int64", "float64")
    keys = np.arange(50_000)[::-1].copy()
    d.insert(on_gpu(keys), on_gpu(keys / 2))
    values, found = d.lookup(on_gpu(keys))
    assert isinstance(values, type(on_gpu(keys))) and bool(found.all())
    assert values.tolist() == (keys / 2).tolist()
    d.close()


def test_killed_actors_come_back_to_the_gpu(path: str) -> None:
    d = make(2, "int64", "int64", path=path, combine="add")
    for number in range(12):
        d.add(np.arange(20_000) * 1_000, 1)
        kill(d._cluster.shard(number % 2))
    values, found = d.lookup(np.arange(20_000) * 1_000)
    assert found.all() and (values == 12).all()
    d.close()
