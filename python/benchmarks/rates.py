"""What a call through Python costs, beside the library's own call.

    python python/benchmarks/rates.py [--device cpu] [--arrays numpy|cupy|torch]

Every answer is checked. Times are of the best of several calls; how much more one takes than the other is
the median over turns of both, since other programs on the machine disturb both alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gpulsm
from gpulsm._call import BOOL, Call

SEED = 1


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="best", help="best, cpu, cuda or cuda:N")
    parser.add_argument("--arrays", default="numpy", choices=["numpy", "cupy", "torch"])
    parser.add_argument("--pairs", type=int, default=1 << 24, help="pairs, and lookups (2^24)")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args(arguments)
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


if __name__ == "__main__":
    main()
