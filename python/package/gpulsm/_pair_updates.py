"""What changes dictionaries that have values."""

from __future__ import annotations

from typing import Any

from gpulsm._call import listed
from gpulsm._mapping import PairQueries
from gpulsm._types import ArrayLike, Composite, Scalar, Value
from gpulsm._updates import Updates


class _NoDefault:
    """Stands for a default that was not given."""

    def __repr__(self) -> str:
        return "<no default>"


_NO_DEFAULT: Any = _NoDefault()


class PairUpdates(Updates, PairQueries):  # type: ignore[misc]
    """Values that are assigned or added to, and single keys."""

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

    def pop(self, key: Scalar | Composite, default: Any = _NO_DEFAULT) -> Any:
        """Deletes one key and returns its value; `default`, if there is one, for a key that isn't there.

        It is one call: no other thread changes the dictionary between looking up and deleting. If a
        `KeyboardInterrupt` is raised, the key may have been deleted.

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
        self._check_has_values()
        wanted = self._possible_one(key)
        if wanted is not None:
            value = self._call(wanted).room(self._value)
            if self._store.pop("key", (wanted.span, value.span)):
                return listed(value.array)[0]
        if default is _NO_DEFAULT:
            raise KeyError(key)
        return default

    def setdefault(self, key: Scalar | Composite, default: Value) -> Any:
        """Returns the value of one key; if it is not there, inserts it with a default, and returns that. Between the
        two no other thread changes the dictionary.

        Parameters
        ----------
        key
            One key.
        default
            The value that it gets if it is not there.

        Raises
        ------
        TypeError, ValueError, OutOfMemoryError
            As for `insert`. The dictionary is as it was.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 20], [1, 2])
        >>> d.setdefault(10, 5), d.setdefault(30, 5), len(d)
        (1, 5, 3)
        """
        self._check_has_values()
        wanted, given = self._one("key", key), self._read_default(default)
        value = self._call(wanted, given).room(self._value)
        value.array[...] = given.array
        self._store.set_default((wanted.span, value.span))
        return listed(value.array)[0]

    def __setitem__(self, key: Scalar | Composite, value: Value) -> None:
        self._check_has_values()
        if isinstance(key, slice):
            raise TypeError(
                "a slice of keys can't be assigned to: `set(keys, values)` assigns values to keys, and "
                "`delete_range(lo, hi)` or `del d[a:b]` deletes those that are there first"
            )
        self._one("key", key)
        self.set(key, value)

    def __delitem__(self, key: Scalar | Composite | slice) -> None:
        if isinstance(key, slice):
            self.delete_range(*self._slice(key), closed="left")
            return
        wanted = self._possible_one(key)
        if wanted is not None:
            value = self._call(wanted).room(self._value)
            if self._store.pop("key", (wanted.span, value.span)):
                return
        raise KeyError(key)
