"""What the actors have in common: their names, and waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Where the actors of all dictionaries are.
NAMESPACE = "gpulsm"


def shard_name(name: str, shard: int) -> str:
    """The name of the actor of a shard."""
    return f"{name}/shard-{shard}"


def sequencer_name(name: str) -> str:
    """The name of the sequencer of a dictionary."""
    return f"{name}/sequencer"


class Waiting:
    """Coroutines that wait until something has changed."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Returns when the condition holds, which is looked at after every change."""
        while not is_so():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def wake(self) -> None:
        """Lets everybody look again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
