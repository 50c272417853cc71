"""Queries about keys: their values, whether they are there, how many are less."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpulsm._base import Base
from gpulsm._call import BOOL, INT64, listed
from gpulsm._given import Given
from gpulsm._keys import nearest
from gpulsm._types import A, Array, ArrayLike, Composite, Host, Scalar, Value


class Lookups(Base):
    """Answers for each key."""

    @overload
    def contains(self, keys: Composite, *, out: Array | None = None) -> Any: ...
    @overload
    def contains(self, keys: Scalar, *, out: None = None) -> bool: ...
    @overload
    def contains(
        self, keys: Host, *, out: NDArray[np.bool_] | None = None
    ) -> NDArray[np.bool_]: ...
    @overload
    def contains(self, keys: A, *, out: A | None = None) -> A: ...
    def contains(
        self, keys: Scalar | ArrayLike | Composite, *, out: Array | None = None
    ) -> Array | bool:
        """Returns, for each key, whether it is there.

        Parameters
        ----------
        keys
            An array, list or column of keys, or one key, as for `lookup`.
        out
            An array of booleans to write the answer to.

        Returns
        -------
        array of bool, or bool
            One boolean for each key.

        Raises
        ------
        TypeError, ValueError
            If `keys` or `out` can't be used.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.contains([10, 11]).tolist()
        [True, False]
        """
        given = self._possible_keys("keys", keys)
        answer: Array | bool = False if given is None else self._contains(given, out)
        return answer

    def _contains(self, given: Given, out: Any) -> Any:
        call = self._call(given)
        [found] = call.rooms(out, BOOL)
        [at] = call.spans
        self._store.contains(at, found.span, call.stream)
        return call.answer(found)

    @overload
    def rank(self, keys: Composite, *, out: Array | None = None) -> Any: ...
    @overload
    def rank(self, keys: Scalar, *, out: None = None) -> int: ...
    @overload
    def rank(self, keys: Host, *, out: NDArray[np.int64] | None = None) -> NDArray[np.int64]: ...
    @overload
    def rank(self, keys: A, *, out: A | None = None) -> A: ...
    def rank(
        self, keys: Scalar | ArrayLike | Composite, *, out: Array | None = None
    ) -> Array | int:
        """Returns, for each key, how many keys of the dictionary are less.

        Parameters
        ----------
        keys
            An array, list or column of keys, or one key. They need not be there.
        out
            An array of int64 to write the answer to.

        Returns
        -------
        array of int64, or int
            One number for each key.

        Raises
        ------
        TypeError, ValueError
            If `keys` or `out` can't be used.

        Examples
        --------
        >>> import gpulsm
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).rank([5, 20, 99]).tolist()
        [0, 1, 3]
        """
        given = nearest("keys", keys, self._key, self._place, is_low=True)
        if given is None:
            return len(self)
        call = self._call(given)
        [ranks] = call.rooms(out, INT64)
        [at] = call.spans
        self._store.rank(at, ranks.span, call.stream)
        answer: Array | int = call.answer(ranks)
        return answer


class ValueLookups(Base):
    """The value of each key."""

    @overload
    def lookup(
        self,
        keys: Composite,
        *,
        default: Value | None = None,
        out: tuple[Array | None, Array] | None = None,
    ) -> tuple[Any, Any]: ...
    @overload
    def lookup(
        self, keys: Scalar, *, default: Value | None = None, out: None = None
    ) -> tuple[Any, bool]: ...
    @overload
    def lookup(
        self,
        keys: Host,
        *,
        default: Value | None = None,
        out: tuple[NDArray[Any] | None, NDArray[np.bool_]] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def lookup(
        self, keys: A, *, default: Value | None = None, out: tuple[A | None, A] | None = None
    ) -> tuple[A, A]: ...
    def lookup(
        self,
        keys: Scalar | ArrayLike | Composite,
        *,
        default: Value | None = None,
        out: tuple[Array | None, Array] | None = None,
    ) -> tuple[Array, Array] | tuple[Any, bool]:
        """Returns, for each key, its value and whether it is there.

        Parameters
        ----------
        keys
            An array, list or column of keys, or one key; of keys of several parts, a tuple of those. One key
            that the type can't hold (`2**40` for uint32, `b"abcde"` for S4) is one that is not there; in arrays
            and lists all must fit.
        default
            The value of keys that are not there: one value of the value type. Default: 0.
        out
            Two arrays to write the values and the booleans to, of the family, type, length and device that
            the answer would have. For a set the first is None.

        Returns
        -------
        values
            One value for each key; None for a set.
        found
            One boolean for each key.

        Raises
        ------
        TypeError, ValueError
            If `keys`, `default` or `out` can't be used; the message says which, and what to do.

        Examples
        --------
        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> values, found = d.lookup(np.array([20, 25, 30]))
        >>> values.tolist(), found.tolist()
        ([2, 0, 3], [True, False, True])
        >>> d.lookup([20, 25], default=-1)[0].tolist()
        [2, -1]
        >>> d.lookup(10)
        (1, True)
        """
        item = None if default is None else self._read_default(default)
        return self._lookup(self._possible_keys("keys", keys), item, out)

    def _lookup(self, given: Given | None, item: Given | None, out: Any) -> tuple[Any, Any]:
        """The values of keys, or `item`; of one key that the type can't hold, there is none."""
        if given is None:
            missing = self._zero(self._value) if item is None else listed(item.array)[0]
            return missing, False
        call = self._call(given)
        values, found = call.rooms(out, self._value, BOOL)
        [at] = call.spans
        self._store.lookup(at, values.span, found.span, call.stream)
        if item is not None:
            call.family.replace_missing(values.array, found.array, item.array)
        return call.answer(values), call.answer(found)
