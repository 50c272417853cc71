"""Queries that answer with the pair next to a key, or at a place in the order of keys."""

from __future__ import annotations

from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from gpulsm._base import Base, read_indices, whole
from gpulsm._call import BOOL, INT64, Call
from gpulsm._errors import OutOfRangeError
from gpulsm._families import HOST
from gpulsm._families import like as family_like
from gpulsm._given import Given
from gpulsm._keys import nearest, no_key, outermost
from gpulsm._native import Store
from gpulsm._types import A, Array, ArrayLike, Composite, Host, Like, Scalar

_CompositeOut: TypeAlias = tuple[Array | tuple[Array, ...], Array | None, Array]
_HostOut: TypeAlias = tuple[NDArray[Any], NDArray[Any] | None, NDArray[np.bool_]]
_HostPairs: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]


class Neighbors(Base):
    """Answers of one pair each."""

    @overload
    def successor(
        self, keys: Composite, *, out: _CompositeOut | None = None
    ) -> tuple[Any, Any, Any]: ...
    @overload
    def successor(self, keys: Scalar, *, out: None = None) -> tuple[Any, Any, bool]: ...
    @overload
    def successor(self, keys: Host, *, out: _HostOut | None = None) -> _HostPairs: ...
    @overload
    def successor(self, keys: A, *, out: tuple[A, A | None, A] | None = None) -> tuple[A, A, A]: ...
    def successor(
        self,
        keys: Scalar | ArrayLike | Composite,
        *,
        out: tuple[Array, Array | None, Array] | _CompositeOut | None = None,
    ) -> tuple[Array, Array, Array] | tuple[Any, Any, bool]:
        """Returns, for each key, the nearest pair whose key is not less, and whether there is one.

        Parameters
        ----------
        keys
            An array, list or column of keys, or one key. They need not be there.
        out
            Three arrays to write the answers to; for a set the second is None.

        Returns
        -------
        keys, values, found
            The pairs, 0 where there is none (NaT, of keys that are times), and booleans.

        Raises
        ------
        TypeError, ValueError
            If `keys` or `out` can't be used.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.successor(11)
        (20, 2, True)
        >>> keys, values, found = d.successor([20, 31])
        >>> keys.tolist(), found.tolist()
        ([20, 0], [True, False])
        """
        given = nearest("keys", keys, self._key, self._place, is_low=True)
        return self._pairs("successor", given, out)

    @overload
    def predecessor(
        self, keys: Composite, *, out: _CompositeOut | None = None
    ) -> tuple[Any, Any, Any]: ...
    @overload
    def predecessor(self, keys: Scalar, *, out: None = None) -> tuple[Any, Any, bool]: ...
    @overload
    def predecessor(self, keys: Host, *, out: _HostOut | None = None) -> _HostPairs: ...
    @overload
    def predecessor(
        self, keys: A, *, out: tuple[A, A | None, A] | None = None
    ) -> tuple[A, A, A]: ...
    def predecessor(
        self,
        keys: Scalar | ArrayLike | Composite,
        *,
        out: tuple[Array, Array | None, Array] | _CompositeOut | None = None,
    ) -> tuple[Array, Array, Array] | tuple[Any, Any, bool]:
        """Returns, for each key, the nearest pair whose key is not greater, and whether there is one.

        Parameters
        ----------
        keys, out
            As for `successor`.

        Returns
        -------
        keys, values, found
            As those of `successor`.

        Raises
        ------
        TypeError, ValueError
            If `keys` or `out` can't be used.

        Examples
        --------
        >>> import gpulsm
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).predecessor(29)
        (20, 2, True)
        """
        given = nearest("keys", keys, self._key, self._place, is_low=False)
        return self._pairs("predecessor", given, out)

    @overload
    def select(self, indices: Scalar, *, out: None = None) -> tuple[Any, Any, bool]: ...
    @overload
    def select(self, indices: Host, *, out: _HostOut | None = None) -> _HostPairs: ...
    @overload
    def select(self, indices: A, *, out: tuple[A, A | None, A] | None = None) -> tuple[A, A, A]: ...
    def select(
        self, indices: Scalar | ArrayLike, *, out: tuple[Array, Array | None, Array] | None = None
    ) -> tuple[Array, Array, Array] | tuple[Any, Any, bool]:
        """Returns, for each index, the pair at that place in key order, and whether there is one.

        Parameters
        ----------
        indices
            An array (of int64), list or column of indices, or one: 0 is the least key, and negative ones
            count from the end, so that -1 is the greatest.
        out
            Three arrays to write the answers to; for a set the second is None.

        Returns
        -------
        keys, values, found
            As those of `successor`.

        Raises
        ------
        TypeError, ValueError
            If `indices` or `out` can't be used.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.select(0), d.select(-1), d.select(3)
        ((10, 1, True), (30, 3, True), (0, 0, False))
        """
        try:
            given = read_indices(indices)
        except OutOfRangeError as error:
            if error.above is None:
                raise
            return self._pairs("select", None, out)
        on_host = given.family.place is HOST
        if on_host and not bool((given.array < 0).any()):
            return self._pairs("select", given, out)
        # The same dictionary must say how many keys it has, and which they are.
        frozen = self._store.copy("snapshot")
        with given.family.current():
            indices = given.array + (given.array < 0) * self._length(frozen, self._call(given))
        return self._pairs("select", given.with_array(indices), out, frozen)

    def _length(self, frozen: Store, call: Call) -> Any:
        """How many keys there are; with arrays on a GPU an array of one, which is not waited for."""
        if call.family.place is HOST:
            return frozen.len()
        ends = [outermost(self._key, is_low=is_low) for is_low in (True, False)]
        first, last = (call.span(end) for end in ends)
        length = call.room(INT64, 1)
        frozen.count((first, last), length.span, call.stream)
        return length.array

    @overload
    def first(self, n: None = None) -> tuple[Any, Any] | None: ...
    @overload
    def first(self, n: int, *, like: None = None) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def first(self, n: int, *, like: Like) -> tuple[Any, Any]: ...
    def first(self, n: int | None = None, *, like: Like | None = None) -> tuple[Any, Any] | None:
        """Returns the pair with the least key, or None; with `n`, the pairs with as many of the least keys.

        Parameters
        ----------
        n
            How many, as arrays in ascending key order; all of them if there are fewer. Default: one pair.
        like
            The family that the arrays come in, as for `arrays`.

        Returns
        -------
        (key, value) or None, or (keys, values)
            For a set the values are None.

        Raises
        ------
        TypeError, ValueError
            If `n` is no integer, or negative.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.first()
        (10, 1)
        >>> keys, values = d.first(2)
        >>> keys.tolist(), values.tolist()
        ([10, 20], [1, 2])
        """
        if n is None:
            return self._pair("successor", outermost(self._key, is_low=True))
        count = whole("n", n, 0)
        return self._at(lambda length: np.arange(min(count, length)), like)

    @overload
    def last(self, n: None = None) -> tuple[Any, Any] | None: ...
    @overload
    def last(self, n: int, *, like: None = None) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def last(self, n: int, *, like: Like) -> tuple[Any, Any]: ...
    def last(self, n: int | None = None, *, like: Like | None = None) -> tuple[Any, Any] | None:
        """Returns the pair with the greatest key, or None; with `n`, the pairs with as many of the greatest keys.

        Parameters
        ----------
        n
            How many, as arrays in descending key order; all of them if there are fewer. Default: one pair.
        like
            The family that the arrays come in, as for `arrays`.

        Returns
        -------
        (key, value) or None, or (keys, values)
            For a set the values are None.

        Raises
        ------
        TypeError, ValueError
            If `n` is no integer, or negative.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.last()
        (30, 3)
        >>> keys, values = d.last(2)
        >>> keys.tolist(), values.tolist()
        ([30, 20], [3, 2])
        """
        if n is None:
            return self._pair("predecessor", outermost(self._key, is_low=False))
        count = whole("n", n, 0)
        return self._at(lambda length: np.arange(length - 1, max(length - 1 - count, -1), -1), like)

    def _pair(self, which: str, end: Given) -> tuple[Any, Any] | None:
        """The pair next to one key, or None."""
        key, value, found = self._pairs(which, end, None)
        return (key, value) if found else None

    def _at(self, places: Any, like: Like | None) -> tuple[Any, Any]:
        """The pairs at places that depend on how many keys there are."""
        family = family_like(like, self._place)
        frozen = self._store.copy("snapshot")
        indices = family.of_host(np.ascontiguousarray(places(frozen.len()), np.int64))
        given = Given("indices", INT64, indices, indices.shape[0], family)
        keys, values, _ = self._pairs("select", given, None, frozen)
        return keys, values

    def _pairs(
        self, which: str, given: Given | None, out: Any, store: Store | None = None
    ) -> tuple[Any, Any, Any]:
        """One pair for each question; none for a scalar beyond all keys."""
        if given is None:
            self._check_open()
            return no_key(self._key), self._zero(self._value), False
        call = self._call(given)
        keys, values, found = call.rooms(out, self._key, self._value, BOOL)
        [at] = call.spans
        to = (keys.span, values.span)
        (store or self._store).pairs(which, at, to, found.span, call.stream)
        return call.keys(keys, found), call.answer(values), call.answer(found)
