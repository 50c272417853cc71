"""What one process needs to use the actors of a dictionary: its way to them, and what it sends."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import ray
from numpy.typing import NDArray
from ray.exceptions import (
    ActorDiedError,
    GetTimeoutError,
    ObjectLostError,
    RayTaskError,
)

from gpulsm._families import NUMPY
from gpulsm._keys import KeyType, listed_keys
from gpulsm._layouts import Layout as KeyLayout
from gpulsm.ray.actors import NAMESPACE, sequencer_name, shard_name
from gpulsm.ray.errors import ShardLost, TimedOut
from gpulsm.ray.layout import Layout, aligned
from gpulsm.ray.protocol import (
    Accepted,
    Batch,
    Busy,
    Done,
    Moment,
    NeverHappened,
    Numbered,
    Pins,
    Stale,
)
from gpulsm.ray.queries import Answers, Requests, View
from gpulsm.ray.shard import Body, Config
from gpulsm.ray.transport import LARGE, call, sent, unpacked

#: How many batches of a process are under way at a time, unless it is told.
IN_FLIGHT = 8
#: After how many seconds a batch that nobody decided is resolved. It doubles with every attempt.
_PATIENCE = 5.0

#: After how many seconds a reader that goes on tells the sequencer.
_RENEW_AFTER = 60.0
_ENDED = (
    "has ended: the dictionary was closed, or its files were opened by another one. What was acknowledged is in its "
    "files, if it has a `path`; open it again"
)

T = TypeVar("T")


@dataclass(frozen=True)
class Description:
    """What others need to know to use a dictionary.

    Attributes
    ----------
    identity
        What its actors are told apart by from those of others that have its name earlier or later.
    files
        What its files are told apart by from those of other dictionaries.
    ticket
        How often its files were opened, about: who opens them later has a greater one.
    """

    name: str
    config: Config
    key: Any
    value: Any
    timeout: float
    path: str | None
    options: tuple[dict[str, Any], ...]
    log_limit: int
    transport: str | None = None
    is_named: bool = True
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    files: str = ""
    ticket: int = 0


class Again(Exception):
    """A query has to be begun again: something has changed meanwhile."""

    def __init__(self, needs_moment: bool = False) -> None:
        super().__init__()
        self.needs_moment = needs_moment


class Client:
    """A thread that sends batches, one after the other."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or uuid.uuid4().hex
        self.sequence = 0


