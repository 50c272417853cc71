"""Dictionaries that live in folders, and how they are closed."""

from __future__ import annotations

import atexit
import sys
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakSet

from gpulsm._families import DType
from gpulsm._imports import Imports
from gpulsm._keys import KeyType
from gpulsm._native import Store

D = TypeVar("D", bound="Durable")


class Durable(Imports):
    """A dictionary that may live in a folder, where `gpulsm.open` found or created it."""

    def __init__(
        self,
        store: Store,
        key: KeyType,
        value: DType | None,
        settings: dict[str, Any],
        path: str | None = None,
    ) -> None:
        super().__init__(store, key, value, settings)
        self._path = path
        self._closes_itself = path is not None
        if path is not None:
            _in_folders.add(self)

    @property
    def path(self) -> str | None:
        """The folder that it lives in, as `gpulsm.open` was given it; None for a dictionary in memory."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether it was closed. Then all calls but `close` raise a `ValueError`."""
        return self._store.is_closed

    def checkpoint(self) -> None:
        """Writes everything into the folder that it lives in, so that its log begins anew. It does so by itself,
        in the background, when the log has grown long. Other calls wait meanwhile. A dictionary in memory does
        nothing.

        Raises
        ------
        OSError, OutOfMemoryError, UpdatesRefused
            If it fails. The files are as they were.

        Examples
        --------
        >>> import gpulsm, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with gpulsm.open(folder.name, "uint64", "float32") as d:
        ...     d.insert([1, 2], [0.5, 1.5])
        ...     d.checkpoint()
        >>> gpulsm.info(folder.name).updates  # In the log alone.
        0
        >>> folder.cleanup()
        """
        self._store.checkpoint()

    def sync(self) -> None:
        """Returns once all updates are on stable storage. `durability='os'` needs it; with 'batch' they are when
        they return, and with 'checkpoint', or in memory, it does nothing.

        Raises
        ------
        OSError
            If it fails. Nobody knows then which updates will be there after a crash, and others are refused until
            the dictionary is opened again.
        """
        self._store.sync()

    def close(self) -> None:
        """Makes everything durable and releases the folder, for others to open, and the memory. To close it again
        does nothing. Leaving a `with` block closes it, and so does the end of the program: but then nobody can
        catch what is raised. It goes to `sys.excepthook`, which prints it, what is not durable is lost, and the exit
        status is the program's own.

        Raises
        ------
        OSError, OutOfMemoryError, UpdatesRefused
            If it fails. It is still open, so that nothing is lost: make room and close it again, or `save` it
            elsewhere.

        Examples
        --------
        >>> import gpulsm
        >>> d = gpulsm.Dictionary()
        >>> d.close()
        >>> d.closed
        True
        >>> len(d)
        Traceback (most recent call last):
            ...
        ValueError: this dictionary is closed
        """
        self._store.close()

    def _where(self) -> str:
        where = super()._where()
        return where if self._path is None else f"{where}, path={self._path!r}"

    def _why_a_set(self) -> str:
        if self._path is None:
            return super()._why_a_set()
        return (
            f"the dictionary in {self._path!r} is a set because it was created without a `value` type; "
            "`gpulsm.open(…, key=…, value='float64')` creates one with values, in another folder"
        )

    def __del__(self) -> None:
        # Here and not in the native half, which would keep all threads waiting.
        if getattr(self, "_closes_itself", False) and not self._store.is_from_before_fork:
            self._store.close()

    def __enter__(self: D) -> D:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


#: What lives in folders, to be closed when the program ends: without a log, what was not closed is lost.
_in_folders: WeakSet[Durable] = WeakSet()


@atexit.register
def _close_all() -> None:
    failures = []
    for dictionary in list(_in_folders):
        if not dictionary._store.is_from_before_fork:
            try:
                dictionary.close()
            except Exception as error:  # The others are closed all the same.
                dictionary._closes_itself = False  # Once is enough.
                failures.append((dictionary._path, error))
    for path, failure in failures:
        print(
            f"gpulsm: the dictionary in {path!r} could not be closed at the end of the program, and what is not "
            "durable is lost; `close`, or a `with` block, raises the error where it can be handled:",
            file=sys.stderr,
        )
        # As `weakref.finalize` does; a traceback would lead only here.
        sys.excepthook(type(failure), failure.with_traceback(None), None)
