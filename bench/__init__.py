"""Benchmarks: speed as ratios measured in one run. ``make bench`` writes a report; nothing here is a test."""
