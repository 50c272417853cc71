"""Dictionaries in files: what is written comes back, with its types, and what can't be opened says why."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsm
from gpulsm._stored import stored_key, stored_types, stored_value

DATA = Path(__file__).parent / "data"

KEYS: list[Any] = [
    "uint32",
    "uint64",
    "int32",
    "int64",
    "float32",
    "float64",
    "datetime64[ns]",
    "datetime64[25us]",
    "datetime64[D]",
    "timedelta64[s]",
    "S1",
    "S12",
    "S16",
    ("uint32", "int64"),
    ("float32", "S4", "int32"),
    ("int32", "datetime64[ms]"),
    ("S3", "timedelta64[ns]", "uint32"),
    ("uint32", "uint32", "uint32", "uint32"),
]
VALUES: list[Any] = [
    None,
    "uint32",
    "int32",
    "float32",
    "uint64",
    "int64",
    "float64",
    "complex64",
    "complex128",
    "datetime64[ns]",
    "timedelta64[ms]",
    "S4",
    "S16",
    "U1",
    "V8",
    ("float32", 4),
    ("float32", (2, 2)),
    ("float64", 1),
    ("uint8", 8),
    ("int16", 4),
    ("bool", 4),
    ("float16", 2),
    ("datetime64[ns]", 2),
    [("price", "f4"), ("volume", "u4")],
    np.dtype([("flag", "u1"), ("count", "u4")], align=True),
    [("at", "M8[ns]"), ("by", "S3"), ("is_new", "?"), ("of", "i2", (2,))],
]


def some_keys(key: Any, count: int = 40) -> Any:
    """That many different keys of a type, as arrays."""
    if isinstance(key, tuple):
        return tuple(some_keys(part, count) for part in key)
    numbers, dtype = np.arange(count), np.dtype(key)
    if dtype.kind == "S":
        return np.array([chr(65 + number).encode() for number in numbers], dtype)
    if dtype.kind in "Mm":
        return (numbers - 7).astype("i8").view(dtype)
    return (numbers - 7 if dtype.kind in "if" else numbers).astype(dtype)


def some_values(value: Any, count: int = 40) -> Any:
    """That many values of a type."""
    if value is None:
        return None
    dtype = np.dtype(value)
    if dtype.kind in "SU":
        return np.array([chr(97 + number % 20) for number in range(count)], dtype)
    raw = np.arange(count * dtype.itemsize).reshape(count, -1) % 2
    values = np.ascontiguousarray(raw.astype(np.uint8)).view(dtype.base)
    return values.reshape(count, *dtype.shape)


def bits(d: gpulsm.Dictionary | gpulsm.Snapshot) -> tuple[bytes, ...]:
    """Keys and values, as bytes."""
    keys, values = d.arrays()
    columns = keys if isinstance(keys, tuple) else (keys,)
    arrays = (*columns, *(() if values is None else (values,)))
    return tuple(array.tobytes() for array in arrays)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A folder that does not exist yet."""
    return str(tmp_path / "folder")


def check_round_trip(tmp_path: Path, device: str, key: Any, value: Any) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    memory = gpulsm.Dictionary(key, value, device=device, batch_size=16)
    memory.insert(some_keys(key), some_values(value))
    memory.delete(some_keys(key, 5))
    with gpulsm.open(folder, key, value, device=device, batch_size=16) as d:
        d.insert(some_keys(key), some_values(value))
        d.delete(some_keys(key, 5))
        assert bits(d) == bits(memory)
    memory.save(file)
    for is_checkpointed in (False, True):
        with gpulsm.open(folder, device=device) as d:
            assert (d.key_dtype, d.value_dtype) == (memory.key_dtype, memory.value_dtype)
            assert bits(d) == bits(memory)
            if not is_checkpointed:
                d.checkpoint()
        with gpulsm.open(folder, key, value, device=device) as d:
            assert bits(d) == bits(memory)
    for loaded in (
        gpulsm.Dictionary.load(file, device=device),
        gpulsm.Dictionary.load(file, key=key, value=value, device=device),
    ):
        assert (loaded.key_dtype, loaded.value_dtype) == (memory.key_dtype, memory.value_dtype)
        assert bits(loaded) == bits(memory) and loaded.batch_size == 16
        loaded.validate()
    for at in (folder, file):
        info = gpulsm.check(at)
        assert (info.key_dtype, info.value_dtype) == (memory.key_dtype, memory.value_dtype)
        assert info == gpulsm.info(at) and info.entries == 35 and info.batch_size == 16


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys_of_every_type_come_back(tmp_path: Path, device: str, key: Any) -> None:
    check_round_trip(tmp_path, device, key, "uint32")


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_of_every_type_come_back(tmp_path: Path, device: str, value: Any) -> None:
    check_round_trip(tmp_path, device, "uint64", value)


