"""The types of a dictionary, as its files name them.

Files know the parts of keys, and the type of values by its name in Rust. Where NumPy's type does not follow from
that, as of times and structures, a note says what it is, as NumPy's own files do (`numpy.lib.format`).
"""

from __future__ import annotations

import ast
import math
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike

from gpulsm._families import DType, describe
from gpulsm._keys import KeyType, describe_key, stored_name
from gpulsm._layouts import Layout, kind_of
from gpulsm._settings import checked_rule, key_type, value_dtype
from gpulsm._types import Combine, KeyLike

_KEY_NOTE, _VALUE_NOTE = "numpy.key", "numpy.value"
#: NumPy's letters for kinds of parts.
_LETTERS = {"unsigned": "u", "signed": "i", "float": "f", "bytes": "S"}
#: Rust's letters for NumPy's kinds of numbers; times are signed integers.
_RUST_LETTERS = {"u": "u", "i": "i", "f": "f", "M": "i", "m": "i"}
#: Names in Rust of numbers, and of arrays of numbers.
_RUST_NAME = re.compile(r"([uif])(8|16|32|64)|\[([uif])(8|16|32|64); (\d+)\]")
#: The most bytes that a note can have.
_MOST_BYTES = (1 << 16) - 1


class Types(NamedTuple):
    """The types of a dictionary, and its rule of combining with the type of number that values consist of."""

    key: KeyType
    value: DType | None
    rule: tuple[str, str]

    def names(self) -> dict[str, Any]:
        """The types as the native half takes them, with what files call them."""
        return {
            "key": stored_name(self.key),
            "value_width": 0 if self.value is None else self.value.itemsize,
            "parts": [kind_of(part) for part in _parts(self.key)],
            "value": _rust_name(self.value),
            "notes": _notes(self.key, self.value),
        }


def new_types(key: KeyLike, value: DTypeLike | None, combine: Combine | None) -> Types:
    """The types of a dictionary to be created."""
    values = value_dtype(value)
    check_storable(values)
    return Types(key_type(key), values, checked_rule(combine or "replace", values))


def stored_types(
    path: str,
    stored: dict[str, Any],
    key: KeyLike | None,
    value: DTypeLike | None,
    combine: Combine | None,
) -> Types:
    """The types that files have; an error if the ones that are asked for, if any, are others."""
    notes = dict(stored["notes"])
    keys = _stored_key(path, stored["parts"], notes.get(_KEY_NOTE), key)
    values = _stored_value(path, stored, notes.get(_VALUE_NOTE), value)
    rule: tuple[str, str] = stored["combine"]
    if combine is not None and checked_rule(combine, values) != rule:
        raise ValueError(
            f"combine: expected {rule[0]!r}, as the dictionary in {path!r} has, got {combine!r}"
        )
    return Types(keys, values, rule)


def stored_key(stored: dict[str, Any]) -> KeyType | None:
    """The type of keys that files have; None if Python has no such type."""
    return _noted_key(stored["parts"], dict(stored["notes"]).get(_KEY_NOTE))


def stored_value(stored: dict[str, Any]) -> DType | None:
    """The type of values that files have; None for a set. Of an unknown one only the width counts."""
    noted = _noted_value(stored, dict(stored["notes"]).get(_VALUE_NOTE))
    return _value_of(stored["value"], stored["value_width"]) if noted is None else noted


def check_storable(value: DType | None) -> None:
    """An error unless files can name a type of values."""
    if value is not None and len(repr(_descr(value)).encode()) > _MOST_BYTES:
        raise ValueError(
            "value: the names of this type's fields are too long for a file; choose shorter ones"
        )


def _stored_key(
    path: str, parts: list[tuple[str, int]], note: str | None, given: KeyLike | None
) -> KeyType:
    keys = _noted_key(parts, note)
    if given is not None:
        wanted = key_type(given)
        is_stored_alike = note is None and [kind_of(part) for part in _parts(wanted)] == parts
        if _are_same(wanted, keys) or is_stored_alike:
            return wanted
    if keys is None:
        names = ", ".join(f"{kind} of {width} bytes" for kind, width in parts)
        noted = "" if note is None else f", in Python {note}"
        raise TypeError(
            f"the dictionary in {path!r} has keys ({names}{noted}) that this version can't read"
        )
    if given is not None:
        raise TypeError(
            f"key: expected {describe_key(keys)}, as the dictionary in {path!r} has, got {describe_key(wanted)}"
        )
    return keys


