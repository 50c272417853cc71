"""Where a dictionary can live on this machine."""

from __future__ import annotations

from itertools import count

from gpulsm._errors import CudaError
from gpulsm._native import device


def best_device() -> str:
    """Returns the device that 'best' means here."""
    return device("best")


def devices() -> list[str]:
    """Returns every device that can be used here.

    An attempt to use another one says what is missing: `gpulsm.Dictionary(device="cuda")`.

    Examples
    --------
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
