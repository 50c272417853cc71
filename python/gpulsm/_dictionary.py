"""Dictionaries, and snapshots of them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from gpulsm._arrays import Given, dtype_of, place_of, read
from gpulsm._call import Call
from gpulsm._families import HOST, DType, describe
from gpulsm._native import Store
from gpulsm._queries import Queries

_KEYS = ("uint32", "uint64", "int32", "int64", "float32", "float64")
_WIDTHS = (4, 8, 16)


class Dictionary(Queries):
    """A dynamic, ordered dictionary, changed and asked in batches: arrays in, arrays out.

    key
        The type of keys: 'uint32', 'uint64', 'int32', 'int64', 'float32' or 'float64'.
    value
        The type of values: any NumPy type of 4, 8 or 16 bytes, such as 'uint32', 'float64',
        'complex128', 'datetime64[ns]', a structure, or a few numbers together (`('float32', 4)`: value
        arrays then have the shape (n, 4)). None makes a set.
    batch_size
        The size of call that it is laid out for. Calls may be of any length; those of about this one
        cost least, and larger ones mean faster queries.
    device
        'best' (a GPU where there is one, else the CPU), 'cpu', 'cuda' or 'cuda:N'.
    threads
        On the CPU, how many threads of its own work for it; else it shares those of the process.
    memory_limit
        The most bytes that it, its copies and its snapshots may take together, with the space that
        taking in batches works in. A call that needs more raises `OutOfMemory` and changes nothing.
    merged_at_once
        About how many entries a batch merges at most; what more there is to merge is left for the batches
        that come next. None: as many as take a few times as long as a usual batch.
    cleanup
        'automatic': stale entries are removed when they outnumber the keys by more than a batch.
        'manual': only `cleanup()` removes them.

    A call happens whole or not at all: after an exception the dictionary is as it was. Within one batch
    the last insert of a key wins, and a key both inserted and deleted is deleted. Any number of threads
    may use a dictionary at a time; one that changes it does so alone. Calls release the GIL. Two
    dictionaries are equal only if they are the same one: compare their `arrays()`.

    >>> import gpulsm, numpy as np
    >>> d = gpulsm.Dictionary(key="uint32", value="float32")
    >>> d.insert([30, 10, 20], [3.0, 1.0, 2.0])
    >>> d.delete([10])
    >>> d.count(0, 25)
    1
    >>> d[20]
    2.0
    """

    def __init__(
        self,
        key: DTypeLike = "uint32",
        value: DTypeLike | None = "uint32",
        *,
        batch_size: int = 65536,
        device: str = "best",
        threads: int | None = None,
        memory_limit: int | None = None,
        merged_at_once: int | None = None,
        cleanup: Literal["automatic", "manual"] = "automatic",
    ) -> None:
        if not isinstance(device, str):
            raise TypeError(
                f"device: expected a text such as 'cuda:0', got {type(device).__name__}"
            )
        if cleanup not in ("automatic", "manual"):
            raise ValueError(f"cleanup: expected 'automatic' or 'manual', got {cleanup!r}")
        self._settings: dict[str, Any] = {
            "device": device,
            "batch_size": _positive("batch_size", batch_size),
            "threads": None if threads is None else _positive("threads", threads, 1024),
            "memory_limit": None
            if memory_limit is None
            else _positive("memory_limit", memory_limit),
            "merged_at_once": None
            if merged_at_once is None
            else _positive("merged_at_once", merged_at_once),
            "cleans_itself": cleanup == "automatic",
        }
        keys, values = _key_dtype(key), _value_dtype(value)
        width = 0 if values is None else values.itemsize
        super().__init__(Store(keys.name, width, self._settings), keys, values)

    @classmethod
    def build(
        cls,
        keys: Any,
        values: Any = None,
        *,
        key: DTypeLike | None = None,
        value: DTypeLike | None = None,
        batch_size: int = 65536,
        device: str | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        merged_at_once: int | None = None,
        cleanup: Literal["automatic", "manual"] = "automatic",
    ) -> Dictionary:
        """A dictionary of these pairs, at the speed of one sort. Of equal keys the last one wins.

        The types are those of the arrays if they are not given, and without `values` it is a set. So is
        the device that of arrays on a GPU; for others it is the best there is.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build(np.array([3, 1, 2], np.uint64), np.array([0.3, 0.1, 0.2]))
        >>> d.key_dtype, d.value_dtype, len(d)
        (dtype('uint64'), dtype('float64'), 3)
        """
        if key is None:
            key = _key_dtype(dtype_of("keys", keys), "keys")
        if value is None and values is not None:
            value = _value_dtype(dtype_of("values", values), "values")
        if device is None:
            place = place_of(keys)
            device = "best" if place is HOST else f"cuda:{place}"
        built = cls(
            key,
            value,
            batch_size=batch_size,
            device=device,
            threads=threads,
            memory_limit=memory_limit,
            merged_at_once=merged_at_once,
            cleanup=cleanup,
        )
        built.insert(keys, values)
        return built

    @property
    def batch_size(self) -> int:
        """The size of call that it is laid out for."""
        size: int = self._settings["batch_size"]
        return size

    def insert(self, keys: Any, values: Any = None) -> None:
        """Inserts each key with its value, replacing what it had. Of equal keys the last one wins.

        One scalar for `values` goes with every key; a set has none.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary()
        >>> d.insert(np.array([3, 1], np.uint32), np.array([30, 10], np.uint32))
        >>> d.insert([5, 6], 0)
        >>> len(d)
        4
        """
        self._take_in(read("keys", keys, self._key), self._read_values(values), None)

    def delete(self, keys: Any) -> None:
        """Deletes each key; one that isn't there is no error."""
        self._take_in(None, None, read("keys", keys, self._key))

    def update(self, *, insert: Any = None, delete: Any = None) -> None:
        """One mixed batch: `insert` is a tuple of keys and values (of a set: keys), `delete` keys. A key
        in both is deleted.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([1, 2], [10, 20])
        >>> d.update(insert=([3, 4], [30, 40]), delete=[1, 4])
        >>> d.keys().tolist()
        [2, 3]
        """
        keys = values = None
        if insert is not None and self._value is None:
            if isinstance(insert, tuple) and len(insert) == 2 and insert[1] is None:
                raise TypeError("insert: expected keys alone, for a set has no values")
            keys = read("insert", insert, self._key)
        elif insert is not None:
            # A list would be ambiguous: of two numbers, it might as well be two keys.
            if not isinstance(insert, tuple) or len(insert) != 2:
                what = (
                    f"{len(insert)} of them" if isinstance(insert, tuple) else type(insert).__name__
                )
                raise TypeError(f"insert: expected a tuple (keys, values), got {what}")
            keys = read("insert[0]", insert[0], self._key)
            values = self._read_values(insert[1], "insert[1]")
        deletes = None if delete is None else read("delete", delete, self._key)
        self._take_in(keys, values, deletes)

    def delete_range(self, lo: Any, hi: Any) -> None:
        """Deletes every key k with lo[i] <= k <= hi[i], for each i.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([1, 2, 3, 4], [10, 20, 30, 40])
        >>> d.delete_range(2, 3)
        >>> d.keys().tolist()
        [1, 4]
        """
        call = self._ranges(lo, hi)
        first, last = call.spans
        self._store.delete_range((first, last), call.stream)

    def merge_from(self, other: Queries) -> None:
        """Takes in everything of another dictionary or snapshot, as one batch: its pairs win."""
        if not isinstance(other, Queries):
            raise TypeError(
                f"other: expected a Dictionary or a Snapshot, got {type(other).__name__}"
            )
        if (self._key, self._value) != (other._key, other._value):
            raise TypeError(
                f"other: expected keys and values of {self._key} and {self._value}, "
                f"got {other._key} and {other._value}"
            )
        self._store.merge_from(other._store)

    def cleanup(self) -> None:
        """Removes every stale entry and leaves one level, the fastest to query. No answer changes."""
        self._store.cleanup()

    def clear(self) -> None:
        """Removes everything."""
        self._store.clear()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_has_values()
        self.insert(self._one("key", key), value)

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self.delete(key)

    def snapshot(self) -> Snapshot:
        """The dictionary as it is now, frozen: it answers the same queries, whatever happens to the
        dictionary. Shares its memory, and costs next to nothing.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([1, 2], [10, 20])
        >>> before = d.snapshot()
        >>> d.clear()
        >>> len(d), len(before)
        (0, 2)
        """
        return Snapshot(self._store.copy(), self._key, self._value)

    def copy(self) -> Dictionary:
        """A dictionary of its own with the same pairs. Both share what they have in common."""
        copy = type(self).__new__(type(self))
        Queries.__init__(copy, self._store.copy(), self._key, self._value)
        copy._settings = self._settings
        return copy

    __copy__ = copy

    def __deepcopy__(self, _: Any) -> Dictionary:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        keys, values = self.arrays()
        return _unpickle, (
            self._key,
            self._value,
            {**self._settings, "device": self.device},
            keys,
            values,
        )

    def _read_values(self, values: Any, name: str = "values") -> Given | None:
        if self._value is None:
            if values is not None:
                raise TypeError(f"{name}: expected none, for the dictionary is a set")
            return None
        if values is None:
            raise TypeError(f"{name}: expected {describe(self._value)}; only a set has none")
        return read(name, values, self._value)

    def _take_in(self, keys: Given | None, values: Given | None, deletes: Given | None) -> None:
        """One batch of what there is of the three."""
        call = Call(self._place, *(one for one in (keys, values, deletes) if one is not None))
        inserted = call.span(keys) if keys is not None else (0, 0)
        with_values = (0, inserted[1])  # Those of a set have no bytes.
        if keys is not None and values is not None:
            if not values.is_scalar and keys.length != values.length:
                name = keys.name.removesuffix("[0]")
                raise ValueError(
                    f"{name}: {_many(keys.length, 'key')} but {_many(values.length, 'value')}"
                )
            with_values = call.span(values, keys.length)
        deleted = call.span(deletes) if deletes is not None else (0, 0)
        self._store.update((inserted, with_values), deleted, call.stream)


