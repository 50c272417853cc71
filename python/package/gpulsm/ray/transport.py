"""How large arrays travel to shards: through Ray's object store, or directly, with Ray Direct Transport."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import ray

#: Arrays of at least as many bytes don't go with the message.
LARGE = 1 << 16


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
