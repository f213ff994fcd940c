"""Covariance kinds, chosen by name."""

from streamgmm.core.covariance.base import (
    KINDS,
    Bounds,
    Covariance,
    Prior,
    Statistics,
    Work,
    covariance_kind,
    register_covariance,
)
from streamgmm.core.covariance.diagonal import Diagonal
from streamgmm.core.covariance.plain import PlainCovariance

__all__ = [
    "KINDS",
    "Bounds",
    "Covariance",
    "Diagonal",
    "PlainCovariance",
    "Prior",
    "Statistics",
    "Work",
    "covariance_kind",
    "register_covariance",
]

register_covariance(Diagonal())
