"""Mistakes that users make: a call of a dictionary of uint32 and float32, the exception, and what it says."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow

import gpulsm

WRONG: list[tuple[str, Callable[[Any], Any], type[Exception], str]] = [
    (
        "dtype",
        lambda d: d.lookup(np.array([1, -1], np.int64)),
        gpulsm.OutOfRangeError,
        r"keys\[1\] is -1: uint32 goes from 0 to 4294967295",
    ),
    (
        "values' dtype",
        lambda d: d.insert(np.array([1, 2], np.uint32), np.array([1, 2**24 + 1])),
        ValueError,
        r"values\[1\] is 16777217, which float32 can't hold exactly",
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
    (
        "ranges as pairs",
        lambda d: d.count([(0, 24)]),
        ValueError,
        r"got one of shape \(1, 2\); the ends of ranges are two arrays, lo and hi$",
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
        "mask",
        lambda d: d.lookup(np.ma.masked_array(np.zeros(1, np.uint32), [True])),
        TypeError,
        r"without a mask; `.data` is one, and `~numpy.ma.getmaskarray\(…\)` says which",
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
        r"got float64; all of them are integers: `.astype\('int64'\)` makes a column of them, and then each is checked",
    ),
    (
        "floats that are no integers",
        lambda d: d.lookup(np.array([1.0, 2.5])),
        TypeError,
        r"keys\[1\] is 2.5, which is no integer: round first",
    ),
    (
        "a missing float",
        lambda d: d.lookup(np.array([1.0, np.nan])),
        TypeError,
        r"keys\[1\] is nan: take what `numpy.isfinite\(…\)` says first",
    ),
    (
        "no floats",
        lambda d: d.lookup(np.zeros(0)),
        TypeError,
        r"keys: expected uint32, got float64; all of them are integers: `.astype\('int64'\)`",
    ),
    (
        "objects",
        lambda d: d.lookup(np.array([1, None])),
        TypeError,
        r"keys: expected uint32, got object; `list\(…\)` is converted, if every element fits",
    ),
    (
        "a column of objects",
        lambda d: d.insert([1], pandas.Series([0.5], dtype=object)),
        TypeError,
        r"values: expected float32, got object; `list\(…\)` is converted",
    ),
    (
        "bytes",
        lambda d: d.lookup(b"abcd"),
        TypeError,
        r"keys: expected uint32, got bytes; `numpy.frombuffer\(…, 'uint32'\)` reads",
    ),
    (
        "a column of Polars",
        lambda d: d.lookup(polars.Series([1.0])),
        TypeError,
        r"got float64; all of them are integers: `.cast\(polars.UInt32\)` makes a column of them",
    ),
    (
        "a rounded integer",
        lambda d: d.insert([1, 2], [0.5, 2**24 + 1]),
        ValueError,
        r"values\[1\] is 16777217, which float32 can't hold exactly: `float\(…\)` says",
    ),
    (
        "a moment as a value",
        lambda d: gpulsm.Dictionary(device="cpu").insert([1], np.zeros(1, "M8[s]")),
        TypeError,
        r"values: .*; make the dictionary with value='datetime64\[s\]' for values that are times",
    ),
    (
        "a Timestamp as a value",
        lambda d: d.insert([1], pandas.Timestamp("2024-01-01")),
        TypeError,
        r"values: .* got Timestamp; make the dictionary with value='datetime64\[\w*s\]'",
    ),
    (
        "out of another type",
        lambda d: d.lookup([5, 6], out=(np.empty(2), np.empty(2, bool))),
        TypeError,
        r"out\[0\]: expected float32, got float64; `numpy.empty\(2, 'float32'\)` makes an array",
    ),
    (
        "two tuples",
        lambda d: d.update(insert=((5, 50), (6, 60))),
        TypeError,
        "insert: .* a tuple of two tuples, which might as well be pairs: give keys and values as lists",
    ),
    (
        "dict.update",
        lambda d: d.update({5: 6}),
        TypeError,
        r"no positional arguments, unlike `dict.update`: expected `update\(insert=\(keys, values\)",
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
        r"got Timestamp; make the dictionary with key='datetime64\[\w*s\]'",
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
        r"a slice of keys can't be assigned to: `set\(keys, values\)` assigns",
    ),
    ("a step", lambda d: d[1:9:2], TypeError, r"no step, got 2: write `d\[a:b\]`"),
    ("arrays in a slice", lambda d: d[[1, 2] : 9], TypeError, "start: expected one uint32"),
    ("a default", lambda d: d.lookup([1], default="a"), TypeError, "default: expected float32"),
    ("defaults", lambda d: d.lookup([1], default=[1.0]), TypeError, "one float32, got an array"),
    ("too many", lambda d: d.last(-1), ValueError, "n: expected a number from 0"),
    ("a set", lambda d: d.lookup({1}), TypeError, r"got set; `list\(…\)` makes a list of it"),
    ("bools among numbers", lambda d: d.lookup([5, True]), TypeError, r"keys\[1\] is of type bool"),
    (
        "ragged",
        lambda d: d.lookup([[1], [1, 2]]),
        TypeError,
        r"keys\[0\] is of type list: expected uint32",
    ),
    ("a text as a key", lambda d: d["a"], TypeError, "key: expected one uint32, got str"),
    ("indices", lambda d: d.select(np.zeros(1)), TypeError, "indices: expected int64"),
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
