"""What is typical of a stream, and what is not, in constant memory."""

from streamgmm.monitoring.bursts import Burst, Change, JudgedRows, group_rows
from streamgmm.monitoring.false_discovery import DiscoveryState, discover
from streamgmm.monitoring.monitor import Monitor
from streamgmm.monitoring.quantiles import RecentQuantiles
from streamgmm.monitoring.strangest import StrangestRows

__all__ = [
    "Burst",
    "Change",
    "DiscoveryState",
    "JudgedRows",
    "Monitor",
    "RecentQuantiles",
    "StrangestRows",
    "discover",
    "group_rows",
]
