"""The exceptions of the package.

An argument that can't be used raises a `TypeError` or a `ValueError`, and a key that is not there a
`KeyError`, as everywhere in Python. What is particular to gpulsm is below. After an exception of a call the
dictionary is as it was before, unless an `OSError` says that an update could not be made durable: it is there
until the program ends, and nobody knows whether it will be afterwards. `KeyboardInterrupt`, and what signal handlers raise, is raised when the call has
ended: its batch is applied.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """The base class of the package's own exceptions."""


class OutOfMemoryError(Error, MemoryError):
    """The device, or the dictionary's `memory_limit`, has no room for what a call needs."""


class CudaError(Error, RuntimeError):
    """A GPU can't be used, or reports an error."""


class ThreadsError(Error, RuntimeError):
    """The worker threads of the CPU engine could not be started."""


class CorruptFile(Error, ValueError):
    """A file of a dictionary does not hold what was written to it.

    Attributes
    ----------
    file
        The file.
    offset
        Where in the file, in bytes.
    """

    def __init__(self, message: str, file: str = "", offset: int = 0) -> None:
        super().__init__(message)
        self.file = file
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.file, self.offset)


class Locked(Error, RuntimeError):
    """The folder of a dictionary is open elsewhere, in this process or in another one.

    Attributes
    ----------
    path
        The folder.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.path)


class UpdatesRefused(Error, RuntimeError):
    """A dictionary in a folder can be queried, but not updated: a write failed before, and the message says what
    to do."""


class ForkError(Error, RuntimeError):
    """A dictionary was used in a process that was forked after it was made."""


class InternalError(Error, RuntimeError):
    """The native code panicked: a bug, or another thread changed an array during the call."""


class OutOfRangeError(Error, ValueError):
    """A key, an index or a value is less than the least that its type can hold, or greater than the greatest, or
    has more bytes.

    Attributes
    ----------
    above
        Whether it is greater, or has more bytes, if it is a scalar; None for an element of a list.
    """

    def __init__(self, message: str, above: bool | None = None) -> None:
        super().__init__(message)
        self.above = above


class DuplicateKeyError(Error, ValueError):
    """A call with `duplicates="error"` has a key twice.

    Attributes
    ----------
    key
        The first key that is repeated.
    positions
        Where it is: its first position and the next one.
    """

    def __init__(self, message: str, key: Any = None, positions: tuple[int, int] = (0, 0)) -> None:
        super().__init__(message)
        self.key = key
        self.positions = positions

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.key, self.positions)


for _error in (Error, *Error.__subclasses__()):
    _error.__module__ = "gpulsm"  # Where users find it.
