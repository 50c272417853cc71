"""One shard: a dictionary of the native half, the state of the protocol, and the files of both."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpulsm._families import NUMPY, WIDE, DType
from gpulsm._native import Store
from gpulsm.ray.layout import Layout, aligned
from gpulsm.ray.log import Arrays, Files, Reading, read_note
from gpulsm.ray.protocol import (
    Aborted,
    Batch,
    Committed,
    EpochBegun,
    Prepared,
    Record,
    ShardState,
)

#: The note in the files of a shard that says what they hold.
TYPES = "types.json"
#: How arrays of values of each width are held.
VALUES: dict[int, DType] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64), 16: WIDE}


@dataclass(frozen=True)
class Config:
    """What a dictionary is made with, the same in every shard.

    Attributes
    ----------
    names
        Its types, as the native half takes them.
    settings
        Its settings, as the native half takes them.
    key
        The type that keys are stored as.
    width
        The bytes of a value.
    """

    names: dict[str, Any]
    settings: dict[str, Any]
    key: DType
    width: int

    def store(self) -> Store:
        """An empty dictionary."""
        return Store(self.names, self.settings)


@dataclass(frozen=True)
class Body:
    """What a batch changes in one shard: a method of the native half, and its arrays."""

    kind: str
    arrays: Arrays = field(default_factory=list)

    def apply(self, store: Store) -> None:
        """Makes the changes."""
        arrays = [aligned(array) for array in self.arrays]
        spans = [_span(array) for array in arrays]
        if self.kind == "update":
            keys, values, deletes = spans
            store.update((keys, (values[0], keys[1])), deletes, None)
        elif self.kind == "set":
            keys, values = spans
            store.set((keys, (values[0], keys[1])), None)
        elif self.kind == "delete_range":
            store.delete_range((spans[0], spans[1]), None)
        elif self.kind == "clear":
            store.clear()
        elif self.kind == "move":
            self._move(store, spans)

    def _move(self, store: Store, spans: list[tuple[int, int]]) -> None:
        """Deletes ranges whose pairs are in other shards from now on, and takes over those of others."""
        lo, hi, *received = spans
        if lo[1]:
            store.delete_range((lo, hi), None)
        for keys, values in zip(received[::2], received[1::2], strict=True):
            store.update((keys, (values[0], keys[1])), (0, 0), None)


class Trial(NamedTuple):
    """What came of a batch that is not committed, applied to the dictionary after the batch `base`."""

    batch: Batch
    base: int
    store: Store


class Shard:
    """A dictionary, what is known of its batches, and the files of both, if it has any."""

    def __init__(self, config: Config, number: int, layout: Layout, files: Files | None) -> None:
        self.config = config
        self.number = number
        self.files = files
        self.state = ShardState(layout=layout)
        self.store = config.store()
        #: The number of the last batch that the dictionary has.
        self._stored = 0
        self._trials: dict[int, Trial] = {}
        self._unlogged: list[Record] = []
        if files is not None:
            self._check_types(files)
            self.recover(files)
            files.begin_segment()

    def layouts(self) -> list[Layout]:
        """How keys are divided among shards, and may be after batches that are pending."""
        later = [batch.layout for batch in self.state.pending.values() if batch.layout is not None]
        return [self.state.layout, *later]

    # Changes. What is logged is logged in one thread, and what is applied in another one, in order.

    def later(self, record: Committed) -> None:
        """Notes a commit; it is logged with the next record. If that never happens, the sequencer knows it."""
        self.state.replay(record)
        self._unlogged.append(record)

    def revoke(self, aborted: Aborted) -> None:
        """Lets the next record say that a batch, which is logged, is aborted, for that can't be logged now."""
        self._unlogged.append(aborted)

    def log(self, record: Record) -> None:
        """Writes a record, and what was noted before it, to stable storage."""
        records = [*self._unlogged, record]
        if self.files is not None:
            self.files.append([_described(one, self.state.settled) for one in records])
        del self._unlogged[: len(records) - 1]

    def try_out(self, batch: Batch) -> None:
        """Applies a batch to a copy of what is there after the batch before it, so that what can fail fails before
        it is prepared. If that one has not come yet, it is not tried out."""
        state = self.state
        before = self._trials.get(batch.previous)
        is_next = not state.chain and batch.previous <= state.position
        if before is not None and state.pending.get(batch.previous) is before.batch:
            base, store = batch.previous, before.store
        elif is_next or batch.previous == self._stored:
            base, store = self._stored, self.store
        else:
            return
        copy = store.copy("clone")
        batch.body.apply(copy)
        self._trials[batch.number] = Trial(batch, base, copy)

    def forget_trial(self, number: int) -> None:
        """Forgets what came of a batch that is not prepared, or is aborted."""
        self._trials.pop(number, None)

    def apply(self, batch: Batch) -> None:
        """Applies a batch, all of it or nothing."""
        trial = self._trials.pop(batch.number, None)
        if trial is not None and trial.batch is batch and trial.base == self._stored:
            store = trial.store
        else:
            self._trials.clear()  # One before them was aborted.
            store = self._applied_untried(batch.body)
        self.store, self._stored = store, batch.number

    def _applied_untried(self, body: Body) -> Store:
        store = self.store.copy("clone") if body.kind == "move" else self.store
        try:
            body.apply(store)
        except MemoryError:
            self.store.cleanup()
            store = self.store.copy("clone")
            body.apply(store)
        return store

    # Files.

    def begin_checkpoint(self) -> tuple[Store, dict[str, Any], list[Record]]:
        """What a checkpoint has of this moment: the pairs, the state, and what is not applied yet."""
        state = self.state
        note = {
            "epoch": state.epoch,
            "position": state.position,
            "latest": state.latest,
            "tail": state.tail,
            "settled": state.settled,
            "aborted": sorted(state.aborted),
            "chain": [link for link in state.chain.items() if link[0] in state.aborted],
            "clients": state.clients,
            "layout": state.layout.to_json(),
        }
        self._unlogged = [record for record in self._unlogged if isinstance(record, Aborted)]
        return self.store.copy("snapshot"), json.loads(json.dumps(note)), state.unapplied()

    def begin_segment(self, note: dict[str, Any], pending: list[Record]) -> None:
        """Begins a segment of the log, with what the checkpoint does not have."""
        assert self.files is not None
        note["segment"] = self.files.begin_segment()
        self.files.append([_described(record, note["settled"]) for record in pending])

    def write_checkpoint(self, store: Store, note: dict[str, Any]) -> None:
        """Writes a checkpoint; it counts when it is complete."""
        assert self.files is not None
        number = note["segment"]
        store.save(str(self.files.checkpoint_file(number)), True, None)
        self.files.finish_checkpoint(number, note)

    def _check_types(self, files: Files) -> None:
        """Notes what the dictionary is and how its keys are divided at first; an error if the files have other types."""
        stored = stored_in(files.folder, self.config, self.number)
        if stored is None:
            note_types(files, self.config, self.number, Stored(self.state.layout, ""))
        else:
            self.state.layout = stored.layout

    def recover(self, files: Reading) -> None:
        """Loads the newest checkpoint and replays the log after it."""
        first = 0
        for number in files.checkpoints()[:1]:
            note = files.read_note(f"checkpoint-{number:08}.json")
            assert note is not None
            path = str(files.checkpoint_file(number))
            self.store = Store.load(path, self.config.names, self.config.settings, None)
            first = note["segment"]
            self._restore(note)
            self._stored = self.state.latest
        for description, arrays in files.records(first):
            self.state.replay(self._record(description, arrays))
            for committed in self.state.settle(description.get("settled", 0)):
                self.state.replay(committed)
            self._apply_all()
        self._stored = self.state.latest

    def _restore(self, note: dict[str, Any]) -> None:
        state = self.state
        state.epoch, state.position, state.tail = note["epoch"], note["position"], note["tail"]
        state.latest, state.settled = note["latest"], note["settled"]
        state.aborted = set(note["aborted"])
        state.chain = dict(note["chain"])
        state.clients = {client: (last[0], last[1]) for client, last in note["clients"].items()}
        state.layout = Layout.of_json(note["layout"], self.config.key)

    def _apply_all(self) -> None:
        while (batch := self.state.applicable()) is not None:
            self.apply(batch)
            self.state.applied(batch.number)

    def _record(self, description: dict[str, Any], arrays: Arrays) -> Record:
        kind = description["kind"]
        if kind == "committed":
            return Committed(description["number"])
        if kind == "aborted":
            return Aborted(description["number"], description["previous"])
        if kind == "epoch":
            return EpochBegun(description["epoch"])
        layout = description["layout"]
        return Prepared(
            Batch(
                description["number"],
                description["epoch"],
                description["previous"],
                tuple(description["participants"]),
                description["client"],
                description["sequence"],
                Body(description["body"], arrays),
                None if layout is None else Layout.of_json(layout, self.config.key),
            )
        )


