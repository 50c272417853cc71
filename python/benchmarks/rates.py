"""How fast the package is here: against the library's own call, and against Python's dictionaries.

    python python/benchmarks/rates.py [--device cpu] [--arrays numpy|cupy|torch]

Every answer is checked. Times are of the best of several calls; how much more one takes than another is
the median over turns of both, for other programs on the machine disturb both alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sortedcontainers import SortedDict

import gpulsm
from gpulsm._call import BOOL, Call

SEED = 1


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="best", help="best, cpu, cuda or cuda:N")
    parser.add_argument("--arrays", default="numpy", choices=["numpy", "cupy", "torch"])
    parser.add_argument("--pairs", type=int, default=1 << 24, help="pairs, and lookups (2^24)")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument(
        "--others", type=int, default=1 << 20, help="pairs beside other dictionaries (2^20)"
    )
    options = parser.parse_args(arguments)
    overhead(options)
    if options.arrays == "numpy" and options.others:
        beside_others(options)


def overhead(options: argparse.Namespace) -> None:
    """Lookups through Python beside the same call of the library, on the same arrays."""
    rng = np.random.default_rng(SEED)
    keys = rng.permutation(options.pairs).astype(np.uint32)
    values = keys * np.uint32(2654435761)
    asked = np.where(
        rng.random(options.pairs) < 0.5, rng.permutation(keys), keys + np.uint32(1 << 30)
    )
    make, wait, host = arrays_of(options.arrays)
    d = gpulsm.Dictionary.build(make(keys), make(values), device=options.device)
    d.cleanup()
    questions = make(asked)
    found_values, found = d.lookup(questions)
    there = asked < options.pairs
    assert (host(found) == there).all()
    assert (host(found_values) == np.where(there, asked * np.uint32(2654435761), 0)).all()
    through_python, native = [], []
    for _ in range(options.repeats):
        wait()
        start = time.perf_counter()
        d.lookup(questions)
        wait()
        through_python.append(time.perf_counter() - start)
        native.append(seconds_of_native(d, questions))
    ratio = statistics.median(a / b for a, b in zip(through_python, native, strict=True))
    print(f"{options.pairs:,} lookups of {options.arrays} arrays on {d.device}, answers checked")
    print("| through Python | the library's call | more, median |\n| --- | --- | --- |")
    python, rust = min(through_python) * 1e3, min(native) * 1e3
    print(f"| {python:.3f} ms | {rust:.3f} ms | {100 * (ratio - 1):+.1f} % |")


def arrays_of(name: str) -> tuple[Callable[[Any], Any], Callable[[], None], Callable[[Any], Any]]:
    """How to make arrays of a family, to wait for its stream, and to copy one to the host."""
    if name == "cupy":
        import cupy

        return cupy.asarray, lambda: cupy.cuda.get_current_stream().synchronize(), cupy.asnumpy
    if name == "torch":
        import torch

        return (
            lambda a: torch.from_numpy(a).cuda(),
            torch.cuda.synchronize,
            lambda t: t.cpu().numpy(),
        )
    return np.asarray, lambda: None, np.asarray


def seconds_of_native(d: gpulsm.Dictionary, questions: Any) -> float:
    """The same lookup without Python's half: arrays read and made before the clock starts."""
    call = Call(d._place, d._keys("keys", questions))
    values, found = call.room(d.value_dtype), call.room(BOOL)
    [at] = call.spans
    return d._store.seconds_of_lookup(at, values.span, found.span, call.stream)


def beside_others(options: argparse.Namespace) -> None:
    """The same work for Python's `dict`, `SortedDict` and a sorted NumPy array."""
    n = options.others
    rng = np.random.default_rng(SEED)
    keys = rng.choice(1 << 32, n, replace=False).astype(np.uint32)
    values = np.arange(n, dtype=np.uint32)
    queries = rng.permutation(keys)
    lo = rng.integers(0, 1 << 31, 1 << 16).astype(np.uint32)
    hi = lo + np.uint32(1 << 20)
    batches = np.array_split(np.arange(n), max(1, n >> 16))
    listed = queries.tolist()
    ranges = list(zip(lo.tolist(), hi.tolist(), strict=True))

    def insert_gpulsm() -> gpulsm.Dictionary:
        d = gpulsm.Dictionary("uint32", "uint32", device=options.device)
        for batch in batches:
            d.insert(keys[batch], values[batch])
        d.synchronize()
        return d

    def insert_dict(kind: Any) -> Any:
        d = kind()
        for batch in batches:
            d.update(zip(keys[batch].tolist(), values[batch].tolist(), strict=True))
        return d

    def insert_array() -> tuple[Any, Any]:
        held, its_values = keys[:0], values[:0]
        for batch in batches:
            held, its_values = np.append(held, keys[batch]), np.append(its_values, values[batch])
            order = np.argsort(held, kind="stable")
            held, its_values = held[order], its_values[order]
        return held, its_values

    d, plain, tree = insert_gpulsm(), insert_dict(dict), insert_dict(SortedDict)
    held, held_values = insert_array()
    d.cleanup()

    def lookup_array() -> Any:
        return held_values[np.searchsorted(held, queries)]

    def count_array() -> Any:
        return np.searchsorted(held, hi, side="right") - np.searchsorted(held, lo)

    def count_tree() -> list[int]:
        return [tree.bisect_right(last) - tree.bisect_left(first) for first, last in ranges]

    assert (
        d.lookup(queries)[0].tolist() == [plain[key] for key in listed] == lookup_array().tolist()
    )
    assert [tree[key] for key in listed[:1000]] == d.lookup(queries[:1000])[0].tolist()
    assert d.count(lo, hi).tolist() == count_tree() == count_array().tolist()
    rows = [
        (
            "insert, batches of 2^16",
            n,
            insert_gpulsm,
            lambda: insert_dict(dict),
            lambda: insert_dict(SortedDict),
            insert_array,
        ),
        (
            "lookup",
            n,
            lambda: d.lookup(queries),
            lambda: [plain[key] for key in listed],
            lambda: [tree[key] for key in listed],
            lookup_array,
        ),
        ("count", len(lo), lambda: d.count(lo, hi), None, count_tree, count_array),
    ]
    print(f"\n{n:,} pairs, million a second on {d.device}, answers compared with each other")
    print("| | gpulsm | dict | SortedDict | sorted NumPy array |\n| --- | --- | --- | --- | --- |")
    for name, items, *calls in rows:
        rates = ["–" if call is None else f"{items / best(call, 3) / 1e6:,.2f}" for call in calls]
        print(f"| {name} | {' | '.join(rates)} |")


def best(call: Callable[[], Any], times: int) -> float:
    """The seconds of the fastest of several calls."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main()
