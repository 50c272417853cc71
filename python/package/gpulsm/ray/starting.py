"""Starting the actors of a dictionary, new ones or those of files that are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gpulsm.ray.actors import NAMESPACE, sequencer_name, shard_name
from gpulsm.ray.cluster import Description, end_actors
from gpulsm.ray.errors import ShardLost, TimedOut
from gpulsm.ray.layout import Layout, even_layout
from gpulsm.ray.log import Replaced
from gpulsm.ray.opening import Former, Found, folder_name
from gpulsm.ray.sequencer import SequencerActor
from gpulsm.ray.shard_actor import Begun, ShardActor

_ENDED_MEANWHILE = "a shard ended while others started: its files may have been opened by somebody else meanwhile; try again"
#: What Ray is told of every actor, whatever is asked for.
_SET = ("name", "namespace", "get_if_exists")


def options_of_shards(
    resources: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, count: int
) -> tuple[dict[str, Any], ...]:
    """Ray's options for each actor."""
    if resources is None:
        resources = {"num_cpus": 1}
    if isinstance(resources, Mapping):
        return tuple(_checked_options(resources) for _ in range(count))
    is_list = isinstance(resources, Sequence) and not isinstance(resources, str)
    if not is_list or not all(isinstance(each, Mapping) for each in resources):
        raise TypeError(
            "resources: expected a dict of Ray's options for actors, such as {'num_gpus': 1}, or one for each shard"
        )
    if len(resources) != count:
        raise ValueError(
            f"resources: expected one for each of {count} shards, got {len(resources)}"
        )
    return tuple(map(_checked_options, resources))


def _checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    for name in _SET:
        if name in options:
            raise ValueError(f"resources: {name!r} of actors is set by the dictionary")
    return dict(options)


def start_actors(description: Description, count: int) -> tuple[Description, Any, dict[int, Any]]:
    """Starts the sequencer and the shards. Those of a dictionary without a name live as long as their handles."""
    name = description.name
    if not ray.is_initialized():
        ray.init()
    layout = even_layout(count, description.config.key)
    handles: dict[int, Any] = {}
    sequencer: Any = None
    try:
        if _is_there(name):
            raise ValueError(f"name: {_who_has(description)}")
        with _naming(description):
            for shard, option in enumerate(description.options):
                handles[shard] = start_shard(description, shard, layout, option, is_new=True)
        description, shards = _opened(description, handles)
        with _naming(description):
            sequencer = _start_sequencer(description, shards)
        _, lost = ray.get(sequencer.layout.remote(), timeout=description.timeout)
        if lost:
            raise ShardLost(f"shards {lost} of {name!r} ended while others started", lost)
    except BaseException as error:
        for handle in (*handles.values(), sequencer):
            if handle is not None:
                ray.kill(handle)
        if isinstance(error, GetTimeoutError):
            raise TimedOut(_what_is_missing(description)) from None
        if isinstance(error, ActorDiedError):
            raise ShardLost(_ENDED_MEANWHILE) from error
        raise error.cause if isinstance(error, RayTaskError) else error from None
    return description, sequencer, handles


@contextmanager
def _naming(description: Description) -> Iterator[None]:
    """Says what there is if the name of an actor is taken."""
    try:
        yield
    except ValueError as error:
        if "already" in str(error):
            raise ValueError(f"name: {_who_has(description)}") from None
        raise


def _is_there(name: str) -> bool:
    """Whether there is a dictionary of this name."""
    try:
        ray.get_actor(sequencer_name(name), NAMESPACE)
    except ValueError:
        return False
    return True


def _unused_for(description: Description) -> float:
    """After how many seconds a shard ends if there is no sequencer: longer than anybody waits for all of them."""
    return max(600.0, 2 * description.timeout)