class Stored(NamedTuple):
    """What the files of a shard say of the dictionary that they are of.

    Attributes
    ----------
    layout
        How it divided its keys at first.
    dictionary
        What no other one is called.
    """

    layout: Layout
    dictionary: str


def stored_in(folder: Path, config: Config, number: int) -> Stored | None:
    """What the files in a folder say; None if there are none. An error if they have other types."""
    stored = read_note(folder / TYPES)
    if stored is None:
        return None
    for name, own in _types(config, number).items():
        there = stored["types"].get(name)
        if there != own:
            has = f"{name}={there!r}, not {own!r}"
            if name == "value_width":
                has = f"values of {there} bytes, not {own}"
            raise ValueError(f"{str(folder)!r} holds a shard with {has}; open it as it was made")
    return Stored(Layout.of_json(stored["layout"], config.key), stored.get("dictionary", ""))


def note_types(files: Files, config: Config, number: int, stored: Stored) -> None:
    """Notes what the files are of."""
    layout = stored.layout.to_json()
    types = _types(config, number)
    files.write_note(TYPES, {"types": types, "layout": layout, "dictionary": stored.dictionary})


def _types(config: Config, number: int) -> dict[str, Any]:
    """What the files of a shard must agree in, as JSON returns it."""
    types = {**config.names, "combine": config.settings["combine"][0], "shard": number}
    agreed: dict[str, Any] = json.loads(json.dumps(types))
    return agreed


