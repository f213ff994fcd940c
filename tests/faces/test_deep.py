"""DeepStreamingMixture as scikit-learn users see it: answers, hidden pixels, files, messages."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

from streamgmm import DeepStreamingMixture, Fold, ModelFileError, Pool, StreamingGaussianMixture
from streamgmm.sources.synthetic.glyphs import Glyphs
from streamgmm.storage import load_model

UPPER = {"scale": "none", "precision_max": 20.0}


@pytest.fixture(scope="module")
def letters() -> tuple[np.ndarray, np.ndarray]:
    images, labels = Glyphs(seed=1).take(0, 3300)
    return images.astype(np.float32), labels


@pytest.fixture(scope="module")
def model(letters: tuple[np.ndarray, np.ndarray]) -> DeepStreamingMixture:
    layers = [Fold(8, 4), StreamingGaussianMixture(25), Fold(), StreamingGaussianMixture(25, **UPPER)]
    return DeepStreamingMixture(layers, (28, 28), random_state=0).fit(letters[0][:3000])


def test_fit_makes_enough_passes_for_every_layer(model: DeepStreamingMixture) -> None:
    assert model.n_samples_seen_ % 3000 == 0
    assert all(level.trainers[0].annealed for level in model.levels_)
    assert model.levels_[1].trainers[0].n_samples < model.n_samples_seen_  # it began later
    assert model.n_features_in_ == 784
    assert model.mixture(0).n_features == 64


def test_strange_images_score_low(model: DeepStreamingMixture, letters: tuple[np.ndarray, np.ndarray]) -> None:
    images = letters[0][3000:]
    turned = images.reshape(-1, 28, 28).transpose(0, 2, 1)
    usual, strange = model.score_samples(images), model.score_samples(turned)
    assert (usual[:, None] > strange).mean() > 0.9
    assert model.score(images) == pytest.approx(usual.mean())


def test_hidden_halves_are_filled_in() -> None:
    """Four kinds of noisy images: the visible half tells which, so that only the noise remains."""
    rng = np.random.default_rng(0)
    kinds = rng.random((4, 12, 12))
    x = kinds[rng.integers(4, size=2200)] + rng.normal(0, 0.1, (2200, 12, 12))
    layers = [Fold(4, 2), StreamingGaussianMixture(25), Fold(), StreamingGaussianMixture(9, **UPPER)]
    model = DeepStreamingMixture(layers, (12, 12), random_state=0).partial_fit(x[:2000])
    hidden = x[2000:].copy()
    hidden[:, :, 6:] = np.nan
    filled = model.inpaint(hidden).reshape(hidden.shape)
    known = ~np.isnan(hidden)
    np.testing.assert_array_equal(filled[known], hidden[known])
    error, of_mean = (np.mean((guess - x[2000:])[~known] ** 2) for guess in (filled, x[:2000].mean(0)))
    assert error < 0.6 * of_mean  # 25 patches stand for 100
    np.testing.assert_array_equal(model.inpaint(x[:3]), x[:3].reshape(3, -1))


def test_bytes_hide_nothing(model: DeepStreamingMixture, letters: tuple[np.ndarray, np.ndarray]) -> None:
    complete = (255 * letters[0][:3]).astype(np.uint8)
    np.testing.assert_array_equal(model.inpaint(complete), complete)


def test_one_layer_fills_in_the_conditional_mean() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=(800, 1)) + rng.normal(0, 0.2, (800, 16))
    flat = StreamingGaussianMixture(4, random_state=0).partial_fit(x)
    deep = DeepStreamingMixture([Fold(), StreamingGaussianMixture(4)], (4, 4), random_state=0).partial_fit(x)
    hidden = x[:20].copy()
    hidden[:, 5:] = np.nan
    shares = flat.mixture_.marginal(range(5)).responsibilities(hidden[:, :5])
    np.testing.assert_allclose(deep.inpaint(hidden)[:, 5:], (shares @ flat.means_)[:, 5:], rtol=1e-6)


def test_hidden_positions_are_integrated_out() -> None:
    """The top layer knows as much of a half-hidden image as a mixture of the visible positions alone."""
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=(900, 1)) + rng.normal(0, 0.3, (900, 16))
    layers = [
        Fold(2, 2),
        StreamingGaussianMixture(4, period=20, allow_nan=True),
        Fold(),
        StreamingGaussianMixture(4, period=20, allow_nan=True, **UPPER),
    ]
    model = DeepStreamingMixture(layers, (4, 4), random_state=0).partial_fit(x)
    hidden = x[:30].reshape(-1, 4, 4).copy()
    hidden[:, 2:] = np.nan
    below = model.transform(x[:30], layer=0)[:, :8]  # two of four positions
    expected = model.mixture().marginal(range(8)).responsibilities(below)
    np.testing.assert_allclose(model.transform(hidden), expected, atol=1e-5)


def test_samples_resemble_the_data(model: DeepStreamingMixture, letters: tuple[np.ndarray, np.ndarray]) -> None:
    rough, components = model.sample(40, sharpening=0)
    sharp, same = model.sample(40)
    np.testing.assert_array_equal(components, same)
    assert rough.shape == sharp.shape == (40, 784)
    images = letters[0][:3000]

    def nearest(drawn: np.ndarray) -> float:
        return float(((drawn[:, None] - images[None, :500]) ** 2).sum(-1).min(1).mean())

    noise = images.mean(0) + images.std(0) * np.random.default_rng(0).normal(size=(40, 784))
    assert nearest(sharp) < nearest(rough) < nearest(noise)
    np.testing.assert_array_equal(model.sample(40)[0], sharp)  # an integer seed repeats


def test_responsibilities_are_features(model: DeepStreamingMixture, letters: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = letters
    top, lower = model.transform(images[:9]), model.transform(images[:9], layer=0)
    assert top.shape == (9, 25) == (9, len(model.get_feature_names_out()))
    assert lower.shape == (9, 6 * 6 * 25)
    np.testing.assert_allclose(lower.reshape(9, 36, 25).sum(-1), 1, atol=1e-4)
    features = model.transform(images[2000:], layer=0)
    classifier = SGDClassifier(random_state=0).fit(features[:1000], labels[2000:3000])
    assert classifier.score(features[1000:], labels[3000:]) > 0.75


def test_responsibilities_as_a_data_frame(model: DeepStreamingMixture, letters: tuple[np.ndarray, np.ndarray]) -> None:
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    plain = model.transform(letters[0][:5])
    copy = pickle.loads(pickle.dumps(model)).set_output(transform="pandas")
    frame = copy.transform(letters[0][:5])
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(frame, plain)
    rows = pd.DataFrame(letters[0][:5].reshape(5, -1), index=list("abcde"))
    lower = copy.transform(rows, layer=0)
    assert list(lower.index) == list("abcde")
    assert list(lower.columns) == list(model.get_feature_names_out(layer=0))
    assert lower.columns[0] == "deepstreamingmixture_layer0_0"
    assert copy.transform(rows, layer=1).columns.equals(frame.columns)
    np.testing.assert_array_equal(lower, model.transform(letters[0][:5], layer=0))
    assert isinstance(copy.set_output(transform="default").transform(rows, layer=0), np.ndarray)
    with config_context(transform_output="pandas"):
        assert model.transform(rows, layer=0).columns.equals(lower.columns)


def test_layers_that_do_not_exist_are_refused(model: DeepStreamingMixture) -> None:
    for ask in (model.mixture, model.prototypes):
        with pytest.raises(ValueError, match="layer is 9; there are 2 mixtures, numbered from 0"):
            ask(9)


def test_prototypes_are_pictures(model: DeepStreamingMixture) -> None:
    np.testing.assert_allclose(model.prototypes(0).reshape(25, -1), model.mixture(0).means, rtol=1e-6)
    assert model.prototypes().shape == (25, 28, 28, 1)
    assert np.ptp(model.prototypes(), axis=0).max() > 0.3


def test_it_is_an_estimator(letters: tuple[np.ndarray, np.ndarray]) -> None:
    model = DeepStreamingMixture.from_shape((28, 28), n_components=4, n_epochs=1, random_state=0)
    copy = clone(model).set_params(n_epochs=2)
    assert (model.n_epochs, copy.n_epochs) == (1, 2)
    assert copy.layers[1] is not model.layers[1]
    pipeline = make_pipeline(model, SGDClassifier(random_state=0)).fit(letters[0][:600], letters[1][:600])
    assert pipeline.predict(letters[0][:5]).shape == (5,)


@pytest.mark.parametrize("shape", [(28, 28), (32, 32, 3), (8, 8), (100, 60), (5, 17), (3, 3)])
def test_every_shape_has_an_architecture(shape: tuple[int, ...]) -> None:
    fold = DeepStreamingMixture.from_shape(shape).layers[0]
    down, across, features = fold.output_shape((*shape[:2], 1 if len(shape) == 2 else shape[2]))
    assert down <= 11
    assert across <= 11
    assert features >= 1


def test_a_top_that_has_not_begun_says_so(letters: tuple[np.ndarray, np.ndarray]) -> None:
    model = DeepStreamingMixture.from_shape((28, 28), n_components=9)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.transform(letters[0][:2])
    model.partial_fit(letters[0][:20])
    for answer in (model.score_samples, model.transform, model.inpaint):
        with pytest.raises(NotFittedError, match="layer 1 has not begun: layer 0 is still annealing"):
            answer(letters[0][:2])
    assert model.transform(letters[0][:2], layer=0).shape == (2, 11 * 11 * 9)
    slow = DeepStreamingMixture(
        [Fold(14, 14), StreamingGaussianMixture(9, period=10_000), Fold(), StreamingGaussianMixture(4, **UPPER)],
        (28, 28),
        n_epochs=1,
    )
    with pytest.warns(ConvergenceWarning, match="the top layer has not begun after 1 passes over 50 images"):
        slow.fit(letters[0][:50])


PAIR = [Fold(), StreamingGaussianMixture(4)]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "layers must end with a Fold and a StreamingGaussianMixture"),
        ([StreamingGaussianMixture(4)], r"layers\[0\] is StreamingGaussianMixture; expected a Pool or a Fold"),
        ([Fold(), Pool()], r"layers\[1\] is Pool; expected a StreamingGaussianMixture"),
        ([*PAIR, Pool(1)], "must end with"),
        ([Fold(3, 2), PAIR[1]], "do not cover 28 pixels"),
        ([*PAIR, Fold(), StreamingGaussianMixture(4, allow_nan=True)], "allow_nan must be the same"),
        ([Fold(), StreamingGaussianMixture(0)], "n_components is 0"),
    ],
)
def test_layers_that_do_not_fit_are_refused(layers: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeepStreamingMixture(layers, (28, 28)).fit(np.zeros((5, 784)))


def test_wrong_images_are_refused(model: DeepStreamingMixture) -> None:
    with pytest.raises(ValueError, match=r"X has 9 features, but images of shape \(28, 28\) have 784"):
        model.score_samples(np.zeros((2, 9)))
    with pytest.raises(ValueError, match="row 1 of X contains NaN"):
        model.score_samples(np.vstack([np.zeros(784), np.full(784, np.nan)]))
    with pytest.raises(ValueError, match="layer is 2; there are 2 mixtures"):
        model.transform(np.zeros((1, 784)), layer=2)
    with pytest.raises(ValueError, match="n_samples is 0"):
        model.sample(0)
    with pytest.raises(ValueError, match="pixel_noise is 0; expected a number of at least 1e-06"):
        DeepStreamingMixture(PAIR, (28, 28), pixel_noise=0).fit(np.zeros((3, 784)))
    with pytest.raises(ValueError, match="shape is"):
        DeepStreamingMixture(PAIR, (28,)).fit(np.zeros((3, 28)))


def test_files_of_stacks_and_of_mixtures_are_told_apart(model: DeepStreamingMixture, tmp_path: Path) -> None:
    deep, plain = tmp_path / "deep.safetensors", tmp_path / "plain.safetensors"
    model.save(deep)
    StreamingGaussianMixture(2).partial_fit(np.random.default_rng(0).random((300, 3))).save(plain)
    with pytest.raises(ModelFileError, match=r"holds a stack of layers. Load it with streamgmm.DeepStreamingMixture"):
        load_model(deep)
    with pytest.raises(ModelFileError, match=r"holds one mixture. Load it with streamgmm.StreamingGaussianMixture"):
        DeepStreamingMixture.load(plain)
    with pytest.raises(FileNotFoundError):
        DeepStreamingMixture.load(tmp_path / "none.safetensors")
    deep.write_bytes(deep.read_bytes()[:5000])
    with pytest.raises(ModelFileError, match="damaged"):
        DeepStreamingMixture.load(deep)


def test_parameters_that_cannot_change_any_more(letters: tuple[np.ndarray, np.ndarray]) -> None:
    x = letters[0][:200]
    model = DeepStreamingMixture.from_shape((28, 28), n_components=4, random_state=0).partial_fit(x)
    model.pixel_noise = 0.3
    with pytest.raises(ValueError, match=r"pixel_noise is 0\.3, but training began with 0\.1"):
        model.partial_fit(x)
    model.pixel_noise = 0.1
    model.layers[1].half_life = 100.0
    with pytest.raises(ValueError, match="mixture 0: half_life is"):
        model.partial_fit(x)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_pass_counts_whatever_the_layers(letters: tuple[np.ndarray, np.ndarray]) -> None:
    x = letters[0][:100]
    for fold in (Fold(), Fold(patch=(14, 14), stride=(14, 14))):
        model = DeepStreamingMixture([fold, StreamingGaussianMixture(4)], (28, 28), n_epochs=3, random_state=0).fit(x)
        assert model.n_samples_seen_ == 300