class Snapshot(Queries):
    """A dictionary as it was at one moment, made by `Dictionary.snapshot`. It answers every query that
    the dictionary does, and any thread may ask while the dictionary goes on."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a snapshot can't be pickled: pickle the dictionary")

    def copy(self) -> Snapshot:
        """Another snapshot of the same moment."""
        return Snapshot(self._store.copy(), self._key, self._value)

    __copy__ = copy

    def __deepcopy__(self, _: Any) -> Snapshot:
        return self.copy()


def _key_dtype(key: DTypeLike, name: str = "key") -> DType:
    if key is None:
        raise TypeError(f"{name}: expected one of {', '.join(_KEYS)}, got None")
    dtype = _dtype(name, key)
    if not dtype.isnative or dtype.name not in _KEYS:
        raise TypeError(f"{name}: expected one of {', '.join(_KEYS)}, got {describe(dtype)}")
    return dtype


def _value_dtype(value: DTypeLike | None, name: str = "value") -> DType | None:
    if value is None:
        return None
    dtype = _dtype(name, value)
    if dtype.hasobject:
        raise TypeError(
            f"{name}: expected plain data, got {describe(dtype)} with Python objects in it"
        )
    if not dtype.base.isnative:
        raise TypeError(f"{name}: expected this machine's byte order, got {describe(dtype)}")
    if dtype.itemsize not in _WIDTHS:
        raise TypeError(
            f"{name}: expected a type of 4, 8 or 16 bytes, or None, "
            f"got {describe(dtype)} of {dtype.itemsize} byte{'s' * (dtype.itemsize != 1)}"
        )
    return dtype


def _dtype(name: str, given: Any) -> DType:
    if str(type(given)) == "<class 'torch.dtype'>":
        given = str(given).removeprefix("torch.")
    try:
        dtype: DType = np.dtype(given)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a type, got {given!r}") from None
    return dtype


def _positive(name: str, number: Any, most: int = (1 << 63) - 1) -> int:
    if not isinstance(number, (int, np.integer)) or isinstance(number, bool):
        raise TypeError(f"{name}: expected an integer, got {type(number).__name__}")
    if not 1 <= number <= most:
        raise ValueError(f"{name}: expected a number from 1 to {most:,}, got {number:,}")
    return int(number)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _unpickle(
    key: DType, value: DType | None, settings: dict[str, Any], keys: Any, values: Any
) -> Dictionary:
    settings = dict(settings)
    policy: Literal["automatic", "manual"]
    policy = "automatic" if settings.pop("cleans_itself") else "manual"
    dictionary = Dictionary(key, value, cleanup=policy, **settings)
    dictionary.insert(keys, values)
    return dictionary
