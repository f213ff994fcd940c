"""Settings of a training: plain values, checked once, and what follows from them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.annealing import Schedule
from streamgmm.core.covariance import KINDS, Covariance, covariance_kind
from streamgmm.core.engine import Engine
from streamgmm.core.grid import LAYOUTS, Grid
from streamgmm.core.parameters import Parameters, logits_of
from streamgmm.core.rules import RULES, Rule, rule_from_settings
from streamgmm.errors import SettingError

DEFAULT_CAP = 20.0  # of precisions: features in [0, 1], or standardised ones while the annealing is wide
PAPERS_TOL = 0.05
INITS = ("weights_init", "means_init", "precisions_init")
MOST_SAMPLES = 1 << 31  # of a batch, which the kernel counts in 32 bits; also of components and their factors
LONGEST_PERIOD = 1 << 53  # samples, exact as a float
NARROWEST, WIDEST = 1e-100, 1e100  # of widths, whose squares must stay finite
FARTHEST_MEAN = 1e15  # at the start, so that losses stay finite


@dataclass(frozen=True, eq=False)
class Settings:
    """How to train a mixture: parameters as in `streamgmm.StreamingGaussianMixture`, which documents them."""

    n_components: int = 64
    covariance_type: str = "diag"
    rule: str | Rule[Any] = "natural"
    grid: str = "torus"
    batch_size: int = 1
    learning_rate_init: float = 0.1
    learning_rate_min: float = 0.001
    sigma_init: float | None = None
    sigma_min: float = 0.01
    tol: float | None = None
    period: int | None = None
    annealing: bool = True
    mean_range: float = 0.1
    precision_max: float | None = None
    weights_init: npt.ArrayLike | None = None
    means_init: npt.ArrayLike | None = None
    precisions_init: npt.ArrayLike | None = None
    half_life: float | None = None
    reheat: bool = False
    allow_nan: bool = False
    scale: str = "auto"
    rank: int = 8

    def check(self) -> None:
        """Raise SettingError, a ValueError, for the first setting that is out of range."""
        refuse_scikit_learn_kinds(self.covariance_type)
        _require_choice("covariance_type", self.covariance_type, KINDS)
        if not isinstance(self.rule, Rule):
            _require_choice("rule", self.rule, RULES, ", or a Rule")
        _require_choice("grid", self.grid, LAYOUTS)
        for name in ("n_components", "batch_size", "rank"):
            require_number(name, getattr(self, name), Integral, least=1, most=MOST_SAMPLES)
        if self.period is not None:
            require_number("period", self.period, Integral, least=1, most=LONGEST_PERIOD)
        for name in ("learning_rate_init", "learning_rate_min"):
            require_number(name, getattr(self, name), Real, above=0)
        if self.tol is not None:
            require_number("tol", self.tol, Real, above=0)
        for name in ("sigma_min", "sigma_init"):
            if name == "sigma_min" or getattr(self, name) is not None:
                require_number(name, getattr(self, name), Real, least=NARROWEST, most=WIDEST)
        require_number("mean_range", self.mean_range, Real, least=0, most=FARTHEST_MEAN)
        if self.precision_max is not None:
            require_number("precision_max", self.precision_max, Real, least=1e-20, most=1e30)
        _require_choice("scale", self.scale, ("auto", "none"))
        if self.half_life is not None:
            require_number("half_life", self.half_life, Real, least=1)
        for name in ("annealing", "reheat", "allow_nan"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise SettingError(name, getattr(self, name), "True or False")
        if self.sigma_init is not None and self.sigma_init < self.sigma_min:
            raise ValueError(
                f"sigma_init is {self.sigma_init}, below sigma_min, {self.sigma_min}; expected at least as much."
            )
        rule = self.make_rule()
        if self.allow_nan and not self.kind.supports_gaps:
            raise ValueError(f"covariance_type={self.covariance_type!r} does not support missing values.")
        if self.allow_nan and not rule.supports_gaps:
            raise ValueError(
                "a k-means start does not support missing values; use start_from='random' or allow_nan=False."
            )
        if self.scale == "auto" and not self.kind.supports("reframe"):
            raise ValueError(
                f"scale='auto' does not support covariance_type={self.covariance_type!r}; use 'diag', or scale='none' "
                "with data that you have scaled."
            )
        if not self.kind.supports(rule.required_steps):
            raise ValueError(
                f"covariance_type={self.covariance_type!r} does not support rule={rule.name!r}; use rule='natural'."
            )

    @property
    def kind(self) -> Covariance:
        """The covariance kind."""
        return covariance_kind(self.covariance_type).with_rank(int(self.rank))

    def make_grid(self) -> Grid:
        """Lay out the components."""
        grid: Grid = LAYOUTS[self.grid](int(self.n_components))
        return grid

    def make_rule(self) -> Rule[Any]:
        """Return the rule with all settings that concern it."""
        rule = self.rule
        if not isinstance(rule, Rule):
            rule = RULES[rule].with_rates(self.learning_rate_init, self.learning_rate_min)
        return rule if self.half_life is None else rule.with_half_life(self.half_life)

    @property
    def refinable(self) -> bool:
        """Whether EM can refine the model once it is annealed: a rule that can learns raw data, and forgets none."""
        rule = self.make_rule()
        return self.scale == "auto" and rule.refines and rule.memory == inf

    def make_schedule(self, rule: Rule[Any], engine: Engine) -> Schedule:
        """Return the settings of the annealing."""
        widest = self.make_grid().widest if self.sigma_init is None else self.sigma_init
        longer = 1 if rule.scaled_steps else engine.replicas
        period = longer * rule.period(self.n_components) if self.period is None else self.period
        least = float(self.sigma_min)  # numbers of NumPy would spread to rules and the kernel
        papers = rule.baseline == "first"  # its control has a fixed tolerance, and narrows in steps to the end
        tol = PAPERS_TOL if papers and self.tol is None else rule.tol if self.tol is None else float(self.tol)
        return Schedule(
            sigma_init=rule.first_sigma(float(widest), least) if self.annealing else least,
            sigma_min=least,
            tol=tol,
            period=int(period),
            baseline=rule.baseline,
            drop_below=0.0 if papers else rule.drop_below,
        )

    def make_parameters(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Parameters:
        """Return the parameters to start from: random means unless the settings give some."""
        shape = (self.n_components, n_features)
        means = np.empty(shape, dtype)
        for row in means:  # one at a time: double precision takes twice the memory
            row[:] = rng.uniform(-self.mean_range, self.mean_range, n_features)
        weights = np.full(self.n_components, 1 / self.n_components)
        precisions = None
        if self.scale == "auto":  # given parameters are in the units of the rows: they wait for the first frame
            return Parameters(self.kind, self.kind.initial(means, None, DEFAULT_CAP), logits_of(weights))
        if self.means_init is not None:
            means = _given("means_init", self.means_init, shape).astype(dtype)
        if self.precisions_init is not None:
            precisions = _given("precisions_init", self.precisions_init)
            _warn_of_cap(precisions, self.precision_max or inf)
        if self.weights_init is not None:
            weights = _given("weights_init", self.weights_init, shape[:1])
        values = self.kind.initial(means, precisions, self.precision_max or DEFAULT_CAP)
        return Parameters(self.kind, values, logits_of(weights))

    def given_parameters(self, n_features: int) -> dict[str, npt.NDArray[np.float64]]:
        """Return the initial arrays that were given, checked, by the names of parameters."""
        shape = (self.n_components, n_features)
        shapes: dict[str, tuple[int, ...] | None] = {"weights": shape[:1], "means": shape, "precisions": None}
        given = {name: getattr(self, f"{name}_init") for name in shapes}
        return {name: _given(f"{name}_init", value, shapes[name]) for name, value in given.items() if value is not None}

    def facts(self) -> dict[str, Any]:
        """Return all settings but initial arrays as plain data, for files."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in INITS}
        if isinstance(self.rule, Rule):
            values["rule"] = self.rule.settings()
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the initial arrays that were given."""
        return {name: np.asarray(value) for name in INITS if (value := getattr(self, name)) is not None}

    @classmethod
    def from_facts(cls, facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Settings:
        """Return the settings that ``facts`` and ``arrays`` described; raise TypeError or ValueError for others."""
        values = {**facts, **arrays}
        if isinstance(values.get("rule"), dict):
            values["rule"] = rule_from_settings(values["rule"])
        settings = cls(**values)
        settings.check()
        return settings


INSTEAD = {
    "spherical": "'diag', which finds equal variances where there are some",
    "tied": "'full' or 'low_rank', which give each component a covariance of its own and fall back on what all of them "
    "have in common while samples are few",
}


def refuse_scikit_learn_kinds(name: object) -> None:
    """Raise SettingError for kinds that scikit-learn has and streams are not learned with."""
    if isinstance(name, str) and name in INSTEAD and name not in KINDS:
        raise SettingError("covariance_type", name, INSTEAD[name])


def require_number(
    name: str, value: Any, kind: type, *, least: float = -inf, above: float = -inf, most: float = inf
) -> None:
    """Raise ValueError unless ``value`` is a number of this kind within its bounds."""
    fits = isinstance(value, kind) and not isinstance(value, bool | np.bool_)
    value = value.item() if isinstance(value, np.generic) else value  # a bound may not fit into its type
    if fits and least <= value <= most and above < value < inf:
        return
    what = "an integer" if kind is Integral else "a number"
    bounds = f" above {above:g}" if above > -inf else f" of at least {least:g}" if least > -inf else ""
    bounds = f" of at most {most:.10g}" if fits and value > most else bounds
    raise SettingError(name, value, f"{what}{bounds}")


def _require_choice(name: str, value: object, known: Any, others: str = "") -> None:
    if not isinstance(value, str) or value not in known:
        *first, last = sorted(map(repr, known))
        raise SettingError(name, value, f"{', '.join(first)}{' or ' if first else ''}{last}", others)


def _given(name: str, values: npt.ArrayLike, shape: tuple[int, ...] | None = None) -> npt.NDArray[np.float64]:
    """Convert initial values from a user to finite float64, of the expected shape if there is one."""
    array = np.asarray(values, dtype=np.float64)
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; expected {shape}.")
    if not (finite := np.isfinite(array)).all():
        place = np.argwhere(~finite)[0].tolist()
        raise ValueError(f"{name} contains {array[tuple(place)]} at {place}; expected finite numbers.")
    return array


def _warn_of_cap(precisions: npt.NDArray[np.float64], precision_max: float) -> None:
    if precisions.max() > precision_max:
        warnings.warn(
            f"precisions_init reaches {precisions.max():.3g}; values above precision_max, {precision_max:g}, are "
            "reduced to it. Raise precision_max to keep them.",
            UserWarning,
            stacklevel=6,  # past fit or partial_fit
        )
