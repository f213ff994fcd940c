"""Speed, as ratios taken in one run. `make bench` writes a report; nothing here is a test."""
