"""What can go wrong with a dictionary over several actors, beside what can with any dictionary."""

from __future__ import annotations

from typing import Any

from gpulsm._errors import Error


class ShardLost(Error, RuntimeError):
    """An actor has ended for good. If it kept no files, its keys are gone; those of others are there.

    Attributes
    ----------
    shards
        The numbers of the shards, as their folders have them; not their places in key order.
    """

    def __init__(self, message: str, shards: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.shards = shards

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.shards)


class ShardStalled(Error, RuntimeError):
    """A shard can't apply a batch that was committed, for lack of memory. It answers no queries until it can;
    nothing is lost."""


class SnapshotLost(Error, RuntimeError):
    """A snapshot can't be queried any more: a shard was restarted, or nobody used it for longer than its lease."""


class TimedOut(Error, TimeoutError):
    """A call took longer than its time-out. An update may have happened, or may still happen; the next update of the
    same thread comes after it."""


for _error in (ShardLost, ShardStalled, SnapshotLost, TimedOut):
    _error.__module__ = "gpulsm.ray"  # Where users find it.
