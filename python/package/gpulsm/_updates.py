"""What changes dictionaries and sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from gpulsm._arrays import read
from gpulsm._call import Call
from gpulsm._duplicates import check_duplicates, resolved
from gpulsm._families import HOST, Span, describe
from gpulsm._given import Given
from gpulsm._keys import describe_key
from gpulsm._layouts import Layout
from gpulsm._mapping import Queries
from gpulsm._native import Store
from gpulsm._types import ArrayLike, Closed, Composite, Duplicates, Scalar, Value

#: What `write` does.
_OPERATIONS = ("insert", "set", "delete", "delete_range")


class Updates(Queries):
    """Batches that insert and delete, and single keys."""

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
        """Inserts and deletes, as one batch. A key that is both inserted and deleted is deleted, whatever the order of
        the arguments: to delete old pairs and insert new ones of the same keys, use `write`, which keeps the order.

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

    def write(self, operations: Iterable[tuple[Any, ...]]) -> None:
        """Makes changes in their order, as one batch: each sees what those before it left, and all happen or none.
        `update`, of which deletes always win, costs less.

        Parameters
        ----------
        operations
            Tuples of what is done and its arguments, which are arrays, lists or scalars as for the methods of these
            names: `("insert", keys, values)`, `("set", keys, values)`, `("delete", keys)` and
            `("delete_range", lo, hi)`. Of a set, `("insert", keys)`.

        Raises
        ------
        TypeError, ValueError, OutOfMemoryError
            As for the methods. The dictionary is as it was.

        Examples
        --------
        >>> import gpulsm
        >>> ticks = gpulsm.Dictionary.build([10, 11, 12, 20], [1, 2, 3, 4])
        >>> ticks.write([("delete_range", 10, 15), ("insert", [11], [5])])
        >>> list(ticks.items())
        [(11, 5), (20, 4)]
        """
        changes, kept = [], []
        for at, operation in enumerate(operations):
            name = f"operations[{at}]"
            if not isinstance(operation, tuple) or not operation or operation[0] not in _OPERATIONS:
                known = ", ".join(map(repr, _OPERATIONS))
                raise TypeError(
                    f"{name}: expected a tuple that begins with {known}, got {operation!r}"
                )
            kind, *arguments = operation
            takes = (
                2 if kind == "delete_range" or (kind != "delete" and self._value is not None) else 1
            )
            if len(arguments) != takes:
                raise TypeError(
                    f"{name}: expected {takes} argument{'s' * (takes > 1)} of {kind!r}, got {len(arguments)}"
                )
            call, spans = self._spans_of(kind, name, arguments)
            if call.family.place is not HOST:
                raise TypeError(
                    f"{name}: expected arrays on the host; `update` takes those of a GPU"
                )
            changes.append((kind, *spans))
            kept.append(call)  # Until their arrays were read.
        self._store.write(changes)

    def _spans_of(
        self, kind: str, name: str, arguments: list[Any]
    ) -> tuple[Call, tuple[Span, Span]]:
        """What one operation is about, and where that is."""
        if kind == "delete_range":
            call = self._ranges(arguments[0], arguments[1], "both")
            first, last = call.spans
            return call, (first, last)
        if kind == "delete":
            deletes = self._possible_keys(f"{name}[1]", arguments[0])
            call, _, _, deleted = self._spans(None, None, deletes)
            return call, (deleted, (0, 0))
        keys = self._keys(f"{name}[1]", arguments[0])
        values = self._read_values(arguments[1], f"{name}[2]") if len(arguments) > 1 else None
        self._check_lengths(keys, values)
        call, inserted, with_values, _ = self._spans(keys, values, None)
        return call, (inserted, with_values)

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
        return self._pop_end("first")

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
        return self._pop_end("last")

    def _pop_end(self, which: str) -> tuple[Any, Any]:
        call = Call(self._place)
        key, value = call.room(self._key), call.room(self._value)
        if not self._store.pop(which, (key.span, value.span)):
            raise KeyError("the dictionary is empty")
        return call.one_key(key), call.answer(value)

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
