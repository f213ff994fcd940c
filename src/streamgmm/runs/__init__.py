"""A source, a trainer and a folder brought together."""
