"""Dictionaries in folders, used by several threads and processes, and by processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

import gpulsm


def watermarks(path: str) -> list[tuple[int, int]]:
    """Of every update in the log: its number, and that of the last one known to be synced when it was written."""
    [log] = Path(path, "log").iterdir()
    contents, at, found = log.read_bytes(), 64, []
    while at < len(contents):
        length, number, watermark = struct.unpack_from("<QQQ", contents, at + 8)
        found.append((number, watermark))
        at += 40 + length
    return found


def insert_in_threads(d: gpulsm.Dictionary, threads: int, times: int) -> None:
    """Every thread inserts that many batches, and finds each of them."""

    def insert(thread: int) -> None:
        for number in range(times):
            d.insert([1000 * thread + number], [number])
            assert d[1000 * thread + number] == number

    workers = [threading.Thread(target=insert, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def test_threads_share_syncs(path: str) -> None:
    with gpulsm.open(path, "uint32", "uint32", device="cpu") as d:
        insert_in_threads(d, 8, 50)
        assert len(d) == 400
    shared = watermarks(path)
    assert [number for number, _ in shared] == list(range(1, 401))
    # An update is written while the one before it is being synced, and there are fewer syncs than updates.
    assert any(watermark < number - 1 for number, watermark in shared)
    assert len({watermark for _, watermark in shared}) < 400
    with gpulsm.open(path, device="cpu") as d:
        assert len(d) == 400


def test_one_thread_syncs_every_update(path: str) -> None:
    with gpulsm.open(path, "uint32", "uint32", device="cpu") as d:
        insert_in_threads(d, 1, 20)
    assert watermarks(path) == [(number, number - 1) for number in range(1, 21)]


def test_the_system_syncs_when_it_likes(path: str) -> None:
    with gpulsm.open(path, "uint32", "uint32", durability="os", device="cpu") as d:
        insert_in_threads(d, 1, 5)
        d.sync()
        d.insert([9], [9])
    assert watermarks(path) == [*((number, 0) for number in range(1, 6)), (6, 5)]


def test_closing_waits_for_other_threads(path: str) -> None:
    d = gpulsm.open(path, "uint32", "uint32", device="cpu")
    inserted: list[int] = []

    def insert() -> None:
        for number in range(100_000):
            try:
                d.insert([number], [number])
            except ValueError:
                return
            inserted.append(number)

    worker = threading.Thread(target=insert)
    worker.start()
    while len(inserted) < 20:
        time.sleep(0.001)
    d.close()
    worker.join()
    with gpulsm.open(path, device="cpu") as d:
        assert d.keys().tolist() == inserted


def run(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Another Python that runs a script, in a folder without sources of the package."""
    command = [sys.executable, "-c", script, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=tempfile.gettempdir())


def test_another_process_has_it_open(path: str) -> None:
    script = "import gpulsm, sys; d = gpulsm.Set.open(sys.argv[1], 'uint32'); print('open', flush=True); input()"
    with run(script, path) as other:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        with pytest.raises(gpulsm.Locked, match="is in use"):
            gpulsm.open(path)
        with pytest.raises(gpulsm.Locked, match="is in use"):
            gpulsm.check(path)
        other.communicate("\n")
    gpulsm.open(path).close()


def test_the_end_of_the_program_closes(path: str) -> None:
    script = """
import gpulsm, sys
d = gpulsm.open(sys.argv[1], "uint32", "uint32", durability="checkpoint", device="cpu")
d[1] = 2
keep = [d]
keep.append(keep)
"""
    with run(script, path) as other:
        assert other.wait() == 0
    with gpulsm.open(path, device="cpu") as d:
        assert d[1] == 2


WRITER = """
import gpulsm, numpy as np, os, sys, threading
path, durability = sys.argv[1:]
d = gpulsm.open(path, "uint64", "uint64", combine="add", device="cpu", durability=durability, log_limit=40_000)

def count(thread):
    keys = np.arange(100, dtype=np.uint64) + np.uint64(1000 * thread)
    while True:
        d.insert(keys, 1)
        os.write(1, b"%d\\n" % thread)

for thread in range(3):
    threading.Thread(target=count, args=(thread,)).start()
"""


def test_one_that_cannot_be_closed_does_not_keep_the_others_open(path: str) -> None:
    script = """
import gpulsm, shutil, sys
keep = [gpulsm.open(sys.argv[1] + str(i), "uint32", "uint32", durability="checkpoint", device="cpu") for i in range(6)]
for d in keep:
    d[1] = 2
shutil.rmtree(sys.argv[1] + "3")
keep.append(keep)
"""
    with run(script, path) as other:
        assert other.wait() == 0
    for i in (0, 1, 2, 4, 5):
        with gpulsm.open(path + str(i), device="cpu") as d:
            assert d[1] == 2


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
@pytest.mark.parametrize("durability", ["batch", "os"])
def test_acknowledged_updates_survive_kills(path: str, durability: str) -> None:
    """Each of three threads counts 100 keys up, and tells when a batch has returned. A batch that was on its way when
    the process was killed may be there or not, as a whole."""
    rng, acknowledged = random.Random(7), np.zeros(3, np.int64)
    for _ in range(10):
        with run(WRITER, path, durability) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline()]
            time.sleep(rng.random() * 0.2)
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.read().splitlines()
        for line in lines:
            acknowledged[int(line)] += 1
        with gpulsm.open(path, device="cpu") as d:
            d.validate()
            counts = d.values().reshape(-1, 100) if len(d) else np.zeros((0, 100))
            threads = d.keys().reshape(-1, 100)[:, 0] // 1000
            assert (counts == counts[:, :1]).all()
            there = np.zeros(3, np.int64)
            there[threads.astype(np.int64)] = counts[:, 0]
            assert (there >= acknowledged).all() and (there <= acknowledged + 1).all()
            acknowledged = there
    assert acknowledged.sum() > 10


# Forks.

if hasattr(os, "fork"):
    FORK = multiprocessing.get_context("fork")


def in_child(work: Callable[[], str]) -> str:
    """What a forked process says."""

    def answer(to: Connection) -> None:
        to.send(work())

    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=answer, args=(sender,))
    child.start()
    sender.close()
    said: str = receiver.recv()
    child.join()
    assert child.exitcode == 0
    return said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_leaves_the_files_alone(path: str) -> None:
    def refused(use: Callable[[], object], kind: type[BaseException]) -> str:
        with pytest.raises(kind) as error:
            use()
        return str(error.value)

    with gpulsm.open(path, "uint32", "uint32", device="cpu") as d:
        d.insert([1], [10])
        for use in (
            lambda: d.insert([2], [20]),
            lambda: d.checkpoint(),
            lambda: d.sync(),
            lambda: d.close(),
            lambda: d[1],
        ):
            said = in_child(lambda use=use: refused(use, gpulsm.ForkError))
            assert "was made before the process was forked" in said
        assert "in use" in in_child(lambda: refused(lambda: gpulsm.open(path), gpulsm.Locked))
        d.insert([3], [30])
        with pytest.raises(gpulsm.Locked):
            gpulsm.open(path)
    assert "30" in in_child(lambda: str(dict(gpulsm.open(path, device="cpu").items())))
    with gpulsm.open(path, device="cpu") as d:
        assert dict(d.items()) == {1: 10, 3: 30}
