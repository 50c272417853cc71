"""Snapshots of dictionaries over shards, and what they have in common with the dictionaries."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from gpulsm._call import Call
from gpulsm._families import HOST
from gpulsm._mapping import PairQueries
from gpulsm.ray.cluster import IN_FLIGHT, Cluster, Description
from gpulsm.ray.devices import on_any_device
from gpulsm.ray.layout import Layout
from gpulsm.ray.queries import at_span
from gpulsm.ray.stores import Held, HeldStore

if TYPE_CHECKING:
    from gpulsm.ray.dictionary import ShardedDictionary

C = TypeVar("C", bound="Closing")


class OneCall(PairQueries):
    """Queries that are one call to each shard, where a dictionary in one process makes two."""

    _store: Any

    def _range(self, call: Call) -> tuple[Any, Any, Any]:
        first, last = call.spans
        offsets, keys, values = self._store.pairs_of_ranges((first, last))
        room = call.room(self._key, len(keys))
        at_span(room.span, self._store.config.key)[...] = keys
        if self._value is None:
            return offsets, room.unpacked(), None
        answer = call.room(self._value, len(keys))
        self._store.values(answer.span)[...] = values
        return offsets, room.unpacked(), answer.array


class Closing:
    """What a `with` statement closes when it ends, unless `_leave` does something else."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self.close()


@on_any_device
class ShardedSnapshot(Closing, OneCall):  # type: ignore[misc]
    """A dictionary over shards as it was at one moment, made by `ShardedDictionary.snapshot`. It answers every
    query that the dictionary does."""

    @property
    def token(self) -> str:
        """The name under which shards hold it."""
        token: str = self._store.held.token
        return token

    @property
    def layout(self) -> Layout:
        """How its keys are divided among shards."""
        layout: Layout = self._store.held.layout
        return layout

    def lengths(self) -> list[int]:
        """Returns how many keys each shard has, in key order."""
        lengths: list[int] = self._store.lengths()
        return lengths

    def thaw(self) -> ShardedDictionary:
        """Returns a dictionary with the snapshot's pairs, to be changed: actors of its own, as `ShardedDictionary.copy`
        starts them."""
        from gpulsm.ray.dictionary import copied

        return copied(self, self._store.cluster, len(self.layout.shards), None, None)

    def copy(self) -> ShardedSnapshot:
        """Returns another snapshot of the same moment, which is closed by itself and has a lease of its own."""
        return snapshot_of(self._store.cluster, self._store.held_again())

    __copy__ = copy

    def __deepcopy__(self, _: Any) -> ShardedSnapshot:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _snapshot_elsewhere, (self._store.held, *self._store.cluster.elsewhere())

    def close(self) -> None:
        """Lets the shards forget it, whoever else has it. Its lease does so, too. The end of a `with` block does the same,
        but not to what a task was given."""
        self._store.release()

    #: Whether it was made by another process.
    _is_attached = False

    def _leave(self) -> None:
        if not self._is_attached:
            self.close()


def snapshot_of(cluster: Cluster, held: Held, layout: Layout | None = None) -> ShardedSnapshot:
    """What shards hold under a name: all of them, or those of a layout alone."""
    store: Any = HeldStore(cluster, held, layout)
    description = cluster.description
    frozen = ShardedSnapshot(store, description.key, description.value, description.config.settings)
    frozen._place = HOST
    return frozen


def _snapshot_elsewhere(
    held: Held, description: Description, sequencer: Any, shards: dict[int, Any]
) -> ShardedSnapshot:
    snapshot = snapshot_of(Cluster(description, IN_FLIGHT, sequencer, shards), held)
    snapshot._is_attached = True
    return snapshot
