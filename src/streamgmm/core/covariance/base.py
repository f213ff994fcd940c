"""What a covariance kind is: tensors, and the mathematics that only it knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance.work import Bounds, Prior, Statistics, Work
from streamgmm.core.parameters import Parameters
from streamgmm.core.registry import require_free
from streamgmm.core.rows import LIMITS
from streamgmm.core.state import require_range
from streamgmm.core.tensors import Layout, Tensors
from streamgmm.native import AnswerStep, EMStep, Floats, NaturalStep, Scores, SGDStep, Steps

SCALE_MIN = 1e-3  # times the largest scale where that is below one
SCALES = (1e-20, 1e20)  # that training can give
FAR = 100.0  # times the largest scale, or its part of the smallest one: far outside the bounds of a training
FARTHEST = 1e140  # deviations whose squares stay finite


class Covariance(ABC):
    """A covariance kind: the form of the covariances of a mixture, and the mathematics that follows from it.

    Kinds are stateless. Everything they work on is handed in: ``Parameters`` with the tensors that ``layout`` declares,
    and moments, ``Tensors`` that ``moment_layout`` declares, which the rules ``natural`` and ``sem`` learn.
    `PlainCovariance` implements the steps of the natural rule in NumPy, so a new kind can begin with those.

    Attributes
    ----------
    name : str
        What ``covariance_type`` calls it.
    supports_gaps : bool
        Whether samples with missing values can be learned and scored.
    bounds_influence : bool
        Whether samples with an extreme loss get less influence ([E20]).
    leaves_out : bool
        Whether batch EM can leave samples out ([E26], [E31]).
    couples_features : bool
        Whether features may be correlated within a component.
    patience : int
        How many times as many samples a training should see as with diagonal covariances.
    """

    name: ClassVar[str]
    supports_gaps: ClassVar[bool] = False
    bounds_influence: ClassVar[bool] = False
    leaves_out: ClassVar[bool] = False
    couples_features: ClassVar[bool] = False
    patience: ClassVar[int] = 1

    # Tensors

    @abstractmethod
    def layout(self, n_features: int) -> dict[str, Layout]:
        """Declare the tensors of parameters; one of them is ``"means"``."""

    @abstractmethod
    def moment_layout(self, n_features: int) -> dict[str, Layout]:
        """Declare the tensors of moments about the means."""

    def native(self, parameters: Parameters) -> Any:
        """Wrap parameters for the kernel; None where a kind has no kernel."""
        return None

    @abstractmethod
    def refresh(self, parameters: Parameters, rows: range) -> None:
        """Recompute ``log_dets`` (half the log-determinant of each precision) of some components."""

    def validate(self, parameters: Parameters) -> None:
        """Raise ValueError for parameters that training cannot have made, as a damaged file may hold."""
        require_range("means", parameters["means"], -LIMITS[parameters.dtype], LIMITS[parameters.dtype])

    def validate_bounds(self, parameters: Parameters, bounds: Bounds) -> None:
        """Raise ValueError for scales that are far outside the bounds of a training, as a damaged file may hold."""
        return

    def validate_moments(self, moments: Tensors, means: Floats) -> None:
        """Raise ValueError for moments about these means that training cannot have made."""
        return

    def bounds(self, precision_max: float) -> Bounds:
        """Turn the largest precision into bounds on scales."""
        largest = precision_max**0.5
        return Bounds(SCALE_MIN * min(1.0, largest), largest)

    @abstractmethod
    def clip(self, parameters: Parameters, bounds: Bounds) -> None:
        """Bring all scales within bounds."""

    @abstractmethod
    def initial(
        self, means: npt.NDArray[Any], precisions: npt.ArrayLike | None, precision_max: float
    ) -> dict[str, npt.NDArray[Any]]:
        """Return tensors for these means, with the given precisions or all at ``precision_max``.

        Raise ValueError if the precisions do not have the form of the kind.
        """

    def uncorrelated(self, means: npt.NDArray[Any], variances: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        """Return tensors for these means and variances (K, D) of features that are independent within components."""
        return self.initial(means, 1 / variances, 1.0)

    @abstractmethod
    def widen(self, tensors: Tensors, means: npt.NDArray[Any], bounds: Bounds) -> Tensors:
        """Return tensors of parameters or moments with further features.

        New features have these ``means`` (K, more) and the smallest variance.
        """

    # Answers

    @abstractmethod
    def score(self, parameters: Parameters, x: npt.ArrayLike, factor: float = 1.0) -> Scores:
        """[E3] [E4] Return log-likelihood, best score and winner of each row of x (N, D)."""

    @abstractmethod
    def component_scores(
        self, parameters: Parameters, x: npt.ArrayLike, factor: float = 1.0
    ) -> npt.NDArray[np.float64]:
        """[E2] Return log π_k + log N_k(x), shape (N, K)."""

    @abstractmethod
    def draw(self, parameters: Parameters, components: npt.NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """Draw one sample from each of the given components: (len(components), D)."""

    @abstractmethod
    def marginal(self, parameters: Parameters, features: Sequence[int]) -> Parameters:
        """Return the distribution of some features alone."""

    def condition(self, parameters: Parameters, row: npt.NDArray[np.float64]) -> Parameters:
        """[E42] Return the distribution of the features that a row (D,) lacks, which are NaN, given the others."""
        raise ValueError(f"covariance_type={self.name!r} does not support conditioning; use 'diag' or 'full'.")

    def imputed(self, parameters: Parameters, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """[E42] Return rows (N, D) with the expected value in place of each NaN."""
        filled = np.array(x)
        for n in np.flatnonzero(np.isnan(x).any(1)).tolist():
            left = self.condition(parameters, x[n])
            filled[n, np.isnan(x[n])] = left.weights @ left.means.astype(np.float64)
        return filled

    def pull(self, parameters: Parameters, component: int, away: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """[E29] Return the precision of a component times deviations (N, D) from its mean."""
        raise ValueError(f"covariance_type={self.name!r} does not support explanations; use 'diag' or 'full'.")

    def conditional_precisions(self, parameters: Parameters) -> npt.NDArray[np.float64]:
        """[E29] Return the precision of each feature given all others: (K, D)."""
        raise ValueError(f"covariance_type={self.name!r} does not support explanations; use 'diag' or 'full'.")

    def with_rank(self, rank: int) -> Covariance:
        """Return the kind with so many factors; most kinds have none."""
        return self

    def supports(self, method: str) -> bool:
        """Return whether the kind implements an optional method, such as ``"sgd_steps"`` or ``"reframe"``."""
        return getattr(type(self), method) is not getattr(Covariance, method)

    def feature_variances(self, parameters: Parameters) -> Floats:
        """Return the variance of every feature in every component: (K, D)."""
        return self.variances(self.start_moments(parameters))

    def to_sklearn(self, parameters: Parameters) -> dict[str, Any] | None:
        """Return covariance attributes of scikit-learn's ``GaussianMixture``; None if it has no such kind."""
        return None

    @abstractmethod
    def precisions(self, parameters: Parameters) -> Floats:
        """Return precisions in the form that users see."""

    @abstractmethod
    def covariances(self, parameters: Parameters) -> Floats:
        """Return covariances in the form that users see."""

    @abstractmethod
    def n_parameters(self, n_components: int, n_features: int) -> int:
        """Count the free numbers in means and covariances."""

    # Learning

    @abstractmethod
    def start_moments(self, parameters: Parameters) -> Tensors:
        """Return moments that agree with the parameters."""

    def sgd_steps(self, parameters: Parameters, work: Work, step: SGDStep) -> Steps:
        """[E6]-[E9] Take gradient steps; INOUT parameters."""
        raise ValueError(f"covariance_type={self.name!r} does not support rule='sgd'; use rule='natural'.")

    @abstractmethod
    def natural_steps(
        self,
        parameters: Parameters,
        moments: Tensors,
        counts: npt.NDArray[np.float64],
        received: npt.NDArray[np.float64],
        work: Work,
        step: NaturalStep,
        prior: Prior | None = None,
    ) -> Steps:
        """[E13]-[E15] Take natural-gradient steps.

        INOUT parameters, moments, counts (K,), received (K,) and the evidence of the prior; logits stay. ``received``
        is added to sample by sample, because a sum of sums would depend on the chunks.
        """

    def natural_rows(
        self,
        parameters: Parameters,
        moments: Tensors,
        counts: npt.NDArray[np.float64],
        received: npt.NDArray[np.float64],
        work: Work,
        step: NaturalStep,
        prior: Prior | None = None,
    ) -> Any:
        """Prepare natural-gradient steps of single rows; see ``native.diagonal``. None if the kind has none."""
        return None

    def natural_answer(
        self,
        parameters: Parameters,
        moments: Tensors,
        counts: npt.NDArray[np.float64],
        prior: Prior,
        frame: Floats,
        step: AnswerStep,
        out: Parameters,
    ) -> bool:
        """[E28] Set ``out`` to the parameters that answer, in the units of the rows; return whether the kind can."""
        return False

    def score_row(self, parameters: Parameters, row: Floats, gaps: bool) -> tuple[float, float, int] | None:
        """Return log-likelihood, max-component value and winner of one plain row (1, D); None if `score` must."""
        return None

    def em_steps(
        self,
        parameters: Parameters,
        statistics: Statistics,
        masses: npt.NDArray[np.float64],
        work: Work,
        step: EMStep,
        prior: Prior | None = None,
    ) -> Steps:
        """[E16] [E17] Take steps of stochastic EM.

        INOUT parameters, statistics, masses (K,) and the evidence of the prior.
        """
        raise ValueError(f"covariance_type={self.name!r} does not support rule='sem'; use rule='natural'.")

    @abstractmethod
    def set_from_moments(
        self, parameters: Parameters, moments: Tensors, bounds: Bounds, rows: range, prior: Prior | None = None
    ) -> None:
        """[E15] [E24] Set the covariances of some components from their moments."""

    def start_prior(self, n_features: int, dtype: np.dtype[Any], expected: float) -> Any:
        """Return the rows of a prior that counts like one sample, in the layout of the kind; None if it has none."""
        return None

    def set_prior(self, prior: Prior, rows: list[Any]) -> None:
        """[E24] Set the rows of a prior, each (D,) or a number."""
        return

    def prior_weight(self, weight: float, mass: float, n_features: int) -> float:
        """[E24] Return the weight that a prior of so many samples has in a component that has received ``mass``."""
        return weight

    def pool_variances(self, parameters: Parameters, shares: npt.NDArray[np.float64]) -> None:
        """[E28] Move variances by shares (K,) towards those of all components together, in place."""
        return

    def inflate(self, moments: Tensors, factors: npt.NDArray[np.float64]) -> Tensors:
        """[E28] Return moments with the covariances of components multiplied by factors (K,)."""
        return moments

    def limit_precisions(self, parameters: Parameters, most: npt.NDArray[np.float64]) -> None:
        """Bring the precision of each feature (D,) below a limit, in place."""
        raise ValueError(f"covariance_type={self.name!r} does not support scale='auto'; use scale='none'.")

    def reframe(self, tensors: Tensors, shift: npt.NDArray[Any], factor: npt.NDArray[Any]) -> Tensors:
        """[E23] Move tensors of parameters or moments to samples that became (z − shift)·factor, in place."""
        raise ValueError(f"covariance_type={self.name!r} does not support scale='auto'; use scale='none'.")

    def forget_features(self, tensors: Tensors, features: npt.NDArray[np.bool_]) -> Tensors:
        """Set some features (D,) of all components to those of standardised samples, in place."""
        return tensors

    def fix_features(self, tensors: Tensors, features: npt.NDArray[np.bool_], means: npt.NDArray[Any]) -> None:
        """Set some features (D,) to a mean with density 1, so that they add nothing to a log-likelihood."""
        return

    @abstractmethod
    def set_components(
        self, parameters: Parameters, statistics: Statistics, components: npt.NDArray[np.int64], bounds: Bounds
    ) -> None:
        """Set means and covariances of some components from statistics; refreshing is left to the caller."""

    @abstractmethod
    def set_moments(self, moments: Tensors, component: int, rows: Floats, weights: npt.NDArray[np.float64]) -> None:
        """Set the moments of one component to those of weighted rows (N, D)."""

    # Merging

    @abstractmethod
    def merge_parameters(
        self,
        out: Parameters,
        start: Parameters,
        replicas: list[Parameters],
        shares: npt.NDArray[np.float64],
        rows: range,
    ) -> None:
        """Move components ``rows`` from ``start`` by shares (K, R) of what each replica did to their tensors.

        OUT out; its ``log_dets`` are left to the caller.
        """

    @abstractmethod
    def merge_statistics(
        self,
        out: Statistics,
        start: Statistics,
        replicas: list[Statistics],
        shares: npt.NDArray[np.float64],
        rows: range,
        bounds: Bounds,
    ) -> None:
        """Merge means and the moments about them: statistics of replicas add exactly.  OUT out."""

    # Restarts of light components

    @abstractmethod
    def variances(self, moments: Tensors) -> Floats:
        """Return the variance of every feature in every component: (K, D)."""

    def offset(self, moments: Tensors, component: int, spread: Floats, rng: np.random.Generator) -> Floats:
        """[E19] Return a random step (D,) of the size ``spread`` (D,) that leads away from a component."""
        step: Floats = spread * rng.standard_normal(len(spread))
        return step

    @abstractmethod
    def expected_losses(self, parameters: Parameters, moments: Tensors, component: int) -> npt.NDArray[np.float64]:
        """[E19] Return what samples of one component lose under each, in half nats up to a constant: (K,)."""


KINDS: dict[str, Covariance] = {}
"""Covariance kinds by name; see `register_covariance`."""


def register_covariance(kind: Covariance) -> Covariance:
    """Make a covariance kind known by its name, for ``covariance_type`` and for model files."""
    known = KINDS.get(kind.name)
    require_free(kind.name, type(kind), None if known is None else type(known))
    KINDS[kind.name] = kind
    return kind


def covariance_kind(name: str) -> Covariance:
    """Look up a covariance kind; raise ValueError with the names there are."""
    if name not in KINDS:
        raise ValueError(
            f"covariance_type is {name!r}; expected one of {', '.join(map(repr, KINDS))}. "
            "A kind of your own must be registered with register_covariance first."
        )
    return KINDS[name]
