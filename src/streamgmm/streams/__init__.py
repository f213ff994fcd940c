"""Sources of samples, one a file."""
