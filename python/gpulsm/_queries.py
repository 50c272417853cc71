"""Everything that a dictionary, or a snapshot of one, can be asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from gpulsm._arrays import Given, OutOfRange, read
from gpulsm._call import BOOL, INT64, Call, check_lengths, listed
from gpulsm._families import HOST, DType, Place, describe
from gpulsm._families import like as family_like
from gpulsm._native import Store
from gpulsm._stats import Stats

if TYPE_CHECKING:
    import pandas
    import pyarrow


class _Column(Protocol):
    """A column of a table: pandas's, PyArrow's, Polars's."""

    def to_numpy(self) -> Any: ...


class _SharesMemory(Protocol):
    """An array of any library that lends its memory: CuPy's, PyTorch's, JAX's, …"""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...


#: One key, one index, or one end of a range.
Scalar: TypeAlias = "int | float | np.generic"
#: What is answered with NumPy's arrays.
Host: TypeAlias = "NDArray[Any] | Sequence[Any] | _Column"
A = TypeVar("A", bound=_SharesMemory)

#: How many keys iterating reads at a time.
_CHUNK = 1 << 14


class Queries:
    """What `Dictionary` and `Snapshot` answer.

    Every query takes a whole array of questions, or one scalar. Answers come back in the family of the
    array that was given: NumPy in, NumPy out; CuPy in, CuPy out; a torch tensor in, tensors on its
    device out. What is asked with arrays on a GPU is put on the caller's current stream and not waited
    for.

    Of a set (`value=None`) all values are None.
    """

    def __init__(self, store: Store, key: DType, value: DType | None) -> None:
        self._store = store
        self._key = key
        self._value = value
        self._place = place_of_device(store.device)

    @property
    def device(self) -> str:
        """Where it is: 'cpu', 'cuda' or 'cuda:N'."""
        return self._store.device

    @property
    def key_dtype(self) -> DType:
        """The type of keys."""
        return self._key

    @property
    def value_dtype(self) -> DType | None:
        """The type of values; None for a set."""
        return self._value

    @overload
    def lookup(self, keys: Scalar) -> tuple[Any, bool]: ...
    @overload
    def lookup(self, keys: Host) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def lookup(self, keys: A) -> tuple[A, A]: ...
    def lookup(self, keys: Any) -> Any:
        """For each key its value, and whether it is there; values where it is not are 0.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> values, found = d.lookup(np.array([20, 25, 30]))
        >>> values.tolist(), found.tolist()
        ([2, 0, 3], [True, False, True])
        >>> d.lookup(10)
        (1, True)
        """
        call = self._call(self._keys("keys", keys))
        values, found = call.room(self._value), call.room(BOOL)
        [at] = call.spans
        self._store.lookup(at, values.span, found.span, call.stream)
        return call.answer(values), call.answer(found)

    @overload
    def contains(self, keys: Scalar) -> bool: ...
    @overload
    def contains(self, keys: Host) -> NDArray[np.bool_]: ...
    @overload
    def contains(self, keys: A) -> A: ...
    def contains(self, keys: Any) -> Any:
        """For each key whether it is there.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.contains([10, 11]).tolist()
        [True, False]
        """
        call = self._call(self._keys("keys", keys))
        found = call.room(BOOL)
        [at] = call.spans
        self._store.contains(at, found.span, call.stream)
        return call.answer(found)

    @overload
    def count(self, lo: Scalar, hi: Scalar) -> int: ...
    @overload
    def count(self, lo: Host, hi: Host | Scalar) -> NDArray[np.int64]: ...
    @overload
    def count(self, lo: Scalar, hi: Host) -> NDArray[np.int64]: ...
    @overload
    def count(self, lo: A, hi: A | Scalar) -> A: ...
    @overload
    def count(self, lo: Scalar, hi: A) -> A: ...
    def count(self, lo: Any, hi: Any) -> Any:
        """For each i, how many keys k there are with lo[i] <= k <= hi[i]; none if lo[i] > hi[i]. A scalar
        beside an array goes with each of its elements.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.count([0, 15], [100, 25]).tolist()
        [3, 1]
        >>> d.count(15, 100)
        2
        """
        call = self._ranges(lo, hi)
        counts = call.room(INT64)
        first, last = call.spans
        self._store.count((first, last), counts.span, call.stream)
        return call.answer(counts)

    @overload
    def range(
        self, lo: Host | Scalar, hi: Host | Scalar
    ) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]: ...
    @overload
    def range(self, lo: A, hi: A | Scalar) -> tuple[A, A, A]: ...
    @overload
    def range(self, lo: Scalar, hi: A) -> tuple[A, A, A]: ...
    def range(self, lo: Any, hi: Any) -> Any:
        """The pairs with lo[i] <= key <= hi[i], in key order, for all i end to end.

        Returns `offsets, keys, values`: answer i is `keys[offsets[i]:offsets[i + 1]]`, and likewise of
        the values. The answer to two scalars are arrays too. (With arrays on a GPU this is the one
        query that waits, to know how much there is.)

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> offsets, keys, values = d.range([0, 15], [15, 100])
        >>> offsets.tolist(), keys.tolist(), values.tolist()
        ([0, 1, 3], [10, 20, 30], [1, 2, 3])
        """
        call = self._ranges(lo, hi)
        first, last = call.spans
        # The same dictionary must answer twice: how many there are, and which.
        frozen = self._store.copy()
        offsets = call.room(INT64, call.length + 1)
        total = frozen.range_offsets((first, last), offsets.span, call.stream)
        keys, values = call.room(self._key, total), call.room(self._value, total)
        frozen.range((first, last), offsets.span, (keys.span, values.span), call.stream)
        return offsets.array, keys.array, values.array

    @overload
    def successor(self, keys: Scalar) -> tuple[Any, Any, bool]: ...
    @overload
    def successor(self, keys: Host) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def successor(self, keys: A) -> tuple[A, A, A]: ...
    def successor(self, keys: Any) -> Any:
        """For each key the nearest pair whose key is not less, and whether there is one.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> d.successor(11)
        (20, 2, True)
        >>> keys, values, found = d.successor([20, 31])
        >>> keys.tolist(), found.tolist()
        ([20, 0], [True, False])
        """
        return self._pairs("successor", self._keys("keys", keys))

    @overload
    def predecessor(self, keys: Scalar) -> tuple[Any, Any, bool]: ...
    @overload
    def predecessor(self, keys: Host) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def predecessor(self, keys: A) -> tuple[A, A, A]: ...
    def predecessor(self, keys: Any) -> Any:
        """For each key the nearest pair whose key is not greater, and whether there is one.

        >>> import gpulsm, numpy as np
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).predecessor(29)
        (20, 2, True)
        """
        return self._pairs("predecessor", self._keys("keys", keys))

    @overload
    def select(self, indices: Scalar) -> tuple[Any, Any, bool]: ...
    @overload
    def select(self, indices: Host) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]: ...
    @overload
    def select(self, indices: A) -> tuple[A, A, A]: ...
    def select(self, indices: Any) -> Any:
        """For each index (int64) the pair at that place in key order, counted from 0, and whether there
        is one; there is none at a negative index.

        >>> import gpulsm, numpy as np
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).select(0)
        (10, 1, True)
        """
        return self._pairs("select", read("indices", indices, INT64))

    @overload
    def rank(self, keys: Scalar) -> int: ...
    @overload
    def rank(self, keys: Host) -> NDArray[np.int64]: ...
    @overload
    def rank(self, keys: A) -> A: ...
    def rank(self, keys: Any) -> Any:
        """For each key, how many keys are less.

        >>> import gpulsm, numpy as np
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).rank([5, 20, 99]).tolist()
        [0, 1, 3]
        """
        call = self._call(self._keys("keys", keys))
        ranks = call.room(INT64)
        [at] = call.spans
        self._store.rank(at, ranks.span, call.stream)
        return call.answer(ranks)

    def __len__(self) -> int:
        return self._store.len()

    def __contains__(self, key: Scalar) -> bool:
        try:
            return bool(self.contains(self._one("key", key)))
        except OutOfRange:
            return False

    def __getitem__(self, key: Scalar) -> Any:
        self._check_has_values()
        try:
            value, found = self.lookup(self._one("key", key))
        except OutOfRange:
            raise KeyError(key) from None
        if not found:
            raise KeyError(key)
        return value

    def get(self, key: Scalar, default: Any = None) -> Any:
        """The value of one key, or `default`. An array of many costs far less than many of one.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build([10], [1])
        >>> d.get(10), d.get(11), d.get(11, 0)
        (1, None, 0)
        """
        self._check_has_values()
        try:
            value, found = self.lookup(self._one("key", key))
        except OutOfRange:
            return default
        return value if found else default

    def __iter__(self) -> Iterator[Any]:
        """The keys in ascending order, as they are when iterating begins."""
        frozen = self._frozen()
        for start in range(0, len(frozen), _CHUNK):
            yield from frozen._pairs_at(start)[0].tolist()

    def __reversed__(self) -> Iterator[Any]:
        """The keys in descending order, as they are when iterating begins."""
        frozen = self._frozen()
        for start in reversed(range(0, len(frozen), _CHUNK)):
            yield from reversed(frozen._pairs_at(start)[0].tolist())

    def _pairs_at(self, start: int) -> tuple[Any, Any]:
        """A few keys from a place in their order on, and their values."""
        end = min(start + _CHUNK, len(self))
        keys, values, _ = self.select(np.arange(start, end, dtype=np.int64))
        return keys, values

    def first(self) -> tuple[Any, Any] | None:
        """The pair with the least key, or None.

        >>> import gpulsm, numpy as np
        >>> gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).first()
        (10, 1)
        """
        return self._end(self.successor, lowest=True)

    def last(self) -> tuple[Any, Any] | None:
        """The pair with the greatest key, or None."""
        return self._end(self.predecessor, lowest=False)

    def items(self) -> Items:
        """Returns the pairs in ascending key order, as a mapping's `items()` does: to iterate over, to
        count, and to ask whether a pair is among them. It sees later changes of the dictionary; an
        iteration does not.

        `arrays()` returns all keys and all values at once, which is much faster than a loop.

        >>> import gpulsm
        >>> d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2])
        >>> [key + value for key, value in d.items()]
        [11, 22, 33]
        >>> (20, 2) in d.items()
        True
        """
        self._check_has_values()
        return Items(self)

    @overload
    def arrays(self, like: None = None) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def arrays(self, like: Any) -> tuple[Any, Any]: ...
    def arrays(self, like: Any = None) -> Any:
        """Returns every key and every value, in key order, as two arrays.

        `like` names the family they come in ('numpy', the default, 'cupy' or 'torch'), or is an array
        of it.

        >>> import gpulsm, numpy as np
        >>> keys, values = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2]).arrays()
        >>> keys.tolist(), values.tolist()
        ([10, 20, 30], [1, 2, 3])
        """
        family = family_like(like, self._place)
        lo, hi = (family.full(1, self._key, end) for end in self._bounds())
        _, keys, values = self.range(lo, hi)
        return keys, values

    @overload
    def keys(self, like: None = None) -> NDArray[Any]: ...
    @overload
    def keys(self, like: Any) -> Any: ...
    def keys(self, like: Any = None) -> Any:
        """Every key, in order, as one array; `like` as in `arrays`."""
        return self.arrays(like)[0]

    @overload
    def values(self, like: None = None) -> NDArray[Any]: ...
    @overload
    def values(self, like: Any) -> Any: ...
    def values(self, like: Any = None) -> Any:
        """Every value, in the order of their keys, as one array; `like` as in `arrays`."""
        return self.arrays(like)[1]

    def to_arrow(self) -> pyarrow.Table:
        """Every pair as a PyArrow table with the columns `key` and `value`."""
        from gpulsm._tables import to_arrow

        return to_arrow(*self.arrays())

    def to_pandas(self) -> pandas.DataFrame:
        """Every pair as a pandas data frame with the columns `key` and `value`; where a value is a few
        numbers or a structure, a column for each of its parts (`value_0`, …, or `value_name`)."""
        from gpulsm._tables import to_pandas

        return to_pandas(*self.arrays())

    def stats(self) -> Stats:
        """What the levels hold, and how many bytes that takes.

        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build(np.arange(100_000), np.arange(100_000), device="cpu")
        >>> print(d.stats())
        100,000 keys on cpu, 0 stale entries, 1,653,632 bytes
        level 11  ███████████████████░░░░░        100,000 of 131,072
        """
        return Stats._of(self._store.stats())

    def settle(self) -> None:
        """Takes in the batches that wait, as the next query would."""
        self._store.settle()

    def synchronize(self) -> None:
        """Takes in the batches that wait, waits until all that was begun is done, and says if any of it
        failed. On a GPU, taking in a batch only begins it."""
        self._store.synchronize()

    def validate(self) -> None:
        """For tests: an AssertionError if the structure breaks any of its rules."""
        self._store.validate()

    def __str__(self) -> str:
        return self._store.summary()[1]

    def __repr__(self) -> str:
        name, key = type(self).__name__, describe(self._key)
        value = None if self._value is None else describe(self._value)
        length = self._store.summary()[0]
        what = "key" if self._value is None else "pair"
        if length is None:
            much = f"{what}s that are not counted yet"
        else:
            much = f"{length:,} {what}{'' if length == 1 else 's'}"
        return f"<gpulsm.{name} of {much}, key={key!r}, value={value!r}, device={self.device!r}>"

    def _frozen(self) -> Queries:
        return Queries(self._store.copy(), self._key, self._value)

    def _call(self, *given: Given) -> Call:
        return Call(self._place, *given)

    def _keys(self, name: str, given: Any) -> Given:
        return read(name, given, self._key)

    def _ranges(self, lo: Any, hi: Any) -> Call:
        first, last = self._keys("lo", lo), self._keys("hi", hi)
        check_lengths(first, last)
        return self._call(first, last)

    def _pairs(self, which: str, given: Given) -> Any:
        call = self._call(given)
        keys, values, found = call.room(self._key), call.room(self._value), call.room(BOOL)
        [at] = call.spans
        self._store.pairs(which, at, (keys.span, values.span), found.span, call.stream)
        return call.answer(keys), call.answer(values), call.answer(found)

    def _one(self, name: str, key: Any) -> Any:
        """One key, where an array makes no sense."""
        if isinstance(key, slice):
            raise TypeError(
                f"{name}: expected one {describe(self._key)}; `range(lo, hi)` lists pairs"
            )
        if key is None or isinstance(key, str):
            kind = type(key).__name__
            raise TypeError(f"{name}: expected one {describe(self._key)}, got {kind}")
        if not read(name, key, self._key).is_scalar:
            raise TypeError(
                f"{name}: expected one {describe(self._key)}, got an array; "
                "`lookup`, `contains`, `insert` and `delete` take arrays"
            )
        return key

    def _check_has_values(self) -> None:
        if self._value is None:
            raise TypeError(
                "a set has no values: `in` and `contains` say what is there, `insert` adds to it"
            )

    def _bounds(self) -> tuple[Any, Any]:
        """The first and the last key that there can be; of floats, a NaN comes last."""
        if self._key.kind == "f":
            return -np.inf, np.nan
        limits = np.iinfo(self._key)
        return limits.min, limits.max

    def _end(self, nearest: Any, lowest: bool) -> tuple[Any, Any] | None:
        key, value, found = nearest(self._bounds()[0 if lowest else 1])
        return (key, value) if found else None


class Items:
    """The pairs of a dictionary or snapshot in ascending key order; made by `items()`."""

    def __init__(self, of: Queries) -> None:
        self._of = of

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        frozen = self._of._frozen()
        for start in range(0, len(frozen), _CHUNK):
            keys, values = frozen._pairs_at(start)
            yield from zip(keys.tolist(), listed(values), strict=True)

    def __reversed__(self) -> Iterator[tuple[Any, Any]]:
        frozen = self._of._frozen()
        for start in reversed(range(0, len(frozen), _CHUNK)):
            keys, values = frozen._pairs_at(start)
            yield from reversed([*zip(keys.tolist(), listed(values), strict=True)])

    def __contains__(self, pair: Any) -> bool:
        if not isinstance(pair, tuple) or len(pair) != 2:
            return False
        missing = object()
        value = self._of.get(pair[0], missing)
        return value is not missing and bool(np.all(value == pair[1]))

    def __repr__(self) -> str:
        return f"<the items of {self._of!r}>"


def place_of_device(device: str) -> Place:
    """The number of the GPU that a device's name means."""
    kind, _, number = device.partition(":")
    return HOST if kind == "cpu" else int(number or 0)
