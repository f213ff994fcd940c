"""The scikit-learn face of a stack: ``DeepStreamingMixture``."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, DensityMixin, TransformerMixin, clone

from streamgmm.core.rows import float_type
from streamgmm.core.scaling import warn_of_scale
from streamgmm.core.settings import DEFAULT_CAP, require_number
from streamgmm.estimators.fitting import FitOptions, fit_rows
from streamgmm.estimators.locks import one_at_a_time
from streamgmm.estimators.mixture import StreamingGaussianMixture
from streamgmm.estimators.validation import fixed_values, refuse_changes, refuse_unfit, seed_of
from streamgmm.layers.answers import FittedStack, is_plain
from streamgmm.layers.fitting import fit_images
from streamgmm.layers.fold import Fold
from streamgmm.layers.saving import load_stack, save_stack
from streamgmm.layers.stack import Stack, start_stack
from streamgmm.layers.stages import default_fold, plan

NOISE = 0.1  # of pixels within [0, 1]: what the paper's cap on precisions, 20, does for flat mixtures
CAP = 1000.0  # precision of responsibilities: a cap of 20, which suits pixels, blurs them


class Begun(NamedTuple):
    """Parameters that cannot change once training has begun; for each mixture, those of `fixed_values`."""

    shape: tuple[int, ...]
    pixel_noise: float | None
    mixtures: list[tuple[Any, ...]]


class DeepStreamingMixture(FittedStack, TransformerMixin, DensityMixin, BaseEstimator):
    """Mixtures of patches of mixtures: a stack that learns images from a stream, without backpropagation.

    Each mixture sees patches of what is below it, and the responsibilities of its components are an image for the layer
    above. Use it for images in which one flat mixture finds too little: it ranks strange images, draws new ones
    and fills in hidden pixels. Each layer maximises its own objective and starts when the one below has annealed.

    Parameters
    ----------
    layers : list
        Layers from the bottom up: a `Fold` and a `StreamingGaussianMixture`, then any number of further pairs, each
        with a `Pool` in front if wanted. Mixtures without a ``random_state`` use that of the stack.
    shape : tuple of int
        Height and width of an image, or height, width and channels.
    pixel_noise : float or None, default=None
        Least deviation of a pixel from what a component of the first mixture expects, as a share of full brightness:
        255 for bytes, 1 for floats. It keeps responsibilities from being too certain. None, or a ``precision_max`` of
        that mixture, leaves it to the mixture.
    n_epochs : int or "auto", default="auto"
        Passes of ``fit`` over its data. ``"auto"`` makes as many as all layers need.
    shuffle : bool, default=True
        Whether each pass of ``fit`` takes the images in random order. ``partial_fit`` keeps their order.
    random_state : int, RandomState, Generator or None, default=None
        Randomness of the start, of shuffling and of samples.
    verbose : int, default=0
        1 shows a progress line during ``fit``.

    Attributes
    ----------
    levels_ : list of Level
        Each mixture with its fold and its trainers, from the bottom up.
    n_samples_seen_ : int
        Images learned.
    n_features_in_ : int
        Values of an image.

    Notes
    -----
    Images are flat rows, or arrays of ``shape``. Bytes are learned as they are. The first mixture may have any units;
    upper mixtures see responsibilities, which suit ``scale="none", precision_max=1000``.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgmm import DeepStreamingMixture
    >>> from streamgmm.sources.synthetic.glyphs import Glyphs
    >>> images, _ = Glyphs(seed=0).take(0, 1500)
    >>> model = DeepStreamingMixture.from_shape((28, 28), n_components=9, random_state=0)
    >>> for chunk in np.array_split(images, 5):
    ...     model = model.partial_fit(chunk)
    >>> model.score_samples(images[:2]).shape, model.transform(images[:2]).shape
    ((2,), (2, 9))
    """

    def __init__(
        self,
        layers: list[Any],
        shape: tuple[int, ...],
        *,
        pixel_noise: float | None = None,
        n_epochs: int | str = "auto",
        shuffle: bool = True,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        verbose: int = 0,
    ) -> None:
        self.layers = layers
        self.shape = shape
        self.pixel_noise = pixel_noise
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def from_shape(cls, shape: tuple[int, ...], *, n_components: int = 49, **parameters: Any) -> Self:
        """Return two layers for images of a shape: a mixture of overlapping patches, and one of whole images.

        For 28×28 pixels, patches have 8×8 pixels and a stride of 2: architecture B of Gepperth (2022).

        Parameters
        ----------
        shape : tuple of int
            Height and width of an image, or height, width and channels.
        n_components : int, default=49
            Components of each mixture.
        **parameters : dict
            Further parameters of the estimator.

        Examples
        --------
        >>> DeepStreamingMixture.from_shape((28, 28)).layers[0]
        Fold(patch=(8, 8), stride=(2, 2), shared=True)
        """
        patches = StreamingGaussianMixture(n_components)
        whole = StreamingGaussianMixture(n_components, scale="none", precision_max=CAP)
        layers = [default_fold(shape), patches, Fold(), whole]
        return cls(layers, tuple(shape), **{"pixel_noise": NOISE, **parameters})

    # Learning

    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:
        """Forget what was learned and make ``n_epochs`` passes over the images.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Images as flat rows.
        y : None
            Ignored.

        Returns
        -------
        self : DeepStreamingMixture
            The fitted estimator.
        """
        rows, stack = self._start(X)
        options = FitOptions(self.n_epochs, bool(self.shuffle), bool(self.verbose))
        if is_plain(stack):
            fit_rows(stack.levels[0].trainers[0], rows, None, options)
            stack.n_images = stack.levels[0].trainers[0].n_samples
        else:
            fit_images(stack, rows, options)
        self._take(stack)
        return self

    @one_at_a_time
    def partial_fit(self, X: npt.ArrayLike, y: object = None) -> Self:
        """Learn from images in their order and keep everything learned before.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Images as flat rows.
        y : None
            Ignored.

        Returns
        -------
        self : DeepStreamingMixture
            The fitted estimator.
        """
        if self.__sklearn_is_fitted__():
            self._refuse_changes()
            images = self._check_images(X)
        else:
            rows, stack = self._start(X)
            self._take(stack)
            images = self._as_images(rows)
        self._stack.feed(images)
        self._stack.settle()
        return self

    # Files

    @one_at_a_time
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all layers and their training state to one safetensors file.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        seed = self.random_state if isinstance(self.random_state, Integral) else None
        others = {name: getattr(self, name) for name in ("n_epochs", "shuffle", "verbose")}
        noise = None if self.pixel_noise is None else float(self.pixel_noise)
        facts = {**others, "pixel_noise": noise, "random_state": seed, "shape": list(self.shape)}
        save_stack(path, self._fitted, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model; ``partial_fit`` continues from it as if it had never stopped.

        Parameters
        ----------
        path : str or path-like
            A file written by ``save``.
        """
        stack, layers, parameters = load_stack(path)
        model = cls(layers, tuple(parameters.pop("shape")), **parameters)
        model._take(stack)
        return model

    def _start(self, X: npt.ArrayLike) -> tuple[npt.NDArray[Any], Stack]:
        """Validate parameters and first images; return the images as rows, and a stack that has learned nothing."""
        if self.n_epochs != "auto":
            require_number("n_epochs", self.n_epochs, Integral, least=1)
        stages = plan(clone(list(self.layers), safe=False), self.shape)
        rows = self._rows(X, stages[0].shape)
        lowest, cap = stages[0].mixture, self._pixel_cap(rows.dtype)
        refuse_unfit(rows, float_type(rows), gaps=bool(lowest.allow_nan))
        if lowest.scale == "none":
            warn_of_scale(rows, lowest.precision_max or cap or DEFAULT_CAP)
        return rows, start_stack(stages, float_type(rows), seed_of(self.random_state), cap)

    def _pixel_cap(self, dtype: np.dtype[Any]) -> float | None:
        """Largest precision of pixels that ``pixel_noise`` allows, in their units."""
        if self.pixel_noise is None:
            return None
        require_number("pixel_noise", self.pixel_noise, Real, least=1e-6, most=1e6)
        return float(self.pixel_noise * (255 if dtype == np.uint8 else 1)) ** -2

    def _take(self, stack: Stack) -> None:
        self._stack, self._begun_with = stack, self._fixed()
        self.n_features_in_ = int(np.prod(stack.levels[0].stage.shape))

    def _fixed(self) -> Begun:
        """Return what cannot change once training has begun."""
        mixtures = [layer for layer in self.layers if isinstance(layer, StreamingGaussianMixture)]
        return Begun(tuple(self.shape), self.pixel_noise, [fixed_values(mixture) for mixture in mixtures])

    def _refuse_changes(self) -> None:
        """Raise if a parameter has changed that training cannot change any more."""
        now, begun = self._fixed(), self._begun_with
        for name in ("shape", "pixel_noise"):
            if getattr(now, name) != getattr(begun, name):
                raise ValueError(
                    f"{name} is {getattr(now, name)!r}, but training began with {getattr(begun, name)!r}. "
                    "Set it back, or start again with fit or a clone."
                )
        if len(now.mixtures) != len(begun.mixtures):
            raise ValueError(
                f"layers hold {len(now.mixtures)} mixtures, but training began with {len(begun.mixtures)}. "
                "Set them back, or start again with fit or a clone."
            )
        for number, values in enumerate(zip(now.mixtures, begun.mixtures, strict=True)):
            refuse_changes(*values, prefix=f"mixture {number}: ")
