"""The river face: samples are dictionaries, one at a time.

Features may come and go. A feature that a sample lacks is left out of its likelihood, exactly; a feature that was never
seen before widens the model, starts like all others did, and counts as missing from everything earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from importlib import import_module
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.mixture import Mixture
from streamgmm.core.rules import Rule
from streamgmm.core.rules.natural import ANOMALY_RULE
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial
from streamgmm.errors import MissingExtraError
from streamgmm.estimators.validation import refuse_unfit

try:
    from river import base
except ImportError as problem:
    raise MissingExtraError("The river estimators require river", "river") from problem

AnomalyDetector: Any = (  # it has moved between versions of river
    base.AnomalyDetector if hasattr(base, "AnomalyDetector") else import_module("river.anomaly.base").AnomalyDetector
)

if TYPE_CHECKING:
    import pandas as pd

Sample = dict[Hashable, Any]


class _Learner:
    """What both faces share."""

    def __init__(
        self,
        n_components: int = 16,
        rule: str = "natural",
        half_life: float | None = None,
        precision_max: float | None = None,
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
        self._trainer: Trainer | None = None
        self._values_of: Callable[[Sample], tuple[Any, ...]] | None = None  # in the order of the features

    def learn_one(self, x: Sample) -> None:
        """Learn one sample; missing numbers and None are left out.

        Parameters
        ----------
        x : dict
            Numbers by feature.
        """
        if self._trainer is None or (row := self._plain_row(x)) is None or self._trainer.feed_row(row) is None:
            self._learn(list(x), np.array([list(x.values())], dtype=np.float64))

    def learn_many(self, X: pd.DataFrame) -> None:
        """Learn the rows of a data frame, in their order.

        Parameters
        ----------
        X : DataFrame
            One column per feature; NaN marks missing numbers.
        """
        self._learn(list(X.columns), X.to_numpy(dtype=np.float64))

    @property
    def mixture_(self) -> Mixture:
        """A copy of the current mixture; its features are in the order of ``feature_names_``."""
        if self._trainer is None:
            raise AttributeError("nothing was learned yet; call learn_one or learn_many first.")
        return self._trainer.mixture.copy()

    @property
    def feature_names_(self) -> list[Hashable]:
        """Features learned so far."""
        return list(self._features)

    def _learn(self, names: list[Hashable], values: npt.NDArray[np.float64]) -> None:
        if not values.size or np.isnan(values).all():
            return
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"x has several columns named {twice!r}; expected one column per feature.")
        refuse_unfit(values, values.dtype, name="x", gaps=True)
        trainer = self._with_features([name for name in names if name not in self._features])
        trainer.feed(self._rows(names, values))

    def _plain_row(self, x: Sample) -> npt.NDArray[np.float64] | None:
        """Return a sample that has all features of the model, and no other, as a row; None for any other sample."""
        if self._values_of is None or len(x) != len(self._features):
            return None
        try:
            return np.array([self._values_of(x)], dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            return None

    def _rows(self, names: list[Hashable], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Order values like the model's features; NaN where there is none, without features it never saw."""
        rows = np.full((len(values), len(self._features)), np.nan)
        known = [(self._features[name], i) for i, name in enumerate(names) if name in self._features]
        if known:
            to, of = zip(*known, strict=True)
            rows[:, to] = values[:, of]
        return rows

    def _make_rule(self) -> str | Rule[Any]:
        return self.rule

    def _with_features(self, fresh: list[Hashable]) -> Trainer:
        """Return the trainer, started or widened so that it knows these features, too."""
        if self._trainer is None:
            settings = Settings(
                self.n_components,
                rule=self._make_rule(),
                half_life=self.half_life,
                precision_max=self.precision_max,
                reheat=self.reheat,
                allow_nan=True,
            )
            self._trainer = Trainer(settings, len(fresh), engine=Serial(), seed=self.seed)
        elif fresh:
            self._trainer.add_features(len(fresh))
        for name in sorted(fresh, key=lambda n: (type(n).__name__, str(n))):  # whatever the order in the dict
            self._features[name] = len(self._features)
        if fresh:
            self._values_of = itemgetter(*self._features) if len(self._features) > 1 else None
        return self._trainer

    def _score(self, x: Sample) -> tuple[float, int] | None:
        """Return log-likelihood and best component; None before anything was learned."""
        if self._trainer is None:
            return None
        row = self._plain_row(x)
        if row is not None and (found := self._trainer.score_row(row)) is not None:
            return found[0], found[2]
        known = {name: value for name, value in x.items() if name in self._features}  # others may be anything
        values = np.array([list(known.values())], dtype=np.float64)
        if known:
            refuse_unfit(values, values.dtype, name="x", gaps=True)
        scores = self._trainer.mixture.scores(self._rows(list(known), values))
        return float(scores.log_likelihood[0]), int(scores.winner[0])


class OnlineMixture(_Learner, base.Clusterer):
    """Gaussian mixture for river: every component is a cluster.

    Features may have any units.

    Parameters
    ----------
    n_components : int, default=16
        Number of components.
    rule : {"natural", "sgd", "sem"}, default="natural"
        The update rule.
    half_life : float or None, default=None
        Half-life of past data, in samples.
    precision_max : float or None, default=None
        Largest precision of a feature, in its own units; its inverse is the smallest variance.
    reheat : bool, default=False
        True widens the annealing again on drift.
    seed : int or None, default=None
        Randomness of the start.

    Examples
    --------
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
        """Return the number of the best component; 0 before anything was learned.

        Parameters
        ----------
        x : dict
            Numbers by feature.
        """
        found = self._score(x)
        return 0 if found is None else found[1]


class OnlineAnomalyDetector(_Learner, AnomalyDetector):
    """Anomaly scores for river: the more unlikely a sample, the higher.

    Parameters
    ----------
    n_components : int, default=16
        Number of components.
    rule : {"natural", "sgd", "sem"}, default="natural"
        The update rule.
    half_life : float or None, default=None
        Half-life of past data, in samples.
    precision_max : float or None, default=None
        Largest precision of a feature, in its own units; its inverse is the smallest variance.
    reheat : bool, default=False
        True widens the annealing again on drift.
    seed : int or None, default=None
        Randomness of the start.

    Examples
    --------
    >>> import random
    >>> rng, model = random.Random(0), OnlineAnomalyDetector(n_components=4, seed=0)
    >>> for _ in range(4000):
    ...     model.learn_one({"a": rng.gauss(0.5, 0.1), "b": rng.gauss(0.5, 0.1)})
    >>> model.score_one({"a": 0.5, "b": 2.0}) > model.score_one({"a": 0.5, "b": 0.5})
    True
    """

    def _make_rule(self) -> str | Rule[Any]:
        return ANOMALY_RULE if self.rule == "natural" else self.rule

    def score_one(self, x: Sample) -> float:
        """Return minus the log-likelihood of the features that x has; 0 before anything was learned.

        Parameters
        ----------
        x : dict
            Numbers by feature.
        """
        found = self._score(x)
        return 0.0 if found is None else -found[0]
