"""What learns: NumPy and the kernel only. No scikit-learn, no files, no clock, no printing."""
