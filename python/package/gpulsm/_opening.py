"""Opening dictionaries in folders, and looking at the files of dictionaries."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, get_args, overload

from numpy.typing import DTypeLike

from gpulsm import _native
from gpulsm._base import whole
from gpulsm._dictionary import Dictionary, of_new_store
from gpulsm._families import DType
from gpulsm._files import file_name, flag, naming_missing_folder
from gpulsm._keys import spec_of
from gpulsm._set import Set
from gpulsm._settings import checked, checked_progress
from gpulsm._stored import new_types, stored_key, stored_types, stored_value
from gpulsm._types import Cleanup, Combine, Durability, FilePath, KeyLike, Progress

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Settings(TypedDict, total=False):
    """The settings of `open`."""

    durability: Durability
    combine: Combine | None
    device: str | Sequence[str]
    log_limit: int | None
    batch_size: int | None
    threads: int | None
    memory_limit: int | None
    max_merge_per_batch: int | None
    cleanup: Cleanup
    create: bool
    progress: Progress | None


# With a type of values it is a dictionary; otherwise only the folder knows.
@overload
def open(
    path: FilePath, key: KeyLike | None, value: DTypeLike, **settings: Unpack[Settings]
) -> Dictionary: ...
@overload
def open(
    path: FilePath,
    key: KeyLike | None = None,
    *,
    value: DTypeLike,
    **settings: Unpack[Settings],
) -> Dictionary: ...
@overload
def open(
    path: FilePath, key: KeyLike | None = None, **settings: Unpack[Settings]
) -> Dictionary | Set: ...
def open(
    path: FilePath,
    key: KeyLike | None = None,
    value: DTypeLike | None = None,
    *,
    durability: Durability = "batch",
    combine: Combine | None = None,
    device: str | Sequence[str] = "best",
    log_limit: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    max_merge_per_batch: int | None = None,
    cleanup: Cleanup = "automatic",
    create: bool = True,
    progress: Progress | None = None,
) -> Dictionary | Set:
    """Returns the dictionary, or the set, that lives in a folder, also after a crash; creates it if there is none.

    All of it is held in memory, as that of any other dictionary is; the folder makes it last. An update is written to a
    log before it returns, and with `durability="batch"` also synced, which takes about a hundred times as long as a short
    update does in memory: give many keys at a time, or choose 'os'. Several threads that make updates at the same time share the
    writing to stable storage. Copies, snapshots and what pickling makes are in memory only. A process that was forked
    can't use the dictionary of its parent. Close the dictionary, or use it in a `with` block, to release the folder.

    Parameters
    ----------
    path
        The folder. A new dictionary is created in one that is missing or empty; the folder that contains it must
        exist.
    key, value
        The types, as of `Dictionary`. They may be left out if the dictionary exists; if given, they must be those
        that it has. To create one, both are needed (`Set.open` creates a set).
    durability
        What is durable when an update returns. 'batch': the update, whatever happens to the machine. 'os': it
        survives the end of the process; a crash of the machine may lose the last updates, in order (`sync` waits
        for all of them). 'checkpoint': nothing, until `checkpoint` or `close` has returned; there is no log.
    combine
        As of `Dictionary`. Default: that of the existing dictionary, or 'replace'.
    device
        As of `Dictionary`, whatever it was before.
    log_limit
        How many bytes the log may have. Default: as many as the pairs, but at least 256 MiB.
    batch_size
        As of `Dictionary`. Default: the one that it was created with.
    threads, memory_limit, max_merge_per_batch, cleanup
        As of `Dictionary`.
    create
        Whether to create a dictionary where there is none. False tells a path that is misspelt.
    progress
        Is called now and then with how many bytes were read, of how many. An exception of its own is raised at
        the end.

    Raises
    ------
    FileNotFoundError
        If there is no dictionary, and no types to create one with, or none is to be created; or if there is no folder
        to create it in, which it names.
    OSError
        If the system refuses to read or write a file.
    Locked
        If it is open already, in this process or in another one.
    CorruptFile
        If a file does not hold what was written to it.
    TypeError, ValueError
        If the dictionary has other types or another rule of combining, if there is something else in the folder,
        or if an argument can't be used.
    OutOfMemoryError, CudaError
        As for `Dictionary`. After any of these the files are as they were.

    Examples
    --------
    >>> import gpulsm, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with gpulsm.open(folder.name, key="uint64", value="float32") as prices:
    ...     prices.insert([1, 2], [0.5, 1.5])
    >>> with gpulsm.open(folder.name) as prices:
    ...     prices[2]
    1.5
    >>> folder.cleanup()
    """
    return _open(
        path,
        (key, value, combine),
        False,
        durability,
        device,
        log_limit,
        batch_size,
        threads,
        memory_limit,
        max_merge_per_batch,
        cleanup,
        create,
        progress,
    )


def open_set(
    path: FilePath,
    key: KeyLike | None = None,
    *,
    durability: Durability = "batch",
    device: str | Sequence[str] = "best",
    log_limit: int | None = None,
    batch_size: int | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    max_merge_per_batch: int | None = None,
    cleanup: Cleanup = "automatic",
    create: bool = True,
    progress: Progress | None = None,
) -> Set:
    """`Set.open`."""
    opened = _open(
        path,
        (key, None, None),
        True,
        durability,
        device,
        log_limit,
        batch_size,
        threads,
        memory_limit,
        max_merge_per_batch,
        cleanup,
        create,
        progress,
    )
    assert isinstance(opened, Set)
    return opened


def _open(
    path: FilePath,
    wanted: tuple[KeyLike | None, DTypeLike | None, Combine | None],
    is_set: bool,
    durability: Durability,
    device: str | Sequence[str],
    log_limit: int | None,
    batch_size: int | None,
    threads: int | None,
    memory_limit: int | None,
    max_merge_per_batch: int | None,
    cleanup: Cleanup,
    create: bool,
    progress: Progress | None,
) -> Dictionary | Set:
    key, value, combine = wanted
    path = file_name(path)
    if durability not in get_args(Durability):
        known = ", ".join(map(repr, get_args(Durability)))
        raise ValueError(f"durability: expected one of {known}, got {durability!r}")
    limit = None if log_limit is None else whole("log_limit", log_limit, 1)
    stored = _native.stored_types(path, True)
    if stored is not None:
        types = stored_types(path, stored, key, value, combine)
        if is_set and types.value is not None:
            what = f"{path!r} holds a dictionary with values"
            raise TypeError(f"{what}: `gpulsm.open` opens it")
    elif key is None or not flag("create", create):
        need = "no dictionary is here"
        if create:
            types_needed = "key=…" if is_set else "key=… and value=…"
            need += f"; to create one, give its types: {types_needed}"
        raise FileNotFoundError(errno.ENOENT, need, path)
    elif value is None and not is_set:
        raise TypeError(
            "value: expected the type of values of a new dictionary, such as 'float64'; "
            f"`gpulsm.Set.open(…, {key!r})` creates one without values"
        )
    else:
        types = new_types(key, value, combine)
    settings = checked(
        device, batch_size, threads, memory_limit, max_merge_per_batch, cleanup, types.rule
    )
    files = {"durability": durability, "log_limit": limit, "create": stored is None}
    told = checked_progress(progress)
    with naming_missing_folder(path):
        store = _native.Store.open(path, types.names(), settings, files, told)
    if types.value is None:
        return of_new_store(Set, store, types, settings, path)
    return of_new_store(Dictionary, store, types, settings, path)


@dataclass(frozen=True)
class FileInfo:
    """What the files of a dictionary contain. As text (`print(gpulsm.info(path))`), with its runs and settings, in
    the words of the program `gpulsm info`.

    Attributes
    ----------
    path
        The folder or the saved file.
    key_dtype, value_dtype
        The types, as of a `Dictionary`. No `value_dtype`: a set. No `key_dtype`: keys that Python has no type
        for.
    combine
        What an insert does to a key that is already there.
    batch_size
        The batch size, if the files have it.
    entries
        Entries of the runs.
    updates
        How many updates there are in the log alone.
    bytes
        Bytes of runs and log.
    log_bytes
        Bytes of the log.
    torn_bytes
        Bytes of an incomplete update at the end of the log, as a crash leaves it.
    """

    path: str
    key_dtype: DType | tuple[DType, ...] | None
    value_dtype: DType | None
    combine: Combine
    batch_size: int | None
    entries: int
    updates: int
    bytes: int
    log_bytes: int
    torn_bytes: int

    def __str__(self) -> str:
        return self._text  # type: ignore[attr-defined, no-any-return]


def info(path: FilePath) -> FileInfo:
    """Returns what a folder or a saved file contains, by what it says about itself. The pairs are not read.

    Raises
    ------
    Locked, CorruptFile, OSError, ValueError
        As for `check`.

    Examples
    --------
    >>> import gpulsm, pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "prices.gpulsm")
    >>> gpulsm.Dictionary.build([1, 2], [0.5, 1.5], key="uint64").save(path)
    >>> gpulsm.info(path).entries
    2
    >>> print(gpulsm.info(path))
           key  u64
         value  f64
       combine  replace
    batch size  65536
         pairs  2
           run  level 0: 2 entries, 12.02 KiB
    >>> folder.cleanup()
    """
    path = file_name(path)
    return _described(path, _native.files_info(path))


def check(path: FilePath, progress: Progress | None = None) -> FileInfo:
    """Reads all files of a dictionary, a folder or a saved file, and verifies every checksum. Changes nothing.

    Parameters
    ----------
    path
        The folder, or the file.
    progress
        Is called now and then with how many bytes were read, of how many. An exception of its own is raised at
        the end.

    Returns
    -------
    FileInfo
        What the files contain.

    Raises
    ------
    CorruptFile
        If a file does not hold what was written to it. It names the file and the place.
    Locked
        If the dictionary is open.
    OSError
        If the system refuses to read a file.
    ValueError
        If it is another kind of file or folder, or empty.

    Examples
    --------
    >>> import gpulsm, pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "prices.gpulsm")
    >>> gpulsm.Dictionary.build([1, 2], [0.5, 1.5]).save(path)
    >>> gpulsm.check(path).entries
    2
    >>> damaged = bytearray(path.read_bytes())
    >>> damaged[8193] ^= 1
    >>> _ = path.write_bytes(damaged)
    >>> try:
    ...     gpulsm.check(path)
    ... except gpulsm.CorruptFile as error:
    ...     error.offset
    8192
    >>> folder.cleanup()
    """
    path = file_name(path)
    return _described(path, _native.check_files(path, checked_progress(progress)))


def _described(path: str, figures: dict[str, Any]) -> FileInfo:
    stored = _native.stored_types(path, os.path.isdir(path))
    if stored is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    text, key = figures.pop("text"), stored_key(stored)
    made = FileInfo(
        path=path,
        key_dtype=None if key is None else spec_of(key),
        value_dtype=stored_value(stored),
        combine=stored["combine"][0],
        **figures,
    )
    object.__setattr__(made, "_text", text)  # Not one of its figures.
    return made
