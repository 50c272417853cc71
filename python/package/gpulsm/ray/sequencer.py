"""The actor of the sequencer. It adds waiting, time and Ray to its state."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayActorError

from gpulsm.ray.actors import NAMESPACE, Waiting, shard_name
from gpulsm.ray.errors import ShardLost
from gpulsm.ray.layout import Layout
from gpulsm.ray.protocol import (
    Busy,
    Done,
    Moment,
    NeverHappened,
    Numbered,
    Open,
    Pins,
    Refused,
    Report,
    SequencerState,
    Stale,
    Unsettled,
)
from gpulsm.ray.transport import PackedCalls

#: After how many seconds a batch is resolved again, if a shard could not log it.
_RESOLVE_AGAIN_AFTER = 5.0
#: How many seconds a batch that is resolved waits for participants that don't answer.
_FENCE_PATIENCE = 2.0
#: How long a reader may take to read as of a number, in seconds.
_READ_LEASE = 600.0


class SequencerActor(PackedCalls):
    """The sequencer as an actor. After a restart it learns from the shards what there was."""

    def __init__(self, name: str, shards: list[int], description: Any) -> None:
        self._name = name
        self._description = description
        self._keeps_files = description.path is not None
        self._lost: set[int] = set()
        self._first = shards
        self._shards: dict[int, Any] = {}
        self._state: SequencerState | None = None
        self._recovery: asyncio.Task[SequencerState] | None = None
        self._changed = Waiting()
        self._leases: dict[str, asyncio.TimerHandle] = {}
        self._resolutions: dict[int, asyncio.Task[None]] = {}
        self._layout_changes = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def number(
        self,
        client: str,
        sequence: int,
        participants: tuple[int, ...],
        layout: int,
        patience: float,
        new_layout: Layout | None = None,
    ) -> Numbered | Done | Stale | Busy:
        """Gives a batch its number. If it is not decided within as many seconds, it is resolved."""
        state = await self._ready()
        for shard in participants:
            if shard not in self._shards and shard not in self._lost:
                try:
                    await self.admit(shard)  # It was added before this sequencer began.
                except (ValueError, ActorDiedError):
                    if new_layout is None:
                        raise
                    return Stale()  # It was dismissed again: whoever adds it begins again.
        self._layout_changes += new_layout is not None
        try:
            while True:
                await self._changed.until(
                    lambda: new_layout is not None or not self._layout_changes
                )
                given = state.number(client, sequence, participants, layout, new_layout)
                if isinstance(given, Unsettled):
                    await self._resolved(given.number)
                elif isinstance(given, Busy):
                    is_change = new_layout is not None
                    try:
                        await asyncio.wait_for(
                            self._changed.until(
                                lambda is_change=is_change: not state.is_busy(is_change)  # type: ignore[misc]
                            ),
                            patience if is_change else None,
                        )
                    except asyncio.TimeoutError:
                        return given  # A shard is down; others must not wait for it, too.
                else:
                    break
        finally:
            self._layout_changes -= new_layout is not None
            self._changed.wake()
        if isinstance(given, Numbered):
            asyncio.get_running_loop().call_later(patience, self._give_up, given.number)
        return given

    async def commit(self, number: int, client: str, sequence: int) -> Done | NeverHappened:
        """Commits a batch that all participants have prepared."""
        state = await self._ready()
        decided = state.commit(number, client, sequence)
        while isinstance(decided, Unsettled):
            await self._resolved(number)
            decided = state.commit(number, client, sequence)
        self._changed.wake()
        assert not isinstance(decided, Stale)
        return decided

    async def resolve(self, number: int, client: str, sequence: int) -> Done | NeverHappened:
        """Decides a batch whose client can't go on with it."""
        state = await self._ready()
        if not state.is_decided(number):
            await self._resolved(number)
        return await self.commit(number, client, sequence)

    async def outcome(self, number: int, epoch: int) -> Pins:
        """Returns when a batch, which a shard of that epoch has prepared, is committed."""
        state = await self._ready()
        if epoch > state.epoch:
            _end_process()
        await self._changed.until(lambda: state.outcome(number) is not None)
        return state.pins

    async def begin_read(self, reader: str, shards: tuple[int, ...]) -> Moment | Stale:
        """Returns a number as of which these shards can answer until `end_read`; `Stale` if that took too long."""
        state = await self._ready()
        state.begin_read(reader)
        loop = asyncio.get_running_loop()
        self._leases[reader] = loop.call_later(_READ_LEASE, self._end_read, reader)
        return await self._moment(reader, shards)

    async def further_read(self, reader: str, shards: tuple[int, ...]) -> Moment | Stale:
        """The same moment as `begin_read` returned, for other shards."""
        await self._ready()
        return await self._moment(reader, shards)

    async def _moment(self, reader: str, shards: tuple[int, ...]) -> Moment | Stale:
        state = self._state
        assert state is not None
        while isinstance(moment := state.moment(reader, shards), Unsettled):
            first = moment.number
            await self._changed.until(lambda first=first: state.is_decided(first))  # type: ignore[misc]
        return moment

    async def end_read(self, reader: str) -> None:
        """Ends what `begin_read` began."""
        await self._ready()
        self._end_read(reader)

    async def renew_read(self, reader: str) -> None:
        """Lets a reader go on for as long as one that begins now."""
        await self._ready()
        if reader in self._leases:
            self._leases[reader].cancel()
            loop = asyncio.get_running_loop()
            self._leases[reader] = loop.call_later(_READ_LEASE, self._end_read, reader)

    def _end_read(self, reader: str) -> None:
        if reader in self._leases:
            self._leases.pop(reader).cancel()
        if self._state is not None:
            self._state.end_read(reader)

    async def process(self) -> int:
        """The number of the process that it runs in."""
        return os.getpid()

    async def description(self) -> Any:
        """What others need to know to use the dictionary."""
        return self._description

    async def layout(self) -> tuple[Layout, tuple[int, ...]]:
        """How keys are divided among shards, and which shards are lost."""
        state = await self._ready()
        return state.layout, tuple(sorted(self._lost))

    async def handles(self, shards: tuple[int, ...]) -> dict[int, Any]:
        """The handles of those of these shards that are there."""
        await self._ready()
        return {shard: self._shards[shard] for shard in shards if shard in self._shards}

    async def admit(self, shard: int, handle: Any = None) -> None:
        """Lets a new shard take part. Without a name it lives as long as somebody has its handle."""
        state = await self._ready()
        if handle is None:
            self._connect(shard)
        else:
            self._shards[shard] = handle
        if shard not in self._shards:
            self._lost.discard(shard)
            raise ValueError(f"shard {shard} has ended")
        try:
            report = await self._shards[shard].begin_epoch.remote(state.epoch)
        except Exception:
            self._shards.pop(shard, None)  # Whoever needs it tries again.
            raise
        if isinstance(report, Report):
            state.admit(shard, report)
            for batch, _ in report.pending:  # A change of the layout that nobody else knows of.
                await self._shards[shard].abort.remote(batch.number, 0, state.epoch)

    async def dismiss(self, shard: int) -> None:
        """Ends a shard that was started to be added, unless it has come to take part."""
        state = await self._ready()
        has_part = any(shard in batch.participants for batch in state.open.values())
        if shard in state.layout.shards or has_part:
            return
        self._shards.pop(shard, None)
        self._lost.discard(shard)
        with suppress(ValueError):  # There is none of that name.
            ray.kill(ray.get_actor(shard_name(self._name, shard), NAMESPACE))

    async def lost(self, shard: int) -> bool:
        """Whether a shard that did not answer is lost; from then on nobody waits for it."""
        await self._ready()
        try:
            if shard in self._shards:
                await self._shards[shard].empty.remote()
        except ActorDiedError:
            self._note_lost(shard)
        except RayActorError:
            pass
        return shard in self._lost

    # Deciding.

    def _give_up(self, number: int) -> None:
        if self._state is not None and number in self._state.open:
            self._start(self._resolved_at_last(number))

    async def _resolved_at_last(self, number: int) -> None:
        """Resolves a batch; if a shard can't log that, again after a while."""
        try:
            await self._resolved(number)
            if number in self._resolutions:
                await self._resolutions[number]
        except Exception:
            asyncio.get_running_loop().call_later(_RESOLVE_AGAIN_AFTER, self._give_up, number)
            raise

    async def _resolved(self, number: int) -> None:
        """Returns when a batch is decided. Participants that don't answer are told later."""
        state = self._state
        assert state is not None
        if number not in self._resolutions:
            task = asyncio.get_running_loop().create_task(self._resolve(number))
            self._resolutions[number] = task
            task.add_done_callback(lambda _: self._resolutions.pop(number, None))
            task.add_done_callback(lambda _: self._changed.wake())
        task = self._resolutions[number]
        await self._changed.until(lambda: state.is_decided(number) or task.done())
        if not state.is_decided(number):
            await task  # It has failed.

    async def _resolve(self, number: int) -> None:
        state = self._state
        assert state is not None
        batch = state.start_resolving(number)
        if batch is not None:
            await self._fence_all(number, batch)
            state.abandon(number)
            if number not in state.open:
                for shard in batch.participants:
                    if shard in self._shards:
                        self._shards[shard].commit.remote(number, state.pins)
        self._changed.wake()
        await self._tell_aborted(number)

    async def _fence_all(self, number: int, batch: Open) -> None:
        """Fences a batch in its participants, until it is decided or one of them does not answer for a while."""
        fences = [self._fence(number, batch, shard) for shard in batch.participants]
        answered = asyncio.gather(*fences, return_exceptions=True)
        answered.add_done_callback(lambda _: self._changed.wake())
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(
                self._changed.until(lambda: batch.is_aborted or answered.done()), _FENCE_PATIENCE
            )

    async def _fence(self, number: int, batch: Open, shard: int) -> None:
        assert self._state is not None
        arguments = (number, batch.previous[shard], self._state.epoch, self._state.pins)
        known = await self._ask(shard, "fence", *arguments)
        if known is None:
            self._state.abandon(number)
        else:
            self._state.fenced(number, shard, bool(known))
        self._changed.wake()

    async def _tell_aborted(self, number: int) -> None:
        """Tells the participants of a batch that was aborted."""
        state = self._state
        assert state is not None
        batch = state.open.get(number)
        if batch is not None and batch.unaware:
            aborts = [self._abort(number, batch, shard) for shard in sorted(batch.unaware)]
            for told in await asyncio.gather(*aborts, return_exceptions=True):
                if isinstance(told, BaseException):
                    raise told

    async def _abort(self, number: int, batch: Open, shard: int) -> None:
        assert self._state is not None
        await self._ask(shard, "abort", number, batch.previous[shard], self._state.epoch)
        self._state.aborted(number, shard, is_lost=shard in self._lost)
        self._changed.wake()

    async def _ask(self, shard: int, method: str, *arguments: Any) -> Any:
        """What a shard answers; None if it is lost."""
        if shard not in self._shards:
            return None
        try:
            known = await getattr(self._shards[shard], method).remote(*arguments)
        except ActorDiedError:
            if self._keeps_files:
                raise
            self._note_lost(shard)
            return None
        if isinstance(known, Refused) and method != "begin_epoch":
            _end_process()  # Another sequencer has taken its place.
        return known

    def _note_lost(self, shard: int) -> None:
        if not self._keeps_files:
            self._lost.add(shard)

    # Recovery.

    async def _ready(self) -> SequencerState:
        if self._state is None:
            if self._recovery is None or self._recovery.done():
                self._recovery = asyncio.get_running_loop().create_task(self._recover())
            await asyncio.shield(self._recovery)
        assert self._state is not None
        return self._state

    async def _recover(self) -> SequencerState:
        for number in self._first:
            self._connect(number)
        epoch, reports = 1, dict[int, Report]()
        while missing := [
            each for each in self._shards if each not in reports and each not in self._lost
        ]:
            answers = await asyncio.gather(
                *(self._ask(shard, "begin_epoch", epoch) for shard in missing)
            )
            refusals = [known.epoch for known in answers if isinstance(known, Refused)]
            if refusals:
                epoch, reports = max(epoch, *refusals) + 1, {}
                continue
            for shard, report in zip(missing, answers, strict=True):
                if report is not None:
                    reports[shard] = report
                    self._meet(report)
        if not reports:
            raise RuntimeError("every shard is lost, and with them all keys")
        state = SequencerState.recovered(epoch, reports)
        state.keeps_files = self._keeps_files
        self._state = state
        for number in list(state.open):
            self._give_up(number)
        for shard, report in reports.items():
            for batch, _ in report.pending:
                if batch.number not in state.open:
                    self._shards[shard].commit.remote(batch.number, state.pins)
        return state

    def _meet(self, report: Report) -> None:
        """Learns of shards that were added later."""
        layouts = [report.layout, *(batch.layout for batch, _ in report.pending)]
        for layout in layouts:
            for shard in () if layout is None else layout.shards:
                if shard not in self._shards:
                    self._connect(shard)

    def _connect(self, shard: int) -> None:
        try:
            self._shards[shard] = ray.get_actor(shard_name(self._name, shard), NAMESPACE)
        except ValueError:  # There is none of that name.
            if self._keeps_files:
                message = f"shard {shard} of {self._name!r} has ended; what was acknowledged is in its files: open them again"
                raise ShardLost(message, (shard,)) from None
            self._lost.add(shard)

    def _start(self, what: Any) -> None:
        task = asyncio.get_running_loop().create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _end_process() -> None:
    """Ends the process that this is; an actor that is still meant to be there is started again."""
    os._exit(1)
