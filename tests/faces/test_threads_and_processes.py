"""Estimators in several threads and processes: answers are of one moment, and nothing is learned twice or lost."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pytest

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture

X = np.random.default_rng(0).normal(0.5, 0.2, (4000, 5))


def together(*works: Callable[[], None]) -> None:
    """Run functions side by side; raise what any of them raised."""
    problems: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"scale": "none", "precision_max": 100.0},
    {"n_jobs": 2},
    {"covariance_type": "full"},
    {"covariance_type": "low_rank", "rank": 2},
    {"rule": "sem", "reheat": True},
]


@pytest.mark.parametrize("asked_rows", [1, 7])
@pytest.mark.parametrize("rows", [1, 200])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_answers_are_of_one_moment_while_another_thread_learns(
    settings: dict[str, Any], rows: int, asked_rows: int
) -> None:
    chunks, asked = (
        [X[:600], *np.split(X[600:1000] if rows == 1 else X[600:], 400 if rows == 1 else 17)],
        X[:asked_rows],
    )
    model, lonely = (StreamingGaussianMixture(16, random_state=0, **settings) for _ in range(2))
    moments = [lonely.partial_fit(chunk).score_samples(asked) for chunk in chunks]
    model.partial_fit(chunks[0])
    done, answers = threading.Event(), list[Any]()

    def learn() -> None:
        try:
            for chunk in chunks[1:]:
                model.partial_fit(chunk)
        finally:
            done.set()

    def ask() -> None:
        while not done.is_set():
            answers.append(model.score_samples(asked))

    together(learn, ask, ask)
    np.testing.assert_array_equal(model.score_samples(asked), moments[-1])
    known = {moment.tobytes() for moment in moments}
    assert all(answer.tobytes() in known for answer in answers)


def test_two_threads_that_learn_take_turns() -> None:
    model = StreamingGaussianMixture(4, random_state=0).partial_fit(X[:400])
    alone = pickle.loads(pickle.dumps(model))
    chunk = X[400:800]

    def learn() -> None:
        for _ in range(5):
            model.partial_fit(chunk)

    together(learn, learn)
    for _ in range(10):
        alone.partial_fit(chunk)
    assert model.n_samples_seen_ == 4400
    np.testing.assert_array_equal(model.means_, alone.means_)


def test_a_detector_learns_and_judges_side_by_side() -> None:
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, random_state=0)).partial_fit(X[:2000])

    def learn() -> None:
        for chunk in np.split(X[2000:], 10):
            detector.partial_fit(chunk)

    def judge() -> None:
        for _ in range(20):
            assert np.isfinite(detector.p_values(X[:50])).all()

    together(learn, judge)
    assert detector.mixture_.n_samples_seen_ == 4000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_forked_process_continues_on_its_own(jobs: int) -> None:
    model = StreamingGaussianMixture(4, n_jobs=jobs, random_state=0).partial_fit(X[:1000])
    twin = pickle.loads(pickle.dumps(model))
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writer, model.partial_fit(X[1000:1500]).means_.tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        theirs = np.frombuffer(pipe.read()).reshape(4, 5)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(theirs, twin.partial_fit(X[1000:1500]).means_)
    assert model.n_samples_seen_ == 1000


def test_processes_of_joblib_score_alike() -> None:
    model = StreamingGaussianMixture(4, random_state=0).partial_fit(X)
    parts = joblib.Parallel(n_jobs=2)(joblib.delayed(model.score_samples)(part) for part in np.split(X, 4))
    np.testing.assert_array_equal(np.concatenate(parts), model.score_samples(X))


def test_pickling_in_the_middle_of_a_stream_changes_nothing() -> None:
    whole, cut = (StreamingGaussianMixture(4, batch_size=3, random_state=0) for _ in range(2))
    for chunk in np.array_split(X, 7):
        whole.partial_fit(chunk)
        cut = pickle.loads(pickle.dumps(cut.partial_fit(chunk)))
    np.testing.assert_array_equal(cut.means_, whole.means_)


def test_attributes_of_low_rank_mixtures_take_turns_with_training() -> None:
    """Reading them used to keep parameters that were half written, also for later answers."""
    chunks = [X[:600], *np.split(X[600:], 34)]
    model, lonely = (StreamingGaussianMixture(16, covariance_type="low_rank", rank=2, random_state=0) for _ in range(2))
    moments = [lonely.partial_fit(chunk).score_samples(X[:7]) for chunk in chunks]
    model.partial_fit(chunks[0])
    done, answers, gaps = threading.Event(), list[Any](), np.where(np.arange(5) == 2, np.nan, X[:3])

    def learn() -> None:
        try:
            for chunk in chunks[1:]:
                model.partial_fit(chunk)
                answers.append(model.score_samples(X[:7]))
        finally:
            done.set()

    def look() -> None:
        while not done.is_set():
            assert np.isfinite(model.factors_).all()
            assert np.isfinite(model.noise_variances_).all()
            assert np.isfinite(model.conditional_sample(gaps)).all()

    together(learn, look)
    np.testing.assert_array_equal(answers, moments[1:])
