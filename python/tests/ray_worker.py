"""Ray's workers, which start sooner: most of the time of tests with a cluster is that of starting them.

Ray imports large modules for what no test asks for. Here they are imported when they are first used.
"""

from __future__ import annotations

import gc
import importlib
import runpy
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class Later(ModuleType):
    """A module that is imported when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


if __name__ == "__main__":
    for name in ("jsonschema", "requests"):
        if find_spec(name):
            sys.modules[name] = Later(name)
    gc.disable()  # Modules leave no garbage.
    import ray._private.workers as workers

    import gpulsm.ray  # noqa: F401

    gc.enable()
    runpy.run_path(f"{workers.__path__[0]}/default_worker.py", run_name="__main__")
