"""How arrays are divided among shards and put together again, without a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray")

from gpulsm._families import NUMPY, WIDE, DType
from gpulsm.ray.layout import Division, Layout, even_layout, quantiles

KEYS = [np.dtype(kind) for kind in ("u4", "i4", "f4", "u8", "i8", "f8")]


def keys_of(dtype: DType, length: int, seed: int = 1) -> Any:
    raw = np.random.default_rng(seed).integers(0, 256, length * dtype.itemsize).astype(np.uint8)
    keys = NUMPY.empty(length, dtype)
    keys.view(np.uint8)[...] = raw
    return np.nan_to_num(keys, nan=np.inf) if dtype.kind == "f" else keys


def numbers(keys: Any) -> list[Any]:
    """Keys as Python compares them."""
    if keys.dtype != WIDE:
        return list(keys.tolist())
    return [int.from_bytes(key.tobytes(), "little") for key in keys]


@pytest.mark.parametrize("dtype", [*KEYS, WIDE], ids=str)
@pytest.mark.parametrize("shards", [1, 2, 5, 6, 300])
def test_every_key_goes_to_the_shard_between_its_splitters(dtype: DType, shards: int) -> None:
    keys = keys_of(dtype, 500)
    for layout in (
        even_layout(shards, dtype),
        Layout(1, tuple(range(shards)), quantiles(keys, shards)),
    ):
        splitters = numbers(layout.splitters)
        assert splitters == sorted(splitters) and len(splitters) == shards - 1
        # Keys that are equal to a splitter are among those asked for.
        for asked in (keys, layout.splitters):
            expected = [sum(key >= splitter for splitter in splitters) for key in numbers(asked)]
            assert layout.places(asked).tolist() == expected


@pytest.mark.parametrize("dtype", [*KEYS, WIDE, np.dtype("c16")], ids=str)
@pytest.mark.parametrize("shards", [1, 2, 7, 256, 1_000])
@pytest.mark.parametrize("length", [0, 1, 2, 999, 70_000])
def test_what_is_divided_can_be_put_together_again(dtype: DType, shards: int, length: int) -> None:
    array = keys_of(dtype, length)
    random = np.random.default_rng(length).integers(0, shards, length)
    for places in (random, np.sort(random), random[::-1], np.full(length, shards - 1)):
        division = Division(places, shards)
        parts = division.parts(array)
        assert list(parts) == division.used == np.unique(places).tolist()
        for place, part in parts.items():
            assert part.tobytes() == array[places == place].tobytes()
        again = NUMPY.empty(length, dtype)
        division.gather(again, parts)
        assert again.tobytes() == array.tobytes()
