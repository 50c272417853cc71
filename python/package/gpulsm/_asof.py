"""As-of queries: what was the case at that time?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args, overload

import numpy as np
from numpy.typing import NDArray

from gpulsm._base import Base
from gpulsm._call import BOOL, Call, listed
from gpulsm._composites import packed, read_columns
from gpulsm._errors import OutOfRangeError
from gpulsm._families import HOST
from gpulsm._given import Given
from gpulsm._keys import beside, describe_key, kind_of_last_part, last_part, no_key
from gpulsm._layouts import Layout
from gpulsm._times import ticks
from gpulsm._tolerances import read_tolerance
from gpulsm._types import A, ArrayLike, Composite, Direction, Host, Scalar, Tolerance, Value


@dataclass(frozen=True, slots=True)
class _Columns:
    """Questions whose parts are in columns on the host: they are packed when they are answered."""

    call: Call
    layout: Layout


class AsOf(Base):
    """Answers of the nearest pair that belongs with a question."""

    @overload
    def asof(
        self,
        keys: Composite,
        *,
        direction: Direction = "backward",
        tolerance: Tolerance | None = None,
        allow_exact_matches: bool = True,
        default: Value | None = None,
    ) -> tuple[Any, Any, Any]: ...
    @overload
    def asof(
        self,
        keys: Scalar,
        *,
        direction: Direction = "backward",
        tolerance: Tolerance | None = None,
        allow_exact_matches: bool = True,
        default: Value | None = None,
    ) -> tuple[Any, Any, bool]: ...
    @overload
    def asof(
        self,
        keys: Host,
        *,
        direction: Direction = "backward",
        tolerance: Tolerance | None = None,
        allow_exact_matches: bool = True,
        default: Value | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def asof(
        self,
        keys: A,
        *,
        direction: Direction = "backward",
        tolerance: Tolerance | None = None,
        allow_exact_matches: bool = True,
        default: Value | None = None,
    ) -> tuple[A, A, A]: ...
    def asof(
        self,
        keys: Scalar | ArrayLike | Composite,
        *,
        direction: Direction = "backward",
        tolerance: Tolerance | None = None,
        allow_exact_matches: bool = True,
        default: Value | None = None,
    ) -> tuple[Any, Any, Any]:
        """Returns, for each key, the pair that agrees with it in all parts but the last, and whose last part is
        the nearest, and whether there is one: pandas's `merge_asof`, with every part but the last as `by`,
        and the last as `on`.

        The dictionary need not be sorted for it, and neither need the keys. It may change between two calls.

        Parameters
        ----------
        keys
            An array, list or column of keys, or one key; a tuple of those, if keys have several parts, such as
            `(symbols, times)`. They need not be there. One key may have parts that the types can't hold. Times of a
            finer unit than that of the dictionary are an error unless they are exact in it. Rounded down
            (`.astype("datetime64[s]")`), they find the same pairs at or before them.
        direction
            Where the last part of an answer is: 'backward' (the default), at or before that of the key;
            'forward', at or after it; 'nearest', on either side, and of two that are as far the one before.
        tolerance
            The most that the last parts may be apart: an integer or a float, as they are. For times a span of
            time, such as `numpy.timedelta64(5, "ms")` or `pandas.Timedelta("5ms")`; it may be of a finer unit than
            theirs. Default: any distance.
        allow_exact_matches
            Whether a pair with the key itself is an answer.
        default
            The value of keys without an answer: one value of the value type. Default: 0.

        Returns
        -------
        keys, values, found
            The pairs, as those of `predecessor`, in the family of the keys. A key that ends with NaN has no
            answer. With a tolerance, neither has an infinity the infinity itself: their distance is NaN.

        Raises
        ------
        TypeError, ValueError
            If an argument can't be used, such as a key that is NaT, or the last part of keys is bytes, which have
            no distances.

        Examples
        --------
        >>> import gpulsm, numpy as np
        >>> quotes = gpulsm.Dictionary(key=("uint32", "int64"), value="float64")
        >>> quotes.insert(([7, 7, 9], [100, 200, 150]), [1.5, 1.75, 8.0])
        >>> (symbols, times), prices, found = quotes.asof(([7, 7, 9], [199, 99, 1000]))
        >>> times.tolist(), prices.tolist(), found.tolist()
        ([100, 0, 150], [1.5, 0.0, 8.0], [True, False, True])
        >>> quotes.asof((7, 199), direction="nearest", tolerance=5)
        ((7, 200), 1.75, True)
        """
        on = kind_of_last_part(self._key)
        if on[0] == "bytes":
            raise TypeError(
                f"asof: expected keys that end with a number or a time, but those of this dictionary are "
                f"{describe_key(self._key)}; `predecessor` and `successor` take keys that end with bytes"
            )
        asked = {
            "on": on,
            "direction": _checked(direction),
            "tolerance": None if tolerance is None else read_tolerance(tolerance, self._key),
            "allows_exact_matches": bool(allow_exact_matches),
        }
        item = None if default is None else self._read_default(default)
        try:
            questions = self._questions(keys)
        except OutOfRangeError as error:
            if error.above is None:
                raise
            return self._asof_beyond(keys, error.above, asked, item)
        if isinstance(questions, _Columns):
            return self._asof_of_columns(questions, asked, item)
        return self._asof(questions, asked, item)

    def _questions(self, keys: Any) -> Given | _Columns:
        """The keys that are asked about. _Columns on the host stay columns."""
        if not isinstance(self._key, Layout):
            return self._keys("keys", keys)
        call = read_columns("keys", keys, self._key, self._place)
        if call.is_scalar or call.family.place is not HOST:
            return packed("keys", call, self._key)
        return _Columns(call, self._key)

    def _asof(
        self, given: Given, asked: dict[str, Any], item: Given | None
    ) -> tuple[Any, Any, Any]:
        call = self._call(given)
        found_keys, values, found = call.rooms(None, self._key, self._value, BOOL)
        [questions] = call.spans
        to = (found_keys.span, values.span)
        self._store.asof(asked, questions, to, found.span, call.stream)
        if item is not None:
            call.family.replace_missing(values.array, found.array, item.array)
        return call.keys(found_keys, found), call.answer(values), call.answer(found)

    def _asof_of_columns(
        self, given: _Columns, asked: dict[str, Any], item: Given | None
    ) -> tuple[Any, Any, Any]:
        """The same for columns, which the native half packs and unpacks as it goes."""
        call, layout = given.call, given.layout
        parts = [call.room(part) for part in layout.parts]
        values, found = call.rooms(None, self._value, BOOL)
        columns = call.spans, [part.span for part in parts]
        self._store.asof_of_columns(asked, layout.native, columns, values.span, found.span)
        if item is not None:
            call.family.replace_missing(values.array, found.array, item.array)
        answers = tuple(part.array for part in parts)
        layout.mark_missing(found.array, answers)
        return answers if layout.is_tuple else answers[0], values.array, found.array

    def _asof_beyond(
        self, keys: Any, above: bool, asked: dict[str, Any], item: Given | None
    ) -> tuple[Any, Any, Any]:
        """The answer to one question with a part above, or below, all that its type can hold."""
        self._check_open()
        tolerance, direction = asked["tolerance"], asked["direction"]
        near, far = ("backward", "forward") if above else ("forward", "backward")
        for side in (near, far) if direction == "nearest" else (direction,):
            given = beside("keys", keys, self._key, self._place, above, is_low=side == "forward")
            if given is None:
                continue
            free = {"direction": side, "tolerance": None, "allows_exact_matches": True}
            answer = self._asof(given, {**asked, **free}, item)
            if answer[2] and (tolerance is None or self._distance(keys, answer[0]) <= tolerance):
                return answer
        missing = self._zero(self._value) if item is None else listed(item.array)[0]
        return no_key(self._key), missing, False

    def _distance(self, key: Any, other: Any) -> int | float:
        """How far the last parts of two keys are apart, one of which may be beyond its type."""
        on = last_part(self._key)
        ends = [key[-1], other[-1]] if isinstance(other, tuple) else [key, other]
        if on.kind == "f":
            return abs(_as_float(ends[0]) - _as_float(ends[1]))
        first, second = (ticks("keys", end, on) if on.kind in "Mm" else int(end) for end in ends)
        return abs(first - second)


def _as_float(number: Any) -> float:
    """A number as a float; an integer may be beyond all of them."""
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def _checked(direction: Direction) -> Direction:
    if direction not in get_args(Direction):
        raise ValueError(
            f"direction: expected 'backward', 'forward' or 'nearest', got {direction!r}"
        )
    return direction