@pytest.mark.parametrize("rule", ["add", "min", "max", "or", "and", "xor"])
def test_rules_of_combining_come_back(path: str, tmp_path: Path, device: str, rule: Any) -> None:
    with gpulsm.open(path, "uint32", ("int64", 2), combine=rule, device=device) as d:
        d.insert([1, 2], [[5, 6], [7, 8]])
    with gpulsm.open(path, device=device) as d:
        d.insert([1], [[3, 3]])
        expected = {"add": 8, "min": 3, "max": 5, "or": 7, "and": 1, "xor": 6}
        assert d.combine == rule and d[1][0] == expected[rule]
        d.save(tmp_path / "file")
    with gpulsm.open(path, combine=rule, device=device) as d:
        assert d[1][0] == expected[rule]
    assert gpulsm.Dictionary.load(tmp_path / "file", device=device).combine == rule
    with pytest.raises(ValueError, match=f"combine: expected '{rule}', as the dictionary in"):
        gpulsm.open(path, combine="replace", device=device)
    with pytest.raises(ValueError, match=f"combine: expected '{rule}', as the dictionary in"):
        gpulsm.Dictionary.load(tmp_path / "file", combine="replace", device=device)


def test_uuids_are_keys(path: str, device: str) -> None:
    ids = [uuid.UUID(int=(1 << 100) + number) for number in range(3)]
    with gpulsm.open(path, "S16", "uint64", device=device) as d:
        d.insert(np.array([one.bytes for one in ids], "S16"), [10, 11, 12])
    with gpulsm.open(path, device=device) as d:
        assert d[ids[1].bytes] == 11
        assert [uuid.UUID(bytes=key) for key in d] == ids


def test_updates_of_every_kind_survive(path: str, device: str) -> None:
    expected = gpulsm.Dictionary("uint32", "uint32", device=device)
    other = gpulsm.Dictionary.build(np.arange(500, 520, dtype=np.uint32), np.uint32(1), value="u4")

    def change(d: gpulsm.Dictionary) -> None:
        d.clear()
        d.insert(np.arange(1000, dtype=np.uint32), np.arange(1000, dtype=np.uint32))
        d.update(insert=([7, 2000], [0, 1]), delete=[8, 9])
        d.set([3, 3000], [5, 6])
        d.delete_range([100, 300], [200, 310])
        d.merge_from(other)
        d[4000] = 1
        del d[10:20]
        d.pop(25), d.pop_first(), d.pop_last()
        d.cleanup()
        d.insert([], [])

    change(expected)
    for _ in range(2):
        with gpulsm.open(path, "uint32", "uint32", device=device) as d:
            change(d)
        with gpulsm.open(path, device=device) as d:
            assert bits(d) == bits(expected)
            d.validate()


def test_folders_of_rust_are_opened_and_updated(tmp_path: Path, device: str) -> None:
    """`tests/it/files_types.rs` wrote the file: a `Dictionary<(u32, i64), f64>`."""
    quotes = gpulsm.Dictionary.load(DATA / "quotes.gpulsm", device=device)
    assert quotes.key_dtype == (np.dtype("uint32"), np.dtype("int64"))
    assert quotes.value_dtype == np.dtype("float64") and len(quotes) == 100
    for number in range(100):
        assert quotes[(number % 7, 1000 - 37 * number)] == number / 4
    # What it calls a number may be a time here, for nobody said otherwise.
    times = gpulsm.Dictionary.load(
        DATA / "quotes.gpulsm", key=("uint32", "datetime64[s]"), device=device
    )
    assert times[(1, np.datetime64(1000 - 37, "s"))] == 0.25
    with pytest.raises(TypeError, match=r"key: expected \(uint32, int64\), as the dictionary in"):
        gpulsm.Dictionary.load(DATA / "quotes.gpulsm", key=("uint32", "float64"))
    with pytest.raises(TypeError, match="value: expected float64, .* got datetime64"):
        gpulsm.Dictionary.load(DATA / "quotes.gpulsm", value="datetime64[s]")


