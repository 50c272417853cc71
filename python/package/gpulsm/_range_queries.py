"""Queries about ranges of keys."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpulsm._base import Base
from gpulsm._call import INT64, Call
from gpulsm._composites import prefix_range
from gpulsm._families import describe
from gpulsm._layouts import Layout
from gpulsm._types import A, Array, ArrayLike, Closed, Composite, Host, Scalar


class RangeQueries(Base):
    """Answers for each range."""

    @overload
    def count(
        self,
        lo: Composite,
        hi: Composite | None = None,
        *,
        closed: Closed = "both",
        out: Array | None = None,
    ) -> Any: ...
    @overload
    def count(
        self,
        lo: None,
        hi: Composite,
        *,
        closed: Closed = "both",
        out: Array | None = None,
    ) -> Any: ...
    @overload
    def count(
        self,
        lo: Scalar | None = None,
        hi: Scalar | None = None,
        *,
        closed: Closed = "both",
        out: None = None,
    ) -> int: ...
    @overload
    def count(
        self,
        lo: Host,
        hi: Host | Scalar | None = None,
        *,
        closed: Closed = "both",
        out: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]: ...
    @overload
    def count(
        self,
        lo: Scalar | None,
        hi: Host,
        *,
        closed: Closed = "both",
        out: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]: ...
    @overload
    def count(
        self, lo: A, hi: A | Scalar | None = None, *, closed: Closed = "both", out: A | None = None
    ) -> A: ...
    @overload
    def count(
        self, lo: Scalar | None, hi: A, *, closed: Closed = "both", out: A | None = None
    ) -> A: ...
    def count(
        self,
        lo: Scalar | ArrayLike | Composite | None = None,
        hi: Scalar | ArrayLike | Composite | None = None,
        *,
        closed: Closed = "both",
        out: Array | None = None,
    ) -> Array | int:
        """Returns, for each range, how many keys are in it.

        Range i goes from lo[i] to hi[i], and is empty if lo[i] > hi[i]. The time does not depend on how
        many keys there are in it.

        Parameters
        ----------
        lo, hi
            The ends: arrays, lists or columns of keys, or scalars. A scalar beside an array goes with each
            of its elements; None means that there is no end on that side. A Python number that the key type
            can't hold is an end like any other: `count(0, 2**32)` counts all keys of type uint32.
        closed
            Which ends belong to the range: 'both' (the default), 'left', 'right' or 'neither'.
        out
            An array of int64 to write the answer to.

        Returns
        -------
        array of int64, or int
            One number for each range.

        Raises
        ------
        TypeError, ValueError
            If an argument can't be used, or `lo` and `hi` differ in length.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.count([0, 15], [100, 25]).tolist()
        [3, 1]
        >>> d.count(10, 30), d.count(10, 30, closed="left"), d.count(15, None)
        (3, 2, 2)
        """
        call = self._ranges(lo, hi, closed)
        [counts] = call.rooms(out, INT64)
        first, last = call.spans
        self._store.count((first, last), counts.span, call.stream)
        answer: Array | int = call.answer(counts)
        return answer

    def prefix_range(self, prefix: Scalar | ArrayLike | Composite) -> tuple[Any, Any]:
        """Returns the first and the last key that begin with these parts: the ends of a range of all such keys.

        They are for `count`, `range`, `sum`, `min`, `max` and `delete_range`, and belong to the range. With keys
        `(key, id)` and no values, a dictionary is a multimap: the ids of a key are a range.

        Parameters
        ----------
        prefix
            The first part of keys, or a tuple of the first parts: arrays, lists or columns, or scalars.

        Returns
        -------
        lo, hi
            Two tuples with a column for each part, or with a scalar for each. The parts that were not given go
            from the least that there is to the greatest; of floats, from -inf to NaN. Parts that no key can have
            (`2**40` of uint32) give an empty range.

        Raises
        ------
        TypeError, ValueError
            If `prefix` can't be used, or has as many parts as a key.

        Examples
        --------
        >>> import gpulsm
        >>> friends = gpulsm.Set(("uint32", "uint32"))
        >>> friends.insert(([1, 1, 2], [7, 9, 7]))
        >>> friends.count(*friends.prefix_range([1, 2, 3])).tolist()
        [2, 1, 0]
        >>> offsets, (people, others), _ = friends.range(*friends.prefix_range(1))
        >>> others.tolist()
        [7, 9]
        """
        if not isinstance(self._key, Layout):
            raise TypeError(
                f"prefix_range: expected keys of several parts, such as key=('uint32', 'int64'), but those of "
                f"this dictionary are {describe(self._key)}"
            )
        return prefix_range(prefix, self._key, self._place)

    @overload
    def range(
        self,
        lo: Composite,
        hi: Composite | None = None,
        *,
        closed: Closed = "both",
    ) -> tuple[Any, Any, Any]: ...
    @overload
    def range(
        self,
        lo: None,
        hi: Composite,
        *,
        closed: Closed = "both",
    ) -> tuple[Any, Any, Any]: ...
    @overload
    def range(
        self,
        lo: Host | Scalar | None = None,
        hi: Host | Scalar | None = None,
        *,
        closed: Closed = "both",
    ) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]: ...
    @overload
    def range(
        self, lo: A, hi: A | Scalar | None = None, *, closed: Closed = "both"
    ) -> tuple[A, A, A]: ...
    @overload
    def range(self, lo: Scalar | None, hi: A, *, closed: Closed = "both") -> tuple[A, A, A]: ...
    def range(
        self,
        lo: Scalar | ArrayLike | Composite | None = None,
        hi: Scalar | ArrayLike | Composite | None = None,
        *,
        closed: Closed = "both",
    ) -> tuple[Array, Array, Array]:
        """Returns the pairs of all ranges, end to end, those of each in key order.

        `d[a:b]` is short for one range without its right end. With arrays on a GPU this is the one query
        that waits, to know how much memory the answer takes.

        Parameters
        ----------
        lo, hi, closed
            The ranges, as for `count`.

        Returns
        -------
        offsets
            Where the answers begin: that of range i is `keys[offsets[i]:offsets[i + 1]]`, and likewise of
            the values.
        keys, values
            The pairs. For a set the values are None. The answer to two scalars are arrays too.

        Raises
        ------
        TypeError, ValueError
            If an argument can't be used, or `lo` and `hi` differ in length.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> offsets, keys, values = d.range([0, 15], [15, 100])
        >>> offsets.tolist(), keys.tolist(), values.tolist()
        ([0, 1, 3], [10, 20, 30], [1, 2, 3])
        """
        return self._range(self._ranges(lo, hi, closed))

    def _range(self, call: Call) -> tuple[Any, Any, Any]:
        """The pairs of ranges, whose ends are the arguments of a call."""
        first, last = call.spans
        # The same dictionary must answer twice: how many there are, and which.
        frozen = self._store.copy("snapshot")
        offsets = call.room(INT64, call.length + 1)
        total = frozen.range_offsets((first, last), offsets.span, call.stream)
        keys, values = call.room(self._key, total), call.room(self._value, total)
        frozen.range((first, last), offsets.span, (keys.span, values.span), call.stream)
        return offsets.array, keys.unpacked(), values.array
