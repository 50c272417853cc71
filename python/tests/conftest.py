"""What tests are run on: `--device cpu` (the default) or `--device cuda`, and families of arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from families import FAMILIES

# Ray reads these when it is imported. Addresses of this machine alone:
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
# A node that is gone is missed after two seconds; one that is only busy has as long as ever.
os.environ.setdefault("RAY_health_check_period_ms", "500")
os.environ.setdefault("RAY_health_check_failure_threshold", "3")
# Workers are as important as the tests that wait for them, and no test reads figures of the cluster.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_enable_metrics_collection", "0")
os.environ.setdefault("RAY_usage_stats_enabled", "0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="cpu, cuda or cuda:N")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Several files are run by two processes: while one waits, the other works. Tests of a GPU, and those whose output is
    shown, are run by one."""
    several = len(config.args) > 1 or Path(config.args[0]).is_dir()
    alone = config.option.capture == "no" or config.option.device != "cpu"
    return 2 if several and not alone else 0


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Where dictionaries live."""
    device: str = request.config.getoption("--device")
    return device


@pytest.fixture(scope="session")
def shared_cluster(device: str) -> Iterator[Any]:
    """A Ray cluster of two nodes, started by the first test that uses it."""
    from ray_cluster import local_cluster

    with local_cluster(gpus=1 if "cuda" in device else 0) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Any) -> Iterator[Any]:
    """The Ray cluster of all tests. What a test leaves of its dictionaries is ended."""
    from ray_cluster import end_all_actors

    yield shared_cluster
    end_all_actors()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A folder, or a file, that does not exist yet."""
    return str(tmp_path / "folder")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a `family` runs once for each that can be used with the device."""
    if "family" in metafunc.fixturenames:
        device = metafunc.config.getoption("--device")
        usable = [family for family in FAMILIES if family.is_usable(device)]
        metafunc.parametrize("family", usable, ids=[family.name for family in usable])
