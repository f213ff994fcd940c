"""Covariance kinds, chosen by name."""

from streamgmm.core.covariance.base import KINDS, Covariance, covariance_kind, register_covariance
from streamgmm.core.covariance.diagonal import Diagonal
from streamgmm.core.covariance.full import Full
from streamgmm.core.covariance.low_rank import LowRank
from streamgmm.core.covariance.plain import PlainCovariance
from streamgmm.core.covariance.work import Bounds, Prior, Statistics, Work

__all__ = [
    "KINDS",
    "Bounds",
    "Covariance",
    "Diagonal",
    "Full",
    "LowRank",
    "PlainCovariance",
    "Prior",
    "Statistics",
    "Work",
    "covariance_kind",
    "register_covariance",
]

for _kind in (Diagonal(), Full(), LowRank()):
    register_covariance(_kind)
