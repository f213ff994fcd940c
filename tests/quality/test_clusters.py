"""Well-separated clusters: the natural rule and stochastic EM find every one, as exactly as its samples allow."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from streamgmm import StochasticEM, StreamingGaussianMixture

SPREAD = 0.03


def clusters(count: int, features: int = 6, samples: int = 120_000, scale: float = 1.0) -> tuple[np.ndarray, ...]:
    """Samples, true means and the number of samples of each cluster; means are at least 12 deviations apart."""
    rng = np.random.default_rng(count)
    while True:
        means = rng.uniform(0.1, 0.9, (count, features))
        apart = np.sqrt(((means[:, None] - means) ** 2).sum(2)) + 9 * np.eye(count)
        if apart.min() > 12 * SPREAD:
            break
    chosen = rng.integers(count, size=samples)
    return scale * rng.normal(means[chosen], SPREAD), scale * means, np.bincount(chosen)


def errors(model: StreamingGaussianMixture, means: np.ndarray, spread: float) -> np.ndarray:
    """Distance from each true mean to the nearest learned one, in deviations per feature."""
    nearest = ((model.means_[:, None] - means) ** 2).mean(2).min(0)
    return np.sqrt(nearest) / spread


@pytest.mark.parametrize("count", [4, 9, 16])
@pytest.mark.parametrize("scale", [1.0, pytest.param(1000.0, marks=pytest.mark.filterwarnings("ignore:data reach"))])
def test_natural_from_a_random_start(count: int, scale: float) -> None:
    x, means, sizes = clusters(count, scale=scale)
    settings = {"precision_max": 4 / (scale * SPREAD) ** 2, "mean_range": 0.1 * scale, "scale": "none", "n_epochs": 1}
    model = StreamingGaussianMixture(count, rule="natural", random_state=0, **settings).fit(x)
    assert (errors(model, means, scale * SPREAD) * np.sqrt(sizes) < 3).all()


@pytest.mark.parametrize("count", [4, 9, 16])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_default_from_a_random_start(count: int, scale: float) -> None:
    x, means, sizes = clusters(count, samples=20_000, scale=scale)
    model = StreamingGaussianMixture(count, random_state=0).fit(x)
    assert (errors(model, means, scale * SPREAD) * np.sqrt(sizes) < 3).all()


@pytest.mark.parametrize("count", [4, 9, 16])
def test_natural_in_one_pass(count: int) -> None:
    """As ``partial_fit`` learns a stream: without batch EM at the end."""
    x, means, sizes = clusters(count, scale=1000.0)
    model = StreamingGaussianMixture(count, random_state=0).partial_fit(x)
    assert (errors(model, means, 1000 * SPREAD) * np.sqrt(sizes) < 3).all()


@pytest.mark.parametrize("count", [4, 9, 16])
@pytest.mark.parametrize("scale", ["none", "auto"])
def test_stochastic_em_from_kmeans(count: int, scale: str) -> None:
    x, means, sizes = clusters(count)
    rule = StochasticEM(start_from="kmeans", step_init=1.0, step_decay=0.5, step_min=1e-6)
    settings = {"batch_size": 500, "scale": scale, "n_epochs": 1, "random_state": 0}
    if scale == "none":
        settings["precision_max"] = 4 / SPREAD**2
    model = StreamingGaussianMixture(count, rule=rule, **settings).fit(x)
    assert (errors(model, means, SPREAD) * np.sqrt(sizes) < 3).all()


@pytest.mark.parametrize("count", [4, 9, 16])
def test_sgd_with_rates_that_suit_the_cap(count: int) -> None:
    x, means, _ = clusters(count)
    settings = {"precision_max": 4 / SPREAD**2, "learning_rate_init": 1e-3, "learning_rate_min": 1e-5, "scale": "none"}
    model = StreamingGaussianMixture(count, rule="sgd", n_epochs=2, random_state=0, **settings).fit(x)
    off = errors(model, means, SPREAD)
    found = off < 1
    print(f"sgd: {found.sum()} of {count} clusters found, largest error {off[found].max(initial=0):.2f} deviations")
    assert found.all()
    assert (off[found] < 0.5).all()


@pytest.mark.parametrize(
    ("sizes", "features"), [([0.8, 0.1, 0.1], 10), ([0.6, 0.2, 0.15, 0.05], 10), (1 / np.arange(1, 9), 10)], ids=str
)
@pytest.mark.parametrize("scale", ["none", "auto"])
def test_natural_keeps_small_clusters(sizes: np.ndarray, features: int, scale: str) -> None:
    """Sizes may differ as they like: over some seeds it sorts samples as well as scikit-learn's EM, or nearly so."""
    ours, theirs = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        shares = np.array(sizes) / np.sum(sizes)
        means, spread = rng.normal(size=(len(shares), features)), rng.uniform(0.2, 0.6, (len(shares), 1))
        z = rng.choice(len(shares), 30_000 if scale == "none" else 6_000, p=shares)  # batch EM takes its time
        x = rng.normal(means[z], spread[z])
        settings = {"scale": scale, "random_state": seed}
        if scale == "none":
            x = StandardScaler().fit_transform(x)
            settings |= {"precision_max": 1000.0, "n_epochs": 1}
        ours.append(adjusted_rand_score(z, StreamingGaussianMixture(len(shares), **settings).fit_predict(x)))
        em = GaussianMixture(len(shares), covariance_type="diag", random_state=seed)
        theirs.append(adjusted_rand_score(z, em.fit_predict(x)))
    assert np.mean(ours) > min(0.97, np.mean(theirs) - 0.07)


@pytest.mark.parametrize("kind", ["full", "low_rank"])
def test_clusters_in_a_row_are_told_apart(kind: str) -> None:
    """One component with correlations could describe them all."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 30)) + 4 * rng.integers(3, size=(1500, 1))
    model = StreamingGaussianMixture(3, covariance_type=kind, rank=2, random_state=0).fit(x)
    assert model.weights_.min() > 0.25
    np.testing.assert_allclose(np.sort(model.means_.mean(1)), [0, 4, 8], atol=0.1)
