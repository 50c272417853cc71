"""Many threads at a time: no crash, no deadlock, and every answer of one moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpulsm

N = 20_000


def run_all(*tasks: Any) -> None:
    """Runs every task on a thread of its own; the first exception is raised again."""
    failures: list[BaseException] = []

    def guarded(task: Any) -> None:
        try:
            task()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads), "a deadlock"
    if failures:
        raise failures[0]


def test_readers_see_whole_batches_while_a_writer_writes(device: str) -> None:
    d = gpulsm.Dictionary("uint32", "uint32", device=device, batch_size=1024)
    keys = np.arange(N, dtype=np.uint32)
    d.insert(keys, np.zeros(N, np.uint32))
    done = threading.Event()

    def write() -> None:
        for version in range(1, 25):
            d.insert(keys, np.full(N, version, np.uint32))
        done.set()

    def read_values() -> None:
        last = 0
        while not done.is_set():
            values, found = d.lookup(keys)
            assert found.all() and values.min() == values.max() >= last
            last = int(values.max())

    def read_ranges() -> None:
        while not done.is_set():
            offsets, found, values = d.range([0, N // 2], [N // 2 - 1, N])
            assert offsets.tolist() == [0, N // 2, N] and (found == keys).all()
            assert values.min() == values.max()

    def read_snapshots() -> None:
        while not done.is_set():
            s = d.snapshot()
            assert len(s) == N and (s.values() == s.values()[0]).all()

    run_all(write, read_values, read_values, read_ranges, read_snapshots)
    assert (d.values() == 24).all()
    d.validate()


def test_writers_take_turns(device: str) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device, batch_size=64)

    def writer(number: int) -> Any:
        def write() -> None:
            for step in range(50):
                keys = np.arange(100) + 1000 * number
                d.insert(keys, keys * step)
                d[number * 1000 + 500] = step
                assert len(d) >= 100

        return write

    run_all(*(writer(number) for number in range(6)))
    assert len(d) == 6 * 101
    assert all(d[number * 1000 + 3] == (number * 1000 + 3) * 49 for number in range(6))
    d.validate()


def test_dictionaries_that_merge_from_each_other_get_on(device: str) -> None:
    a = gpulsm.Dictionary.build(np.arange(1000), np.zeros(1000), device=device)
    b = gpulsm.Dictionary.build(np.arange(500, 1500), np.ones(1000), device=device)

    def merge(to: Any, other: Any) -> Any:
        return lambda: [to.merge_from(other) for _ in range(30)]

    run_all(merge(a, b), merge(b, a), merge(a, a), lambda: [a.copy() for _ in range(100)])
    assert len(a) == len(b) == 1500
    a.validate()
    b.validate()


def test_no_two_threads_pop_the_same_key(device: str) -> None:
    d = gpulsm.Dictionary.build(np.arange(400), np.arange(400), device=device)
    popped: list[int] = []

    def work(pop: Any) -> Any:
        def run() -> None:
            with contextlib.suppress(KeyError):
                while True:
                    popped.append(pop()[0])

        return run

    run_all(work(d.pop_first), work(d.pop_last), work(d.pop_first), work(d.pop_last))
    assert sorted(popped) == list(range(400)) and len(d) == 0


REENTRANT = """
import contextlib, gc, signal, sys
import numpy as np
import gpulsm

device, how, removal = sys.argv[1:]
N = 200
d = gpulsm.Dictionary.build(np.arange(N), np.arange(N) * 2, device=device)
popped, nested = [], []

def remove(to):
    # The same key is wanted by all, and only one may get it.
    first = d.first()
    key = first[0] if first else 0
    with contextlib.suppress(KeyError):
        if removal == "pop":
            to.append((key, d.pop(key)))
        elif removal == "del":
            del d[key]
            to.append((key, key * 2))
        else:
            to.append(getattr(d, removal)())

depth = 0

def on_signal(*_):
    global depth
    depth += 1
    if depth < 4:
        remove(nested)
    depth -= 1

