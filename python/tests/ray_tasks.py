"""Other drivers of dictionaries of `gpulsm.ray`, as tasks. Workers import this module: it needs little."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray

from gpulsm.ray import ShardedDictionary


@ray.remote(num_cpus=0)
def add(name: str, times: int) -> list[int]:
    """Adds 1 to keys in all shards, and reads them back."""
    d = ShardedDictionary.attach(name, timeout=300)
    seen = []
    for _ in range(times):
        d.add([1, 1001, 2001], 1)
        values, _ = d.lookup([1, 1001, 2001])
        assert len(set(values.tolist())) == 1
        seen.append(int(values[0]))
    return seen


@ray.remote(num_cpus=0)
def add_a_shard(name: str) -> None:
    """Adds a shard."""
    ShardedDictionary.attach(name, timeout=300).add_shards(1)


@ray.remote(num_cpus=0)
def write_until_killed(name: str, keys: np.ndarray[Any, Any]) -> None:
    """Never ends by itself."""
    d = ShardedDictionary.attach(name, timeout=300)
    while True:
        d.add(keys, 1)
