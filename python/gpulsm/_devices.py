"""Where a dictionary can live on this machine."""

from __future__ import annotations

from itertools import count

from gpulsm._errors import CudaError
from gpulsm._native import device


def best_device() -> str:
    """The device that 'best' means here."""
    return device("best")


def devices() -> list[str]:
    """Every device that can be used here. What is missing for others, asking for one says:
    `gpulsm.Dictionary(device="cuda")`.

    >>> import gpulsm
    >>> "cpu" in gpulsm.devices()
    True
    """
    found = ["cpu"]
    for number in count():
        try:
            found.append(device(f"cuda:{number}"))
        except CudaError:
            return found
    raise AssertionError("there is a last GPU")