class Popper:
    def __init__(self):
        self.itself = self

    def __del__(self):
        remove(nested)

if how == "gc":
    gc.freeze()  # What was imported need not be visited.
    # With each threshold the collector runs at another place of the call.
    for step in range(N):
        gc.collect()
        gc.set_threshold(0)
        Popper()
        gc.set_threshold(1 + step % 60)
        remove(popped)
    gc.set_threshold(0)
else:
    signal.signal(signal.SIGALRM, on_signal)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    while len(d):
        remove(popped)
    signal.setitimer(signal.ITIMER_REAL, 0)
gc.collect()
while len(d):
    popped.append(d.pop_first())
found = sorted(popped + nested)
assert found == [(key, key * 2) for key in range(N)], (len(found), found[:20])
assert nested, "nothing was nested"
"""


@pytest.mark.parametrize("removal", ["pop", "del", "pop_first", "pop_last"])
@pytest.mark.parametrize("how", ["gc", "signal"])
def test_removals_inside_of_removals(how: str, removal: str, device: str, tmp_path: Path) -> None:
    if how == "signal" and not hasattr(signal, "setitimer"):
        pytest.skip("no timer sends signals here")
    arguments = [sys.executable, "-c", REENTRANT, device, how, removal]
    # A deadlock ends the test by its time limit.
    done = subprocess.run(arguments, timeout=120, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", ["lookup", "insert"])
def test_long_calls_let_other_threads_run(what: str, device: str) -> None:
    keys = np.random.default_rng(1).permutation(1 << 21).astype(np.uint32)
    d = gpulsm.Dictionary("uint32", "uint32", device=device)
    if what == "lookup":
        d.insert(keys, keys)
    began, ticks, done = threading.Event(), [], threading.Event()

    def tick() -> None:
        began.wait()
        while not done.is_set():
            ticks.append(1)

    def work() -> None:
        began.set()
        for _ in range(3):
            d.lookup(keys) if what == "lookup" else (d.insert(keys, keys), len(d))
        done.set()

    run_all(tick, work)
    # With the lock of the interpreter held there would be one turn for each of the three calls.
    assert len(ticks) > 100


@pytest.mark.parametrize("key", ["uint64", "int64", "float32"])
def test_an_array_that_changes_during_a_call_does_no_harm(key: str, device: str) -> None:
    threads = 2 if device == "cpu" else None  # One thread alone reads each key once.
    # The limit is reached soon if calls that fail keep any memory.
    d = gpulsm.Dictionary(
        key, "int64", device=device, batch_size=1024, threads=threads, memory_limit=1 << 28
    )
    # Far above every key that changes, so that their answers are known.
    known = (np.arange(1000) + (1 << 23)).astype(key)
    d.insert(known, np.arange(1000))
    rng = np.random.default_rng(11)
    length = 1 << 18
    fills = [rng.integers(0, 1 << most, length).astype(key) for most in (4, 12, 22)]
    keys, values = fills[0].copy(), np.zeros(length, np.int64)
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            for fill in fills:
                np.copyto(keys, fill)  # Releases the GIL.

    def call() -> None:
        try:
            end, step = time.monotonic() + 1.5, 0
            while time.monotonic() < end or step <= 3:  # However slow the machine is.
                step += 1
                try:
                    if step % 4 == 3:
                        d.delete(keys)
                    else:
                        d.insert(keys, values)
                    d.lookup(keys)
                    d.count(keys, keys)
                except RuntimeError as error:
                    assert "another thread changed an array" in str(error)
                found_values, found = d.lookup(known)
                assert found.all() and (found_values == np.arange(1000)).all()
        finally:
            done.set()

    run_all(change, call)
    d.validate()
    found_keys, found_values = d.arrays()
    assert (found_keys[1:] > found_keys[:-1]).all() and (found_keys[-1000:] == known).all()
    assert found_keys[0] >= 0 and not found_values[:-1000].any() and len(found_keys) == len(d)
    d.insert(keys, values + 1)
    assert (d.lookup(keys)[0] == 1).all()
    d.validate()


@pytest.mark.parametrize("where", ["folder", "devices"])
@pytest.mark.parametrize("key", ["uint32", "float64"])
def test_an_array_that_changes_during_an_update_is_read_once(
    key: str, where: str, path: str, device: str
) -> None:
    """What the log has is what memory has, and each key is on the device that it belongs to."""
    settings = {"device": device, "threads": 2, "batch_size": 1024}
    if where == "folder":
        d = gpulsm.open(path, key, "uint32", **settings)
    else:
        d = gpulsm.Dictionary(key, "uint32", **{**settings, "device": [device] * 3})
    rng = np.random.default_rng(5)
    fills = [rng.integers(0, 1 << most, 1 << 16).astype(np.uint32) for most in (4, 12, 22)]
    keys, values, done = fills[0].astype(key), fills[0].copy(), threading.Event()

    def change() -> None:
        while not done.is_set():
            for fill in fills:
                np.copyto(keys, fill)
                np.copyto(values, fill)

    def call() -> None:
        try:
            end, step = time.monotonic() + 1, 0
            while time.monotonic() < end or step <= 4:
                step += 1
                d.update(insert=(keys, values), delete=keys[:100] if step % 3 else None)
                d.set(keys[:1000], values[:1000])
                d.delete_range(keys[:10], values[:10].astype(key))
                d.write([("delete", keys[:50]), ("insert", keys[:500], values[:500])])
        finally:
            done.set()

    run_all(change, call)
    d.validate()
    kept, kept_values = d.arrays()
    assert (kept[1:] > kept[:-1]).all() and len(kept) == len(d)
    looked_up, found = d.lookup(kept)
    assert found.all() and (looked_up == kept_values).all()
    if where == "folder":
        d.close()
        with gpulsm.open(path, device=device) as again:
            assert (again.arrays()[0] == kept).all() and (again.arrays()[1] == kept_values).all()


def test_a_list_that_changes_during_a_call_does_no_harm(device: str) -> None:
    keys, done = [*range(1000)], threading.Event()
    d = gpulsm.Dictionary.build(keys, 0, key="uint32", value="uint32", device=device)

    def change() -> None:
        while not done.is_set():
            keys.extend(range(1000))
            del keys[500:]
            keys.append(7)

    def call() -> None:
        try:
            end = time.monotonic() + 1
            while time.monotonic() < end:
                d.insert(keys, 1)
                assert d.lookup(keys)[1].all()
                d.count(keys, 5000)
        finally:
            done.set()

    run_all(change, call)
    d.validate()
    assert d.keys().max() < 1000


def test_pops_and_defaults_lose_no_addition(device: str) -> None:
    d = gpulsm.Dictionary("uint32", "int64", combine="add", device=device)
    popped: list[int] = []
    rounds, adders = 1000, 3
    left = [adders]

    def add() -> None:
        for _ in range(rounds):
            d.add(7)
        left[0] -= 1

    def pop(call: Any) -> Any:
        def run() -> None:
            while left[0]:
                popped.append(call())

        return run

    def pop_first() -> int:
        try:
            return int(d.pop_first()[1])
        except KeyError:
            return 0

    def default() -> None:
        while left[0]:
            d.setdefault(7, 0)

    run_all(*[add] * adders, pop(lambda: d.pop(7, 0)), pop(pop_first), default)
    assert sum(popped) + d.get(7, 0) == rounds * adders


def test_all_threads_get_the_default_that_was_set(device: str) -> None:
    d = gpulsm.Dictionary("uint32", "uint32", device=device)
    answers: list[list[int]] = [[], [], []]

    def ask(number: int) -> Any:
        return lambda: answers[number].extend(d.setdefault(key, number) for key in range(300))

    run_all(*map(ask, range(3)))
    assert answers[0] == answers[1] == answers[2] == d.values().tolist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
@pytest.mark.parametrize(
    "call", ["d.pop(5)", "d.pop(5, None)", "d.pop_first()", "d.setdefault(5, 1)", "del d[5]"]
)
def test_calls_in_a_forked_process_are_refused(call: str, tmp_path: Path) -> None:
    """Also if another thread was in such a call when it was forked."""
    program = f"""
