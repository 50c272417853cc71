"""Starting the actors of a dictionary, new ones or those of files that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gpulsm.ray.actors import NAMESPACE, sequencer_name, shard_name
from gpulsm.ray.cluster import Description, end_actors
from gpulsm.ray.errors import ShardLost, TimedOut
from gpulsm.ray.layout import Layout, even_layout
from gpulsm.ray.sequencer import SequencerActor
from gpulsm.ray.shard_actor import Begun, ShardActor


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
            raise TimedOut(_what_is_missing(description.options, description.timeout)) from None
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


def _what_is_missing(options_of_all: Sequence[Mapping[str, Any]], timeout: float) -> str:
    """Says what actors that did not start ask for, and what there is."""
    asked = [
        {
            key: given
            for key, given in options.items()
            if key.startswith("num_") or key == "resources"
        }
        for options in options_of_all
    ]
    there: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call]
    free = {key: amount for key, amount in there.items() if "memory" not in key}
    return (
        f"the actors of {len(asked)} shards did not all start within {timeout:g} s: they ask for"
        f" {asked[0]}{' and others' if any(each != asked[0] for each in asked) else ' each'}, and {free} is free in"
        " the cluster; give them less (`resources`), or longer (`timeout`)"
    )


def _shards_of(description: Description, handles: dict[int, Any]) -> list[int]:
    """The shards that there are: those that were asked for, or those of the files that were found. Starts what is
    missing, and ends what is not needed. Nothing is opened, and taken from who has it, before all could be."""
    options, timeout = description.options, description.timeout
    has_files = answers_of_all(handles, "check", options, timeout)
    opened = {shard: handle for shard, handle in handles.items() if has_files[shard]}
    begun: dict[int, Begun] = answers_of_all(opened, "begin", options, timeout)
    _end_former(description, begun)
    found = [layout for each in begun.values() if each.epoch > 0 for layout in each.layouts]
    if not found:
        answers_of_all(handles, "begin", options, timeout)
        return list(handles)
    named = {shard for layout in found for shard in layout.shards}
    for shard in named - handles.keys():
        handles[shard] = start_shard(description, shard, found[0], description.options[0])
    for shard in handles.keys() - named:
        ray.kill(handles.pop(shard))
    has_files = answers_of_all(handles, "check", options, timeout)
    if all(has_files.values()):
        begun = answers_of_all(handles, "begin", options, timeout)
        _end_former(description, begun)
        has_files = {shard: each.epoch > 0 for shard, each in begun.items()}
    missing = [shard for shard, is_there in has_files.items() if not is_there]
    if missing:
        folders = ", ".join(f"shard-{shard:04}" for shard in missing)
        raise FileNotFoundError(
            f"path: {description.path!r} has no files of {folders}, which other shards know of"
        )
    return sorted(handles)


def answers_of_all(
    handles: dict[int, Any], method: str, options: Sequence[Mapping[str, Any]], timeout: float
) -> dict[int, Any]:
    """What a method of shards that were started with these options answers. An error, which says what they wait for, if
    they don't all start in time."""
    references = [getattr(handle, method).remote() for handle in handles.values()]
    try:
        answers = ray.get(references, timeout=timeout)
    except GetTimeoutError:
        raise TimedOut(_what_is_missing(options, timeout)) from None
    except RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None
    return dict(zip(handles, answers, strict=True))


def _end_former(description: Description, begun: dict[int, Begun]) -> None:
    """Ends dictionaries whose files were opened: they have none any more."""
    ended = {description.name}
    for shard, found in begun.items():
        if found.former is not None and found.former[0] not in ended:
            name, actor = found.former
            with suppress(ValueError):  # It is not there any more, or in another cluster.
                handle = ray.get_actor(shard_name(name, shard), NAMESPACE)
                if handle._actor_id.hex() == actor:  # Otherwise it is another one of that name.
                    ended.add(name)
                    end_actors(name)


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
