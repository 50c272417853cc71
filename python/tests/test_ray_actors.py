"""The actors of `gpulsm.ray` in one process, without Ray: shards that are down, full disks, full memory, waiting
reads."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray")

import ray

import gpulsm
from gpulsm._settings import checked
from gpulsm._stored import Types
from gpulsm.ray import ShardStalled, starting
from gpulsm.ray import shard_actor as shard_actor_module
from gpulsm.ray.cluster import Cluster
from gpulsm.ray.layout import even_layout
from gpulsm.ray.log import Files, Replaced
from gpulsm.ray.opening import Former, Found
from gpulsm.ray.protocol import (
    Accepted,
    Batch,
    Busy,
    Committed,
    Done,
    Moment,
    NeverHappened,
    Numbered,
    Pins,
    Prepared,
    Report,
    Stale,
)
from gpulsm.ray.sequencer import SequencerActor
from gpulsm.ray.shard import Body, Config, Shard
from gpulsm.ray.shard_actor import Begun, ShardActor
from gpulsm.ray.transport import LARGE, call, unpacked

KEY = np.dtype(np.uint32)


def config(memory_limit: int | None = None) -> Config:
    types = Types(KEY, KEY, ("replace", ""))
    settings = checked("cpu", 64, 1, memory_limit, None, "automatic", ("replace", ""))
    return Config(types.names(), settings, KEY, 4)


def shard_actor(number: int = 0, memory_limit: int | None = None) -> ShardActor:
    return ShardActor(
        "test", "", number, config(memory_limit), even_layout(3, KEY), None, 1 << 28, 600.0
    )


class Remote:
    """A shard as its callers see it: each method has a `remote`. Some may fail, or not answer."""

    def __init__(self, actor: ShardActor) -> None:
        self.actor = actor
        self.is_down = asyncio.Event()
        self.is_down.set()
        self.failures: dict[str, Exception] = {}

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            await self.is_down.wait()
            if name in self.failures:
                raise self.failures[name]
            return await getattr(self.actor, name)(*arguments)

        return SimpleNamespace(remote=lambda *arguments: asyncio.ensure_future(call(*arguments)))


class Sequencer(SequencerActor):
    """The sequencer of shards in this process."""

    def __init__(self, shards: dict[int, Remote]) -> None:
        self._remotes = shards
        super().__init__("test", list(shards), SimpleNamespace(path="files"))

    def _connect(self, shard: int) -> None:
        self._shards[shard] = self._remotes[shard]


def run(what: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(what, 60))


async def prepare(shard: Any, given: Numbered, number: int, keys: Any, client: str) -> Any:
    participants = tuple(given.previous)
    batch = Batch(
        given.number, given.epoch, given.previous[number], participants, client, 1, None, None
    )
    keys = np.asarray(keys, KEY)
    arrays = (keys, keys, np.empty(0, KEY))
    return await shard.prepare(batch, "update", given.settled, given.pins, *arrays)


async def lookup(shard: ShardActor, key: int) -> bool:
    asked = np.array([key], KEY)
    answers = await shard.read(0, [(("contains",), 1)], asked)
    return bool(answers[0][0])


async def world(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[int, Remote], Sequencer]:
    monkeypatch.setattr("gpulsm.ray.sequencer._FENCE_PATIENCE", 0.2)
    monkeypatch.setattr("gpulsm.ray.sequencer._RESOLVE_AGAIN_AFTER", 0.2)
    shards = {number: Remote(shard_actor(number)) for number in range(3)}
    return shards, Sequencer(shards)


def test_a_shard_that_is_down_blocks_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        shards, sequencer = await world(monkeypatch)
        given = await sequencer.number("a", 1, (0, 1), 0, 0.1)
        assert isinstance(given, Numbered)
        assert await prepare(shards[0].actor, given, 0, [5], "a") == Accepted()
        shards[1].is_down.clear()
        assert await lookup(shards[0].actor, 5) is False, "after its patience it is aborted"
        assert await sequencer.commit(given.number, "a", 1) == NeverHappened()
        later = await sequencer.number("a", 2, (0,), 0, 5.0)
        assert isinstance(later, Numbered)
        assert await prepare(shards[0].actor, later, 0, [6], "a") == Accepted()
        done = await sequencer.commit(later.number, "a", 1)
        assert done == NeverHappened(), "of another sequence"
        assert sequencer._state is not None and later.number in sequencer._state.open
        done = await sequencer.commit(later.number, "a", 2)
        assert isinstance(done, Done)
        moment = await sequencer.begin_read("r", (0, 2))
        assert moment.number == later.number
        await shards[0].actor.commit(later.number, done.pins)
        assert await lookup(shards[0].actor, 6)
        shards[1].is_down.set()
        await sequencer._changed.until(lambda: not sequencer._state.open)  # type: ignore[union-attr]
        assert not shards[1].actor._state.pending

    run(check())


def test_a_change_of_the_layout_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        shards, sequencer = await world(monkeypatch)
        await sequencer.layout()
        shards[1].is_down.clear()
        given = await sequencer.number("a", 1, (1,), 0, 0.1)
        assert isinstance(given, Numbered)
        new = replace(even_layout(3, KEY), version=1)
        assert await sequencer.number("b", 1, (0, 1, 2), 0, 0.3, new) == Busy()
        assert isinstance(await sequencer.number("c", 1, (0,), 0, 5.0), Numbered)

    run(check())


def test_a_full_disk_blocks_no_others_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        shards, sequencer = await world(monkeypatch)
        given = await sequencer.number("a", 1, (0, 1), 0, 5.0)
        assert isinstance(given, Numbered)
        await prepare(shards[0].actor, given, 0, [5], "a")
        full = OSError(28, "No space left on device")
        shards[1].failures = {"fence": full, "abort": full}
        assert await sequencer.resolve(given.number, "a", 1) == NeverHappened()
        assert await lookup(shards[0].actor, 5) is False
        assert sequencer._state is not None and given.number in sequencer._state.open
        shards[1].failures = {}
        await sequencer._changed.until(lambda: not sequencer._state.open)  # type: ignore[union-attr]

    run(check())


def test_reads_do_not_wait_for_batches_that_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Shard.apply

    def slow(self: Shard, batch: Batch) -> None:
        time.sleep(0.01)
        apply(self, batch)

    monkeypatch.setattr(Shard, "apply", slow)

    async def write(actor: ShardActor, first: int, last: int) -> None:
        for number in range(first, last):
            given = Numbered(number, 1, {0: number - 1}, 0, Pins())
            await prepare(actor, given, 0, [number], f"client {number}")
            await actor.commit(number, Pins())

    async def check() -> None:
        actor = shard_actor()
        await actor.begin_epoch(1)
        await write(actor, 1, 20)
        read = asyncio.ensure_future(lookup(actor, 5))
        await asyncio.sleep(0)
        writing = asyncio.ensure_future(write(actor, 20, 200))
        assert await read
        assert not writing.done() and actor._state.position < 150
        await writing

    run(check())


def test_batches_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    shard = Shard(config(400_000), 0, even_layout(1, KEY), Files(tmp_path))
    keys = np.arange(20_000, dtype=KEY)
    fitting = 0
    for number in range(1, 12):
        body = Body("update", [keys + number * 20_000, keys, np.empty(0, KEY)])
        batch = Batch(number, 0, number - 1, (0,), "client", number, body)
        try:
            shard.try_out(batch)
        except gpulsm.OutOfMemoryError:
            break
        shard.state.replay(Prepared(batch))
        fitting = number
    else:
        pytest.fail("nothing was refused")
    for number in range(1, fitting + 1):
        shard.state.replay(Committed(number))
    shard._apply_all()
    assert fitting > 0 and shard.store.len() == 20_000 * fitting


def test_a_shard_that_cannot_apply_a_batch_stalls_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        actor = shard_actor()
        await actor.begin_epoch(1)
        await prepare(actor, Numbered(1, 1, {0: 0}, 0, Pins()), 0, [7], "a")
        actor._shard._trials.clear()

        def fail(*_: Any) -> None:
            raise gpulsm.OutOfMemoryError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(Body, "apply", fail)
            await actor.commit(1, Pins())
            with pytest.raises(ShardStalled, match="Nothing is lost"):
                await lookup(actor, 7)
            with pytest.raises(ShardStalled):
                await actor.cleanup()
        refused = await prepare(actor, Numbered(2, 1, {0: 1}, 0, Pins()), 0, [8], "b")
        assert isinstance(refused, ShardStalled)
        await actor.cleanup()
        assert await lookup(actor, 7)

    run(check())


def test_what_was_tried_out_is_forgotten_when_it_is_aborted() -> None:
    async def check() -> None:
        actor = shard_actor()
        await actor.begin_epoch(1)
        for number in range(1, 5):
            given = Numbered(number, 1, {0: number - 1}, 0, Pins())
            await prepare(actor, given, 0, [number], f"client {number}")
            if number % 2:
                await actor.abort(number, number - 1, 1)
            else:
                await actor.commit(number, Pins())
        assert await lookup(actor, 4) and not await lookup(actor, 3)
        assert not actor._shard._trials

    run(check())


def test_a_refused_batch_stays_refused_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Shard] = []
    append, appended = Files.append, 0

    def full(self: Files, records: Any) -> None:
        nonlocal appended
        appended += 1
        if appended == 2:
            raise OSError(28, "No space left on device")
        append(self, records)

    def fail(*_: Any) -> None:
        raise gpulsm.OutOfMemoryError("no room")

    async def check() -> None:
        layout = even_layout(1, KEY)
        actor = ShardActor("test", "", 0, config(), layout, str(tmp_path), 1 << 28, 600.0)
        await actor.claim("files", 0, False)
        await actor.begin_epoch(1)
        with monkeypatch.context() as patch:
            patch.setattr(Files, "append", full)
            patch.setattr(Body, "apply", fail)
            given = Numbered(1, 1, {0: 0}, 0, Pins())
            refused = await prepare(actor, given, 0, [5], "a")
            assert isinstance(refused, gpulsm.OutOfMemoryError)
        # Another sequencer, which hears nothing of it, gives its number to another shard's batch.
        await actor.begin_epoch(2)
        later = Numbered(2, 2, {0: 0}, 1, Pins())
        assert await prepare(actor, later, 0, [6], "b") == Accepted()
        opened.append(Shard(config(), 0, layout, Files(tmp_path / "shard-0000")))

    run(check())
    assert opened[0].store.len() == 0 and sorted(opened[0].state.pending) == [2]


def test_an_error_does_not_grow_when_it_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise FileNotFoundError("no files")

    async def lines(actor: ShardActor) -> int:
        with pytest.raises((FileNotFoundError, ShardStalled)) as raised:
            await lookup(actor, 7)
        return len(list(raised.traceback))

    async def check() -> None:
        stalled = shard_actor()
        stalled._failure = ShardStalled("no room")
        monkeypatch.setattr("gpulsm.ray.opening.Opening.open", fail)
        missing = ShardActor("test", "", 0, config(), even_layout(1, KEY), "path", 1 << 28, 600.0)
        for actor in (stalled, missing):
            assert await lines(actor) == await lines(actor)

    run(check())


def test_reads_do_not_wait_for_shards_that_they_do_not_concern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        shards, sequencer = await world(monkeypatch)
        await sequencer.layout()
        shards[1].is_down.clear()
        assert isinstance(await sequencer.number("a", 1, (1,), 0, 0.1), Numbered)
        given = await sequencer.number("b", 1, (0,), 0, 5.0)
        assert isinstance(given, Numbered)
        await prepare(shards[0].actor, given, 0, [6], "b")
        await sequencer.commit(given.number, "b", 1)
        moment = await sequencer.begin_read("r", (0, 2))
        assert moment.number == given.number and set(moment.last) == {0, 2}
        further = asyncio.ensure_future(sequencer.further_read("r", (1,)))
        await asyncio.sleep(0.1)
        assert not further.done(), "nobody knows what became of that batch"
        shards[1].is_down.set()
        more = await further
        assert isinstance(more, Moment) and (more.number, set(more.last)) == (given.number, {1})
        await sequencer.end_read("r")
        assert await sequencer.further_read("r", (1,)) == Stale()

    run(check())


def test_a_shard_that_was_not_found_is_lost() -> None:
    class InMemory(Sequencer):
        def _connect(self, shard: int) -> None:
            if shard == 1:
                self._keeps_files = False
                self._lost.add(shard)
            else:
                super()._connect(shard)

    async def check() -> None:
        sequencer = InMemory({number: Remote(shard_actor(number)) for number in range(3)})
        assert await sequencer.lost(1)
        assert not await sequencer.lost(0)

    run(check())


def test_a_shard_that_could_not_be_admitted_can_be_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        shards, sequencer = await world(monkeypatch)
        await sequencer.layout()
        shards[3] = Remote(shard_actor(3))
        shards[3].failures = {"begin_epoch": OSError(28, "No space left on device")}
        with pytest.raises(OSError, match="No space"):
            await sequencer.admit(3)
        shards[3].failures = {}
        given = await sequencer.number("a", 1, (3,), 0, 5.0)
        assert isinstance(given, Numbered)
        assert await prepare(shards[3].actor, given, 3, [5], "a") == Accepted()

    run(check())


def test_to_close_a_dictionary_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["one/sequencer", "one/shard-0", "one/other/sequencer", "one/other/shard-0"]
    there = [{"namespace": "gpulsm", "name": name} for name in names]
    ended: list[str] = []
    monkeypatch.setattr(ray.util, "list_named_actors", lambda all_namespaces: there)
    monkeypatch.setattr(ray, "get_actor", lambda name, _: SimpleNamespace(_actor_id=name))
    monkeypatch.setattr(ray, "kill", lambda handle: ended.append(handle._actor_id))
    for name, own in (("one", names[:2]), ("one/other", names[2:])):
        ended.clear()
        description: Any = SimpleNamespace(name=name, timeout=1.0, transport=None)
        sequencer = SimpleNamespace(_actor_id=f"{name}/sequencer")
        Cluster(description, 1, sequencer, {}).end()
        assert ended == own[::-1], "the sequencer comes last"
        ended.clear()
        known = {0: SimpleNamespace(_actor_id="shard of old")}
        Cluster(description, 1, SimpleNamespace(_actor_id="old"), known).end()
        assert ended == ["shard of old", "old"], "another dictionary has that name now"


@pytest.mark.parametrize("error", [TimeoutError("no answer"), ValueError("already taken")])
def test_a_dictionary_that_could_not_be_opened_leaves_no_actors(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    ended: list[Any] = []
    sequencer = SimpleNamespace(layout=SimpleNamespace(remote=lambda: None))
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get", fail)
    monkeypatch.setattr(ray, "get_actor", lambda name, _: name)
    monkeypatch.setattr(ray, "kill", ended.append)
    monkeypatch.setattr(starting, "start_shard", lambda _, shard, *__, **___: f"shard {shard}")
    monkeypatch.setattr(starting, "_is_there", lambda _: False)
    monkeypatch.setattr(starting, "_opened", lambda of, handles: (of, list(handles)))
    monkeypatch.setattr(starting, "_start_sequencer", lambda *_: sequencer)
    description: Any = SimpleNamespace(name="one", config=config(), options=({}, {}), timeout=1.0)
    with pytest.raises(type(error)):
        starting.start_actors(description, 2)
    assert ended == ["shard 0", "shard 1", sequencer]


def test_a_shard_that_no_sequencer_asks_for_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[str] = []
    monkeypatch.setattr(ray, "kill", killed.append)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(current_actor="it"))
    shard, names = shard_actor(), {"test/sequencer"}

    def get_actor(name: str, namespace: str) -> str:
        if name not in names:
            raise ValueError(name)
        return name

    monkeypatch.setattr(ray, "get_actor", get_actor)
    timers: list[Any] = []

    def timer(seconds: float, act: Any) -> Any:
        timers.append(act)
        return SimpleNamespace(start=int)

    monkeypatch.setattr(shard_actor_module.threading, "Timer", timer)
    shard._end_if_unused_in(600.0)
    for _ in range(3):
        timers.pop()()
        assert killed == [] and len(timers) == 1, "it looks again and again"
    names.clear()
    timers.pop()()
    assert killed == ["it"]


def test_calls_may_be_packed() -> None:
    """A packed call does what the call does; an answer is packed as well, unless it is large."""

    async def check() -> None:
        shard = shard_actor()
        remote, count = Remote(shard), LARGE // 4
        await shard.begin_epoch(1)
        given = Numbered(1, 1, {0: 0}, 0, Pins())
        keys = np.arange(count, dtype=np.uint32)
        batch = Batch(1, 1, 0, (0,), "a", 1)
        asked = (batch, "update", given.settled, given.pins, keys, keys, keys[:0])
        assert unpacked(await call(remote, "prepare", *asked)) == Accepted()
        await call(remote, "commit", 1, Pins())
        for length, is_packed in ((5, True), (count, False)):
            lookup = (0, [(("lookup",), 1)], keys[:length])
            answer = await call(remote, "read", *lookup)
            assert isinstance(answer, bytes) == is_packed
            for values, found in (unpacked(answer)[0], (await shard.read(*lookup))[0]):
                assert values.tolist() == keys[:length].tolist() and found.all()
        with pytest.raises(TypeError):
            await call(remote, "read")

    run(check())


class Ray:
    """What actors ask Ray: which one they are, and whether they were restarted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.path = path
        self.actor, self.was_restarted = "", False
        monkeypatch.setattr(shard_actor_module, "_actor_id", lambda: self.actor)
        monkeypatch.setattr(shard_actor_module, "_was_restarted", lambda: self.was_restarted)
        timer = SimpleNamespace(start=int)
        monkeypatch.setattr(shard_actor_module.threading, "Timer", lambda *_: timer)

    def start(self, dictionary: str, *, again: bool = False) -> ShardActor:
        """The actor of a dictionary's only shard."""
        self.actor, self.was_restarted = f"actor of {dictionary}", again
        layout = even_layout(1, KEY)
        return ShardActor(dictionary, "", 0, config(), layout, str(self.path), 1 << 28, 600.0)


