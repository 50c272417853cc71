"""The files of a shard of `gpulsm.ray`: torn logs, checkpoints, and actors that were replaced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray")

import gpulsm
from gpulsm._settings import checked
from gpulsm._stored import Types
from gpulsm.ray.layout import even_layout
from gpulsm.ray.log import Files, Replaced
from gpulsm.ray.protocol import Batch, Committed, EpochBegun, Prepared
from gpulsm.ray.shard import Body, Config, Shard

KEY = np.dtype(np.uint32)


def config() -> Config:
    types = Types(KEY, KEY, ("replace", ""))
    settings = checked("cpu", 64, 1, None, None, "automatic", ("replace", ""))
    return Config(types.names(), settings, KEY, 4)


def open_shard(path: Path) -> Shard:
    return Shard(config(), 0, even_layout(2, KEY), Files(path))


def batch(number: int, *keys: int) -> Batch:
    array = np.array(keys, KEY)
    body = Body("update", [array, array * 10, np.empty(0, KEY)])
    return Batch(number, 1, number - 1, (0,), "client", number, body)


def prepare(shard: Shard, *batches: Batch) -> None:
    for each in batches:
        assert shard.state.prepare(each) is None
        shard.log(Prepared(each))
        shard.state.replay(Prepared(each))


def begun(path: Path) -> Shard:
    shard = open_shard(path)
    shard.log(EpochBegun(1))
    shard.state.replay(EpochBegun(1))
    return shard


def test_what_was_prepared_is_found_again(tmp_path: Path) -> None:
    prepare(begun(tmp_path), batch(1, 5, 6), batch(2, 7))
    again = open_shard(tmp_path)
    assert sorted(again.state.pending) == [1, 2] and again.state.epoch == 1
    for number in (1, 2):
        again.later(Committed(number))
    again._apply_all()
    assert again.store.len() == 3
    assert again.state.clients == {"client": (2, 2)}


def test_a_torn_end_is_ignored_wherever_it_is_torn(tmp_path: Path) -> None:
    shard = begun(tmp_path / "whole")
    prepare(shard, batch(1, 5))
    assert shard.files is not None
    [(_, segment)] = shard.files.segments()
    before = segment.stat().st_size
    prepare(shard, batch(2, 6, 7))
    whole = segment.read_bytes()
    for length in range(before, len(whole), 7):
        folder = tmp_path / f"torn-{length}"
        folder.mkdir()
        (folder / segment.name).write_bytes(whole[:length])
        torn = open_shard(folder)
        assert sorted(torn.state.pending) == [1]
        prepare(torn, batch(3, 9))
        assert sorted(open_shard(folder).state.pending) == [1, 3]


def test_damage_before_the_end_is_an_error(tmp_path: Path) -> None:
    shard = begun(tmp_path)
    prepare(shard, batch(1, 5))
    assert shard.files is not None
    [(_, segment)] = shard.files.segments()
    end = segment.stat().st_size
    prepare(shard, batch(2, 6))
    damaged = bytearray(segment.read_bytes())
    damaged[end - 1] ^= 1
    segment.write_bytes(damaged)
    with pytest.raises(gpulsm.CorruptFile):
        open_shard(tmp_path)


def test_a_checkpoint_replaces_the_log_before_it(tmp_path: Path) -> None:
    shard = begun(tmp_path)
    prepare(shard, batch(1, 5, 6), batch(2, 7), batch(3, 8))
    shard.later(Committed(1))
    shard._apply_all()
    store, note, pending = shard.begin_checkpoint()
    shard.begin_segment(note, pending)
    shard.write_checkpoint(store, note)
    assert shard.files is not None and len(shard.files.segments()) == 1
    again = open_shard(tmp_path)
    assert again.store.len() == 2 and sorted(again.state.pending) == [2, 3]
    assert again.state.clients == {"client": (1, 1)} and again.state.position == 1
    saved = next(tmp_path.glob("*.gpulsm"))
    assert dict(gpulsm.Dictionary.load(saved, device="cpu").items()) == {5: 50, 6: 60}


def test_a_checkpoint_that_was_not_finished_does_not_count(tmp_path: Path) -> None:
    shard = begun(tmp_path)
    prepare(shard, batch(1, 5), batch(2, 7))
    shard.later(Committed(1))
    shard._apply_all()
    store, note, pending = shard.begin_checkpoint()
    shard.begin_segment(note, pending)
    store.save(str(tmp_path / f"checkpoint-{note['segment']:08}.gpulsm"), True, None)
    again = open_shard(tmp_path)
    assert sorted([*again.state.pending]) == [1, 2] or again.store.len() == 1
    assert again.state.tail == 2


def test_an_actor_that_was_replaced_cannot_write(tmp_path: Path) -> None:
    zombie = begun(tmp_path)
    prepare(zombie, batch(1, 5))
    owner = open_shard(tmp_path)
    with pytest.raises(Replaced):
        zombie.log(Prepared(batch(2, 6)))
    with pytest.raises(Replaced):
        zombie.write_checkpoint(*_captured(zombie))
    prepare(owner, batch(3, 7))
    for _ in range(2):
        assert sorted(open_shard(tmp_path).state.pending) == [1, 3], (
            "what it wrote counts for nobody"
        )


def _captured(shard: Shard) -> Any:
    store, note, _ = shard.begin_checkpoint()
    note["segment"] = 99
    return store, note


def test_a_full_disk_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = begun(tmp_path)
    prepare(shard, batch(1, 5))

    written = os.write

    def half(descriptor: int, data: memoryview) -> int:
        written(descriptor, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space"):
            shard.log(Prepared(batch(2, 6)))
        with pytest.raises(OSError, match="No space"):
            shard.begin_segment(*shard.begin_checkpoint()[1:])
    prepare(shard, batch(3, 7))
    assert sorted(open_shard(tmp_path).state.pending) == [1, 3]


def test_a_disk_that_fails_is_not_written_to_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = begun(tmp_path)
    prepare(shard, batch(1, 5))

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            shard.log(Prepared(batch(2, 6)))
    with pytest.raises(gpulsm.UpdatesRefused, match="open it again"):
        shard.log(Prepared(batch(3, 7)))
    assert sorted(open_shard(tmp_path).state.pending) == [1]


def test_a_record_whose_owner_could_not_be_looked_up_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = begun(tmp_path)
    prepare(shard, batch(1, 5))

    def fail(_: Files) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Files, "_owner", fail)
        with pytest.raises(OSError, match="Too many"):
            shard.log(Prepared(batch(2, 6)))
    with pytest.raises(gpulsm.UpdatesRefused):
        shard.log(EpochBegun(2))  # It would tell a sequencer that it does not have the batch.
    assert sorted(open_shard(tmp_path).state.pending) == [1, 2]


def test_a_segment_that_can_neither_be_begun_nor_removed_hides_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = begun(tmp_path)
    prepare(shard, batch(1, 5))

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        patch.setattr(Path, "unlink", fail)
        with pytest.raises(OSError, match="Input/output"):
            shard.begin_segment(*shard.begin_checkpoint()[1:])
    with pytest.raises(gpulsm.UpdatesRefused):
        prepare(shard, batch(2, 6))
    assert sorted(open_shard(tmp_path).state.pending) == [1]


def test_a_slow_actor_does_not_end_the_one_that_came_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Files._replace
    later: list[Files] = []

    def slow(self: Files, name: str, contents: bytes) -> None:
        if not later:
            monkeypatch.setattr(Files, "_replace", replace)
            later.append(Files(tmp_path))
        replace(self, name, contents)

    monkeypatch.setattr(Files, "_replace", slow)
    with pytest.raises(Replaced):
        Files(tmp_path)
    later[0].begin_segment()
    later[0].append([])
    last = Files(tmp_path)
    with pytest.raises(Replaced):
        later[0].append([])
    last.check_owner()
