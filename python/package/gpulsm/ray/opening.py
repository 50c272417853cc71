"""How a shard gets its files, or takes them over from the dictionary that had them.

Whoever makes a dictionary has its shards *check* what there is, which changes nothing; then *claim* it, the first
shard before all others; then open it. Where two do so at the same time, the later one in the first shard has it:
that claim has a greater *ticket*, and nobody with a smaller one gets another shard.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import ray

from gpulsm._errors import CorruptFile
from gpulsm.ray.actors import NAMESPACE, shard_name
from gpulsm.ray.layout import Layout
from gpulsm.ray.log import Files, Reading, Replaced, has_records, read_note
from gpulsm.ray.shard import TYPES, Config, Shard, Stored, note_types, stored_in

#: The note in the files of a shard that says which actor has opened them.
_ACTOR = "actor.json"
#: How often files are read that somebody else is changing.
_ATTEMPTS = 3


class Found(NamedTuple):
    """What a shard that has claimed nothing finds.

    Attributes
    ----------
    stored
        Which dictionary the files are of; None if there are none.
    layouts
        How it divides its keys, and may after batches that are pending; only the first one if nobody has to be spared.
    is_used
        Whether anything was ever logged.
    present
        The shards whose files can be seen from here.
    """

    stored: Stored | None
    layouts: list[Layout]
    is_used: bool
    present: list[int]


class Former(NamedTuple):
    """Who had opened the files of a shard before: a dictionary, and what Ray calls its actor."""

    dictionary: str
    actor: str


class Claimed(NamedTuple):
    """What a shard that has its files knows: its ticket, and who had them before and may still be there."""

    ticket: int
    formers: list[Former]


class Opening:
    """The files of one shard of a dictionary, before they are open.

    Parameters
    ----------
    name
        What the dictionary is called in the cluster.
    actor
        What Ray calls the actor of the shard.
    """

    def __init__(
        self, name: str, actor: str, config: Config, number: int, layout: Layout, path: str | None
    ) -> None:
        self._name = name
        self._actor = actor
        self._config = config
        self._number = number
        self._layout = layout
        self._path = path
        self._files: Files | None = None

    @property
    def _folder(self) -> Path:
        assert self._path is not None
        return Path(self._path, folder_name(self._number))

    def check(self) -> Found:
        """Looks at the files, and leaves them to whoever has them. An error if they have other types, or the device can't
        be used; and, if somebody uses them, if they could not be opened."""
        self._config.store()
        if self._path is None:
            return Found(None, [], False, [])
        present = _shards_in(Path(self._path))
        stored = self._stored()
        if stored is None:
            if not present:
                _check_folder(Path(self._path))
            return Found(None, [], False, present)
        user = _user_of(self._folder, self._number)
        if user is None or user == self._actor:
            return Found(stored, [stored.layout], has_records(self._folder), present)
        return Found(stored, [stored.layout, *self._tried(stored.layout)], True, present)

    def _stored(self) -> Stored | None:
        """Which dictionary the files are of; None if there are none. An error if that can't be told."""
        stored = stored_in(self._folder, self._config, self._number)
        if stored is None:
            for name in ("log-*", "checkpoint-*"):
                if (path := next(self._folder.glob(name), None)) is not None:
                    message = f"{str(path)!r} is a shard's, but {TYPES!r}, which tells of which, is missing"
                    raise CorruptFile(message, str(path), 0)
        return stored

    def _tried(self, layout: Layout) -> list[Layout]:
        """Reads all files, on the CPU, as opening them would. Whoever uses them may replace some meanwhile."""
        config = replace(self._config, settings={**self._config.settings, "device": "cpu"})
        for attempt in range(1, _ATTEMPTS + 1):
            shard = Shard(config, self._number, layout, None)
            try:
                shard.recover(Reading(self._folder))
                if shard.state.epoch == 0:
                    raise FileNotFoundError(
                        f"{str(self._folder)!r} is in use, and has no log; try again, if it is just being made"
                    )
                return shard.layouts()
            except (CorruptFile, FileNotFoundError):
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def check_own(self) -> None:
        """An error if an actor that was restarted finds no files, or somebody else has opened them since."""
        if self._path is None:
            return
        self._check_there()
        last = read_note(self._folder / _ACTOR)
        if last is not None and last["actor"] != self._actor:
            raise Replaced(
                f"{str(self._folder)!r} was opened by the dictionary {last['dictionary']!r}"
            )

    def _check_there(self) -> None:
        if not (self._folder / TYPES).exists():
            raise FileNotFoundError(
                f"shard {self._number} was started again where {str(self._folder)!r} does not exist: `path` must be on"
                " storage that every node sees, or `resources` keep each shard on its node"
            )

    def claim(self, dictionary: str, ticket: int, must_exist: bool) -> Claimed:
        """Becomes the owner of the files of a dictionary, and makes them if there are none. Whoever has them has to end.
        The first shard has no ticket yet; it gets one."""
        if self._path is None:
            return Claimed(0, [])
        if must_exist:
            self._check_there()
        last = self._checked(dictionary, ticket)
        if self._files is None:
            self._files = Files(self._folder)
            last = self._checked(dictionary, ticket)  # Somebody may have been there in between.
            if not (self._folder / TYPES).exists():
                stored = Stored(self._layout, dictionary)
                note_types(self._files, self._config, self._number, stored)
        formers = [] if last is None else [Former(*former) for former in last["formers"]]
        if last is not None and last["actor"] != self._actor:
            formers.append(Former(last["dictionary"], last["actor"]))
        if last is not None and last["actor"] == self._actor:
            ticket = last["ticket"]  # This is not the first time.
        claimed = Claimed(ticket or self._files.owner, formers)
        self._note(claimed)
        return claimed

    def _checked(self, dictionary: str, ticket: int) -> dict[str, Any] | None:
        """Who has opened the files last; None if nobody has, or these are a copy of them. An error if that is somebody who
        comes after this one, or they are another dictionary's."""
        stored = self._stored()
        if stored is not None and stored.dictionary != dictionary:
            raise Replaced(f"{str(self._folder)!r} was made by another dictionary meanwhile")
        last = read_note(self._folder / _ACTOR)
        if last is None or last["folder"] != str(self._folder.resolve()):
            return None
        if last["actor"] != self._actor and 0 < ticket < last["ticket"]:
            raise Replaced(
                f"{str(self._folder)!r} was opened by the dictionary {last['dictionary']!r} meanwhile"
            )
        return last

    def _note(self, claimed: Claimed) -> None:
        assert self._files is not None
        note = {
            "dictionary": self._name,
            "actor": self._actor,
            "folder": str(self._folder.resolve()),
            "ticket": claimed.ticket,
            "formers": [list(former) for former in claimed.formers],
        }
        self._files.write_note(_ACTOR, note)

    def open(self) -> Shard:
        """Reads the files, which must have been claimed, and by nobody else since."""
        if self._path is not None and self._files is None:
            self.check_own()
            self._files = Files(self._folder)
        try:
            return Shard(self._config, self._number, self._layout, self._files)
        except Exception:
            self._files = None
            raise

    def forget_formers(self) -> None:
        """Notes that those who had the files before have ended."""
        last = None if self._files is None else self._files.read_note(_ACTOR)
        if last is not None and last["formers"]:
            self._note(Claimed(last["ticket"], []))