class Cluster:
    """The actors of a dictionary, as one process sees them."""

    def __init__(
        self, description: Description, in_flight: int, sequencer: Any, shards: dict[int, Any]
    ) -> None:
        self.description = description
        self.timeout = description.timeout
        self.transport = description.transport
        self.is_closed = False
        self._sequencer = sequencer
        self._shards = shards
        self._layout: Layout | None = None
        self._clients = threading.local()
        self._in_flight = threading.BoundedSemaphore(in_flight)

    @property
    def config(self) -> Config:
        """What the dictionary is made with."""
        return self.description.config

    @property
    def sequencer(self) -> Any:
        """The sequencer's handle."""
        self.check_open()
        return self._sequencer

    def _sequencer_exists(self) -> bool:
        """Whether the sequencer is there, and not another one that has its name now."""
        try:
            named = self._actor(sequencer_name(self.description.name))
        except ValueError:
            return False
        return bool(named._actor_id == self._sequencer._actor_id)

    def _ended(self, what: str = "", shards: tuple[int, ...] = ()) -> ShardLost:
        """The error that says that there are no actors any more."""
        return ShardLost(f"{what}{self.description.name!r} {_ENDED}", shards)

    def shard(self, number: int) -> Any:
        """The handle of a shard."""
        self.check_open()
        if number not in self._shards:
            try:
                handle = self._actor(shard_name(self.description.name, number))
            except ValueError:
                if self.description.path is None and self._sequencer_exists():
                    raise self.loss((number,)) from None
                raise self._ended(f"shard {number} of ", (number,)) from None
            if self._is_anothers(number, handle):
                raise self._ended()
            self._shards[number] = handle
        return self._shards[number]

    def _is_anothers(self, number: int, handle: Any) -> bool:
        """Whether an actor is a shard of another dictionary, which was given the same name."""
        if not self.description.is_named:
            return False
        try:
            identity = self.get(handle.identity.remote(), self.deadline(), f"shard {number}")
        except ActorDiedError:
            return False  # Whoever calls it finds out what that means.
        return bool(identity != self.description.identity)

    def tell(self, shards: tuple[int, ...], method: str, *arguments: Any) -> None:
        """Calls a method of those of these shards that are known, without waiting for them."""
        for shard in shards:
            if shard in self._shards:
                getattr(self._shards[shard], method).remote(*arguments)

    def add(self, number: int, handle: Any) -> None:
        """Learns of a new shard."""
        self._shards[number] = handle

    def elsewhere(self) -> tuple[Description, Any, dict[int, Any]]:
        """What a copy of this in another process is made of: the handles, too, for without a name actors live as long
        as there are any."""
        return self.description, self._sequencer, dict(self._shards)

    def end(self) -> None:
        """Ends the dictionary, for everybody."""
        if self._sequencer_exists():
            end_actors(self.description.name)
        else:  # Somebody has ended it already, and may have given its name to another one.
            for handle in (*self._shards.values(), self._sequencer):
                ray.kill(handle)
        self.is_closed = True

    def _actor(self, name: str) -> Any:
        return ray.get_actor(name, NAMESPACE)

    def check_open(self) -> None:
        """An error if the dictionary was closed here."""
        if self.is_closed:
            raise ValueError("this dictionary is closed")
        if not ray.is_initialized():
            raise ShardLost(
                "this program is not connected to a Ray cluster any more: `ray.init(address=…)` connects it, and"
                " `ShardedDictionary.attach(name)` finds the dictionary again, if it has a name or its cluster goes on"
            )

    @property
    def layout(self) -> Layout:
        """How keys are divided among shards, as far as it is known here."""
        if self._layout is None:
            self.refresh()
        assert self._layout is not None
        return self._layout

    def refresh(self, layout: Layout | None = None) -> None:
        """Learns how keys are divided among shards, and of shards that were added."""
        if layout is None:
            layout = self.get(self.sequencer.layout.remote(), self.deadline())[0]
        self._layout = layout
        added = tuple(shard for shard in layout.shards if shard not in self._shards)
        if added:
            self._shards |= self.get(self.sequencer.handles.remote(added), self.deadline())

    # Waiting.

    def deadline(self, timeout: float | None = None) -> float:
        """When a call that begins now has taken too long."""
        return time.monotonic() + min(self.timeout, timeout or self.timeout)

    def get(self, reference: Any, deadline: float, what: str = "the sequencer") -> Any:
        """What an actor answers."""
        try:
            return unpacked(ray.get(reference, timeout=max(0.001, deadline - time.monotonic())))
        except GetTimeoutError:
            raise TimedOut(
                f"{what} did not answer within {self.timeout:g} s: a node may be down, or a restart may take longer; "
                "`timeout` of the dictionary sets how long calls wait"
            ) from None
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, Exception) else error from None
        except ActorDiedError as error:
            if what == "the sequencer":
                raise self._ended() from error
            raise

    def gather(self, references: dict[int, Any], deadline: float) -> dict[int, Any]:
        """What shards answer, by their numbers; errors are answers, too."""
        answers: dict[int, Any] = {}
        for number, reference in references.items():
            try:
                answers[number] = self.get(reference, deadline, f"shard {number}")
            except TimedOut:
                raise
            except Exception as error:
                answers[number] = error
        return answers

    def loss(self, shards: tuple[int, ...]) -> ShardLost:
        """The error that says which keys are gone."""
        layout, texts = self.layout, []
        splitters = _listed(layout.splitters, self.description.key)
        for shard in shards:
            if shard in layout.shards:
                place = layout.shards.index(shard)
                lo = f"from {splitters[place - 1]} on" if place else "from the least on"
                hi = f", less than {splitters[place]}" if place < len(splitters) else ""
                texts.append(f"shard {shard}, with the keys {lo}{hi}")
        return ShardLost(
            f"{'; '.join(texts) or shards} is lost: its actor ended, and without a `path` it kept no files. Other keys "
            "are there, and can be queried and updated",
            shards,
        )

    def check_answers(self, answers: dict[int, Any]) -> None:
        """An error if a shard did not answer, for it is lost, or answered with one."""
        failed = {
            shard: answer for shard, answer in answers.items() if isinstance(answer, Exception)
        }
        if not failed:
            return
        lost = tuple(shard for shard, error in failed.items() if isinstance(error, ActorDiedError))
        if lost and self.description.path is None:
            for shard in lost:
                self.get(self.sequencer.lost.remote(shard), self.deadline())
            raise self.loss(lost)
        first = next(iter(failed.values()))
        if lost:
            raise self._ended(f"shard {lost[0]} of ", lost) from first
        raise first

    # Updates.

    def change(self, divided: Callable[[Layout], dict[int, Body]]) -> None:
        """Applies a batch, exactly once. `divided` tells what it changes in each shard, by place."""
        deadline = self.deadline()
        if not self._in_flight.acquire(timeout=self.timeout):
            raise TimedOut(
                f"the batch was not sent within {self.timeout:g} s, and does not happen: as many others of this process "
                "as `in_flight` allows are under way"
            )
        try:
            self._change(divided, deadline)
        finally:
            self._in_flight.release()

    def _change(self, divided: Callable[[Layout], dict[int, Body]], deadline: float) -> None:
        client, patience, is_done = self._next_batch(), _PATIENCE, False
        while not is_done:
            layout = self.layout
            bodies = {layout.shards[at]: body for at, body in divided(layout).items()}
            for body in bodies.values():
                body.arrays[:] = [sent(each, self.transport) for each in body.arrays]
            given = self._number(client, tuple(bodies), layout, patience, deadline)
            if isinstance(given, Stale):
                self.refresh()
            else:
                is_done = not isinstance(given, Numbered) or self._attempt(
                    client, given, bodies, None, deadline
                )
                patience *= 2

    def change_layout(
        self,
        old: Layout,
        new: Layout,
        moved: Callable[[], dict[int, Body]],
        timeout: float | None = None,
    ) -> None:
        """Lets keys be divided in another way, while no other batch is under way. `moved` then tells what that
        changes in each shard. Raises `Again` if the layout is not the old one any more."""
        # A client of its own: those that send their batches again must count the same ones.
        client, patience, deadline = Client(), _PATIENCE, self.deadline(timeout)
        client.sequence = 1
        is_done = False
        while not is_done:
            given = self._number(client, new.shards, old, patience, deadline, new)
            if isinstance(given, Stale):
                self.refresh()
                raise Again
            if isinstance(given, Busy):
                raise TimedOut(
                    "keys can't be moved now: a batch is not decided, for a shard does not answer"
                )
            is_done = not isinstance(given, Numbered) or self._attempt(
                client, given, moved(), new, deadline
            )
            patience *= 2
        self.refresh()

    def _next_batch(self) -> Client:
        client = self._client()
        client.sequence += 1
        return client

    def _number(
        self,
        client: Client,
        participants: tuple[int, ...],
        layout: Layout,
        patience: float,
        deadline: float,
        new_layout: Layout | None = None,
    ) -> Numbered | Done | Stale | Busy:
        if not participants:
            return Done(0, Pins())
        asked = (client.name, client.sequence, participants, layout.version, patience, new_layout)
        given: Numbered | Done | Stale | Busy = self.get(
            call(self.sequencer, "number", *asked), deadline
        )
        return given

    def be(self, client: Client) -> None:
        """Lets this thread be a client that may have sent batches before, from elsewhere. It must send the same."""
        self._clients.own = client

    def _client(self) -> Client:
        if not hasattr(self._clients, "own"):
            self._clients.own = Client()
        client: Client = self._clients.own
        return client

    def _attempt(
        self,
        client: Client,
        given: Numbered,
        bodies: dict[int, Body],
        layout: Layout | None,
        deadline: float,
    ) -> bool:
        """Sends a batch under a number; returns whether it is applied."""
        references = {}
        for shard, body in bodies.items():
            batch = self._batch(given, shard, tuple(bodies), client, layout)
            arguments = (batch, body.kind, given.settled, given.pins, *body.arrays)
            if any(isinstance(array, ray.ObjectRef) for array in body.arrays):
                references[shard] = self.shard(shard).prepare.remote(*arguments)
            else:
                references[shard] = call(self.shard(shard), "prepare", *arguments)
        return self._decide(given.number, client, self.gather(references, deadline), deadline)

    def _batch(
        self,
        given: Numbered,
        shard: int,
        participants: tuple[int, ...],
        client: Client,
        layout: Layout | None,
    ) -> Batch:
        return Batch(
            given.number,
            given.epoch,
            given.previous[shard],
            participants,
            client.name,
            client.sequence,
            None,
            layout,
        )

    def _decide(
        self, number: int, client: Client, answers: dict[int, Any], deadline: float
    ) -> bool:
        """Commits a batch that all have prepared; else finds out what becomes of it."""
        is_prepared = all(isinstance(answer, Accepted) for answer in answers.values())
        method = "commit" if is_prepared else "resolve"
        asked = call(self.sequencer, method, number, client.name, client.sequence)
        try:
            decided = self.get(asked, deadline)
        except TimedOut:
            raise
        except Exception as error:
            raise TimedOut(f"nobody knows yet whether the batch is applied: {error}") from error
        if isinstance(decided, Done):
            for shard in answers:
                call(self.shard(shard), "commit", number, decided.pins)
            return True
        assert isinstance(decided, NeverHappened)
        if any(isinstance(answer, ObjectLostError) for answer in answers.values()):
            return False  # What was to be moved was lost with a node.
        self.check_answers(answers)
        return False

    # Queries.

    def query(self, run: Callable[[View], T]) -> T:
        """Runs a query, again if something changes meanwhile."""
        needs_moment, deadline = False, self.deadline()
        while True:
            view = LiveView(self, needs_moment, deadline)
            try:
                return run(view)
            except Again as again:
                needs_moment |= again.needs_moment
                if time.monotonic() > deadline:
                    raise TimedOut(
                        f"the query was not answered within {self.timeout:g} s"
                    ) from None
            finally:
                view.close()

    def send(
        self, requests: Requests, layout: Layout, method: str, *arguments: Any, deadline: float
    ) -> Answers:
        """Asks shards; raises `Again` if one of them can't answer as of that moment."""
        references = {}
        for place, queries in requests.items():
            shard = layout.shards[place]
            arrays = [array for _, own in queries for array in own]
            asked = [(query, len(own)) for query, own in queries]
            if sum(array.nbytes for array in arrays) < LARGE:
                references[shard] = call(self.shard(shard), method, *arguments, asked, *arrays)
            else:
                called = getattr(self.shard(shard), method)
                references[shard] = called.remote(*arguments, asked, *arrays)
        answers = self.gather(references, deadline)
        self.check_answers(answers)
        if any(isinstance(answer, Stale) for answer in answers.values()):
            raise Again
        return {place: answers[layout.shards[place]] for place in requests}


