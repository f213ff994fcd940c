"""The river face: samples are dictionaries, one at a time.

Features may come and go. One that a sample lacks is left out of its likelihood, exactly; one that was never seen before
widens the model, starts like any other at the beginning, and is missing from all that came earlier.
"""

from __future__ import annotations

from collections.abc import Hashable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgmm import inputs, kernels, training
from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.kernels import Parameters
from streamgmm.mixture import Mixture
from streamgmm.training import Pending, TrainingState

try:
    from river import base
except ImportError as problem:
    raise ImportError("the river face needs river: pip install 'streamgmm[river]'") from problem

AnomalyDetector: Any = (  # it has moved between versions of river
    base.AnomalyDetector if hasattr(base, "AnomalyDetector") else import_module("river.anomaly.base").AnomalyDetector
)

if TYPE_CHECKING:
    import pandas as pd

Sample = dict[Hashable, Any]
FRESH_COUNT = 10.0  # inertia of components that have to learn a feature they never heard of


class _Learner:
    """What both faces share; parameters are those of `StreamingGaussianMixture`."""

    def __init__(
        self,
        n_components: int = 16,
        rule: str = "natural",
        half_life: float | None = None,
        precision_max: float = 20.0,
        reheat: bool = False,
        seed: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.rule = rule
        self.half_life = half_life
        self.precision_max = precision_max
        self.reheat = reheat
        self.seed = seed
        self._features: dict[Hashable, int] = {}
        self._state: TrainingState | None = None

    def learn_one(self, x: Sample) -> None:
        """Learns one sample; numbers that are missing or None are left out."""
        self._learn(list(x), np.array([list(x.values())], dtype=np.float64))

    def learn_many(self, X: pd.DataFrame) -> None:
        """Learns the rows of a data frame, in their order."""
        self._learn(list(X.columns), X.to_numpy(dtype=np.float64))

    @property
    def mixture_(self) -> Mixture:
        """The mixture as it is now, a copy; its features stand in the order of ``feature_names_``."""
        if self._state is None:
            raise AttributeError("nothing was learned yet; call learn_one or learn_many first.")
        return Mixture(self._state.parameters)

    @property
    def feature_names_(self) -> list[Hashable]:
        """Features learned so far."""
        return list(self._features)

    def _learn(self, names: list[Hashable], values: npt.NDArray[np.float64]) -> None:
        if not values.size or np.isnan(values).all():
            return
        inputs.refuse_unfit(values, values.dtype, "x", gaps=True)
        self._make_room([name for name in names if name not in self._features])
        assert self._state is not None
        training.feed(self._state, self._rows(names, values))

    def _rows(self, names: list[Hashable], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Values in the order of the model's features; NaN for those that nobody gave, without those it never saw."""
        rows = np.full((len(values), len(self._features)), np.nan)
        known = [(self._features[name], i) for i, name in enumerate(names) if name in self._features]
        if known:
            to, of = zip(*known, strict=True)
            rows[:, to] = values[:, of]
        return rows

    def _make_room(self, fresh: list[Hashable]) -> None:
        if not fresh:
            return
        if self._state is None:
            model = StreamingGaussianMixture(
                self.n_components,
                rule=self.rule,
                half_life=self.half_life,
                precision_max=self.precision_max,
                reheat=self.reheat,
                allow_nan=True,
                random_state=self.seed,
            )
            model._validate_params()
            self._state = model._begin(np.empty((0, len(fresh))))
        else:
            _widen(self._state, len(fresh), StreamingGaussianMixture().mean_range)
        for name in sorted(fresh, key=lambda n: (type(n).__name__, str(n))):  # not as they happen to stand in a dict
            self._features[name] = len(self._features)

    def _score(self, x: Sample) -> kernels.Scores | None:
        if self._state is None:
            return None
        known = {name: value for name, value in x.items() if name in self._features}  # others may be anything
        values = np.array([list(known.values())], dtype=np.float64)
        if known:
            inputs.refuse_unfit(values, values.dtype, "x", gaps=True)
        return kernels.score(self._state.parameters, self._rows(list(known), values))


class OnlineMixture(_Learner, base.Clusterer):
    """Gaussian mixture for river: every component is a cluster.

    Scale features to about [0, 1] first, for example with ``preprocessing.MinMaxScaler``.

    >>> import random
    >>> rng, model = random.Random(0), OnlineMixture(n_components=4, seed=0)
    >>> for i in range(4000):
    ...     model.learn_one({"a": rng.gauss(i % 2, 0.1), "b": rng.gauss(0.5, 0.1)})
    >>> model.predict_one({"a": 0.0, "b": 0.5}) != model.predict_one({"a": 1.0, "b": 0.5})
    True
    >>> model.predict_one({"a": 0.0}) == model.predict_one({"a": 0.0, "b": 0.5})
    True
    """

    def predict_one(self, x: Sample) -> int:
        """Number of the best component; 0 before anything was learned."""
        found = self._score(x)
        return 0 if found is None else int(found.winner[0])


class OnlineAnomalyDetector(_Learner, AnomalyDetector):
    """Anomaly scores for river: the more unlikely a sample, the higher.

    >>> import random
    >>> rng, model = random.Random(0), OnlineAnomalyDetector(n_components=4, seed=0)
    >>> for _ in range(4000):
    ...     model.learn_one({"a": rng.gauss(0.5, 0.1), "b": rng.gauss(0.5, 0.1)})
    >>> model.score_one({"a": 0.5, "b": 2.0}) > model.score_one({"a": 0.5, "b": 0.5})
    True
    """

    def score_one(self, x: Sample) -> float:
        """Minus the log-likelihood of the features that x has; 0 before anything was learned."""
        found = self._score(x)
        return 0.0 if found is None else -float(found.log_likelihood[0])


def _widen(state: TrainingState, more: int, mean_range: float) -> None:
    """Gives the model features that it has never seen: a random start, the narrowest scales, and no inertia."""
    old = state.parameters
    means = state.rng.uniform(-mean_range, mean_range, (len(old), more))
    scales = np.full((len(old), more), state.scale_max)
    state.parameters = Parameters(np.hstack([old.means, means]), np.hstack([old.scales, scales]), old.logits)
    for name, added in {"means": means, "variances": 1 / scales**2}.items():
        values = state.rule_state.get(name)
        if values is not None and values.shape == old.means_buffer.shape:
            wider = np.hstack([values[:, : old.n_features], added])
            state.rule_state[name] = kernels.padded(wider, old.dtype, 0 if name == "means" else 1)
    if "counts" in state.rule_state:
        np.minimum(state.rule_state["counts"], FRESH_COUNT, out=state.rule_state["counts"])
    state.pending = Pending(np.empty((0, old.n_features + more), old.dtype), state.batch_size)
