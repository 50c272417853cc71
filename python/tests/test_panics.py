"""Panics of the native half: exceptions that change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import gpulsm


def test_a_panic_is_an_exception_that_changes_nothing(
    device: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RUST_BACKTRACE", raising=False)
    d = gpulsm.Dictionary("uint64", "uint64", device=device, batch_size=256)
    keys = np.arange(1000, dtype=np.uint64)
    d.insert(keys, keys * 2)
    snapshot = d.snapshot()
    for _ in range(2):
        with pytest.raises(
            gpulsm.InternalError, match=r"gpulsm panicked: on purpose, at .*typed\.rs"
        ) as raised:
            d._store.panic("on purpose")
        assert isinstance(raised.value, Exception)
        for part in (
            "a bug in gpulsm",
            "another thread changed an array",
            "dictionary is as it was",
        ):
            assert part in str(raised.value)
        # The lock that was held is free again, for queries and for updates.
        assert len(d) == len(snapshot) == 1000 and (d.lookup(keys)[0] == keys * 2).all()
        d.insert(keys, keys * 2)
        d.merge_from(snapshot)
        d.validate()
    assert capfd.readouterr().err == "", "the exception says it all"


def test_who_asks_for_a_backtrace_of_a_panic_gets_one(
    device: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    d = gpulsm.Dictionary(device=device)
    with pytest.raises(RuntimeError, match="gpulsm panicked: on purpose"):
        d._store.panic("on purpose")
    assert "on purpose" in capfd.readouterr().err
