"""Synthetic streams: images of letters, and drift between other sources."""
