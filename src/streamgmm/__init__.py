"""Gaussian mixture models that learn from streams.

>>> import numpy as np
>>> from streamgmm import StreamingGaussianMixture
>>> x = np.random.default_rng(0).random((2000, 3))
>>> model = StreamingGaussianMixture(n_components=4, random_state=0)
>>> for chunk in np.array_split(x, 20):
...     model = model.partial_fit(chunk)
>>> model.n_samples_seen_
2000
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamgmm.anomalies import StreamingAnomalyDetector as StreamingAnomalyDetector
    from streamgmm.checkpoint import ModelFileError as ModelFileError
    from streamgmm.estimator import StreamingGaussianMixture as StreamingGaussianMixture
    from streamgmm.mixture import Mixture as Mixture
    from streamgmm.online import OnlineAnomalyDetector as OnlineAnomalyDetector
    from streamgmm.online import OnlineMixture as OnlineMixture
    from streamgmm.rules import SGD as SGD
    from streamgmm.rules import Natural as Natural
    from streamgmm.rules import StochasticEM as StochasticEM

__version__ = "0.1.0"

_HOMES = {
    "StreamingGaussianMixture": "streamgmm.estimator",
    "StreamingAnomalyDetector": "streamgmm.anomalies",
    "Mixture": "streamgmm.mixture",
    "ModelFileError": "streamgmm.checkpoint",
    "OnlineAnomalyDetector": "streamgmm.online",
    "OnlineMixture": "streamgmm.online",
    "SGD": "streamgmm.rules",
    "Natural": "streamgmm.rules",
    "StochasticEM": "streamgmm.rules",
}

__all__ = [
    "SGD",
    "Mixture",
    "ModelFileError",
    "Natural",
    "OnlineAnomalyDetector",
    "OnlineMixture",
    "StochasticEM",
    "StreamingAnomalyDetector",
    "StreamingGaussianMixture",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'streamgmm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
