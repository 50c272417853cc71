"""Dictionaries over the actors of a Ray cluster."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import ray
from numpy.typing import DTypeLike, NDArray
from ray.exceptions import ActorDiedError, GetTimeoutError

from gpulsm._base import whole
from gpulsm._families import HOST, NUMPY
from gpulsm._imports import Imports
from gpulsm._keys import KeyType, stored_name
from gpulsm._layouts import Layout as KeyLayout
from gpulsm._mapping import Queries
from gpulsm._pair_updates import PairUpdates
from gpulsm._settings import checked, checked_progress, checked_rule, value_dtype
from gpulsm._settings import key_type as named_key_type
from gpulsm._stats import Stats
from gpulsm._stored import Types, check_storable
from gpulsm._types import Cleanup, Combine, FilePath, KeyLike, Progress
from gpulsm.ray.actors import NAMESPACE, sequencer_name
from gpulsm.ray.cluster import IN_FLIGHT, Again, Cluster, Description, LiveView
from gpulsm.ray.constructors import Constructors, filling, folder_of, insert_all
from gpulsm.ray.devices import on_any_device
from gpulsm.ray.errors import TimedOut
from gpulsm.ray.layout import MAX_SHARDS, Layout
from gpulsm.ray.moving import borders, with_shards, with_splitters
from gpulsm.ray.opening import check_unused
from gpulsm.ray.queries import Requests, View
from gpulsm.ray.shard import Body, Config
from gpulsm.ray.snapshot import Closing, OneCall, ShardedSnapshot, snapshot_of
from gpulsm.ray.starting import answers_of_all, options_of_shards, start_actors, start_shard
from gpulsm.ray.stores import Held, LiveStore
from gpulsm.ray.transport import checked_transport

#: The most seconds that a call waits, or a snapshot is kept: about 30 years.
_LONGEST = 1_000_000_000


@on_any_device
class ShardedDictionary(Closing, OneCall, Imports, PairUpdates, Constructors):  # type: ignore[misc]
    """A dictionary whose keys are divided among the actors of a Ray cluster.

    It has the methods of `gpulsm.Dictionary`, with the same meaning: a batch happens on all shards or on none, all
    readers see batches in the same order, and each happens once, whatever crashes. Arrays are those of the
    host. [docs/ray.md](../../docs/ray.md) tells how, and what to expect.

    Parameters
    ----------
    key, value
        The types, as of `Dictionary`.
    shards
        How many actors there are.
    resources
        What each actor needs, as Ray's actor options: `{"num_gpus": 1}`, `{"num_cpus": 2}`, …; or a list of them,
        one for each shard. Default: one CPU.
    path
        The folder that shards keep their files in, each in one of its own. Without it everything is in memory, and
        gone with its actor. It must be on storage that every node sees, unless `resources` keep each shard on one
        node.
    name
        A name by which `attach` finds the dictionary; it then outlives this program, until `close`.
    timeout
        After how many seconds a call gives up, with a `TimedOut`.
    in_flight
        How many batches of this process are under way at a time; further threads wait.
    log_limit
        After how many bytes of its log a shard writes a checkpoint.
    transport
        'nixl' sends the arrays of updates to shards with Ray Direct Transport, which needs PyTorch and NIXL. This is
        experimental. Default: through Ray's object store.
    device
        As of `Dictionary`, for every shard: 'cuda' for actors with a GPU each.
    combine, batch_size, threads, memory_limit, max_merge_per_batch, cleanup
        As of `Dictionary`, for every shard.

    Raises
    ------
    ValueError
        If a dictionary of that name exists (`attach` finds it), or an argument can't be used.
    """

    def __init__(
        self,
        key: KeyLike = "uint32",
        value: DTypeLike | None = "uint32",
        *,
        shards: int = 2,
        resources: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        path: FilePath | None = None,
        name: str | None = None,
        timeout: float = 120.0,
        in_flight: int = IN_FLIGHT,
        log_limit: int = 1 << 28,
        transport: str | None = None,
        combine: Combine = "replace",
        batch_size: int = 65536,
        device: str = "best",
        threads: int | None = None,
        memory_limit: int | None = None,
        max_merge_per_batch: int | None = None,
        cleanup: Cleanup = "automatic",
    ) -> None:
        keys, values = named_key_type(key), value_dtype(value)
        if not isinstance(device, str) or "," in device:
            raise TypeError(f"device: expected one device, for every shard, got {device!r}")
        folder = folder_of(path)
        if folder is not None:
            check_storable(values)
        rule = checked_rule(combine, values)
        size = whole("batch_size", batch_size, 1)
        settings = checked(device, size, threads, memory_limit, max_merge_per_batch, cleanup, rule)
        count = whole("shards", shards, 1, MAX_SHARDS)
        in_flight = whole("in_flight", in_flight, 1)
        config = _config(Types(keys, values, rule), settings)
        description = Description(
            _unnamed() if name is None else _checked_name(name),
            config,
            keys,
            values,
            seconds("timeout", timeout),
            folder,
            options_of_shards(resources, count),
            whole("log_limit", log_limit, 1),
            checked_transport(transport),
            name is not None,
        )
        description, sequencer, handles = start_actors(description, count)
        self._connect(description, in_flight, sequencer, handles)

    @classmethod
    def attach(
        cls, name: str, *, timeout: float | None = None, in_flight: int = IN_FLIGHT
    ) -> ShardedDictionary:
        """Returns the dictionary that was made under a name, by any program of the cluster.

        Parameters
        ----------
        name
            Its name.
        timeout, in_flight
            As of `ShardedDictionary`, for this process. Default: those it was made with.

        Raises
        ------
        ValueError
            If there is none of that name.
        """
        name, in_flight = _checked_name(name), whole("in_flight", in_flight, 1)
        if timeout is not None:
            timeout = seconds("timeout", timeout)
        try:
            sequencer = ray.get_actor(sequencer_name(name), NAMESPACE)
        except ValueError:
            raise ValueError(
                f"name: there is no dictionary {name!r} in the cluster at {ray.get_runtime_context().gcs_address}; `ShardedDictionary(…,"
                f" name={name!r})` makes one, and `ray.init(address=…)` connects to another cluster"
            ) from None
        answer: Any = sequencer.description.remote()
        try:
            description = cast(Description, ray.get(answer, timeout=timeout or 120.0))
        except GetTimeoutError:
            raise TimedOut(f"the sequencer of {name!r} did not answer") from None
        except ActorDiedError:
            raise ValueError(f"name: the dictionary {name!r} has just ended") from None
        if timeout is not None:
            description = Description(**{**vars(description), "timeout": timeout})
        return attached(description, in_flight, sequencer, {})

    #: Whether the end of a `with` block lets go of the handle alone.
    _is_attached = False

    def _connect(
        self,
        description: Description,
        in_flight: int,
        sequencer: Any,
        shards: dict[int, Any],
    ) -> None:
        self._cluster = Cluster(description, in_flight, sequencer, shards)
        store: Any = LiveStore(self._cluster)
        settings = description.config.settings
        super().__init__(store, description.key, description.value, settings)
        self._place = HOST

    @property
    def name(self) -> str:
        """The name by which `attach` finds it."""
        return self._cluster.description.name

    @property
    def path(self) -> str | None:
        """The folder that shards keep their files in; None for a dictionary in memory."""
        return self._cluster.description.path

    @property
    def closed(self) -> bool:
        """Whether it was closed in this process."""
        return self._cluster.is_closed

    @property
    def shards(self) -> int:
        """How many shards there are."""
        self._cluster.refresh()
        return len(self._cluster.layout.shards)

    def stats(self) -> Stats:
        """Returns what the shards hold, added up; `shards` has the figures of each, in key order."""
        return super().stats()

    def snapshot(self, lease: float = 600.0) -> ShardedSnapshot:
        """Returns the dictionary as it is now, frozen. Shards keep what it needs until it is closed, or has not been
        used for `lease` seconds. It is lost when a shard is restarted.

        Raises
        ------
        ShardLost, TimedOut
            If shards don't answer.
        """
        lease = seconds("lease", lease)
        cluster, token = self._cluster, uuid.uuid4().hex

        def run(view: Any) -> Layout:
            moment = LiveView.pin(view)[0]
            references = {
                shard: cluster.shard(shard).hold.remote(moment, token, lease)
                for shard in view.layout.shards
            }
            answers = cluster.gather(references, cluster.deadline())
            cluster.check_answers(answers)
            if not all(answers.values()):
                raise Again
            layout: Layout = view.layout
            return layout

        return snapshot_of(cluster, Held(token, lease, cluster.query(run)))

    def copy(self, *, path: FilePath | None = None, name: str | None = None) -> ShardedDictionary:
        """Returns a dictionary of its own with the same pairs and settings: as many actors, which ask for the same
        resources. Its pairs go through this process, a million at a time, as they are when this begins.

        Parameters
        ----------
        path, name
            As of `ShardedDictionary`. On the path there must be no pairs yet.

        Raises
        ------
        ValueError, OutOfMemoryError, ShardLost, TimedOut
            As for `ShardedDictionary` and `insert`. The new actors have ended then.
        """
        return copied(self, self._cluster, self.shards, path, name)

    __copy__ = copy

    def __deepcopy__(self, _: Any) -> ShardedDictionary:
        return self.copy()

    def sync(self) -> None:
        """Returns once all updates are on stable storage: with a `path` they are when they return, and without one they
        never are."""
        self._cluster.check_open()

    def checkpoint(self, progress: Progress | None = None) -> None:
        """Writes everything into files, so that the logs begin anew. Shards do so by themselves when their logs have
        grown long. Without a `path` it does nothing.

        Parameters
        ----------
        progress
            Is called with how many shards are done, of how many.
        """
        tell, cluster = checked_progress(progress), self._cluster
        cluster.check_open()
        if self.path is None:
            return
        cluster.refresh()
        references = {
            shard: cluster.shard(shard).checkpoint.remote() for shard in cluster.layout.shards
        }
        for done, (shard, reference) in enumerate(references.items(), 1):
            cluster.check_answers(cluster.gather({shard: reference}, cluster.deadline()))
            if tell is not None:
                tell(done, len(references))

    def rebalance(self, *, step: int = 1 << 20, progress: Progress | None = None) -> None:
        """Moves keys between neighbours until no shard has much more than the average. Others may read and write
        meanwhile; writers wait for each step.

        Parameters
        ----------
        step
            How many keys move over each border at a time.
        progress
            Is called after every step with how many keys have moved, of about how many.
        """
        tell, store = checked_progress(progress), self._store
        moved = 0
        while True:
            layout, lengths = self._cluster.layout, store.lengths()
            if layout.version != self._cluster.layout.version:
                continue  # Others have moved something.
            wanted = borders(lengths, whole("step", step, 1))
            if not wanted:
                return
            places = {border: (at.place, at.at) for border, at in wanted.items()}
            try:
                keys = self._keys_at(places)
                store.move(layout, with_splitters(layout, keys, store.config.key))
            except Again:
                continue  # Others have moved something.
            moved += sum(
                at.at if at.place > border else lengths[at.place] - at.at
                for border, at in wanted.items()
            )
            if tell is not None:
                average = sum(lengths) // len(lengths)
                left = sum(max(0, length - average) for length in store.lengths())
                tell(moved, moved + left)

    def _keys_at(self, places: dict[int, tuple[int, int]]) -> dict[int, NDArray[Any]]:
        """The key at an index of a shard, for each border."""

        def run(view: View) -> dict[int, NDArray[Any]]:
            found = {}
            for border, (place, index) in places.items():
                asked: Requests = {place: [(("select",), [np.array([index], np.int64)])]}
                keys, _, there = view.ask(asked)[place][0]
                if not there[0]:
                    raise Again
                found[border] = keys
            return found

        view = LiveView(self._cluster, True, self._cluster.deadline())
        try:
            return run(view)
        finally:
            view.close()

    def add_shards(
        self,
        n: int,
        *,
        resources: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Adds actors, and moves keys to them as `rebalance` does.

        Parameters
        ----------
        n
            How many.
        resources
            As of `ShardedDictionary`. Default: those of the first shard.
        progress
            As of `rebalance`.
        """
        count = whole("n", n, 1, MAX_SHARDS)
        if self._is_attached and not self._cluster.description.is_named:
            raise ValueError(
                "add_shards: only the program that made a dictionary without a name can, for its actors end with that program's;"
                " give it a `name`"
            )
        cluster, description = self._cluster, self._cluster.description
        options = (
            description.options[:1] * count
            if resources is None
            else options_of_shards(resources, count)
        )
        started = set[int]()
        try:
            while True:
                cluster.refresh()
                layout = cluster.layout
                if len(layout.shards) + count > MAX_SHARDS:
                    raise ValueError(
                        f"n: expected at most {MAX_SHARDS:,} shards in all, got {count:,} beside {len(layout.shards):,}"
                    )
                first = max(layout.shards) + 1
                added = list(range(first, first + count))
                for shard, option in zip(added, options, strict=True):
                    started.add(shard)
                    handle = start_shard(description, shard, layout, option)
                    cluster.add(shard, handle)
                    asking = replace(description, options=(option,), timeout=cluster.timeout)
                    answers_of_all({shard: handle}, "check", asking)
                    files = description.files, description.ticket
                    answers_of_all({shard: handle}, "claim", asking, *files, False)
                    admitted = cluster.sequencer.admit.remote(shard, handle)
                    cluster.get(admitted, cluster.deadline())
                lengths = self._store.lengths()
                if len(lengths) != len(layout.shards):
                    continue  # Others have added shards.
                new = with_shards(layout, added, lengths, self._store.config.key)
                try:
                    cluster.change_layout(layout, new, partial(_nothing, new, self._store.config))
                    break
                except Again:
                    continue  # Others have changed the layout.
        finally:
            self._dismiss(started)
        self.rebalance(progress=progress)

    def _dismiss(self, started: set[int]) -> None:
        """Ends those of these shards that have not come to be part of the dictionary."""
        with suppress(Exception):  # They have no keys.
            self._cluster.refresh()
            idle = started.difference(self._cluster.layout.shards)
            ray.get([self._cluster.sequencer.dismiss.remote(shard) for shard in idle], timeout=10)

    def merge_from(self, other: Queries) -> None:
        """Inserts every pair of another dictionary or snapshot, as one batch, as `Dictionary.merge_from` does. The
        pairs go through the memory of this process."""
        if not isinstance(other, Queries) or (self._key, self._value) != (other._key, other._value):
            raise TypeError("other: expected a dictionary or snapshot with the same types")
        keys, values = other.arrays()
        self.insert(keys, values)

    def close(self) -> None:
        """Ends the actors, for everybody; what has a `path` can be opened again there. To close it again does
        nothing. Other processes that use the dictionary get an error."""
        if self._cluster.is_closed:
            return
        cluster = self._cluster
        if ray.is_initialized():
            with suppress(Exception):  # Whatever is in no checkpoint is in the logs.
                self.checkpoint()
            cluster.end()
        cluster.is_closed = True

    def detach(self) -> None:
        """Lets go of the dictionary in this process, which can't use this handle any more; for others nothing changes.
        The end of a `with` block does the same to what `attach` found or a task was given, and closes what was made."""
        self._cluster.is_closed = True

    def _leave(self) -> None:
        if self._is_attached:
            self.detach()
        else:
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        self._cluster.check_open()
        return _dictionary_elsewhere, self._cluster.elsewhere()

    def _where(self) -> str:
        path = "" if self.path is None else f", path={self.path!r}"
        shards = len(self._cluster.layout.shards)
        return f"shards={shards}, name={self.name!r}{path}"


