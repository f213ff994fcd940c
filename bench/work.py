"""Cases to measure: functions that do some work and return how much."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.measure import Work
from streamgmm import Natural, datasets
from streamgmm.core.covariance import Bounds, Diagonal
from streamgmm.core.covariance import Work as Batches
from streamgmm.core.grid import filters, torus
from streamgmm.core.parameters import Parameters
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial
from streamgmm.native import Samples, SGDStep
from streamgmm.sources.synthetic.glyphs import Glyphs

RATE = 0.001
BOUNDS = Bounds(1e-3, 20**0.5)
NEVER = 1e-300  # a tolerance at which σ never shrinks
SMALLEST = 0.01  # σ once annealed
PASSES = 12  # over the rows of a case, until σ is at its smallest


def images(name: str = "mnist", count: int = 20_000) -> tuple[str, np.ndarray]:
    """Return rows of a data set, or of the built-in stream if its file is missing, and the name of what was used.

    Parameters
    ----------
    name : str, default="mnist"
        The data set.
    count : int, default=20_000
        Number of rows.
    """
    try:
        data = datasets.load(name)
    except FileNotFoundError:
        return "glyphs", Glyphs(seed=0).take(0, count)[0]
    rows = np.random.default_rng(0).permutation(len(data.x_train))[:count]
    return name, datasets.scaled(data.x_train[rows])


def random_mixture(components: int, features: int) -> Parameters:
    """Return float32 parameters with random means and equal scales.

    Parameters
    ----------
    components : int
        Number of components.
    features : int
        Number of features.
    """
    rng = np.random.default_rng([components, features])
    means = rng.random((components, features), dtype=np.float32)
    return Parameters(Diagonal(), {"means": means, "scales": np.full(means.shape, 20**0.5)}, np.zeros(components))


def sgd(p: Parameters, x: np.ndarray, sigma: float, scan_all: bool = False) -> Work:
    """Return a case that takes gradient steps over x, one sample each.

    Parameters
    ----------
    p : Parameters
        What learns.
    x : array of shape (N, D)
        Samples.
    sigma : float
        Width of the annealing.
    scan_all : bool, default=False
        Whether to turn early abandoning off.
    """
    batches = Batches(Samples(x), filters(torus(len(p)), sigma), BOUNDS)
    step = SGDStep(RATE, BOUNDS, scan_all)

    def work() -> float:
        p.kind.sgd_steps(p, batches, step)
        return float(len(x))

    return work


def each(step: Callable[[np.ndarray], object], x: np.ndarray) -> Work:
    """Return a case that calls a function with every row.

    Parameters
    ----------
    step : callable
        The function.
    x : array of shape (N, D)
        The rows.
    """

    def work() -> float:
        for row in x:
            step(row)
        return float(len(x))

    return work


def trained(rule: str, x: np.ndarray, sigma: float, batch_size: int, components: int = 64) -> Work:
    """Return a case that trains, control included, while σ stays the same.

    The smallest σ is reached by annealing: components that never were neighbours mostly die, and early abandoning
    then drops nearly all of them.

    Parameters
    ----------
    rule : str
        The rule.
    x : array of shape (N, D)
        Samples.
    sigma : float
        Width of the annealing.
    batch_size : int
        Samples per step.
    components : int, default=64
        Number of components.
    """
    annealed = sigma <= SMALLEST
    held = {} if annealed else {"period": 1000, "sigma_init": sigma, "tol": NEVER}
    settings = Settings(
        components,
        rule=Natural(hold_above=2.0) if rule == "natural" else rule,  # scales are held while σ is above 0.6
        batch_size=batch_size,
        sigma_min=SMALLEST,
        **held,
    )
    trainer = Trainer(settings, x.shape[1], x.dtype, engine=Serial(), seed=0)
    trainer.feed(x[: 3 * components])
    for _ in range(PASSES if annealed else 0):
        trainer.feed(x)
    if annealed and trainer.sigma > SMALLEST:
        raise RuntimeError(f"σ is {trainer.sigma:.3g} after {PASSES} passes; the case needs {SMALLEST}.")

    def work() -> float:
        trainer.feed(x)
        return float(len(x))

    return work


def begun(x: np.ndarray, scale: str, components: int = 64) -> Work:
    """Return a case that trains from the start.

    Parameters
    ----------
    x : array of shape (N, D)
        Samples.
    scale : {"auto", "none"}
        How raw data are scaled.
    components : int, default=64
        Number of components.
    """

    def work() -> float:
        Trainer(Settings(components, scale=scale), x.shape[1], x.dtype, engine=Serial(), seed=0).feed(x)
        return float(len(x))

    return work


def continued(x: np.ndarray, scale: str, components: int = 64) -> Work:
    """Return a case that trains on, after a pass over x that ended the annealing.

    Parameters
    ----------
    x : array of shape (N, D)
        Samples.
    scale : {"auto", "none"}
        How raw data are scaled.
    components : int, default=64
        Number of components.
    """
    trainer = Trainer(Settings(components, scale=scale), x.shape[1], x.dtype, engine=Serial(), seed=0)
    trainer.feed(x)

    def work() -> float:
        trainer.feed(x[:5000])
        return 5000.0

    return work
