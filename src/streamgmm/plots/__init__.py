"""Figures of mixtures, of trainings and of experiments.

Every function returns a matplotlib ``Figure`` and leaves matplotlib's global state alone. Functions that draw a mixture
accept a `Mixture` or a fitted estimator.
"""

from streamgmm.plots.canvas import image_shape
from streamgmm.plots.experiments import areas, effects, filters, trade_off
from streamgmm.plots.models import centroids, density, deviations, directions, samples
from streamgmm.plots.reasons import explanations
from streamgmm.plots.stacks import images, prototypes
from streamgmm.plots.trainings import curve, scores, usage

__all__ = [
    "areas",
    "centroids",
    "curve",
    "density",
    "deviations",
    "directions",
    "effects",
    "explanations",
    "filters",
    "image_shape",
    "images",
    "prototypes",
    "samples",
    "scores",
    "trade_off",
    "usage",
]
