"""Conditioning, imputing and explaining: against brute force, and on correlated sensors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from streamgmm import Mixture, StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.core import reference_coupled as eq
from streamgmm.core.covariance import covariance_kind
from streamgmm.core.parameters import Parameters

KINDS = ["diag", "full", "low_rank"]
kinds = pytest.mark.parametrize("kind", KINDS)


def mixture(kind: str, features: int = 5) -> tuple[Mixture, np.ndarray]:
    """A mixture, and its covariances as matrices."""
    rng = np.random.default_rng(0)
    means, logits = rng.normal(size=(3, features)), rng.normal(0, 0.5, 3)
    form = covariance_kind(kind).with_rank(2)
    if kind == "full":
        roots = rng.normal(size=(3, features, features))
        precisions = np.linalg.inv(roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(features))
        values = form.initial(means, precisions, 1.0)
    else:
        values = form.initial(means, rng.uniform(0.5, 3, (3, features)), 1.0)
    if kind == "low_rank":
        values["factors"] = rng.normal(size=(3, 2, features))
    found = Mixture(Parameters(form, values, logits))
    covariances = found.covariances
    return found, covariances[:, None] * np.eye(features) if covariances.ndim == 2 else covariances


@kinds
def test_conditional_mixtures_are_those_of_the_closed_form(kind: str) -> None:
    m, covariances = mixture(kind)
    logits = np.log(m.weights)
    for row in ([0.3, np.nan, 0.8, np.nan, -1.0], [np.nan, np.nan, np.nan, np.nan, 0.2]):
        (given,) = m.condition([row])
        weights, means, expected = eq.conditioned(np.array(row), logits, np.array(m.means), covariances)
        np.testing.assert_allclose(given.weights, weights, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(given.means, means, rtol=1e-8, atol=1e-10)
        found = given.covariances
        found = found[:, None] * np.eye(len(means[0])) if found.ndim == 2 else found
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(m.impute([row])[0, np.isnan(row)], weights @ means, rtol=1e-8, atol=1e-10)


@kinds
def test_a_row_without_any_value_gives_the_mixture_itself(kind: str) -> None:
    m, _ = mixture(kind)
    (given,) = m.condition(np.full((1, 5), np.nan))
    np.testing.assert_allclose(given.weights, m.weights, rtol=1e-12)
    np.testing.assert_allclose(given.means, m.means, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(given.marginal([3, 1]).variances, m.variances[:, [3, 1]], rtol=1e-8)
    np.testing.assert_allclose(m.marginal([3, 1]).log_prob([[0.1, 0.2]]), given.marginal([3, 1]).log_prob([[0.1, 0.2]]))


@kinds
def test_known_values_stay_and_draws_have_the_conditional_moments(kind: str) -> None:
    m, covariances = mixture(kind)
    x = np.array([[0.3, np.nan, 0.8, np.nan, -1.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
    filled = m.impute(x)
    np.testing.assert_array_equal(filled[~np.isnan(x)], x[~np.isnan(x)])
    drawn = m.impute(x, n_draws=20_000, rng=0)
    assert drawn.shape == (20_000, 2, 5)
    np.testing.assert_array_equal(drawn[:, 1], np.tile(x[1], (20_000, 1)))
    weights, means, c = eq.conditioned(x[0], np.log(m.weights), np.array(m.means), covariances)
    spread = np.einsum("k,kij->ij", weights, c) + np.cov(means.T, aweights=weights, bias=True)
    np.testing.assert_allclose(drawn[:, 0, [1, 3]].mean(0), weights @ means, atol=5 * np.sqrt(spread.max() / 20_000))
    np.testing.assert_allclose(np.cov(drawn[:, 0, [1, 3]].T), spread, rtol=0.1, atol=0.05 * spread.max())


def test_what_cannot_be_conditioned_is_said() -> None:
    m, _ = mixture("full")
    with pytest.raises(ValueError, match="row 1 has no missing value"):
        m.condition([[np.nan] * 5, [0.0] * 5])
    with pytest.raises(ValueError, match=r"samples have shape \(1, 2\); expected \(samples, 5\)"):
        m.impute([[np.nan, 0.0]])
    with pytest.raises(ValueError, match="n_draws is 0"):
        m.impute([[np.nan] * 5], n_draws=0)


@pytest.mark.parametrize(("name", "instead"), [("spherical", "'diag'"), ("tied", "'full' or 'low_rank'")])
def test_kinds_of_scikit_learn_are_refused_with_what_to_use(name: str, instead: str) -> None:
    with pytest.raises(ValueError, match=f"covariance_type is '{name}'; expected {instead}"):
        StreamingGaussianMixture(2, covariance_type=name).fit(np.zeros((10, 2)))


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_mixtures_come_from_scikit_learn_and_go_back(kind: str) -> None:
    x = np.random.default_rng(0).normal(size=(300, 3)) @ np.random.default_rng(1).normal(size=(3, 3))
    theirs = GaussianMixture(2, covariance_type=kind, random_state=0).fit(x)
    ours = Mixture.from_sklearn(theirs)
    np.testing.assert_allclose(ours.log_prob(x), theirs.score_samples(x), rtol=1e-9)
    back = ours.to_sklearn()
    np.testing.assert_allclose(back.score_samples(x), theirs.score_samples(x), rtol=1e-9)
    if kind == "full":
        np.testing.assert_allclose(back.bic(x), theirs.bic(x), rtol=1e-9)
        assert ours.n_parameters == theirs._n_parameters()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_low_rank_says_what_it_does_not_show() -> None:
    x = np.random.default_rng(0).normal(size=(60, 600)).astype(np.float32)
    m = StreamingGaussianMixture(2, covariance_type="low_rank", rank=3, random_state=0, n_epochs=1).fit(x)
    assert (m.factors_.shape, m.noise_variances_.shape) == ((2, 600, 3), (2, 600))
    assert m.mixture_.n_parameters == 2 * (600 * 5 - 3) + 1
    with pytest.raises(ValueError, match="360,000 numbers for each component; they are shown up to 512 features"):
        _ = m.covariances_
    with pytest.raises(ValueError, match="no counterpart in scikit-learn"):
        m.to_sklearn()
    with pytest.raises(AttributeError, match="has no factors"):
        _ = mixture("diag")[0].factors


def swapped_sensors() -> tuple[np.ndarray, np.ndarray]:
    """Six sensors, of which the third and fifth have a correlation of 0.99, and rows in which these two swap."""
    rng = np.random.default_rng(0)
    covariance = np.eye(6)
    covariance[2, 4] = covariance[4, 2] = 0.99
    units, level = np.array([1, 50, 10, 0.1, 10, 3.0]), np.array([0, 20, 300, 1, 306, -5.0])
    z = rng.multivariate_normal(np.zeros(6), covariance, 6000)
    odd = rng.multivariate_normal(np.zeros(6), covariance, 4000)
    x, y = z * units + level, odd * units + level
    y[:, [2, 4]] = y[:, [4, 2]]
    return x, y


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_swapped_pair_is_found_and_named() -> None:
    x, y = swapped_sensors()
    found = {}
    for kind in ("diag", "full"):
        mix = StreamingGaussianMixture(2, covariance_type=kind, random_state=0)
        detector = StreamingAnomalyDetector(mix, contamination=0.01).fit(x)
        found[kind] = float((detector.predict(y) == -1).mean())
    reasons = detector.mixture_.mixture_.explain(y[:200], most=2)
    named = np.mean([{r.feature for r in row} == {2, 4} for row in reasons])
    assert found["full"] >= 0.9
    assert found["diag"] < 0.5
    assert named >= 0.95


@pytest.mark.parametrize("kind", ["full", "low_rank"])
def test_each_feature_is_judged_by_the_others(kind: str) -> None:
    m, covariances = mixture(kind)
    x = np.random.default_rng(2).normal(size=(4, 5))
    x[3, 1] = np.nan
    for row, reasons in zip(x, m.explain(x), strict=True):
        for reason in reasons:
            d = reason.feature
            lacking = np.where(np.arange(5) == d, np.nan, row)
            weights, means, c = eq.conditioned(lacking, np.log(m.weights), np.array(m.means), covariances)
            place = 0 if not np.isnan(row[1]) or d < 1 else 1
            expected = float(weights @ means[:, place])
            assert reason.expected == pytest.approx(expected, rel=1e-7, abs=1e-9)
            spread = float(weights @ (c[:, place, place] + (means[:, place] - expected) ** 2))
            assert reason.high - reason.expected == pytest.approx(2.5758293 * spread**0.5, rel=1e-6)


@pytest.mark.parametrize("features", [[0, 0], [2], [-1]])
def test_marginals_of_features_that_do_not_exist_or_repeat_are_refused(features: list[int]) -> None:
    """A copy of a feature would count as independent of it."""
    m = Mixture.from_parameters([1.0], [[0.0, 0.0]], [[1.0, 1.0]])
    with pytest.raises(ValueError, match="expected different numbers from 0 to 1"):
        m.marginal(features)
