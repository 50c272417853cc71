"""A Ray cluster of several nodes on this machine, for tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NODE = {
    "num_cpus": 1,
    "object_store_memory": 100 << 20,
    "node_ip_address": "127.0.0.1",
    "worker_path": str(Path(__file__).with_name("ray_worker.py")),
}


@contextmanager
def local_cluster(gpus: int = 0) -> Iterator[Any]:
    """A cluster of two nodes, each with a resource of its own: `node0`, which has the GPUs, and `node1`."""
    import ray
    from ray.cluster_utils import Cluster

    head = {
        **NODE,
        "num_gpus": gpus,
        "resources": {"node0": 100},
        "include_dashboard": False,
        "include_log_monitor": False,
        "no_monitor": True,  # It would start and end nodes.
        "dashboard_agent_listen_port": 0,  # Another cluster may have the usual one.
    }
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        add_node(cluster, resources={"node1": 100})
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def add_node(cluster: Any, **options: Any) -> Any:
    """Starts another node."""
    return cluster.add_node(**{**NODE, **options})


def kill_node(cluster: Any, node: Any, with_workers: bool = True) -> None:
    """Ends a node's processes, those of its actors and tasks with it, or some time later."""
    (raylet,) = (started.process.pid for started in node.all_processes["raylet"])
    workers = Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
    cluster.remove_node(node, allow_graceful=False)
    for worker in workers if with_workers else ():
        with suppress(ProcessLookupError):
            os.kill(int(worker), signal.SIGKILL)


def kill(handle: Any) -> None:
    """Ends an actor's process, wherever it is in its work."""
    import ray

    with suppress(ProcessLookupError, ray.exceptions.RayError):  # It may be down already.
        os.kill(ray.get(handle.process.remote(), timeout=60), signal.SIGKILL)


def actors_of(name: str) -> list[str]:
    """The actors of a dictionary that there are."""
    import ray

    named = [actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)]
    return sorted(each for each in named if each.startswith(name + "/"))


def end_all_actors() -> None:
    """Ends the actors of all dictionaries."""
    import ray

    from gpulsm.ray.actors import NAMESPACE

    for actor in ray.util.list_named_actors(all_namespaces=True):
        if actor["namespace"] == NAMESPACE:
            with suppress(ValueError):  # It has ended meanwhile.
                ray.kill(ray.get_actor(actor["name"], NAMESPACE))
