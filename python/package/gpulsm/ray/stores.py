"""All shards together, as they are, and as they were at one moment: the stores of dictionaries and snapshots."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import ray
from numpy.typing import NDArray

from gpulsm._families import NUMPY
from gpulsm.ray.cluster import Again, Cluster, LiveView
from gpulsm.ray.errors import ShardLost, SnapshotLost, TimedOut
from gpulsm.ray.layout import Layout, quantiles
from gpulsm.ray.moving import moves
from gpulsm.ray.protocol import Stale
from gpulsm.ray.queries import (
    Answers,
    Requests,
    ShardedQueries,
    Span,
    Spans,
    View,
    bodies_of_delete_range,
    bodies_of_set,
    bodies_of_update,
)
from gpulsm.ray.shard import Body

#: How many keys of the first batch the first splitters are chosen from.
_SAMPLE = 1 << 16
#: How many seconds that may take, which needs all shards, and after how many it is tried again.
_DIVIDE_WITHIN = 5.0
_DIVIDE_AGAIN_AFTER = 60.0
_NOT_HELD = (
    "a shard does not hold this snapshot any more: it was restarted, the snapshot was closed, or nobody "
    "used it for longer than its lease; `snapshot()` makes another"
)


class LiveStore(ShardedQueries):
    """The shards as they are."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.config)
        self.cluster = cluster
        self._divide_after = -math.inf
        self._popping = threading.RLock()

    def _run(self, query: Callable[[View], Any]) -> Any:
        return self.cluster.query(query)

    @property
    def device(self) -> str:
        """The device of every shard."""
        device: str = self.config.settings["device"]
        return ",".join([device] * len(self.cluster.layout.shards))

    @property
    def is_closed(self) -> bool:
        """Whether it was closed in this process."""
        return self.cluster.is_closed

    def update(self, inserts: Spans, deletes: Span, stream: int | None) -> None:
        """Inserts and deletes, as one batch."""
        keys, values = self.keys(inserts[0]), self.values(inserts[1])
        gone = self.keys(deletes)
        self._choose_splitters(keys)
        self.cluster.change(lambda layout: bodies_of_update(layout, keys, values, gone))

    def set(self, pairs: Spans, stream: int | None) -> None:
        """Assigns values, as one batch."""
        keys, values = self.keys(pairs[0]), self.values(pairs[1])
        self._choose_splitters(keys)
        self.cluster.change(lambda layout: bodies_of_set(layout, keys, values))

    def delete_range(self, ranges: Spans, stream: int | None) -> None:
        """Deletes every key of ranges, as one batch."""
        lo, hi = self.keys(ranges[0]), self.keys(ranges[1])
        self.cluster.change(lambda layout: bodies_of_delete_range(layout, lo, hi))

    def write(self, changes: list[tuple[str, Span, Span]]) -> None:
        """Changes in their order can't be made over shards."""
        raise TypeError(
            "write: expected a dictionary of this process; over shards, `update` makes one batch"
        )

    def pop(self, which: str, pair: Spans) -> bool:
        """Deletes one pair, and writes it. Another process may pop it too."""
        with self._popping:
            key, value = pair
            found = np.zeros(1, np.bool_)
            to = (NUMPY.address(found), 1)
            if which == "key":
                self.lookup(key, value, to, None)
            else:
                index = np.array([0 if which == "first" else max(self.len() - 1, 0)])
                self.pairs("select", (NUMPY.address(index), 1), pair, to, None)
            if found[0]:
                self.update(((0, 0), (0, 0)), key, None)
            return bool(found[0])

    def set_default(self, pair: Spans) -> bool:
        """Inserts one pair, unless the key has a value, which is written. Another process may do so meanwhile."""
        with self._popping:
            key, value = pair
            present, found = self.values(value).copy(), np.zeros(1, np.bool_)
            held = (NUMPY.address(present), 1)
            self.lookup(key, held, (NUMPY.address(found), 1), None)
            if found[0]:
                self.values(value)[...] = present
            else:
                self.update(pair, (0, 0), None)
            return bool(found[0])

    def clear(self) -> None:
        """Removes everything, as one batch."""
        self.cluster.change(
            lambda layout: {place: Body("clear") for place in range(len(layout.shards))}
        )

    def cleanup(self) -> None:
        """Removes every stale entry."""
        self.all_shards("cleanup")

    def validate(self) -> None:
        """Checks the structure of every shard."""
        self.all_shards("validate")

    def flush(self) -> None:
        """Does nothing: batches are applied when they are committed."""

    synchronize = flush

    def stats(self) -> dict[str, Any]:
        """What the shards hold, added up."""
        return _sum_of_stats(self, list(self.all_shards("stats").values()))

    def copy(self, kind: str) -> PinnedStore:
        """The shards as they are now, for as long as somebody holds it."""
        return PinnedStore(self.cluster)

    def summary(self) -> tuple[int | None, str]:
        """How many keys there are, and that as text."""
        return (None, "closed") if self.is_closed else super().summary()

    def all_shards(self, method: str, *arguments: Any) -> dict[int, Any]:
        """What a method of every shard returns, in key order."""
        cluster = self.cluster
        cluster.refresh()
        references = {
            shard: getattr(cluster.shard(shard), method).remote(*arguments)
            for shard in cluster.layout.shards
        }
        answers = cluster.gather(references, cluster.deadline())
        cluster.check_answers(answers)
        return answers

    def _choose_splitters(self, keys: NDArray[Any]) -> None:
        """Divides the keys of the first batch evenly."""
        layout = self.cluster.layout
        shards = len(layout.shards)
        if layout.version > 0 or shards == 1 or len(keys) < 2 * shards:
            return
        if time.monotonic() < self._divide_after:
            return
        step = max(1, len(keys) // _SAMPLE)
        sample = np.ascontiguousarray(keys[::step])
        new = Layout(layout.version + 1, layout.shards, quantiles(sample, shards))
        self._divide_after = time.monotonic() + _DIVIDE_AGAIN_AFTER
        with suppress(Again, ShardLost, TimedOut):  # Another driver was first, or a shard is down.
            self.move(layout, new, _DIVIDE_WITHIN)

    def move(self, old: Layout, new: Layout, timeout: float | None = None) -> None:
        """Lets keys be divided in another way, and moves those that belong to other shards then."""
        cluster = self.cluster

        def bodies() -> dict[int, Body]:
            wanted = moves(old, new, self.config.key)
            given = {shard: Body("move", []) for shard in new.shards}
            for shard, body in given.items():
                lost = [move for move in wanted if move.source == shard]
                for ends in ([move.lo for move in lost], [move.hi for move in lost]):
                    empty = NUMPY.empty(0, self.config.key)
                    body.arrays.append(np.concatenate([empty, *ends]))
            for move in wanted:
                extract = cluster.shard(move.source).extract.options(num_returns=2)
                given[move.target].arrays.extend(extract.remote(old.version, move.lo, move.hi))
            return given

        cluster.change_layout(old, new, bodies, timeout)


class FrozenStore(ShardedQueries):
    """The shards as they were at one moment. Nothing changes it."""

    @property
    def is_closed(self) -> bool:
        """Never: what can't be read any more says so."""
        return False

    @property
    def device(self) -> str:
        """The device of every shard."""
        device: str = self.config.settings["device"]
        return device

    def flush(self) -> None:
        """Does nothing."""

    synchronize = validate = flush


class PinnedStore(FrozenStore):
    """The shards as of a number that the sequencer keeps pinned until this is forgotten."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.config)
        self._view = cluster.query(lambda view: _pinned(cluster))

    def _run(self, query: Callable[[View], Any]) -> Any:
        self._view.renew()
        try:
            return query(self._view)
        except Again:
            raise SnapshotLost(
                "the moment that is read can't be had any more: a shard or the sequencer was restarted; begin again"
            ) from None

    def copy(self, kind: str) -> PinnedStore:
        """Itself, which never changes."""
        return self

    def __del__(self) -> None:
        if hasattr(self, "_view") and ray.is_initialized():
            with suppress(ValueError):  # It is closed.
                self._view.close()


def _pinned(cluster: Cluster) -> LiveView:
    view = LiveView(cluster, True, cluster.deadline())
    try:
        view.pin()
    except BaseException:
        view.close()
        raise
    return view


class Held(NamedTuple):
    """What shards hold: a name for it, for how many seconds without a query, and which shards."""

    token: str
    lease: float
    layout: Layout


class HeldStore(FrozenStore):
    """The shards as each of them holds them, under a name, until it is released or its lease ends."""

    def __init__(self, cluster: Cluster, held: Held, layout: Layout | None = None) -> None:
        super().__init__(cluster.config)
        self.cluster = cluster
        self.held = held
        #: Which of the shards are asked.
        self.layout = layout or held.layout
        self._renewed_at = -math.inf

    @property
    def is_closed(self) -> bool:
        """Whether its dictionary was closed in this process."""
        return self.cluster.is_closed

    @property
    def device(self) -> str:
        """The device of every shard."""
        return ",".join([super().device] * len(self.layout.shards))

    def summary(self) -> tuple[int | None, str]:
        """How many keys there are, and that as text."""
        return (None, "closed") if self.is_closed else super().summary()

    def ask(self, requests: Requests) -> Answers:
        """What shards answer."""
        cluster, token = self.cluster, self.held.token
        self._renew()
        return cluster.send(requests, self.layout, "read_held", token, deadline=cluster.deadline())

    def _renew(self) -> None:
        """Now and then lets shards that are not asked know that others are."""
        now = time.monotonic()
        if now - self._renewed_at > self.held.lease / 4:
            self._renewed_at = now
            self.cluster.tell(self.held.layout.shards, "renew_held", self.held.token)

    def _run(self, query: Callable[[View], Any]) -> Any:
        try:
            return query(self)
        except Again:
            raise SnapshotLost(_NOT_HELD) from None

    def copy(self, kind: str) -> HeldStore:
        """Itself, which never changes."""
        return self

    def held_again(self) -> Held:
        """The same, held under another name as well."""
        token = uuid.uuid4().hex
        self._all_shards("hold_again", token)
        return self.held._replace(token=token)

    def stats(self) -> dict[str, Any]:
        """What the shards hold of it, added up."""
        return _sum_of_stats(self, self._all_shards("stats_held"))

    def _all_shards(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of every shard says of what it holds, in key order."""
        cluster = self.cluster
        references = {
            shard: getattr(cluster.shard(shard), method).remote(self.held.token, *arguments)
            for shard in self.layout.shards
        }
        answers = cluster.gather(references, cluster.deadline())
        cluster.check_answers(answers)
        if any(isinstance(answer, Stale) for answer in answers.values()):
            raise SnapshotLost(_NOT_HELD)
        return [answers[shard] for shard in self.layout.shards]

    def release(self) -> None:
        """Lets shards forget it."""
        for shard in () if self.is_closed else self.layout.shards:
            with suppress(ShardLost):
                self.cluster.shard(shard).release.remote(self.held.token)


def _sum_of_stats(store: LiveStore | HeldStore, shards: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of all shards together, and of each."""
    total = {
        name: sum(shard[name] for shard in shards)
        for name in ("entries", "live", "stale", "bytes", "bytes_shared", "bytes_peak")
    }
    pictures = [f"shard {at}: {shard['picture']}" for at, shard in enumerate(shards)]
    rest = {"memory": None, "levels": [], "shards": shards, "picture": "\n".join(pictures)}
    size = store.config.settings["batch_size"]
    return {"device": store.device, "batch_size": size, **total, **rest}
