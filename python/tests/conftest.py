"""What tests are run on: `--device cpu` (the default) or `--device cuda`, and families of arrays."""

from __future__ import annotations

from pathlib import Path

import pytest
from families import FAMILIES


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
