"""Ray Data: datasets into a dictionary over shards, and out of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import numpy as np
from ray.data import Datasink, Datasource, ReadTask
from ray.data.block import BlockAccessor, BlockMetadata

from gpulsm._tables import columns_of, to_arrow
from gpulsm.ray.cluster import Client
from gpulsm.ray.dictionary import ShardedDictionary
from gpulsm.ray.layout import Layout
from gpulsm.ray.snapshot import Closing, ShardedSnapshot, snapshot_of


class DictionarySink(Datasink[None]):
    """Inserts the rows of a dataset into a dictionary: `dataset.write_datasink(DictionarySink(d, "id", "price"))`.

    Every block is a batch. A task that Ray runs again does not insert again what it has inserted: its batches have
    the same numbers.

    Parameters
    ----------
    dictionary
        The dictionary; it must have been made with a name if other nodes write.
    key, value
        The columns, as of `Dictionary.from_arrow`.
    """

    def __init__(
        self,
        dictionary: ShardedDictionary,
        key: str | list[str] | None = None,
        value: str | list[str] | None = None,
    ) -> None:
        self._dictionary = _checked(dictionary)
        self._columns = (key, value)
        self._name = uuid.uuid4().hex

    def on_write_start(self, *_: Any, **__: Any) -> None:
        """Begins another dataset, whose batches are others."""
        self._name = uuid.uuid4().hex

    def write(self, blocks: Iterable[Any], ctx: Any) -> None:
        """Inserts blocks."""
        dictionary = self._dictionary
        dictionary._cluster.be(Client(f"{self._name}-{ctx.task_idx}"))
        for block in blocks:
            table = BlockAccessor.for_block(block).to_arrow()
            if table.num_rows:
                dictionary.insert(*columns_of(table, *self._columns))


class DictionarySource(Closing, Datasource):
    """The pairs of a dictionary as they are now: `ray.data.read_datasource(DictionarySource(d))`. A block for each
    shard, with the columns that `Dictionary.to_arrow` has. Shards keep these pairs until the source is closed, with
    `close` or at the end of a `with` block, or nobody has read them for a while.

    Parameters
    ----------
    dictionary
        The dictionary.
    lease
        For how many seconds shards keep the pairs while nobody reads them.
    """

    def __init__(self, dictionary: ShardedDictionary, lease: float = 3600.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cluster = _checked(dictionary)._cluster
        self._snapshot = dictionary.snapshot(lease)
        self._lengths = dict(
            zip(self._snapshot.layout.shards, self._snapshot.lengths(), strict=True)
        )

    def close(self) -> None:
        """Lets the shards forget the pairs; datasets that have not read them yet can't any more."""
        self._snapshot.close()

    def estimate_inmemory_data_size(self) -> int:
        """How many bytes the pairs take."""
        return sum(self._lengths.values()) * self._bytes

    @property
    def _bytes(self) -> int:
        config = self._cluster.config
        return config.key.itemsize + config.width

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        """A task for each shard."""
        tasks = []
        for shard, length in self._lengths.items():
            metadata = BlockMetadata(
                num_rows=length, size_bytes=length * self._bytes, input_files=None, exec_stats=None
            )
            tasks.append(ReadTask(_Pairs(self._snapshot, shard), metadata))
        return tasks


class _Pairs:
    """Reads the pairs of one shard."""

    def __init__(self, snapshot: ShardedSnapshot, shard: int) -> None:
        self._snapshot, self._shard = snapshot, shard

    def __call__(self) -> list[Any]:
        store: Any = self._snapshot._store
        alone = Layout(0, (self._shard,), np.empty(0, store.config.key))
        return [to_arrow(*snapshot_of(store.cluster, store.held, alone).arrays())]


def _checked(dictionary: Any) -> ShardedDictionary:
    if not isinstance(dictionary, ShardedDictionary):
        raise TypeError(
            f"dictionary: expected a ShardedDictionary, got {type(dictionary).__name__}"
        )
    return dictionary
