"""The actor of a shard. It adds waiting, time and Ray to its state."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError

from gpulsm._errors import Error
from gpulsm._native import Store
from gpulsm.ray.actors import NAMESPACE, Waiting, sequencer_name
from gpulsm.ray.errors import ShardStalled
from gpulsm.ray.layout import Layout
from gpulsm.ray.log import Replaced
from gpulsm.ray.opening import Claimed, Found, Opening
from gpulsm.ray.protocol import (
    Aborted,
    Accepted,
    Batch,
    EpochBegun,
    Moment,
    Pins,
    Prepared,
    Refused,
    Report,
    ShardState,
    Stale,
)
from gpulsm.ray.shard import Body, Config, Shard, answer
from gpulsm.ray.transport import PackedCalls, received

#: Queries of fewer elements than this are answered without another thread.
_FEW = 4096
#: After how many seconds a shard asks the sequencer what became of a batch.
_INQUIRE_AFTER = 1.0
#: After how many seconds a shard that could not be opened tries again, if somebody asks.
_OPEN_AGAIN_AFTER = 2.0
#: For how many seconds a shard that owns its files takes that for granted when it answers queries.
_OWNS_FOR = 1.0


class Begun(NamedTuple):
    """What a shard that was opened found.

    Attributes
    ----------
    layouts
        How keys are divided among shards, and may be after batches that are pending.
    epoch
        The last sequencer's; 0 if there never was one.
    tail
        The last number of a batch that was heard of.
    """

    layouts: list[Layout]
    epoch: int
    tail: int


class ShardActor(PackedCalls):
    """A shard as an actor. All of its methods may be called again: a call that was made before changes nothing."""

    def __init__(
        self,
        name: str,
        identity: str,
        number: int,
        config: Config,
        layout: Layout,
        path: str | None,
        log_limit: int,
        unused_for: float,
    ) -> None:
        self._name = name
        self._identity = identity
        self._log_limit = log_limit
        self._opening = Opening(name, _actor_id() or "", config, number, layout, path)
        self._opened: Shard | None = None
        self._tried_at = -math.inf
        self._changed = Waiting()
        self._writing = asyncio.Lock()
        self._owned_at = time.monotonic()
        self._is_applying = False
        self._applying: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._kept: dict[int, Store] = {}
        self._held: dict[str, tuple[Store, asyncio.TimerHandle, float]] = {}
        self._inquiries: set[int] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._checkpointing: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1)
        self._applier = ThreadPoolExecutor(1)
        self._readers = ThreadPoolExecutor(4)
        if path is not None and _was_restarted():
            self._open()
        if _actor_id() is not None:
            self._end_if_unused_in(unused_for)

    def _end_if_unused_in(self, seconds: float) -> None:
        """Ends this actor if there is no sequencer by then: whoever started it has not come that far, or has not ended
        the dictionary to its end. If there is one, it is looked for again and again."""

        def end_if_unused() -> None:
            with suppress(RayError):
                try:
                    ray.get_actor(sequencer_name(self._name), NAMESPACE)
                except ValueError:
                    ray.kill(ray.get_runtime_context().current_actor)
            self._end_if_unused_in(seconds)

        timer = threading.Timer(seconds, end_if_unused)
        timer.daemon = True
        timer.start()

    def _open(self) -> None:
        self._tried_at = time.monotonic()
        try:
            self._opened = self._opening.open()
        except Exception as error:  # Ray would not start it again.
            self._refusal = error

    @property
    def _shard(self) -> Shard:
        """What there is: it is opened by the first who needs it. If that fails, the caller is told why; now and then it
        is tried again."""
        if self._opened is None and time.monotonic() - self._tried_at > _OPEN_AGAIN_AFTER:
            self._open()
        if self._opened is None:
            if isinstance(self._refusal, Replaced):
                _end_actor()
            raise self._refusal.with_traceback(None)  # Otherwise it would grow.
        return self._opened

    @property
    def _state(self) -> ShardState:
        return self._shard.state

    async def process(self) -> int:
        """The number of the process that it runs in."""
        return os.getpid()

    async def identity(self) -> str:
        """Which dictionary it is a shard of: others may have the same name later."""
        return self._identity

    # Opening. Whoever makes a dictionary calls these in turn, each after all shards have answered the one before.

    async def check(self) -> Found:
        """As of `Opening`."""
        found: Found = await self._run(self._readers, self._opening.check)
        return found

    async def claim(self, dictionary: str, ticket: int, must_exist: bool) -> Claimed:
        """As of `Opening`."""
        claimed = self._opening.claim(dictionary, ticket, must_exist)
        self._tried_at = -math.inf
        return claimed

    async def begin(self) -> Begun:
        """Reads the files, and returns what is there. Whoever had them before has ended."""
        shard = self._shard
        self._opening.forget_formers()
        return Begun(shard.layouts(), shard.state.epoch, shard.state.tail)

    async def empty(self) -> None:
        """Does nothing: what any call costs."""

    # The protocol.

    async def prepare(
        self, batch: Batch, kind: str, settled: int, pins: Pins, *arrays: Any
    ) -> Accepted | Refused | Exception:
        """Logs a batch. An exception that is returned says why it can't be applied; it is not prepared then."""
        self._learn(settled, pins)
        async with self._writing:
            if self._failure is not None:
                return self._failure
            known = self._state.prepare(batch)
            if known is not None:
                return known
            batch = Batch(
                **{**vars(batch), "body": Body(kind, [received(array) for array in arrays])}
            )
            try:
                await self._prepare(batch)
            except (Error, MemoryError, OSError) as error:
                return error
        self._watch(batch.number)
        self._advance()
        if self._shard.files is not None and self._shard.files.bytes > self._log_limit:
            self._start(self.checkpoint())
        return Accepted()

    async def _prepare(self, batch: Batch) -> None:
        """Tries the batch out and logs it, both at once."""
        record = Prepared(batch)
        tried = self._run(self._applier, self._shard.try_out, batch)
        logged = self._log(record)
        outcomes = await asyncio.gather(tried, logged, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors and not isinstance(outcomes[1], BaseException):
            # It is logged, and must not be found there by who recovers.
            await self._revoke(Aborted(batch.number, batch.previous))
        if errors:
            self._shard.forget_trial(batch.number)
            raise errors[0]
        self._state.replay(record)

    async def _revoke(self, aborted: Aborted) -> None:
        try:
            await self._log(aborted)
        except (Error, OSError):
            self._shard.revoke(aborted)
        else:
            self._state.replay(aborted)

    async def commit(self, number: int, pins: Pins) -> None:
        """Notes that a batch is committed."""
        self._state.note(pins)
        record = self._state.commit(number)
        if record is not None:
            self._shard.later(record)
        self._advance()

    async def fence(self, number: int, previous: int, epoch: int, pins: Pins) -> bool | Refused:
        """Returns whether a batch is prepared; if it is not, it never will be."""
        self._state.note(pins)
        async with self._writing:
            known = self._state.fence(number, previous, epoch)
            if not isinstance(known, Aborted):
                return known
            await self._log(known)
            self._state.replay(known)
        self._advance()
        return False

    async def abort(self, number: int, previous: int, epoch: int) -> Refused | None:
        """Notes that a batch is aborted."""
        async with self._writing:
            known = self._state.abort(number, previous, epoch)
            if isinstance(known, Aborted):
                await self._log(known)
                self._state.replay(known)
                self._shard.forget_trial(number)
        self._advance()
        return known if isinstance(known, Refused) else None

    async def begin_epoch(self, epoch: int) -> Report | Refused:
        """Lets a new sequencer begin; returns what it has to know."""
        async with self._writing:
            await self._changed.until(lambda: not self._is_applying)
            known = self._state.begin_epoch(epoch)
            if isinstance(known, Refused):
                return known
            await self._log(known)
            self._state.replay(known)
            report = self._state.report()
        self._advance()
        self._changed.wake()
        return report

    def _learn(self, settled: int, pins: Pins) -> None:
        self._state.note(pins)
        for record in self._state.settle(settled):
            self._shard.later(record)
        self._advance()

    async def _log(self, record: Prepared | Aborted | EpochBegun) -> None:
        try:
            await self._run(self._writer, self._shard.log, record)
        except Replaced:
            _end_actor()

    def _advance(self) -> None:
        """Begins to apply what can be applied, unless that is being done."""
        if self._applying is None and self._failure is None:
            if self._state.applicable() is None:
                self._changed.wake()  # The position may have changed.
                return
            self._applying = asyncio.get_running_loop().create_task(self._apply())

    async def _apply(self) -> None:
        shard, state = self._shard, self._state
        try:
            while (batch := state.applicable()) is not None:
                kept = state.must_keep(batch.number)
                if kept:
                    before = shard.store.copy("snapshot")
                    self._kept.update({at: before for at in kept if at not in self._kept})
                self._is_applying = True
                await self._run(self._applier, shard.apply, batch)
                state.applied(batch.number)
                self._is_applying = False
                self._changed.wake()
                await asyncio.sleep(0)  # Those who wait come first.
        except Exception as error:  # Whatever it is, later batches can't be applied either.
            self._failure = ShardStalled(
                f"shard {shard.number} can't apply a batch that was committed: {error}. Nothing is lost: `cleanup()` "
                "tries again, and so does opening its files again, with a larger `memory_limit`"
            )
        finally:
            self._is_applying, self._applying = False, None
            pinned = state.pins.numbers
            self._kept = {at: store for at, store in self._kept.items() if at in pinned}
            self._changed.wake()

    def _watch(self, number: int) -> None:
        """Asks the sequencer what became of a batch, if nobody tells for a while."""
        if number not in self._inquiries:
            self._inquiries.add(number)
            loop = asyncio.get_running_loop()
            loop.call_later(_INQUIRE_AFTER, lambda: self._start(self._inquire(number)))

    async def _inquire(self, number: int) -> None:
        try:
            if number not in self._state.pending or number in self._state.committed:
                return
            sequencer = ray.get_actor(sequencer_name(self._name), NAMESPACE)
            pins = await sequencer.outcome.remote(number, self._state.epoch)
            await self.commit(number, pins)
        except (RayError, ValueError):
            asyncio.get_running_loop().call_soon(self._watch, number)  # The sequencer is not there.
        finally:
            self._inquiries.discard(number)

    # Queries.

    async def read(self, layout: int, queries: list[Any], *arrays: Any) -> Any:
        """Answers queries that concern this shard alone, as of now."""
        state = self._state
        target = max(state.pending, default=0)
        await self._until_readable(lambda: state.position >= target)
        if state.layout.version != layout:
            return Stale()
        return await self._answer(self._shard.store, queries, arrays)

    async def read_at(self, moment: Moment, queries: list[Any], *arrays: Any) -> Any:
        """Answers queries as of a number."""
        store = await self._store_at(moment)
        if store is None:
            return Stale()
        return await self._answer(store, queries, arrays)

    async def extract(self, layout: int, lo: Any, hi: Any) -> tuple[Any, Any]:
        """Returns the keys of a range, which are to move to another shard, and their values."""
        answers = await self.read(layout, [(("range",), 2)], lo, hi)
        if isinstance(answers, Stale):
            raise RuntimeError("the layout has changed")
        _, keys, values = answers[0]
        return keys, values

    async def hold(self, moment: Moment, token: str, lease: float) -> bool:
        """Keeps the dictionary as of a number, for queries to come; false if that can't be had any more."""
        store = await self._store_at(moment)
        if store is None:
            return False
        self._hold(token, store, lease)
        return True

    async def hold_again(self, held: str, token: str) -> Stale | None:
        """Keeps what is held under another name as well."""
        if held not in self._held:
            return Stale()
        store = self._renew(held)
        self._hold(token, store, self._held[held][2])
        return None

    async def stats_held(self, held: str) -> dict[str, Any] | Stale:
        """The figures of what is held."""
        if held not in self._held:
            return Stale()
        return await self._stats(self._renew(held))

    def _hold(self, token: str, store: Store, lease: float) -> None:
        self._release(token)
        self._held[token] = (store.copy("snapshot"), self._expire(token, lease), lease)

    async def read_held(self, token: str, queries: list[Any], *arrays: Any) -> Any:
        """Answers queries about what is held."""
        if token not in self._held:
            return Stale()
        return await self._answer(self._renew(token), queries, arrays)

    async def renew_held(self, token: str) -> None:
        """Holds for a whole lease again what another shard is asked about."""
        if token in self._held:
            self._renew(token)

    async def release(self, token: str) -> None:
        """Lets go of what is held."""
        self._release(token)

    def _renew(self, token: str) -> Store:
        store, timer, lease = self._held[token]
        timer.cancel()
        self._held[token] = (store, self._expire(token, lease), lease)
        return store

    def _release(self, token: str) -> None:
        if token in self._held:
            self._held.pop(token)[1].cancel()

    def _expire(self, token: str, lease: float) -> asyncio.TimerHandle:
        # Other shards may be asked for a quarter of it before this one hears of that.
        loop = asyncio.get_running_loop()
        return loop.call_later(1.25 * lease, lambda: self._release(token))

    async def _until_readable(self, is_so: Callable[[], bool]) -> None:
        def is_readable() -> bool:
            return self._failure is not None or (is_so() and not self._is_applying)

        self._check_owner()
        if not is_readable():
            for number in self._state.pending:
                self._watch(number)
        await self._changed.until(is_readable)
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def _check_owner(self) -> None:
        """Ends this actor if another one has its files: what it would answer may be of the past."""
        files, now = self._shard.files, time.monotonic()
        if files is not None and now - self._owned_at > _OWNS_FOR:
            try:
                files.check_owner()
            except Replaced:
                _end_actor()
            self._owned_at = now

    async def _store_at(self, moment: Moment) -> Store | None:
        state, last = self._state, moment.last[self._shard.number]

        def is_there() -> bool:
            return state.epoch != moment.epoch or state.position >= last

        if moment.number in self._kept and state.epoch == moment.epoch:
            return self._kept[moment.number]
        await self._until_readable(is_there)
        if state.epoch != moment.epoch:
            return None
        if state.latest > moment.number:
            return self._kept.get(moment.number)
        return self._shard.store

    async def _answer(self, store: Store, queries: list[Any], arrays: tuple[Any, ...]) -> Any:
        config = self._shard.config

        def answers() -> list[Any]:
            found, at = [], 0
            for query, count in queries:
                found.append(answer(store, config, query, [*arrays[at : at + count]]))
                at += count
            return found

        if sum(map(len, arrays)) < _FEW and not any(query[0] == "range" for query, _ in queries):
            return answers()
        store = store.copy("snapshot")  # It may change meanwhile.
        return await self._run(self._readers, answers)

    # Files and figures.

    async def checkpoint(self) -> None:
        """Writes everything into files, so that the log begins anew."""
        if self._shard.files is None:
            return
        if self._checkpointing is None or self._checkpointing.done():
            self._checkpointing = asyncio.get_running_loop().create_task(self._checkpoint())
        await asyncio.shield(self._checkpointing)

    async def _checkpoint(self) -> None:
        async with self._writing:
            await self._changed.until(lambda: not self._is_applying)
            store, note, pending = self._shard.begin_checkpoint()
            await self._run(self._writer, self._shard.begin_segment, note, pending)
        await self._run(self._readers, lambda: self._shard.write_checkpoint(store, note))

    async def cleanup(self) -> None:
        """Removes every stale entry."""
        if self._failure is not None:
            await self._run(self._applier, self._shard.store.cleanup)
            self._failure = None
            self._advance()
            await self._changed.until(lambda: self._applying is None)
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            return
        store = self._shard.store.copy("clone")
        latest = self._state.latest
        await self._run(self._readers, store.cleanup)
        if self._state.latest == latest and not self._is_applying:
            self._shard.store = store

    async def validate(self) -> None:
        """Checks the whole structure."""
        await self._run(self._readers, self._shard.store.copy("snapshot").validate)

    async def stats(self) -> dict[str, Any]:
        """What the shard holds, with all that may have been acknowledged."""
        target = max(self._state.pending, default=0)
        await self._until_readable(lambda: self._state.position >= target)
        return await self._stats(self._shard.store)

    async def _stats(self, store: Store) -> dict[str, Any]:
        figures: dict[str, Any] = await self._run(self._readers, store.copy("snapshot").stats)
        return figures

    def _run(self, where: ThreadPoolExecutor, what: Callable[..., Any], *arguments: Any) -> Any:
        return asyncio.get_running_loop().run_in_executor(where, what, *arguments)

    def _start(self, what: Any) -> None:
        task = asyncio.get_running_loop().create_task(what)
        self._tasks.add(task)  # Otherwise nobody holds it.
        task.add_done_callback(self._tasks.discard)


def _was_restarted() -> bool:
    """Whether Ray has started this actor again."""
    if _actor_id() is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray uses what it advises against.
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)


def _actor_id() -> str | None:
    """What Ray calls the actor that this is; None outside of actors."""
    own = ray.get_runtime_context().get_actor_id() if ray.is_initialized() else None
    return None if own is None else str(own)


def _end_actor() -> None:
    """Ends the actor that this is, for good: others have its files."""
    ray.actor.exit_actor()  # type: ignore[no-untyped-call]
