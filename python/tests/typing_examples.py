"""What a type checker makes of the package. Checked by mypy (`mypy --strict`), never run."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import gpulsm


class Tensor:
    """Stands for an array of a library that is not installed."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...


def scalars(d: gpulsm.Dictionary) -> None:
    assert_type(d.lookup(5), tuple[Any, bool])
    assert_type(d.count(1, 2), int)
    assert_type(d.rank(1.5), int)
    assert_type(d.min(1, 2), tuple[Any, bool])
    assert_type(d.contains(1), bool)
    assert_type(d.successor(1), tuple[Any, Any, bool])
    assert_type(d.first(), tuple[Any, Any] | None)


def ends(d: gpulsm.Dictionary, keys: NDArray[np.uint32]) -> None:
    assert_type(d.count(None, 5), int)
    assert_type(d.count(), int)
    assert_type(d.count(keys, None, closed="left"), NDArray[np.int64])
    assert_type(d[1:5], tuple[NDArray[Any], NDArray[Any]])
    assert_type(d[5], Any)
    assert_type(d.lookup(np.datetime64("2024"), default=-1), tuple[Any, bool])
    assert_type(d.rank(keys, out=np.zeros(3, np.int64)), NDArray[np.int64])
    assert_type(d.pop_first(), tuple[Any, Any])
    assert_type(d.snapshot().thaw(), gpulsm.Dictionary)
    d.count(1, 2, closed="open")  # type: ignore[call-overload]
    d.insert(keys, 0, duplicates="any")  # type: ignore[arg-type]


def numpy(d: gpulsm.Dictionary, keys: NDArray[np.uint32]) -> None:
    assert_type(d.lookup(keys), tuple[NDArray[Any], NDArray[np.bool_]])
    assert_type(d.lookup([1, 2]), tuple[NDArray[Any], NDArray[np.bool_]])
    assert_type(d.count(keys, keys), NDArray[np.int64])
    assert_type(d.count(0, keys), NDArray[np.int64])
    assert_type(d.sum(keys, keys), NDArray[Any])
    assert_type(d.max(0, [1, 2]), tuple[NDArray[Any], NDArray[np.bool_]])
    assert_type(d.rank(keys), NDArray[np.int64])
    assert_type(d.range(0, 5), tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]])
    assert_type(d.select([0]), tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]])


def composites(d: gpulsm.Dictionary, symbols: NDArray[np.uint32], times: NDArray[np.int64]) -> None:
    gpulsm.Set(key=("uint32", "datetime64[ns]"))
    assert_type(d.lookup((symbols, times)), tuple[Any, Any])
    assert_type(d.count((symbols, times), (7, 5), closed="left"), Any)
    assert_type(d.count(*d.prefix_range(symbols)), Any)
    assert_type(d.range((7, 1), (7, 9)), tuple[Any, Any, Any])
    assert_type(d.successor(b"text"), tuple[Any, Any, Any])
    assert_type(d.asof((symbols, times), tolerance=5), tuple[Any, Any, Any])
    assert_type(d.asof(times), tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]])
    assert_type(d.asof(5, direction="nearest"), tuple[Any, Any, bool])
    assert_type(d[7, 100], Any)
    d.insert((symbols, times), 1.5)
    d.update(insert=((symbols, times), times), delete=(7, 100))
    d.asof(times, direction="left")  # type: ignore[call-overload]


def tensors(d: gpulsm.Snapshot, keys: Tensor) -> None:
    assert_type(d.lookup(keys), tuple[Tensor, Tensor])
    assert_type(d.count(keys, keys), Tensor)
    assert_type(d.count(0, keys), Tensor)
    assert_type(d.sum(keys, 9), Tensor)
    assert_type(d.min(keys, keys, out=(keys, keys)), tuple[Tensor, Tensor])
    assert_type(d.range(keys, 9), tuple[Tensor, Tensor, Tensor])
    assert_type(d.rank(keys), Tensor)
    assert_type(d.lookup(keys, out=(keys, keys)), tuple[Tensor, Tensor])
    assert_type(d.count(None, keys, closed="right"), Tensor)


def others(d: gpulsm.Dictionary) -> None:
    assert_type(d.snapshot(), gpulsm.Snapshot)
    assert_type(d.keys(), NDArray[Any])
    assert_type(d.arrays(), tuple[NDArray[Any], NDArray[Any]])
    gpulsm.Dictionary.build([1], [2], batchsize=3)  # type: ignore[call-arg]
    assert_type(d.stats().levels, tuple[gpulsm.LevelStats, ...])
    assert_type(gpulsm.devices(), list[str])
    d.snapshot().insert([1], [2])  # type: ignore[attr-defined]
    d.update([1], [2])  # type: ignore[arg-type]


def files(d: gpulsm.Dictionary) -> None:
    assert_type(gpulsm.Dictionary.from_file("a.csv", key="id", value=2), gpulsm.Dictionary)
    assert_type(d.insert_file(Path("a.csv"), missing="skip"), gpulsm.Imported)
    gpulsm.Dictionary.from_file("a.csv", key=["symbol", 2], key_type=("S4", "int64"))
    gpulsm.Dictionary.from_file("a.csv", key=1.5)  # type: ignore[arg-type]
    d.insert_file("a.csv", missing="drop")  # type: ignore[arg-type]
    d.snapshot().to_file("a.parquet", force=True)
    d.snapshot().insert_file("a.csv")  # type: ignore[attr-defined]


def dictionaries_in_files(d: gpulsm.Dictionary) -> None:
    key = ("uint32", "datetime64[ns]")
    with gpulsm.open(Path("prices"), key=key, value="float64", durability="os") as created:
        assert_type(created, gpulsm.Dictionary)
    with gpulsm.open("prices", key, "float64") as created:
        assert_type(created, gpulsm.Dictionary)
    with gpulsm.open("prices", threads=2) as opened:
        assert_type(opened, gpulsm.Dictionary | gpulsm.Set)
    assert_type(gpulsm.Set.open("seen", "int64"), gpulsm.Set)
    gpulsm.open("prices", durability="always")  # type: ignore[call-overload]
    assert_type(gpulsm.Dictionary.load("prices.gpulsm", device="cpu"), gpulsm.Dictionary)
    d.snapshot().save("prices.gpulsm", progress=lambda done, total: print(done / total))
    assert_type(d.path, str | None)
    assert_type(gpulsm.check("prices"), gpulsm.FileInfo)
    assert_type(gpulsm.info("prices").value_dtype, np.dtype[Any] | None)
    d.snapshot().checkpoint()  # type: ignore[attr-defined]
