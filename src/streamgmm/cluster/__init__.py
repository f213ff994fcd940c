"""Rounds that several workers learn: who reads what, how long a round is, and what comes back."""
