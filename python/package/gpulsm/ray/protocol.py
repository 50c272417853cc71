"""The protocol that makes batches over several shards atomic: the states of shards and of the sequencer.

Nothing here knows Ray, files or time. A method handles one message and returns the answer; what a shard must not
forget is a record, which is in its log before the answer is sent, and from which `ShardState.replay` restores the
state. The tests drive these classes through every interleaving of messages and crashes of small cases.

A batch goes like this. The client gets a number for it from the sequencer, and with it, for each shard that it
concerns (a *participant*), the number of the batch before it there. Each participant logs the batch (*prepares*
it). When all have, the client reports that to the sequencer, which commits the number, and then tells the
participants, which apply batches in the order of these chains. If a batch stays open for too long, the sequencer
*fences* its number in the participants that lack it; if there are none it is committed, else aborted everywhere. The
sequencer alone commits, so it may also abort without waiting for participants that don't answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Batch:
    """What one participant gets of a batch.

    Attributes
    ----------
    number
        Its place in the order of all batches.
    epoch
        The epoch of the sequencer that gave the number.
    previous
        The number of the batch before it in this shard.
    participants
        The shards that it concerns.
    client, sequence
        Who sent it, and which of that client's batches it is: the same if it is sent again.
    body
        What it changes in this shard.
    layout
        How keys are divided among shards from this batch on, if it changes that.
    """

    number: int
    epoch: int
    previous: int
    participants: tuple[int, ...]
    client: str
    sequence: int
    body: Any = None
    layout: Any = None

    def is_same(self, other: Batch) -> bool:
        """Whether this is the other one, sent again."""
        own, others = (
            (each.number, each.epoch, each.client, each.sequence) for each in (self, other)
        )
        return own == others

    def without_body(self) -> Batch:
        """The batch as the sequencer needs to know it."""
        return replace(self, body=None)


@dataclass(frozen=True)
class Pins:
    """The numbers as of which somebody may still read. Those of a greater version are newer.

    A reader's number is the greatest that is committed, and is pinned before it gets it. So every batch that
    could hide that moment is committed later, and whatever tells a shard of the commit has pins as new as that.
    """

    version: tuple[int, int] = (0, 0)
    numbers: frozenset[int] = frozenset()


# What a shard logs.


@dataclass(frozen=True)
class Prepared:
    """A batch is here, and will be applied if it is committed."""

    batch: Batch


@dataclass(frozen=True)
class Committed:
    """A batch that was prepared is to be applied."""

    number: int


@dataclass(frozen=True)
class Aborted:
    """A batch never happens. If it was not prepared, it never will be."""

    number: int
    previous: int


@dataclass(frozen=True)
class EpochBegun:
    """Numbers of sequencers before this epoch are refused."""

    epoch: int


Record: TypeAlias = Prepared | Committed | Aborted | EpochBegun

# What shards answer.


@dataclass(frozen=True)
class Accepted:
    """The batch is prepared."""


@dataclass(frozen=True)
class Refused:
    """A message came from a sequencer, or about a number, of the past."""

    epoch: int


@dataclass(frozen=True)
class Report:
    """What a shard tells a new sequencer.

    Attributes
    ----------
    position
        Every batch up to this number is applied or aborted here.
    tail
        The greatest number that was heard of here.
    pending
        Batches that are prepared, without their bodies, and whether each is known to be committed.
    aborted
        Numbers after which some shard may still ask.
    clients
        The last batch of each client that was applied: its sequence and its number.
    layout
        How keys are divided among shards.
    """

    position: int
    tail: int
    pending: tuple[tuple[Batch, bool], ...]
    aborted: frozenset[int]
    clients: dict[str, tuple[int, int]]
    layout: Any = None

    def has(self, number: int) -> bool:
        """Whether a batch of which the shard is a participant is prepared or applied in it."""
        if number in self.aborted:
            return False
        return number <= self.position or any(batch.number == number for batch, _ in self.pending)


#: How many clients a shard remembers: those whose last batches are the most recent.
CLIENTS_KEPT = 1 << 16


@dataclass
class ShardState:
    """What a shard knows of batches. Attributes are as in `Report`.

    Attributes
    ----------
    epoch
        The sequencer's.
    latest
        The number of the last batch that was applied.
    settled
        Every number up to this one is decided, and whoever prepared one that was aborted knows it.
    chain
        The batches that are prepared or aborted here but not passed yet, each with the number before it.
    """

    epoch: int = 0
    position: int = 0
    latest: int = 0
    tail: int = 0
    settled: int = 0
    pending: dict[int, Batch] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    chain: dict[int, int] = field(default_factory=dict)
    clients: dict[str, tuple[int, int]] = field(default_factory=dict)
    layout: Any = None
    pins: Pins = Pins()

    def prepare(self, batch: Batch) -> Accepted | Refused | None:
        """Answers the request to prepare a batch; None if it is to be logged as `Prepared` first."""
        number, known = batch.number, self.pending.get(batch.number)
        is_pending = known is not None and known.is_same(batch)
        if is_pending or self.clients.get(batch.client) == (batch.sequence, number):
            return Accepted()  # It was sent again.
        is_used = known is not None or number <= self.position or number in self.aborted
        is_past = batch.epoch != self.epoch or is_used
        return Refused(self.epoch) if is_past else None

    def commit(self, number: int) -> Committed | None:
        """Returns what to log when a batch is known to be committed; None if that is known."""
        is_new = number in self.pending and number not in self.committed
        return Committed(number) if is_new else None

    def note(self, pins: Pins) -> None:
        """Learns as of which numbers somebody may still read."""
        if pins.version > self.pins.version:
            self.pins = pins

    def must_keep(self, next_number: int) -> set[int]:
        """The pinned numbers as of which the shard is now, and will not be after applying that batch."""
        return {number for number in self.pins.numbers if self.latest <= number < next_number}

    def settle(self, settled: int) -> list[Committed]:
        """Returns what to log when every number up to this one is known to be decided."""
        self.settled = max(self.settled, settled)
        self._forget_aborted()
        numbers = sorted(number for number in self.pending if number <= settled)
        return [Committed(number) for number in numbers if number not in self.committed]

    def fence(self, number: int, previous: int, epoch: int) -> bool | Refused | Aborted:
        """Returns whether a batch is prepared here; what to log if it is not, so that it never will be."""
        if epoch != self.epoch:
            return Refused(self.epoch)
        if number in self.aborted:
            return False
        if number in self.pending or number <= self.position:
            return True
        return Aborted(number, previous)

    def abort(self, number: int, previous: int, epoch: int) -> Refused | Aborted | None:
        """Returns what to log when a batch was aborted; None if that is known."""
        if epoch != self.epoch:
            return Refused(self.epoch)
        is_known = number in self.aborted or number <= self.position
        return None if is_known else Aborted(number, previous)

    def begin_epoch(self, epoch: int) -> Refused | EpochBegun:
        """Returns what to log before a new sequencer gets its report."""
        return EpochBegun(epoch) if epoch > self.epoch else Refused(self.epoch)

    def report(self) -> Report:
        """What a new sequencer has to know."""
        pending = tuple(
            (batch.without_body(), number in self.committed)
            for number, batch in sorted(self.pending.items())
        )
        aborted, clients = frozenset(self.aborted), dict(self.clients)
        return Report(self.position, self.tail, pending, aborted, clients, self.layout)

    def unapplied(self) -> list[Record]:
        """What is prepared or committed but not applied, to be logged anew behind a checkpoint."""
        pending = sorted(self.pending.items())
        links = [replace(batch, previous=self.chain[number]) for number, batch in pending]
        committed = [Committed(number) for number in sorted(self.committed)]
        return [*map(Prepared, links), *committed]

    def replay(self, record: Record) -> None:
        """Makes a change that was logged, now or before a crash. To make one again changes nothing."""
        if isinstance(record, Prepared):
            batch = record.batch
            if batch.number > self.position and batch.number not in self.aborted:
                self.pending[batch.number] = batch
                self._link(batch.number, batch.previous)
        elif isinstance(record, Committed):
            if record.number in self.pending:
                self.committed.add(record.number)
        elif isinstance(record, Aborted):
            if record.number > self.position:
                self.pending.pop(record.number, None)
                self.aborted.add(record.number)
                self._link(record.number, record.previous)
        elif record.epoch > self.epoch:
            self.epoch = record.epoch
            # What did not come by now never will: the chain closes over the gaps, and the next sequencers have to
            # know that these numbers are not here.
            first = max(self.position, self.settled) + 1
            self.aborted.update(set(range(first, self.tail)) - self.chain.keys())
            previous = self.position
            for number in sorted(self.chain):
                self.chain[number] = previous
                previous = number

    def applicable(self) -> Batch | None:
        """The batch to be applied next, if it has come and is committed. Passes those that were aborted."""
        while self.chain:
            number = min(self.chain)
            if self.chain[number] > self.position:
                return None
            if number in self.aborted:
                del self.chain[number]
                self.position = number
                self._forget_aborted()
                continue
            return self.pending[number] if number in self.committed else None
        return None

    def applied(self, number: int) -> None:
        """Notes that the applicable batch was applied."""
        batch = self.pending.pop(number)
        self.committed.discard(number)
        del self.chain[number]
        self.position = self.latest = number
        self.clients.pop(batch.client, None)
        self.clients[batch.client] = (batch.sequence, number)
        while len(self.clients) > CLIENTS_KEPT:
            del self.clients[next(iter(self.clients))]  # In the order of their last batches.
        if batch.layout is not None:
            self.layout = batch.layout

    def _link(self, number: int, previous: int) -> None:
        self.chain.setdefault(number, previous)
        self.tail = max(self.tail, number)

    def _forget_aborted(self) -> None:
        end = min(self.settled, self.position)
        self.aborted = {number for number in self.aborted if number > end}


# What the sequencer answers.


@dataclass(frozen=True)
class Numbered:
    """A number for a batch, the number before it in each participant, and what is settled."""

    number: int
    epoch: int
    previous: dict[int, int]
    settled: int
    pins: Pins


@dataclass(frozen=True)
class Done:
    """The batch was committed, under this number."""

    number: int
    pins: Pins


@dataclass(frozen=True)
class Unsettled:
    """First, the batch with this number has to be resolved: committed or aborted."""

    number: int


@dataclass(frozen=True)
class Busy:
    """Another batch has to be decided first: it changes the layout, or this one does."""


@dataclass(frozen=True)
class Stale:
    """The request is from the past: of another layout, or of a moment that is not kept."""


@dataclass(frozen=True)
class NeverHappened:
    """The batch was aborted."""


@dataclass(frozen=True)
class Moment:
    """A committed number, as of which shards answer, and the last one that concerns each of them."""

    number: int
    epoch: int
    last: dict[int, int]
    layout: Any = None


@dataclass
class Open:
    """A batch that has a number but is not decided, or not known to be aborted by all participants.

    Attributes
    ----------
    fences
        What participants answered to the fence, if it is being resolved: whether they have prepared it.
    unaware
        The participants that have yet to log that it is aborted, if it is.
    is_final
        Whether one has, so that no later sequencer commits it, and its client may be told.
    """

    client: str
    sequence: int
    participants: tuple[int, ...]
    previous: dict[int, int]
    layout: Any = None
    fences: dict[int, bool] | None = None
    unaware: set[int] | None = None
    is_final: bool = False

    @property
    def is_aborted(self) -> bool:
        """Whether it is aborted, and some participants have yet to hear of it."""
        return self.unaware is not None


@dataclass
class SequencerState:
    """What the sequencer knows: all of it is in the shards as well, for the next sequencer.

    Attributes
    ----------
    epoch
        Which sequencer this is.
    next
        The next number.
    open
        Batches that are not decided, by number.
    last
        For each shard the last number that was given for it.
    committed
        The greatest number that is committed.
    last_committed
        For each shard the greatest committed number that concerns it.
    clients
        The last committed batch of each client: its sequence and its number.
    layout
        How keys are divided among shards.
    readers
        The number as of which each reader reads, and the layout of that moment.
    keeps_files
        Whether what a shard has logged is never lost. Otherwise all participants have to know what is aborted.
    """

    epoch: int
    layout: Any = None
    next: int = 1
    committed: int = 0
    open: dict[int, Open] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    last_committed: dict[int, int] = field(default_factory=dict)
    clients: dict[str, tuple[int, int]] = field(default_factory=dict)
    readers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    pins: Pins = Pins()
    keeps_files: bool = True

    @classmethod
    def recovered(cls, epoch: int, reports: dict[int, Report]) -> SequencerState:
        """The state that follows from what all shards report after `begin_epoch`. Shards that are missing are
        lost. Every batch of before is decided; `open` has those whose abortion is not known everywhere."""
        newest = max((report.layout for report in reports.values()), key=_version, default=None)
        following = max(report.tail for report in reports.values()) + 1
        state = cls(epoch, newest, next=following, pins=Pins((epoch, 0)))
        for shard, report in reports.items():
            state.last[shard] = report.tail
            state.last_committed[shard] = report.position
            state.committed = max(state.committed, report.position)
        lasts = [last for report in reports.values() for last in report.clients.items()]
        state.clients = dict(sorted(lasts, key=lambda last: last[1][1]))
        for batch in _pending(reports.values()):
            state._recover(batch, reports)
        return state

    def _recover(self, batch: Batch, reports: dict[int, Report]) -> None:
        """Decides a batch that is pending somewhere."""
        there = [shard for shard in batch.participants if shard in reports]
        previous = dict.fromkeys(there, 0)  # The epoch closed the gaps.
        self.open[batch.number] = Open(
            batch.client, batch.sequence, tuple(there), previous, batch.layout
        )
        if all(reports[shard].has(batch.number) for shard in there):
            self._commit(batch.number)
        else:
            self.open[batch.number].unaware = set(there)

    @property
    def settled(self) -> int:
        """Every number up to this one is decided, and whoever prepared one that was aborted knows it."""
        return min(self.open, default=self.next) - 1

    def number(
        self,
        client: str,
        sequence: int,
        participants: Iterable[int],
        layout: int | None,
        new_layout: Any = None,
    ) -> Numbered | Done | Unsettled | Busy | Stale:
        """Answers the request for a number."""
        before = self.clients.get(client, (0, 0))
        if before[0] >= sequence:
            return Done(before[1], self.pins)
        for number, batch in self.open.items():
            if batch.client == client and not batch.is_final:
                return Unsettled(number)
        if layout != _version(self.layout):
            return Stale()
        if self.is_busy(new_layout is not None):
            return Busy()
        number, participants = self.next, tuple(participants)
        previous = {shard: self.last.get(shard, 0) for shard in participants}
        self.next += 1
        self.last.update(dict.fromkeys(participants, number))
        self.open[number] = Open(client, sequence, participants, previous, new_layout)
        return Numbered(number, self.epoch, previous, self.settled, self.pins)

    def admit(self, shard: int, report: Report) -> None:
        """Lets a new shard take part. Numbers that it has heard of are not given again."""
        self.last[shard] = report.tail
        self.next = max(self.next, report.tail + 1)

    def is_busy(self, changes_layout: bool) -> bool:
        """Whether a batch has to wait: for one that changes the layout, or for all if it does so itself."""
        open_ones = [batch for batch in self.open.values() if not batch.is_final]
        return any(changes_layout or batch.layout is not None for batch in open_ones)

    def commit(
        self, number: int, client: str, sequence: int
    ) -> Done | NeverHappened | Unsettled | Stale:
        """Answers the report that all participants have prepared a batch."""
        batch = self.open.get(number)
        is_same = batch is not None and (batch.client, batch.sequence) == (client, sequence)
        if batch is not None and is_same and not batch.is_final:
            if batch.fences is not None or batch.is_aborted:
                return Unsettled(number)
            self._commit(number)
        is_committed = self.clients.get(client) == (sequence, number)
        return Done(number, self.pins) if is_committed else NeverHappened()

    def start_resolving(self, number: int) -> Open | None:
        """Begins to resolve a batch: returns it, to be fenced in its participants; None if it is decided."""
        batch = self.open.get(number)
        if batch is None or batch.is_aborted:
            return None
        if batch.fences is None:
            batch.fences = {}
        return batch

    def fenced(self, number: int, shard: int, is_prepared: bool) -> None:
        """Notes what a participant answered to the fence: one that has not prepared it aborts it, and if all have,
        it is committed."""
        batch = self.open.get(number)
        if batch is None or batch.fences is None or batch.is_aborted:
            return
        batch.fences[shard] = is_prepared
        if not is_prepared:
            self.abandon(number)
            self.aborted(number, shard)
        elif len(batch.fences) == len(batch.participants):
            self._commit(number)

    def abandon(self, number: int) -> None:
        """Aborts a batch that is being resolved, whatever its participants have. The sequencer may: nobody else
        commits it."""
        batch = self.open.get(number)
        if batch is not None and batch.fences is not None and not batch.is_aborted:
            batch.unaware = set(batch.participants)

    def aborted(self, number: int, shard: int, *, is_lost: bool = False) -> None:
        """Notes that a participant has logged that a batch is aborted, or is lost. When all have, it is settled."""
        batch = self.open.get(number)
        if batch is None or batch.unaware is None:
            return
        batch.unaware.discard(shard)
        batch.is_final |= self.keeps_files and not is_lost
        if not batch.unaware:
            del self.open[number]

    def is_decided(self, number: int) -> bool:
        """Whether a batch is committed, or aborted for good."""
        return number not in self.open or self.open[number].is_final

    def outcome(self, number: int) -> bool | None:
        """Whether a shard that has a batch prepared is to apply it; None if that is not decided, or if it will be
        told."""
        return None if number in self.open else True

    def begin_read(self, reader: str) -> None:
        """Pins the greatest committed number for a reader."""
        self.readers[reader] = (self.committed, self.layout)
        self._pins_changed()

    def moment(self, reader: str, shards: Iterable[int]) -> Moment | Unsettled | Stale:
        """The number that a reader has pinned, when the batches up to it that concern these shards are decided."""
        if reader not in self.readers:
            return Stale()
        number, layout = self.readers[reader]
        shards = tuple(shards)
        for earlier, batch in self.open.items():
            is_undecided = earlier <= number and not batch.is_final
            if is_undecided and not set(shards).isdisjoint(batch.participants):
                return Unsettled(earlier)
        last = {shard: min(self.last_committed.get(shard, 0), number) for shard in shards}
        return Moment(number, self.epoch, last, layout)

    def end_read(self, reader: str) -> None:
        """Unpins a reader's number."""
        if self.readers.pop(reader, None) is not None:
            self._pins_changed()

    def _pins_changed(self) -> None:
        numbers = frozenset(number for number, _ in self.readers.values())
        self.pins = Pins((self.epoch, self.pins.version[1] + 1), numbers)

    def _commit(self, number: int) -> None:
        batch = self.open.pop(number)
        self.committed = max(self.committed, number)
        for shard in batch.participants:
            self.last_committed[shard] = max(self.last_committed.get(shard, 0), number)
        last = (batch.sequence, number)
        self.clients[batch.client] = max(last, self.clients.pop(batch.client, last))
        while len(self.clients) > CLIENTS_KEPT:
            del self.clients[next(iter(self.clients))]
        if _version(batch.layout) > _version(self.layout):
            self.layout = batch.layout


def _version(layout: Any) -> int:
    """The version of a layout; every change increases it."""
    version: int = getattr(layout, "version", 0)
    return version


def _pending(reports: Iterable[Report]) -> list[Batch]:
    """Every batch that is prepared in some shard and not applied there, in the order of numbers."""
    batches = {batch.number: batch for report in reports for batch, _ in report.pending}
    return [batches[number] for number in sorted(batches)]
