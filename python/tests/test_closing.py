"""Closing dictionaries: by hand, at the end of a block, and when nobody has them."""

from __future__ import annotations

import errno
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsm


def test_a_dictionary_that_cannot_be_closed_stays_open(path: str, device: str) -> None:
    resource = pytest.importorskip("resource")
    d = gpulsm.open(path, "uint64", "uint64", device=device, durability="checkpoint")
    keys = np.arange(100_000, dtype=np.uint64)
    d.insert(keys, keys)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # As on a full disk.
    try:
        with pytest.raises(OSError):
            d.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not d.closed and len(d) == 100_000
    d.insert([1 << 40], [7])
    d.close()
    assert d.closed
    with gpulsm.open(path, device=device) as again:
        assert len(again) == 100_001 and again[1 << 40] == 7


FULL_AT_THE_END = """
import resource, sys
import gpulsm

kept = [gpulsm.Set.open(path, "uint64", durability="checkpoint") for path in sys.argv[1:]]
kept[0].insert(range(100_000))
kept[1].insert(range(10))
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # As on a full disk.
"""


def test_what_cannot_be_closed_at_the_end_of_the_program_is_reported_once(path: str) -> None:
    pytest.importorskip("resource")
    command = [sys.executable, "-c", FULL_AT_THE_END, path, f"{path}-2"]
    ended = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60
    )
    # No library can change it here.
    assert ended.returncode == 0, ended.stderr
    message, reason = ended.stderr.splitlines()
    assert message.startswith(f"gpulsm: the dictionary in {path!r} could not be closed")
    assert "what is not durable is lost" in message and reason.startswith("OSError: [Errno 27]")
    with gpulsm.open(path) as lost, gpulsm.open(f"{path}-2") as kept:
        assert (len(lost), len(kept)) == (0, 10)


def test_a_program_may_handle_what_cannot_be_closed_at_its_end(path: str) -> None:
    pytest.importorskip("resource")
    hook = "import os, sys; sys.excepthook = lambda kind, error, trace: os._exit(error.errno)"
    command = [sys.executable, "-c", hook + FULL_AT_THE_END, path, f"{path}-2"]
    assert subprocess.run(command, cwd=Path(__file__).parent, timeout=60).returncode == errno.EFBIG


def test_a_folder_is_loaded_and_left_as_it_is(path: str, device: str) -> None:
    with gpulsm.open(path, "uint32", "float64", device=device) as d:
        d.insert([1, 2], [0.5, 1.5])
        with pytest.raises(gpulsm.Locked):
            gpulsm.Dictionary.load(path, device=device)
    before = gpulsm.info(path)
    loaded = gpulsm.Dictionary.load(path, device=device)
    assert loaded.path is None and dict(loaded) == {1: 0.5, 2: 1.5}
    loaded.insert([3], [2.5])
    assert gpulsm.info(path) == before


def test_a_closed_dictionary_refuses_everything(path: str, device: str) -> None:
    d = gpulsm.open(path, "uint32", "uint32", device=device)
    d.insert([1, 2], [10, 20])
    other = d.copy()
    assert not d.closed
    d.close()
    d.close()
    assert d.closed and d.path == path and d.device.startswith(device)
    assert d.key_dtype == np.dtype("uint32") and d.batch_size == 65536
    assert "closed" in repr(d) and "closed" in str(d) and path in repr(d)
    uses: list[Callable[[], Any]] = [
        lambda: len(d),
        lambda: bool(d),
        lambda: d[1],
        lambda: d[1:2],
        lambda: 1 in d,
        lambda: 1 << 40 in d,
        lambda: d.get(1),
        lambda: d.get(1 << 40),
        lambda: d.lookup([1]),
        lambda: d.contains([1]),
        lambda: d.count(0, 5),
        lambda: d.range(0, 5),
        lambda: d.sum(),
        lambda: d.min(),
        lambda: d.successor([1]),
        lambda: d.successor(1 << 40),
        lambda: d.rank([1]),
        lambda: d.select([0]),
        lambda: d.asof([1]),
        lambda: d.asof(-1),
        lambda: d.first(),
        lambda: d.last(1),
        lambda: d.arrays(),
        lambda: d.keys(),
        lambda: list(d),
        lambda: list(d.items()),
        lambda: d.to_pandas(),
        lambda: d.insert([1], [2]),
        lambda: d.set([1], [2]),
        lambda: d.__setitem__(1, 2),
        lambda: d.delete([1]),
        lambda: d.delete(1 << 40),
        lambda: d.pop(1),
        lambda: d.update(insert=([1], [2])),
        lambda: d.delete_range(0, 5),
        lambda: d.merge_from(other),
        lambda: other.merge_from(d),
        lambda: d.cleanup(),
        lambda: d.clear(),
        lambda: d.snapshot(),
        lambda: d.copy(),
        lambda: pickle.dumps(d),
        lambda: d.stats(),
        lambda: d.flush(),
        lambda: d.synchronize(),
        lambda: d.validate(),
        lambda: d.checkpoint(),
        lambda: d.sync(),
        lambda: d.save(path + ".file"),
        lambda: d.__enter__(),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="^this dictionary is closed$"):
            use()
    assert len(other) == 2


def test_leaving_a_block_closes(path: str) -> None:
    with pytest.raises(KeyError, match="in the block"), gpulsm.open(path, "uint32", "uint32") as d:
        d.insert([1], [2])
        raise KeyError("in the block")
    assert d.closed
    with gpulsm.open(path) as d:
        assert d[1] == 2
    with gpulsm.Dictionary() as memory:
        memory[1] = 2
    assert memory.closed


def test_a_dictionary_that_nobody_has_releases_its_folder(path: str) -> None:
    d = gpulsm.open(path, "uint32", "uint32", durability="checkpoint")
    d[1] = 2
    del d
    with gpulsm.open(path) as d:
        assert d[1] == 2
