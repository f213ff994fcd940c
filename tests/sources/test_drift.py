"""Synthetic drift."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamgmm.sources import Source, SourceError, open_source
from streamgmm.sources.numpy_files import ArraySource
from streamgmm.sources.synthetic.drift import DriftSource


def parts(*lengths: int) -> list[Source]:
    """Rows (which source, which row)."""
    return [ArraySource(str(i), np.stack([np.full(n, i), np.arange(n)], 1)) for i, n in enumerate(lengths)]


def rows(source: Source, start: dict | None = None) -> np.ndarray:
    return np.concatenate([c.rows for c in source.chunks(start)])


def assert_in_order(found: np.ndarray) -> None:
    for i in np.unique(found[:, 0]):
        own = found[found[:, 0] == i, 1]
        np.testing.assert_array_equal(own, np.arange(len(own)))


def test_sudden() -> None:
    found = rows(DriftSource("sudden", parts(5000, 5000, 3000), every=700))
    np.testing.assert_array_equal(found[:, 0], np.repeat([0, 1, 2], [700, 700, 3000]))
    assert_in_order(found)


def test_recurring() -> None:
    found = rows(DriftSource("recurring", parts(2000, 900), every=300))
    np.testing.assert_array_equal(found[:1800, 0], np.tile(np.repeat([0, 1], 300), 3))
    assert len(found) == 2100  # the second source has ended
    assert_in_order(found)


def test_gradual() -> None:
    found = rows(DriftSource("gradual", parts(40_000, 40_000), every=20_000, seed=3))
    share = found[:20_000, 0].reshape(10, -1).mean(1)
    np.testing.assert_allclose(share, np.arange(0.05, 1, 0.1), atol=0.05)
    assert (found[20_000:, 0] == 1).all()
    assert_in_order(found)


@pytest.mark.parametrize("kind", ["sudden", "gradual", "recurring"])
def test_every_position_resumes(kind: str) -> None:
    whole = DriftSource(kind, parts(3000, 3000), every=800)
    expected = rows(whole)
    for chunk in list(whole.chunks()):
        position = json.loads(json.dumps(chunk.position))
        rest = [c.rows for c in DriftSource(kind, parts(3000, 3000), every=800).chunks(position)]
        np.testing.assert_array_equal(np.concatenate([expected[:0], *rest]), expected[position["row"] :])


def test_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((600, 784), np.float32))
    source = open_source(f"drift:recurring:100:{tmp_path}/a.npy|glyphs:A-C")
    found = next(source.chunks()).rows
    assert (found[:100] == 0).all()
    assert (found[100:200] > 0).any()
    for name, message in {
        "drift:sudden:x.npy": "does not say after how many rows",
        f"drift:odd:10:{tmp_path}/a.npy|glyphs:A": "unknown kind of drift 'odd'; expected sudden",
        f"drift:sudden:10:{tmp_path}/a.npy": "expected at least 2 sources",
    }.items():
        with pytest.raises(SourceError, match=message):
            open_source(name)
    np.save(tmp_path / "b.npy", np.zeros((600, 3), np.float32))
    with pytest.raises(SourceError, match=r"b\.npy has 3 features; expected 784"):
        rows(open_source(f"drift:recurring:100:{tmp_path}/a.npy|{tmp_path}/b.npy"))
