"""What every operation means, over a plain `dict`."""

from __future__ import annotations

import bisect
import math
from typing import Any


class Oracle:
    """A dictionary that is slow and plainly right. Floats: -0 is 0, and every NaN is one NaN, the last."""

    def __init__(self) -> None:
        self.pairs: dict[Any, Any] = {}
        self.order: list[Any] = []

    def update(self, keys: list[Any], values: list[Any], deletes: list[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.pairs[_normal(key)] = value
        for key in deletes:
            self.pairs.pop(_normal(key), None)
        self.order = sorted(self.pairs)

    def delete_range(self, lo: list[Any], hi: list[Any], closed: str = "both") -> None:
        doomed = {
            key
            for first, last in zip(lo, hi, strict=True)
            for key in self._between(first, last, closed)
        }
        self.pairs = {key: value for key, value in self.pairs.items() if key not in doomed}
        self.order = sorted(self.pairs)

    def clear(self) -> None:
        self.pairs, self.order = {}, []

    def lookup(self, keys: list[Any]) -> list[Any]:
        return [self.pairs.get(_normal(key)) for key in keys]

    def count(self, lo: list[Any], hi: list[Any], closed: str = "both") -> list[int]:
        return [len(self._between(first, last, closed)) for first, last in zip(lo, hi, strict=True)]

    def range(
        self, lo: list[Any], hi: list[Any], closed: str = "both"
    ) -> list[list[tuple[Any, Any]]]:
        return [
            [(_plain(key), self.pairs[key]) for key in self._between(first, last, closed)]
            for first, last in zip(lo, hi, strict=True)
        ]

    def successor(self, keys: list[Any]) -> list[tuple[Any, Any] | None]:
        return [self._at(bisect.bisect_left(self.order, _normal(key))) for key in keys]

    def predecessor(self, keys: list[Any]) -> list[tuple[Any, Any] | None]:
        return [self._at(bisect.bisect_right(self.order, _normal(key)) - 1) for key in keys]

    def select(self, indices: list[int]) -> list[tuple[Any, Any] | None]:
        return [self._at(index + len(self.order) * (index < 0)) for index in indices]

    def rank(self, keys: list[Any]) -> list[int]:
        return [bisect.bisect_left(self.order, _normal(key)) for key in keys]

    def items(self) -> list[tuple[Any, Any]]:
        return [(_plain(key), self.pairs[key]) for key in self.order]

    def _between(self, lo: Any, hi: Any, closed: str) -> list[Any]:
        left = bisect.bisect_left if closed in ("both", "left") else bisect.bisect_right
        right = bisect.bisect_right if closed in ("both", "right") else bisect.bisect_left
        return self.order[left(self.order, _normal(lo)) : right(self.order, _normal(hi))]

    def _at(self, index: int) -> tuple[Any, Any] | None:
        if not 0 <= index < len(self.order):
            return None
        key = self.order[index]
        return _plain(key), self.pairs[key]

    def asof(
        self, keys: list[Any], direction: str, tolerance: Any, allows_exact: bool
    ) -> list[tuple[Any, Any] | None]:
        return [self._asof(key, direction, tolerance, allows_exact) for key in keys]

    def _asof(self, key: Any, direction: str, tolerance: Any, allows_exact: bool) -> Any:
        """The pair with the same first parts and the nearest last one; of two, the one before."""
        by, on = _split(key)
        before = after = None
        for candidate in self.order:
            other_by, other = _split(_plain(candidate))
            if _normal(other_by) != _normal(by) or "nan" in (same(other), same(on)):
                continue
            if other < on or (other == on and allows_exact):
                before = candidate
            if after is None and (other > on or (other == on and allows_exact)):
                after = candidate
        wanted = {"backward": [before], "forward": [after], "nearest": [before, after]}[direction]
        # The distance of an infinity from itself is NaN, which is within no tolerance.
        near = [
            (abs(_split(_plain(one))[1] - on), one)
            for one in wanted
            if one is not None
            and (tolerance is None or abs(_split(_plain(one))[1] - on) <= tolerance)
        ]
        if not near:
            return None
        best = near[-1] if near[-1][0] < near[0][0] else near[0]
        return _plain(best[1]), self.pairs[best[1]]


def _split(key: Any) -> tuple[Any, Any]:
    """All parts of a key but the last, and the last."""
    return (key[:-1], key[-1]) if isinstance(key, tuple) else ((), key)


def _plain(key: tuple[bool, Any]) -> Any:
    """The key that `_normal` made this of."""
    return tuple(map(_plain, key[1])) if isinstance(key[1], tuple) else key[1]


def _normal(key: Any) -> tuple[bool, Any]:
    """A key that sorts and compares as the dictionary's do: one of several parts, part by part."""
    if isinstance(key, tuple):
        return False, tuple(map(_normal, key))
    if isinstance(key, bytes):
        return False, key
    if same(key) == "nan":
        return True, "nan"
    return False, key + 0


def same(key: Any) -> Any:
    """A key of an answer in a form that compares: NaN equals itself."""
    if isinstance(key, tuple):
        return tuple(map(same, key))
    return "nan" if isinstance(key, float) and math.isnan(key) else key
