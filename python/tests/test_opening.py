"""Opening and loading: settings, and what says why it can't be opened."""

from __future__ import annotations

import copy
import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsm


def test_settings_may_change(path: str) -> None:
    with gpulsm.Set.open(path, "uint32", batch_size=128, threads=2) as d:
        d.insert(np.arange(1000, dtype=np.uint32))
    with gpulsm.open(path) as d:
        assert d.batch_size == 128 and d.value_dtype is None and len(d) == 1000
    with gpulsm.open(path, batch_size=64, cleanup="manual", memory_limit=1 << 24) as d:
        assert d.batch_size == 64
    with gpulsm.open(path, durability="checkpoint") as d:
        d.insert([5000])
    with gpulsm.open(path, durability="os", log_limit=1 << 20) as d:
        d.insert([5001])
        d.sync()
        assert len(d) == 1002 and d.path == path


def test_the_log_is_bounded(path: str) -> None:
    with gpulsm.open(path, "uint32", "uint32", log_limit=100_000) as d:
        for start in range(0, 200_000, 1000):
            d.insert(np.arange(start, start + 1000, dtype=np.uint32), 7)
        logs = sum(file.stat().st_size for file in Path(path, "log").iterdir())
        assert logs <= 200_000
    assert gpulsm.check(path).log_bytes <= 100_000


def test_copies_are_in_memory(path: str, device: str) -> None:
    with gpulsm.open(path, "uint32", "uint32", device=device) as d:
        d.insert([1], [10])
        copies = [
            d.copy(),
            copy.copy(d),
            copy.deepcopy(d),
            d.snapshot().thaw(),
            pickle.loads(pickle.dumps(d)),
        ]
        for one in copies:
            one.insert([2], [20])
            assert one.path is None and len(one) == 2
            one.checkpoint()
            one.sync()
        snapshot = d.snapshot()
        assert len(d) == 1
    assert [len(one) for one in copies] == [2] * 5 and snapshot[1] == 10
    snapshot.save(path + ".file")
    assert dict(gpulsm.Dictionary.load(path + ".file", device=device).items()) == {1: 10}


def test_representations_say_where_it_lives(path: str) -> None:
    with gpulsm.open(path, "uint32", "uint32", device="cpu") as d:
        assert repr(d) == (
            f"<gpulsm.Dictionary of 0 pairs, key='uint32', value='uint32', device='cpu', path={path!r}>"
        )
        assert "path" not in repr(d.copy()) and "path" not in repr(d.snapshot())


def test_a_dictionary_is_opened_once(path: str) -> None:
    with gpulsm.open(path, "uint32", "uint32"):
        for use in (gpulsm.open, gpulsm.check, gpulsm.info):
            with pytest.raises(gpulsm.Locked, match="is in use: close the dictionary") as error:
                use(path)
            assert error.value.path == path
            again = pickle.loads(pickle.dumps(error.value))
            assert (str(again), again.path) == (str(error.value), path)
    gpulsm.open(path).close()


def test_other_types_are_refused(path: str, tmp_path: Path) -> None:
    with gpulsm.open(path, ("uint32", "datetime64[ns]"), "timedelta64[s]") as d:
        d.save(tmp_path / "file")
    loaded: Callable[..., Any] = gpulsm.Dictionary.load
    for use, at in ((gpulsm.open, path), (loaded, tmp_path / "file")):
        for key in ("uint32", ("uint32", "int64"), ("uint32", "datetime64[us]"), "S12"):
            with pytest.raises(TypeError, match=r"key: expected \(uint32, datetime64\[ns\]\), as "):
                use(at, key=key)
        for value in ("int64", "float64", "timedelta64[ns]", "uint32", ("int64", 1), "V8"):
            with pytest.raises(TypeError, match=r"value: expected timedelta64\[s\], as the dicti"):
                use(at, value=value)
    with gpulsm.Set.open(path + "2", "uint32"):
        pass
    with pytest.raises(TypeError, match="value: expected none, as the dictionary in .* got uint32"):
        gpulsm.open(path + "2", value="uint32")


def test_a_set_in_a_folder_says_how_it_became_one(path: str) -> None:
    with pytest.raises(
        TypeError, match=r"`gpulsm.Set.open\(…, 'uint32'\)` creates one without values"
    ):
        gpulsm.open(path, key="uint32")
    assert not os.path.exists(path)
    with gpulsm.Set.open(path, key="uint32") as d:
        for use in (lambda: d.insert([1], [2.5]), lambda: d.update(insert=([1], [2.5]))):
            with pytest.raises(TypeError, match="was created without a `value` type") as error:
                use()
            assert repr(path) in str(error.value) and "value='float64')` creates" in str(
                error.value
            )
        assert len(d) == 0
    with pytest.raises(TypeError, match="got float64; it is a set: one with values needs another"):
        gpulsm.open(path, value="float64")


