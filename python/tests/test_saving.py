"""Saved files: what they replace, and what is told meanwhile."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsm


def test_saving_replaces_a_file_unless_told_not_to(path: str, tmp_path: Path) -> None:
    old, new = gpulsm.Dictionary.build([1], [10]), gpulsm.Dictionary.build([2], [20])
    old.save(path, overwrite=False)
    with pytest.raises(FileExistsError, match="this file exists; to replace it, give ove") as error:
        new.save(path, overwrite=False)
    assert (error.value.errno, error.value.filename) == (errno.EEXIST, path)
    assert dict(gpulsm.Dictionary.load(path).items()) == {1: 10}
    new.save(path)
    new.snapshot().save(path, overwrite=np.bool_(True))
    assert dict(gpulsm.Dictionary.load(path).items()) == {2: 20}
    with pytest.raises(TypeError, match="overwrite: expected True or False, got str"):
        new.save(path, overwrite="no")  # type: ignore[arg-type]
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_what_is_there_is_not_overwritten_whatever_it_is(tmp_path: Path) -> None:
    d = gpulsm.Dictionary.build([1], [10])
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "nowhere").symlink_to("missing")
    for name in ("folder", "file", "link", "nowhere"):
        with pytest.raises(FileExistsError):
            d.save(tmp_path / name, overwrite=False)
    assert (tmp_path / "file").read_bytes() == b"" and not (tmp_path / "missing").exists()
    assert len(list(tmp_path.iterdir())) == 4


def test_a_folder_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (".", "..", str(tmp_path)):
        with pytest.raises(IsADirectoryError, match="this is a folder; name a file in it") as error:
            gpulsm.Dictionary().save(folder)
        assert (error.value.errno, error.value.filename) == (errno.EISDIR, folder)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_comes_meanwhile_is_not_overwritten(path: str, tmp_path: Path) -> None:
    d = gpulsm.Dictionary.build([1, 2], [10, 20])
    calls = []

    def create(done: int, total: int) -> None:
        calls.append(done)
        assert not os.path.exists(path)
        Path(path).write_text("another program's")

    with pytest.raises(FileExistsError):
        d.save(path, create, overwrite=False)
    assert calls and Path(path).read_text() == "another program's"
    assert len(list(tmp_path.iterdir())) == 1


def test_of_many_that_save_a_new_file_one_succeeds(path: str, tmp_path: Path) -> None:
    def save(number: int) -> bool:
        try:
            gpulsm.Dictionary.build([number], [number]).save(path, overwrite=False)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            saved = list(pool.map(save, range(8)))
            assert sum(saved) == 1
            assert list(gpulsm.Dictionary.load(path)) == [saved.index(True)]
            assert len(list(tmp_path.iterdir())) == 1
            os.remove(path)


def test_progress_that_fails_leaves_a_new_file_complete(path: str) -> None:
    def fail(done: int, total: int) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError):
        gpulsm.Dictionary.build([1], [10]).save(path, fail, overwrite=False)
    assert gpulsm.check(path).entries == 1


def test_progress_is_told(path: str, tmp_path: Path, device: str) -> None:
    d = gpulsm.Dictionary.build(np.arange(3_000_000), np.arange(3_000_000), device=device)
    with gpulsm.open(path + "2", "int64", "int64", device=device) as opened:
        opened.insert(np.arange(3_000_000), np.arange(3_000_000))
        opened.checkpoint()

    for run in (
        lambda told: gpulsm.open(path + "2", device=device, progress=told).close(),
        lambda told: d.save(path, progress=told),
        lambda told: gpulsm.Dictionary.load(path, device=device, progress=told),
        lambda told: gpulsm.check(path, progress=told),
    ):
        calls: list[tuple[int, int]] = []
        run(lambda *call, calls=calls: calls.append(call))
        assert len(calls) > 2 and calls == sorted(calls)
        assert calls[-1][0] == calls[-1][1] >= 48_000_000

    def fail(done: int, total: int) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError):
        d.save(tmp_path / "again", progress=fail)
    assert gpulsm.check(tmp_path / "again").entries == 3_000_000
    with pytest.raises(KeyError):
        gpulsm.check(path, fail)
    with pytest.raises(TypeError, match="progress: expected a function of two numbers, got int"):
        d.save(path, progress=3)  # type: ignore[arg-type]


def test_what_progress_does_need_not_wait(path: str) -> None:
    with gpulsm.open(path, "uint32", "uint32") as d:
        d.insert(np.arange(100, dtype=np.uint32), 1)

        def use(done: int, total: int) -> None:
            d.insert([1000], [1])
            d.close()

        d.save(path + ".file", progress=use)
        assert d.closed
    assert len(gpulsm.Dictionary.load(path + ".file")) == 100
    with gpulsm.open(path) as d:
        assert len(d) == 101


def test_a_missing_folder_is_named(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    d = gpulsm.Dictionary.build([1], [10])
    deeper = os.path.join(path, "b", "c.csv")
    uses: list[Callable[[str], Any]] = [
        lambda at: gpulsm.open(at, "uint32", "uint32"),
        lambda at: d.save(at),
        lambda at: d.snapshot().save(at, overwrite=False),
        lambda at: d.to_file(at),
    ]
    for use in uses:
        with pytest.raises(FileNotFoundError, match="there is no such folder; `os.mak") as error:
            use(deeper)
        assert error.value.errno == errno.ENOENT
        assert error.value.filename == os.path.join(path, "b")
    assert not os.path.exists(path)
    os.makedirs(os.path.join(path, "b"))
    monkeypatch.chdir(path)
    d.to_file("d.csv")
    for use in uses[1:3]:
        with pytest.raises(FileNotFoundError) as error:
            use("c/d")
        assert error.value.filename == "c"
    with pytest.raises(
        FileNotFoundError, match=r"`os.path.expanduser\(…\)` replaces ~ by the home"
    ):
        d.save("~/c")
    gpulsm.open("here/", "uint32", "uint32").close()
    assert len(gpulsm.open("here")) == 0
    d.save("b/c")
    assert len(gpulsm.Dictionary.load("b/c")) == 1
