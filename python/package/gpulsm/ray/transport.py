"""How calls travel to actors and back: small ones packed as one string of bytes, and large arrays through Ray's object
store, or directly, with Ray Direct Transport."""

from __future__ import annotations

import pickle
from importlib.util import find_spec
from typing import Any

import numpy as np
import ray

#: Arrays of at least as many bytes don't go with the message.
LARGE = 1 << 16


class PackedCalls:
    """Adds to an actor a way to call its methods that is faster: Ray takes longer for each argument and for each object
    of a class than to send some bytes."""

    async def packed(self, call: bytes) -> Any:
        """What a method answers: packed, too, unless it is large."""
        method, arguments = pickle.loads(call)
        answer = await getattr(self, method)(*arguments)
        arrays: list[pickle.PickleBuffer] = []
        pickle.dumps(answer, 5, buffer_callback=arrays.append)
        is_large = sum(array.raw().nbytes for array in arrays) >= LARGE
        return answer if is_large else pickle.dumps(answer, 5)


def call(actor: Any, method: str, *arguments: Any) -> Any:
    """Calls a method of an actor with small arguments. Returns a reference to an answer for `unpacked`."""
    return actor.packed.remote(pickle.dumps((method, arguments), 5))


def unpacked(answer: Any) -> Any:
    """What a method of an actor answered, however it was called. No method answers with bytes."""
    return pickle.loads(answer) if isinstance(answer, bytes) else answer


def checked_transport(transport: str | None) -> str | None:
    """The transport that was asked for, if it is there."""
    if transport is None:
        return None
    if transport != "nixl":
        raise ValueError(f"transport: expected None or 'nixl', got {transport!r}")
    missing = [name for name in ("torch", "nixl") if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"transport: Ray Direct Transport needs {' and '.join(missing)}: `pip install torch nixl`; without "
            "`transport` arrays go through Ray's object store"
        )
    return transport


def sent(array: Any, transport: str | None) -> Any:
    """What takes an array to a shard: a reference to a large one, or a small one itself."""
    if array.nbytes < LARGE:
        return array
    if transport is None:
        return ray.put(array)
    import torch

    raw = torch.from_numpy(np.array(array, copy=True).view(np.uint8))
    return ray.put((array.dtype.str, raw), _tensor_transport=transport)


def received(array: Any) -> Any:
    """The array that was sent."""
    if not isinstance(array, tuple):
        return array
    dtype, raw = array
    return np.asarray(raw.numpy()).view(dtype)