def _described(record: Record, settled: int) -> tuple[dict[str, Any], Arrays]:
    """A record as the log takes it, with what is settled."""
    if isinstance(record, Committed):
        return {"kind": "committed", "number": record.number}, []
    if isinstance(record, Aborted):
        return {"kind": "aborted", "number": record.number, "previous": record.previous}, []
    if isinstance(record, EpochBegun):
        return {"kind": "epoch", "epoch": record.epoch}, []
    batch = record.batch
    description = {
        "kind": "prepared",
        "number": batch.number,
        "epoch": batch.epoch,
        "previous": batch.previous,
        "participants": batch.participants,
        "client": batch.client,
        "sequence": batch.sequence,
        "settled": settled,
        "body": batch.body.kind,
        "layout": None if batch.layout is None else batch.layout.to_json(),
    }
    return description, batch.body.arrays


# Queries: each takes the arrays of its question and returns those of its answer.


def answer(store: Store, config: Config, query: tuple[Any, ...], arrays: Arrays) -> Any:
    """What one shard answers to one query: its name, further arguments, and arrays."""
    arrays = [aligned(array) for array in arrays]
    spans = [_span(array) for array in arrays]
    name, *arguments = query
    if name == "len":
        return store.len()
    if name in ("lookup", "contains"):
        return _lookup(store, config, name, spans[0])
    if name in ("rank", "count"):
        counts = np.empty(spans[0][1], np.int64)
        asked: Any = spans[0] if name == "rank" else (spans[0], spans[1])
        getattr(store, name)(asked, _span(counts), None)
        return counts
    if name == "aggregate":
        fold, width = arguments
        answers = NUMPY.empty(spans[0][1] * width // 4, np.dtype(np.uint32))
        counts = np.empty(spans[0][1], np.int64)
        to = (_span(answers)[0], spans[0][1])
        store.aggregate(fold, (spans[0], spans[1]), to, _span(counts), None)
        return answers, counts
    if name == "range":
        return _range(store, config, (spans[0], spans[1]))
    return _pairs(store, config, name, arguments, spans[0])


def _lookup(store: Store, config: Config, name: str, keys: tuple[int, int]) -> Any:
    found = np.zeros(keys[1], np.bool_)
    if name == "contains":
        store.contains(keys, _span(found), None)
        return found
    values = _values(config, keys[1])
    store.lookup(keys, (_span(values)[0], keys[1]), _span(found), None)
    return values, found


def _range(store: Store, config: Config, ranges: tuple[tuple[int, int], tuple[int, int]]) -> Any:
    store = store.copy("snapshot")  # Both answers of the same dictionary.
    offsets = np.empty(ranges[0][1] + 1, np.int64)
    total = store.range_offsets(ranges, _span(offsets), None)
    keys, values = NUMPY.empty(total, config.key), _values(config, total)
    store.range(ranges, _span(offsets), (_span(keys), (_span(values)[0], total)), None)
    return offsets, keys, values


def _pairs(
    store: Store, config: Config, name: str, arguments: list[Any], asked: tuple[int, int]
) -> Any:
    """Answers of one pair each: `successor`, `predecessor`, `select`, and as-of queries."""
    keys, values = NUMPY.empty(asked[1], config.key), _values(config, asked[1])
    found = np.zeros(asked[1], np.bool_)
    to = (_span(keys), (_span(values)[0], asked[1]))
    if name == "asof":
        store.asof(arguments[0], asked, to, _span(found), None)
    else:
        store.pairs(name, asked, to, _span(found), None)
    return keys, values, found


def _values(config: Config, length: int) -> NDArray[Any]:
    """An array for values; those of a set have no bytes."""
    if config.width == 0:
        return np.empty(0, np.uint32)
    return NUMPY.empty(length, VALUES[config.width])


def _span(array: NDArray[Any]) -> tuple[int, int]:
    return NUMPY.address(array), len(array)
