"""Snapshots of dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from gpulsm._keys import spec_of
from gpulsm._mapping import PairQueries, Queries

if TYPE_CHECKING:
    from gpulsm._dictionary import Dictionary
    from gpulsm._set import Set


class Snapshot(PairQueries):
    """A dictionary as it was at one moment, made by `Dictionary.snapshot`.

    It answers every query that the dictionary does, and any thread may query it while the dictionary
    changes. It can be pickled, and `thaw` makes a dictionary of it.
    """

    def thaw(self) -> Dictionary:
        """Returns a dictionary with the snapshot's pairs, to be changed. It shares the memory, and costs
        next to nothing.

        Examples
        --------
        >>> import gpulsm
        >>> before = gpulsm.Dictionary.build([1, 2], [10, 20]).snapshot()
        >>> d = before.thaw()
        >>> d[3] = 30
        >>> len(d), len(before)
        (3, 2)
        """
        from gpulsm._dictionary import Dictionary, of_store

        return of_store(Dictionary, self)

    def copy(self) -> Snapshot:
        """Returns another snapshot of the same moment."""
        return Snapshot(self._store.copy("snapshot"), self._key, self._value, self._settings)

    __copy__ = copy

    def __deepcopy__(self, _: Any) -> Snapshot:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        from gpulsm._dictionary import unpickle_snapshot

        return unpickle_snapshot, pickled(self)


class SetSnapshot(Queries, AbstractSet[Any]):
    """A set as it was at one moment, made by `Set.snapshot`. It answers every query that the set does, can be pickled,
    and `thaw` makes a set of it."""

    def thaw(self) -> Set:
        """Returns a set with the snapshot's keys, to be changed. It shares the memory."""
        from gpulsm._dictionary import of_store
        from gpulsm._set import Set

        return of_store(Set, self)

    def copy(self) -> SetSnapshot:
        """Returns another snapshot of the same moment."""
        return SetSnapshot(self._store.copy("snapshot"), self._key, None, self._settings)

    __copy__ = copy

    def __deepcopy__(self, _: Any) -> SetSnapshot:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        from gpulsm._set import unpickle_snapshot

        return unpickle_snapshot, pickled(self)

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> set[Any]:
        return set(keys)


def pickled(of: Queries) -> tuple[Any, ...]:
    """What unpickling makes a dictionary of."""
    keys, values = of.arrays()
    settings = {**of._settings, "device": of.device}
    rule = settings.pop("combine")[0]
    if of._value is not None:
        settings["combine"] = rule
    settings["cleanup"] = "automatic" if settings.pop("cleans_itself") else "manual"
    return spec_of(of._key), of._value, settings, keys, values