import contextlib, os, threading, time
import gpulsm
d = gpulsm.Dictionary("int64", "int64", combine="add", device="cpu")
def work():
    while True:
        d.add(range(100))
        d.pop(5, None)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        try:
            {call}
        except gpulsm.ForkError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
"""
    done = run_program(program, tmp_path, "-W", "ignore")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
def test_a_forked_process_makes_its_own(device: str) -> None:
    if device != "cpu":
        pytest.skip("CUDA does not survive a fork")
    keys = np.arange(100_000)
    before = gpulsm.Dictionary.build(keys, keys, device=device)
    before.lookup(keys)  # The process's threads are at work from here on.
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with contextlib.suppress(gpulsm.ForkError):
                before.lookup(keys)
                os._exit(2)
            own = gpulsm.Dictionary.build(keys, keys, device=device)
            status = 0 if own.lookup(keys)[1].all() and len(own) == len(keys) else 3
            # All dictionaries of the process share their threads.
            more = [gpulsm.Dictionary.build(keys, keys, device=device) for _ in range(30)]
            tasks = Path("/proc/self/task")
            if len(more) != 30 or (
                tasks.exists() and len(list(tasks.iterdir())) > (os.cpu_count() or 1) + 2
            ):
                status = 4
            if "pairs, made before this process was forked" not in repr(before) or not str(before):
                status = 5
        finally:
            os._exit(status)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the forked process hangs")
    assert os.waitstatus_to_exitcode(status) == 0
    assert before.lookup(keys)[1].all()


def test_describing_a_dictionary_does_nothing_and_waits_for_nothing(device: str) -> None:
    d = gpulsm.Dictionary("uint32", "uint32", device=device)
    for step in range(5):
        d.insert([step], [step])
    assert "not counted yet" in repr(d) and "buffered updates" in str(d)
    assert len(d) == 5 and "5 pairs" in repr(d)
    keys = np.arange(1 << 20, dtype=np.uint32)
    done = threading.Event()

    def write() -> None:
        for _ in range(3):
            d.insert(keys, keys)
        done.set()

    def describe() -> None:
        texts = []
        while not done.is_set():
            texts.append((repr(d), str(d)))
        assert all(a and b for a, b in texts)

    run_all(write, describe)


def run_program(program: str, folder: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a program in a folder without sources, so that it imports the installed package."""
    arguments = [sys.executable, *options, "-c", program]
    return subprocess.run(arguments, capture_output=True, timeout=120, cwd=folder)


@pytest.mark.parametrize("call", ["d.get(5)", "d.insert(k, k)", "d.lookup(k)", "d.pop(5, None)"])
def test_a_program_ends_while_threads_are_in_a_call(call: str, device: str, tmp_path: Path) -> None:
    """Python ends daemon threads on the spot, by an unwind that native code must not be in."""
    program = f"""
import numpy as np, threading, time
import gpulsm
d = gpulsm.Dictionary("int64", "int64", device={device!r})
k = np.arange(200_000)
d.insert(k, k)
def work():
    while True:
        {call}
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    for _ in range(3):
        done = run_program(program, tmp_path)
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_ends_though_its_parent_was_in_a_call(tmp_path: Path) -> None:
    program = """
import numpy as np, os, threading, time
import gpulsm
d = gpulsm.Dictionary("int64", "int64", device="cpu")
k = np.arange(500_000)
def work():
    while True:
        d.insert(k, k)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
pid = os.fork()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
"""
    done = run_program(program, tmp_path, "-W", "ignore")
    assert (done.returncode, done.stderr) == (0, b"")
