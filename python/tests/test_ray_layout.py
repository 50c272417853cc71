"""How arrays are divided among shards and put together again, without a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray")

from gpulsm._families import NUMPY, WIDE, DType
from gpulsm.ray.layout import MAX_SHARDS, Division, Layout, even_layout, quantiles

SEVERAL_THREADS = 270_001  # Elements that several threads divide, if there are as many cores.
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


@pytest.mark.parametrize("dtype", [np.dtype("u1"), *KEYS, WIDE, np.dtype("c16")], ids=str)
@pytest.mark.parametrize("shards", [1, 2, 7, 256, 1_000])
@pytest.mark.parametrize("length", [0, 1, 2, 999, SEVERAL_THREADS])
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


@pytest.mark.parametrize("shards", [4, 20])
def test_many_keys_go_where_few_go(shards: int) -> None:
    for dtype in (*KEYS, WIDE):
        keys, layout = keys_of(dtype, SEVERAL_THREADS), even_layout(shards, dtype)
        places = [layout.places(keys[start : start + 999]) for start in range(0, len(keys), 999)]
        assert np.array_equal(layout.places(keys), np.concatenate(places))


def test_the_most_shards_there_may_be() -> None:
    layout = even_layout(MAX_SHARDS, np.dtype("u4"))
    keys = np.array([0, 2**32 - 1, 1, 2**32 - 2], np.uint32)
    for asked in (keys, np.sort(keys)):
        parts = Division(layout.places(asked), MAX_SHARDS).parts(asked)
        assert {place: sorted(part) for place, part in parts.items()} == {
            0: [0, 1],
            MAX_SHARDS - 1: [2**32 - 2, 2**32 - 1],
        }
    # One place more is for what is nowhere.
    assert Division(np.array([MAX_SHARDS, 0]), MAX_SHARDS + 1).used == [0, MAX_SHARDS]


def test_answers_that_miss_a_shard_leave_its_elements_alone() -> None:
    division = Division(np.array([2, 0, 1, 0]), 3)
    to = np.full(4, -1)
    division.gather(to, {0: np.array([10, 11]), 2: np.array([12])})
    assert to.tolist() == [12, 10, -1, 11]


def test_arrays_that_are_not_in_one_piece_are_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        Division(np.array([1, 0]), 2).gather(np.zeros(4)[::2], {0: np.ones(1), 1: np.ones(1)})
