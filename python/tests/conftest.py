"""What tests are run on: `--device cpu` (the default) or `--device cuda`, and families of arrays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from families import FAMILIES

# Ray reads these when it is imported. Addresses of this machine alone:
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
# A node that is gone is missed after two seconds; one that is only busy has as long as ever.
os.environ.setdefault("RAY_health_check_period_ms", "500")
os.environ.setdefault("RAY_health_check_failure_threshold", "3")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="cpu, cuda or cuda:N")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Where dictionaries live."""
    device: str = request.config.getoption("--device")
    return device


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
