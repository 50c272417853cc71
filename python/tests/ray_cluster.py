"""A Ray cluster of several nodes on this machine, for tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NODE = {"num_cpus": 1, "object_store_memory": 100 << 20, "node_ip_address": "127.0.0.1"}


@contextmanager
def local_cluster(nodes: int = 2, cpus: int = 1) -> Iterator[Any]:
    """A cluster of as many nodes, each with a resource of its own: `node0`, `node1`, …"""
    import ray
    from ray.cluster_utils import Cluster

    head = {**NODE, "num_cpus": cpus, "include_dashboard": False, "resources": {"node0": 100}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for node in range(1, nodes):
            add_node(cluster, num_cpus=cpus, resources={f"node{node}": 100})
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
