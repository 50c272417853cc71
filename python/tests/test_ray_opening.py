"""`gpulsm.ray` dictionaries that are opened again: other types, other numbers of shards, missing files, full memory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_cluster import kill

pytest.importorskip("ray")

import ray

import gpulsm
from gpulsm.ray import ShardedDictionary


def make(
    path: Path, key: str = "int64", value: str = "int64", **settings: Any
) -> ShardedDictionary:
    options = {"resources": {"num_cpus": 0}, "device": "cpu", "threads": 1, "timeout": 60.0}
    return ShardedDictionary(key, value, path=path, **{**options, **settings})


def kill_all(d: ShardedDictionary) -> None:
    """Ends every actor, as the loss of all nodes does."""
    for shard in d._cluster.layout.shards:
        ray.kill(d._cluster.shard(shard))
    ray.kill(d._cluster.sequencer)


def test_shards_that_were_added_are_found_again(cluster: Any, tmp_path: Path) -> None:
    d = make(tmp_path, shards=2)
    d.insert(np.arange(500, dtype=np.int64), 1)
    d.insert(np.arange(500, 1200, dtype=np.int64), 2)
    d.add_shards(2)
    d.insert([2000], [3])
    layout = d._cluster.layout.shards
    assert sorted(layout) != list(layout), "in another order than that of their numbers"
    kill_all(d)
    again = make(tmp_path, shards=2)
    keys = np.arange(1200, dtype=np.int64)
    values, found = again.lookup(keys)
    assert found.all() and values.tolist() == [1] * 500 + [2] * 700
    assert again.shards == 4 and len(again) == 1201 and again[2000] == 3
    again.insert(keys, 4)
    assert set(again.values().tolist()) == {3, 4}
    again.close()


@pytest.mark.parametrize("shards", [1, 4])
def test_the_number_of_shards_is_that_of_the_files(
    cluster: Any, tmp_path: Path, shards: int
) -> None:
    d = make(tmp_path, shards=2)
    d.insert([-5, 7], [1, 2])
    kill_all(d)
    again = make(tmp_path, shards=shards)
    assert again.shards == 2 and again[-5] == 1 and again[7] == 2
    again.close()


def test_other_types_are_refused(cluster: Any, tmp_path: Path) -> None:
    d = make(tmp_path, shards=2, combine="add", name="typed")
    d.insert([1], [1])
    with pytest.raises(ValueError, match="attach"):
        make(tmp_path, name="typed")
    d.close()
    for key, value, combine in (("int32", "int64", "add"), ("int64", "float64", "add")):
        with pytest.raises(ValueError, match="open it as it was made"):
            make(tmp_path, key, value, combine=combine)
    with pytest.raises(ValueError, match="combine='add', not 'replace'"):
        make(tmp_path, name="typed")
    again = make(tmp_path, combine="add", name="typed")
    assert again[1] == 1
    again.close()


def test_files_that_are_missing_are_an_error(cluster: Any, tmp_path: Path) -> None:
    d = make(tmp_path, shards=2)
    d.insert(np.arange(100, dtype=np.int64), 1)
    shutil.rmtree(tmp_path / "shard-0001")
    kill(d._cluster.shard(1))
    with pytest.raises(FileNotFoundError, match="storage that every node sees"):
        d.lookup(np.arange(100, dtype=np.int64))
    d.close()
    with pytest.raises(FileNotFoundError, match="no files of shard-0001"):
        make(tmp_path, shards=2)


def test_damaged_files_are_an_error_and_can_be_closed(cluster: Any, tmp_path: Path) -> None:
    d = make(tmp_path, shards=2, name="damaged")
    d.insert(np.arange(100, dtype=np.int64), 1)
    d.insert(np.arange(100, dtype=np.int64), 2)
    segment = sorted((tmp_path / "shard-0001").glob("log-*"))[-1]
    raw = bytearray(segment.read_bytes())
    raw[len(raw) // 3] ^= 1
    segment.write_bytes(raw)
    kill(d._cluster.shard(1))
    with pytest.raises(gpulsm.CorruptFile, match="does not hold what was written"):
        d.lookup(np.arange(100, dtype=np.int64))
    assert d[0] == 2, "the other shard works"
    d.close()
    with pytest.raises(ValueError, match="no dictionary"):
        ShardedDictionary.attach("damaged")


def test_who_opens_the_files_of_another_has_them(cluster: Any, tmp_path: Path) -> None:
    first = make(tmp_path, shards=2)
    first.insert([1, 2], [1, 2])
    second = make(tmp_path, shards=2)
    assert second[1] == 1
    with pytest.raises(gpulsm.Error, match="died|ended"):
        first.insert([1], [5])
    second.insert([1], [7])
    assert second[1] == 7
    second.close()


@pytest.mark.parametrize("shards", [1, 3])
def test_a_dictionary_without_its_first_shard_is_none(
    cluster: Any, tmp_path: Path, shards: int
) -> None:
    with make(tmp_path, shards=3) as d:
        d.insert(np.arange(100, dtype=np.int64), 1)
    shutil.move(tmp_path / "shard-0000", tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="no files of shard-0000, which"):
        make(tmp_path, shards=shards)
    assert not (tmp_path / "shard-0000").exists()
    shutil.move(tmp_path / "elsewhere", tmp_path / "shard-0000")
    with make(tmp_path) as again:
        assert len(again) == 100 and again.shards == 3


def test_shards_of_different_dictionaries_are_not_put_together(
    cluster: Any, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        with make(tmp_path / name) as d:
            d.insert(np.arange(100, dtype=np.int64), 1)
    shutil.rmtree(tmp_path / "one" / "shard-0001")
    shutil.copytree(tmp_path / "two" / "shard-0001", tmp_path / "one" / "shard-0001")
    with pytest.raises(ValueError, match="of different dictionaries: of shard-0000, shard-0001"):
        make(tmp_path / "one")


def test_a_path_may_have_any_name(cluster: Any, tmp_path: Path) -> None:
    with make(tmp_path / "already taken", name="any") as d:
        d.insert([1], [1])
    with pytest.raises(ValueError, match="open it as it was made"):
        make(tmp_path / "already taken", "int32")


def test_files_without_types_are_damaged(cluster: Any, tmp_path: Path) -> None:
    with make(tmp_path, shards=2) as d:
        d.insert(np.arange(100, dtype=np.int64), 1)
    shutil.copytree(tmp_path / "shard-0000", tmp_path / "shard-0000.bak")
    with make(tmp_path, shards=2) as d:
        assert len(d) == 100
    shutil.rmtree(tmp_path / "shard-0000.bak")
    for shard in ("shard-0000", "shard-0001"):
        (tmp_path / shard / "types.json").unlink()
    with pytest.raises(gpulsm.CorruptFile, match="'types.json', which tells of which, is missing"):
        make(tmp_path, "uint32", "float32")


def test_logs_that_are_missing_end_nobodys_work(cluster: Any, tmp_path: Path) -> None:
    with make(tmp_path, shards=2, name="working") as d:
        d.insert(np.arange(100, dtype=np.int64), 1)
        for segment in (tmp_path / "shard-0001").glob("log-*"):
            segment.rename(tmp_path / segment.name)
        with pytest.raises(FileNotFoundError, match="shard-0001.* is in use, and has no log"):
            make(tmp_path, shards=2)
        for segment in tmp_path.glob("log-*"):
            segment.rename(tmp_path / "shard-0001" / segment.name)
        assert len(d) == 100
        d.insert([1], [2])


def test_an_interrupted_start_leaves_no_actors(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("gpulsm.ray.starting._start_sequencer", interrupt)
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path, name="interrupted")
    with make(tmp_path, name="interrupted") as d:
        d.insert([1], [2])
