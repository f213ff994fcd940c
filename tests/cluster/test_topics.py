"""Partitions of a Kafka topic that workers share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamgmm.engines.workers import LocalCluster
from streamgmm.sources import open_source
from streamgmm.sources.slices import Piece, find_layout, open_slices
from tests.cluster.runs import assert_same_model, go, resumed, start
from tests.sources.brokers import Brokers

pytestmark = pytest.mark.services
X = np.random.default_rng(0).random((8010, 5)).astype("<f4")


@pytest.fixture(scope="module")
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture(scope="module")
def topic(brokers: Brokers) -> str:
    return brokers.fill("shared", (row.tobytes() for row in X))


def test_partitions_are_slices(topic: str) -> None:
    source = open_source(topic)
    slices = open_slices(source, find_layout(source, 0, None))
    assert slices.ends.tolist() == [2003, 2003, 2002, 2002]
    chunk = slices.read(Piece(1, 100, 350))
    np.testing.assert_array_equal(chunk.rows, X[1::4][100:350])
    assert chunk.numbers[0] == 100 * 4 + 1


def test_every_message_is_learned_once(topic: str, tmp_path: Path) -> None:
    whole = go(start(tmp_path / "whole", topic, LocalCluster(2, 100)))
    assert whole.progress.samples == len(X)
    go(start(tmp_path / "parts", topic, LocalCluster(2, 100)), rounds=30)
    run = go(resumed(tmp_path / "parts", topic, LocalCluster(2, 100)))
    assert run.progress.samples == len(X)
    assert_same_model(run, whole)


def test_a_topic_that_grows_is_followed(brokers: Brokers, tmp_path: Path) -> None:
    topic = brokers.fill("growing", (row.tobytes() for row in X[:3000]))
    run = start(tmp_path / "run", topic, LocalCluster(2, 100), passes=None)
    run.folder.mkdir()
    for _ in run.go():
        if run.progress.samples == 3000:
            brokers.fill("growing", (row.tobytes() for row in X[3000:4000]))
        if run.progress.samples == 4000:
            run.stop = lambda: True
    assert run.progress.samples == 4000
