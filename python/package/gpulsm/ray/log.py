"""The files of one shard: a log of records, checkpoints, and who owns them.

The log is a list of frames: a header with lengths and checksums, descriptions of records in JSON, and the bytes of
their arrays. What is appended at a time is one frame, and the next one follows when that is on stable storage. So the
last frame may be torn by a crash, and is ignored then, for nobody was told that it is there; a bad frame before
good ones is damage. Every owner begins a file of its own (a *segment*), so that nobody writes after a torn frame.

An actor that was replaced may still be running somewhere. Whoever opens the files first takes a number that nobody
else has, and writes it to `owner`; after each frame, and before anybody is told, the writer looks whether it still
owns them. If it does, the next owner, which reads the log after it has become the owner, finds that frame. What an
old owner writes later counts for nobody: a segment begins with a record of the segments before it and how far they
were read.
"""

from __future__ import annotations

import json
import os
import struct
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpulsm._errors import CorruptFile, Error, UpdatesRefused

_MAGIC = b"gLog"
#: The magic, the bytes of the descriptions and of the arrays, and the checksums of both.
_HEADER = struct.Struct("<4sQQII")
_CHECKSUM = struct.Struct("<I")

Arrays = list[NDArray[Any]]
Records = list[tuple[dict[str, Any], Arrays]]


class Replaced(Error, RuntimeError):
    """Another actor has taken over the files of this one."""


