"""Sums, minima and maxima of the values of ranges."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gpulsm._base import Base
from gpulsm._call import BOOL, INT64, Call, Room
from gpulsm._families import DType, describe
from gpulsm._types import A, Array, ArrayLike, Closed, Composite, Host, Scalar, Value

#: The types that sums of numbers of each kind have.
_SUMS: dict[str, type[np.generic]] = {"u": np.uint64, "i": np.int64, "f": np.float64}


class Aggregates(Base):
    """Answers that are computed from the values of each range."""

    @overload
    def sum(
        self,
        lo: Composite,
        hi: Composite | None = None,
        *,
        closed: Closed = "both",
        out: Array | None = None,
    ) -> Any: ...
    @overload
    def sum(
        self,
        lo: None,
        hi: Composite,
        *,
        closed: Closed = "both",
        out: Array | None = None,
    ) -> Any: ...
    @overload
    def sum(
        self,
        lo: Scalar | None = None,
        hi: Scalar | None = None,
        *,
        closed: Closed = "both",
        out: None = None,
    ) -> Any: ...
    @overload
    def sum(
        self,
        lo: Host,
        hi: Host | Scalar | None = None,
        *,
        closed: Closed = "both",
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]: ...
    @overload
    def sum(
        self,
        lo: Scalar | None,
        hi: Host,
        *,
        closed: Closed = "both",
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]: ...
    @overload
    def sum(
        self, lo: A, hi: A | Scalar | None = None, *, closed: Closed = "both", out: A | None = None
    ) -> A: ...
    @overload
    def sum(
        self, lo: Scalar | None, hi: A, *, closed: Closed = "both", out: A | None = None
    ) -> A: ...
    def sum(
        self,
        lo: Scalar | ArrayLike | Composite | None = None,
        hi: Scalar | ArrayLike | Composite | None = None,
        *,
        closed: Closed = "both",
        out: Array | None = None,
    ) -> Array | Any:
        """Returns, for each range, what the values of its keys add up to.

        Without `lo` and `hi` it is the sum of all values. Values must be integers or floats of 32 or 64
        bits, or several of them together, which are added each by itself.

        Parameters
        ----------
        lo, hi, closed
            The ranges, as for `count`.
        out
            An array to write the answer to, of the type, shape and device that it would have.

        Returns
        -------
        array of int64, uint64 or float64, or one number
            One sum for each range, 0 where it has no key. Sums of integers wrap around at 2**64, as
            NumPy's do. Sums of floats are rounded in an order that is not specified. Of values of k numbers
            each, an array of shape (n, k).

        Raises
        ------
        TypeError, ValueError
            If values are not of such a type, an argument can't be used, or `lo` and `hi` differ in length.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.sum([0, 15, 40], [100, 25, 50]).tolist()
        [6, 2, 0]
        >>> d.sum(), d.sum(10, 30, closed="left"), d.sum(15, None)
        (6, 3, 5)
        """
        value = self._check_numbers("sum")
        call = self._ranges(lo, hi, closed)
        [sums] = call.rooms(out, np.dtype((_SUMS[value.base.kind], value.shape)))
        self._aggregate("sum", value, call, sums)
        answer: Array | Any = call.answer(sums)
        return answer

    @overload
    def min(self, lo: None = None, hi: None = None, *, default: Value | None = None) -> Any: ...
    @overload
    def min(
        self,
        lo: Composite,
        hi: Composite | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[Array, Array] | None = None,
    ) -> tuple[Any, Any]: ...
    @overload
    def min(
        self,
        lo: None,
        hi: Composite,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[Array, Array] | None = None,
    ) -> tuple[Any, Any]: ...
    @overload
    def min(
        self,
        lo: Scalar | None = None,
        hi: Scalar | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: None = None,
    ) -> tuple[Any, bool]: ...
    @overload
    def min(
        self,
        lo: Host,
        hi: Host | Scalar | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[NDArray[Any], NDArray[np.bool_]] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def min(
        self,
        lo: Scalar | None,
        hi: Host,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[NDArray[Any], NDArray[np.bool_]] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def min(
        self,
        lo: A,
        hi: A | Scalar | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[A, A] | None = None,
    ) -> tuple[A, A]: ...
    @overload
    def min(
        self,
        lo: Scalar | None,
        hi: A,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[A, A] | None = None,
    ) -> tuple[A, A]: ...
    def min(
        self,
        lo: Scalar | ArrayLike | Composite | None = None,
        hi: Scalar | ArrayLike | Composite | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[Array, Array] | None = None,
    ) -> Any:
        """Returns, for each range, the least value of its keys, and whether it has any key.

        Without `lo` and `hi` it is the least of all values, one number, or `default` if there is none. Values must be
        integers or floats of 32 or 64 bits, or several of them together, of each of which the least is found by itself.

        Parameters
        ----------
        lo, hi, closed
            The ranges, as for `count`.
        default
            The value of ranges without keys: one value of the value type. Default: 0.
        out
            Two arrays to write the values and the booleans to, as for `lookup`.

        Returns
        -------
        values
            One value for each range. Of floats, -0 is 0, and NaN is greater than all others.
        found
            One boolean for each range.

        Raises
        ------
        TypeError, ValueError
            If values are not of such a type, an argument can't be used, or `lo` and `hi` differ in length.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [7, 5, 6])
        >>> values, found = d.min([0, 15, 40], [25, 100, 50])
        >>> values.tolist(), found.tolist()
        ([6, 5, 0], [True, True, False])
        >>> d.min(), d.min(15, None)
        (5, (5, True))
        """
        return self._extreme("min", lo, hi, closed, default, out)

    @overload
    def max(self, lo: None = None, hi: None = None, *, default: Value | None = None) -> Any: ...
    @overload
    def max(
        self,
        lo: Composite,
        hi: Composite | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[Array, Array] | None = None,
    ) -> tuple[Any, Any]: ...
    @overload
    def max(
        self,
        lo: None,
        hi: Composite,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[Array, Array] | None = None,
    ) -> tuple[Any, Any]: ...
    @overload
    def max(
        self,
        lo: Scalar | None = None,
        hi: Scalar | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: None = None,
    ) -> tuple[Any, bool]: ...
    @overload
    def max(
        self,
        lo: Host,
        hi: Host | Scalar | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[NDArray[Any], NDArray[np.bool_]] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def max(
        self,
        lo: Scalar | None,
        hi: Host,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[NDArray[Any], NDArray[np.bool_]] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def max(
        self,
        lo: A,
        hi: A | Scalar | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[A, A] | None = None,
    ) -> tuple[A, A]: ...
    @overload
    def max(
        self,
        lo: Scalar | None,
        hi: A,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[A, A] | None = None,
    ) -> tuple[A, A]: ...
    def max(
        self,
        lo: Scalar | ArrayLike | Composite | None = None,
        hi: Scalar | ArrayLike | Composite | None = None,
        *,
        closed: Closed = "both",
        default: Value | None = None,
        out: tuple[Array, Array] | None = None,
    ) -> Any:
        """Returns, for each range, the greatest value of its keys, and whether it has any key.

        Without `lo` and `hi` it is the greatest of all values, one number, or `default` if there is none. Values must be
        integers or floats of 32 or 64 bits, or several of them together, of each of which the greatest is found by itself.

        Parameters
        ----------
        lo, hi, closed
            The ranges, as for `count`.
        default
            The value of ranges without keys: one value of the value type. Default: 0.
        out
            Two arrays to write the values and the booleans to, as for `lookup`.

        Returns
        -------
        values
            One value for each range. Of floats, -0 is 0, and NaN is greater than all others.
        found
            One boolean for each range.

        Raises
        ------
        TypeError, ValueError
            If values are not of such a type, an argument can't be used, or `lo` and `hi` differ in length.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [7, 5, 6])
        >>> values, found = d.max([0, 15, 40], [25, 100, 50], default=-1)
        >>> values.tolist(), found.tolist()
        ([7, 6, -1], [True, True, False])
        >>> d.max(), gpulsm.Dictionary().max(default=-1)
        (7, -1)
        """
        return self._extreme("max", lo, hi, closed, default, out)

    def _extreme(
        self, operation: str, lo: Any, hi: Any, closed: Closed, default: Any, out: Any
    ) -> Any:
        value = self._check_numbers(operation)
        is_of_all = lo is None and hi is None
        item = None if default is None or is_of_all else self._read_default(default)
        call = self._ranges(lo, hi, closed)
        values, found = call.rooms(out, value, BOOL)
        counts = self._aggregate(operation, value, call, values)
        with call.family.current():
            found.array[...] = counts.array > 0
        if item is not None:
            call.family.replace_missing(values.array, found.array, item.array)
        answers = call.answer(values), call.answer(found)
        if not is_of_all:
            return answers
        return answers[0] if answers[1] else default

    def _aggregate(self, operation: str, value: DType, call: Call, answers: Room) -> Room:
        """Fills in the answers; returns how many keys each range has."""
        counts = call.room(INT64)
        first, last = call.spans
        fold = (operation, value.base.name)
        self._store.aggregate(fold, (first, last), answers.span, counts.span, call.stream)
        return counts

    def _check_numbers(self, operation: str) -> DType:
        """The type of values; an error if they are no numbers that can be added up and compared."""
        if self._value is None:
            raise TypeError(
                f"{operation}: a set has no values; `count` says how many keys there are; "
                f"{self._why_a_set()}"
            )
        base = self._value.base
        if base.kind not in _SUMS or base.itemsize not in (4, 8):
            raise TypeError(
                f"{operation}: expected values of type int32, int64, uint32, uint64, float32 or float64, or "
                f"several of them together, but those of this dictionary are {describe(self._value)}; "
                "`range` lists them"
            )
        return self._value
