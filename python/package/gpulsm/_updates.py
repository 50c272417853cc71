"""What changes a dictionary."""

from __future__ import annotations

from threading import RLock
from typing import Any, NoReturn

from gpulsm._arrays import read
from gpulsm._call import Call
from gpulsm._duplicates import check_duplicates, resolved
from gpulsm._families import DType, Span, describe
from gpulsm._given import Given
from gpulsm._keys import KeyType, describe_key
from gpulsm._layouts import Layout
from gpulsm._mapping import Queries
from gpulsm._native import Store
from gpulsm._types import ArrayLike, Closed, Composite, Duplicates, Scalar, Value


class _NoDefault:
    """Stands for a default that was not given."""

    def __repr__(self) -> str:
        return "<no default>"


_NO_DEFAULT: Any = _NoDefault()


class Updates(Queries):
    """Batches that insert and delete, and single keys."""

    def __init__(
        self, store: Store, key: KeyType, value: DType | None, settings: dict[str, Any]
    ) -> None:
        super().__init__(store, key, value, settings)
        # Held while a key is looked up and then deleted, so that no other thread gets it too. The same
        # thread may come again, by a signal handler or a `__del__` that removes a key: the number of
        # removals tells that one came between looking up and deleting.
        self._removing = RLock()
        self._removals = 0

    def insert(
        self,
        keys: Scalar | ArrayLike | Composite,
        values: Value | ArrayLike | None = None,
        *,
        duplicates: Duplicates | None = None,
    ) -> None:
        """Inserts each key with its value, in place of the value that it has; or combines both, and the values
        of equal keys in this call, if the dictionary was made with another rule than `combine='replace'`.

        Parameters
        ----------
        keys
            An array, list or column of keys, or one key.
        values
            As many values, or one value for every key. A set has none. Integers, times and texts in a list,
            or one by itself, must be such that the type holds them exactly.
        duplicates
            Which of equal keys in this call counts: the 'last' (the default) or the 'first' one; with
            'error' there may be none. Both others cost a copy of the arrays, and 'error' a sort of the keys
            (with arrays on a GPU it waits for the result). A dictionary that combines values combines all
            of them, and takes none of the three.

        Raises
        ------
        TypeError, ValueError
            If an argument can't be used; the message says which element, and what to do.
        DuplicateKeyError
            If `duplicates` is 'error' and a key is there twice.
        OutOfMemoryError
            If there is no room. After any of these the dictionary is as it was.

        Examples
        --------
        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary()
        >>> d.insert(np.array([3, 1], np.uint32), np.array([30, 10], np.uint32))
        >>> d.insert([5, 6], 0)
        >>> d.insert([7, 7], [1, 2], duplicates="first")
        >>> len(d), d[7]
        (5, 1)
        """
        self._apply(self._keys("keys", keys), self._read_values(values), None, duplicates)

    def set(
        self, keys: Scalar | ArrayLike | Composite, values: Value | ArrayLike | None = None
    ) -> None:
        """Gives each key its value, whatever value it has, also where `insert` would combine them. Of equal
        keys the last counts. `d[key] = value` is short for one key.

        Parameters
        ----------
        keys, values
            As for `insert`.

        Raises
        ------
        TypeError, ValueError, OutOfMemoryError
            As for `insert`. The dictionary is as it was.

        Examples
        --------
        >>> import gpulsm
        >>> best = gpulsm.Dictionary("uint32", "float32", combine="max")
        >>> best.insert([1, 1, 2], [0.5, 0.25, 1.0])
        >>> best.set([1], 0.125)
        >>> best[2] = 0.5
        >>> list(best.items())
        [(1, 0.125), (2, 0.5)]
        """
        given, read_values = self._keys("keys", keys), self._read_values(values)
        self._check_lengths(given, read_values)
        call, inserted, with_values, _ = self._spans(given, read_values, None)
        self._store.set((inserted, with_values), call.stream)

    def add(self, keys: Scalar | ArrayLike | Composite, amounts: Value | ArrayLike = 1) -> None:
        """Adds to the value of each key; a key that isn't there gets the amount as its value. A key that is
        there several times is added to as often.

        Parameters
        ----------
        keys
            As for `insert`.
        amounts
            What to add: one for each key, or one for all. Default: 1, which counts.

        Raises
        ------
        TypeError
            If the dictionary was not made with `combine='add'`.
        TypeError, ValueError, OutOfMemoryError
            As for `insert`. The dictionary is as it was.

        Examples
        --------
        >>> import gpulsm
        >>> words = gpulsm.Dictionary("uint64", "int64", combine="add")
        >>> words.add([3, 5, 3, 3])
        >>> words.add([5], [10])
        >>> list(words.items())
        [(3, 3), (5, 11)]
        """
        if self.combine != "add":
            raise TypeError(
                f"add: expected a dictionary made with combine='add', this one has combine={self.combine!r}; "
                "`insert` combines values by the dictionary's own rule"
            )
        self._apply(self._keys("keys", keys), self._read_values(amounts, "amounts"), None)

    def delete(self, keys: Scalar | ArrayLike | Composite) -> None:
        """Deletes each key; one that isn't there is no error.

        Parameters
        ----------
        keys
            An array, list or column of keys, or one key.

        Raises
        ------
        TypeError, ValueError
            If `keys` can't be used.
        OutOfMemoryError
            If there is no room: deleting writes tombstones. The dictionary is as it was.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([1, 2, 3], [10, 20, 30])
        >>> d.delete([1, 3, 5])
        >>> d.keys().tolist()
        [2]
        """
        deletes = self._possible_keys("keys", keys)
        if deletes is not None:
            self._apply(None, None, deletes)

    def update(
        self,
        *positional: NoReturn,
        insert: Scalar | ArrayLike | Composite | None = None,
        delete: Scalar | ArrayLike | Composite | None = None,
        duplicates: Duplicates | None = None,
    ) -> None:
        """Inserts and deletes, as one batch. A key that is both inserted and deleted is deleted.

        Unlike `dict.update` it takes keywords only: of a dict, give
        `insert=(list(….keys()), list(….values()))`.

        Parameters
        ----------
        insert
            A tuple of keys and values, such as two arrays or two lists; of a set, keys.
        delete
            Keys.
        duplicates
            Which of equal keys in `insert` counts, as for `insert`.

        Raises
        ------
        TypeError, ValueError, DuplicateKeyError, OutOfMemoryError
            As for `insert`. The dictionary is as it was.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([1, 2], [10, 20])
        >>> d.update(insert=([3, 4], [30, 40]), delete=[1, 4])
        >>> d.keys().tolist()
        [2, 3]
        """
        if positional:
            raise TypeError(
                "update takes no positional arguments, unlike `dict.update`: expected "
                "`update(insert=(keys, values), delete=keys)`; of a dict, "
                "`insert=(list(….keys()), list(….values()))`"
            )
        keys = values = None
        if insert is not None and self._value is None:
            if isinstance(insert, tuple) and len(insert) == 2 and self._has_values(insert):
                raise TypeError(
                    f"insert: expected keys alone, for a set has no values; {self._why_a_set()}"
                )
            keys = self._keys("insert", insert)
        elif insert is not None:
            # A list would be ambiguous: of two numbers, it might as well be two keys.
            if not isinstance(insert, tuple) or len(insert) != 2:
                what = (
                    f"{len(insert)} of them" if isinstance(insert, tuple) else type(insert).__name__
                )
                raise TypeError(f"insert: expected a tuple (keys, values), got {what}")
            is_tuple = isinstance(self._key, Layout) and self._key.is_tuple
            if isinstance(insert[0], tuple) and isinstance(insert[1], tuple) and not is_tuple:
                raise TypeError(
                    "insert: expected a tuple (keys, values), got a tuple of two tuples, which might as well "
                    "be pairs: give keys and values as lists or arrays"
                )
            keys = self._keys("insert[0]", insert[0])
            values = self._read_values(insert[1], "insert[1]")
        deletes = None if delete is None else self._possible_keys("delete", delete)
        self._apply(keys, values, deletes, duplicates)

    def delete_range(
        self,
        lo: Scalar | ArrayLike | Composite | None,
        hi: Scalar | ArrayLike | Composite | None,
        *,
        closed: Closed = "both",
    ) -> None:
        """Deletes every key of every range. `del d[a:b]` is short for one range without its right end.

        Parameters
        ----------
        lo, hi, closed
            The ranges, as for `count`. None means that there is no end on that side; both must be given,
            so that nobody deletes everything by leaving one out.

        Raises
        ------
        TypeError, ValueError
            If an argument can't be used, or `lo` and `hi` differ in length.
        OutOfMemoryError
            If there is no room: deleting writes tombstones. The dictionary is as it was.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([1, 2, 3, 4], [10, 20, 30, 40])
        >>> d.delete_range(2, 3)
        >>> d.delete_range(None, 4, closed="left")
        >>> d.keys().tolist()
        [4]
        """
        call = self._ranges(lo, hi, closed)
        first, last = call.spans
        self._store.delete_range((first, last), call.stream)

    def merge_from(self, other: Queries) -> None:
        """Inserts every pair of another dictionary or snapshot, as one batch: its values win, or combine with
        those of this dictionary by this dictionary's rule.

        Parameters
        ----------
        other
            A dictionary or snapshot with the same types of keys and values.

        Raises
        ------
        TypeError
            If it is something else, or of other types.
        OutOfMemoryError
            If there is no room. The dictionary is as it was.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([1, 2], [10, 20])
        >>> d.merge_from(gpulsm.Dictionary.build([2, 3], [21, 31]))
        >>> d.values().tolist()
        [10, 21, 31]
        """
        if not isinstance(other, Queries):
            raise TypeError(
                f"other: expected a Dictionary or a Snapshot, got {type(other).__name__}"
            )
        if (self._key, self._value) != (other._key, other._value):
            raise TypeError(
                f"other: expected keys and values of {describe_key(self._key)} and {self._value}, "
                f"got {describe_key(other._key)} and {other._value}"
            )
        if not isinstance(other._store, Store):
            raise TypeError(
                f"other: expected a dictionary of this process, got {type(other).__name__}; `insert(*other.arrays())` "
                "inserts its pairs"
            )
        self._store.merge_from(other._store)

    def cleanup(self) -> None:
        """Removes every stale entry and leaves one level, the fastest to query. No answer changes."""
        self._store.cleanup()

    def clear(self) -> None:
        """Removes everything."""
        self._store.clear()

    def pop(self, key: Scalar | Composite, default: Any = _NO_DEFAULT) -> Any:
        """Deletes one key and returns its value; `default`, if there is one, for a key that isn't there.

        Threads that pop, or that delete with `del`, never get the same key, and neither do signal handlers
        and `__del__` methods that run meanwhile. If a `KeyboardInterrupt` is raised, the key may have been
        deleted.

        Parameters
        ----------
        key
            One key.
        default
            What to return if it is not there.

        Raises
        ------
        KeyError
            If the key is not there and no default is given.
        TypeError
            If `key` is an array, or no key at all, or if this is a set.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 20], [1, 2])
        >>> d.pop(10), d.pop(10, None), len(d)
        (1, None, 1)
        """
        with self._removing:
            while True:
                before = self._removals
                value = self.get(key, _NO_DEFAULT)
                if value is _NO_DEFAULT:
                    break
                if self._remove(key, before):
                    return value
        if default is _NO_DEFAULT:
            raise KeyError(key)
        return default

    def pop_first(self) -> tuple[Any, Any]:
        """Deletes the least key and returns it with its value (None for a set).

        Raises
        ------
        KeyError
            If the dictionary is empty.

        Examples
        --------
        >>> import gpulsm
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).pop_first()
        (10, 1)
        """
        return self._pop_end(self.first)

    def pop_last(self) -> tuple[Any, Any]:
        """Deletes the greatest key and returns it with its value (None for a set).

        Raises
        ------
        KeyError
            If the dictionary is empty.

        Examples
        --------
        >>> import gpulsm
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).pop_last()
        (30, 3)
        """
        return self._pop_end(self.last)

    def _pop_end(self, end: Any) -> tuple[Any, Any]:
        with self._removing:
            while True:
                before = self._removals
                pair: tuple[Any, Any] | None = end()
                if pair is None:
                    raise KeyError("the dictionary is empty")
                if self._remove(pair[0], before):
                    return pair

    def _remove(self, key: Any, before: int) -> bool:
        """Deletes one key, unless the number of removals is not what it was before the key was looked up."""
        deletes = self._keys("key", key)
        call = Call(self._place, deletes)
        update, nothing, deleted, stream = (
            self._store.update,
            ((0, 0), (0, 0)),
            call.span(deletes),
            call.stream,
        )
        # From the comparison to the deletion the interpreter makes no object that could start the garbage
        # collector, calls no other function, and does not jump: no signal handler and no `__del__` runs.
        if self._removals == before:
            self._removals = before + 1
            update(nothing, deleted, stream)
            return True
        return False

    def __setitem__(self, key: Scalar | Composite, value: Value) -> None:
        self._check_has_values()
        if isinstance(key, slice):
            raise TypeError(
                "a slice of keys can't be assigned to: `set(keys, values)` assigns values to keys, and "
                "`delete_range(lo, hi)` or `del d[a:b]` deletes those that are there first"
            )
        self.set(self._one("key", key), value)

    def __delitem__(self, key: Scalar | Composite | slice) -> None:
        if isinstance(key, slice):
            self.delete_range(*self._slice(key), closed="left")
            return
        with self._removing:
            while True:
                before = self._removals
                if key not in self:
                    raise KeyError(key)
                if self._remove(key, before):
                    return

    def _read_values(self, values: Any, name: str = "values") -> Given | None:
        if self._value is None:
            if values is not None:
                raise TypeError(
                    f"{name}: expected none, for a set has no values; {self._why_a_set()}"
                )
            return None
        if values is None:
            raise TypeError(f"{name}: expected {describe(self._value)}; only a set has none")
        return read(name, values, self._value)

    def _has_values(self, insert: tuple[Any, Any]) -> bool:
        """Whether a tuple for a set has keys and values, and not two keys, or the two parts of keys."""
        is_list = hasattr(insert[1], "__len__") and not isinstance(insert[1], (str, bytes))
        return insert[1] is None or (is_list and not isinstance(self._key, Layout))

    def _apply(
        self,
        keys: Given | None,
        values: Given | None,
        deletes: Given | None,
        duplicates: Duplicates | None = None,
    ) -> None:
        """Applies what there is of the three as one batch."""
        if duplicates is not None:
            check_duplicates(duplicates)
        if keys is not None and duplicates is not None and self.combine != "replace":
            raise ValueError(
                f"duplicates: this dictionary combines all values of a key by {self.combine!r}; leave it "
                f"out, or use `set` to replace values (only one with combine='replace' takes {duplicates!r})"
            )
        if keys is not None:
            self._check_lengths(keys, values)
            keys, values = resolved(keys, values, duplicates or "last", self._key)
        call, inserted, with_values, deleted = self._spans(keys, values, deletes)
        self._store.update((inserted, with_values), deleted, call.stream)

    def _check_lengths(self, keys: Given, values: Given | None) -> None:
        if values is not None and not values.is_scalar and keys.length != values.length:
            name = keys.name.removesuffix("[0]")
            raise ValueError(
                f"{name}: {_many(keys.length, 'key')} but {_many(values.length, 'value')}"
            )

    def _spans(
        self, keys: Given | None, values: Given | None, deletes: Given | None
    ) -> tuple[Call, Span, Span, Span]:
        """A call with what there is of the three, and where each is."""
        call = Call(self._place, *(one for one in (keys, values, deletes) if one is not None))
        inserted = call.span(keys) if keys is not None else (0, 0)
        with_values = (0, inserted[1])  # Those of a set have no bytes.
        if keys is not None and values is not None:
            with_values = call.span(values, keys.length)
        deleted = call.span(deletes) if deletes is not None else (0, 0)
        return call, inserted, with_values, deleted


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