def test_what_is_expected_is_not_created(path: str) -> None:
    for _ in range(2):
        for opens in (gpulsm.open, gpulsm.Set.open):
            with pytest.raises(FileNotFoundError, match="no dictionary is here") as error:
                opens(path, "uint32", create=False)
            assert error.value.filename == path and not os.path.exists(path)
    gpulsm.open(path, "uint32", "uint32").close()
    with gpulsm.open(path, create=False) as d:
        assert len(d) == 0
    with pytest.raises(TypeError, match="create: expected True or False"):
        gpulsm.open(path + "2", "uint32", "uint32", create="no")  # type: ignore[arg-type]


def test_what_is_missing_says_so(path: str) -> None:
    with pytest.raises(FileNotFoundError, match="to create one, give its types: key=…") as error:
        gpulsm.open(path)
    assert error.value.errno == errno.ENOENT and error.value.filename == path
    assert not os.path.exists(path)
    for use in (gpulsm.Dictionary.load, gpulsm.check, gpulsm.info):
        with pytest.raises(FileNotFoundError) as error:
            use(path)
        assert error.value.filename == path


def test_files_and_folders_are_told_apart(path: str, tmp_path: Path) -> None:
    gpulsm.Dictionary().save(tmp_path / "file")
    gpulsm.open(path, "uint32", "uint32").close()
    with pytest.raises(ValueError, match="it is a file, not a folder: saved files are loaded"):
        gpulsm.open(tmp_path / "file")
    assert len(gpulsm.Dictionary.load(path)) == 0  # A folder is loaded as well, into memory.
    with pytest.raises(OSError) as error:
        gpulsm.Dictionary().save(path)
    assert error.value.filename is not None
    with pytest.raises(ValueError, match="there are other files in it: choose a new or an empty"):
        gpulsm.open(tmp_path, "uint32", "uint32")
    for use in (gpulsm.Dictionary.load, gpulsm.check, gpulsm.info):
        with pytest.raises(
            ValueError, match="a folder that `open` created, or a file that `save` wr"
        ):
            use(tmp_path)
        with pytest.raises(
            ValueError, match="is a part of a dictionary that lives in a folder: name"
        ):
            use(Path(path, "MANIFEST"))


def test_info_speaks_as_the_program_does(path: str) -> None:
    with gpulsm.open(path, ("uint32", "int64"), "int64", combine="add") as d:
        d.insert(([7], [100]), [1])
    text = str(gpulsm.info(path))
    assert text == str(gpulsm.check(path))
    for row in (
        "       key  (u32, i64)",
        "     value  i64",
        "   combine  add of i64",
        "batch size  65536",
        "     pairs  0 in runs, and 1 update in the log",
        " watermark  update 1 of 1 is known to be on stable storage",
    ):
        assert row in text.splitlines(), text
    with gpulsm.open(path) as d:
        d.checkpoint()
    text = str(gpulsm.info(path))
    assert "     pairs  1\n       run  level 0: 1 entry, " in text


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")
def test_no_permission(path: str) -> None:
    gpulsm.open(path, "uint32", "uint32").close()
    os.chmod(path, 0)
    try:
        with pytest.raises(PermissionError) as error:
            gpulsm.open(path)
        assert error.value.errno == errno.EACCES and error.value.filename
    finally:
        os.chmod(path, 0o700)


def test_arguments_that_cannot_be_used(path: str) -> None:
    for arguments, expected in (
        ({"durability": "never"}, "durability: expected one of 'batch', 'os', 'checkpoint'"),
        ({"log_limit": 0}, "log_limit: expected a number from 1"),
        ({"batch_size": 0}, "batch_size: expected a number from 1"),
        ({"cleanup": "never"}, "cleanup: expected 'automatic' or 'manual'"),
        ({"combine": "plus"}, "combine: expected one of 'replace'"),
        ({"device": "cpus"}, "names no device"),
    ):
        with pytest.raises(ValueError, match=expected):
            gpulsm.open(path, "uint32", "uint32", **arguments)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="path: expected the name of a file, got int"):
        gpulsm.open(3, "uint32")  # type: ignore[arg-type]
    for name, what in (("", "an empty text"), ("a\0b", "one with a null character")):
        for use in (gpulsm.open, gpulsm.Dictionary.load, gpulsm.check, gpulsm.Dictionary().save):
            with pytest.raises(ValueError, match=f"path: expected the name of a file, got {what}"):
                use(name)
    with pytest.raises(TypeError, match="key: expected"):
        gpulsm.open(path, "uint16", "uint32")
    with pytest.raises(ValueError, match="names of this type's fields are too long"):
        gpulsm.open(path, "uint32", [("a" * 70_000, "u4")])
    assert not os.path.exists(path)
