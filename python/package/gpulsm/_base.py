"""What dictionaries and snapshots have in common beside their queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulsm._arrays import read
from gpulsm._call import INT64, Call, listed
from gpulsm._errors import OutOfRangeError
from gpulsm._families import HOST, NUMPY, DType, Place, describe
from gpulsm._given import Given
from gpulsm._keys import KeyType, describe_key, read_keys, read_ranges, spec_of
from gpulsm._layouts import Layout
from gpulsm._native import Store
from gpulsm._stats import Stats
from gpulsm._types import Closed, Combine


class Base:
    """A dictionary of the native half, with the types of its keys and values."""

    def __init__(
        self, store: Store, key: KeyType, value: DType | None, settings: dict[str, Any]
    ) -> None:
        self._store = store
        self._key = key
        self._value = value
        self._settings = settings
        self._place = place_of_device(store.device)

    @property
    def device(self) -> str:
        """Where it is: 'cpu', 'cuda' or 'cuda:N'; with commas between several."""
        return self._store.device

    @property
    def devices(self) -> list[str]:
        """The device of each shard, in the order of their keys: one, unless several were given."""
        return self._store.device.split(",")

    @property
    def key_dtype(self) -> DType | tuple[DType, ...]:
        """The type of keys; of those of several parts, a tuple of types."""
        return spec_of(self._key)

    @property
    def value_dtype(self) -> DType | None:
        """The type of values; None for a set."""
        return self._value

    @property
    def batch_size(self) -> int:
        """The size of call that it is laid out for."""
        size: int = self._settings["batch_size"]
        return size

    @property
    def combine(self) -> Combine:
        """What an insert does to a key that is already there: 'replace', 'add', …"""
        rule: Combine = self._settings["combine"][0]
        return rule

    def stats(self) -> Stats:
        """Returns what the levels hold, and how many bytes that takes.

        Returns
        -------
        Stats
            Figures; printed, a picture of the levels.

        Examples
        --------
        >>> import gpulsm, numpy as np
        >>> d = gpulsm.Dictionary.build(np.arange(100_000), np.arange(100_000), device="cpu")
        >>> print(d.stats())
        100,000 keys on cpu, 0 stale entries, 1,653,632 bytes
        level 11  ███████████████████░░░░░        100,000 of 131,072
        """
        return Stats._of(self._store.stats())

    def flush(self) -> None:
        """Applies the buffered batches now, as the next query would.

        Raises
        ------
        OutOfMemoryError
            If there is no room for them; they stay buffered.
        """
        self._store.flush()

    def synchronize(self) -> None:
        """Applies the buffered batches and waits until the device has done all that was begun.

        On a GPU, applying a batch only begins it.

        Raises
        ------
        CudaError
            If any of it failed.
        """
        self._store.synchronize()

    def validate(self) -> None:
        """Checks the whole structure, for tests.

        Raises
        ------
        AssertionError
            If it breaks any of its rules.
        """
        self._store.validate()

    def __len__(self) -> int:
        return self._store.len()

    def __str__(self) -> str:
        return self._store.summary()[1]

    def __repr__(self) -> str:
        name = type(self).__name__
        length = self._store.summary()[0]
        what = "key" if self._value is None else "pair"
        if self._store.is_closed:
            much = f"{what}s, closed"
        elif self._store.is_from_before_fork:
            much = f"{what}s, made before this process was forked and of no use in it"
        elif length is None:
            much = f"{what}s that are not counted yet"
        else:
            much = f"{length:,} {what}{'' if length == 1 else 's'}"
        rule = "" if self.combine == "replace" else f", combine={self.combine!r}"
        value = "" if self._value is None else f", value={describe(self._value)!r}"
        types = f"key={self._key_text()}{value}{rule}"
        return f"<gpulsm.{name} of {much}, {types}, {self._where()}>"

    def _where(self) -> str:
        """Where it is, as its representation says."""
        return f"device={self.device!r}"

    def _key_text(self) -> str:
        """The type of keys as `Dictionary` takes it."""
        key = self._key
        parts = key.parts if isinstance(key, Layout) else (key,)
        texts = ", ".join(repr(describe(part)) for part in parts)
        return f"({texts})" if len(parts) > 1 else texts

    def _call(self, *given: Given) -> Call:
        return Call(self._place, *given)

    def _keys(self, name: str, given: Any) -> Given:
        return read_keys(name, given, self._key, self._place)

    def _possible_keys(self, name: str, given: Any) -> Given | None:
        """Keys; None for one scalar that the type can't hold, which is not there."""
        try:
            return self._keys(name, given)
        except OutOfRangeError as error:
            if error.above is None:
                raise
            self._check_open()
            return None

    def _check_open(self) -> None:
        if self._store.is_closed:
            raise ValueError("this dictionary is closed")

    def _read_default(self, default: Any) -> Given:
        """The value of what is missing."""
        if self._value is None:
            raise TypeError(f"default: expected none, for a set has no values; {self._why_a_set()}")
        item = read("default", default, self._value)
        if not item.is_scalar:
            raise TypeError(f"default: expected one {describe(self._value)}, got an array")
        return item

    def _ranges(self, lo: Any, hi: Any, closed: Closed) -> Call:
        return self._call(*read_ranges(lo, hi, closed, self._key, self._place))

    def _one(self, name: str, key: Any) -> Given:
        """One key, where an array makes no sense."""
        expected = f"{name}: expected one {describe_key(self._key)}"
        takes_text = (
            isinstance(self._key, Layout) or self._key.kind in "Mm"
        )  # To say what is wrong.
        if key is None or (isinstance(key, str) and not takes_text):
            raise TypeError(f"{expected}, got {type(key).__name__}")
        given = self._keys(name, key)
        if not given.is_scalar:
            raise TypeError(
                f"{expected}, got an array; "
                "`lookup`, `contains`, `insert`, `set` and `delete` take arrays"
            )
        return given

    def _possible_one(self, key: Any, *, is_foreign_absent: bool = False) -> Given | None:
        """One key; None for a number that the type can't hold, which is not there. For `in` and `get`, which do as those of
        a dict, also for what is no key of this type at all; and 1.0 is 1."""
        try:
            return self._one("key", key)
        except OutOfRangeError:
            pass
        except (TypeError, ValueError):
            # What a dict would not take for a key either is no question.
            is_array = hasattr(key, "__len__") and not isinstance(key, (str, bytes, tuple))
            if is_array or not is_foreign_absent:
                raise
            integer = _integer_of(key)
            if integer is not None:
                return self._possible_one(integer, is_foreign_absent=True)
        self._check_open()
        return None

    def _zero(self, dtype: DType | None) -> Any:
        """What an answer has where there is nothing to say."""
        return None if dtype is None else listed(NUMPY.zeros(1, dtype))[0]

    def _check_has_values(self) -> None:
        if self._value is None:
            raise TypeError(
                "a set has no values: `in` and `contains` say what is there, `insert` adds to it; "
                f"{self._why_a_set()}"
            )

    def _why_a_set(self) -> str:
        """What makes a dictionary a set, for who wanted one with values."""
        return "it is a set because it was made without a `value` type, such as value='float64'"


