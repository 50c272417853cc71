"""Files that do not hold what was written to them, and files of another kind."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gpulsm


def files_of(folder: str) -> Iterator[Path]:
    return (file for file in sorted(Path(folder).rglob("*")) if file.is_file())


def flip(file: Path, part: float) -> None:
    """Changes a byte, at some part of a file."""
    contents = bytearray(file.read_bytes())
    contents[int(part * len(contents))] ^= 0x40
    file.write_bytes(contents)


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


@pytest.mark.parametrize("length", [1, 7, 8, 31, 32, 100, 4096, 5000])
def test_a_file_that_was_cut_off_is_a_damaged_one(tmp_path: Path, length: int) -> None:
    path = tmp_path / "file"
    gpulsm.Dictionary.build([1, 2], [10, 20]).save(path)
    path.write_bytes(path.read_bytes()[:length])
    for use in (gpulsm.Dictionary.load, gpulsm.check, gpulsm.info):
        with pytest.raises(gpulsm.CorruptFile) as error:
            use(path)
        assert error.value.file == str(path) and error.value.offset <= length


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


@pytest.mark.parametrize("name", ["a.csv", "a.TSV.gz", "a.parquet"])
def test_tables_are_not_loaded_but_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("key,value\n1,2\n")
    with pytest.raises(ValueError, match="no dictionary: .*`Dictionary.from_file` reads CSV and"):
        gpulsm.Dictionary.load(tmp_path / name)
    gpulsm.Dictionary.build([1], [2]).save(tmp_path / name)
    assert len(gpulsm.Dictionary.load(tmp_path / name)) == 1
    flip(tmp_path / name, 0.5)
    with pytest.raises(gpulsm.CorruptFile):
        gpulsm.Dictionary.load(tmp_path / name)