def test_notes_that_cannot_be_read_are_errors() -> None:
    stored = {
        "parts": [("unsigned", 4), ("signed", 8)],
        "value": "",
        "value_width": 8,
        "combine": ("replace", ""),
    }
    for note in ("[", "3", "['<u4']", "['<u4', '<M9[ns]']", "['<u4', 'O']", "__import__('os')"):
        noted = {**stored, "notes": [("numpy.key", note)]}
        assert stored_key(noted) is None
        with pytest.raises(
            TypeError, match="'a' has keys .unsigned of 4 bytes, signed of 8 bytes, "
        ):
            stored_types("a", noted, None, None, None)
    for note in ("[", "3", "'<u4'", "'O'", "[('a', '<M9[ns]')]"):
        noted = {**stored, "notes": [("numpy.value", note)]}
        with pytest.raises(TypeError, match="'a' has values of type .* can't read"):
            stored_types("a", noted, None, None, None)
    wide = {**stored, "parts": [("unsigned", 16)], "notes": []}
    with pytest.raises(TypeError, match="'a' has keys .unsigned of 16 bytes. that this version"):
        stored_types("a", wide, None, None, None)
    assert stored_value({**stored, "notes": []}) == np.dtype("V8")
    given = [("price", "f4"), ("volume", "u4")]
    assert stored_types("a", {**stored, "notes": []}, None, given, None).value == np.dtype(given)


def write_file_for_rust(path: Path) -> None:
    """Writes `tests/it/data/python.gpulsm`, which a test of the library reads."""
    d = gpulsm.Dictionary(("S4", "datetime64[ns]"), "timedelta64[s]", device="cpu", batch_size=16)
    times = np.array([0, 1_700_000_000_000_000_000, -1], "M8[ns]")
    keys = np.array([b"XYZW", b"ABC", b"ABC"], "S4"), times
    d.insert(keys, np.array([2, 1, -5], "m8[s]"))
    d.save(path)


def test_rust_has_the_file_that_is_written_here(tmp_path: Path) -> None:
    write_file_for_rust(tmp_path / "file")
    kept = Path(__file__).parents[2] / "tests" / "it" / "data" / "python.gpulsm"
    if not kept.exists():
        pytest.skip("the library's tests are not here")
    written, kept_d = (gpulsm.Dictionary.load(at) for at in (tmp_path / "file", kept))
    assert bits(written) == bits(kept_d)
    assert str(gpulsm.info(tmp_path / "file")) == str(gpulsm.info(kept))


def test_settings_may_change(path: str) -> None:
    with gpulsm.open(path, "uint32", None, batch_size=128, threads=2) as d:
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


# Saving.


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


# What can't be opened.


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
    with gpulsm.open(path + "2", "uint32"):
        pass
    with pytest.raises(TypeError, match="value: expected none, as the dictionary in .* got uint32"):
        gpulsm.open(path + "2", value="uint32")


def test_a_set_in_a_folder_says_how_it_became_one(path: str) -> None:
    with gpulsm.open(path, key="uint32") as d:
        for use in (lambda: d.insert([1], [2.5]), lambda: d.__setitem__(1, 2), lambda: d.sum()):
            with pytest.raises(TypeError, match="was created without a `value` type") as error:
                use()
            assert repr(path) in str(error.value) and "value='float64')` creates" in str(
                error.value
            )
        assert len(d) == 0
    with pytest.raises(TypeError, match="got float64; it is a set: one with values needs another"):
        gpulsm.open(path, value="float64")


def test_what_is_missing_says_so(path: str) -> None:
    with pytest.raises(FileNotFoundError, match="to create one, give its types: key=…") as error:
        gpulsm.open(path)
    assert error.value.errno == errno.ENOENT and error.value.filename == path
    assert not os.path.exists(path)
    for use in (gpulsm.Dictionary.load, gpulsm.check, gpulsm.info):
        with pytest.raises(FileNotFoundError) as error:
            use(path)
        assert error.value.filename == path


