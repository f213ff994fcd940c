"""What is typical of a stream, in constant memory."""

from streamgmm.monitoring.monitor import Monitor
from streamgmm.monitoring.quantiles import RecentQuantiles
from streamgmm.monitoring.strangest import StrangestRows

__all__ = ["Monitor", "RecentQuantiles", "StrangestRows"]
