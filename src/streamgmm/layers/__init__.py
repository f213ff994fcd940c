"""Mixtures of patches of mixtures: `DeepStreamingMixture`, and the layers `Fold` and `Pool` that it is made of."""

from streamgmm.layers.deep import DeepStreamingMixture
from streamgmm.layers.fold import Fold, Pool

__all__ = ["DeepStreamingMixture", "Fold", "Pool"]
