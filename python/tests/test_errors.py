"""What can be wrong, what is said of it, and that nothing changed."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from families import Family
from mistakes import WRONG

import gpulsm


@pytest.mark.parametrize(
    ("call", "kind", "text"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_mistakes_are_named_and_change_nothing(
    call: Callable[[Any], Any], kind: type[Exception], text: str, device: str
) -> None:
    d = gpulsm.Dictionary("uint32", "float32", device=device)
    d.insert([5, 6], [0.5, 0.6])
    before = d.arrays()
    with pytest.raises(kind, match=text):
        call(d)
    for was, now in zip(before, d.arrays(), strict=True):
        assert was.tolist() == now.tolist()
    d.validate()


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        (
            {"key": "uint16"},
            TypeError,
            "key: expected one of uint32, uint64, .*, or 'S1' to 'S16' for bytes, got uint16",
        ),
        ({"key": ">u4"}, TypeError, "key: expected one of"),
        ({"key": ["uint32", "int64"]}, TypeError, "; a tuple of types makes keys of several parts"),
        (
            {"key": [("a", "u4"), ("b", "i8")]},
            TypeError,
            "; a tuple of types makes keys of several",
        ),
        ({"key": "nonsense"}, TypeError, "key: expected a type, such as .*, got 'nonsense'"),
        ({"key": "u32"}, TypeError, "got 'u32'; NumPy's name of that is 'uint32'$"),
        (
            {"key": datetime.datetime},
            TypeError,
            r"got <class 'datetime.datetime'>; times have a type such as 'datetime64\[us\]'",
        ),
        ({"key": polars.Int64}, TypeError, "key: expected a type, such as .*, got Int64$"),
        (
            {"value": "uint8"},
            TypeError,
            "value: expected a type of 4, 8 or 16 bytes, got uint8 of 1",
        ),
        ({"value": object}, TypeError, "value: expected plain data, got object"),
        ({"value": ">f8"}, TypeError, "value: expected this machine's byte order, got >f8"),
        (
            {"device": 0},
            TypeError,
            "device: expected a text such as 'cuda:0', or a list of them, got int",
        ),
        ({"threads": 2000}, ValueError, "threads: expected a number from 1 to 1,024, got 2,000"),
        ({"batch_size": 2**70}, ValueError, "batch_size: expected a number from 1 to"),
        ({"batch_size": 0}, ValueError, "batch_size: expected a number from 1 to [0-9,]+, got 0"),
        ({"batch_size": 2**41}, ValueError, "batch size of 2199023255552 is out of range"),
        ({"batch_size": 1.5}, TypeError, "batch_size: expected an integer, got float"),
        ({"threads": -1}, ValueError, "threads: expected a number from 1 to 1,024, got -1"),
        ({"memory_limit": -1}, ValueError, "memory_limit: expected"),
        (
            {"memory_limit": "1GB"},
            TypeError,
            r"memory_limit: expected a number of bytes, such as 2\*\*30, got str",
        ),
        (
            {"cleanup": "never"},
            ValueError,
            "cleanup: expected 'automatic' or 'manual', got 'never'",
        ),
        (
            {"device": "gpu"},
            ValueError,
            "`gpu` names no device: say `best`, `cpu`, `cuda` or `cuda:N`",
        ),
        ({"device": "cuda:99"}, gpulsm.CudaError, "no CUDA device 99"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        gpulsm.Dictionary(**settings)


def test_types_of_pandas_are_types() -> None:
    d = gpulsm.Dictionary(pandas.Int64Dtype(), pandas.Series([0.5], dtype="Float32").dtype)
    assert (d.key_dtype, d.value_dtype) == (np.int64, np.float32)
    d = gpulsm.Set((pandas.UInt32Dtype(), "S4"))
    assert d.key_dtype == (np.uint32, np.dtype("S4"))


def test_no_memory_is_an_error_that_changes_nothing(device: str) -> None:
    d = gpulsm.Dictionary("uint64", "uint64", device=device, memory_limit=1 << 20)
    d.insert(np.arange(1000, dtype=np.uint64), np.arange(1000, dtype=np.uint64))
    assert len(d) == 1000
    many = np.arange(1 << 18, dtype=np.uint64)
    with pytest.raises(gpulsm.OutOfMemoryError, match="out of memory: wanted"):
        d.insert(many, many)
        d.flush()
    assert len(d) == 1000 and d[999] == 999
    d.validate()


@pytest.mark.parametrize(
    ("hold", "name"),
    [
        (lambda d: d.snapshot(), "1 snapshot"),
        (lambda d: (d.copy(), d.snapshot().copy()), "1 snapshot and 1 clone"),
        (lambda d: d.snapshot().thaw(), "1 clone"),
        (lambda d: next(pairs := iter(d.items())) and pairs, "1 iterator"),
    ],
)
def test_who_holds_memory_is_named(hold: Callable[[Any], Any], name: str) -> None:
    keys = np.arange(1 << 20, dtype=np.uint64)
    d = gpulsm.Dictionary(
        "uint64", "uint64", device="cpu", memory_limit=16 << 20, batch_size=1 << 13
    )
    # More than half of the limit: no merge of all has room beside what is held.
    for some in np.array_split(keys[: 1 << 19], 64):
        d.insert(some, some)
    holder = hold(d)
    memory = d.stats().memory
    assert memory is not None and memory.shared == memory.runs + memory.filters
    assert sum(vars(memory.holders).values()) == len(name.split(" and "))
    with pytest.raises(
        gpulsm.OutOfMemoryError, match=f"are shared with {name}: drop the .* in place"
    ):
        for some in np.array_split(keys[1 << 19 :], 64):
            d.insert(some, some)
            d.flush()
    del holder
    memory = d.stats().memory
    assert memory is not None and memory.shared == 0
    d.validate()


def test_exceptions_are_those_of_python_too() -> None:
    for own, common in (
        (gpulsm.OutOfMemoryError, MemoryError),
        (gpulsm.CudaError, RuntimeError),
        (gpulsm.ThreadsError, RuntimeError),
        (gpulsm.ForkError, RuntimeError),
        (gpulsm.InternalError, RuntimeError),
        (gpulsm.DuplicateKeyError, ValueError),
        (gpulsm.OutOfRangeError, ValueError),
    ):
        assert issubclass(own, gpulsm.Error) and issubclass(own, common) and own.__doc__
        assert own.__name__ in gpulsm.__all__
    with pytest.raises(gpulsm.Error):
        gpulsm.Dictionary(device="cuda:99")


def test_arrays_of_a_family_are_checked_likewise(family: Family, device: str) -> None:
    d = gpulsm.Dictionary("int64", "float32", device=device)
    if family.on_gpu:
        with pytest.raises(TypeError, match="keys: expected int64, got int32"):
            d.lookup(family.make(np.zeros(3, np.int32)))
    else:
        assert len(family.read(d.lookup(family.make(np.zeros(3, np.int32)))[1])) == 3
    assert len(family.read(d.lookup(family.make(np.zeros(8, np.int64))[::2])[1])) == 4
    with pytest.raises(ValueError, match=r"keys: expected an array of shape \(n,\)"):
        d.lookup(family.make(np.zeros((2, 2), np.int64)))
    with pytest.raises(ValueError, match="keys: 2 keys but 1 value"):
        d.insert(family.make(np.zeros(2, np.int64)), family.make(np.zeros(1, np.float32)))
    assert len(d) == 0


def test_an_array_on_a_gpu_is_not_for_a_dictionary_on_the_cpu(family: Family) -> None:
    if not family.on_gpu:
        pytest.skip("the family is on the host")
    d = gpulsm.Dictionary("int64", "int64", device="cpu")
    with pytest.raises(ValueError, match="keys is on cuda:0 but the dictionary is on the CPU"):
        d.lookup(family.make(np.zeros(2, np.int64)))
    with pytest.raises(ValueError, match="like: CuPy arrays are on a GPU"):
        d.arrays(like="cupy")


def test_one_call_has_its_arrays_in_one_place(family: Family, device: str) -> None:
    if not family.on_gpu:
        pytest.skip("the family is on the host")
    d = gpulsm.Dictionary("int64", "int64", device=device)
    here, there = np.zeros(2, np.int64), family.make(np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="values is on the host but keys is on cuda:0"):
        d.insert(there, here)
    with pytest.raises(ValueError, match="hi is on cuda:0 but lo is on the host"):
        d.count(here, there)
