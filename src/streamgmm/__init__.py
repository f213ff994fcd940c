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
    from streamgmm.core.mixture import Mixture as Mixture
    from streamgmm.core.rules import SGD as SGD
    from streamgmm.core.rules import Natural as Natural
    from streamgmm.core.rules import Rule as Rule
    from streamgmm.core.rules import StochasticEM as StochasticEM
    from streamgmm.core.rules import register_rule as register_rule
    from streamgmm.engines.ray import RayEngine as RayEngine
    from streamgmm.errors import ClusterError as ClusterError
    from streamgmm.errors import DataWarning as DataWarning
    from streamgmm.errors import ModelFileError as ModelFileError
    from streamgmm.errors import SourceError as SourceError
    from streamgmm.errors import StreamGMMError as StreamGMMError
    from streamgmm.estimators.anomaly import StreamingAnomalyDetector as StreamingAnomalyDetector
    from streamgmm.estimators.mixture import StreamingGaussianMixture as StreamingGaussianMixture
    from streamgmm.estimators.river import OnlineAnomalyDetector as OnlineAnomalyDetector
    from streamgmm.estimators.river import OnlineMixture as OnlineMixture
    from streamgmm.estimators.rounds import begin_round as begin_round
    from streamgmm.estimators.rounds import learn_share as learn_share
    from streamgmm.estimators.rounds import merge_round as merge_round
    from streamgmm.layers import DeepStreamingMixture as DeepStreamingMixture
    from streamgmm.layers import Fold as Fold
    from streamgmm.layers import Pool as Pool

__version__ = "0.2.0.dev0"

_MODULES = {
    "StreamingGaussianMixture": "streamgmm.estimators.mixture",
    "StreamingAnomalyDetector": "streamgmm.estimators.anomaly",
    "OnlineAnomalyDetector": "streamgmm.estimators.river",
    "OnlineMixture": "streamgmm.estimators.river",
    "DeepStreamingMixture": "streamgmm.layers",
    "Fold": "streamgmm.layers",
    "Pool": "streamgmm.layers",
    "Mixture": "streamgmm.core.mixture",
    "SGD": "streamgmm.core.rules",
    "Natural": "streamgmm.core.rules",
    "StochasticEM": "streamgmm.core.rules",
    "Rule": "streamgmm.core.rules",
    "register_rule": "streamgmm.core.rules",
    "RayEngine": "streamgmm.engines.ray",
    "begin_round": "streamgmm.estimators.rounds",
    "learn_share": "streamgmm.estimators.rounds",
    "merge_round": "streamgmm.estimators.rounds",
    "ClusterError": "streamgmm.errors",
    "StreamGMMError": "streamgmm.errors",
    "SourceError": "streamgmm.errors",
    "ModelFileError": "streamgmm.errors",
    "DataWarning": "streamgmm.errors",
}

__all__ = [  # noqa: RUF022 (by what they are)
    "StreamingGaussianMixture",
    "StreamingAnomalyDetector",
    "OnlineMixture",
    "OnlineAnomalyDetector",
    "DeepStreamingMixture",
    "Fold",
    "Pool",
    "Mixture",
    "Natural",
    "SGD",
    "StochasticEM",
    "Rule",
    "register_rule",
    "RayEngine",
    "begin_round",
    "learn_share",
    "merge_round",
    "StreamGMMError",
    "SourceError",
    "ModelFileError",
    "ClusterError",
    "DataWarning",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'streamgmm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
