"""What is written to files comes back: keys, values and rules of every type, and what Rust wrote."""

from __future__ import annotations

import uuid
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


def bits(d: gpulsm.Dictionary | gpulsm.Set | gpulsm.Snapshot) -> tuple[bytes, ...]:
    """Keys and values, as bytes."""
    keys, values = d.arrays()
    columns = keys if isinstance(keys, tuple) else (keys,)
    arrays = (*columns, *(() if values is None else (values,)))
    return tuple(array.tobytes() for array in arrays)


def check_round_trip(tmp_path: Path, device: str, key: Any, value: Any) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    named = {"key": key} if value is None else {"key": key, "value": value}
    kind: Any = gpulsm.Set if value is None else gpulsm.Dictionary
    create: Any = gpulsm.Set.open if value is None else gpulsm.open
    pairs = (some_keys(key),) if value is None else (some_keys(key), some_values(value))
    memory = kind(**named, device=device, batch_size=16)
    memory.insert(*pairs)
    memory.delete(some_keys(key, 5))
    with create(folder, **named, device=device, batch_size=16) as d:
        d.insert(*pairs)
        d.delete(some_keys(key, 5))
        assert bits(d) == bits(memory)
    memory.save(file)
    for is_checkpointed in (False, True):
        with gpulsm.open(folder, device=device) as d:
            assert (d.key_dtype, d.value_dtype) == (memory.key_dtype, memory.value_dtype)
            assert bits(d) == bits(memory)
            if not is_checkpointed:
                d.checkpoint()
            assert type(d) is kind
        with create(folder, **named, device=device) as d:
            assert bits(d) == bits(memory)
    for loaded in (kind.load(file, device=device), kind.load(file, **named, device=device)):
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
