"""Single keys, ends, and the order of keys."""

from __future__ import annotations

import numpy as np
import pytest
from families import Family

import gpulsm


def test_pop(device: str) -> None:
    d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2], device=device)
    assert d.pop(20) == 2 and 20 not in d
    assert d.pop(20, "no") == "no" and d.pop(20, None) is None
    with pytest.raises(KeyError, match="20"):
        d.pop(20)
    with pytest.raises(TypeError, match="key: expected one int64, got an array"):
        d.pop([10])  # type: ignore[arg-type]
    assert d.pop_first() == (10, 1) and d.pop_last() == (30, 3) and len(d) == 0
    for pop in (d.pop_first, d.pop_last):
        with pytest.raises(KeyError, match="the dictionary is empty"):
            pop()
    s = gpulsm.Dictionary.build([5, 6], device=device)
    assert s.pop_first() == (5, None) and s.keys().tolist() == [6]
    with pytest.raises(TypeError, match="a set has no values"):
        s.pop(6)


def test_negative_indices_count_from_the_end(family: Family, device: str) -> None:
    keys = np.arange(100, 110)
    d = gpulsm.Dictionary.build(keys, keys * 2, device=device)
    for of in (d, d.snapshot()):
        indices = np.array([-1, -10, -11, 0, 9, 10, -(2**62)])
        answers, values, found = of.select(family.make(indices))
        assert family.read(found).tolist() == [True, True, False, True, True, False, False]
        assert family.read(answers).tolist() == [109, 100, 0, 100, 109, 0, 0]
        assert family.read(values).tolist() == [218, 200, 0, 200, 218, 0, 0]
        assert of.select(-3) == (107, 214, True) and of.select(-11) == (0, 0, False)
    assert indices.tolist() == [-1, -10, -11, 0, 9, 10, -(2**62)]
    assert gpulsm.Dictionary(device=device).select(-1) == (0, 0, False)


def test_the_least_and_the_greatest(family: Family, device: str) -> None:
    d = gpulsm.Dictionary.build([10, 30, 20], [1, 3, 2], device=device)
    like = family.make(np.zeros(1)) if family.on_gpu == (device != "cpu") else "numpy"
    for n in (0, 1, 2, 3, 9):
        for (keys, values), expected in (
            (d.nsmallest(n, like=like), [10, 20, 30][:n]),
            (d.nlargest(n, like=like), [30, 20, 10][:n]),
        ):
            assert keys.tolist() == expected and values.tolist() == [key // 10 for key in expected]
            assert isinstance(like, str) or isinstance(keys, family.kind())
    s = gpulsm.Dictionary.build([1.5, np.nan], device=device)
    assert np.isnan(s.nlargest(1)[0][0]) and s.nlargest(1)[1] is None
    assert len(gpulsm.Dictionary(device=device).nlargest(5)[0]) == 0
    with pytest.raises(TypeError, match="n: expected an integer, got float"):
        d.nlargest(2.0)  # type: ignore[arg-type]