class Reading:
    """The folder of one shard, for somebody who may not own it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._known, self._growing = self._counted()

    def segments(self) -> list[tuple[int, Path]]:
        """The files of the log, the oldest first. Their names have their own number, and that of their owner."""
        found = [(int(path.name[4:12]), path) for path in self.folder.glob("log-*")]
        return sorted(found)

    def _counted(self) -> tuple[dict[str, int], str]:
        """How many bytes of each segment count, as the last owner that began one found them, and the segment that it
        wrote to: of that, all bytes that are whole frames."""
        by_owner = sorted(self.segments(), key=lambda each: each[1].name[13:] + each[1].name)
        for _, path in reversed(by_owner):
            first = next(_read(path), None)
            if first is not None and first[0][0][0]["kind"] == "segments":
                lengths: dict[str, int] = first[0][0][0]["lengths"]
                return {**lengths, path.name: path.stat().st_size}, path.name
        return {path.name: path.stat().st_size for _, path in self.segments()}, ""

    def records(self, first: int = 0) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """What was logged, from a segment on."""
        for name in self._known:
            if int(name[4:12]) >= first and not (self.folder / name).exists():
                message = f"{str(self.folder / name)!r}, a part of the log, is missing"
                raise CorruptFile(message, str(self.folder / name), 0)
        for number, path in self.segments():
            limit = self._known.get(path.name, 0)
            self._known[path.name] = 0
            for records, end in _read(path, limit) if number >= first else ():
                self._known[path.name] = end
                yield from (each for each in records if each[0]["kind"] != "segments")
            is_cut = self._known[path.name] < limit and self._growing not in ("", path.name)
            if number >= first and is_cut:
                message = f"{str(path)!r} has less than was written to it"
                raise CorruptFile(message, str(path), self._known[path.name])

    def read_note(self, name: str) -> dict[str, Any] | None:
        """What `write_note` wrote; None if there is no such file."""
        return read_note(self.folder / name)

    def checkpoints(self) -> list[int]:
        """The numbers of complete checkpoints, the newest first."""
        names = [path.name for path in self.folder.glob("checkpoint-*.json")]
        return sorted((int(name[11:-5]) for name in names), reverse=True)

    def checkpoint_file(self, number: int) -> Path:
        """The file with the pairs of a checkpoint."""
        return self.folder / f"checkpoint-{number:08}.gpulsm"


class Files(Reading):
    """The folder of one shard, and its owner: who opens it last."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        _make_folder(self.folder)
        self.owner = self._claim()
        self._segment: Path | None = None
        self._descriptor = -1
        super().__init__(folder)  # What a former owner writes from now on does not count.
        self.segment = max((number for number, _ in self.segments()), default=0)
        self.bytes = 0

    def _claim(self) -> int:
        """Becomes the owner, under a number that no other actor has."""
        number = max([self._owner(), *self._claims()])
        while True:
            number += 1
            try:
                os.close(os.open(self.folder / f"claim-{number:08}", os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                continue
        self._become(number)
        return number

    def _become(self, number: int) -> None:
        """Writes the number of the owner, unless somebody has a greater one."""
        self._replace("owner", str(number).encode())
        for other in self._claims():
            if other > number:
                raise Replaced(f"another actor is taking over {str(self.folder)!r}")
            if other < number:
                (self.folder / f"claim-{other:08}").unlink(missing_ok=True)

    def _claims(self) -> list[int]:
        return [int(path.name[6:]) for path in self.folder.glob("claim-*")]

    def begin_segment(self) -> int:
        """Lets further records go to a new file, and returns its number. If that fails, the old one is still used."""
        if self._segment is not None:
            self._known[self._segment.name] = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        self.segment += 1
        path = self.folder / f"log-{self.segment:08}-{self.owner:08}"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        try:
            _write(descriptor, [({"kind": "segments", "lengths": self._known}, [])])
            os.fsync(descriptor)
            _sync_folder(self.folder)
        except OSError:
            os.close(descriptor)
            self._remove(path)
            raise
        self.close()
        self._segment, self._descriptor, self.bytes = path, descriptor, 0
        self.check_owner()
        return self.segment

    def append(self, records: Records) -> None:
        """Writes records, all or none, and returns when they are on stable storage and this is still the owner."""
        if self._segment is None:
            raise UpdatesRefused(
                f"{str(self.folder)!r} could not be written to before; close the dictionary and open it again"
            )
        start = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        try:
            self.bytes += _write(self._descriptor, records)
            os.fsync(self._descriptor)
        except OSError:
            self._take_back(start)
            raise
        try:
            self.check_owner()
        except OSError:
            self.close()  # It is there, but the caller is not told so.
            raise

    def _remove(self, segment: Path) -> None:
        """Removes a segment that could not be begun: it says that what is appended to the one before does not count."""
        try:
            segment.unlink(missing_ok=True)
            _sync_folder(self.folder)
        except OSError:
            self.close()

    def _take_back(self, end: int) -> None:
        """Cuts off what could not be written whole: the caller is told that it is not there."""
        try:
            os.ftruncate(self._descriptor, end)
            os.lseek(self._descriptor, end, os.SEEK_SET)
            os.fsync(self._descriptor)
        except OSError:
            self.close()  # Nobody knows what is there now. Who opens the files again finds out.

    def check_owner(self) -> None:
        """An error if another actor has taken over."""
        owner = self._owner()
        if 0 < owner < self.owner:
            self._become(self.owner)  # One that began to take over before this one was slower.
        elif owner != self.owner:
            raise Replaced(f"another actor has taken over {str(self.folder)!r}")

    def write_note(self, name: str, contents: dict[str, Any]) -> None:
        """Writes a small file, whole or not at all."""
        self.check_owner()
        text = json.dumps(contents).encode()
        self._replace(name, b"%08x" % zlib.crc32(text) + text)

    def finish_checkpoint(self, number: int, note: dict[str, Any]) -> None:
        """Makes a checkpoint count whose pairs are written, and removes what it replaces."""
        self.write_note(f"checkpoint-{number:08}.json", note)
        self.check_owner()
        for other in self.checkpoints():
            if other < number:
                (self.folder / f"checkpoint-{other:08}.json").unlink()
        for path in self.folder.glob("checkpoint-*.gpulsm"):
            if int(path.name[11:-7]) < number:
                path.unlink()
        for segment, path in self.segments():
            if segment < note["segment"]:
                path.unlink()
                self._known.pop(path.name, None)

    def close(self) -> None:
        """Closes the log."""
        if self._segment is not None:
            os.close(self._descriptor)
            self._segment = None

    def _owner(self) -> int:
        try:
            return int((self.folder / "owner").read_bytes())
        except FileNotFoundError:
            return 0

    def _replace(self, name: str, contents: bytes) -> None:
        temporary = self.folder / f"{name}.{uuid.uuid4().hex}.new"
        with open(temporary, "wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / name)
        _sync_folder(self.folder)


def read_note(path: Path) -> dict[str, Any] | None:
    """What `Files.write_note` wrote, whoever owns the files; None if there is no such file."""
    if not path.exists():
        return None
    raw = path.read_bytes()
    if raw[:8] != b"%08x" % zlib.crc32(raw[8:]):
        raise CorruptFile(f"{str(path)!r} does not hold what was written to it", str(path), 0)
    note: dict[str, Any] = json.loads(raw[8:])
    return note


def has_records(folder: Path) -> bool:
    """Whether anything was ever logged in a folder, whoever owns it."""
    segments = sorted(folder.glob("log-*"))
    kinds = (
        record["kind"] for path in segments for records, _ in _read(path) for record, _ in records
    )
    return any(folder.glob("checkpoint-*.json")) or any(kind != "segments" for kind in kinds)


def _write(descriptor: int, records: Records) -> int:
    """Appends one frame; returns its length."""
    described = [
        [description, [(array.dtype.str, len(array)) for array in arrays]]
        for description, arrays in records
    ]
    text = json.dumps(described).encode()
    checksum, length = 0, 0
    raws: list[Any] = [
        np.ascontiguousarray(array).view(np.uint8).data for _, own in records for array in own
    ]
    for raw in raws:
        checksum, length = zlib.crc32(raw, checksum), length + raw.nbytes
    header = _HEADER.pack(_MAGIC, len(text), length, zlib.crc32(text), checksum)
    for part in (header + _CHECKSUM.pack(zlib.crc32(header)) + text, *raws):
        left = memoryview(part)
        while left:
            left = left[os.write(descriptor, left) :]
    return _HEADER.size + _CHECKSUM.size + len(text) + length


def _read(path: Path, limit: int | None = None) -> Iterator[tuple[Records, int]]:
    """The records of each whole frame of a segment, and where it ends; no further than a limit."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        limit = size if limit is None else min(limit, size)
        while file.tell() < limit:
            start = file.tell()
            frame = _frame(file.read(_HEADER.size + _CHECKSUM.size), file, limit)
            if frame is None:
                file.seek(start + 1)
                _check_torn(path, file.read(limit - start - 1), start)
                return
            yield _records(*frame), file.tell()


def _frame(header: bytes, file: Any, limit: int) -> tuple[bytes, bytes] | None:
    """The descriptions and the arrays that follow a header; None if they are not whole."""
    lengths = _lengths(header)
    if lengths is None or file.tell() + sum(lengths[:2]) > limit:
        return None
    text, raw = file.read(lengths[0]), file.read(lengths[1])
    is_whole = zlib.crc32(text) == lengths[2] and zlib.crc32(raw) == lengths[3]
    return (text, raw) if is_whole else None


def _lengths(header: bytes) -> tuple[int, int, int, int] | None:
    """What a header says; None if it is none."""
    if len(header) < _HEADER.size + _CHECKSUM.size:
        return None
    fields = header[: _HEADER.size]
    if _CHECKSUM.unpack_from(header, _HEADER.size)[0] != zlib.crc32(fields):
        return None
    magic, *lengths = _HEADER.unpack(fields)
    return (lengths[0], lengths[1], lengths[2], lengths[3]) if magic == _MAGIC else None


def _check_torn(path: Path, rest: bytes, at: int) -> None:
    """An error if there are headers after a bad frame: it was whole when they were written."""
    found = rest.find(_MAGIC)
    while found >= 0:
        if _lengths(rest[found : found + _HEADER.size + _CHECKSUM.size]) is not None:
            message = f"{str(path)!r} does not hold what was written to it"
            raise CorruptFile(message, str(path), at)
        found = rest.find(_MAGIC, found + 1)


def _records(text: bytes, raw: bytes) -> Records:
    records: Records = []
    at = 0
    for description, shapes in json.loads(text):
        arrays = []
        for dtype, count in shapes:
            arrays.append(np.frombuffer(raw, np.dtype(dtype), count, at))
            at += count * np.dtype(dtype).itemsize
        records.append((description, arrays))
    return records


def _make_folder(folder: Path) -> None:
    """Makes a folder, and those that it is in, so that they are there after a crash."""
    if not folder.exists():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
