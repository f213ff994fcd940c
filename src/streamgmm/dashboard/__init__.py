"""The live page of a run. It reads the run's events and its model file, and nothing else of streamgmm."""
