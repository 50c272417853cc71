"""Sets: dictionaries without values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from gpulsm._base import whole
from gpulsm._dictionary import loaded, of_store
from gpulsm._durable import Durable
from gpulsm._families import HOST
from gpulsm._files import file_name, types_of_file
from gpulsm._inference import place_of, types_of
from gpulsm._keys import spec_of
from gpulsm._native import Store
from gpulsm._settings import checked, checked_rule
from gpulsm._settings import key_type as named_key_type
from gpulsm._snapshot import SetSnapshot, pickled
from gpulsm._stored import Types
from gpulsm._types import (
    ArrayLike,
    Cleanup,
    Composite,
    Duplicates,
    FilePath,
    Header,
    KeyColumns,
    KeyLike,
    Missing,
    Progress,
)

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Set(Durable, AbstractSet[Any]):
    """A dynamic, ordered set of keys, updated and queried in batches: a `Dictionary` without values.

    Where a call of a dictionary returns values, that of a set returns None. Sets of pairs, such as
    `Set(("uint32", "uint32"))`, are multimaps. With `&`, `|`, `-` and `^` it makes sets of Python's. Two are equal only
    if they are the same one.

    Parameters
    ----------
    key, batch_size, device, threads, memory_limit, max_merge_per_batch, cleanup
        As of `Dictionary`.

    Raises
    ------
    TypeError, ValueError, CudaError
        As for `Dictionary`.

    Examples
    --------
    >>> import gpulsm
    >>> s = gpulsm.Set("uint64")
    >>> s.insert([30, 10, 20, 10])
    >>> s.delete(20)
    >>> list(s), 30 in s, s.count(0, 25)
    ([10, 30], True, 1)
    """

    def __init__(
        self,
        key: KeyLike = "uint32",
        *,
        batch_size: int = 65536,
        device: str | Sequence[str] = "best",
        threads: int | None = None,
        memory_limit: int | None = None,
        max_merge_per_batch: int | None = None,
        cleanup: Cleanup = "automatic",
    ) -> None:
        keys, rule = named_key_type(key), checked_rule("replace", None)
        size = whole("batch_size", batch_size, 1)
        settings = checked(device, size, threads, memory_limit, max_merge_per_batch, cleanup, rule)
        store = Store(Types(keys, None, rule).names(), settings)
        super().__init__(store, keys, None, settings)

    @classmethod
    def build(
        cls,
        keys: ArrayLike | Composite,
        *,
        key: KeyLike | None = None,
        duplicates: Duplicates | None = None,
        device: str | Sequence[str] | None = None,
        **settings: Any,
    ) -> Set:
        """Returns a set of these keys, at the speed of one sort.

        Parameters
        ----------
        keys, key, duplicates, device
            As of `Dictionary.build`.
        **settings
            As of `Set`.

        Raises
        ------
        TypeError, ValueError, DuplicateKeyError, OutOfMemoryError
            As for `insert`.

        Examples
        --------
        >>> import gpulsm
        >>> gpulsm.Set.build([3, 1, 2, 3]).keys().tolist()
        [1, 2, 3]
        """
        key, _ = types_of(keys, None, key, None)
        if device is None:
            place = place_of(keys)
            device = "best" if place is HOST else f"cuda:{place}"
        built = cls(key, device=device, **settings)
        built.insert(keys, duplicates=duplicates)
        return built

    @classmethod
    def from_pandas(
        cls,
        frame: pandas.DataFrame | pandas.Series[Any] | pandas.Index[Any],
        key: Hashable | list[Hashable] | None = None,
        *,
        key_type: KeyLike | None = None,
        **settings: Any,
    ) -> Set:
        """Returns a set of a column of a pandas data frame, of several (keys of several parts), of a series, or of an
        index. `key`, `key_type` and `settings` are as of `Dictionary.from_pandas`; without a `key`, or columns of
        that name, the data frame must have one column.

        Examples
        --------
        >>> import gpulsm, pandas
        >>> list(gpulsm.Set.from_pandas(pandas.DataFrame({"id": [7, 5], "name": ["a", "b"]}), "id"))
        [5, 7]
        """
        return cls._of_table(frame, key, key_type, settings, "a pandas DataFrame, Series or Index")

    @classmethod
    def from_polars(
        cls,
        frame: polars.DataFrame | polars.Series,
        key: str | list[str] | None = None,
        *,
        key_type: KeyLike | None = None,
        **settings: Any,
    ) -> Set:
        """Returns a set of a column of a Polars data frame, of several, or of a series: as `from_pandas`."""
        return cls._of_table(frame, key, key_type, settings, "a Polars DataFrame or Series")

    @classmethod
    def from_arrow(
        cls,
        table: pyarrow.Table | pyarrow.RecordBatch | pyarrow.Array[Any],
        key: str | list[str] | None = None,
        *,
        key_type: KeyLike | None = None,
        **settings: Any,
    ) -> Set:
        """Returns a set of a column of a PyArrow table or record batch, of several, or of an array: as
        `from_pandas`."""
        return cls._of_table(
            table, key, key_type, settings, "a PyArrow Table, RecordBatch or Array"
        )

    @classmethod
    def _of_table(
        cls, table: Any, key: Any, key_type: KeyLike | None, settings: dict[str, Any], expected: str
    ) -> Set:
        from gpulsm._tables import keys_of

        return cls.build(keys_of(table, key, expected), key=key_type, **settings)

    @classmethod
    def from_file(
        cls,
        path: FilePath,
        key: KeyColumns | None = None,
        *,
        key_type: KeyLike | None = None,
        separator: str | None = None,
        header: Header = "auto",
        missing: Missing = "error",
        duplicates: Duplicates | None = None,
        **settings: Any,
    ) -> Set:
        """Returns a set of one column of a CSV or Parquet file, or of several (keys of several parts). All parameters
        are as of `Dictionary.from_file`.

        Examples
        --------
        >>> import gpulsm, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "prices.csv")
        >>> _ = path.write_text("id,name,price\\n7,nut,0.7\\n5,bolt,0.5\\n")
        >>> list(gpulsm.Set.from_file(path, "id"))
        [5, 7]
        >>> folder.cleanup()
        """
        types = types_of_file(path, (key, None), (key_type, None), has_values=False)
        made = cls(spec_of(types[0]), **settings)
        made.insert_file(
            path, key, separator=separator, header=header, missing=missing, duplicates=duplicates
        )
        return made

    @classmethod
    def load(
        cls,
        path: FilePath,
        *,
        key: KeyLike | None = None,
        device: str | Sequence[str] = "best",
        batch_size: int | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        max_merge_per_batch: int | None = None,
        cleanup: Cleanup = "automatic",
        progress: Progress | None = None,
    ) -> Set:
        """Returns the set that `save` wrote to a file, or that lives in a folder, in memory. All parameters are as of
        `Dictionary.load`."""
        made = loaded(
            cls,
            path,
            (key, None, None),
            device,
            batch_size,
            threads,
            memory_limit,
            max_merge_per_batch,
            cleanup,
            progress,
        )
        if made.value_dtype is not None:
            what = f"{file_name(path)!r} holds a dictionary with values"
            raise TypeError(f"{what}: `gpulsm.Dictionary.load` loads it")
        return made

    @classmethod
    def open(cls, path: FilePath, key: KeyLike | None = None, **settings: Any) -> Set:
        """Returns the set that lives in a folder, also after a crash; creates it if there is none. All parameters are
        as of `gpulsm.open`, which opens it as well, but would create a dictionary with values.

        Examples
        --------
        >>> import gpulsm, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with gpulsm.Set.open(folder.name, "uint64") as s:
        ...     s.insert([1, 2])
        >>> with gpulsm.open(folder.name) as s:
        ...     type(s).__name__, list(s)
        ('Set', [1, 2])
        >>> folder.cleanup()
        """
        from gpulsm._opening import open_set

        return open_set(path, key, **settings)

    def snapshot(self) -> SetSnapshot:
        """Returns the set as it is now, frozen, as `Dictionary.snapshot` does."""
        return SetSnapshot(self._store.copy("snapshot"), self._key, None, self._settings)

    def copy(self) -> Set:
        """Returns a set of its own with the same keys, in memory. Both share what they have in common."""
        return of_store(Set, self)

    __copy__ = copy

    def __deepcopy__(self, _: Any) -> Set:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, pickled(self)

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> set[Any]:
        """What Python's operators make: a set of its own."""
        return set(keys)


def _unpickle(key: KeyLike, _: None, settings: dict[str, Any], keys: Any, __: None) -> Set:
    made = Set(key, **settings)
    made.insert(keys)
    return made


def unpickle_snapshot(*pickled: Any) -> SetSnapshot:
    return _unpickle(*pickled).snapshot()
