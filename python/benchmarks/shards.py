"""How fast dictionaries of several shards are, beside one on a single device. All in one run, in turns.

python shards.py cpu                      one dictionary, then 1, 2 and 4 shards on the CPU
python shards.py cuda --batch 22          the same on a GPU, with batches of 2^22
python shards.py cpu --threads 1 --against 2   2 shards of one thread each against one dictionary of 2 threads
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

import gpulsm

ROUNDS = 3


def measure(
    device: str | list[str],
    threads: int | None,
    batches: list[np.ndarray],
    queried: np.ndarray,
    distinct: int,
) -> tuple[float, float]:
    """Millions of inserts and of lookups in a second."""
    size = len(batches[0])
    d = gpulsm.Dictionary("u8", "u4", device=device, batch_size=size, threads=threads)
    start = time.perf_counter()
    for keys in batches:
        d.insert(keys, keys.astype(np.uint32))
        d.flush()
    d.synchronize()
    inserted = size * len(batches) / (time.perf_counter() - start) / 1e6
    start = time.perf_counter()
    values, found = d.lookup(queried)
    looked_up = len(queried) / (time.perf_counter() - start) / 1e6
    assert len(d) == distinct
    assert found.all()
    assert (values == queried.astype(np.uint32)).all()
    d.close()
    return inserted, looked_up


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("device")
    parser.add_argument(
        "--batch", type=int, default=20, help="the binary logarithm of a batch's size"
    )
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--threads", type=int, help="of each shard, on the CPU")
    parser.add_argument("--against", type=int, help="threads of the dictionary without shards")
    options = parser.parse_args()
    random = np.random.default_rng(7)
    batches = [
        random.integers(0, 1 << 63, 1 << options.batch, dtype=np.uint64)
        for _ in range(options.batches)
    ]
    keys = np.concatenate(batches)
    queried, distinct = random.choice(keys, 1 << 22), len(np.unique(keys))
    variants: dict[str, tuple[str | list[str], int | None]] = {
        "one dictionary": (options.device, options.against or options.threads)
    }
    for shards in (1, 2, 4):
        variants[f"{shards} shard" + "s" * (shards > 1)] = (
            [options.device] * shards,
            options.threads,
        )
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for _ in range(ROUNDS):
        for name, (device, threads) in variants.items():
            rates[name].append(measure(device, threads, batches, queried, distinct))
    print(
        f"{options.batches} batches of 2^{options.batch} u64 keys with u32 values on {options.device}"
    )
    print("                inserts M/s  beside one   lookups M/s  beside one")
    base = rates["one dictionary"]
    for name, measured in rates.items():
        columns = []
        for which in (0, 1):
            ratios = [one[which] / other[which] for one, other in zip(measured, base, strict=True)]
            columns += [
                f"{median(rate[which] for rate in measured):11.1f}",
                f"{median(ratios):10.2f} x",
            ]
        print(f"{name:<15}", "  ".join(columns))


if __name__ == "__main__":
    main()
