"""Sums by key: one batch, and a stream of batches, beside what arrays and data frames are used for.

    python benchmarks/group_by.py [--device cuda] [--log-n 24] [--log-batch 16] [--cucollections LIBRARY]

All add up the same values by the same keys, and their answers are compared. Of a stream, the sums so far must be there after
every batch: libraries of arrays join what they have with the batch, and group it again. A hash map of cuCollections, whose
size is given beforehand, is measured if its library, built from rivals/kernels/cucollections.cu, is named.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gpulsm

Sums = tuple[Any, Any]
REPEATS = 3


def shapes(n: int, batch: int) -> dict[str, Any]:
    """Keys: nearly all different; Zipf's; each ten times in every batch."""
    draw = np.random.default_rng(1)
    zipf = (n ** draw.random(n)).astype(np.int64)
    distinct = max(batch // 10, 1)
    tenfold = np.arange(n) // batch * distinct + np.arange(n) % distinct
    scatter = np.int64(0x9E3779B1)
    return {
        "random": draw.integers(0, 1 << 40, n),
        "Zipf": zipf * scatter % (1 << 40),
        "tenfold": tenfold * scatter % (1 << 40),
    }


class Gpulsm:
    """This package."""

    def __init__(self, device: str, batch: int) -> None:
        self.device, self.batch = device, batch

    def group(self, keys: Any, values: Any, size: int) -> Any:
        d = gpulsm.Dictionary(
            "int64", "int64", combine="add", device=self.device, batch_size=self.batch
        )
        for start in range(0, len(keys), size):
            d.add(keys[start : start + size], values[start : start + size])
        d.synchronize()
        return d

    def read(self, sums: Any) -> Sums:
        return sums.arrays()


class Arrays:
    """Libraries of arrays: `unique`, and sums at the places that it tells."""

    def __init__(self, unique: Any, add_at: Any, join: Any, to_host: Any) -> None:
        self.unique, self.add_at, self.join, self.to_host = unique, add_at, join, to_host

    def group(self, keys: Any, values: Any, size: int) -> Sums:
        sums: Sums | None = None
        for start in range(0, len(keys), size):
            some = keys[start : start + size], values[start : start + size]
            if sums is not None:
                some = self.join((sums[0], some[0])), self.join((sums[1], some[1]))
            found, places = self.unique(some[0], return_inverse=True)
            sums = found, self.add_at(len(found), places, some[1])
        assert sums is not None
        return sums

    def read(self, sums: Sums) -> Sums:
        return self.to_host(sums[0]), self.to_host(sums[1])


def numpy_arrays() -> Arrays:
    def add_at(count: int, places: Any, values: Any) -> Any:
        sums = np.zeros(count, np.int64)
        np.add.at(sums, places, values)
        return sums

    return Arrays(np.unique, add_at, np.concatenate, np.asarray)


def cupy_arrays() -> Arrays:
    import cupy
    import cupyx

    def add_at(count: int, places: Any, values: Any) -> Any:
        sums = cupy.zeros(count, cupy.uint64)  # There is no atomic addition of int64.
        cupyx.scatter_add(sums, places, values.view(cupy.uint64))
        return sums.view(cupy.int64)

    return Arrays(cupy.unique, add_at, cupy.concatenate, cupy.asnumpy)


def torch_arrays() -> Arrays:
    import torch

    def add_at(count: int, places: Any, values: Any) -> Any:
        return values.new_zeros(count).scatter_add_(0, places, values)

    return Arrays(torch.unique, add_at, torch.cat, lambda a: a.cpu().numpy())


class Polars:
    """Polars, on all cores."""

    def group(self, keys: Any, values: Any, size: int) -> Any:
        import polars

        sums = polars.DataFrame({"key": keys[:0], "value": values[:0]})
        for start in range(0, len(keys), size):
            some = polars.DataFrame(
                {"key": keys[start : start + size], "value": values[start : start + size]}
            )
            joined = polars.concat([sums, some])
            sums = joined.group_by("key").agg(polars.col("value").sum())
        return sums

    def read(self, sums: Any) -> Sums:
        sums = sums.sort("key")
        return sums["key"].to_numpy(), sums["value"].to_numpy()


class CuCollections:
    """A hash map of cuCollections that is at most half full."""

    def __init__(self, library: str) -> None:
        self.calls = ctypes.CDLL(library)
        for name, result in (("new", ctypes.c_void_p), ("read", ctypes.c_uint64)):
            getattr(self.calls, f"cucollections_{name}").restype = result

    def group(self, keys: Any, values: Any, size: int) -> Any:
        address = ctypes.c_void_p
        made = address(self.calls.cucollections_new(ctypes.c_uint64(2 * len(keys))))
        for start in range(0, len(keys), size):
            some = keys[start : start + size], values[start : start + size]
            pointers = (address(array.data.ptr) for array in some)
            self.calls.cucollections_add(made, *pointers, ctypes.c_uint64(len(some[0])))
        return Hashed(self.calls, made, len(keys))

    def read(self, sums: Any) -> Sums:
        import cupy

        keys, totals = cupy.empty(sums.most, "int64"), cupy.empty(sums.most, "int64")
        pointers = (ctypes.c_void_p(array.data.ptr) for array in (keys, totals))
        count = self.calls.cucollections_read(sums.made, *pointers)
        order = cupy.argsort(keys[:count])
        return cupy.asnumpy(keys[order]), cupy.asnumpy(totals[order])


class Hashed:
    """A hash map of cuCollections, and the most keys that it can hold."""

    def __init__(self, calls: ctypes.CDLL, made: ctypes.c_void_p, most: int) -> None:
        self.calls, self.made, self.most = calls, made, most

    def __del__(self) -> None:
        self.calls.cucollections_free(self.made)


def contenders(
    device: str, batch: int, cucollections: str | None
) -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """Each with how it gets its arrays."""

    def is_there(name: str) -> bool:
        return importlib.util.find_spec(name) is not None

    if device == "cpu":
        found: dict[str, tuple[Any, Callable[[Any], Any]]] = {
            "gpulsm": (Gpulsm(device, batch), lambda a: a),
            "NumPy": (numpy_arrays(), lambda a: a),
        }
        if is_there("polars"):
            found["Polars"] = (Polars(), lambda a: a)
        return found
    import cupy

    found = {
        "gpulsm": (Gpulsm(device, batch), cupy.asarray),
        "CuPy": (cupy_arrays(), cupy.asarray),
    }
    if is_there("torch"):
        import torch

        found["PyTorch"] = (torch_arrays(), lambda a: torch.asarray(a, device=device))
    if cucollections is not None:
        found["cuCollections"] = (CuCollections(cucollections), cupy.asarray)
    return found


def wait(device: str) -> None:
    if device != "cpu":
        import cupy

        cupy.cuda.Device().synchronize()


def rate(job: Callable[[], Any], count: int, device: str) -> tuple[float, Any]:
    """Million inserts a second, and what came of them."""
    seconds, sums = [], job()
    for _ in range(REPEATS):
        wait(device)
        start = time.perf_counter()
        sums = job()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return count / statistics.median(seconds) / 1e6, sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--log-n", type=int, default=20, help="log2 of the inserts")
    parser.add_argument("--log-batch", type=int, default=16, help="log2 of a stream's batches")
    parser.add_argument("--cucollections", metavar="LIBRARY", help="libcucollections.so (CUDA)")
    given = parser.parse_args()
    n, batch = 1 << given.log_n, 1 << given.log_batch
    all_of_them = contenders(given.device, batch, given.cucollections)
    print(f"2^{given.log_n} inserts of int64 on {given.device}, million a second\n")
    print(f"{'':28}" + "".join(f"{name:>14}" for name in all_of_them))
    for shape, keys in shapes(n, batch).items():
        values = np.arange(n) % 251 + 1
        for what, size in (("one batch", n), (f"batches of 2^{given.log_batch}", batch)):
            cells, first = [], None
            for contender, make in all_of_them.values():
                arrays = make(keys), make(values)
                job = lambda c=contender, a=arrays, s=size: c.group(*a, s)  # noqa: E731
                million, sums = rate(job, n, given.device)
                sums = contender.read(sums)
                first = first or sums
                assert all(np.array_equal(a, b) for a, b in zip(sums, first, strict=True)), shape
                cells.append(f"{million:14,.1f}")
            print(f"{shape + ', ' + what:28}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