def _integer_of(key: Any) -> Any:
    """The integers that a key is equal to, if some are of other types."""
    if isinstance(key, tuple):
        parts = tuple(_integer_of(part) for part in key)
        if all(part is None for part in parts):
            return None
        return tuple(own if part is None else part for own, part in zip(key, parts, strict=True))
    is_number = isinstance(key, (float, np.floating, bool, np.bool_))
    return int(key) if is_number and np.isfinite(key) and key == int(key) else None


def read_indices(given: Any) -> Given:
    """Places in the order of keys."""
    return read("indices", given, INT64)


def whole(name: str, number: Any, least: int, most: int = (1 << 63) - 1) -> int:
    """An integer between two others."""
    # NumPy counts its times among the integers.
    if not isinstance(number, (int, np.integer)) or isinstance(number, (bool, np.timedelta64)):
        wanted = "a number of bytes, such as 2**30" if name.endswith("_limit") else "an integer"
        raise TypeError(f"{name}: expected {wanted}, got {type(number).__name__}")
    if not least <= number <= most:
        raise ValueError(f"{name}: expected a number from {least} to {most:,}, got {number:,}")
    return int(number)


def place_of_device(device: str) -> Place:
    """The number of the GPU that a device's name means; of several devices, the first that is a GPU."""
    gpus = (name for name in device.split(",") if name != "cpu")
    first = next(gpus, None)
    return HOST if first is None else int(first.partition(":")[2] or 0)
