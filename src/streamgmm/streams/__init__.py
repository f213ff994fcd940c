"""The former name of `streamgmm.sources`; it will be removed in the next release."""

import warnings

from streamgmm.sources import Chunk, Position, Source, open_source
from streamgmm.sources import SourceError as SourceError

__all__ = ["Chunk", "Position", "Source", "SourceError", "open_source"]

warnings.warn("streamgmm.streams is now streamgmm.sources.", FutureWarning, stacklevel=2)