def folder_name(shard: int) -> str:
    """What the folder of a shard is called."""
    return f"shard-{shard:04}"


def _check_folder(path: Path) -> None:
    """An error if a folder has something else than the files of shards."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"path: {str(path)!r} is a file, not a folder")
    others = (
        each.name
        for each in (path.iterdir() if path.exists() else ())
        if not each.name.startswith(("shard-", ".", "lost+found"))
    )
    if (first := min(others, default=None)) is not None:
        raise ValueError(
            f"path: there are other files in {str(path)!r}, such as {first!r}; give a folder of its own"
        )


def _shards_in(path: Path) -> list[int]:
    """The shards whose files are in a folder."""
    names = (note.parent.name for note in path.glob(f"shard-*/{TYPES}"))
    return sorted(int(name[6:]) for name in names if re.fullmatch(r"shard-\d{4,}", name))


def _user_of(folder: Path, number: int) -> str | None:
    """What Ray calls the actor of this cluster that has the files of a shard; None if none has."""
    note = read_note(folder / _ACTOR)
    if note is None or not ray.is_initialized():
        return None
    try:
        handle = ray.get_actor(shard_name(note["dictionary"], number), NAMESPACE)
    except ValueError:
        return None
    actor: str = handle._actor_id.hex()
    return actor if actor == note["actor"] else None


def check_unused(path: str | None) -> None:
    """An error if a dictionary of this cluster has files in a folder, as far as that can be seen from here."""
    if path is None:
        return
    for number in _shards_in(Path(path)):
        if _user_of(Path(path, folder_name(number)), number) is not None:
            raise ValueError(
                f"path: a dictionary uses {path!r}; give a folder where there is none, or `insert` into that one"
            )
