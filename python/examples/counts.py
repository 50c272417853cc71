"""Word counts that survive a restart: a dictionary in a folder, to which every run adds.

    python counts.py --folder counts --words 100000 --batches 10 --device cpu
    python counts.py --folder counts --words 100000 --batches 10 --device cpu    # goes on from there

Values combine by addition, so that a batch of words is one call, and each batch is on stable storage when the call
returns: kill the program at any moment, and what it said was counted is counted. How many words there are in all is
kept under a key of its own, in the same batch, and tells the next run where to go on. At the end everything is compared
with a plain count of the same words.
"""

from __future__ import annotations

import argparse
from collections import Counter
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import gpulsm

Words = NDArray[np.bytes_]
#: A key that is no word.
TOTAL = b"\xff" * 12


def words_from(start: int, count: int) -> Words:
    """Some words of an endless text, which is the same every time; a few of them are frequent."""
    numbers = np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    parts = (numbers >> np.uint64(32)) / 2**32
    return np.array([b"w%x" % int(1 / (1e-4 + part)) for part in parts], "S12")


def count_words(counts: gpulsm.Dictionary, words: Words) -> None:
    """Adds words to the counts, and their number to the total, as one batch."""
    keys = np.append(words, np.array([TOTAL], "S12"))
    counts.add(keys, np.append(np.ones(len(words), np.uint64), np.uint64(len(words))))


def check(counts: gpulsm.Dictionary, total: int) -> None:
    """Compares the counts with those of the whole text."""
    plain = Counter(word.ljust(12, b"\0") for word in words_from(0, total).tolist())
    assert dict(counts.items()) == {**plain, TOTAL: total}, "the counts are wrong"


def main(arguments: list[str] | None = None) -> None:
    """Goes on counting, and checks the answers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folder", default="counts", help="where the counts live")
    parser.add_argument("--words", type=int, default=100_000, help="in all batches together")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--device", default="best", help="best, cpu, cuda or cuda:N")
    options = parser.parse_args(arguments)
    batch = options.words // options.batches
    with gpulsm.open(
        options.folder, key="S12", value="uint64", combine="add", device=options.device
    ) as counts:
        total = int(counts.get(TOTAL, 0))
        print(f"{total:,} words were counted before, {len(counts):,} keys")
        for _ in range(options.batches):
            words, start = words_from(total, batch), perf_counter()
            count_words(counts, words)
            total += batch
            print(f"{total:,} words counted, the last {batch:,} in {perf_counter() - start:.4f} s")
        check(counts, total)
    print(f"answers checked: {gpulsm.check(options.folder).bytes:,} bytes in {options.folder}")


if __name__ == "__main__":
    main()
