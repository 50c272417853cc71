"""What dictionaries, sets and snapshots share with those of Python: one key at a time, and iteration."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpulsm._aggregates import Aggregates
from gpulsm._asof import AsOf
from gpulsm._call import listed
from gpulsm._errors import OutOfRangeError
from gpulsm._exports import Exports
from gpulsm._given import Given
from gpulsm._keys import listed_keys
from gpulsm._lookups import Lookups, ValueLookups
from gpulsm._neighbors import Neighbors
from gpulsm._types import Composite, Like, Scalar

#: How many keys iterating reads at a time.
_CHUNK = 1 << 14


class Queries(Lookups, Exports, Neighbors, AsOf):
    """What dictionaries, sets and their snapshots answer.

    Every query takes a whole array of questions, or one scalar. Answers come back in the family of the
    array that was given: NumPy in, NumPy out; CuPy in, CuPy out; a torch tensor in, tensors on its
    device out. A query with arrays on a GPU is put on the caller's current stream and not waited for.

    Of a set all values are None.
    """

    def __contains__(self, key: object) -> bool:
        """Returns whether a key is there: False for what is no key of this type, such as a text among numbers.

        Raises
        ------
        TypeError
            If it is an array or a list; `contains` takes those.
        """
        given = self._possible_one(key, is_foreign_absent=True)
        return given is not None and bool(self._contains(given, None))

    def __iter__(self) -> Iterator[Any]:
        """The keys in ascending order, as they are when iterating begins."""
        frozen = self._frozen()
        for start in range(0, len(frozen), _CHUNK):
            yield from listed_keys(frozen._pairs_at(start)[0])

    def __reversed__(self) -> Iterator[Any]:
        """The keys in descending order, as they are when iterating begins."""
        frozen = self._frozen()
        for start in reversed(range(0, len(frozen), _CHUNK)):
            yield from reversed(listed_keys(frozen._pairs_at(start)[0]))

    def _frozen(self) -> Queries:
        return Queries(self._store.copy("iterator"), self._key, self._value, self._settings)

    def _pairs_at(self, start: int, count: int = _CHUNK) -> tuple[Any, Any]:
        """As many keys from a place in their order on, or as there are, and their values."""
        end = min(start + count, len(self))
        keys, values, _ = self.select(np.arange(start, end, dtype=np.int64))
        return keys, values

    def _slice(self, key: slice) -> tuple[Any, Any]:
        """The ends of `d[a:b]`."""
        if key.step is not None:
            raise TypeError(f"a slice of keys has no step, got {key.step!r}: write `d[a:b]`")
        for name, end in (("start", key.start), ("stop", key.stop)):
            try:
                if end is not None:
                    self._one(name, end)
            except OutOfRangeError:
                pass
        return key.start, key.stop

    # Two are equal only if they are the same one; Python's own would compare their pairs, or keys, one by one.
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__


class PairQueries(Queries, ValueLookups, Aggregates, Mapping[Any, Any]):  # type: ignore[misc]
    """What dictionaries and their snapshots answer: everything about values. They are mappings."""

    @overload
    def __getitem__(self, key: Scalar | Composite) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[NDArray[Any], NDArray[Any]]: ...
    def __getitem__(self, key: Scalar | Composite | slice) -> Any:
        """Returns the value of one key; `d[a:b]`, the keys k with a <= k < b and their values, as arrays.

        Raises
        ------
        KeyError
            If the key is not there.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d[20]
        2
        >>> keys, values = d[:30]
        >>> keys.tolist(), values.tolist()
        ([10, 20], [1, 2])
        """
        if isinstance(key, slice):
            lo, hi = self._slice(key)
            _, keys, values = self.range(lo, hi, closed="left")
            return keys, values
        self._check_has_values()
        value = self._value_of(self._possible_one(key), _MISSING)
        if value is _MISSING:
            raise KeyError(key)
        return value

    def get(self, key: Scalar | Composite, default: Any = None) -> Any:
        """Returns the value of one key, or `default`, also for what is no key of this type. An array of many costs far
        less than many of one.

        Parameters
        ----------
        key
            One key.
        default
            What to return if it is not there.

        Raises
        ------
        TypeError
            If `key` is an array or a list, or if this is a set.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10], [1])
        >>> d.get(10), d.get(11), d.get(11, 0)
        (1, None, 0)
        """
        self._check_has_values()
        return self._value_of(self._possible_one(key, is_foreign_absent=True), default)

    def _value_of(self, key: Given | None, default: Any) -> Any:
        """The value of one key, or `default`."""
        value, found = self._lookup(key, None, None)
        return value if found else default

    @overload  # type: ignore[override]
    def values(self, like: None = None) -> NDArray[Any]: ...
    @overload
    def values(self, like: Like) -> Any: ...
    def values(self, like: Like | None = None) -> Any:
        """Returns every value, in the order of their keys, as one array; `like` as for `arrays`."""
        return self.arrays(like)[1]

    def items(self) -> Items:
        """Returns the pairs in ascending key order, as a mapping's `items()` does.

        It can be iterated over, has a length, and `in` finds a pair. It sees later changes of the
        dictionary; an iteration that has begun does not. `arrays()` returns all keys and all values at
        once, which is much faster than a loop. `dict(d.items())` makes a dict; `dict(d)` looks up one key after
        the other, and its keys are NumPy's.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> [key + value for key, value in d.items()]
        [11, 22, 33]
        >>> (20, 2) in d.items()
        True
        """
        self._check_has_values()
        return Items(self)


class Items(ItemsView[Any, Any]):
    """The pairs of a dictionary or snapshot in ascending key order; made by `items()`."""

    _mapping: PairQueries

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        frozen = self._mapping._frozen()
        for start in range(0, len(frozen), _CHUNK):
            keys, values = frozen._pairs_at(start)
            yield from zip(listed_keys(keys), listed(values), strict=True)

    def __reversed__(self) -> Iterator[tuple[Any, Any]]:
        frozen = self._mapping._frozen()
        for start in reversed(range(0, len(frozen), _CHUNK)):
            keys, values = frozen._pairs_at(start)
            yield from reversed([*zip(listed_keys(keys), listed(values), strict=True)])

    def __contains__(self, pair: Any) -> bool:
        if not isinstance(pair, tuple) or len(pair) != 2:
            return False
        value = self._mapping.get(pair[0], _MISSING)
        return value is not _MISSING and bool(np.all(value == pair[1]))

    def __repr__(self) -> str:
        return f"<the items of {self._mapping!r}>"


_MISSING: Any = object()