class LiveView:
    """The shards as of now: the one that is asked, or all of them as of one committed number."""

    def __init__(self, cluster: Cluster, needs_moment: bool, deadline: float) -> None:
        self.layout = cluster.layout
        self._cluster = cluster
        self._needs_moment = needs_moment
        self._deadline = deadline
        self._has_asked = False
        self._moment: Moment | None = None
        self._reader = ""
        self._renewed_at = time.monotonic()

    def ask(self, requests: Requests) -> Answers:
        """What shards answer."""
        if not requests:
            return {}
        if self._moment is None and len(requests) == 1 and not self._needs_moment:
            if self._has_asked:
                raise Again(needs_moment=True)
            self._has_asked = True
            try:
                return self._send(requests, "read", self.layout.version)
            except Again:
                self._cluster.refresh()
                raise
        if self._has_asked:
            raise Again(needs_moment=True)
        shards = tuple(self.layout.shards[place] for place in requests)
        return self._send(requests, "read_at", self._pinned(shards))

    def _send(self, requests: Requests, method: str, *arguments: Any) -> Answers:
        return self._cluster.send(
            requests, self.layout, method, *arguments, deadline=self._deadline
        )

    def _pinned(self, shards: tuple[int, ...]) -> Moment:
        """The moment of all answers. It waits for no other shards than these: they may be down."""
        cluster = self._cluster
        if self._moment is None:
            self._reader = uuid.uuid4().hex
            reference = call(cluster.sequencer, "begin_read", self._reader, shards)
            moment: Moment | Stale = cluster.get(reference, self._deadline)
            if isinstance(moment, Stale):
                raise Again
            self._moment = moment
            if self._moment.layout.version != self.layout.version:
                cluster.refresh(self._moment.layout)
                raise Again
        others = tuple(shard for shard in shards if shard not in self._moment.last)
        if others:
            reference = call(cluster.sequencer, "further_read", self._reader, others)
            further = cluster.get(reference, self._deadline)
            if isinstance(further, Stale):
                raise Again
            self._moment = replace(self._moment, last={**self._moment.last, **further.last})
        return self._moment

    def pin(self) -> tuple[Moment, str]:
        """The moment of all answers to come, and the name of who reads them."""
        return self._pinned(self.layout.shards), self._reader

    def renew(self) -> None:
        """Lets this be asked for as long again as a view that is made now."""
        self._deadline = self._cluster.deadline()
        if self._reader and time.monotonic() - self._renewed_at > _RENEW_AFTER:
            self._renewed_at = time.monotonic()
            self._cluster.sequencer.renew_read.remote(self._reader)

    def close(self) -> None:
        """Lets shards forget that moment."""
        if self._reader:
            self._cluster.sequencer.end_read.remote(self._reader)
            self._reader = ""


def end_actors(name: str) -> None:
    """Ends all actors of a dictionary, whether they answer or not: the sequencer last, for without it the others would
    end by themselves only later."""
    named = [
        actor["name"]
        for actor in ray.util.list_named_actors(all_namespaces=True)
        # A dictionary's name may have slashes, too.
        if actor["namespace"] == NAMESPACE and actor["name"].rpartition("/")[0] == name
    ]
    for actor in sorted(named, key=lambda actor: (actor == sequencer_name(name), actor)):
        with suppress(ValueError):  # Another driver was first.
            ray.kill(ray.get_actor(actor, NAMESPACE))


def _listed(splitters: NDArray[Any], key: KeyType) -> list[Any]:
    """Splitters, one by one, as callers know keys."""
    if not isinstance(key, KeyLayout):
        return listed_keys(splitters.view(key))
    columns = tuple(NUMPY.empty(len(splitters), part) for part in key.parts)
    key.unpack(aligned(splitters), None, columns)
    return listed_keys(columns if key.is_tuple else columns[0])