def attached(
    description: Description, in_flight: int, sequencer: Any, shards: dict[int, Any]
) -> ShardedDictionary:
    """The dictionary of that description, in this process."""
    made = ShardedDictionary.__new__(ShardedDictionary)
    made._connect(description, in_flight, sequencer, shards)
    made._is_attached = True
    return made


def _dictionary_elsewhere(
    description: Description, sequencer: Any, shards: dict[int, Any]
) -> ShardedDictionary:
    return attached(description, IN_FLIGHT, sequencer, shards)


def copied(
    of: Queries, cluster: Cluster, shards: int, path: FilePath | None, name: str | None
) -> ShardedDictionary:
    """A dictionary of the same pairs, over as many shards."""
    cluster.check_open()
    folder, of_all = folder_of(path), cluster.description
    if folder is not None:
        check_storable(of_all.value)
        check_unused(folder)
    has_options = len(of_all.options) == shards
    description = replace(
        of_all,
        name=_unnamed() if name is None else _checked_name(name),
        path=folder,
        options=of_all.options if has_options else of_all.options[:1] * shards,
        timeout=cluster.timeout,
        is_named=name is not None,
        identity=uuid.uuid4().hex,
        files="",
        ticket=0,
    )
    made = ShardedDictionary.__new__(ShardedDictionary)
    description, sequencer, handles = start_actors(description, shards)
    made._connect(description, IN_FLIGHT, sequencer, handles)
    with filling(made):
        insert_all(made, of)
    return made


