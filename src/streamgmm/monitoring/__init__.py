"""What is typical of a stream, and what is not, in constant memory."""

from streamgmm.monitoring.bursts import Burst, Change, JudgedRows, group_rows
from streamgmm.monitoring.false_discovery import DiscoveryState, discover
from streamgmm.monitoring.judge import Judge, Verdict
from streamgmm.monitoring.monitor import Monitor
from streamgmm.monitoring.reference import Reference, is_unlikely
from streamgmm.monitoring.reservoir import Reservoir
from streamgmm.monitoring.strangest import StrangestRows
from streamgmm.monitoring.trimming import calibrate_on_usual

__all__ = [
    "Burst",
    "Change",
    "DiscoveryState",
    "Judge",
    "JudgedRows",
    "Monitor",
    "Reference",
    "Reservoir",
    "StrangestRows",
    "Verdict",
    "calibrate_on_usual",
    "discover",
    "group_rows",
    "is_unlikely",
]