def _stored_value(
    path: str, stored: dict[str, Any], note: str | None, given: DTypeLike | None
) -> DType | None:
    name, width = stored["value"], stored["value_width"]
    values = _noted_value(stored, note) if note is not None else _value_of(name, width)
    wanted = value_dtype(given)
    if wanted is not None:
        is_stored_alike = note is None and wanted.itemsize == width
        if _are_same(wanted, values) or (is_stored_alike and name in (_rust_name(wanted), "")):
            return wanted
    if note is not None and values is None:
        raise TypeError(
            f"the dictionary in {path!r} has values of type {note}, which this version can't read"
        )
    if wanted is not None:
        has = "none" if values is None else describe(values)
        cure = "" if values is not None else "; it is a set: one with values needs another path"
        raise TypeError(
            f"value: expected {has}, as the dictionary in {path!r} has, got {describe(wanted)}{cure}"
        )
    return values


def _parts(key: KeyType) -> tuple[DType, ...]:
    return key.parts if isinstance(key, Layout) else (key,)


def _are_same(one: KeyType | None, other: KeyType | None) -> bool:
    """Whether both are there and equal; to NumPy None means float64."""
    return one is not None and type(one) is type(other) and one == other


def _notes(key: KeyType, value: DType | None) -> list[tuple[str, str]]:
    """What NumPy calls the types, where that does not follow from what files say in any case."""
    notes = []
    parts = _parts(key)
    if not _are_same(key, _key_of([kind_of(part) for part in parts])):
        notes.append((_KEY_NOTE, repr([_descr(part) for part in parts])))
    if value is not None and not _are_same(value, _value_of(_rust_name(value), value.itemsize)):
        notes.append((_VALUE_NOTE, repr(_descr(value))))
    return notes


def _descr(dtype: DType) -> Any:
    """A type as literals of Python, as `numpy.save` writes it."""
    if dtype.subdtype is not None:
        return (npy.dtype_to_descr(dtype.base), dtype.shape)
    return npy.dtype_to_descr(dtype)


def _noted_key(parts: list[tuple[str, int]], note: str | None) -> KeyType | None:
    """The type that a note names, or that the parts have; None if there is no such type."""
    if note is None:
        return _key_of(parts)
    try:
        noted = tuple(npy.descr_to_dtype(part) for part in ast.literal_eval(note))
        key = key_type(noted if len(noted) > 1 else noted[0])
    except (TypeError, ValueError, SyntaxError, IndexError):
        return None
    return key if [kind_of(part) for part in _parts(key)] == parts else None


def _noted_value(stored: dict[str, Any], note: str | None) -> DType | None:
    """The type that a note names; None if there is no such type."""
    if note is None:
        return None
    try:
        value = value_dtype(npy.descr_to_dtype(ast.literal_eval(note)))
    except (TypeError, ValueError, SyntaxError):
        return None
    return value if value is not None and value.itemsize == stored["value_width"] else None


def _key_of(parts: list[tuple[str, int]]) -> KeyType | None:
    """The type of keys of these parts; None if Python has no such type."""
    try:
        dtypes = tuple(np.dtype(f"{_LETTERS[kind]}{width}") for kind, width in parts)
        return key_type(dtypes if len(dtypes) > 1 else dtypes[0])
    except TypeError:
        return None


def _value_of(name: str, width: int) -> DType | None:
    """The type of values of this name in Rust; of an unknown one, plain bytes."""
    match = _RUST_NAME.fullmatch(name)
    if width == 0:
        return None
    if match is None or (one := _number(match)).itemsize != width:
        return np.dtype(f"V{width}")
    return one


def _number(match: re.Match[str]) -> DType:
    kind, bits, kind_of_each, bits_of_each, length = match.groups()
    if kind is not None:
        return np.dtype(f"{kind}{int(bits) // 8}")
    return np.dtype((f"{kind_of_each}{int(bits_of_each) // 8}", (int(length),)))


def _rust_name(value: DType | None) -> str:
    """The name in Rust of the type that values have there; empty if it has none."""
    if value is None:
        return "()"
    base, length = value.base, math.prod(value.shape)
    if base.kind == "c" and base.itemsize in (8, 16):
        base, length = np.dtype(f"f{base.itemsize // 2}"), 2 * length
    elif value.kind == "S":
        base, length = np.dtype("u1"), value.itemsize
    elif value.subdtype is None:
        length = 0
    letter = _RUST_LETTERS.get(base.kind)
    if letter is None or (letter == "f" and base.itemsize not in (4, 8)):
        return ""
    name = f"{letter}{8 * base.itemsize}"
    return f"[{name}; {length}]" if length else name