def test_a_restarted_actor_leaves_files_to_who_opened_them_since(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Ended(BaseException):
        pass

    def end() -> None:
        raise Ended

    monkeypatch.setattr(shard_actor_module, "_end_actor", end)
    context = Ray(monkeypatch, tmp_path)

    async def check() -> None:
        one = context.start("one")
        assert await one.check() == Found(None, [], False, [])
        assert (await one.claim("files", 0, False)).formers == []
        assert (await one.begin()).epoch == 0
        assert isinstance(await one.begin_epoch(1), Report)
        again = context.start("one", again=True)
        assert (await again.begin()).epoch == 1
        two = context.start("two")
        found = await two.check()
        assert found.stored is not None and found.stored.dictionary == "files"
        assert found.is_used and found.present == [0]
        assert isinstance(await again.begin_epoch(2), Report), "it still has its files"
        assert (await two.claim("files", 0, True)).formers == [Former("one", "actor of one")]
        with pytest.raises(Ended):
            await again.begin_epoch(3)
        with pytest.raises(Ended):
            await context.start("one", again=True).begin()
        context.actor, context.was_restarted = "actor of two", False
        assert (await two.begin()).epoch == 2
        assert isinstance(await two.begin_epoch(3), Report), "it still has its files"

    run(check())


def test_an_actor_that_is_restarted_while_it_is_opened_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = Ray(monkeypatch, tmp_path)

    async def check() -> None:
        one = context.start("one", again=True)  # Before it had files.
        assert (await one.check()).stored is None
        claimed = await one.claim("files", 0, False)
        assert claimed.formers == [] and claimed.ticket > 0
        one = context.start("one", again=True)  # Before it had read them.
        assert isinstance((await one.begin()), Begun)
        await one.begin_epoch(1)
        context.start("two")
        two = context.start("two", again=True)  # Before it had claimed anything.
        claimed = await two.claim("files", 0, True)
        assert claimed.formers == [Former("one", "actor of one")]
        assert await two.claim("files", 0, True) == claimed
        again = context.start("two", again=True)  # After it had.
        assert await again.claim("files", 0, True) == claimed
        shutil.rmtree(tmp_path / "shard-0000")
        with pytest.raises(FileNotFoundError, match="every node sees"):
            await context.start("three").claim("files", 0, True)

    run(check())


def test_a_copy_of_files_has_no_former_owner(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = Ray(monkeypatch, tmp_path / "original")

    async def check() -> None:
        one = context.start("one")
        await one.claim("files", 0, False)
        await one.begin_epoch(1)
        shutil.copytree(tmp_path / "original", tmp_path / "copy")
        context.path = tmp_path / "copy"
        two = context.start("two")
        assert (await two.claim("files", 0, True)).formers == []
        assert (await two.begin()).epoch == 1

    run(check())


def test_all_who_had_the_files_are_named_until_they_have_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = Ray(monkeypatch, tmp_path)

    async def check() -> None:
        one = context.start("one")
        await one.claim("files", 0, False)
        await one.begin_epoch(1)
        two = context.start("two")
        await two.claim("files", 0, True)  # Whoever makes it ends before it has ended the first.
        three = context.start("three")
        formers = [Former("one", "actor of one"), Former("two", "actor of two")]
        assert (await three.claim("files", 0, True)).formers == formers
        assert (await three.begin()).epoch == 1
        four = context.start("four")
        formers = [Former("three", "actor of three")]
        assert (await four.claim("files", 0, True)).formers == formers

    run(check())


def test_who_opens_the_first_shard_later_has_them_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = Ray(monkeypatch, tmp_path)

    async def check() -> None:
        one = context.start("one")
        earlier = (await one.claim("files", 0, False)).ticket
        later = (await context.start("two").claim("files", 0, False)).ticket
        assert later > earlier
        context.path = tmp_path / "second shard"
        elsewhere = context.start("two")
        await elsewhere.claim("files", later, False)
        with pytest.raises(Replaced, match="opened by the dictionary 'two' meanwhile"):
            await context.start("one").claim("files", earlier, False)
        with pytest.raises(Replaced, match="made by another dictionary"):
            await context.start("three").claim("other files", later + 1, False)
        context.actor = "actor of two"
        assert (await elsewhere.begin()).epoch == 0
        assert isinstance(await elsewhere.begin_epoch(1), Report), "it still has its files"

    run(check())
