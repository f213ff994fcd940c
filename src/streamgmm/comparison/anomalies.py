"""Anomaly ranking with one class held out: how well ours and scikit-learn's separate it from new rows of the others."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from streamgmm.comparison.contenders import ANOMALY_REG_COVAR, our_detector, their_mixture
from streamgmm.comparison.sample_set import SampleSet

MOST_CLASSES = 10


def held_out_classes(labels: npt.NDArray[Any]) -> list[Any]:
    """Return the classes to hold out one by one: all, or the largest if there are many.

    Parameters
    ----------
    labels : ndarray of shape (N,)
        Class of each row.
    """
    classes, counts = np.unique(labels, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    return [classes[i] for i in sorted(largest)]


def measure_anomalies(samples: SampleSet, components: int, split: int, seed: int) -> dict[str, Any]:
    """Return the ROC AUC of both, as the mean over the classes held out; None if all leave too few rows.

    Models learn the training rows of all other classes. They rank the test rows of those, and all rows of the class.

    Parameters
    ----------
    samples : SampleSet
        A set with labels.
    components : int
        Number of components.
    split : int
        Number of the split.
    seed : int
        Seed of both models.
    """
    assert samples.labels is not None
    in_test = np.zeros(len(samples.rows), dtype=bool)
    in_test[samples.split(split)[1]] = True
    areas: dict[str, list[float]] = {"ours": [], "theirs": []}
    seconds = {"ours": 0.0, "theirs": 0.0}
    said: list[str] = []
    skipped = 0
    for held_out in held_out_classes(samples.labels):
        odd = samples.labels == held_out
        train, test = samples.rows[~odd & ~in_test], samples.rows[odd | in_test]
        if len(train) < components:  # scikit-learn needs a row per component
            skipped += 1
            continue
        truth = odd[odd | in_test]
        scaler = StandardScaler().fit(train)
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ours = our_detector(components, seed).fit(train)
        between = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # ranks hardly change in the last steps
            theirs = their_mixture(components, seed, ANOMALY_REG_COVAR).fit(scaler.transform(train))
        seconds["theirs"] += time.perf_counter() - between
        seconds["ours"] += between - begin
        areas["ours"].append(_area(truth, ours.score_samples(test)))
        areas["theirs"].append(_area(truth, theirs.score_samples(scaler.transform(test))))
        said += [str(warning.message) for warning in caught]
    return {
        "ours": _mean(areas["ours"]),
        "theirs": _mean(areas["theirs"]),
        "our_seconds": seconds["ours"],
        "their_seconds": seconds["theirs"],
        "classes_skipped": skipped,
        "our_warnings": said,
    }


def _mean(areas: list[float]) -> float | None:
    return float(np.mean(areas)) if areas else None


def _area(odd: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64]) -> float:
    """Return the area under the ROC curve; a row may be infinitely strange, which scikit-learn refuses."""
    largest = np.finfo(np.float64).max
    return float(roc_auc_score(odd, np.clip(-scores, -largest, largest)))
