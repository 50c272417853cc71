"""What a dictionary holds, level by level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LevelStats:
    """What one level holds.

    Attributes
    ----------
    level
        Which level it is, counted from 0.
    capacity
        The most entries it may hold.
    entries
        Its entries, live or stale.
    tombstones
        How many of them are tombstones.
    bytes
        Bytes that it takes.
    """

    level: int
    capacity: int
    entries: int
    tombstones: int
    bytes: int


@dataclass(frozen=True)
class Holders:
    """What may hold memory of a dictionary besides itself. While anything does, it can't be merged in place.

    Attributes
    ----------
    snapshots
        Snapshots of the dictionary or of its copies.
    clones
        Copies of the dictionary, and dictionaries made of its snapshots.
    iterators
        Iterators over keys, values or items.
    views
        Views for kernels; only Rust makes them.
    graphs
        States that CUDA graphs were captured of, held for as long as what was queried lives.
    checkpoints
        Checkpoints that are being written.
    """

    snapshots: int
    clones: int
    iterators: int
    views: int
    graphs: int
    checkpoints: int


@dataclass(frozen=True)
class MemoryStats:
    """Where the bytes of a GPU's memory are, or, on a CPU, those of `memory_limit`. The parts up to `others` add up
    to the total.

    Attributes
    ----------
    total
        All bytes.
    free
        Those that nobody has.
    runs
        Those of the levels, without filters.
    filters
        Those of the levels' filters.
    rest
        Other bytes of the dictionary: snapshots and copies of what it held before, buffered batches, and working
        space.
    idle
        Those that its pool of memory keeps for the next allocation.
    others
        Those of others: answers, other dictionaries, other programs, and the driver.
    shared
        Those of the levels, filters included, that others hold too: they can't be merged in place.
    holders
        Who may hold them.
    is_at_run_limit
        Whether there are as many runs as may wait to be merged.
    """

    total: int
    free: int
    runs: int
    filters: int
    rest: int
    idle: int
    others: int
    shared: int
    holders: Holders
    is_at_run_limit: bool

    @classmethod
    def _of(cls, figures: dict[str, Any]) -> MemoryStats:
        return cls(holders=Holders(**figures.pop("holders")), **figures)


@dataclass(frozen=True)
class Stats:
    """What a dictionary holds and takes. As text (`print(d.stats())`), a picture of the levels.

    Attributes
    ----------
    device
        Where the dictionary is.
    batch_size
        The batch size b.
    entries
        Entries in all levels, live or stale.
    live
        Keys that are there: the dictionary's length.
    stale
        Entries that no answer needs: what a cleanup would remove.
    bytes
        Bytes that the levels take.
    bytes_shared
        Bytes that the dictionary, its copies and its snapshots take together.
    bytes_peak
        The most bytes that they took at a time, with the space that applying batches takes.
    memory
        Where the memory of the GPU is, or of `memory_limit`; None on a CPU without a limit.
    levels
        Every level that holds entries, the newest first.
    shards
        The same of each shard, in the order of their keys; empty if there is only one.
    """

    device: str
    batch_size: int
    entries: int
    live: int
    stale: int
    bytes: int
    bytes_shared: int
    bytes_peak: int
    memory: MemoryStats | None
    levels: tuple[LevelStats, ...]
    shards: tuple[Stats, ...]

    def __str__(self) -> str:
        return self._picture  # type: ignore[attr-defined, no-any-return]

    @classmethod
    def _of(cls, figures: dict[str, Any]) -> Stats:
        levels = tuple(LevelStats(**level) for level in figures.pop("levels"))
        picture = figures.pop("picture")
        shards = tuple(cls._of(shard) for shard in figures.pop("shards"))
        memory = figures.pop("memory")
        memory = None if memory is None else MemoryStats._of(memory)
        stats = cls(levels=levels, shards=shards, memory=memory, **figures)
        object.__setattr__(stats, "_picture", picture)  # Not one of its figures.
        return stats
