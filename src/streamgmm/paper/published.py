"""Published results: A. Gepperth and B. Pfülb, Neural Processing Letters, 2021."""

from __future__ import annotations

from typing import NamedTuple


class Value(NamedTuple):
    """A result over seeds.

    Parameters
    ----------
    mean : float
        Mean.
    std : float or None, default=None
        Standard deviation, where it is known.
    """

    mean: float
    std: float | None = None


NAMES = {
    "mnist": "MNIST",
    "fashionmnist": "FashionMNIST",
    "notmnist": "NotMNIST",
    "devanagari": "Devanagari",
    "fruits360": "Fruits 360",
    "svhn": "SVHN",
    "isolet": "ISOLET",
}

# Final log-likelihoods of classes 1-9, by initial means; the last column, without annealing, has no deviation.
INITIALISATION = {
    "mnist": (Value(205.47, 1.08), Value(205.46, 0.77), Value(205.68, 0.78), Value(205.37, 0.68), Value(124.1)),
    "fashionmnist": (Value(231.22, 1.53), Value(231.58, 2.84), Value(231.00, 1.11), Value(229.59, 0.59), Value(183.0)),
    "notmnist": (Value(-48.41, 1.77), Value(-48.59, 1.56), Value(-48.32, 1.13), Value(-49.37, 2.32), Value(-203.8)),
    "devanagari": (Value(-15.95, 1.59), Value(-15.76, 1.34), Value(-17.01, 1.11), Value(-22.07, 4.59), Value(-263.4)),
    "fruits360": (
        Value(12095.80, 98.02),
        Value(12000.70, 127.00),
        Value(12036.25, 122.06),
        Value(10912.79, 1727.61),
        Value(331.2),
    ),
    "svhn": (Value(1328.06, 0.94), Value(1327.99, 1.59), Value(1328.40, 1.17), Value(1327.80, 0.94), Value(863.2)),
    "isolet": (Value(354.34, 0.04), Value(354.36, 0.04), Value(354.36, 0.04), Value(354.20, 0.05), Value(201.5)),
}

# Davies-Bouldin score of SGD and of sEM (less is better), Dunn index of SGD and of sEM (more is better).
CLUSTERING = {
    "mnist": (Value(2.50, 0.04), Value(2.47, 0.04), Value(0.18, 0.02), Value(0.16, 0.02)),
    "fashionmnist": (Value(2.06, 0.05), Value(2.20, 0.04), Value(0.20, 0.03), Value(0.19, 0.02)),
    "notmnist": (Value(2.30, 0.03), Value(2.12, 0.03), Value(0.15, 0.03), Value(0.14, 0.04)),
    "devanagari": (Value(2.60, 0.04), Value(2.64, 0.02), Value(0.33, 0.01), Value(0.27, 0.04)),
    "svhn": (Value(2.34, 0.04), Value(2.41, 0.03), Value(0.15, 0.02), Value(0.15, 0.02)),
}

# Mean maximum responsibility of SGD, log-likelihood of SGD and of sEM.
STREAMING = {
    "mnist": (0.992674, Value(216.6, 0.31), Value(216.8, 1.38)),
    "fashionmnist": (0.997609, Value(234.5, 2.28), Value(222.9, 6.03)),
    "notmnist": (0.998713, Value(-34.7, 1.16), Value(-40.0, 8.90)),
    "devanagari": (0.999253, Value(-14.6, 1.09), Value(-13.4, 6.16)),
    "fruits360": (0.999746, Value(11754.3, 75.63), Value(5483.0, 1201.60)),
    "svhn": (0.998148, Value(1329.8, 0.80), Value(1176.0, 16.91)),
    "isolet": (0.994069, Value(354.2, 0.01), Value(354.5, 0.37)),
}

# Not in the paper: drift on MNIST with the authors' code; classes 1-8, then 0, then 9, two passes each.
Parts = tuple[float | None, float | None, float | None]
DRIFT: dict[str, dict[str, Parts]] = {
    "sgd": {
        "1-8": (218.8, 213.6, 205.8),
        "0": (49.9, 171.9, 171.2),
        "9": (None, 201.5, 245.1),
        "all": (200.5, 208.3, 206.4),
    },
    "sem": {
        "1-8": (213.8, -20.0, 58.2),
        "0": (None, 222.0, -79.7),
        "9": (None, None, 259.8),
        "all": (186.0, 10.6, 66.9),
    },
}
