"""The live page of a run. It only reads the run folder, so it can run beside any training."""
