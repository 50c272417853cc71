"""What can be wrong, what is said of it, and that nothing changed."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from families import Family

import gpulsm

WRONG: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    (
        "dtype",
        lambda d: d.lookup(np.array([1], np.int64)),
        TypeError,
        r"keys: expected uint32, got int64; `.astype\('uint32'\)` converts it, if every element fits",
    ),
    ("byte order", lambda d: d.lookup(np.array([1], ">u4")), TypeError, "expected uint32, got >u4"),
    (
        "values' dtype",
        lambda d: d.insert(np.array([1], np.uint32), np.array([1], np.int32)),
        TypeError,
        "values: expected float32, got int32",
    ),
    (
        "shape",
        lambda d: d.lookup(np.zeros((2, 2), np.uint32)),
        ValueError,
        r"keys: expected an array of shape \(n,\), got one of shape \(2, 2\)",
    ),
    (
        "length",
        lambda d: d.insert([1, 2, 3], [1.0, 2.0]),
        ValueError,
        "keys: 3 keys but 2 values",
    ),
    (
        "one key, many values",
        lambda d: d.insert(1, [1.0, 2.0]),
        ValueError,
        "keys: 1 key but 2 values",
    ),
    ("ends", lambda d: d.count([1, 2], [3]), ValueError, "lo has 2 elements but hi has 1 element:"),
    (
        "ends of ranges",
        lambda d: d.range([1], [3, 4]),
        ValueError,
        "lo has 1 element but hi has 2",
    ),
    ("ends to delete", lambda d: d.delete_range([1], [3, 4]), ValueError, "hi has 2"),
    (
        "strides",
        lambda d: d.lookup(np.arange(10, dtype=np.uint32)[::2]),
        ValueError,
        "keys: expected a contiguous array; `numpy.ascontiguousarray` makes one",
    ),
    (
        "alignment",
        lambda d: d.lookup(np.frombuffer(b"\0" * 9, np.uint8)[1:].view(np.uint32)),
        ValueError,
        "keys: expected aligned elements",
    ),
    (
        "mask",
        lambda d: d.lookup(np.ma.masked_array(np.zeros(1, np.uint32), [True])),
        TypeError,
        "without a mask",
    ),
    (
        "range",
        lambda d: d.insert(-1, 0.5),
        gpulsm.OutOfRangeError,
        "keys is -1: uint32 goes from 0 to 4294967295",
    ),
    ("a float", lambda d: d.lookup(1.5), TypeError, "keys: expected uint32, got float 1.5"),
    (
        "a text",
        lambda d: d.lookup("1"),
        TypeError,
        "keys: expected uint32, or an array of it, got str",
    ),
    (
        "nothing",
        lambda d: d.lookup(None),
        TypeError,
        "keys: expected uint32, or an array of it, got NoneType",
    ),
    ("one key", lambda d: d[[1, 2]], TypeError, "key: expected one uint32, got an array"),
    (
        "no values",
        lambda d: d.insert([1]),
        TypeError,
        "values: expected float32; only a set has none",
    ),
    (
        "no pair",
        lambda d: d.update(insert=[1]),
        TypeError,
        r"insert: expected a tuple \(keys, values\), got list",
    ),
    (
        # Two keys, or a key and its value? This stored {10: 20.0} once.
        "two keys",
        lambda d: d.update(insert=[10, 20]),
        TypeError,
        r"insert: expected a tuple \(keys, values\), got list",
    ),
    (
        "three of them",
        lambda d: d.update(insert=([1], [1.0], [2])),
        TypeError,
        r"insert: expected a tuple \(keys, values\), got 3 of them",
    ),
    (
        "update",
        lambda d: d.update(insert=([1], [1.0, 2.0])),
        ValueError,
        "insert: 1 key but 2 values",
    ),
    (
        "update's keys",
        lambda d: d.update(insert=([-1], [1.0])),
        ValueError,
        r"insert\[0\]\[0\] is -1",
    ),
    (
        "update's deletes",
        lambda d: d.update(delete=np.zeros(1)),
        TypeError,
        "delete: expected uint32",
    ),
    (
        "times",
        lambda d: d.lookup(np.zeros(1, "M8[us]")),
        TypeError,
        r"got datetime64\[us\]; make the dictionary with key='datetime64\[us\]'",
    ),
    (
        "floats",
        lambda d: d.lookup(np.zeros(1)),
        TypeError,
        r"got float64; all of them are integers: `.astype\('uint32'\)` converts them",
    ),
    (
        "floats that are no integers",
        lambda d: d.lookup(np.array([1.0, 2.5])),
        TypeError,
        r"keys\[1\] is 2.5, which is no integer: round first, then `.astype\('uint32'\)`",
    ),
    (
        "a missing float",
        lambda d: d.lookup(np.array([1.0, np.nan])),
        TypeError,
        r"keys\[1\] is nan: leave it out, with its value, then `.astype\('uint32'\)`",
    ),
    (
        "a dict",
        lambda d: d.insert({1: 2.0}, 0.5),
        TypeError,
        r"got dict; `list\(….keys\(\)\)` and `list\(….values\(\)\)` make lists",
    ),
    ("one whole float", lambda d: d.lookup(1.0), TypeError, r"got float 1.0; `int\(…\)` converts"),
    ("infinity", lambda d: d.count(0, np.inf), TypeError, "None stands for an end .* that is open"),
    (
        "a moment",
        lambda d: d.lookup(datetime.datetime(2024, 1, 1)),
        TypeError,
        r"got datetime; make the dictionary with key='datetime64\[us\]'",
    ),
    (
        "a span of time",
        lambda d: d.lookup(np.timedelta64(5, "s")),
        TypeError,
        r"make the dictionary with key='timedelta64\[s\]'",
    ),
    (
        "spans of time",
        lambda d: d.lookup([np.timedelta64(5, "s")]),
        TypeError,
        r"keys\[0\] is of type timedelta64: expected uint32",
    ),
    (
        "a Timestamp",
        lambda d: d.lookup(pandas.Timestamp("2024-01-01")),
        TypeError,
        r"got Timestamp; make the dictionary with key='datetime64\[\ws\]'",
    ),
    (
        "a data frame",
        lambda d: d.lookup(pandas.DataFrame({"a": [1]})),
        TypeError,
        r"keys: expected one column, got a pandas DataFrame; `frame\['name'\]` is one, and "
        "`Dictionary.from_pandas` takes the table",
    ),
    (
        "a Polars data frame",
        lambda d: d.lookup(polars.DataFrame({"a": [1]})),
        TypeError,
        "got a polars DataFrame; .*`Dictionary.from_polars`",
    ),
    (
        "a table",
        lambda d: d.lookup(pyarrow.table({"a": [1]})),
        TypeError,
        "got a pyarrow Table; .*`Dictionary.from_arrow`",
    ),
    (
        "a column in a time zone",
        lambda d: d.lookup(pandas.Series(pandas.date_range("2024", periods=2, tz="Asia/Tokyo"))),
        TypeError,
        r"got some of Asia/Tokyo; `.dt.tz_convert\('UTC'\).dt.tz_localize\(None\)` makes",
    ),
    (
        "nulls",
        lambda d: d.insert(pandas.Series([1, None], dtype="UInt32"), [0.5, 0.5]),
        ValueError,
        r"got 1 missing value, the first at \[1\]; leave them out: `keep = keys.notna\(\)`, and "
        r"take `keys\[keep\]` with `values\[keep\]`, so that each key keeps its value",
    ),
    (
        "null values",
        lambda d: d.insert([1, 2], pandas.Series([1, None], dtype="Float32")),
        ValueError,
        r"`keep = values.notna\(\)`, and take `values\[keep\]` with `keys\[keep\]`",
    ),
    (
        "closed",
        lambda d: d.count(0, 1, closed="all"),
        ValueError,
        "closed: expected 'both', 'left'",
    ),
    (
        "duplicates",
        lambda d: d.insert([1], [1.0], duplicates="any"),
        ValueError,
        "duplicates: expected 'last', 'first' or 'error', got 'any'",
    ),
    (
        "a slice to assign to",
        lambda d: d.__setitem__(slice(1, 3), 0.5),
        TypeError,
        r"a slice of keys can't be assigned to: `insert\(keys, values\)` inserts",
    ),
    ("a step", lambda d: d[1:9:2], TypeError, r"no step, got 2: write `d\[a:b\]`"),
    ("arrays in a slice", lambda d: d[[1, 2] : 9], TypeError, "start: expected one uint32"),
    ("a default", lambda d: d.lookup([1], default="a"), TypeError, "default: expected float32"),
    ("defaults", lambda d: d.lookup([1], default=[1.0]), TypeError, "one float32, got an array"),
    ("too many", lambda d: d.nlargest(-1), ValueError, "n: expected a number from 0"),
    ("a set", lambda d: d.lookup({1}), TypeError, r"got set; `list\(…\)` makes a list of it"),
    ("bools among numbers", lambda d: d.lookup([5, True]), TypeError, r"keys\[1\] is of type bool"),
    (
        "ragged",
        lambda d: d.lookup([[1], [1, 2]]),
        TypeError,
        "keys: expected uint32: .*inhomogeneous",
    ),
    ("a text as a key", lambda d: "a" in d, TypeError, "key: expected one uint32, got str"),
    ("indices", lambda d: d.select(np.zeros(1, np.int32)), TypeError, "indices: expected int64"),
    ("missing", lambda d: d[77], KeyError, "77"),
    ("out of range", lambda d: d[-1], KeyError, "-1"),
    ("in a list", lambda d: [5] in d, TypeError, "key: expected one uint32, got an array"),
    ("by position", lambda d: d.update([1, 2], [3, 4]), TypeError, "positional"),
    ("a number too large", lambda d: d.insert([1], [1e40]), ValueError, r"values\[0\] is 1e\+40"),
    (
        "one too large",
        lambda d: d.insert([1], 1e40),
        ValueError,
        r"values is 1e\+40: float32 goes from",
    ),
    ("no number", lambda d: d.insert([1], [None]), TypeError, r"values\[0\] is of type NoneType"),
    (
        "a text for a number",
        lambda d: d.insert([1], ["1.5"]),
        TypeError,
        r"values\[0\] is of type str",
    ),
    ("deleting what is missing", lambda d: d.__delitem__(77), KeyError, "77"),
    (
        "merging",
        lambda d: d.merge_from({}),
        TypeError,
        "other: expected a Dictionary or a Snapshot",
    ),
    (
        "merging types",
        lambda d: d.merge_from(gpulsm.Dictionary("uint32", "int32", device="cpu")),
        TypeError,
        "other: expected keys and values of uint32 and float32",
    ),
    ("like", lambda d: d.arrays(like="jax"), ValueError, "like: expected 'numpy', 'cupy', 'torch'"),
    ("like a list", lambda d: d.arrays(like=[1]), ValueError, "or an array of those, got list"),
]


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
        ({"key": "uint16"}, TypeError, "key: expected one of uint32, uint64, .* got uint16"),
        ({"key": ">u4"}, TypeError, "key: expected one of"),
        ({"key": "nonsense"}, TypeError, "key: expected a type, got 'nonsense'"),
        (
            {"value": "uint8"},
            TypeError,
            "value: expected a type of 4, 8 or 16 bytes, or None, got uint8 of 1",
        ),
        ({"value": object}, TypeError, "value: expected plain data, got object"),
        ({"value": ">f8"}, TypeError, "value: expected this machine's byte order, got >f8"),
        ({"key": None}, TypeError, "key: expected one of uint32, .*, got None"),
        ({"device": 0}, TypeError, "device: expected a text such as 'cuda:0', got int"),
        ({"threads": 2000}, ValueError, "threads: expected a number from 1 to 1,024, got 2,000"),
        ({"batch_size": 2**70}, ValueError, "batch_size: expected a number from 1 to"),
        ({"batch_size": 0}, ValueError, "batch_size: expected a number from 1 to [0-9,]+, got 0"),
        ({"batch_size": 2**41}, ValueError, "batch size of 2199023255552 is out of range"),
        ({"batch_size": 1.5}, TypeError, "batch_size: expected an integer, got float"),
        ({"threads": -1}, ValueError, "threads: expected a number from 1 to 1,024, got -1"),
        ({"memory_limit": -1}, ValueError, "memory_limit: expected"),
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
    with pytest.raises(TypeError, match="keys: expected int64, got int32; `.* converts it"):
        d.lookup(family.make(np.zeros(3, np.int32)))
    with pytest.raises(ValueError, match="keys: expected a contiguous"):
        d.lookup(family.make(np.zeros(8, np.int64))[::2])
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


def unaligned(dtype: Any, length: int = 4) -> Any:
    """Zeros in memory that begins where no element should."""
    size = np.dtype(dtype).itemsize * length
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64 + 1
    return raw[start : start + size].view(dtype)


class Lends:
    """An array that only speaks DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Converts:
    """An array that only speaks NumPy's `__array__`."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


def _arrow(array: Any) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    buffers = [None, pyarrow.py_buffer(array.view(np.uint8))]
    return pyarrow.Array.from_buffers(pyarrow.int64(), len(array), buffers)


def _torch(array: Any) -> Any:
    return pytest.importorskip("torch").from_numpy(array)


def _numpy_copy(given: Any) -> Any:
    return np.asarray(given).copy()


UNALIGNED: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any], str]] = [
    ("numpy", lambda array: array, lambda array: array.copy(), ".copy()"),
    ("torch", _torch, lambda tensor: tensor.clone(), ".clone()"),
    ("dlpack", Lends, lambda array: np.from_dlpack(array).copy(), "numpy.from_dlpack(…).copy()"),
    ("memoryview", memoryview, _numpy_copy, "numpy.asarray(…).copy()"),
    ("__array__", Converts, _numpy_copy, "numpy.asarray(…).copy()"),
    ("pyarrow", _arrow, _numpy_copy, "numpy.asarray(…).copy()"),
    (
        "pyarrow chunks",
        lambda array: pytest.importorskip("pyarrow").chunked_array([_arrow(array)]),
        _numpy_copy,
        "numpy.asarray(…).copy()",
    ),
    (
        "pandas",
        lambda array: pytest.importorskip("pandas").Series(array, copy=False),
        lambda series: series.copy(),
        ".copy()",
    ),
]


@pytest.mark.parametrize(
    ("make", "cure", "named"), [row[1:] for row in UNALIGNED], ids=[row[0] for row in UNALIGNED]
)
def test_elements_that_are_not_aligned_are_refused_with_a_cure_that_works(
    make: Callable[[Any], Any], cure: Callable[[Any], Any], named: str, device: str
) -> None:
    d = gpulsm.Dictionary("int64", "int64", device=device)
    array = make(unaligned(np.int64))
    text = re.escape(f"keys: expected aligned elements; `{named}` makes them so")
    for call in (d.lookup, d.delete, lambda keys: d.insert(keys, 1), d.rank):
        with pytest.raises(ValueError, match=text):
            call(array)
    with pytest.raises(ValueError, match="values: expected aligned elements"):
        d.insert(np.arange(4), array)
    assert len(d) == 0
    d.insert(cure(array), cure(array))
    assert d.keys().tolist() == [0]


def test_a_tensor_over_someone_elses_bytes_is_checked_for_alignment(device: str) -> None:
    torch = pytest.importorskip("torch")
    d = gpulsm.Dictionary("int64", "int64", device=device)
    raw = bytearray(64)
    aligned, shifted = (
        torch.frombuffer(raw, dtype=torch.int64, count=7, offset=at) for at in (0, 4)
    )
    if aligned.data_ptr() % 8:
        pytest.skip("the bytes themselves are not aligned")
    assert not d.lookup(aligned)[1].any()
    with pytest.raises(ValueError, match="keys: expected aligned elements"):
        d.lookup(shifted)
    assert not d.lookup(shifted.clone())[1].any()
    assert len(d.lookup(shifted[:0])[1]) == 0  # Without an element nothing is out of place.


def test_a_panic_is_an_exception_that_changes_nothing(
    device: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RUST_BACKTRACE", raising=False)
    d = gpulsm.Dictionary("uint64", "uint64", device=device, batch_size=256)
    keys = np.arange(1000, dtype=np.uint64)
    d.insert(keys, keys * 2)
    snapshot = d.snapshot()
    for _ in range(2):
        with pytest.raises(
            gpulsm.InternalError, match=r"gpulsm panicked: on purpose, at .*typed\.rs"
        ) as raised:
            d._store.panic("on purpose")
        assert isinstance(raised.value, Exception)
        for part in (
            "a bug in gpulsm",
            "another thread changed an array",
            "dictionary is as it was",
        ):
            assert part in str(raised.value)
        # The lock that was held is free again, for queries and for updates.
        assert len(d) == len(snapshot) == 1000 and (d.lookup(keys)[0] == keys * 2).all()
        d.insert(keys, keys * 2)
        d.merge_from(snapshot)
        d.validate()
    assert capfd.readouterr().err == "", "the exception says it all"


def test_who_asks_for_a_backtrace_of_a_panic_gets_one(
    device: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    d = gpulsm.Dictionary(device=device)
    with pytest.raises(RuntimeError, match="gpulsm panicked: on purpose"):
        d._store.panic("on purpose")
    assert "on purpose" in capfd.readouterr().err
