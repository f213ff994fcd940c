"""The dashboard of a run. It only reads the run folder, so it can run during any training."""
