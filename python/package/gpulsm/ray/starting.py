"""Starting the actors of a dictionary, new ones or those of files that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gpulsm.ray.actors import NAMESPACE, sequencer_name, shard_name
from gpulsm.ray.cluster import Description, end_actors
from gpulsm.ray.errors import ShardLost, TimedOut
from gpulsm.ray.layout import Layout, even_layout
from gpulsm.ray.sequencer import SequencerActor
from gpulsm.ray.shard_actor import Begun, Former, Found, ShardActor


def options_of_shards(
    resources: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None, count: int
) -> tuple[dict[str, Any], ...]:
    """Ray's options for each actor."""
    if resources is None:
        resources = {"num_cpus": 1}
    if isinstance(resources, Mapping):
        return tuple(dict(resources) for _ in range(count))
    is_list = isinstance(resources, Sequence) and not isinstance(resources, str)
    if not is_list or not all(isinstance(each, Mapping) for each in resources):
        raise TypeError(
            "resources: expected a dict of Ray's options for actors, such as {'num_gpus': 1}, or one for each shard"
        )
    if len(resources) != count:
        raise ValueError(
            f"resources: expected one for each of {count} shards, got {len(resources)}"
        )
    return tuple(map(dict, resources))


def start_actors(description: Description, count: int) -> tuple[Any, dict[int, Any]]:
    """Starts the sequencer and the shards. Those of a dictionary without a name live as long as their handles."""
    name = description.name
    if not ray.is_initialized():
        ray.init()
    layout = even_layout(count, description.config.key)
    handles: dict[int, Any] = {}
    sequencer: Any = None
    try:
        for shard, option in enumerate(description.options):
            handles[shard] = start_shard(description, shard, layout, option, is_new=True)
        shards = _shards_of(description, handles)
        sequencer = _start_sequencer(description, shards)
        _, lost = ray.get(sequencer.layout.remote(), timeout=description.timeout)
        if lost:
            raise ShardLost(f"shards {lost} of {name!r} ended while others started", lost)
    except Exception as error:
        for handle in (*handles.values(), sequencer):
            if handle is not None:
                ray.kill(handle)
        if "already" in str(error) and isinstance(error, ValueError):
            raise ValueError(f"name: {_who_has(description)}") from None
        if isinstance(error, GetTimeoutError):
            raise TimedOut(_what_is_missing(description)) from None
        raise error.cause if isinstance(error, RayTaskError) else error from None
    return sequencer, handles


def _unused_for(description: Description) -> float:
    """After how many seconds a shard ends if there is no sequencer: longer than anybody waits for all of them."""
    return max(600.0, 2 * description.timeout)


def _who_has(description: Description) -> str:
    """Says what there is of this name."""
    name = description.name
    try:
        ray.get_actor(sequencer_name(name), NAMESPACE)
    except ValueError:
        return (
            f"a dictionary {name!r} is being made, or was by a driver that ended before it was done; what is left of"
            f" it ends by itself after {_unused_for(description) / 60:.0f} minutes"
        )
    return f"a dictionary {name!r} exists; `ShardedDictionary.attach({name!r})` uses it"


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
    there: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    free = {key: amount for key, amount in there.items() if "memory" not in key}
    return (
        f"the actors of {len(asked)} shards did not all start within {description.timeout:g} s: they ask for"
        f" {asked[0]}{' and others' if any(each != asked[0] for each in asked) else ' each'}, and {free} is free in"
        " the cluster; give them less (`resources`), or longer (`timeout`)"
    )


def _shards_of(description: Description, handles: dict[int, Any]) -> list[int]:
    """The shards that there are: those that were asked for, or those of the files that were found. Starts what is
    missing, and ends what is not needed."""
    found: dict[int, Found] = answers_of_all(handles, "check", description)
    layouts = [each.layout for each in found.values() if each.layout is not None]
    is_used = any(each.is_used for each in found.values())
    named = {shard for layout in layouts for shard in layout.shards} or set(handles)
    if not is_used and named != handles.keys():
        raise ValueError(
            f"shards: {description.path!r} has files of a dictionary of {len(named)} shards that was never used; make it "
            f"with shards={len(named)}, or remove the folder"
        )
    begun: dict[int, Begun] = {}
    while added := named - begun.keys():  # Those that were added later are named by logs alone.
        layout = layouts[0] if layouts else even_layout(len(handles), description.config.key)
        for shard in added - handles.keys():
            handles[shard] = start_shard(description, shard, layout, description.options[0])
        begun |= _opened(description, {shard: handles[shard] for shard in added}, is_used)
        named |= {
            shard for each in begun.values() for layout in each.layouts for shard in layout.shards
        }
    for shard in handles.keys() - named:
        ray.kill(handles.pop(shard))
    was_changed = any(
        each.tail > 0 or layout.version > 0 for each in begun.values() for layout in each.layouts
    )
    empty = [shard for shard, each in begun.items() if each.epoch == 0]
    if was_changed and empty:
        raise _missing(description, empty)
    return sorted(handles)


def _opened(
    description: Description, handles: dict[int, Any], must_exist: bool
) -> dict[int, Begun]:
    """Opens shards. Their files are taken from who has them when all have been found."""
    found: dict[int, Found] = answers_of_all(handles, "check", description)
    missing = [shard for shard, each in found.items() if each.layout is None]
    if must_exist and missing:
        raise _missing(description, missing)
    _end_former(description, answers_of_all(handles, "claim", description, must_exist))
    return answers_of_all(handles, "begin", description)


def _missing(description: Description, shards: list[int]) -> FileNotFoundError:
    folders = ", ".join(f"shard-{shard:04}" for shard in shards)
    return FileNotFoundError(
        f"path: {description.path!r} has no files of {folders}, which other shards know of"
    )


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
        raise error.cause if isinstance(error.cause, Exception) else error from None
    except ActorDiedError as error:
        raise ShardLost(
            "a shard ended while others started: its files may have been opened by somebody else meanwhile; try again"
        ) from error
    return dict(zip(handles, answers, strict=True))


def _end_former(description: Description, formers: dict[int, Former | None]) -> None:
    """Ends dictionaries whose files were taken over: they have none any more."""
    ended = {description.name}
    for shard, former in formers.items():
        if former is not None and former.dictionary not in ended:
            with suppress(ValueError):  # It is not there any more, or in another cluster.
                handle = ray.get_actor(shard_name(former.dictionary, shard), NAMESPACE)
                if handle._actor_id.hex() == former.actor:  # Otherwise it has got that name since.
                    ended.add(former.dictionary)
                    end_actors(former.dictionary)


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
        shard,
        description.config,
        layout,
        description.path,
        description.log_limit,
        _unused_for(description),
    )
