"""A sensor log, in its order, with gaps and faults in training, too: what is found, what is named, what is drift."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.core.rules.natural import ANOMALY_RULE
from streamgmm.core.trainer import Trainer
from streamgmm.sources.synthetic.sensors import NAMES, SENSORS, SensorLog, sensor_log
from tests.commands.command_line import streamgmm
from tests.conftest import make_trainer

OTHER = 1000  # seed of the log to judge, beyond that of the log to learn


def fitted(components: int, log: SensorLog, seed: int) -> StreamingAnomalyDetector:
    mixture = StreamingGaussianMixture(components, allow_nan=True, random_state=seed)
    return StreamingAnomalyDetector(mixture).fit(log.values)


def recall_and_precision(flagged: np.ndarray, faulty: np.ndarray) -> tuple[float, float]:
    found = (flagged & (faulty >= 0)).sum()
    return found / (faulty >= 0).sum(), found / flagged.sum()


def write(path: Path, log: SensorLog) -> Path:
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["minute", *NAMES])
        for minute, row in zip(log.minutes.tolist(), log.values.tolist(), strict=True):
            lines.writerow([minute, *("" if np.isnan(value) else value for value in row)])
    return path


def check_faults(components: int, seed: int, folder: Path) -> None:
    """Of 8640 rows, 78 have a fault. contamination=0.01 would flag 86, 14 or more of them usual in one log of ten."""
    past, today = sensor_log(seed=seed), sensor_log(seed=seed + OTHER)
    detector = fitted(components, past, seed)
    flagged = detector.predict(today.values) < 0
    write(folder / "past.csv", past)
    write(folder / "today.csv", today)
    settings = ["--id", "minute", "--missing", "learn", "--components", components, "--seed", seed, "--out", "run"]
    streamgmm("train", "past.csv", *settings, folder=folder)
    done = streamgmm("score", "run", "today.csv", "--id", "minute", "--json", folder=folder)
    scored = np.array([json.loads(line)["anomaly"] for line in done.stdout.splitlines()])
    for found in (flagged, scored):
        recall, precision = recall_and_precision(found, today.faulty)
        assert recall >= 0.95
        assert precision >= 0.85
    hits = np.flatnonzero(flagged & (today.faulty >= 0))
    reasons = detector.explain(today.values[hits], most=1)
    right = sum(row[0].feature == today.faulty[i] for row, i in zip(reasons, hits, strict=True))
    assert right >= 0.95 * len(hits)


def test_faults(tmp_path: Path) -> None:
    check_faults(16, 2, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("components", [16, 64])
def test_faults_of_ten_logs(components: int, seed: int, tmp_path: Path) -> None:
    check_faults(components, seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("components", [16, 64])
def test_usual_rows_are_flagged_as_often_as_asked_for(components: int) -> None:
    found = []
    for seed in range(10):
        past, today = (sensor_log(seed=s, faults=0.0) for s in (seed, seed + OTHER))
        found.append((fitted(components, past, seed).predict(today.values) < 0).mean())
    assert 0.005 < np.mean(found) < 0.015


def broken(clean: np.ndarray, sensor: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return what a sensor reports (n,) that is offset, ten times as noisy, or stuck at the level of another state."""
    _, levels, swing, noise = SENSORS[sensor]
    deviation = np.sqrt(noise**2 + swing**2 / 2)
    if kind == "offset":
        return clean[:, sensor] + rng.choice([-1, 1]) * rng.uniform(5, 10) * deviation
    if kind == "noise":
        return clean[:, sensor] + 10 * deviation * rng.standard_normal(len(clean))
    return np.full(len(clean), max(levels, key=lambda level: abs(level - np.nanmedian(clean[:, sensor]))))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["offset", "noise", "stuck"])
@pytest.mark.parametrize("components", [16, 64])
def test_the_sensor_at_fault_is_named(components: int, kind: str) -> None:
    """Of the rows that are flagged because of a fault, in each of 12 sensors and three logs."""
    named, flagged = 0, 0
    for seed in range(20, 23):
        detector = fitted(components, sensor_log(seed=seed), seed)
        rng, clean = np.random.default_rng(seed), sensor_log(seed=seed + OTHER, faults=0.0).values
        usual = detector.predict(clean) > 0
        for sensor in range(len(SENSORS)):
            start = int(rng.integers(0, len(clean) - 100))
            part = slice(start, start + 100)
            rows = clean[part].copy()
            rows[:, sensor] = broken(rows, sensor, kind, rng)
            hits = rows[(detector.predict(rows) < 0) & usual[part]]
            flagged += len(hits)
            named += sum(reasons[0].feature == sensor for reasons in detector.explain(hits, most=1)) if len(hits) else 0
    assert flagged > 1000
    assert named >= 0.95 * flagged


def with_outliers(features: int, size: float, seed: int) -> np.ndarray:
    """16 clusters; 100 outliers in bursts of at most 20 rows, in one feature or in all."""
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.normal(0, 4, (16, features))[rng.integers(16, size=100_000)], 1.0)
    deviation, left = x.std(0), 100
    while left:
        length, start = min(left, int(rng.integers(1, 21))), int(rng.integers(20_000, 99_900))
        where = slice(None) if rng.random() < 0.5 else [int(rng.integers(features))]
        x[start : start + length, where] += size * rng.choice([-1, 1]) * deviation[where]
        left -= length
    return x


def trainer(features: int) -> Trainer:
    return make_trainer(features, n_components=16, rule=ANOMALY_RULE)


@pytest.mark.parametrize(("features", "size"), [(2, 10.0), (2, 1e6), (12, 10.0), (12, 1e6)])
def test_bursts_of_outliers_are_no_drift(features: int, size: float) -> None:
    checks = trainer(features).feed(with_outliers(features, size, seed=0))
    assert not [check.samples for check in checks if check.drift]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("size", [10.0, 1e3, 1e6])
@pytest.mark.parametrize("features", [2, 12])
def test_bursts_of_outliers_of_many_streams_are_no_drift(features: int, size: float, seed: int) -> None:
    checks = trainer(features).feed(with_outliers(features, size, seed))
    assert not [check.samples for check in checks if check.drift]


@pytest.mark.parametrize("offset", [0, 17, 49])
@pytest.mark.parametrize("features", [2, 12])
@pytest.mark.parametrize("deviations", [1.0, 30.0])
def test_a_lasting_shift_is_noticed_within_300_rows(features: int, deviations: float, offset: int) -> None:
    rng, change = np.random.default_rng(1), 20_000 + offset
    x = rng.normal(rng.normal(0, 4, (16, features))[rng.integers(16, size=21_000)], 1.0)
    x[change:] += deviations * x.std(0)
    drifts = [check.samples for check in trainer(features).feed(x) if check.drift]
    assert drifts
    assert change < drifts[0] <= change + 300
