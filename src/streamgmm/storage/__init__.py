"""Model files, run folders and events."""

from streamgmm.storage.model_file import SavedModel, load_model, save_model

__all__ = ["SavedModel", "load_model", "save_model"]