def _who_has(description: Description) -> str:
    """Says what there is of this name."""
    name = description.name
    if _is_there(name):
        return f"a dictionary {name!r} exists; `ShardedDictionary.attach({name!r})` uses it"
    return (
        f"a dictionary {name!r} is being made, or was by a driver that ended before it was done; what is left of"
        f" it ends by itself after {_unused_for(description) / 60:.0f} minutes"
    )


def _what_is_missing(description: Description) -> str:
    """Says what actors that did not start ask for, and what there is."""
    asked = [
        {
            key: given
            for key, given in options.items()
            if key.startswith("num_") or key == "resources"
        }
        for options in description.options
    ]
    different = [each for at, each in enumerate(asked) if each not in asked[:at]]
    wanted = " and ".join(f"{each}" for each in different[:4]) + (
        " each"
        if len(different) == 1
        else f" and {len(different) - 4} others" * (len(different) > 4)
    )
    there: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    free = {key: amount for key, amount in there.items() if "memory" not in key}
    return (
        f"the actors of {_counted(len(asked))} did not all start within {description.timeout:g} s: they ask for"
        f" {wanted}, and {free} is free in the cluster; give them less (`resources`), or longer (`timeout`)"
    )


def _opened(description: Description, handles: dict[int, Any]) -> tuple[Description, list[int]]:
    """Opens the shards that there are: those that were asked for, or those of the files that were found. Starts what is
    missing, and ends what is not needed."""
    found = _found(description, handles, set(handles))
    stored = {shard: each.stored for shard, each in found.items() if each.stored is not None}
    dictionaries = {each.dictionary for each in stored.values()}
    if len(dictionaries) > 1:
        raise ValueError(
            f"path: {description.path!r} has files of different dictionaries: of {_folders(stored)}, not all are of one"
        )
    named = _named(found, set(handles))
    is_used = any(each.is_used for each in found.values())
    missing = named - stored.keys() if stored else set[int]()
    if missing and is_used:
        raise _missing(description, missing)
    if missing and len(named) != len(description.options):
        raise ValueError(
            f"shards: {description.path!r} has files of a dictionary of {len(named)} shards that was never used; make it "
            f"with shards={len(named)}, or remove the folder"
        )
    description = replace(description, files=dictionaries.pop() if dictionaries else uuid4().hex)
    begun: dict[int, Begun] = {}
    while added := named - begun.keys():
        if begun:  # They were added later, and are named by logs alone.
            later = _found(description, handles, added)
            if missing := {shard for shard in added if later[shard].stored is None}:
                raise _missing(description, missing)
        formers = list[Former]()
        for some in ({min(added)}, added - {min(added)}):
            asked = {shard: handles[shard] for shard in some}
            claimed = answers_of_all(
                asked, "claim", description, description.files, description.ticket, is_used
            )
            for each in claimed.values():
                formers += each.formers
                description = replace(description, ticket=description.ticket or each.ticket)
        _end_formers(description, formers)
        asked = {shard: handles[shard] for shard in added}
        begun |= answers_of_all(asked, "begin", description)
        layouts = [layout for each in begun.values() for layout in each.layouts]
        named |= {shard for layout in layouts for shard in layout.shards}
    for shard in handles.keys() - named:
        ray.kill(handles.pop(shard))
    was_changed = any(each.tail > 0 for each in begun.values()) or any(
        layout.version > 0 for layout in layouts
    )
    empty = {shard for shard, each in begun.items() if each.epoch == 0}
    if was_changed and empty:
        raise _missing(description, empty)
    return description, sorted(handles)


def _found(description: Description, handles: dict[int, Any], asked: set[int]) -> dict[int, Found]:
    """What these shards find, and those that they name; starts what is missing."""
    found: dict[int, Found] = {}
    while new := asked - found.keys():
        for shard in new - handles.keys():
            layout = even_layout(len(description.options), description.config.key)
            handles[shard] = start_shard(description, shard, layout, description.options[0])
        found |= answers_of_all({shard: handles[shard] for shard in new}, "check", description)
        asked = asked | _named(found, asked)
    return found


