"""What `help` and editors show."""

from __future__ import annotations

import inspect
import pydoc
from typing import Any, get_type_hints

import pytest

import gpulsm

QUERIES = [
    "lookup",
    "contains",
    "rank",
    "count",
    "range",
    "sum",
    "min",
    "max",
    "successor",
    "predecessor",
    "select",
]
METHODS = [
    getattr(owner, name)
    for owner in (gpulsm.Dictionary, gpulsm.Snapshot)
    for name in dir(owner)
    if not name.startswith("_") and callable(getattr(owner, name))
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_every_argument_has_a_type(method: Any) -> None:
    signature = inspect.signature(method)
    assert signature.return_annotation is not inspect.Signature.empty
    for name, parameter in signature.parameters.items():
        if name == "self":
            continue
        assert parameter.annotation is not inspect.Parameter.empty, name
        if name not in ("default", "settings") or method.__name__ == "lookup":
            assert parameter.annotation not in (Any, "Any"), name
        if name == "like":
            assert "Like" in str(parameter.annotation)


@pytest.mark.parametrize(
    "name", [*QUERIES, "asof", "prefix_range", "insert", "delete", "update", "delete_range", "pop"]
)
def test_types_can_be_read_by_programs(name: str) -> None:
    hints = get_type_hints(getattr(gpulsm.Dictionary, name))
    assert hints["return"] is not Any or name in ("pop", "min", "max")


@pytest.mark.parametrize("name", QUERIES)
def test_help_shows_signatures_and_sections(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(getattr(gpulsm.Dictionary, name)))
    assert "Scalar | ArrayLike" in text
    for section in ("Parameters\n", "Returns\n", "Raises\n", "Examples\n"):
        assert section in text
