"""What a dictionary over actors costs, against a local one and against an empty actor call:
`python benchmarks/ray_costs.py`; on a GPU `--device cuda --gpus 0.5` (two actors on one card). `--divide` measures only
how fast the driver divides pairs among shards, without any.

Answers are checked. Times are medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import ray

import gpulsm
from gpulsm.ray import ShardedDictionary
from gpulsm.ray.layout import Division, even_layout


def timed(what: Callable[[], Any], repeats: int) -> float:
    """The median of several runs, in milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        what()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=1 << 20)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of each actor")
    parser.add_argument("--path", help="a folder for the shards' files; default: in memory")
    parser.add_argument("--divide", action="store_true", help="only divide pairs of 8 + 8 bytes")
    options = parser.parse_args(arguments)
    if options.divide:
        dividing(options.pairs, options.repeats)
        return
    if not ray.is_initialized():
        ray.init(
            address="local",
            num_cpus=2,
            num_gpus=1 if options.gpus else 0,
            include_dashboard=False,
            log_to_driver=False,
        )
    resources = {"num_gpus": options.gpus, "num_cpus": 0.1}
    sharded = ShardedDictionary(
        "uint32",
        "uint32",
        shards=options.shards,
        resources=resources,
        device=options.device,
        path=options.path,
    )
    local = gpulsm.Dictionary("uint32", "uint32", device=options.device)
    random = np.random.default_rng(1)
    keys = random.permutation(4 * options.pairs).astype(np.uint32)[: options.pairs]
    print(f"{options.pairs:,} pairs, {options.shards} shards on {options.device}, medians in ms")
    print("| call | local | sharded | ratio |")
    print("| --- | --- | --- | --- |")
    rows: list[tuple[str, Callable[[Any], Any]]] = [
        ("insert", lambda d: d.insert(keys, keys)),
        ("lookup", lambda d: d.lookup(keys)),
    ]
    for name, call in rows:
        row(name, call, local, sharded, options.repeats)
    values, found = sharded.lookup(keys)
    assert found.all() and (values == keys).all()
    breakdown(sharded, keys, options.repeats)
    small(sharded, keys, 20 * options.repeats)
    sharded.close()
    print("answers checked")


def row(
    name: str,
    call: Callable[[Any], Any],
    local: gpulsm.Dictionary,
    sharded: ShardedDictionary,
    repeats: int,
) -> None:
    """One call, of both dictionaries in turns, so that they meet the same load."""
    call(local), call(sharded)
    times = [
        (timed(lambda: call(local), 1), timed(lambda: call(sharded), 1)) for _ in range(repeats)
    ]
    near, far = (statistics.median(each) for each in zip(*times, strict=True))
    print(f"| {name} | {near:.1f} | {far:.1f} | {far / near:.2f} |")


def breakdown(sharded: ShardedDictionary, keys: Any, repeats: int) -> None:
    """Where the time of a lookup goes."""
    layout = sharded._cluster.layout
    shards = len(layout.shards)
    division = Division(layout.places(keys), shards)
    parts = division.parts(keys)
    handles = {place: sharded._cluster.shard(layout.shards[place]) for place in parts}

    def ask() -> Any:
        return ray.get(
            [
                handles[place].read.remote(layout.version, [(("lookup",), 1)], part)
                for place, part in parts.items()
            ]
        )

    answers = {place: answer[0][0] for place, answer in zip(parts, ask(), strict=True)}
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("find the shard of each key", lambda: layout.places(keys)),
        ("divide the keys", lambda: Division(layout.places(keys), shards).parts(keys)),
        ("all shards answer", ask),
        ("put answers in order", lambda: division.gather(keys.copy(), answers)),
        ("a moment from the sequencer", lambda: sharded._store.copy("snapshot")),
    ]
    print("\n| step of a lookup | ms |\n| --- | --- |")
    for name, step in steps:
        print(f"| {name} | {timed(step, repeats):.2f} |")


def dividing(pairs: int, repeats: int) -> None:
    """How fast pairs are divided among different numbers of shards."""
    keys = np.random.default_rng(1).integers(0, 1 << 64, pairs, dtype=np.uint64)
    print(f"{pairs:,} pairs of 16 bytes\n| shards | ms | GB/s |\n| --- | --- | --- |")
    for shards in (2, 8, 64, 1000):
        layout = even_layout(shards, keys.dtype)

        def divide(layout: Any = layout, shards: int = shards) -> list[Any]:
            division = Division(layout.places(keys), shards)
            return [division.parts(each) for each in (keys, keys)]

        parts = divide()[0]
        assert sum(map(len, parts.values())) == pairs
        assert all((layout.places(part) == place).all() for place, part in parts.items())
        milliseconds = timed(divide, repeats)
        print(f"| {shards} | {milliseconds:.1f} | {16e-6 * pairs / milliseconds:.2f} |")


def small(sharded: ShardedDictionary, keys: Any, repeats: int) -> None:
    """Calls with few keys in one shard, against an empty call of the same actor."""
    few = keys[:10].copy()
    shard = int(sharded._cluster.layout.places(few)[0])
    few = few[sharded._cluster.layout.places(few) == shard]
    handle = sharded._cluster.shard(sharded._cluster.layout.shards[shard])
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("an empty actor call", lambda: ray.get(handle.empty.remote())),
        (f"lookup of {len(few)} keys in one shard", lambda: sharded.lookup(few)),
        (f"insert of {len(few)} pairs in one shard", lambda: sharded.insert(few, few)),
    ]
    times = [[timed(call, 1) for _, call in calls] for _ in range(repeats + 1)][1:]
    medians = [statistics.median(each) for each in zip(*times, strict=True)]
    print("\n| call | ms | of an empty call |\n| --- | --- | --- |")
    for (name, _), median in zip(calls, medians, strict=True):
        print(f"| {name} | {median:.3f} | {median / medians[0]:.2f} |")


if __name__ == "__main__":
    main()
