"""The protocol of `gpulsm.ray`, in every interleaving of messages and crashes of small cases.

`GPULSM_RAY_STATES=1` also runs the cases that take minutes.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("ray")

from ray_simulation import Client, Reader, Shard, World, explore

from gpulsm.ray.protocol import (
    Aborted,
    Committed,
    Pins,
    Prepared,
    Report,
    SequencerState,
    ShardState,
)

TWO = (0, 1)
ONE_BATCH = {"a": [TWO]}
#: Two clients, one of which writes to one shard only.
MIXED = {"a": [TWO], "b": [(1,)]}
BOTH = {"a": [TWO], "b": [TWO]}
#: Two clients of one shard.
ALONE = {"a": [(0,)], "b": [(0,)]}
AT_ONCE, ONE_BY_ONE = {"r": False}, {"r": True}


def world(
    batches: dict[str, list[tuple[int, ...]]],
    *,
    shards: int = 2,
    readers: dict[str, bool] | None = None,
    early: int = 0,
    checkpoints: int = 0,
    **crashes: int,
) -> World:
    """Clients with the participants of their batches, and readers, of one shard after the other if true."""
    return World(
        {name: Shard(name) for name in range(shards)},
        {name: Client(name, own) for name, own in batches.items()},
        {name: Reader(name, single) for name, single in (readers or {}).items()},
        crashes,
        early,
        checkpoints,
    )


@pytest.mark.parametrize(
    "case",
    [
        {"batches": BOTH},
        {"batches": ONE_BATCH, "shard": 2},
        {"batches": ONE_BATCH, "sequencer": 2},
        {"batches": ONE_BATCH, "sequencer": 1, "shard": 1},
        {"batches": ONE_BATCH, "client": 1, "shard": 1, "checkpoints": 1},
        {"batches": ONE_BATCH, "client": 1, "sequencer": 1},
        {"batches": ONE_BATCH, "early": 1, "shard": 1},
        {"batches": ONE_BATCH, "early": 1, "client": 1},
        {"batches": ONE_BATCH, "early": 2},
        {"batches": {"a": [TWO, TWO]}, "early": 1},
        {"batches": ALONE, "shards": 1, "sequencer": 1, "shard": 1, "checkpoints": 1},
        {"batches": {"a": [TWO, TWO]}, "sequencer": 1},
        {"batches": {"a": [TWO, TWO]}, "shard": 1, "client": 1},
        {"batches": MIXED, "shard": 1},
        {"batches": BOTH, "client": 1},
        {"batches": ONE_BATCH, "readers": AT_ONCE, "early": 1},
        {"batches": ONE_BATCH, "readers": AT_ONCE, "shard": 1},
        {"batches": ONE_BATCH, "readers": ONE_BY_ONE, "early": 1},
        {"batches": ONE_BATCH, "readers": ONE_BY_ONE, "client": 1},
        {"batches": MIXED, "readers": ONE_BY_ONE},
    ],
    ids=str,
)
def test_every_interleaving_is_atomic_ordered_and_durable(case: dict[str, Any]) -> None:
    assert explore(world(**case)) > 50


slow = pytest.mark.skipif("GPULSM_RAY_STATES" not in os.environ, reason="they take minutes")


@slow
@pytest.mark.parametrize(
    "case",
    [
        {"batches": ONE_BATCH, "readers": AT_ONCE, "sequencer": 1},
        {"batches": ONE_BATCH, "readers": AT_ONCE, "early": 2},
        {"batches": ONE_BATCH, "client": 1, "early": 1, "shard": 1},
        {"batches": ONE_BATCH, "client": 1, "early": 1, "sequencer": 1},
        {"batches": {"a": [TWO, TWO]}, "early": 2},
        {"batches": {"a": [TWO, TWO]}, "sequencer": 1, "checkpoints": 1},
        {"batches": {"a": [TWO, TWO]}, "sequencer": 1, "shard": 1, "checkpoints": 1},
        {"batches": MIXED, "sequencer": 1, "shard": 1, "checkpoints": 1},
        {"batches": ONE_BATCH, "early": 1, "sequencer": 1},
        {"batches": MIXED, "sequencer": 1},
        {"batches": MIXED, "readers": AT_ONCE},
        {"batches": BOTH, "shard": 1},
        {"batches": BOTH, "early": 1},
        {"batches": BOTH, "readers": AT_ONCE},
        {"batches": BOTH, "sequencer": 1},
    ],
    ids=str,
)
def test_larger_cases(case: dict[str, Any]) -> None:
    assert explore(world(**case)) > 1000


def broken(case: dict[str, Any]) -> None:
    """The simulation finds what is wrong."""
    with pytest.raises(
        AssertionError, match="half|lost|twice|both|applied|seen|waits|ever|undecided"
    ):
        explore(world(**case))


def test_it_matters_that_shards_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    fence = ShardState.fence

    def forgetful(self: ShardState, number: int, previous: int, epoch: int) -> Any:
        known = fence(self, number, previous, epoch)
        return False if isinstance(known, Aborted) else known

    monkeypatch.setattr(ShardState, "fence", forgetful)
    monkeypatch.setattr(ShardState, "abort", lambda *_: None)
    broken({"batches": ONE_BATCH, "early": 1})


def test_it_matters_that_old_epochs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = ShardState.prepare
    monkeypatch.setattr(
        ShardState,
        "prepare",
        lambda self, batch: prepare(self, replace(batch, epoch=self.epoch)),
    )
    broken({"batches": BOTH, "sequencer": 1})


@slow
def test_it_matters_that_numbers_that_never_came_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Report,
        "has",
        lambda self, number: (
            number <= self.position or any(batch.number == number for batch, _ in self.pending)
        ),
    )
    broken({"batches": MIXED, "sequencer": 1})


def test_it_matters_that_clients_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    recovered = SequencerState.recovered.__func__  # type: ignore[attr-defined]

    def forgetful(cls: type[SequencerState], epoch: int, reports: dict[int, Report]) -> Any:
        state = recovered(cls, epoch, reports)
        state.clients.clear()
        return state

    monkeypatch.setattr(SequencerState, "recovered", classmethod(forgetful))
    broken({"batches": ONE_BATCH, "sequencer": 1})


def test_it_matters_that_moments_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SequencerState, "_pins_changed", lambda self: None)
    monkeypatch.setattr(ShardState, "must_keep", lambda self, number: {0, 1, 2})
    monkeypatch.setattr(
        Shard, "kept", property(lambda self: _Latest(self), lambda self, _: None), raising=False
    )
    with pytest.raises(AssertionError, match="half|seen"):
        explore(world(MIXED | {"a": [TWO]}, readers=AT_ONCE))


class _Latest(dict[int, Any]):
    """A shard that answers as of now, whatever moment is asked for."""

    def __init__(self, shard: Any) -> None:
        super().__init__()
        self.shard = shard

    def get(self, _: int, default: Any = None) -> Any:
        return self.shard.applied

    def setdefault(self, *_: Any) -> Any:
        return None


def test_it_matters_that_chains_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    link = ShardState._link
    monkeypatch.setattr(ShardState, "_link", lambda self, number, previous: link(self, number, 0))
    broken({"batches": BOTH})


@slow
def test_it_matters_that_checkpoints_keep_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    def unlinked(self: ShardState) -> list[Any]:
        pending = [Prepared(batch) for _, batch in sorted(self.pending.items())]
        return [*pending, *map(Committed, sorted(self.committed))]

    monkeypatch.setattr(ShardState, "unapplied", unlinked)
    broken(
        {"batches": ALONE, "shards": 1, "sequencer": 1, "shard": 1, "checkpoints": 1, "client": 1}
    )


@slow
def test_it_matters_that_one_participant_logs_an_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    abandon = SequencerState.abandon

    def hasty(self: SequencerState, number: int) -> None:
        abandon(self, number)
        if number in self.open and self.open[number].is_aborted:
            self.open[number].is_final = True

    monkeypatch.setattr(SequencerState, "abandon", hasty)
    broken({"batches": ONE_BATCH, "early": 2, "sequencer": 1})


def test_pins_of_a_new_sequencer_are_newer() -> None:
    state = ShardState(epoch=1, pins=Pins((1, 50), frozenset({3})))
    state.note(Pins((2, 0)))
    assert state.pins.numbers == frozenset()
    state.note(Pins((1, 51), frozenset({3})))
    assert state.pins.numbers == frozenset()
