"""A covariance kind of one's own: defined here, without a change to the package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from streamgmm import Mixture, ModelFileError, StreamingGaussianMixture
from streamgmm.core.covariance import (
    KINDS,
    Bounds,
    PlainCovariance,
    Statistics,
    covariance_kind,
    register_covariance,
)
from streamgmm.core.parameters import Parameters
from streamgmm.core.tensors import Layout, Tensors

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Isotropic(PlainCovariance):
    """One scale per component: tensors ``means`` (K, D) and ``scales`` (K,); moments ``variances`` (K, D)."""

    name = "isotropic"

    def layout(self, n_features: int) -> dict[str, Layout]:
        return {"means": Layout((n_features,)), "scales": Layout(())}

    def moment_layout(self, n_features: int) -> dict[str, Layout]:
        return {"variances": Layout((n_features,))}

    def refresh(self, parameters: Parameters, rows: range) -> None:
        part = slice(rows.start, rows.stop)
        parameters.log_dets[part] = parameters.n_features * np.log(parameters["scales"][part])

    def clip(self, parameters: Parameters, bounds: Bounds) -> None:
        np.clip(parameters["scales"], *bounds, out=parameters["scales"])
        parameters.refresh()

    def initial(self, means: Any, precisions: Any, precision_max: float) -> dict[str, Any]:
        given = np.full(len(means), precision_max) if precisions is None else np.asarray(precisions)
        return {"means": means, "scales": np.sqrt(given)}

    def widen(self, tensors: Tensors, means: Any, bounds: Bounds) -> Tensors:
        values, layout = tensors.named(), dict(tensors.layout)
        for name, fresh in (("means", means), ("variances", np.full(means.shape, 1 / bounds.precision_max))):
            if name in values:
                values[name] = np.hstack([values[name], fresh])
                layout[name] = Layout(values[name].shape[1:])
        return Tensors(layout, values, tensors.dtype)

    def component_scores(self, parameters: Parameters, x: Any, factor: float = 1.0) -> Any:
        rows, p = np.asarray(x, np.float64) * factor, parameters
        squares = ((rows[:, None] - p.means) ** 2).sum(2)
        constant = p.logits - logsumexp(p.logits) + p.log_dets - p.n_features / 2 * np.log(2 * np.pi)
        return constant - squares * p["scales"].astype(np.float64) ** 2 / 2

    def draw(self, parameters: Parameters, components: Any, rng: np.random.Generator) -> Any:
        noise = rng.standard_normal((len(components), parameters.n_features))
        drawn = parameters.means[components] + noise / parameters["scales"][components, None]
        return drawn.astype(parameters.dtype)

    def marginal(self, parameters: Parameters, features: Sequence[int]) -> Parameters:
        values = {"means": parameters.means[:, list(features)], "scales": parameters["scales"]}
        return Parameters(self, values, parameters.logits)

    def precisions(self, parameters: Parameters) -> Any:
        return parameters["scales"] ** 2

    def covariances(self, parameters: Parameters) -> Any:
        return 1 / parameters["scales"] ** 2

    def n_parameters(self, n_components: int, n_features: int) -> int:
        return n_components * (n_features + 1)

    def start_moments(self, parameters: Parameters) -> Tensors:
        variances = np.repeat(self.covariances(parameters)[:, None], parameters.n_features, axis=1)
        return Tensors(self.moment_layout(parameters.n_features), {"variances": variances}, parameters.dtype)

    def move(
        self,
        parameters: Parameters,
        moments: Tensors,
        x: Any,
        weights: Any,
        rates: Any,
        bounds: Bounds,
        hold_scales: bool,
    ) -> None:
        for k in np.flatnonzero(rates):
            centre = np.average(x, axis=0, weights=weights[:, k])
            spread = np.average((x - centre) ** 2, axis=0, weights=weights[:, k])
            away = centre - parameters.means[k]
            moments["variances"][k] += rates[k] * (spread + (1 - rates[k]) * away**2 - moments["variances"][k])
            parameters.means[k] += rates[k] * away
            if not hold_scales:
                self.set_from_moments(parameters, moments, bounds, range(k, k + 1))

    def set_from_moments(self, parameters: Parameters, moments: Tensors, bounds: Bounds, rows: range) -> None:
        part = slice(rows.start, rows.stop)
        parameters["scales"][part] = np.clip(moments["variances"][part].mean(1) ** -0.5, *bounds)
        self.refresh(parameters, rows)

    def set_components(self, parameters: Parameters, statistics: Statistics, components: Any, bounds: Bounds) -> None:
        raise NotImplementedError  # stochastic EM only

    def set_moments(self, moments: Tensors, component: int, rows: Any, weights: Any) -> None:
        raise NotImplementedError  # stochastic EM only

    def merge_parameters(
        self, out: Parameters, start: Parameters, replicas: list[Parameters], shares: Any, rows: range
    ) -> None:
        part = slice(rows.start, rows.stop)
        for name in out.tensors.layout:
            changes = np.stack([r[name][part] - start[name][part] for r in replicas])
            out[name][part] = start[name][part] + np.einsum("kr,rk...->k...", shares[part], changes)

    def merge_statistics(
        self, out: Statistics, start: Statistics, replicas: list[Statistics], shares: Any, rows: range, bounds: Bounds
    ) -> None:
        part = slice(rows.start, rows.stop)
        mean, variance = start.means[part], start.moments["variances"][part]
        away = np.stack([r.means[part] - mean for r in replicas])
        spread = np.stack([r.moments["variances"][part] for r in replicas]) + away**2 - variance
        moved = np.einsum("kr,rkd->kd", shares[part], away)
        out.moments["variances"][part] = variance + np.einsum("kr,rkd->kd", shares[part], spread) - moved**2
        out.means[part] = mean + moved

    def variances(self, moments: Tensors) -> Any:
        return moments["variances"]

    def expected_losses(self, parameters: Parameters, moments: Tensors, component: int) -> Any:
        apart = parameters.means - parameters.means[component]
        spread = (moments["variances"][component] + apart**2).sum(1)
        return parameters["scales"] ** 2 * spread - 2 * parameters.log_dets


@pytest.fixture(autouse=True)
def isotropic() -> Iterator[Isotropic]:
    kind = Isotropic()
    register_covariance(kind)
    yield kind
    KINDS.pop(kind.name, None)


def clusters(count: int = 3000) -> np.ndarray:
    rng = np.random.default_rng(0)
    means = np.array([[0.2, 0.2, 0.2], [0.2, 0.8, 0.8], [0.8, 0.2, 0.8], [0.8, 0.8, 0.2]])
    chosen = rng.integers(4, size=count)
    return rng.normal(means[chosen], np.array([0.05, 0.07, 0.09, 0.11])[chosen, None])


def model(**settings: Any) -> StreamingGaussianMixture:
    options = {"covariance_type": "isotropic", "precision_max": 1000, "scale": "none", "n_epochs": 1, "random_state": 0}
    return StreamingGaussianMixture(4, **{**options, **settings})


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_it_learns_what_scikit_learn_finds(jobs: int, batch_size: int) -> None:
    x = clusters()
    theirs = GaussianMixture(4, covariance_type="spherical", random_state=0).fit(x)
    ours = model(n_jobs=jobs, batch_size=batch_size).fit(x)
    assert ours.score(x) > theirs.score(x) - 0.05
    assert ours.covariances_.shape == (4,)
    assert ours.bic(x) == pytest.approx(theirs.bic(x), rel=0.02)


def test_scores_are_scipys() -> None:
    x = clusters(1500)
    ours = model().partial_fit(x)
    parts = [
        np.log(w) + multivariate_normal(m, v * np.eye(3)).logpdf(x)
        for w, m, v in zip(ours.weights_, ours.means_, ours.covariances_, strict=True)
    ]
    np.testing.assert_allclose(ours.score_samples(x), logsumexp(parts, axis=0), rtol=1e-9)
    np.testing.assert_array_equal(ours.predict(x), np.argmax(parts, axis=0))
    np.testing.assert_allclose(ours.predict_proba(x).sum(1), 1)
    plane = ours.mixture_.marginal([2, 0])
    np.testing.assert_array_equal(plane.means, ours.means_[:, [2, 0]])


def test_samples_come_back() -> None:
    ours = model(batch_size=8).partial_fit(clusters())
    drawn, components = ours.sample(4000)
    assert drawn.shape == (4000, 3)
    for k in range(4):
        own = drawn[components == k]
        np.testing.assert_allclose(own.mean(0), ours.means_[k], atol=0.02)
        assert own.var(0).mean() == pytest.approx(ours.covariances_[k], rel=0.2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_chunks_and_files_change_nothing(jobs: int, tmp_path: Path) -> None:
    x = clusters(2000).astype(np.float32)
    whole = model(n_jobs=jobs, batch_size=4).partial_fit(x)
    cut = model(n_jobs=jobs, batch_size=4)
    for start in range(0, 1309, 7):
        cut.partial_fit(x[start : min(start + 7, 1309)])
    cut.save(tmp_path / "model")
    cut = StreamingGaussianMixture.load(tmp_path / "model")
    assert cut.covariance_type == "isotropic"
    cut.partial_fit(x[1309:])
    for name in ("weights_", "means_", "precisions_"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name))


@pytest.mark.parametrize("jobs", [1, 2])
def test_it_can_be_resized_and_widened(jobs: int) -> None:
    x = clusters(1600)
    ours = model(n_jobs=jobs, batch_size=2).partial_fit(x)
    trainer = ours.trainer_
    trainer.resize([0, 1, 2, 3, 0, 1])
    trainer.add_features(1)
    wider = np.column_stack([x, np.full(len(x), 0.5)])
    before = trainer.mixture.log_prob(wider).mean()
    trainer.feed(wider)
    assert trainer.parameters.means.shape == (6, 4)
    assert trainer.parameters.weights.sum() == pytest.approx(1)
    assert trainer.mixture.log_prob(wider).mean() > before + 10


def test_what_it_cannot_do_is_said_in_a_sentence() -> None:
    x = clusters(300)
    with pytest.raises(ValueError, match="scale='auto' does not support covariance_type='isotropic'; use 'diag', or"):
        model(scale="auto").fit(x)
    with pytest.raises(ValueError, match="covariance_type='isotropic' does not support missing values"):
        model(allow_nan=True).fit(x)
    with pytest.raises(ValueError, match="row 0 of X contains NaN"):
        model().partial_fit(x).score_samples(np.full((1, 3), np.nan))
    for rule in ("sgd", "sem"):
        with pytest.raises(ValueError, match=f"covariance_type='isotropic' does not support rule='{rule}'; use rule="):
            model(rule=rule).fit(x)
    with pytest.raises(ValueError, match="covariance_type='isotropic' has no counterpart in scikit-learn"):
        model().partial_fit(x).to_sklearn()


def test_a_kind_that_is_not_registered_is_named(tmp_path: Path) -> None:
    model().partial_fit(clusters(300)).save(tmp_path / "model")
    del KINDS["isotropic"]
    with pytest.raises(ModelFileError, match=f"covariance 'isotropic', which is not registered. Import {__name__}"):
        StreamingGaussianMixture.load(tmp_path / "model")
    with pytest.raises(ValueError, match="covariance_type is 'isotropic'; expected 'diag'"):
        model().fit(clusters(300))
    with pytest.raises(
        ValueError, match=r"'isotropic'; expected one of 'diag', 'full', 'low_rank'\. .*register_covariance"
    ):
        covariance_kind("isotropic")


def test_mixtures_from_parameters() -> None:
    mixture = Mixture.from_parameters([0.5, 0.5], [[0.0, 0.0], [1.0, 1.0]], [4.0, 9.0], covariance_type="isotropic")
    full = Mixture.from_parameters([0.5, 0.5], [[0.0, 0.0], [1.0, 1.0]], [[4.0, 4.0], [9.0, 9.0]])
    x = np.random.default_rng(0).random((20, 2))
    np.testing.assert_allclose(mixture.log_prob(x), full.log_prob(x), rtol=1e-12)
