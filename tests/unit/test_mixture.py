from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, multivariate_normal
from sklearn.mixture import GaussianMixture

from streamgmm import Mixture
from streamgmm.core.covariance import Diagonal
from streamgmm.core.parameters import Parameters
from tests.conftest import random_parameters


@pytest.fixture
def mixture() -> Mixture:
    return Mixture(random_parameters(np.random.default_rng(4), 6, 9))


def scipys(mixture: Mixture, x: np.ndarray) -> np.ndarray:
    return np.array(
        [
            np.log(w) + multivariate_normal(m, np.diag(c)).logpdf(x)
            for w, m, c in zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
        ]
    ).T


def test_log_prob_is_scipys(mixture: Mixture) -> None:
    x = np.random.default_rng(0).random((20, 9))
    parts = scipys(mixture, x)
    np.testing.assert_allclose(mixture.log_prob(x), logsumexp(parts, axis=1), rtol=1e-9)
    np.testing.assert_allclose(mixture.max_component(x), parts.max(1), rtol=1e-9)
    np.testing.assert_array_equal(mixture.predict(x), parts.argmax(1))
    responsibilities = mixture.responsibilities(x)
    np.testing.assert_allclose(responsibilities, np.exp(parts - logsumexp(parts, axis=1, keepdims=True)), atol=1e-12)
    np.testing.assert_allclose(responsibilities.sum(1), 1)


def test_float32_is_exact_enough_in_30000_dimensions() -> None:
    rng = np.random.default_rng(1)
    p = random_parameters(rng, 5, 30_000, np.float32)
    x = rng.random((6, 30_000)).astype(np.float32)
    twin = Parameters(Diagonal(), {n: v.astype(np.float64) for n, v in p.tensors.named().items()}, p.logits)
    found, exact = Mixture(p).log_prob(x), Mixture(twin).log_prob(x.astype(np.float64))
    assert np.abs(found - exact).max() < 1e-2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rows_value_does_not_depend_on_its_neighbours(dtype: type, width: str) -> None:
    rng = np.random.default_rng(2)
    mixture = Mixture(random_parameters(rng, 7, 1100, dtype))
    x = rng.random((70, 1100)).astype(dtype)
    together = mixture.log_prob(x)
    alone = np.concatenate([mixture.log_prob(row[None]) for row in x])
    some = mixture.log_prob(x[5:8])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together[5:8], some)


def test_samples_follow_the_mixture() -> None:
    mixture = Mixture.from_parameters([0.3, 0.7], [[0.0, 0.0], [5.0, -5.0]], [[4.0, 25.0], [1.0, 0.25]])
    n = 40_000
    x, components = mixture.sample(n, 0)
    assert x.shape == (n, 2)
    share = (components == 0).mean()
    assert abs(share - 0.3) < 4 * np.sqrt(0.21 / n)
    for k in range(2):
        part = x[components == k]
        error = np.sqrt(mixture.covariances[k] / len(part))
        assert (np.abs(part.mean(0) - mixture.means[k]) < 4 * error).all()
        statistic = len(part) * part.var(0) / mixture.covariances[k]
        assert (chi2.ppf(1e-5, len(part)) < statistic).all()
        assert (statistic < chi2.ppf(1 - 1e-5, len(part))).all()
    np.testing.assert_array_equal(x, mixture.sample(n, 0)[0])


def test_scikit_learn_and_back(mixture: Mixture) -> None:
    x = np.random.default_rng(0).random((30, 9))
    theirs = mixture.to_sklearn()
    np.testing.assert_allclose(theirs.score_samples(x), mixture.log_prob(x), rtol=1e-9)
    np.testing.assert_array_equal(theirs.predict(x), mixture.predict(x))
    assert theirs.bic(x) == pytest.approx(
        -2 * mixture.log_prob(x).sum() + mixture.n_parameters * np.log(len(x)), rel=1e-9
    )
    back = Mixture.from_sklearn(theirs)
    np.testing.assert_allclose(back.log_prob(x), mixture.log_prob(x), rtol=1e-12)
    assert theirs.sample(5)[0].shape == (5, 9)


def test_spherical_models_can_be_taken_over() -> None:
    x = np.random.default_rng(0).random((60, 3))
    spherical = GaussianMixture(2, covariance_type="spherical", random_state=0).fit(x)
    np.testing.assert_allclose(Mixture.from_sklearn(spherical).log_prob(x), spherical.score_samples(x), rtol=1e-9)


def test_numbers_of_parameters_are_scikit_learns(mixture: Mixture) -> None:
    assert mixture.n_parameters == mixture.to_sklearn()._n_parameters() == 5 + 2 * 6 * 9


def test_a_mixture_is_frozen(mixture: Mixture) -> None:
    for values in (mixture.weights, mixture.means, mixture.precisions, mixture.covariances):
        assert not values.flags.writeable
    before = mixture.means.copy()
    live = random_parameters(np.random.default_rng(4), 6, 9)
    copy = Mixture(live)
    live.means[:] = 0
    np.testing.assert_array_equal(copy.means, before)


@pytest.mark.parametrize(
    ("weights", "means", "precisions", "message"),
    [
        ([0.5, 0.6], [[0.0], [1.0]], [[1.0], [1.0]], "sum to 1.1"),
        ([1.5, -0.5], [[0.0], [1.0]], [[1.0], [1.0]], "non-negative"),
        ([0.5, 0.5], [[0.0], [1.0]], [[1.0], [-1.0]], "positive and finite; found values from -1.0 to 1.0"),
        ([0.5, 0.5], [[0.0], [np.nan]], [[1.0], [1.0]], "means must be finite"),
        ([1.0], [[0.0], [1.0]], [[1.0], [1.0]], r"logits \(1,\)"),
        (
            [0.5, 0.5],
            [[0.0], [1.0]],
            [[1.0, 1.0], [1.0, 1.0]],
            r"precisions have shape \(2, 2\); expected \(2, 1\)",
        ),
    ],
)
def test_bad_parameters_are_refused(weights: list, means: list, precisions: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mixture.from_parameters(weights, means, precisions)
    with pytest.raises(ValueError, match="at least one sample"):
        Mixture.from_parameters([1.0], [[0.0]], [[1.0]]).sample(0)
