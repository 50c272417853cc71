"""Dictionaries on several devices: a list of them, the same answers, and what is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpulsm


@pytest.mark.parametrize("shards", [2, 3, 7])
def test_the_oracle_is_answered_by_shards(device: str, shards: int) -> None:
    tests = [Path(__file__).with_name(name) for name in ("test_model.py", "test_composites.py")]
    devices = [device] * shards
    if shards == 3:
        devices[1] = "cpu"  # On a GPU, the CPU is among the shards.
    option = f"--device={','.join(devices)}"
    command = [sys.executable, "-m", "pytest", "-q", "-x", option, *map(str, tests)]
    here = Path(__file__).parent  # Not where the package's sources are.
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_a_list_of_devices_makes_shards() -> None:
    d = gpulsm.Dictionary("u8", "f4", device=["cpu", "cpu", "cpu"], threads=1)
    keys = np.arange(10_000, dtype=np.uint64) * 7
    d.insert(keys, keys.astype(np.float32))
    assert d.device == "cpu,cpu,cpu"
    assert d.devices == ["cpu"] * 3
    stats = d.stats()
    assert [shard.device for shard in stats.shards] == ["cpu"] * 3
    assert sum(shard.live for shard in stats.shards) == len(d) == 10_000
    assert max(shard.live for shard in stats.shards) < 5_000
    assert "shard  2" in str(stats)
    queried = keys[::3].copy()
    values, found = d.lookup(queried)
    assert found.all()
    assert (values == queried.astype(np.float32)).all()
    assert d.count(0, 7 * 9_999) == 10_000
    assert gpulsm.Dictionary("u8", "f4", device="cpu").stats().shards == ()


def test_snapshots_copies_and_pickles_keep_their_shards(tmp_path: Path) -> None:
    d = gpulsm.Dictionary("i8", "i8", device=("cpu", "cpu"))
    d.insert(range(1000), range(1000))
    snapshot = d.snapshot()
    d.delete_range(0, 499)
    assert len(snapshot) == 1000
    assert len(d) == 500
    again = pickle.loads(pickle.dumps(d))
    assert again.devices == ["cpu", "cpu"]
    assert list(again.items()) == list(d.items())
    d.save(tmp_path / "saved")
    loaded = gpulsm.Dictionary.load(tmp_path / "saved", device=["cpu"] * 3)
    assert loaded.devices == ["cpu"] * 3
    assert list(loaded.items()) == list(d.items())
    with gpulsm.open(tmp_path / "folder", "i8", "i8", device=["cpu"] * 3) as in_files:
        in_files.insert(range(100), range(100))
    with gpulsm.open(tmp_path / "folder", device=["cpu"] * 2) as in_files:
        assert list(in_files) == list(range(100))


def test_lists_of_devices_are_checked() -> None:
    with pytest.raises(ValueError, match="at least one"):
        gpulsm.Dictionary("u8", "f4", device=[])
    with pytest.raises(TypeError, match="or a list of them, got int"):
        gpulsm.Dictionary("u8", "f4", device=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"device\[1\]: expected a text .* got int"):
        gpulsm.Dictionary("u8", "f4", device=["cpu", 1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="`gpu` names no device"):
        gpulsm.Dictionary("u8", "f4", device=["cpu", "gpu"])
