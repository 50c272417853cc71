"""The same work in what Python programs use instead: hash tables, sorted arrays and data frames.

    python python/benchmarks/instead.py [--pairs 4194304] [--device cpu] [--only gpulsm,pandas]

A table of random uint32 keys grows in batches, each of which replaces the values of keys that are there
already; then all keys are looked up in random order, and keys between two bounds are counted. The answers
of all contenders are compared with those of `dict` and of a sorted array. Times are of the best of several calls.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
import polars as pl
from sortedcontainers import SortedDict

import gpulsm

REPEATS = 3
MISSING = np.uint32(2**32 - 1)


class Contender(Protocol):
    """A table of pairs: what one batch, and one query, is to it."""

    name: str

    def insert(self, keys: Any, values: Any) -> None: ...

    def finish(self) -> None:
        """Does what makes queries fastest, and is not timed."""

    def lookup(self, keys: Any) -> Any: ...

    def count(self, lo: Any, hi: Any) -> Any:
        """Returns how many keys are between each pair of bounds, or None where order is missing."""


class Gpulsm:
    def __init__(self, device: str) -> None:
        self.table = gpulsm.Dictionary("uint32", "uint32", device=device)
        self.name = f"gpulsm, {self.table.device}"

    def insert(self, keys: Any, values: Any) -> None:
        self.table.insert(keys, values)

    def finish(self) -> None:
        self.table.cleanup()

    def lookup(self, keys: Any) -> Any:
        return self.table.lookup(keys, default=MISSING)[0]

    def count(self, lo: Any, hi: Any) -> Any:
        return self.table.count(lo, hi)


class Dict:
    name = "`dict`"

    def __init__(self) -> None:
        self.table: Any = {}

    def insert(self, keys: Any, values: Any) -> None:
        self.table.update(zip(keys.tolist(), values.tolist(), strict=True))

    def finish(self) -> None: ...

    def lookup(self, keys: Any) -> Any:
        get = self.table.get
        return [get(key, MISSING) for key in keys.tolist()]

    def count(self, lo: Any, hi: Any) -> Any:
        return None


class SortedTree(Dict):
    name = "`SortedDict`"

    def __init__(self) -> None:
        self.table = SortedDict()

    def count(self, lo: Any, hi: Any) -> Any:
        left, right = self.table.bisect_left, self.table.bisect_right
        return [right(b) - left(a) for a, b in zip(lo.tolist(), hi.tolist(), strict=True)]


class SortedArray:
    name = "sorted NumPy array"

    def __init__(self) -> None:
        self.keys = self.values = np.empty(0, np.uint32)

    def insert(self, keys: Any, values: Any) -> None:
        keys, values = np.append(self.keys, keys), np.append(self.values, values)
        order = np.argsort(keys, kind="stable")
        keys, values = keys[order], values[order]
        last = np.append(keys[1:] != keys[:-1], True)
        self.keys, self.values = keys[last], values[last]

    def finish(self) -> None: ...

    def lookup(self, keys: Any) -> Any:
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.values[at], MISSING)

    def count(self, lo: Any, hi: Any) -> Any:
        return np.searchsorted(self.keys, hi, side="right") - np.searchsorted(self.keys, lo)


class Pandas:
    name = "pandas"

    def __init__(self) -> None:
        self.series = pd.Series(np.empty(0, np.uint32), index=pd.Index([], dtype=np.uint32))

    def insert(self, keys: Any, values: Any) -> None:
        series = pd.concat([self.series, pd.Series(values, index=keys)])
        self.series = series[~series.index.duplicated(keep="last")]

    def finish(self) -> None:
        self.series = self.series.sort_index()

    def lookup(self, keys: Any) -> Any:
        return self.series.reindex(keys, fill_value=MISSING).to_numpy()

    def count(self, lo: Any, hi: Any) -> Any:
        index = self.series.index
        return index.searchsorted(hi, side="right") - index.searchsorted(lo)


class Polars:
    name = "Polars"

    def __init__(self) -> None:
        self.frame = pl.DataFrame(schema={"key": pl.UInt32, "value": pl.UInt32})

    def insert(self, keys: Any, values: Any) -> None:
        batch = pl.DataFrame({"key": keys, "value": values})
        self.frame = pl.concat([self.frame, batch]).unique("key", keep="last")

    def finish(self) -> None:
        self.frame = self.frame.sort("key")

    def lookup(self, keys: Any) -> Any:
        queries = pl.DataFrame({"key": keys})
        joined = queries.join(self.frame, on="key", how="left", maintain_order="left")
        return joined["value"].fill_null(MISSING).to_numpy()

    def count(self, lo: Any, hi: Any) -> Any:
        keys = self.frame["key"]
        right = keys.search_sorted(pl.Series(hi), side="right")
        return (right - keys.search_sorted(pl.Series(lo), side="left")).to_numpy()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="best", help="best, cpu, cuda or cuda:N")
    parser.add_argument("--pairs", type=int, default=1 << 22, help="pairs, and lookups (2^22)")
    parser.add_argument("--batch", type=int, default=1 << 16, help="pairs in a batch (2^16)")
    parser.add_argument("--only", help="names of contenders, with commas between them")
    options = parser.parse_args(arguments)
    kinds: dict[str, Callable[[], Contender]] = {
        "gpulsm": lambda: Gpulsm(options.device),
        "dict": Dict,
        "SortedDict": SortedTree,
        "array": SortedArray,
        "pandas": Pandas,
        "Polars": Polars,
    }
    only = options.only.split(",") if options.only else list(kinds)
    if unknown := set(only) - set(kinds):
        parser.error(f"--only: {', '.join(sorted(unknown))}; choose from {', '.join(kinds)}")
    measure([kinds[name] for name in only], options.pairs, options.batch)


def measure(kinds: Sequence[Callable[[], Contender]], pairs: int, batch: int) -> None:
    """Prints a table of rates."""
    draw = np.random.default_rng(1)
    keys = draw.integers(0, 1 << 32, pairs, dtype=np.uint32)
    values = np.arange(pairs, dtype=np.uint32)
    queries = draw.permutation(keys)
    lo = draw.integers(0, 1 << 31, 1 << 16).astype(np.uint32)
    hi = lo + np.uint32(max(1024 * (1 << 32) // pairs, 1))  # 1,024 keys on average
    truth = SortedArray()
    truth.insert(keys, values)
    expected = truth.lookup(queries), truth.count(lo, hi)
    latest = dict(zip(keys.tolist(), values.tolist(), strict=True))
    assert [latest[key] for key in queries.tolist()] == expected[0].tolist()

    print(f"{pairs:,} uint32 pairs in batches of {batch:,}, million a second, answers checked:\n")
    print("| | insert | look up | count |\n| --- | ---: | ---: | ---: |")
    for make in kinds:

        def grow(make: Callable[[], Contender] = make) -> Contender:
            table = make()
            for start in range(0, pairs, batch):
                table.insert(keys[start : start + batch], values[start : start + batch])
                # Without a query after it, a batch may be buffered. The table is to be ready.
                table.lookup(queries[:1])
            return table

        seconds, table = best(grow, 1)
        rates = [f"{pairs / seconds / 1e6:,.2f}"]
        table.finish()
        for job, items, answer in (
            (lambda table=table: table.lookup(queries), pairs, expected[0]),
            (lambda table=table: table.count(lo, hi), len(lo), expected[1]),
        ):
            seconds, found = best(job, REPEATS)
            if found is not None:
                assert np.array_equal(np.asarray(found), answer), table.name
            rates.append("–" if found is None else f"{items / seconds / 1e6:,.2f}")
        print(f"| {table.name} | {' | '.join(rates)} |", flush=True)


def best(call: Callable[[], Any], times: int) -> tuple[float, Any]:
    """Returns the seconds of the fastest of several calls, and its answer."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        answer = call()
        seconds.append(time.perf_counter() - start)
    return min(seconds), answer


if __name__ == "__main__":
    main()