def seconds(name: str, given: Any) -> float:
    """A time that calls can wait."""
    if isinstance(given, bool) or not isinstance(given, (int, float, np.number)):
        raise TypeError(f"{name}: expected a number of seconds, got {type(given).__name__}")
    if not 0 < given <= _LONGEST:
        raise ValueError(
            f"{name}: expected a number of seconds above 0 and up to {_LONGEST:,}, got {given}"
        )
    return float(given)


def _unnamed() -> str:
    return f"unnamed-{uuid.uuid4().hex}"


def _checked_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name: expected a text, got {type(name).__name__}")
    if not name:
        raise ValueError("name: expected a text that is not empty")
    return name


def _config(types: Types, settings: dict[str, Any]) -> Config:
    key: KeyType = types.key
    stored = key.dtype if isinstance(key, KeyLayout) else np.dtype(stored_name(key))
    if isinstance(key, KeyLayout) and stored.kind == "i":
        stored = np.dtype(f"u{stored.itemsize}")  # They are compared without a sign.
    width = 0 if types.value is None else types.value.itemsize
    return Config(types.names(), settings, stored, width)


def _nothing(layout: Layout, config: Config) -> dict[int, Body]:
    """A change of the layout that moves no key."""
    empty = NUMPY.empty(0, config.key)
    return {shard: Body("move", [empty, empty]) for shard in layout.shards}
