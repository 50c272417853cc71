"""Dictionaries of `gpulsm.ray` that are made of something: arrays, tables, files, other dictionaries, and snapshots."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from ray_cluster import actors_of

pytest.importorskip("ray")

import ray

import gpulsm
from gpulsm.ray import ShardedDictionary, ShardedSnapshot, SnapshotLost

SETTINGS: dict[str, Any] = {
    "resources": {"num_cpus": 0},
    "device": "cpu",
    "threads": 1,
    "timeout": 120.0,
}
KEYS = np.array([30, 10, 20, 10], np.uint64)
VALUES = np.array([3.0, 9.0, 2.0, 1.0], np.float32)


def unnamed_actors() -> set[str]:
    names = {actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)}
    return {name for name in names if name.startswith("unnamed-")}


def assert_equal(d: Any, expected: Any) -> None:
    assert (d.key_dtype, d.value_dtype) == (expected.key_dtype, expected.value_dtype)
    assert d.combine == expected.combine
    for mine, own in zip(d.arrays(), expected.arrays(), strict=True):
        np.testing.assert_array_equal(mine, own)


@pytest.mark.parametrize(
    ("sharded", "local"),
    [(ShardedDictionary, gpulsm.Dictionary), (ShardedSnapshot, gpulsm.Snapshot)],
)
def test_every_method_of_one_process_is_there(sharded: Any, local: Any) -> None:
    public = {name for name in dir(local) if not name.startswith("_") or name == "__copy__"}
    assert public <= set(dir(sharded))
    for name in public - {"__init__"}:
        if not callable(getattr(local, name)):
            continue
        own = inspect.signature(getattr(sharded, name)).parameters
        for parameter in inspect.signature(getattr(local, name)).parameters:
            renamed = parameter == "path" and name in ("from_file", "load")
            assert parameter in own or "settings" in own or renamed, (name, parameter)


def test_arrays_and_tables_make_dictionaries(cluster: Any) -> None:
    expected = gpulsm.Dictionary.build(KEYS, VALUES)
    columns = {"id": KEYS, "price": VALUES}
    frame, table = pandas.DataFrame(columns), pyarrow.table(columns)
    names = {"key": "id", "value": "price"}
    made = [
        ShardedDictionary.build(KEYS, VALUES, **SETTINGS),
        ShardedDictionary.from_pandas(frame, **names, **SETTINGS),
        ShardedDictionary.from_pandas(frame.set_index("id")["price"], **SETTINGS),
        ShardedDictionary.from_polars(polars.DataFrame(columns), **names, **SETTINGS),
        ShardedDictionary.from_arrow(table, **names, shards=3, **SETTINGS),
    ]
    assert [d.shards for d in made] == [2, 2, 2, 2, 3]
    for d in made:
        assert isinstance(d, ShardedDictionary)
        assert_equal(d, expected)
        d.close()
    with ShardedDictionary.build(KEYS, 1, value="uint64", combine="add", **SETTINGS) as d:
        assert d.lookup(np.uint64(10)) == (2, True)
    parts = (KEYS, KEYS[::-1].copy())
    with ShardedDictionary.build(parts, **SETTINGS) as d:
        assert_equal(d, gpulsm.Set.build(parts))


def test_files_make_dictionaries(cluster: Any, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("id,price\n30,3\n10,9\n20,2\n10,1\n")
    types: dict[str, Any] = {"key_type": "uint64", "value_type": "float32"}
    expected = gpulsm.Dictionary.from_file(file, "id", "price", **types)
    with ShardedDictionary.from_file(
        file, "id", "price", path=tmp_path / "d", **types, **SETTINGS
    ) as d:
        assert_equal(d, expected)
        d.sync()
    with ShardedDictionary("uint64", "float32", path=tmp_path / "d", **SETTINGS) as d:
        assert_equal(d, expected)
    with pytest.raises(ValueError, match="dictionary of 3 keys"):
        ShardedDictionary.build(KEYS, VALUES, path=tmp_path / "d", **SETTINGS)
    with ShardedDictionary("uint64", "float32", path=tmp_path / "d", **SETTINGS) as d:
        assert_equal(d, expected)


def test_saved_dictionaries_are_loaded(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulsm.ray.constructors._STEP", 1000)
    keys = np.arange(2500, dtype=np.int32) - 1000
    saved = gpulsm.Dictionary("int32", ("uint32", 2), combine="max", batch_size=128, device="cpu")
    saved.insert(keys, np.stack([keys.view(np.uint32), ~keys.view(np.uint32)], 1))
    saved.save(tmp_path / "one")
    told: list[tuple[int, int]] = []
    with ShardedDictionary.load(
        tmp_path / "one", progress=lambda *so_far: told.append(so_far), **SETTINGS
    ) as d:
        assert_equal(d, saved)
        assert d.batch_size == 128
        assert told == [(1000, 2500), (2000, 2500), (2500, 2500)]
        d.save(tmp_path / "several")
    assert_equal(gpulsm.Dictionary.load(tmp_path / "several"), saved)
    members = gpulsm.Set.build(keys)
    members.save(tmp_path / "set")
    with ShardedDictionary.load(
        tmp_path / "set", key="int32", path=tmp_path / "d", **SETTINGS
    ) as d:
        assert_equal(d, members)


def test_what_can_not_be_made_leaves_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulsm.ray.constructors._STEP", 2)
    there = unnamed_actors()
    with pytest.raises(gpulsm.DuplicateKeyError):
        ShardedDictionary.build(
            KEYS, VALUES, duplicates="error", path=tmp_path / "d", name="twice", **SETTINGS
        )
    with pytest.raises(FileNotFoundError):
        ShardedDictionary.from_file(tmp_path / "none.csv", **SETTINGS)
    with pytest.raises(FileNotFoundError):
        ShardedDictionary.load(tmp_path / "none", **SETTINGS)
    gpulsm.Dictionary.build(KEYS, VALUES).save(tmp_path / "saved")
    with pytest.raises(TypeError, match="progress"):
        ShardedDictionary.load(tmp_path / "saved", progress=1, **SETTINGS)

    def interrupt(done: int, _: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ShardedDictionary.load(
            tmp_path / "saved", progress=interrupt, path=tmp_path / "d", name="half", **SETTINGS
        )
    assert actors_of("twice") == actors_of("half") == []
    assert unnamed_actors() == there
    with ShardedDictionary("uint64", "float32", path=tmp_path / "e", **SETTINGS) as used:
        used.insert(KEYS, VALUES)
        for path in (tmp_path / "e", str(tmp_path / "d" / ".." / "e")):
            with pytest.raises(ValueError, match="path: a dictionary uses"):
                ShardedDictionary.build(KEYS, VALUES, path=path, **SETTINGS)
            with pytest.raises(ValueError, match="path: a dictionary uses"):
                used.copy(path=path)
        assert len(used) == 3
    with ShardedDictionary.build(KEYS, VALUES, path=tmp_path / "d", **SETTINGS) as d:
        assert_equal(d, gpulsm.Dictionary.build(KEYS, VALUES))


def test_copies_are_dictionaries_of_their_own(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulsm.ray.constructors._STEP", 1000)
    keys = np.arange(3500, dtype=np.uint32)
    with ShardedDictionary("uint32", None, path=tmp_path / "a", **SETTINGS) as d:
        d.insert(keys)
        d.add_shards(1)
        before = d.snapshot()
        backup = d.copy(path=tmp_path / "b", name="backup")
        d.delete_range(0, 1700)
        with copy.copy(d) as second, copy.deepcopy(d) as third, before.thaw() as thawed:
            assert [each.shards for each in (backup, second, third, thawed)] == [3] * 4
            assert (second.path, thawed.path) == (None, None)
            second.insert(np.uint32(5))
            thawed.clear()
            assert [len(each) for each in (d, second, third, thawed)] == [1799, 1800, 1799, 0]
            for each in (third, backup):
                lengths = [shard.live for shard in each.stats().shards]
                assert max(lengths) < 1.2 * sum(lengths) / 3, lengths
        assert len(before) == len(backup) == 3500
        with pytest.raises(ValueError, match="path: a dictionary uses"):
            d.copy(path=tmp_path / "b")
        backup.close()
        with pytest.raises(ValueError, match="dictionary of 3,500 keys"):
            d.copy(path=tmp_path / "b")
        assert len(d) == 1799
    with ShardedDictionary("uint32", None, path=tmp_path / "b", **SETTINGS) as opened:
        np.testing.assert_array_equal(opened.keys(), keys)


def test_snapshots_are_copied_and_are_arguments_of_tasks(cluster: Any) -> None:
    @ray.remote(num_cpus=0)
    def sum_of_keys(snapshot: ShardedSnapshot) -> int:
        with snapshot:
            return int(snapshot.keys().sum())

    with ShardedDictionary("uint32", "uint32", name="frozen", **SETTINGS) as d:
        d.insert([1, 2, 3, 2**31], [1, 2, 3, 4])
        with d.snapshot() as first:
            second = first.copy()
            d.clear()
            answers = [sum_of_keys.remote(each) for each in (first, second)]
            assert ray.get(answers, timeout=60) == [2**31 + 6] * 2
        with pytest.raises(SnapshotLost):
            len(first)
        with pytest.raises(SnapshotLost):
            first.copy()
        third = copy.deepcopy(second)
        second.close()
        assert len(third) == 4
        third.close()
