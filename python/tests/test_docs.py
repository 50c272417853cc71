"""The examples that the package and its README show."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import gpulsm

ROOT = Path(__file__).parent.parent
DOCS = ROOT.parent / "docs"
READMES = [
    ROOT / "README.md",
    ROOT.parent / "README.md",
    DOCS / "multimaps.md",
    DOCS / "persistence.md",
    DOCS / "python.md",
]
NOTEBOOK = ROOT / "notebooks" / "story.ipynb"
REPEATED = "for _ in range(3):\n        start = time.perf_counter()"
MODULES = ["gpulsm", *(f"gpulsm.{module.name}" for module in pkgutil.iter_modules(gpulsm.__path__))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    if name == "gpulsm.ray":
        pytest.importorskip("ray")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_name_is_documented() -> None:
    for owner in (gpulsm.Dictionary, gpulsm.Snapshot):
        for name in dir(owner):
            if not name.startswith("_"):
                assert getattr(owner, name).__doc__, f"{owner.__name__}.{name} has no docstring"


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("sortedcontainers")
    pytest.importorskip("pandas")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    repeats = 0
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            # Each call that is measured is made once, not three times.
            repeats += source.count(REPEATED)
            source = source.replace(REPEATED, REPEATED.replace("3", "1"))
            exec(compile(source, f"cell {number}", "exec"), names)
    assert repeats == 1


def test_the_benchmark_of_calls_runs(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "rates.py"))
    script["main"](["--device", "cpu", "--pairs", "5000", "--repeats", "1"])
    assert "5,000 lookups of numpy arrays on cpu, answers checked" in capsys.readouterr().out


def test_the_benchmark_beside_other_libraries_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("sortedcontainers", "pandas", "polars"):
        pytest.importorskip(name)
    script = runpy.run_path(str(ROOT / "benchmarks" / "instead.py"))
    script["main"](["--device", "cpu", "--pairs", "5000", "--batch", "700"])
    printed = capsys.readouterr().out
    assert "answers checked" in printed
    for name in ("gpulsm, cpu", "`dict`", "`SortedDict`", "sorted NumPy array", "pandas", "Polars"):
        assert f"| {name} |" in printed


def test_the_benchmark_of_joins_runs(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "asof.py"))
    script["main"](["--quotes", "20000", "--trades", "30000", "--batches", "3", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert "answers checked" in printed
    assert printed.count("| gpulsm |") == 2 and "| pandas |" in printed


def test_the_graph_example_runs(capsys: pytest.CaptureFixture[str], device: str) -> None:
    script = runpy.run_path(str(ROOT / "examples" / "graph.py"))
    script["main"](["--vertices", "300", "--edges", "3000", "--batches", "3", "--device", device])
    printed = capsys.readouterr().out
    assert "batch 3: " in printed and "answers checked" in printed


def test_the_example_of_counts_goes_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, device: str
) -> None:
    script = runpy.run_path(str(ROOT / "examples" / "counts.py"))
    arguments = ["--folder", str(tmp_path / "counts"), "--words", "3000", "--device", device]
    for batches, before in ((3, "0 words"), (5, "3,000 words")):
        script["main"]([*arguments, "--batches", str(batches)])
        printed = capsys.readouterr().out
        assert printed.startswith(f"{before} were counted before") and "answers checked" in printed


@pytest.mark.parametrize("readme", READMES, ids=str)
def test_readmes_run(readme: Path) -> None:
    if not readme.exists():
        pytest.skip("it is not here")
    examples = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    assert examples, "the README has no example"
    for example in examples:
        if "import cupy" not in example and "import torch" not in example:
            exec(compile(example, str(readme), "exec"), {})
