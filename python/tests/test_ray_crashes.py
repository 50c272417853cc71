"""`gpulsm.ray` while actors, nodes and drivers are killed: every acknowledged batch is there once, none is half there.

`GPULSM_RAY_KILLS=300 pytest -s tests/test_ray_crashes.py -k random` kills that many, a quarter of them nodes; by
default a few.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_cluster import add_node, kill, kill_node

pytest.importorskip("ray")

import ray
import ray_tasks

from gpulsm.ray import ShardedDictionary, ShardLost, SnapshotLost

KILLS = int(os.environ.get("GPULSM_RAY_KILLS", "8"))
SPREAD = 10_000  # Keys of one writer are this far apart, in different shards.


def make(**settings: Any) -> ShardedDictionary:
    options = {"resources": {"num_cpus": 0}, "device": "cpu", "threads": 1, "timeout": 300.0}
    return ShardedDictionary("int64", "int64", **{**options, **settings})


def keys_of(writer: int) -> np.ndarray[Any, Any]:
    """The keys that a writer adds 1 to with every batch: one or more in each shard."""
    return np.arange(8, dtype=np.int64) * SPREAD + writer


class Writer(threading.Thread):
    """Adds 1 to all of its keys at once, again and again, and counts what was acknowledged."""

    def __init__(self, name: str, number: int, stop: threading.Event) -> None:
        super().__init__()
        self.dictionary = ShardedDictionary.attach(name, timeout=300)
        self.number, self.stop = number, stop
        self.acknowledged = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.dictionary.add(keys_of(self.number), 1)
                self.acknowledged += 1
        except Exception as error:
            self.failure = error


class Checker(threading.Thread):
    """Reads the keys of writers, all together or each alone, and compares."""

    def __init__(self, name: str, writers: list[Writer], stop: threading.Event) -> None:
        super().__init__()
        self.dictionary = ShardedDictionary.attach(name, timeout=300)
        self.writers, self.stop = writers, stop
        self.reads = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self._check()
                self.reads += 1
        except Exception as error:
            self.failure = error

    def _check(self) -> None:
        writer = random.choice(self.writers)
        before = writer.acknowledged
        values, _ = self.dictionary.lookup(keys_of(writer.number))
        assert len(set(values.tolist())) == 1, f"half of a batch is seen: {values}"
        assert before <= values[0] <= writer.acknowledged + 1, (before, values)
        at = int(random.choice(keys_of(writer.number)))
        alone = self.dictionary.get(at, 0)
        assert values[0] <= alone <= writer.acknowledged + 1, "it was there before"


def test_actors_and_nodes_killed_at_random(cluster: Any, tmp_path: Path) -> None:
    name = "random-kills"
    d = make(shards=3, path=tmp_path, name=name, combine="add", log_limit=20_000)
    d.insert(np.arange(0, 8 * SPREAD, 8) + 5, 1)
    filler = len(d)
    stop = threading.Event()
    writers = [Writer(name, number, stop) for number in range(2)]
    checker = Checker(name, writers, stop)
    for thread in (*writers, checker):
        thread.start()
    chance = random.Random(KILLS)
    for number in range(KILLS):
        time.sleep(chance.uniform(0, 1.5))
        shards = d._cluster.layout.shards
        victim = chance.choice([None, *shards])
        if number % 4 == 2:
            add_node(
                cluster
            )  # Before it is needed: a cluster that can be scheduled on is not what is tested.
            kill_node(cluster, chance.choice(list(cluster.worker_nodes)), chance.random() < 0.5)
        elif victim is None:
            kill(d._cluster.sequencer)
        else:
            kill(d._cluster.shard(victim))
        if number % 5 == 3:
            width = 8 * SPREAD // 9
            start = chance.randrange(8) * width
            d.insert(
                np.arange(start, start + width, 13) * 8 + 6, 0
            )  # So that there is something to move.
            d.rebalance(step=2000)
    stop.set()
    for thread in (*writers, checker):
        thread.join()
    for thread in (*writers, checker):
        assert thread.failure is None, thread.failure
    for writer in writers:
        values, found = d.lookup(keys_of(writer.number))
        assert found.all() and values.tolist() == [writer.acknowledged] * 8
        assert writer.acknowledged > 0
    assert checker.reads > 0 and len(d) >= filler + 16
    print(f"\n{KILLS} kills, {[w.acknowledged for w in writers]} batches, {checker.reads} reads")
    d.validate()
    d.close()
    again = make(shards=3, path=tmp_path, combine="add")
    for writer in writers:
        assert again.lookup(keys_of(writer.number))[0].tolist() == [writer.acknowledged] * 8
    again.close()


def test_without_a_path_lost_keys_are_named_and_the_rest_works(cluster: Any) -> None:
    d = make(shards=3)
    keys = np.arange(300, dtype=np.int64)
    d.insert(keys, keys)
    lost = d._cluster.layout.shards[1]
    kill(d._cluster.shard(lost))
    with pytest.raises(ShardLost, match="from 100 on, less than 200") as caught:
        d.lookup(keys)
    assert caught.value.shards == (lost,)
    with pytest.raises(ShardLost):
        d.insert([50, 150], [0, 0])
    assert d[50] == 50, "the batch happened on no shard"
    d.insert([51, 251], [1, 2])
    assert d.lookup([51, 251])[0].tolist() == [1, 2]
    kill(d._cluster.sequencer)
    d.insert([52, 252], [3, 4])
    assert d.lookup([51, 251, 52, 252])[0].tolist() == [1, 2, 3, 4]
    with pytest.raises(ShardLost):
        len(d)
    ray.kill(d._cluster.sequencer)


def test_a_killed_driver_leaves_no_half_batch(cluster: Any, tmp_path: Path) -> None:
    name = "killed-drivers"
    d = make(shards=2, path=tmp_path, name=name, combine="add")
    d.insert(np.arange(0, 8 * SPREAD, 100) + 50, 0)
    for number in range(2):
        task = ray_tasks.write_until_killed.remote(name, keys_of(number))
        while d.get(int(keys_of(number)[0]), 0) < 3:
            ended, _ = ray.wait([task], timeout=0.05)
            assert not ended, ray.get(task)
        ray.cancel(task, force=True)
        values, _ = d.lookup(keys_of(number))
        assert len(set(values.tolist())) == 1 and values[0] >= 3
        d.add(keys_of(number), 1000)
        after, _ = d.lookup(keys_of(number))
        assert len(set(after.tolist())) == 1 and after[0] >= values[0] + 1000
    d.close()


def test_a_snapshot_is_lost_with_its_shard_and_says_so(cluster: Any, tmp_path: Path) -> None:
    d = make(shards=2, path=tmp_path)
    keys = np.arange(100, dtype=np.int64)
    d.insert(keys, keys)
    with d.snapshot() as frozen:
        d.clear()
        assert len(frozen) == 100 and len(d) == 0
        assert frozen.lookup(keys)[1].all()
        kill(d._cluster.sequencer)
        assert frozen.keys().tolist() == keys.tolist()
        kill(d._cluster.shard(0))
        with pytest.raises(SnapshotLost):
            frozen.lookup(keys)
    assert len(d) == 0
    d.close()
