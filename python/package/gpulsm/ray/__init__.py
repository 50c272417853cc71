"""Dictionaries whose keys are divided among the actors of a Ray cluster.

`pip install gpulsm[ray]`; docs/ray.md tells how it works, and what happens when something fails.
"""

try:
    import ray as _ray  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "gpulsm.ray needs Ray: `pip install gpulsm[ray]`, or `pip install ray`"
    ) from _error

from gpulsm.ray.dictionary import ShardedDictionary
from gpulsm.ray.errors import ShardLost, ShardStalled, SnapshotLost, TimedOut
from gpulsm.ray.snapshot import ShardedSnapshot

__all__ = [
    "ShardLost",
    "ShardStalled",
    "ShardedDictionary",
    "ShardedSnapshot",
    "SnapshotLost",
    "TimedOut",
]
