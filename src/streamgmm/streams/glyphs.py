"""The former name of `streamgmm.sources.synthetic.glyphs`."""

from streamgmm.sources.synthetic.glyphs import Glyphs

__all__ = ["Glyphs"]
