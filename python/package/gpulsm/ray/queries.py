"""All shards together, as the store that the classes of `gpulsm` ask: it has the methods of the native one.

So every method of a dictionary means here what it means there. What they give and want are addresses and lengths of
arrays in the memory of this process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpulsm._errors import Error
from gpulsm._families import NUMPY, DType
from gpulsm._native import Layout as NativeLayout
from gpulsm._native import Store
from gpulsm.ray.layout import Division, Layout, plain
from gpulsm.ray.shard import VALUES, Body, Config

Span = tuple[int, int]
Spans = tuple[Span, Span]
#: What shards are asked, by their place: queries with their arrays.
Requests = dict[int, list[tuple[tuple[Any, ...], list[NDArray[Any]]]]]
#: What they answered.
Answers = dict[int, list[Any]]


class View(Protocol):
    """All shards as of one moment."""

    @property
    def layout(self) -> Layout:
        """How keys are divided among them."""

    def ask(self, requests: Requests) -> Answers:
        """What they answer."""


class ShardedQueries:
    """Queries over shards. `_run` says as of which moment they are answered."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def _run(self, query: Callable[[View], Any]) -> Any:
        raise NotImplementedError

    @property
    def is_from_before_fork(self) -> bool:
        """Never: there are no threads here."""
        return False

    def keys(self, span: Span) -> NDArray[Any]:
        """Keys, as they are stored."""
        return at_span(span, self.config.key)

    def values(self, span: Span) -> NDArray[Any]:
        """Values, whatever they are; those of a set have no bytes."""
        if self.config.width == 0:
            return np.empty(0, np.uint32)
        return at_span(span, VALUES[self.config.width])

    def lookup(self, keys: Span, values: Span, found: Span, stream: int | None) -> None:
        """Fills in the values of keys, and whether they are there."""
        self._point(("lookup",), keys, [self.values(values), at_span(found, _BOOL)])

    def contains(self, keys: Span, found: Span, stream: int | None) -> None:
        """Fills in whether keys are there."""
        self._point(("contains",), keys, [at_span(found, _BOOL)])

    def _point(self, query: tuple[Any, ...], keys: Span, to: list[NDArray[Any]]) -> None:
        """A query whose answer for a key is that of the key's shard."""
        asked = self.keys(keys)

        def run(view: View) -> None:
            division = Division(view.layout.places(asked), len(view.layout.shards))
            parts = division.parts(asked)
            answers = view.ask({place: [(query, [part])] for place, part in parts.items()})
            for index, array in enumerate(to):
                division.gather(
                    array, {at: _listed(each[0])[index] for at, each in answers.items()}
                )

        self._run(run)

    def count(self, ranges: Spans, counts: Span, stream: int | None) -> None:
        """Fills in how many keys ranges have."""
        to = at_span(counts, _INT64)

        def run(view: View) -> None:
            to[...] = 0
            for indices, answers in self._by_ranges(view, ("count",), ranges):
                to[indices] += answers

        self._run(run)

    def _by_ranges(
        self, view: View, query: tuple[Any, ...], ranges: Spans
    ) -> list[tuple[NDArray[Any], Any]]:
        """For each shard, in order: the ranges that it may have keys of, and its answer."""
        lo, hi = self.keys(ranges[0]), self.keys(ranges[1])
        first, last = view.layout.places(lo), view.layout.places(hi)
        requests: Requests = {}
        indices = {}
        for place in range(len(view.layout.shards)):
            concerned = np.flatnonzero((first <= place) & (place <= last))
            if len(concerned):
                is_all = len(concerned) == len(lo)
                ends = [lo, hi] if is_all else [NUMPY.empty(len(concerned), lo.dtype) for _ in "lh"]
                if not is_all:
                    for end, given in zip(ends, (lo, hi), strict=True):
                        plain(end)[...] = plain(given)[concerned]
                requests[place] = [(query, ends)]
                indices[place] = concerned
        answers = view.ask(requests)
        return [(indices[place], answers[place][0]) for place in sorted(answers)]

    def aggregate(
        self,
        fold: tuple[str, str],
        ranges: Spans,
        answers: Span,
        counts: Span,
        stream: int | None,
    ) -> None:
        """Fills in the sum, the minimum or the maximum of the values in ranges, and how many there are."""
        operation, number = fold
        base = np.dtype(number)
        parts = self.config.width // base.itemsize
        if operation == "sum":
            base = np.dtype(f"{'f' if base.kind == 'f' else base.kind}8")
        to = at_span((answers[0], answers[1] * parts), base).reshape(-1, parts)
        totals = at_span(counts, _INT64)

        def run(view: View) -> None:
            to[...], totals[...] = 0, 0
            asked = ("aggregate", fold, base.itemsize * parts)
            for indices, (raw, found) in self._by_ranges(view, asked, ranges):
                values = raw.view(base).reshape(-1, parts)
                to[indices] = _folded(operation, to[indices], totals[indices], values, found)
                totals[indices] += found

        self._run(run)

    def rank(self, keys: Span, ranks: Span, stream: int | None) -> None:
        """Fills in how many keys are less."""
        asked, to = self.keys(keys), at_span(ranks, _INT64)

        def run(view: View) -> None:
            shards = len(view.layout.shards)
            division = Division(view.layout.places(asked), shards)
            parts = division.parts(asked)
            requests: Requests = {place: [(("rank",), [part])] for place, part in parts.items()}
            for place in range(max(parts, default=0)):
                requests.setdefault(place, []).append((("len",), []))
            answers = view.ask(requests)
            lengths = [answers[place][-1] if place in answers else 0 for place in range(shards)]
            before = np.cumsum([0, *(n if isinstance(n, int) else 0 for n in lengths)])
            division.gather(to, {at: answers[at][0] + before[at] for at in parts})

        self._run(run)

    def range_offsets(self, ranges: Spans, offsets: Span, stream: int | None) -> int:
        """Fills in where the pairs of ranges begin; returns how many there are."""
        to = at_span(offsets, _INT64)
        counts = np.zeros(ranges[0][1], np.int64)
        self.count(ranges, (NUMPY.address(counts), len(counts)), stream)
        to[0] = 0
        np.cumsum(counts, out=to[1:])
        return int(to[-1])

    def range(self, ranges: Spans, offsets: Span, to: Spans, stream: int | None) -> None:
        """Fills in the pairs of ranges."""
        _, keys, values = self.pairs_of_ranges(ranges)
        self.keys(to[0])[...] = keys
        self.values(to[1])[...] = values

    def pairs_of_ranges(self, ranges: Spans) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Where the pairs of ranges begin, their keys, and their values."""

        def run(view: View) -> Any:
            answers = self._by_ranges(view, ("range",), ranges)
            if len(answers) == 1 and len(answers[0][0]) == ranges[0][1]:
                return answers[0][1]
            return self._laid_out(answers, ranges[0][1])

        answer: tuple[NDArray[Any], NDArray[Any], NDArray[Any]] = self._run(run)
        return answer

    def _laid_out(self, answers: list[tuple[NDArray[Any], Any]], ranges: int) -> Any:
        """The pairs of each range from all shards, in order."""
        offsets = np.zeros(ranges + 1, np.int64)
        for indices, (starts, _, _) in answers:
            offsets[indices + 1] += np.diff(starts)
        np.cumsum(offsets, out=offsets)
        total, following = int(offsets[-1]), offsets[:-1].copy()
        keys = NUMPY.empty(total, self.config.key)
        width = self.config.width
        values = NUMPY.empty(total, VALUES[width]) if width else np.empty(0, np.uint32)
        for indices, (starts, own_keys, own_values) in answers:
            counts = np.diff(starts)
            to = np.repeat(following[indices] - starts[:-1], counts) + np.arange(len(own_keys))
            plain(keys)[to] = plain(own_keys)
            if width:
                plain(values)[to] = plain(own_values)
            following[indices] += counts
        return offsets, keys, values

    def pairs(self, which: str, queries: Span, to: Spans, found: Span, stream: int | None) -> None:
        """Fills in the pair next to keys, or at places in their order."""
        answer = (self.keys(to[0]), self.values(to[1]), at_span(found, _BOOL))
        if which == "select":
            self._run(lambda view: self._select(view, at_span(queries, _INT64), answer))
        else:
            self._run(lambda view: self._next(view, which, self.keys(queries), answer))

    def _select(self, view: View, indices: NDArray[Any], to: tuple[Any, ...]) -> None:
        shards = len(view.layout.shards)
        lengths = view.ask({place: [(("len",), [])] for place in range(shards)})
        ends = np.cumsum([lengths[place][0] for place in range(shards)])
        places = np.searchsorted(ends, indices, side="right")
        is_there = (indices >= 0) & (places < shards)
        places[~is_there] = shards
        starts = np.concatenate([[0], ends])
        division = Division(places, shards + 1)
        parts = division.parts(indices - starts[places])
        parts.pop(shards, None)
        answers = view.ask({place: [(("select",), [part])] for place, part in parts.items()})
        for array in to:
            plain(array)[...] = 0
        for index, array in enumerate(to):
            if len(array):
                division.gather(array, {at: each[0][index] for at, each in answers.items()})

    def _next(self, view: View, which: str, asked: NDArray[Any], to: tuple[Any, Any, Any]) -> None:
        """Successors and predecessors: those of a key's own shard, or the end of the next one that has keys."""
        shards = len(view.layout.shards)
        places = view.layout.places(asked)
        division = Division(places, shards)
        parts = division.parts(asked)
        answers = view.ask({place: [((which,), [part])] for place, part in parts.items()})
        for index, array in enumerate(to):
            if len(array):
                division.gather(array, {at: each[0][index] for at, each in answers.items()})
        is_up = which == "successor"
        missing = np.flatnonzero(~to[2])
        last = shards - 1 if is_up else 0
        if not len(missing) or (places[missing] == last).all():
            return
        ends = self._ends(view, is_up)
        for place in range(shards):
            beyond = range(place + 1, shards) if is_up else range(place - 1, -1, -1)
            nearest = next((at for at in beyond if ends[at][2][0]), None)
            here = missing[places[missing] == place]
            if nearest is not None:
                for array, end in zip(to, ends[nearest], strict=True):
                    if len(array):
                        plain(array)[here] = plain(end)[0]

    def _ends(self, view: View, is_first: bool) -> dict[int, tuple[Any, Any, Any]]:
        """The first, or the last, pair of every shard."""
        index = np.zeros(1, np.int64)
        shards = range(len(view.layout.shards))
        if is_first:
            answers = view.ask({place: [(("select",), [index])] for place in shards})
        else:
            highest = np.array([self._outermost()[1]], self.config.key)
            answers = view.ask({place: [(("predecessor",), [highest])] for place in shards})
        return {place: each[0] for place, each in answers.items()}

    def _outermost(self) -> tuple[Any, Any]:
        """The least and the greatest key that there can be, as they are stored."""
        key = self.config.key
        if key.kind == "V":
            return bytes(16), b"\xff" * 16
        if key.kind == "f":
            return -np.inf, np.nan
        return np.iinfo(key).min, np.iinfo(key).max

    def asof(
        self, query: dict[str, Any], questions: Span, to: Spans, found: Span, stream: int | None
    ) -> None:
        """Fills in the pair that agrees with keys in all parts but the last, and is the nearest in that.

        It is one that the key's own shard has on either side, or an end of another shard. So a dictionary of all
        these pairs has it as well, and answers."""
        asked = self.keys(questions)

        def run(view: View) -> Store:
            division = Division(view.layout.places(asked), len(view.layout.shards))
            free = {**query, "tolerance": None}
            sides = [("asof", {**free, "direction": side}) for side in ("backward", "forward")]
            requests: Requests = {
                place: [(side, [part]) for side in sides]
                for place, part in division.parts(asked).items()
            }
            candidates = [each for own in view.ask(requests).values() for each in own]
            for is_first in (True, False) if len(view.layout.shards) > 1 else ():
                candidates += self._ends(view, is_first).values()
            return self._small_store(candidates)

        self._run(run).asof(query, questions, to, found, None)

    def _small_store(self, candidates: list[tuple[Any, Any, Any]]) -> Store:
        """A dictionary of pairs that were found."""
        store = self._store_here(combine=("replace", ""))
        for keys, values, found in candidates:
            own = [array[found] if len(array) else array for array in (keys, values)]
            copies = [NUMPY.empty(len(array), array.dtype) for array in own]
            for copy, array in zip(copies, own, strict=True):
                copy[...] = array
            spans = [(NUMPY.address(copy), len(copies[0])) for copy in copies]
            store.update((spans[0], spans[1]), (0, 0), None)
        return store

    def _store_here(self, **settings: Any) -> Store:
        """An empty dictionary of this process. The limit of a shard is none for it."""
        own = {**self.config.settings, "device": "cpu", "memory_limit": None, **settings}
        return Store(self.config.names, own)

    def asof_of_columns(
        self,
        query: dict[str, Any],
        layout: NativeLayout,
        columns: tuple[list[Span], list[Span]],
        values: Span,
        found: Span,
    ) -> None:
        """The same for the parts of keys, each in a column."""
        length = columns[0][0][1]
        asked, keys = (NUMPY.empty(length, self.config.key) for _ in range(2))
        spans = [(NUMPY.address(array), length) for array in (asked, keys)]
        layout.pack([(column, False) for column in columns[0]], spans[0], None)
        self.asof(query, spans[0], (spans[1], values), found, None)
        layout.unpack(spans[1], found, columns[1], None)

    def len(self) -> int:
        """How many keys there are."""

        def run(view: View) -> int:
            places = range(len(view.layout.shards))
            answers = view.ask({place: [(("len",), [])] for place in places})
            return sum(each[0] for each in answers.values())

        length: int = self._run(run)
        return length

    def lengths(self) -> list[int]:
        """How many keys each shard has."""

        def run(view: View) -> list[int]:
            places = range(len(view.layout.shards))
            answers = view.ask({place: [(("len",), [])] for place in places})
            return [answers[place][0] for place in places]

        lengths: list[int] = self._run(run)
        return lengths

    def all_pairs(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Every key and every value, in key order."""
        ends = [
            NUMPY.full(1, self.config.key, np.array(end, self.config.key))
            for end in self._outermost()
        ]
        spans = (NUMPY.address(ends[0]), 1), (NUMPY.address(ends[1]), 1)
        _, keys, values = self.pairs_of_ranges(spans)
        return keys, values

    def save(self, path: str, overwrites: bool, progress: Any) -> None:
        """Writes all pairs into one file, through the memory of this process."""
        keys, values = self.all_pairs()
        store = self._store_here()
        spans = [(NUMPY.address(array), len(keys)) for array in (keys, values)]
        store.update((spans[0], spans[1]), (0, 0), None)
        store.save(path, overwrites, progress)

    def summary(self) -> tuple[int | None, str]:
        """How many keys there are, and that as text."""
        try:
            length = self.len()
            shards = self._run(lambda view: len(view.layout.shards))
        except Error as error:
            return None, f"keys that can't be counted: {error}"
        return length, f"{length:,} keys in {shards} shards"


def bodies_of_update(
    layout: Layout, keys: NDArray[Any], values: NDArray[Any], deletes: NDArray[Any]
) -> dict[int, Body]:
    """What a batch of inserts and deletes changes in each shard."""
    shards = len(layout.shards)
    inserted = _pairs_by_shard(layout, keys, values)
    deleted = Division(layout.places(deletes), shards).parts(deletes) if len(deletes) else {}
    nothing = (np.empty(0, keys.dtype), np.empty(0, values.dtype))
    return {
        place: Body("update", [*inserted.get(place, nothing), deleted.get(place, nothing[0])])
        for place in {*inserted, *deleted}
    }


def bodies_of_set(layout: Layout, keys: NDArray[Any], values: NDArray[Any]) -> dict[int, Body]:
    """What assigning values changes in each shard."""
    pairs = _pairs_by_shard(layout, keys, values)
    return {place: Body("set", [*pair]) for place, pair in pairs.items()}


def bodies_of_delete_range(layout: Layout, lo: NDArray[Any], hi: NDArray[Any]) -> dict[int, Body]:
    """What deleting ranges changes in each shard."""
    first, last = layout.places(lo), layout.places(hi)
    bodies = {}
    for place in range(len(layout.shards)):
        concerned = (first <= place) & (place <= last)
        if concerned.any():
            bodies[place] = Body("delete_range", [lo[concerned], hi[concerned]])
    return bodies


def _pairs_by_shard(
    layout: Layout, keys: NDArray[Any], values: NDArray[Any]
) -> dict[int, tuple[NDArray[Any], NDArray[Any]]]:
    if not len(keys):
        return {}
    division = Division(layout.places(keys), len(layout.shards))
    own_keys = division.parts(keys)
    own_values = division.parts(values) if len(values) else dict.fromkeys(own_keys, values)
    return {place: (own_keys[place], own_values[place]) for place in own_keys}


def _folded(
    operation: str,
    before: NDArray[Any],
    counts: NDArray[Any],
    values: NDArray[Any],
    found: NDArray[Any],
) -> NDArray[Any]:
    """The sums, minima or maxima of two shards together. NaN is greater than every other number."""
    if operation == "sum":
        return np.asarray(before + values)
    is_new, is_old = (found > 0)[:, None], (counts > 0)[:, None]
    if operation == "max":
        both = np.maximum(before, values)
    else:
        both = np.fmin(before, values) if before.dtype.kind == "f" else np.minimum(before, values)
    return np.asarray(np.where(is_new & is_old, both, np.where(is_new, values, before)))


def at_span(span: Span, dtype: DType) -> NDArray[Any]:
    """The elements at an address of this process."""
    address, length = span
    if length == 0:
        return np.empty(0, dtype)
    raw = (ctypes.c_uint8 * (length * dtype.itemsize)).from_address(address)
    return np.asarray(np.frombuffer(memoryview(raw).cast("B"), dtype))


def _listed(answer: Any) -> Any:
    return answer if isinstance(answer, tuple) else (answer,)


_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)
