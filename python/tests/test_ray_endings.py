"""`gpulsm.ray`: what ends when, and what is said then: names, handles, snapshots, files that others open, lost shards."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_cluster import actors_of, kill

pytest.importorskip("ray")

import ray

import gpulsm
from gpulsm.ray import ShardedDictionary, ShardLost, TimedOut
from gpulsm.ray.data import DictionarySource
from gpulsm.ray.layout import even_layout
from gpulsm.ray.starting import start_shard

#: A key of each half of all keys.
HALVES = np.array([1, 2**31 + 5], np.uint32)


def make(key: Any = "uint32", value: Any = "uint32", **settings: Any) -> ShardedDictionary:
    options = {"resources": {"num_cpus": 0}, "device": "cpu", "threads": 1, "timeout": 60.0}
    return ShardedDictionary(key, value, **{"shards": 2, **options, **settings})


def test_an_open_that_fails_takes_nothing_from_who_has_the_files(
    cluster: Any, tmp_path: Path
) -> None:
    d = make(path=tmp_path, name="live")
    d.insert(HALVES, HALVES)
    mistakes: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"combine": "max"}, ValueError),
        ({"key": "uint64", "shards": 4}, ValueError),
        ({"device": "cuda:99"}, gpulsm.CudaError),
        ({"resources": [{"num_cpus": 0}, {"num_cpus": 1000}], "timeout": 5.0}, TimedOut),
    ]
    folders = sorted(path.name for path in tmp_path.iterdir())
    (tmp_path / "shard-0001").rename(tmp_path / "elsewhere")
    for shards in (1, 2):
        with pytest.raises(FileNotFoundError, match="no files of shard-0001"):
            make(path=tmp_path, shards=shards)
    (tmp_path / "elsewhere").rename(tmp_path / "shard-0001")
    for settings, kind in mistakes:
        with pytest.raises(kind):
            make(**{"path": tmp_path, **settings})
        assert sorted(path.name for path in tmp_path.iterdir()) == folders
    d.insert([7], [7])  # The owner is looked up.
    assert d.lookup([*HALVES.tolist(), 7])[1].all()
    d.close()


def test_files_that_could_not_be_read_stay_with_who_has_them(cluster: Any, tmp_path: Path) -> None:
    keys = np.arange(1 << 18, dtype=np.uint32)
    d = make(path=tmp_path, name="large")
    d.insert(keys, keys)
    d.checkpoint()
    with pytest.raises(gpulsm.OutOfMemoryError):
        make(path=tmp_path, memory_limit=1 << 18, batch_size=64)
    d.insert(HALVES, HALVES)
    d.insert(HALVES, [5, 6])
    segment = max((tmp_path / "shard-0001").glob("log-*"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1 :])
    with pytest.raises(gpulsm.CorruptFile):
        make(path=tmp_path)
    with segment.open("r+b") as file:
        file.write(whole)
    d.insert(HALVES, [7, 8])
    assert d.lookup(HALVES)[0].tolist() == [7, 8]
    with make(path=tmp_path, name="second") as again:
        assert actors_of("large") == []
        assert again.lookup(keys)[1].all() and again.lookup(HALVES)[0].tolist() == [7, 8]


def test_shards_that_were_added_must_have_room_before_anybody_loses_them(
    cluster: Any, tmp_path: Path
) -> None:
    d = make(path=tmp_path, name="added")
    d.insert(HALVES, HALVES)
    d.add_shards(1)
    free = ray.available_resources()["CPU"]
    with pytest.raises(TimedOut):
        make(path=tmp_path, resources={"num_cpus": free / 2}, timeout=6.0)
    assert d.lookup(HALVES)[1].all() and len(actors_of("added")) == 4
    d.close()


def test_who_was_to_be_ended_by_an_opener_that_died_is_ended_by_the_next(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(path=tmp_path, name="first").insert(HALVES, HALVES)

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("gpulsm.ray.starting._end_formers", die)
        with pytest.raises(KeyboardInterrupt):
            make(path=tmp_path)
    assert actors_of("first") != []
    with make(path=tmp_path) as d:
        assert d.lookup(HALVES)[1].all() and actors_of("first") == []


def test_another_way_to_a_folder_is_the_same_folder(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    first = make(path=tmp_path / "folder", name="first")
    first.insert(HALVES, HALVES)
    with make(path=os.fsencode(tmp_path / "link")) as second:
        assert actors_of("first") == [] and second.path == str(tmp_path / "folder")


def test_old_handles_have_nothing_to_do_with_a_new_dictionary_of_that_name(cluster: Any) -> None:
    old = make(name="reused")
    handles = [ShardedDictionary.attach("reused"), pickle.loads(pickle.dumps(old))]
    fresh = pickle.dumps(ShardedDictionary.attach("reused"))
    old.close()
    new = make("float64", "float64", name="reused")
    new.insert([-5.0, 5.0], [2.0, 2.5])
    for handle in handles:
        with pytest.raises(ShardLost, match="has ended"):
            handle.lookup([1])
        with pytest.raises(ShardLost, match="has ended"):
            handle.insert([1], [1])
        handle.close()
    with pytest.raises(ShardLost, match="has ended"):
        pickle.loads(fresh)
    assert new.lookup([-5.0, 5.0])[0].tolist() == [2.0, 2.5]
    new.close()


def test_shards_of_an_unnamed_dictionary_live_as_long_as_others(cluster: Any) -> None:
    @ray.remote(num_cpus=0, max_retries=0)
    def add(dictionary: ShardedDictionary) -> None:
        dictionary.add_shards(1)

    @ray.remote(num_cpus=0, max_retries=0)
    def length(dictionary: ShardedDictionary) -> int:
        time.sleep(2.0)
        return len(dictionary)

    def started() -> Any:
        d = make()
        d.insert(np.arange(1000, dtype=np.uint32), 1)
        d.rebalance()
        with pytest.raises(ValueError, match="give it a `name`"):
            ray.get(add.remote(d), timeout=60)
        d.add_shards(1)
        return length.remote(d)

    reference = started()
    gc.collect()
    assert ray.get(reference, timeout=120) == 1000


def test_the_lease_is_that_of_a_snapshot_not_of_each_shard(cluster: Any) -> None:
    with make() as d:
        d.insert(HALVES, HALVES)
        with d.snapshot(lease=2.0) as before:
            for _ in range(5):
                time.sleep(0.5)
                assert before.lookup(HALVES[:1])[1].all()
            assert before.lookup(HALVES[1:])[1].all()
            for _ in range(5):
                time.sleep(0.5)
                assert before.stats().live == 2
            assert before.lookup(HALVES)[1].all()


def test_keys_of_one_shard_do_not_wait_for_another_one_to_be_divided(
    cluster: Any, tmp_path: Path
) -> None:
    d = make(timeout=20.0, path=tmp_path)
    stopped: int = ray.get(d._cluster.shard(1).process.remote(), timeout=60)
    os.kill(stopped, signal.SIGSTOP)
    try:
        times = []
        for _ in range(2):
            start = time.monotonic()
            d.insert(np.arange(10, dtype=np.uint32), 1)
            times.append(time.monotonic() - start)
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert times[0] < 15.0 and times[1] < 2.0, times
    d.close()


def test_without_a_cluster_nothing_is_started(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    d = make()
    other = pickle.loads(pickle.dumps(d))
    with monkeypatch.context() as patch:
        patch.setattr(ray, "is_initialized", lambda: False)
        with pytest.raises(ShardLost, match="not connected"):
            d.lookup([1])
        other.close()
    assert len(d) == 0
    d.close()


def test_what_was_begun_and_never_used_can_be_made(cluster: Any, tmp_path: Path) -> None:
    description = make(path=tmp_path / "other", shards=3)._cluster.description
    description = replace(description, name="unfinished", path=str(tmp_path / "d"))
    layout = even_layout(3, np.dtype(np.uint32))
    handle = start_shard(description, 1, layout, {"num_cpus": 0}, is_new=True)
    ray.get(handle.claim.remote("files", 0, False), timeout=60)
    assert ray.get(handle.begin.remote(), timeout=60).epoch == 0
    ray.kill(handle)
    with pytest.raises(ValueError, match="never used; make it with shards=3"):
        make(path=tmp_path / "d", shards=2)
    with make(path=tmp_path / "d", shards=3) as d:
        d.insert(HALVES, HALVES)
        assert d.lookup(HALVES)[1].all()


def test_more_shards_than_the_files_have_leave_nothing_behind(cluster: Any, tmp_path: Path) -> None:
    with make(path=tmp_path, shards=1) as d:
        d.insert([1, 2], [3, 4])
    with make(path=tmp_path, shards=4) as again:
        assert again.shards == 1 and again[2] == 4
    assert [path.name for path in tmp_path.iterdir()] == ["shard-0000"]


def test_a_dictionary_whose_files_are_opened_ends(cluster: Any, tmp_path: Path) -> None:
    first = make(path=tmp_path, name="first")
    first.insert(HALVES, HALVES)
    fresh = ShardedDictionary.attach("first")
    second = make(path=tmp_path, name="second")
    assert actors_of("first") == [] and len(actors_of("second")) == 3
    for handle in (first, fresh):
        with pytest.raises(ShardLost, match="its files were opened by another one"):
            handle.lookup([1])
    assert second.lookup(HALVES)[1].all()
    second.close()


def test_a_dictionary_of_the_same_name_elsewhere_goes_on(cluster: Any, tmp_path: Path) -> None:
    with make(path=tmp_path / "one", name="reused"):
        pass
    other = make(path=tmp_path / "two", name="reused")
    with make(path=tmp_path / "one", name="opener"):
        assert len(actors_of("reused")) == 3
    other.insert(HALVES, HALVES)
    assert other.lookup(HALVES)[1].all()
    other.close()


def test_who_was_closed_by_others_is_told_that_nothing_is_lost(
    cluster: Any, tmp_path: Path
) -> None:
    d = make(path=tmp_path, name="shared")
    d.insert(HALVES, HALVES)
    handle = ShardedDictionary.attach("shared")
    assert handle.shards == 2
    d.close()
    with pytest.raises(ShardLost, match="was closed.* open it again"):
        handle.lookup([1])


def test_any_name_outlives_its_handles(cluster: Any) -> None:
    d = make(name="unnamed-prices")
    d.insert(HALVES, HALVES)
    del d
    gc.collect()
    time.sleep(1.0)
    with ShardedDictionary.attach("unnamed-prices", timeout=60.0) as found:
        assert found.lookup(HALVES)[1].all()
        found.close()


def test_a_task_keeps_what_it_was_given(cluster: Any) -> None:
    @ray.remote(num_cpus=0, max_retries=0)
    def length(dictionary: ShardedDictionary) -> int:
        time.sleep(1.0)
        return len(dictionary)

    def started() -> Any:
        d = make()
        d.insert(HALVES, HALVES)
        return length.remote(d)

    reference = started()
    gc.collect()
    assert ray.get(reference, timeout=120) == 2


def test_a_snapshot_can_be_closed_after_its_dictionary(cluster: Any) -> None:
    d = make()
    d.insert(HALVES, HALVES)
    with d.snapshot() as frozen:
        assert len(frozen) == 2
        d.close()
        assert "closed" in repr(frozen)
        with pytest.raises(ValueError, match="closed"):
            frozen.lookup([1])


def test_keys_of_living_shards_are_updated_before_there_are_splitters(cluster: Any) -> None:
    d = make()
    d.insert(HALVES, HALVES)
    kill(d._cluster.shard(0))
    with pytest.raises(ShardLost, match="less than 2147483648"):
        d.lookup([1])
    above = np.arange(2**31 + 10, 2**31 + 110, dtype=np.uint32)
    d.insert(above, above)
    assert d.lookup(above)[1].all()
    d.checkpoint()
    d.close()


@pytest.mark.parametrize(
    ("key", "keys", "text"),
    [
        (("uint32", "int64"), ([3, 4, 5, 6], [-1, -2, -3, -4]), r"from \(5, -3\) on"),
        ("S16", np.array([b"aa", b"bb", b"cc", b"dd"], "S16"), r"from b'cc.* on"),
        ("datetime64[s]", np.arange(4).astype("M8[s]"), "from 1970-01-01T00:00:02 on"),
    ],
)
def test_lost_keys_are_named_as_they_were_given(
    cluster: Any, key: Any, keys: Any, text: str
) -> None:
    d = make(key)
    d.insert(keys, [1, 2, 3, 4])
    kill(d._cluster.shard(1))
    with pytest.raises(ShardLost, match=text):
        d.successor(keys)
    d.close()


def test_the_limit_of_a_shard_is_none_for_what_is_gathered(cluster: Any, tmp_path: Path) -> None:
    limits: dict[str, Any] = {"memory_limit": 4 << 20, "batch_size": 1 << 10, "device": "cpu"}
    d = make("uint64", "uint64", shards=3, **limits)
    keys = np.random.default_rng(1).permutation(1 << 17).astype(np.uint64)
    for part in np.split(keys, 16):
        d.insert(part, part)
    with pytest.raises(gpulsm.OutOfMemoryError):
        gpulsm.Dictionary("uint64", "uint64", **limits).insert(keys, keys)
    d.save(tmp_path / "all.gpulsm")
    assert len(gpulsm.Dictionary.load(tmp_path / "all.gpulsm")) == len(keys)
    assert (d.asof(keys)[1] == keys).all()
    d.close()


def test_waiting_for_other_batches_times_out_as_well(cluster: Any) -> None:
    d = make(timeout=4.0, in_flight=1)
    d.insert(HALVES, HALVES)
    stopped: int = ray.get(d._cluster.shard(1).process.remote(), timeout=60)
    os.kill(stopped, signal.SIGSTOP)

    def insert(_: int) -> float:
        start = time.monotonic()
        with pytest.raises(TimedOut):
            d.insert(HALVES, HALVES)
        return time.monotonic() - start

    try:
        with ThreadPoolExecutor(4) as pool:
            times = list(pool.map(insert, range(4)))
    finally:
        os.kill(stopped, signal.SIGCONT)
    assert max(times) < 7.0, times
    d.close()


def wrong_dictionary() -> Any:
    return gpulsm.Dictionary()


def test_figures_have_what_was_acknowledged(cluster: Any) -> None:
    with make() as d:
        for count in range(1, 60):
            d.insert(HALVES + np.uint32(count), HALVES)
            assert d.stats().live == 2 * count


def test_what_is_lost_can_be_shown(cluster: Any) -> None:
    d = make(name="shown")
    d.insert(HALVES, HALVES)
    kill(d._cluster.shard(0))
    with pytest.raises(ShardLost):
        len(d)
    assert "shown" in repr(d) and "can't be counted" in str(d)
    d.close()
    with pytest.raises(ValueError, match="closed"):
        pickle.dumps(d)


def test_what_can_not_be_says_why(cluster: Any, tmp_path: Path) -> None:
    d = make(timeout=5.0)
    with pytest.raises(TimedOut, match=r"they ask for \{'num_cpus': 1000\} each, and .* is free"):
        d.add_shards(1, resources={"num_cpus": 1000})
    with pytest.raises(TypeError, match="resources: expected a dict"):
        make(resources=5)
    with pytest.raises(ValueError, match="'name' of actors is set by the dictionary"):
        make(resources=[{}, {"name": "mine"}])
    with pytest.raises(ValueError, match="path: expected the name of a folder"):
        make(path="")
    wrong: Any = 3
    with pytest.raises(TypeError, match="path: expected the name of a folder"):
        make(path=wrong)
    for devices in (["cpu", "cpu"], "cpu,cpu"):
        with pytest.raises(TypeError, match="device: expected one device"):
            make(device=devices)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="other files in .* such as 'file'; give a folder"):
        make(path=tmp_path)
    with pytest.raises(NotADirectoryError, match="path: .* is a file"):
        make(path=tmp_path / "file")
    with pytest.raises(TypeError, match="expected a ShardedDictionary, got Dictionary"):
        DictionarySource(wrong_dictionary())
    with pytest.raises(TimedOut, match=r"\{\} and \{'num_cpus': 1000\}, and"):
        make(resources=[{}, {"num_cpus": 1000}], timeout=4.0)
    with pytest.raises(ValueError, match="timeout: expected a number of seconds above 0 and up to"):
        make(timeout=1e300)
    local: Any = gpulsm.Dictionary("uint32", "uint32", device="cpu")
    with pytest.raises(TypeError, match="expected a dictionary of this process, got Sharded"):
        local.merge_from(d)
    d.insert(HALVES, HALVES)
    local.insert(*d.arrays())
    assert len(local) == 2
    d.close()
