"""A Ray cluster of several nodes on this machine, for tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

# Addresses of this machine alone; Ray reads it when it is imported.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")


@contextmanager
def local_cluster(nodes: int = 2, cpus: int = 1) -> Iterator[Any]:
    """A cluster of as many nodes, each with a resource of its own: `node0`, `node1`, …"""
    import ray
    from ray.cluster_utils import Cluster

    common = {"num_cpus": cpus, "object_store_memory": 200 << 20, "node_ip_address": "127.0.0.1"}
    head = {**common, "include_dashboard": False, "resources": {"node0": 100}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for node in range(1, nodes):
            cluster.add_node(**common, resources={f"node{node}": 100})
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def kill(handle: Any) -> None:
    """Ends an actor's process, wherever it is in its work."""
    import ray

    with suppress(ProcessLookupError, ray.exceptions.RayError):  # It may be down already.
        os.kill(ray.get(handle.process.remote(), timeout=60), signal.SIGKILL)
