"""A dictionary over several processes, on this machine: `python examples/ray_quickstart.py`.

Starts a small Ray cluster, divides a dictionary among three actors, updates it from several tasks at once, kills an
actor, and finds everything again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence

import numpy as np
import ray
from numpy.typing import NDArray

from gpulsm.ray import ShardedDictionary


@ray.remote(num_cpus=0)
def count(name: str, words: NDArray[np.uint64]) -> int:
    """One of several writers: adds 1 for each word, and returns how many there were."""
    ShardedDictionary.attach(name).add(words)
    return len(words)


def main(arguments: Sequence[str] | None = None) -> None:
    """Starts a cluster on this machine, unless this program has one, and runs the example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--words", type=int, default=100_000, help="how many each writer counts")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda with --gpus")
    parser.add_argument(
        "--gpus", type=float, default=0, help="GPUs of each actor, such as 1 or 0.5"
    )
    options = parser.parse_args(arguments)
    if not ray.is_initialized():
        ray.init(address="local", include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        run(options, folder)


def run(options: argparse.Namespace, folder: str) -> None:
    """Counts words in all tasks, with a crash in between."""
    resources = {"num_gpus": options.gpus} if options.gpus else {"num_cpus": 0.1}
    counts = ShardedDictionary(
        "uint64",
        "int64",
        combine="add",
        shards=options.shards,
        resources=resources,
        device=options.device,
        path=folder,
        name="word-counts",
    )
    random = np.random.default_rng(1)
    words = [
        random.integers(0, 5000, options.words).astype(np.uint64) for _ in range(options.writers)
    ]
    for turn in range(2):
        ray.get([count.remote(counts.name, own) for own in words])
        total, length = counts.sum(), len(counts)
        print(f"turn {turn + 1}: {total:,} words, {length:,} different ones")
        assert total == (turn + 1) * options.words * options.writers
        if turn == 0:
            ray.kill(counts._cluster.shard(0), no_restart=False)
            print("an actor was killed; Ray starts it again, and it reads its files")
    with counts.snapshot() as before:
        counts.delete_range(0, 2499)
        print(f"{len(before):,} words before, {len(counts):,} after half of them were deleted")
        assert before.count(0, 2499) == len(before) - len(counts)
    for number, shard in enumerate(counts.stats().shards):
        print(f"shard {number}: {shard.live:,} words")
    counts.rebalance()
    print("rebalanced:", [shard.live for shard in counts.stats().shards])
    counts.close()
    print("answers checked")


if __name__ == "__main__":
    main()
