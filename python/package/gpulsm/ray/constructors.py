"""Dictionaries over shards that are made of arrays, tables, files, and other dictionaries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from gpulsm._dictionary import Dictionary, loaded
from gpulsm._from_tables import FromTables
from gpulsm._inference import types_of
from gpulsm._keys import spec_of
from gpulsm._mapping import Queries
from gpulsm._settings import checked_progress
from gpulsm._types import (
    ArrayLike,
    ColumnChoice,
    Combine,
    Composite,
    Duplicates,
    FilePath,
    Header,
    KeyColumns,
    KeyLike,
    Missing,
    Progress,
    Value,
)
from gpulsm.ray.opening import check_unused

#: How many pairs of another dictionary are inserted at a time.
_STEP = 1 << 20
#: How many of them, at most, the keys are divided by.
_SAMPLE = 1 << 16

C = TypeVar("C", bound="Constructors")
D = TypeVar("D")


class Constructors(FromTables):
    """Ways to make a dictionary over shards other than an empty one."""

    insert: Callable[..., None]

    @classmethod
    def build(
        cls: type[C],
        keys: ArrayLike | Composite,
        values: Value | ArrayLike | None = None,
        *,
        key: KeyLike | None = None,
        value: DTypeLike | None = None,
        duplicates: Duplicates | None = None,
        **settings: Any,
    ) -> C:
        """Returns a dictionary of these pairs, which are inserted as one batch.

        Parameters
        ----------
        keys, values, key, value, duplicates
            As of `Dictionary.build`.
        **settings
            As of `ShardedDictionary`: `shards`, `resources`, `path`, `device`, … On a `path` there must be no pairs yet.

        Raises
        ------
        TypeError, ValueError, DuplicateKeyError, OutOfMemoryError
            As for `ShardedDictionary` and `insert`. The actors have ended then.
        """
        key, value = types_of(keys, values, key, value)
        with filling(cls._empty(key, value, settings)) as built:
            built.insert(keys, values, duplicates=duplicates)
        return built

    @classmethod
    def from_file(
        cls: type[C],
        file: FilePath,
        key: KeyColumns | None = None,
        value: ColumnChoice | None = None,
        *,
        key_type: KeyLike | None = None,
        value_type: DTypeLike | None = None,
        separator: str | None = None,
        header: Header = "auto",
        missing: Missing = "error",
        duplicates: Duplicates | None = None,
        **settings: Any,
    ) -> C:
        """Returns a dictionary of two columns of a CSV or Parquet file. This process reads all of it, and inserts a million
        pairs at a time.

        Parameters
        ----------
        file
            The file; `path`, among the settings, is where shards keep theirs.
        key, value, key_type, value_type, separator, header, missing, duplicates
            As of `Dictionary.from_file`.
        **settings
            As of `build`.

        Raises
        ------
        OSError, TypeError, ValueError, DuplicateKeyError, OutOfMemoryError
            As for `ShardedDictionary` and `insert_file`. The actors have ended then.
        """
        with (
            Dictionary.from_file(
                file,
                key,
                value,
                key_type=key_type,
                value_type=value_type,
                separator=separator,
                header=header,
                missing=missing,
                duplicates=duplicates,
                combine=settings.get("combine", "replace"),
                device="cpu",
            ) as read,
            filling(cls._empty(spec_of(read._key), read._value, settings)) as made,
        ):
            insert_all(made, read)
        return made

    @classmethod
    def load(
        cls: type[C],
        file: FilePath,
        *,
        key: KeyLike | None = None,
        value: DTypeLike | None = None,
        combine: Combine | None = None,
        batch_size: int | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> C:
        """Returns the dictionary that `save`, of a dictionary of any kind, wrote to a file. This process reads all of it
        and inserts a million pairs at a time. A folder that a `gpulsm.open` dictionary lives in is loaded as well.

        Parameters
        ----------
        file
            The file, or the folder; `path`, among the settings, is where shards keep theirs.
        key, value, combine, batch_size
            As of `Dictionary.load`.
        progress
            Is called with how many pairs are inserted, of how many.
        **settings
            As of `build`.

        Raises
        ------
        OSError, Locked, CorruptFile, TypeError, ValueError, OutOfMemoryError
            As for `Dictionary.load` and `ShardedDictionary`. The actors have ended then.
        """
        tell = checked_progress(progress)
        types = (key, value, combine)
        with loaded(
            Dictionary, file, types, "cpu", batch_size, None, None, None, "automatic", None
        ) as saved:
            settings = {**settings, "combine": saved.combine, "batch_size": saved.batch_size}
            with filling(cls._empty(spec_of(saved._key), saved._value, settings)) as made:
                insert_all(made, saved, tell)
        return made

    @classmethod
    def _empty(cls: type[C], key: KeyLike, value: DTypeLike | None, settings: dict[str, Any]) -> C:
        if "path" in settings:
            check_unused(folder_of(settings["path"]))
        make: Any = cls
        made: C = make(key, value, **settings)
        return made


@contextmanager
def filling(made: D) -> Iterator[D]:
    """Ends a new dictionary that can't be filled, and one that has pairs already."""
    dictionary: Any = made
    try:
        count = 0 if dictionary.path is None else len(dictionary)
        if count:
            raise ValueError(
                f"path: {dictionary.path!r} has a dictionary of {count:,} keys; `ShardedDictionary(…, path=…)` opens it,"
                " for `insert` and `insert_file`"
            )
    except BaseException:
        dictionary.close()
        raise
    try:
        yield made
    except BaseException:
        try:
            with suppress(Exception):
                dictionary.clear()
        finally:
            dictionary.close()
        raise


def insert_all(made: Any, source: Queries, tell: Progress | None = None) -> None:
    """Brings every pair of a dictionary or snapshot to one that has none, some at a time."""
    pairs = source._frozen()
    total = len(pairs)
    if total > _STEP:
        # Pairs from everywhere come first, for the keys are divided by the first batch.
        some = np.arange(0, total, -(-total // _SAMPLE), dtype=np.int64)
        made.set(*pairs.select(some)[:2])
    for start in range(0, total, _STEP):
        made.set(*pairs._pairs_at(start, _STEP))
        if tell is not None:
            tell(min(start + _STEP, total), total)


def folder_of(path: FilePath | None) -> str | None:
    """The folder for the files of a dictionary, whichever way it was named."""
    if path is None:
        return None
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"path: expected the name of a folder, got {type(path).__name__}")
    folder = os.fsdecode(path)
    if not folder:
        raise ValueError("path: expected the name of a folder, got an empty text")
    return os.path.realpath(folder)
