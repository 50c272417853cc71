"""`gpulsm.ray`: the oracle's answers, through shards on a cluster of several nodes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ray_cluster import add_node, kill_node

pytest.importorskip("ray")

import ray
import ray_tasks
import test_model
from families import FAMILIES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import gpulsm
from gpulsm.ray import ShardedDictionary, ShardLost, SnapshotLost, TimedOut
from gpulsm.ray.starting import start_shard


def make(key: Any = "uint32", value: Any = "uint32", **settings: Any) -> ShardedDictionary:
    options = {"resources": {"num_cpus": 0}, "device": "cpu", "threads": 1, "timeout": 300.0}
    return ShardedDictionary(key, value, **{**options, **settings})


class Run(test_model.Run):
    """A dictionary over shards and the oracle, side by side."""

    def __init__(self, dictionary: ShardedDictionary) -> None:
        self.family = FAMILIES[0]
        self.key, self.value = dictionary.key_dtype, dictionary.value_dtype
        self.dictionary: Any = dictionary
        self.oracle = test_model.Oracle()
        self.written = 0


def compare_with_the_oracle(d: ShardedDictionary) -> None:
    """Applies random lists of operations to both, and compares the answers."""
    strategy = test_model.operation_strategy(str(d.key_dtype))
    operations = strategy.filter(lambda operation: operation[0] != "copy")

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(operations=st.lists(operations, max_size=6))
    def check(operations: list[Any]) -> None:
        d.clear()
        test_model.run(operations, Run(d))

    check()


@pytest.mark.parametrize(
    ("key", "value", "shards"),
    [
        ("uint32", "uint32", 1),
        ("uint64", "complex128", 3),
        ("float32", None, 3),
        ("int32", "float64", 5),
        ("float64", "int64", 5),
    ],
)
def test_operations_agree_with_the_oracle(
    cluster: Any, key: str, value: str | None, shards: int
) -> None:
    d = make(key, value, shards=shards, batch_size=8)
    compare_with_the_oracle(d)
    d.close()


def test_keys_of_several_parts_and_asof(cluster: Any) -> None:
    d = make(("uint32", "int64"), "float64", shards=3)
    random = np.random.default_rng(3)
    symbols, times = random.integers(0, 5, 500).astype(np.uint32), random.integers(0, 1000, 500)
    d.insert((symbols, times), np.arange(500.0))
    local = gpulsm.Dictionary(("uint32", "int64"), "float64", device="cpu")
    local.insert((symbols, times), np.arange(500.0))
    questions = (
        random.integers(0, 6, 300).astype(np.uint32),
        random.integers(-50, 1100, 300),
    )
    for direction in ("backward", "forward", "nearest"):
        for tolerance in (None, 3):
            asked: Any = {"direction": direction, "tolerance": tolerance}
            expected, answers = local.asof(questions, **asked), d.asof(questions, **asked)
            assert answers[2].tolist() == expected[2].tolist()
            assert answers[1].tolist() == expected[1].tolist()
            assert [part.tolist() for part in answers[0]] == [part.tolist() for part in expected[0]]
    assert (
        d.count(*d.prefix_range([1, 2])).tolist()
        == local.count(*local.prefix_range([1, 2])).tolist()
    )
    assert d.sum() == local.sum() and d.max() == local.max() and d.min() == local.min()
    assert list(d) == list(local)
    wide = make("S16", "uint32", shards=2)
    names = np.array([f"name-{number % 97:010}" for number in range(200)], "S16")
    wide.insert(names, np.arange(200, dtype=np.uint32))
    assert len(wide) == 97 and wide[b"name-0000000096"] == 193
    wide.close()
    d.close()


def test_several_drivers_write_while_shards_are_added(cluster: Any) -> None:
    d = make("int64", "int64", shards=2, combine="add", name="drivers")
    d.insert(np.arange(3000, dtype=np.int64), 0)
    tasks = [ray_tasks.add.remote("drivers", 12) for _ in range(3)]
    told: list[tuple[int, int]] = []
    d.add_shards(1, progress=lambda done, total: told.append((done, total)))
    for seen in ray.get(tasks, timeout=300):
        assert seen == sorted(set(seen)), "its own batches, in order"
    assert d.lookup([1, 1001, 2001])[0].tolist() == [36] * 3
    assert d.shards == 3 and told and all(0 < done <= total for done, total in told)
    lengths = [shard.live for shard in d.stats().shards]
    assert sum(lengths) == 3000 and max(lengths) <= 1.1 * 1000 + 1
    assert d.keys().tolist() == list(range(3000))
    with pytest.raises(ValueError, match="attach"):
        make("int64", "int64", name="drivers")
    d.close()
    with pytest.raises(ValueError, match="no dictionary"):
        ShardedDictionary.attach("drivers")


def test_shards_that_can_not_be_added_are_not_left_over(cluster: Any) -> None:
    d = make("int64", "int64", shards=2, name="few")
    d.insert(np.arange(300, dtype=np.int64), 0)
    impatient = ShardedDictionary.attach("few", timeout=4)
    with pytest.raises(TimedOut):
        impatient.add_shards(2, resources={"resources": {"a node that is not there": 1}})
    assert d.shards == 2
    named = [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)]
    assert sum(name.startswith("few/") for name in named) == 3, named
    d.add_shards(1)
    assert d.shards == 3 and [shard.live for shard in d.stats().shards] == [100] * 3
    d.close()


def test_what_a_driver_left_unfinished_is_named(cluster: Any) -> None:
    d = make(shards=1)
    description = replace(d._cluster.description, name="unfinished")
    left = start_shard(description, 0, d._cluster.layout, {"num_cpus": 0}, is_new=True)
    with pytest.raises(ValueError, match="name: a dictionary 'unfinished' is being made"):
        make(shards=1, name="unfinished")
    assert ray.get(left.begin.remote(), timeout=300)[1] == 0, "it is still there"
    ray.kill(left)
    d.close()


def test_several_drivers_add_shards_at_once(cluster: Any) -> None:
    d = make("int64", "int64", shards=2, combine="add", name="adders")
    d.insert(np.arange(3000, dtype=np.int64), 0)
    tasks = [ray_tasks.add_a_shard.remote("adders") for _ in range(2)] + [
        ray_tasks.add.remote("adders", 6)
    ]
    ray.get(tasks, timeout=300)
    assert d.shards == 4 and len(d) == 3000
    assert d.lookup([1, 1001, 2001])[0].tolist() == [6] * 3
    lengths = [shard.live for shard in d.stats().shards]
    assert sum(lengths) == 3000 and max(lengths) <= 1.1 * 750 + 1
    d.close()


def test_ray_data_writes_and_reads(cluster: Any) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow
    import ray.data

    from gpulsm.ray.data import DictionarySink, DictionarySource

    d = make("int64", "float64", shards=2, name="data", combine="add")
    rows = pyarrow.table({"id": np.arange(1000), "price": np.arange(1000) / 2})
    dataset = ray.data.from_arrow([rows.slice(0, 600), rows.slice(600)])
    sink = DictionarySink(d, "id", "price")
    for _ in range(2):
        dataset.write_datasink(sink)
    assert len(d) == 1000 and d[999] == 2 * 499.5
    d.clear()
    for _ in range(2):  # A task that is run again.
        sink.write([rows], SimpleNamespace(task_idx=7))
    assert len(d) == 1000 and d[999] == 499.5
    with DictionarySource(d) as source:
        frame = ray.data.read_datasource(source).to_pandas().sort_values("key")
    assert frame["key"].tolist() == list(range(1000))
    assert frame["value"].tolist() == (np.arange(1000) / 2).tolist()
    d.close()


def test_memory_that_is_full_on_one_shard_changes_none(cluster: Any) -> None:
    d = make(shards=2, memory_limit=2 << 20)
    keys = np.arange(1000, dtype=np.uint32)
    d.insert(keys, keys)
    many = np.arange(500, 2_000_000, dtype=np.uint32)
    with pytest.raises(gpulsm.OutOfMemoryError):
        d.insert(many, many * 2)
    assert len(d) == 1000 and d.lookup(keys)[0].tolist() == keys.tolist()
    d.insert([5000], [1])
    assert len(d) == 1001
    d.close()


def test_the_end_of_a_block_closes_what_was_made_and_lets_go_of_what_was_found(
    cluster: Any,
) -> None:
    with make(shards=1, name="block") as d:
        with ShardedDictionary.attach("block", timeout=300) as found:
            found.insert([1], [2])
        with pytest.raises(ValueError, match="closed"):
            found.lookup([1])
        assert found.closed and not d.closed and d[1] == 2
    assert d.closed
    with pytest.raises(ValueError, match="no dictionary"):
        ShardedDictionary.attach("block")


def test_a_dictionary_is_an_argument_of_tasks(cluster: Any) -> None:
    d = make(shards=2)
    d.insert([1, 2, 3, 4], [10, 20, 30, 40])

    @ray.remote(num_cpus=0)
    def length(dictionary: ShardedDictionary) -> int:
        return len(dictionary)

    assert ray.get(length.remote(d), timeout=120) == 4
    d.close()


def test_shards_of_a_lost_node_start_elsewhere_unless_they_are_kept_there(
    cluster: Any, tmp_path: Any
) -> None:
    node = add_node(cluster, resources={"disk": 1})
    there = NodeAffinitySchedulingStrategy(node.node_id, soft=True)
    resources = [
        {"num_cpus": 0, "resources": {"node0": 0.01}},
        {"num_cpus": 0, "resources": {"disk": 0.5}},
        {"num_cpus": 0, "memory": 1 << 20, "scheduling_strategy": there},
    ]
    d = make("int64", "int64", shards=3, resources=resources, path=tmp_path, name="disks")
    keys = np.arange(99, dtype=np.int64)
    d.insert(keys, keys)
    kill_node(cluster, node)
    cluster.wait_for_nodes(120)  # Until the cluster has noticed.
    assert d[98] == 98, "it is on another node, and has read its files"
    impatient = ShardedDictionary.attach("disks", timeout=4)
    assert impatient[1] == 1, "the other shard works"
    with pytest.raises(TimedOut, match="a node may be down"):
        impatient.lookup(keys)
    impatient.insert([1, 97], [10, 970])
    assert impatient.lookup([1, 97])[0].tolist() == [10, 970], "without the shard that is down"
    node = add_node(cluster, resources={"disk": 1})
    assert d.lookup(keys)[1].all() and d[50] == 50 and d[97] == 970
    d.close()
    kill_node(cluster, node)
    cluster.wait_for_nodes(120)


def test_what_is_refused_says_what_to_do(cluster: Any) -> None:
    d = make(shards=2)
    d.insert(range(10), range(10))
    with d.snapshot() as frozen:
        d.insert(range(10, 20), 1)
        figures, now = frozen.stats(), d.stats()
        assert (figures.live, now.live) == (10, 20) and len(figures.shards) == 2
        assert figures.device == "cpu,cpu" and "shard 1" in str(figures)
        d.delete_range(10, 20)
    with pytest.raises(SnapshotLost, match="makes another"):
        frozen.stats()
    with pytest.raises(SnapshotLost, match="makes another"):
        len(frozen)
    with pytest.raises(ValueError, match="resources: expected one for each of 2"):
        make(shards=2, resources=[{}])
    mistakes: list[tuple[str, Any, type[Exception]]] = [
        ("timeout", -1, ValueError),
        ("timeout", "x", TypeError),
        ("name", 3, TypeError),
        ("name", "", ValueError),
        ("resources", "gpu", TypeError),
        ("in_flight", 0, ValueError),
    ]
    for argument, wrong, kind in mistakes:
        with pytest.raises(kind, match=f"{argument}: expected"):
            make(shards=2, **{argument: wrong})
    with pytest.raises(ValueError, match="lease: expected a number of seconds above 0"):
        d.snapshot(lease=-1)
    with pytest.raises(TimedOut, match=r"they ask for \{'num_cpus': 1000\} each, and .* is free"):
        make(shards=2, resources={"num_cpus": 1000}, timeout=3)
    with pytest.raises(ValueError, match="`ray.init"):
        ShardedDictionary.attach("nobody made it")
    assert str(d) == "10 keys in 2 shards" and "10 pairs" in repr(d) and "shards=2" in repr(d)
    d.close()
    assert "closed" in repr(d)
    with pytest.raises(ValueError, match="closed"):
        d.insert([1], [1])
    assert issubclass(ShardLost, gpulsm.Error)
