"""A small world of shards, a sequencer, clients and readers, whose every step is chosen by the caller.

The states are those of `gpulsm.ray.protocol`. What is simulated is the rest: messages that arrive in any order,
crashes at any moment, logs that lose what was not synced, time-outs that come early, and recovery. `explore` takes
every step in every state.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

from gpulsm.ray.protocol import (
    Aborted,
    Accepted,
    Batch,
    Busy,
    Done,
    EpochBegun,
    Moment,
    NeverHappened,
    Numbered,
    Open,
    Pins,
    Prepared,
    Refused,
    Report,
    SequencerState,
    ShardState,
    Stale,
    Unsettled,
)

SEQUENCER = "sequencer"


@dataclass
class Shard:
    """A shard: its state, its log, what it applied, and reads that wait."""

    name: int
    state: ShardState = field(default_factory=ShardState)
    log: list[Any] = field(default_factory=list)
    synced: int = 0
    checkpoint: bytes | None = None
    applied: tuple[tuple[str, int, int], ...] = ()
    kept: dict[int, tuple[tuple[str, int, int], ...]] = field(default_factory=dict)
    waiting: list[tuple[Any, ...]] = field(default_factory=list)

    def write(self, record: Any, *, sync: bool = True) -> None:
        self.log.append(record)
        if sync:
            self.synced = len(self.log)
        self.state.replay(record)
        self.advance()

    def advance(self) -> None:
        while (batch := self.state.applicable()) is not None:
            for number in self.state.must_keep(batch.number):
                self.kept.setdefault(number, self.applied)
            self.state.applied(batch.number)
            self.applied = (*self.applied, (batch.client, batch.sequence, batch.number))
        self.kept = {at: was for at, was in self.kept.items() if at in self.state.pins.numbers}

    def save(self) -> None:
        """Writes a checkpoint; the log begins anew, with what is not applied."""
        state = self.state
        pins, state.pins = state.pins, Pins()
        pending, committed, chain = state.pending, state.committed, state.chain
        state.pending, state.committed, state.chain = {}, set(), {}
        kept_chain = {number: chain[number] for number in chain if number in state.aborted}
        state.chain = kept_chain
        self.checkpoint = pickle.dumps((state, self.applied))
        state.pending, state.committed, state.chain, state.pins = pending, committed, chain, pins
        self.log = state.unapplied()
        self.synced = sum(isinstance(record, Prepared) for record in self.log)

    def recover(self, lost: bool) -> None:
        """Starts again from the checkpoint and the log, of which the end may be lost."""
        records = self.log[: self.synced] if lost else self.log
        self.log, self.synced = list(records), len(records)
        self.state, self.applied, self.kept, self.waiting = ShardState(), (), {}, []
        if self.checkpoint is not None:
            self.state, self.applied = pickle.loads(self.checkpoint)
        for record in records:
            self.state.replay(record)
            self.advance()


@dataclass
class Client:
    """A client with batches to send, one after the other."""

    name: str
    batches: list[tuple[int, ...]]
    sequence: int = 0
    phase: str = "idle"
    number: int = 0
    answers: dict[int, bool] = field(default_factory=dict)
    acknowledged: list[int] = field(default_factory=list)
    is_alive: bool = True


@dataclass
class Reader:
    """A reader of all shards at one moment, or (`single`) of one shard after the other."""

    name: str
    single: bool = False
    phase: str = "idle"
    must_see: frozenset[tuple[str, int]] = frozenset()
    seen: dict[int, frozenset[tuple[str, int]]] = field(default_factory=dict)
    asked: int = 0


@dataclass
class World:
    """Everything, and how many crashes, early time-outs and checkpoints there may still be."""

    shards: dict[int, Shard]
    clients: dict[str, Client]
    readers: dict[str, Reader]
    crashes: dict[str, int]
    early: int = 0
    checkpoints: int = 0
    sequencer: SequencerState | None = None
    reports: dict[int, Report] = field(default_factory=dict)
    epoch: int = 1
    network: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    parked: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    # A message: (from, to, kind, contents).

    def send(self, *message: Any) -> None:
        self.network[number_of(message)] = message

    def steps(self) -> Iterator[tuple[str, Any]]:
        """What can happen next.

        A message that changes nothing is delivered first and alone, and so is an answer, if no crash can lose it
        any more: to wait with it would lead to the same states by other ways.
        """
        for message in self.network.values():
            if self._is_void(message) or (message[2] == "reply" and not any(self.crashes.values())):
                yield "deliver", message
                return
        yield from self._choices()

    def _is_void(self, message: tuple[Any, ...]) -> bool:
        """Whether a message will change nothing, whenever it comes."""
        _, to, kind, contents = message
        if kind == "reply" and to in self.clients:
            return not self._is_awaited(self.clients[to], *contents[0][2:])
        if kind == "reply" and to in self.readers:
            return self.readers[to].phase == "done"
        if kind == "reply" and contents[0][2] != "begin":
            state = self.sequencer
            is_past = contents[0][3][2] < self.epoch
            return is_past or (state is not None and contents[0][3][0] not in state.open)
        if kind == "commit" and to in self.shards:
            state = self.shards[to].state
            is_known = contents[0] <= state.position or contents[0] in state.committed
            return is_known and contents[1].version <= state.pins.version
        return False

    def _is_awaited(self, client: Client, kind: str, contents: Any) -> bool:
        """Whether a client still waits for an answer to this request."""
        if not client.is_alive:
            return False
        if kind == "number":
            return client.phase == "number" and contents[0] == client.sequence
        if kind == "prepare":
            return client.phase == "prepare" and contents[0].number == client.number
        if kind == "commit number":
            return client.phase == "commit" and contents[0] == client.number
        return client.phase == "resolve" and contents == client.number

    def _choices(self) -> Iterator[tuple[str, Any]]:
        for message in self.network.values():
            if message[1] == SEQUENCER and self.sequencer is None and message[2] != "reply":
                continue
            yield "deliver", message
        for client in self.clients.values():
            if client.is_alive and client.phase == "idle" and client.sequence < len(client.batches):
                yield "start", client.name
        for reader in self.readers.values():
            if reader.phase == "idle":
                yield "read", reader.name
        yield from self._faults()
        if not self.network:
            yield from self._timeouts()
        elif self.early:
            for step in self._timeouts():
                yield "early", step

    def _timeouts(self) -> Iterator[tuple[str, Any]]:
        if self.sequencer is not None:
            for number, batch in self.sequencer.open.items():
                if batch.fences is None and not batch.is_aborted:
                    yield "resolve", number
                elif not batch.is_aborted:
                    yield "abandon", number
            for shard in self.shards.values():
                for number in shard.state.pending:
                    if number not in shard.state.committed and number not in self.sequencer.open:
                        yield "inquire", (shard.name, number)

    def _faults(self) -> Iterator[tuple[str, Any]]:
        if self.crashes.get("shard"):
            for shard in self.shards.values():
                yield "crash shard", (shard.name, False)
                if shard.synced < len(shard.log):
                    yield "crash shard", (shard.name, True)
        if self.crashes.get("sequencer"):
            yield "crash sequencer", None
        if self.crashes.get("client"):
            for client in self.clients.values():
                if client.is_alive and client.phase != "idle":
                    yield "crash client", client.name
        if self.checkpoints:
            for shard in self.shards.values():
                if shard.log:
                    yield "checkpoint", shard.name

    def take(self, step: tuple[str, Any]) -> None:
        kind, about = step
        if kind == "early":
            self.early -= 1
            return self.take(about)
        if kind == "deliver":
            del self.network[number_of(about)]
            return self._deliver(*about)
        return getattr(self, "_" + kind.replace(" ", "_"))(about)

    # Faults.

    def _crash_shard(self, about: tuple[int, bool]) -> None:
        name, lost = about
        self.crashes["shard"] -= 1
        self._fail(name)
        waiting = self.shards[name].waiting
        self.shards[name].recover(lost)
        for message in waiting:
            self.send(*message)

    def _crash_sequencer(self, _: None) -> None:
        self.crashes["sequencer"] -= 1
        self._fail(SEQUENCER)
        for message in self.parked.values():
            self.send(*message)
        self.parked = {}
        self.sequencer = None
        self.recover_sequencer(self.epoch + 1)

    def _crash_client(self, name: str) -> None:
        self.crashes["client"] -= 1
        self.clients[name].is_alive = False

    def _checkpoint(self, name: int) -> None:
        self.checkpoints -= 1
        self.shards[name].save()

    def _fail(self, name: Any) -> None:
        """Requests to who crashed are sent again; notes, and answers under way, are lost."""
        messages, self.network = self.network, {}
        for message in messages.values():
            sender, to, kind, contents = message
            if to == name and kind in ("commit",):
                continue
            if sender == name and kind == "reply":
                self.send(*contents[0])  # The request that it answers.
            else:
                self.send(*message)

    def recover_sequencer(self, epoch: int) -> None:
        self.epoch, self.reports = epoch, {}
        for shard in self.shards:
            self.send(SEQUENCER, shard, "begin", epoch)

    # Time-outs.

    def _resolve(self, number: int) -> None:
        assert self.sequencer is not None
        batch = self.sequencer.start_resolving(number)
        if batch is not None:
            for shard in batch.participants:
                contents = (number, batch.previous[shard], self.sequencer.epoch)
                self.send(SEQUENCER, shard, "fence", contents)

    def _abandon(self, number: int) -> None:
        assert self.sequencer is not None
        self.sequencer.abandon(number)
        self._send_aborts()

    def _inquire(self, about: tuple[int, int]) -> None:
        shard, number = about
        assert self.sequencer is not None
        if self.sequencer.outcome(number):
            self.send(SEQUENCER, shard, "commit", (number, self.sequencer.pins))

    # Messages.

    def _deliver(self, sender: Any, to: Any, kind: str, contents: Any) -> None:
        message = (sender, to, kind, contents)
        if kind == "reply":
            request, answer = contents
            if to == SEQUENCER:
                self._sequencer_reply(request, answer)
            elif to in self.clients:
                if self.clients[to].is_alive:
                    self._client_reply(self.clients[to], request, answer)
            else:
                self._reader_reply(self.readers[to], request, answer)
        elif to == SEQUENCER:
            self._sequencer_request(message)
        else:
            self._shard_request(self.shards[to], message)

    def reply(self, request: tuple[Any, ...], answer: Any) -> None:
        self.send(request[1], request[0], "reply", (request, answer))

    def _shard_request(self, shard: Shard, message: tuple[Any, ...]) -> None:
        _, _, kind, contents = message
        state = shard.state
        if kind == "prepare":
            batch, settled, pins = contents
            state.note(pins)
            for record in state.settle(settled):
                shard.write(record, sync=False)
            answer: Any = state.prepare(batch)
            if answer is None:
                shard.write(Prepared(batch))
                answer = Accepted()
            self.reply(message, answer)
        elif kind == "commit":
            number, pins = contents
            state.note(pins)
            committed = state.commit(number)
            if committed is not None:
                shard.write(committed, sync=False)
        elif kind == "fence":
            answer = state.fence(*contents)
            if isinstance(answer, Aborted):
                shard.write(answer)
                answer = False
            self.reply(message, answer)
        elif kind == "abort":
            answer = state.abort(*contents)
            if isinstance(answer, Aborted):
                shard.write(answer)
            self.reply(message, "refused" if isinstance(answer, Refused) else "aborted")
        elif kind == "begin":
            answer = state.begin_epoch(contents)
            if isinstance(answer, EpochBegun):
                shard.write(answer)
                answer = state.report()
            self.reply(message, answer)
        elif kind == "read":
            shard.waiting.append(message)
        else:
            target = max(state.pending, default=0)
            shard.waiting.append((*message[:3], max(target, contents or 0)))
        self._serve(shard)

    def _serve(self, shard: Shard) -> None:
        """Answers the reads whose batches are applied."""
        state, waiting = shard.state, shard.waiting
        shard.waiting = []
        for message in waiting:
            _, _, kind, contents = message
            if kind == "read one":
                is_ready = state.position >= contents
                answer: Any = shard.applied
            else:
                moment: Moment = contents[1]
                if moment.epoch != state.epoch:
                    is_ready, answer = True, "stale"
                else:
                    is_ready = state.position >= moment.last[shard.name]
                    is_later = state.latest > moment.number
                    answer = shard.kept.get(moment.number, "stale") if is_later else shard.applied
            if is_ready:
                self.reply(message, answer)
            else:
                shard.waiting.append(message)

    def _sequencer_request(self, message: tuple[Any, ...]) -> None:
        sender, _, kind, contents = message
        state = self.sequencer
        assert state is not None
        if kind == "number":
            sequence, participants = contents
            answer: Any = state.number(sender, sequence, participants, 0)
        elif kind == "commit number":
            number, sequence = contents
            answer = state.commit(number, sender, sequence)
        elif kind == "resolve":
            answer = "resolved" if state.is_decided(contents) else Unsettled(contents)
        elif kind == "moment":
            if contents not in state.readers:
                state.begin_read(contents)
            answer = state.moment(contents, self.shards)
        else:
            state.end_read(contents)
            return
        if isinstance(answer, Unsettled):
            self.parked[number_of(message)] = message
            if kind != "moment":
                self._resolve(answer.number)
        elif isinstance(answer, Busy):
            self.parked[number_of(message)] = message
        else:
            self.reply(message, answer)
        self._unpark_if_changed(kind)

    def _unpark_if_changed(self, kind: str) -> None:
        if kind in ("commit number", "fence", "abort", "begin"):
            parked, self.parked = self.parked, {}
            for message in parked.values():
                self.send(*message)

    def _sequencer_reply(self, request: tuple[Any, ...], answer: Any) -> None:
        _, shard, kind, contents = request
        if kind == "begin":
            self._sequencer_report(shard, contents, answer)
            return
        state = self.sequencer
        if state is None or contents[2] != state.epoch or isinstance(answer, Refused):
            return
        number = contents[0]
        if kind == "fence":
            batch = state.open.get(number)
            state.fenced(number, shard, answer)
            if batch is not None and number not in state.open:
                for participant in batch.participants:
                    self.send(SEQUENCER, participant, "commit", (number, state.pins))
        elif answer == "aborted":
            state.aborted(number, shard)
        self._send_aborts()
        self._unpark_if_changed(kind)

    def _send_aborts(self) -> None:
        state = self.sequencer
        assert state is not None
        for number, batch in state.open.items():
            for shard in sorted(batch.unaware or ()):
                contents = (number, batch.previous[shard], state.epoch)
                request = (SEQUENCER, shard, "abort", contents)
                is_sent = any(
                    message[2] == "reply" and message[3][0] == request
                    for message in self.network.values()
                )
                if not is_sent:
                    self.send(*request)

    def _sequencer_report(self, shard: int, epoch: int, answer: Any) -> None:
        if self.sequencer is not None or epoch != self.epoch:
            return
        if isinstance(answer, Refused):
            self.recover_sequencer(max(self.epoch, answer.epoch) + 1)
            return
        self.reports[shard] = answer
        if len(self.reports) == len(self.shards):
            self.sequencer = SequencerState.recovered(self.epoch, self.reports)
            for name, report in self.reports.items():
                for batch, _ in report.pending:
                    if batch.number not in self.sequencer.open:
                        contents = (batch.number, self.sequencer.pins)
                        self.send(SEQUENCER, name, "commit", contents)
            self._send_aborts()
            self._unpark_if_changed("begin")

    # Clients.

    def _start(self, name: str) -> None:
        client = self.clients[name]
        client.sequence += 1
        self._ask_for_number(client)

    def _ask_for_number(self, client: Client) -> None:
        client.phase, client.answers = "number", {}
        participants = client.batches[client.sequence - 1]
        self.send(client.name, SEQUENCER, "number", (client.sequence, participants))

    def _client_reply(self, client: Client, request: tuple[Any, ...], answer: Any) -> None:
        _, shard, kind, contents = request
        if not self._is_awaited(client, kind, contents):
            return
        if kind == "number":
            self._client_numbered(client, answer)
        elif kind == "prepare":
            client.answers[shard] = isinstance(answer, Accepted)
            self._client_prepared(client)
        elif kind == "commit number" and isinstance(answer, Done):
            self._client_done(client, answer)
        else:
            assert kind == "resolve" or isinstance(answer, NeverHappened), answer
            self._ask_for_number(client)

    def _client_numbered(self, client: Client, answer: Any) -> None:
        assert not isinstance(answer, Stale), "this client's last batch"
        if isinstance(answer, Done):
            self._client_done(client, answer)
            return
        assert isinstance(answer, Numbered)
        client.phase, client.number = "prepare", answer.number
        participants = client.batches[client.sequence - 1]
        for shard in participants:
            batch = Batch(
                answer.number,
                answer.epoch,
                answer.previous[shard],
                participants,
                client.name,
                client.sequence,
            )
            self.send(client.name, shard, "prepare", (batch, answer.settled, answer.pins))

    def _client_prepared(self, client: Client) -> None:
        if len(client.answers) < len(client.batches[client.sequence - 1]):
            return
        if all(client.answers.values()):
            client.phase = "commit"
            contents = (client.number, client.sequence)
            self.send(client.name, SEQUENCER, "commit number", contents)
        else:
            client.phase = "resolve"
            self.send(client.name, SEQUENCER, "resolve", client.number)

    def _client_done(self, client: Client, answer: Done) -> None:
        client.phase = "idle"
        client.acknowledged.append(client.sequence)
        for shard in client.batches[client.sequence - 1]:
            self.send(client.name, shard, "commit", (answer.number, answer.pins))

    # Readers.

    def acknowledged(self) -> frozenset[tuple[str, int]]:
        return frozenset(
            (client.name, sequence)
            for client in self.clients.values()
            for sequence in client.acknowledged
        )

    def _read(self, name: str) -> None:
        reader = self.readers[name]
        reader.must_see, reader.seen = self.acknowledged(), {}
        if reader.single:
            reader.phase = "one"
            self.send(name, sorted(self.shards)[0], "read one", None)
        else:
            self._ask_for_moment(reader)

    def _ask_for_moment(self, reader: Reader) -> None:
        reader.phase, reader.seen = "moment", {}
        reader.asked += 1
        self.send(reader.name, SEQUENCER, "moment", f"{reader.name}{reader.asked}")

    def _reader_reply(self, reader: Reader, request: tuple[Any, ...], answer: Any) -> None:
        _, shard, kind, contents = request
        token = f"{reader.name}{reader.asked}"
        if kind == "moment" and reader.phase == "moment" and contents == token:
            reader.phase = "read"
            for each in self.shards:
                self.send(reader.name, each, "read", (token, answer))
        elif kind == "read one" and reader.phase == "one":
            self._saw(reader, shard, answer)
            rest = [each for each in sorted(self.shards) if each not in reader.seen]
            if rest:
                self.send(reader.name, rest[0], "read one", None)
        elif kind == "read" and reader.phase == "read" and contents[0] == token:
            if answer == "stale":
                self.send(reader.name, SEQUENCER, "release", token)
                self._ask_for_moment(reader)
            else:
                self._saw(reader, shard, answer)
        if reader.phase in ("read", "one") and len(reader.seen) == len(self.shards):
            reader.phase = "done"
            if not reader.single:
                self.send(reader.name, SEQUENCER, "release", token)
            self._check_read(reader)

    def _saw(self, reader: Reader, shard: int, applied: Any) -> None:
        reader.seen[shard] = frozenset((client, sequence) for client, sequence, _ in applied)

    def _check_read(self, reader: Reader) -> None:
        """A reader sees whole batches, and all that were acknowledged before; one that reads shard after shard
        sees in later ones what it saw in earlier ones."""
        for client in self.clients.values():
            for sequence, participants in enumerate(client.batches, 1):
                batch = (client.name, sequence)
                sees = [batch in reader.seen[shard] for shard in sorted(participants)]
                if batch in reader.must_see:
                    assert all(sees), f"{batch} was acknowledged, and is not seen"
                elif reader.single:
                    assert sees == sorted(sees), f"{batch} is seen, and then not seen"
                else:
                    assert len(set(sees)) == 1, f"half of {batch} is seen"

    # Copies.

    def copied(self, step: tuple[str, Any]) -> World:
        """A copy in which that step can be taken, and which shares everything else."""
        kind, about = step if step[0] != "early" else step[1]
        copy = object.__new__(World)
        copy.__dict__.update(vars(self))
        for name in ("network", "parked", "crashes", "reports"):
            setattr(copy, name, dict(getattr(self, name)))
        touched = about[1] if kind == "deliver" else about[0] if kind == "crash shard" else about
        for name in ("shards", "clients", "readers"):
            parts = getattr(self, name)
            if touched in parts:
                setattr(copy, name, {**parts, touched: _copied(parts[touched])})
        if kind in ("resolve", "abandon") or touched == SEQUENCER:
            copy.sequencer = _copied(self.sequencer)
        return copy

    def key(self) -> tuple[Any, ...]:
        """Equal for equal states."""
        parts = [self.sequencer, *self.shards.values(), *self.clients.values()]
        keys = [_key(part) for part in (*parts, *self.readers.values())]
        rest = (*self.crashes.values(), self.early, self.checkpoints, self.epoch)
        reports = tuple(sorted(self.reports)) if self.sequencer is None else ()
        return (*keys, *rest, frozenset(self.network), frozenset(self.parked), reports)

    # What must hold.

    def check(self) -> None:
        """What holds in every state."""
        numbers: dict[tuple[str, int], int] = {}
        for shard in self.shards.values():
            order = [number for _, _, number in shard.applied]
            assert order == sorted(set(order)), f"shard {shard.name} applied {order}"
            batches = [(client, sequence) for client, sequence, _ in shard.applied]
            assert len(batches) == len(set(batches)), f"applied twice: {batches}"
            for client, sequence, number in shard.applied:
                known = numbers.setdefault((client, sequence), number)
                assert known == number, f"{client, sequence} is both {known} and {number}"
            for client in {client for client, _ in batches}:
                own = [sequence for who, sequence in batches if who == client]
                assert own == sorted(own), f"{client}'s batches are applied in the order {own}"

    def check_end(self) -> None:
        """What holds when nothing more can happen."""
        acknowledged = self.acknowledged()
        for client in self.clients.values():
            assert not client.is_alive or client.phase == "idle", f"{client} waits for ever"
            for sequence, participants in enumerate(client.batches, 1):
                there = [
                    (client.name, sequence)
                    in {(who, which) for who, which, _ in self.shards[shard].applied}
                    for shard in participants
                ]
                assert len(set(there)) == 1, f"{client.name}'s batch {sequence} is half there"
                if (client.name, sequence) in acknowledged:
                    assert all(there), f"{client.name}'s batch {sequence} was lost"
        for shard in self.shards.values():
            assert not shard.state.pending, f"shard {shard.name} has undecided batches"
            assert not shard.waiting
        assert self.sequencer is not None and not self.sequencer.open, "undecided batches"
        for reader in self.readers.values():
            assert reader.phase == "done", f"{reader} waits for ever"


def explore(world: World, limit: int = 10_000_000) -> int:
    """Takes every step in every state that can be reached, and checks each; returns how many there are."""
    start(world)
    seen = {world.key()}
    stack: list[tuple[World, tuple[Any, ...]]] = [(world, ())]
    while stack:
        before, path = stack.pop()
        steps = list(before.steps())
        if not any(_is_progress(step) for step in steps):
            _checked(before.check_end, path)
        for step in steps:
            after = before.copied(step)
            _checked(lambda after=after, step=step: after.take(step), (path, step))
            _checked(after.check, (path, step))
            key = after.key()
            if key not in seen:
                seen.add(key)
                stack.append((after, (path, step)))
        assert len(seen) < limit, "there are more states than expected"
    return len(seen)


def start(world: World) -> None:
    """Lets the first sequencer begin."""
    world.recover_sequencer(world.epoch)
    while world.sequencer is None:
        world.take(("deliver", next(iter(world.network.values()))))


def _is_progress(step: tuple[str, Any]) -> bool:
    return step[0] not in ("checkpoint", "early") and not step[0].startswith("crash")


def _checked(what: Callable[[], object], path: tuple[Any, ...]) -> None:
    try:
        what()
    except Exception as error:
        steps = []
        while path:
            path, step = path
            steps.append(str(step))
        raise AssertionError("\n".join([repr(error), *reversed(steps)])) from error


def _key(part: Any) -> int:
    """The number of a part, which is kept until it changes."""
    if part is None:
        return -1
    if "key" not in vars(part):
        part.key = number_of(part)
    key: int = part.key
    return key


_numbers: dict[Any, int] = {}


def number_of(value: Any) -> int:
    """A number that is the same for equal messages and parts."""
    return _numbers.setdefault(_frozen(value), len(_numbers))


#: Types whose values are what they are frozen.
_PLAIN = {bool, bytes, int, str, type(None)}


def _frozen(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return tuple([item if type(item) in _PLAIN else _frozen(item) for item in value])
    if isinstance(value, dict):
        return frozenset([(key, _frozen(item)) for key, item in value.items()])
    if isinstance(value, (set, frozenset)):
        return frozenset(map(_frozen, value))
    names = _names_of_fields(kind)
    if names is None:
        return value
    return (kind.__name__, *[_frozen(getattr(value, name)) for name in names])


@cache
def _names_of_fields(kind: type) -> tuple[str, ...] | None:
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else None


def _copied(value: Any) -> Any:
    """A copy that shares what never changes."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (Shard, ShardState, SequencerState, Client, Reader, Open)):
        copy = object.__new__(type(value))
        copy.__dict__.update({name: _copied(item) for name, item in vars(value).items()})
        copy.__dict__.pop("key", None)
        return copy
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value.copy() if isinstance(value, (list, set)) else value