def _named(found: dict[int, Found], asked: set[int]) -> set[int]:
    """The shards of a dictionary: those that its files name; without any, those that were asked for."""
    layouts = [layout for each in found.values() for layout in each.layouts]
    named = {shard for layout in layouts for shard in layout.shards}
    return named or {shard for each in found.values() for shard in each.present} or asked


def _missing(description: Description, shards: Iterable[int]) -> FileNotFoundError:
    return FileNotFoundError(
        f"path: {description.path!r} has no files of {_folders(shards)}, which other shards know of"
    )


def _counted(shards: int) -> str:
    return "a shard" if shards == 1 else f"{shards} shards"


def _folders(shards: Iterable[int]) -> str:
    return ", ".join(map(folder_name, sorted(shards)))


def answers_of_all(
    handles: dict[int, Any], method: str, description: Description, *arguments: Any
) -> dict[int, Any]:
    """What a method of shards that are being started answers. An error, which says what they wait for, if they don't all
    answer in time."""
    references = [getattr(handle, method).remote(*arguments) for handle in handles.values()]
    try:
        answers = ray.get(references, timeout=description.timeout)
    except GetTimeoutError:
        if method == "check":
            raise TimedOut(_what_is_missing(description)) from None
        raise TimedOut(
            f"shards did not read their files within {description.timeout:g} s; give them longer (`timeout`)"
        ) from None
    except RayTaskError as error:
        if isinstance(error.cause, Replaced):
            raise ShardLost(f"{error.cause}; try again") from None
        raise error.cause if isinstance(error.cause, Exception) else error from None
    except ActorDiedError as error:
        raise ShardLost(_ENDED_MEANWHILE) from error
    return dict(zip(handles, answers, strict=True))


def _end_formers(description: Description, formers: list[Former]) -> None:
    """Ends dictionaries whose files were taken over: they have none any more."""
    ended = {description.name}
    actors = [
        actor
        for actor in ray.util.list_named_actors(all_namespaces=True)
        if actor["namespace"] == NAMESPACE
    ]
    for dictionary, former in formers:
        names = [actor["name"] for actor in actors if actor["name"].startswith(f"{dictionary}/")]
        for name in names if dictionary not in ended else ():
            with suppress(ValueError):  # It is not there any more.
                # Otherwise that name has been given to another one since.
                if ray.get_actor(name, NAMESPACE)._actor_id.hex() == former:
                    ended.add(dictionary)
                    end_actors(dictionary)


def _start_sequencer(description: Description, shards: list[int]) -> Any:
    """Starts the sequencer, on this node as long as there is one."""
    here = ray.get_runtime_context().get_node_id()
    actor = ray.remote(SequencerActor).options(
        name=sequencer_name(description.name),
        namespace=NAMESPACE,
        lifetime="detached" if description.is_named else None,
        num_cpus=0,
        memory=1 << 20,  # Ray ignores where an actor without any resources should be.
        scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=True),
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=10_000,
    )
    return actor.remote(description.name, shards, description)


def start_shard(
    description: Description,
    shard: int,
    layout: Layout,
    options: dict[str, Any],
    *,
    is_new: bool = False,
) -> Any:
    """Starts the actor of a shard, or finds it if it is there."""
    actor = ray.remote(ShardActor).options(
        **{
            "name": shard_name(description.name, shard),
            "namespace": NAMESPACE,
            "lifetime": "detached" if description.is_named else None,
            "max_restarts": 0 if description.path is None else -1,
            "max_task_retries": -1,
            "max_concurrency": 10_000,
            "scheduling_strategy": "SPREAD",
            "get_if_exists": not is_new,
            **options,
        }
    )
    return actor.remote(
        description.name,
        description.identity,
        shard,
        description.config,
        layout,
        description.path,
        description.log_limit,
        _unused_for(description),
    )
