"""What is typical of a stream, in constant memory."""

from streamgmm.monitoring.judge import Judge, Verdict
from streamgmm.monitoring.monitor import Monitor
from streamgmm.monitoring.reference import Reference, is_unlikely
from streamgmm.monitoring.reservoir import Reservoir
from streamgmm.monitoring.strangest import StrangestRows

__all__ = ["Judge", "Monitor", "Reference", "Reservoir", "StrangestRows", "Verdict", "is_unlikely"]
