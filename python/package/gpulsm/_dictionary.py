"""Dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from numpy.typing import DTypeLike

from gpulsm._base import whole
from gpulsm._durable import Durable
from gpulsm._families import HOST, DType
from gpulsm._files import file_name, is_table, types_of_file
from gpulsm._from_tables import FromTables
from gpulsm._inference import place_of, types_of
from gpulsm._keys import spec_of
from gpulsm._mapping import Queries
from gpulsm._native import Store
from gpulsm._native import stored_types as read_types
from gpulsm._pair_updates import PairUpdates
from gpulsm._settings import checked, checked_progress, checked_rule, value_dtype
from gpulsm._settings import key_type as named_key_type
from gpulsm._snapshot import Snapshot, pickled
from gpulsm._stored import Types, stored_types
from gpulsm._types import (
    ArrayLike,
    Cleanup,
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

D = TypeVar("D", bound=Durable)


class Dictionary(Durable, FromTables, PairUpdates):  # type: ignore[misc]
    """A dynamic, ordered dictionary, updated and queried in batches: arrays in, arrays out.

    A call happens whole or not at all: after an exception the dictionary is as it was. (`KeyboardInterrupt`
    is raised when the call has ended, and its batch is applied.) Within one batch
    the last insert of a key wins, and a key both inserted and deleted is deleted. Any number of threads
    may use a dictionary at a time; one that changes it does so alone. Calls release the GIL. An array may be
    changed, or given back, as soon as the call that it was given to has returned (on a GPU: by work on the
    stream that was current during the call). Two dictionaries are equal only if they are the same one:
    compare their `arrays()`.

    It is a mapping. What it holds of keys alone is a `Set`. Ranges include both ends, unless `closed` says otherwise.

    Parameters
    ----------
    key
        The type of keys: 'uint32', 'uint64', 'int32', 'int64', 'float32' or 'float64', or times:
        'datetime64[unit]' or 'timedelta64[unit]', such as 'datetime64[ns]'; or bytes, 'S1' to 'S16', which
        are compared from the first on. A tuple of two to four of these, of at most 16 bytes in all, such as
        `('uint32', 'int64')`, makes keys of several parts, compared from the first part on: they go in and
        come out as tuples, of an array for each part or of a scalar for each. Of CuPy and PyTorch, which have
        no arrays of bytes, those are rows of uint8, of the shape (n, 16) for 'S16'.
    value
        The type of values: any NumPy type of 4, 8 or 16 bytes, such as 'uint32', 'float64', 'complex128',
        'datetime64[ns]', a structure, or a few numbers together (`('float32', 4)`: value arrays then have
        the shape (n, 4)). Without both types they are uint32. (A dictionary without values is a `Set`.)
    combine
        What `insert` does to a key that is already there: 'replace' (the default) its value; or combine
        both values, by 'add' (integers wrap around), 'min', 'max', 'or', 'and' or 'xor' (the last three:
        integers). Values must be integers or floats of 32 or 64 bits, or several of them together, which
        combine one by one. Of floats, sums may differ in their last digits (and where some values overflow),
        also from one query to the next;
        for 'min' and 'max', -0 is 0, and NaN is greater than all others.
    batch_size
        The size of call that it is laid out for. Calls may be of any length; those of about this one
        cost least, and larger ones mean faster queries.
    device
        'best' (a GPU where there is one, else the CPU), 'cpu', 'cuda' or 'cuda:N'. Or a list, such as
        ['cuda:0', 'cuda:1']: then it is divided by key among all of them, which work at the same time. Such a
        dictionary takes arrays in the CPU's memory only.
    threads
        On the CPU, how many threads of its own work for it, or for each of several devices. Default: it shares those of the process.
    memory_limit
        The most bytes that it, its copies and its snapshots may take together, with the space that applying
        batches takes. A call that needs more raises `OutOfMemoryError` and changes nothing.
    max_merge_per_batch
        About how many entries a batch merges at most; what more there is to merge is deferred, and done a
        part with every later batch. Default: as many as take a few times as long as a usual batch.
    cleanup
        'automatic': stale entries are removed when they outnumber the keys by more than a batch.
        'manual': only `cleanup()` removes them.

    Raises
    ------
    TypeError, ValueError
        If an argument can't be used.
    CudaError
        If the device is a GPU that is not there or can't be used.

    Examples
    --------
    >>> import gpulsm
    >>> d = gpulsm.Dictionary(key="uint32", value="float32")
    >>> d.insert([30, 10, 20], [3.0, 1.0, 2.0])
    >>> d.delete([10])
    >>> d.count(0, 25)
    1
    >>> d[20]
    2.0
    >>> counters = gpulsm.Dictionary("uint64", "uint32", combine="add")
    >>> counters.add([7, 8, 7])
    >>> counters.add(7, 10)
    >>> list(counters.items())
    [(7, 12), (8, 1)]
    """

    def __init__(
        self,
        key: KeyLike | None = None,
        value: DTypeLike | None = None,
        *,
        combine: Combine = "replace",
        batch_size: int = 65536,
        device: str | Sequence[str] = "best",
        threads: int | None = None,
        memory_limit: int | None = None,
        max_merge_per_batch: int | None = None,
        cleanup: Cleanup = "automatic",
    ) -> None:
        if key is None and value is None:
            key, value = "uint32", "uint32"
        keys, values = named_key_type("uint32" if key is None else key), value_dtype(value)
        if values is None:
            raise TypeError(
                f"value: expected the type of values, such as 'float64'; `gpulsm.Set({key!r})` makes a dictionary "
                "without values"
            )
        rule = checked_rule(combine, values)
        size = whole("batch_size", batch_size, 1)
        settings = checked(device, size, threads, memory_limit, max_merge_per_batch, cleanup, rule)
        names = Types(keys, values, rule).names()
        super().__init__(Store(names, settings), keys, values, settings)

    @classmethod
    def build(
        cls,
        keys: ArrayLike | Composite,
        values: Value | ArrayLike | None = None,
        *,
        key: KeyLike | None = None,
        value: DTypeLike | None = None,
        duplicates: Duplicates | None = None,
        combine: Combine = "replace",
        batch_size: int = 65536,
        device: str | Sequence[str] | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        max_merge_per_batch: int | None = None,
        cleanup: Cleanup = "automatic",
    ) -> Dictionary:
        """Returns a dictionary of these pairs, at the speed of one sort.

        Parameters
        ----------
        keys
            An array, list or column of keys; a tuple of them makes keys of several parts.
        values
            As many values, or one for every key (then give its type, `value`). (`Set.build` takes keys alone.)
        key, value
            The types. Default: those of the arrays.
        duplicates
            Which of equal keys counts, as for `insert`.
        device
            As of `Dictionary`. Default: the one where the keys are, if that is a GPU, else the best.
        combine, batch_size, threads, memory_limit, max_merge_per_batch, cleanup
            As of `Dictionary`. With a rule to combine, the values of equal keys are combined.

        Raises
        ------
        TypeError, ValueError, DuplicateKeyError, OutOfMemoryError
            As for `insert`.

        Examples
        --------
        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build(np.array([3, 1, 2], np.uint64), np.array([0.3, 0.1, 0.2]))
        >>> d.key_dtype, d.value_dtype, len(d)
        (dtype('uint64'), dtype('float64'), 3)
        """
        if values is None:
            raise TypeError(
                "values: expected as many values; `gpulsm.Set.build(keys)` takes keys alone"
            )
        key, value = types_of(keys, values, key, value)
        if device is None:
            place = place_of(keys)
            device = "best" if place is HOST else f"cuda:{place}"
        built = cls(
            key,
            value,
            combine=combine,
            batch_size=batch_size,
            device=device,
            threads=threads,
            memory_limit=memory_limit,
            max_merge_per_batch=max_merge_per_batch,
            cleanup=cleanup,
        )
        built.insert(keys, values, duplicates=duplicates)
        return built

    @classmethod
    def from_file(
        cls,
        path: FilePath,
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
    ) -> Dictionary:
        """Returns a dictionary of two columns of a CSV or Parquet file.

        Parameters
        ----------
        path, key, value, separator, header, missing, duplicates
            As of `insert_file`. `key` and `value` are columns, as of `from_pandas`.
        key_type, value_type
            The types, as `key` and `value` of `Dictionary`; a tuple of types makes keys of several parts. Default:
            those of the columns of a Parquet file; of text, uint32.
        **settings
            As of `Dictionary`: `device`, `batch_size`, …

        Raises
        ------
        OSError, TypeError, ValueError, DuplicateKeyError, OutOfMemoryError
            As for `insert_file`.

        Examples
        --------
        >>> import gpulsm, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "prices.csv")
        >>> _ = path.write_text("id,name,price\\n7,nut,0.7\\n5,bolt,0.5\\n")
        >>> d = gpulsm.Dictionary.from_file(path, key="id", value="price", value_type="float64")
        >>> d.first()
        (5, 0.5)
        >>> types = {"key_type": ("S4", "uint32"), "value_type": "float32"}
        >>> d = gpulsm.Dictionary.from_file(path, ["name", "id"], "price", **types)
        >>> list(d)
        [(b'bolt', 5), (b'nut\\x00', 7)]
        >>> folder.cleanup()
        """
        types = types_of_file(path, (key, value), (key_type, value_type), has_values=True)
        made = cls(spec_of(types[0]), types[1], **settings)
        made.insert_file(
            path,
            key,
            value,
            separator=separator,
            header=header,
            missing=missing,
            duplicates=duplicates,
        )
        return made

    @classmethod
    def load(
        cls,
        path: FilePath,
        *,
        key: KeyLike | None = None,
        value: DTypeLike | None = None,
        combine: Combine | None = None,
        device: str | Sequence[str] = "best",
        batch_size: int | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        max_merge_per_batch: int | None = None,
        cleanup: Cleanup = "automatic",
        progress: Progress | None = None,
    ) -> Dictionary:
        """Returns the dictionary that `save` wrote to a file, in memory: changes are not written to the file. (For
        a dictionary whose changes last, see `gpulsm.open`.) A folder that a dictionary lives in is loaded as well,
        and left as it is; its disk may be full or read-only.

        Parameters
        ----------
        path
            The file, or the folder.
        key, value, combine
            As of `Dictionary`. Default: those of the file; if given, they must be the same.
        batch_size
            As of `Dictionary`. Default: that of the dictionary that was saved.
        device, threads, memory_limit, max_merge_per_batch, cleanup
            As of `Dictionary`, whatever they were before.
        progress
            Is called now and then with how many bytes were read, of how many. An exception of its own is raised
            at the end.

        Raises
        ------
        OSError
            If the file is missing or can't be read.
        Locked
            If it is a folder, and the dictionary is open.
        CorruptFile
            If the file does not hold what was written to it.
        TypeError, ValueError
            If the file has other types or another rule of combining, if it is empty, another kind of file, or a part
            of a dictionary that lives in a folder, if a folder holds no dictionary, or if an argument can't be used.
        OutOfMemoryError, CudaError
            As for `Dictionary`.

        Examples
        --------
        >>> import gpulsm, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "prices.gpulsm")
        >>> gpulsm.Dictionary.build([1, 2], [0.5, 1.5], key="uint64").save(path)
        >>> d = gpulsm.Dictionary.load(path, device="cpu")
        >>> d.key_dtype, d[2]
        (dtype('uint64'), 1.5)
        >>> folder.cleanup()
        """
        made = loaded(
            cls,
            path,
            (key, value, combine),
            device,
            batch_size,
            threads,
            memory_limit,
            max_merge_per_batch,
            cleanup,
            progress,
        )
        if made.value_dtype is None:
            raise TypeError(f"{file_name(path)!r} holds a set: `gpulsm.Set.load` loads it")
        return made

    def snapshot(self) -> Snapshot:
        """Returns the dictionary as it is now, frozen: it answers the same queries whatever happens to the
        dictionary. It shares the memory, and costs next to nothing.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([1, 2], [10, 20])
        >>> before = d.snapshot()
        >>> d.clear()
        >>> len(d), len(before)
        (0, 2)
        """
        return Snapshot(self._store.copy("snapshot"), self._key, self._value, self._settings)

    def copy(self) -> Dictionary:
        """Returns a dictionary of its own with the same pairs, in memory. Both share what they have in common."""
        return of_store(type(self), self)

    __copy__ = copy

    def __deepcopy__(self, _: Any) -> Dictionary:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, pickled(self)


def of_store(cls: type[D], of: Queries) -> D:
    """A dictionary or set of the same keys, which shares the memory."""
    made = cls.__new__(cls)
    Durable.__init__(made, of._store.copy("clone"), of._key, of._value, of._settings)
    return made


def of_new_store(
    cls: type[D], store: Store, types: Types, settings: dict[str, Any], path: str | None = None
) -> D:
    """A dictionary or set whose keys come from files."""
    made = cls.__new__(cls)
    settings = {**settings, "batch_size": store.batch_size}
    Durable.__init__(made, store, types.key, types.value, settings, path)
    return made


def loaded(
    cls: type[D],
    path: FilePath,
    wanted: tuple[KeyLike | None, DTypeLike | None, Combine | None],
    device: str | Sequence[str],
    batch_size: int | None,
    threads: int | None,
    memory_limit: int | None,
    max_merge_per_batch: int | None,
    cleanup: Cleanup,
    progress: Progress | None,
) -> D:
    """What is in a file, in memory."""
    path = file_name(path)
    try:
        stored = read_types(path, False)
    except ValueError as error:
        if type(error) is ValueError and is_table(path):
            message = f"{error}; `Dictionary.from_file` reads CSV and Parquet"
            raise ValueError(message) from None
        raise
    assert stored is not None, "a file has types"
    types = stored_types(path, stored, *wanted)
    settings = checked(
        device, batch_size, threads, memory_limit, max_merge_per_batch, cleanup, types.rule
    )
    store = Store.load(path, types.names(), settings, checked_progress(progress))
    return of_new_store(cls, store, types, settings)


def _unpickle(
    key: KeyLike, value: DType, settings: dict[str, Any], keys: Any, values: Any
) -> Dictionary:
    dictionary = Dictionary(key, value, **settings)
    dictionary.insert(keys, values)
    return dictionary


def unpickle_snapshot(*pickled: Any) -> Snapshot:
    return _unpickle(*pickled).snapshot()
