"""Whose folder it is: handles whose folder is moved, copied, removed or taken over."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsm

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="paths of Linux")


def opened(folder: Path, **settings: Any) -> gpulsm.Dictionary:
    d = gpulsm.open(folder, "uint32", "uint32", device="cpu", batch_size=64, **settings)
    assert isinstance(d, gpulsm.Dictionary)
    return d


def keys_in(folder: Path) -> list[int]:
    with gpulsm.open(folder, device="cpu") as d:
        d.validate()
        return [int(key) for key in d]


def elsewhere(program: str, *arguments: object) -> str:
    """What a program prints that another process runs; the name of the exception that ends it."""
    guarded = f"""
import sys
import gpulsm
arguments = sys.argv[1:]
try:
    {program}
except Exception as error:
    print(type(error).__name__)
"""
    command = [sys.executable, "-c", guarded, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()


def test_a_moved_folder_goes_on_working(tmp_path: Path) -> None:
    live, moved, other = tmp_path / "live", tmp_path / "moved", tmp_path / "new"
    d = opened(live)
    d.insert(range(1000), 1)
    with opened(other) as new:
        new.insert([5], 5)
    live.rename(moved)
    other.rename(live)
    d.insert(2000, 2)
    d.checkpoint()
    d.insert(2001, 2)
    d.close()
    assert keys_in(live) == [5]
    assert keys_in(moved) == [*range(1000), 2000, 2001]


def test_a_link_that_is_turned_changes_nothing(tmp_path: Path) -> None:
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "link"
    with opened(second) as d:
        d.insert([5], 5)
    opened(first).close()
    link.symlink_to(first)
    d = opened(link)
    d.insert([1, 2], 1)
    link.unlink()
    link.symlink_to(second)
    d.checkpoint()
    d.close()
    assert (keys_in(first), keys_in(second)) == ([1, 2], [5])


@pytest.mark.parametrize("how", ["removed", "unlocked"])
def test_only_one_of_two_handles_acknowledges(how: str, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    old = opened(folder)
    old.insert([1], 1)
    if how == "removed":
        shutil.rmtree(folder)
    else:
        (folder / "LOCK").unlink()
    new = opened(folder)
    new.insert([2], 2)
    failed = False
    calls: list[Callable[[], Any]] = [lambda: old.insert([3], 3), old.checkpoint, old.close]
    for call in calls:
        try:
            call()
        except (OSError, gpulsm.Error):
            failed = True
    assert failed, "the old handle acknowledges"
    new.insert([4], 4)
    new.checkpoint()
    new.close()
    kept = keys_in(folder)
    assert {2, 4} <= set(kept) and 3 not in kept


@pytest.mark.parametrize("how", ["copytree", "cp"])
def test_a_copy_of_an_open_folder_is_another(how: str, tmp_path: Path) -> None:
    folder, copy = tmp_path / "d", tmp_path / "copy"
    d = opened(folder)
    d.insert(range(100), 1)
    d.checkpoint()
    d.insert([1000], 1)
    if how == "copytree":
        shutil.copytree(folder, copy)  # Opens LOCK, and closes it.
    else:
        subprocess.run(["cp", "-a", folder, copy], check=True)
    assert elsewhere("print(len(gpulsm.open(arguments[0])))", folder) == "Locked"
    with opened(copy) as second:
        second.insert([5000], 1)
        second.checkpoint()
    d.insert([1001], 1)
    d.close()
    assert keys_in(folder) == [*range(100), 1000, 1001]
    assert keys_in(copy) == [*range(100), 1000, 5000]


@pytest.mark.parametrize("part", ["log", "runs"])
def test_subfolders_that_are_replaced_are_noticed(part: str, tmp_path: Path) -> None:
    folder, aside = tmp_path / "d", tmp_path / "aside"
    d = opened(folder)
    d.insert([1], 1)
    d.checkpoint()
    (folder / part).rename(aside)
    shutil.copytree(aside, folder / part)
    start = time.monotonic()
    with pytest.raises(gpulsm.UpdatesRefused, match=f"`{part}` was removed or replaced"):
        while time.monotonic() < start + 5:
            d.insert([2], 2)
    with pytest.raises(gpulsm.UpdatesRefused):
        d.checkpoint()
    d.save(tmp_path / "saved")
    d.close()  # That it is lost was said.
    assert d.closed and list(gpulsm.Dictionary.load(tmp_path / "saved")) == [1, 2]
    shutil.rmtree(folder / part)
    aside.rename(folder / part)
    assert keys_in(folder)[0] == 1


def test_a_refused_handle_is_closed(tmp_path: Path) -> None:
    folder, copy = tmp_path / "d", tmp_path / "copy"
    with opened(folder) as d:
        d.insert([1], 1)
    shutil.copytree(folder, copy)
    d = opened(folder)
    d.insert([2], 2)
    subprocess.run(["cp", "-a", f"{copy}/.", folder], check=True)
    with pytest.raises(gpulsm.UpdatesRefused):
        d.close()
    assert not d.closed and list(d) == [1, 2]
    d.close()
    with opened(folder) as again:
        assert list(again) == [1]


@pytest.mark.parametrize("part", ["log", "runs"])
def test_subfolders_that_are_links_are_refused(part: str, tmp_path: Path) -> None:
    folder, copy = tmp_path / "d", tmp_path / "copy"
    with opened(folder) as d:
        d.insert(range(100), 1)
    (folder / part).rename(tmp_path / part)
    (folder / part).symlink_to(tmp_path / part)
    subprocess.run(["cp", "-a", folder, copy], check=True)
    before = sorted(path.name for path in (tmp_path / part).iterdir())
    with pytest.raises((OSError, ValueError), match="link"):
        opened(copy)
    assert sorted(path.name for path in (tmp_path / part).iterdir()) == before


def test_too_many_open_files_pass(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    d = opened(folder)
    d.insert(range(100), 1)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(OSError, match="Too many open files"):
            d.checkpoint()
        d.insert([200], 1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for one in held:
            os.close(one)
    d.insert([201], 1)
    d.checkpoint()
    d.close()
    assert keys_in(folder) == [*range(100), 200, 201]


def test_a_forked_child_keeps_no_lock(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    d = opened(folder)
    d.insert([1], 1)
    stay, leave = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(leave)
        os.read(stay, 1)
        os._exit(0)
    os.close(stay)
    try:
        d.close()
        with opened(folder) as again:
            again.insert(np.uint32(2), 1)
    finally:
        os.close(leave)
        assert os.waitpid(child, 0)[1] == 0
    assert keys_in(folder) == [1, 2]