def test_a_missing_folder_is_named(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    d = gpulsm.Dictionary.build([1], [10])
    deeper = os.path.join(path, "b", "c.csv")
    uses: list[Callable[[str], Any]] = [
        lambda at: gpulsm.open(at, "uint32"),
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
    gpulsm.open("here/", "uint32").close()
    assert len(gpulsm.open("here")) == 0
    d.save("b/c")
    assert len(gpulsm.Dictionary.load("b/c")) == 1


def test_files_and_folders_are_told_apart(path: str, tmp_path: Path) -> None:
    gpulsm.Dictionary().save(tmp_path / "file")
    gpulsm.open(path, "uint32").close()
    with pytest.raises(ValueError, match="it is a file, not a folder: saved files are loaded"):
        gpulsm.open(tmp_path / "file")
    with pytest.raises(ValueError, match="it is a folder, not a file: dictionaries in folders are"):
        gpulsm.Dictionary.load(path)
    with pytest.raises(OSError) as error:
        gpulsm.Dictionary().save(path)
    assert error.value.filename is not None
    with pytest.raises(ValueError, match="there are other files in it: choose a new or an empty"):
        gpulsm.open(tmp_path, "uint32")


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        (b"", "it is an empty file"),
        (b"x", "it is another kind of file"),
        (b"key,value\n1,2\n", "it is another kind of file"),
        (bytes(20), "it is another kind of file"),
        (b"PAR1" * 5000, "it is another kind of file"),
    ],
    ids=["empty", "tiny", "text", "zeros", "large"],
)
def test_a_file_of_another_kind_is_not_a_damaged_one(
    tmp_path: Path, contents: bytes, says: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(contents)
    for use in (gpulsm.Dictionary.load, gpulsm.check, gpulsm.info):
        with pytest.raises(ValueError, match=f"file` holds no dictionary: {says}") as error:
            use(path)
        assert type(error.value) is ValueError
    assert path.read_bytes() == contents


@pytest.mark.parametrize("length", [1, 7, 8, 31, 32, 100, 4096, 5000])
def test_a_file_that_was_cut_off_is_a_damaged_one(tmp_path: Path, length: int) -> None:
    path = tmp_path / "file"
    gpulsm.Dictionary.build([1, 2], [10, 20]).save(path)
    path.write_bytes(path.read_bytes()[:length])
    for use in (gpulsm.Dictionary.load, gpulsm.check, gpulsm.info):
        with pytest.raises(gpulsm.CorruptFile) as error:
            use(path)
        assert error.value.file == str(path) and error.value.offset <= length


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do anything")
def test_no_permission(path: str) -> None:
    gpulsm.open(path, "uint32").close()
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
    with pytest.raises(TypeError, match="key: expected"):
        gpulsm.open(path, "uint16")
    with pytest.raises(ValueError, match="names of this type's fields are too long"):
        gpulsm.open(path, "uint32", [("a" * 70_000, "u4")])
    assert not os.path.exists(path)


def files_of(folder: str) -> Iterator[Path]:
    return (file for file in sorted(Path(folder).rglob("*")) if file.is_file())


def test_a_flipped_byte_is_found_in_every_file(path: str, tmp_path: Path) -> None:
    with gpulsm.open(path, "uint32", "uint32") as d:
        d.insert(np.arange(1000, dtype=np.uint32), 1)
        d.checkpoint()
        d.insert(np.arange(500, 2000, dtype=np.uint32), 2)
        d.save(tmp_path / "saved")
    names = [file.relative_to(path) for file in files_of(path) if file.name != "LOCK"]
    assert [name.suffix for name in names] == ["", ".log", ".run"]
    damaged = tmp_path / "damaged"
    for name in names:
        for part in (0.0, 0.3, 0.5, 0.9):
            shutil.copytree(path, damaged)
            flip(damaged / name, part)
            for use in (gpulsm.open, gpulsm.check):
                with pytest.raises(gpulsm.Error) as error:
                    use(damaged)
                assert isinstance(error.value, gpulsm.CorruptFile)
                assert error.value.file == str(damaged / name)
                size = (damaged / name).stat().st_size
                assert 0 <= error.value.offset <= size and str(error.value.offset) in str(
                    error.value
                )
            shutil.rmtree(damaged)
    for part in (0.0, 0.5, 0.9):
        shutil.copy(tmp_path / "saved", damaged)
        flip(damaged, part)
        with pytest.raises(gpulsm.CorruptFile, match="nothing was changed") as error:
            gpulsm.Dictionary.load(damaged)
        assert error.value.file == str(damaged)
        again = pickle.loads(pickle.dumps(error.value))
        assert (again.file, again.offset) == (error.value.file, error.value.offset)
    with gpulsm.open(path) as d:
        assert len(d) == 2000


def flip(file: Path, part: float) -> None:
    """Changes a byte, at some part of a file."""
    contents = bytearray(file.read_bytes())
    contents[int(part * len(contents))] ^= 0x40
    file.write_bytes(contents)


def test_missing_files_are_damage(path: str, tmp_path: Path) -> None:
    with gpulsm.open(path, "uint32", "uint32") as d:
        d.insert(np.arange(1000, dtype=np.uint32), 1)
        d.checkpoint()
        d.insert([5], [6])
    for name in [file.relative_to(path) for file in files_of(path) if file.name != "LOCK"]:
        damaged = tmp_path / "damaged"
        shutil.copytree(path, damaged)
        (damaged / name).unlink()
        with pytest.raises(gpulsm.CorruptFile, match="missing"):
            gpulsm.open(damaged, "uint32", "uint32")
        shutil.rmtree(damaged)


# Closing.


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
        lambda: d.nlargest(1),
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


def test_representations_say_where_it_lives(path: str) -> None:
    with gpulsm.open(path, "uint32", "uint32", device="cpu") as d:
        assert repr(d) == (
            f"<gpulsm.Dictionary of 0 pairs, key='uint32', value='uint32', device='cpu', path={path!r}>"
        )
        assert "path" not in repr(d.copy()) and "path" not in repr(d.snapshot())
