"""Kinds of covariance: one small class each, with the same few methods."""

from streamgmm.covariance.diagonal import Diagonal

__all__ = ["Diagonal"]
