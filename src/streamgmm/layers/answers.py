"""What a fitted stack answers: scores, responsibilities, samples, hidden pixels."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array

from streamgmm.core.mixture import Mixture
from streamgmm.core.settings import require_number
from streamgmm.estimators.locks import one_at_a_time
from streamgmm.estimators.validation import refuse_unfit, seed_of
from streamgmm.layers import downward
from streamgmm.layers.fold import Images
from streamgmm.layers.level import Level
from streamgmm.layers.stack import Stack
from streamgmm.native import Floats


class LayerOutput(TransformerMixin):
    """Responsibilities of one layer as a transformer of its own: ``set_output`` takes the names of columns from it."""

    def __init__(self, answer: Callable[[npt.ArrayLike], Floats], names: npt.NDArray[np.object_]) -> None:
        self._answer, self._names = answer, names

    def transform(self, X: npt.ArrayLike) -> Floats:
        """Return the responsibilities."""
        return self._answer(X)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return names for the columns of ``transform``."""
        return self._names


class FittedStack:
    """Answers of an estimator that keeps its training in ``_stack``."""

    shape: tuple[int, ...]
    random_state: Any
    _stack: Stack

    @one_at_a_time
    def score_samples(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the log-likelihood of what the top layer sees of each image: (N,).

        It ranks images. It is a density of responsibilities, not of pixels, so compare it only within one model.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Images as flat rows.
        """
        stack, images = self._complete(), self._check_images(X)
        top = len(stack.levels) - 1
        return stack.ask(images, lambda part: stack.levels[top].log_likelihood(stack.below(part, top)))

    def score(self, X: npt.ArrayLike, y: object = None) -> float:
        """Return the mean of ``score_samples``.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Images as flat rows.
        y : None
            Ignored.
        """
        return float(self.score_samples(X).mean())

    @one_at_a_time
    def transform(self, X: npt.ArrayLike, layer: int = -1) -> Floats:
        """Return the responsibilities of a mixture at all positions: (N, positions × K).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Images as flat rows.
        layer : int, default=-1
            Number of the mixture, from the bottom; -1 is the top.
        """
        stack = self._fitted
        number = _layer_number(layer, len(stack.levels))
        if not stack.levels[number].begun:
            self._complete()

        def answer(rows: npt.ArrayLike) -> Floats:
            images = self._check_images(rows)
            return stack.ask(images, lambda part: stack.below(part, number + 1).reshape(len(part), -1))

        output = LayerOutput(answer, self.get_feature_names_out(layer=layer))
        output.set_output(transform=getattr(self, "_sklearn_output_config", {}).get("transform"))
        return output.transform(X)

    @one_at_a_time
    def sample(self, n_samples: int = 1, *, sharpening: int = 50) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draw images from the top down; return them as flat rows (n, D), with the components of the top layer.

        Parameters
        ----------
        n_samples : int, default=1
            Number of images.
        sharpening : int, default=50
            Most steps uphill by which patches that overlap are made to agree; 0 leaves their averages as they are.

        Returns
        -------
        images : array of shape (n, D)
            The images.
        components : array of shape (n,), or (n, positions) if the top layer has several
            Components of the top layer.
        """
        stack = self._complete()
        require_number("n_samples", n_samples, Integral, least=1)
        require_number("sharpening", sharpening, Integral, least=0)
        rng = np.random.default_rng(seed_of(self.random_state))
        if is_plain(stack):
            return stack.levels[0].trainers[0].mixture.sample(n_samples, rng)
        images, components = downward.draw(stack, n_samples, sharpening, rng)
        flat = components.reshape(n_samples, -1)
        return images.reshape(n_samples, -1), flat[:, 0] if flat.shape[1] == 1 else flat

    @one_at_a_time
    def inpaint(self, X: npt.ArrayLike) -> Floats:
        """Return images with their hidden pixels filled in: (N, D).

        Hidden pixels are integrated out on the way up. On the way down each takes the value that the others lead one to
        expect. Known pixels stay as they are.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Images as flat rows, with NaN for hidden pixels.

        Examples
        --------
        >>> import numpy as np
        >>> from streamgmm import DeepStreamingMixture
        >>> from streamgmm.sources.synthetic.glyphs import Glyphs
        >>> images, _ = Glyphs(seed=0).take(0, 1500)
        >>> model = DeepStreamingMixture.from_shape((28, 28), n_components=9, random_state=0).partial_fit(images)
        >>> hidden = images[:1].copy()
        >>> hidden.reshape(28, 28)[:, 14:] = np.nan
        >>> bool(np.isfinite(model.inpaint(hidden)).all())
        True
        """
        stack = self._complete()
        images = self._check_images(X, gaps=True)
        if images.dtype.kind != "f":
            return images.reshape(len(images), -1).astype(np.float64)  # nothing is hidden
        return stack.ask(images, lambda part: downward.fill(stack, part).reshape(len(part), -1))

    def get_feature_names_out(self, input_features: object = None, layer: int = -1) -> npt.NDArray[np.object_]:
        """Return names for the columns of ``transform``.

        Parameters
        ----------
        input_features : None
            Ignored.
        layer : int, default=-1
            Number of the mixture, from the bottom; -1 is the top.
        """
        levels = self._fitted.levels
        number = _layer_number(layer, len(levels))
        stage, name = levels[number].stage, type(self).__name__.lower()
        prefix = name if number == len(levels) - 1 else f"{name}_layer{number}_"
        return np.array([f"{prefix}{i}" for i in range(stage.n_positions * stage.n_components)], dtype=object)

    @property
    def levels_(self) -> list[Level]:
        """Each mixture with its fold and its trainers, from the bottom up."""
        return list(self._fitted.levels)

    @property
    def n_samples_seen_(self) -> int:
        """Images learned so far."""
        return self._fitted.n_images

    @one_at_a_time
    def mixture(self, layer: int = -1, position: int = 0) -> Mixture:
        """Return a copy of a mixture, for plots and questions of your own.

        Parameters
        ----------
        layer : int, default=-1
            Number of the mixture, from the bottom; -1 is the top.
        position : int, default=0
            Number of the position, if each has a mixture of its own.
        """
        levels = self._fitted.levels
        return levels[_layer_number(layer, len(levels))].trainers[position].mixture.copy()

    @one_at_a_time
    def prototypes(self, layer: int = -1) -> Floats:
        """Return what each component of a mixture expects to see, in pixels: (K, height, width, channels).

        Those of the first mixture are its means; those of upper ones are averages of these. If each position has a
        mixture of its own, they are those of the first position.

        Parameters
        ----------
        layer : int, default=-1
            Number of the mixture, from the bottom; -1 is the top.
        """
        stack = self._fitted
        number = _layer_number(layer, len(stack.levels))
        return downward.prototypes(stack if stack.levels[number].begun else self._complete(), number)

    def __sklearn_is_fitted__(self) -> bool:
        return "_stack" in vars(self)

    @property
    def _fitted(self) -> Stack:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet; call fit or partial_fit with data first."
            )
        return self._stack

    def _complete(self) -> Stack:
        """The stack, if all of its levels have learned something."""
        stack = self._fitted
        for number, level in enumerate(stack.levels):
            if not level.begun:
                width = stack.levels[number - 1].trainers[0].sigma
                raise NotFittedError(
                    f"layer {number} has not begun: layer {number - 1} is still annealing (sigma is {width:.3g}) after "
                    f"{stack.n_images} images. Learn from more images, or call fit, which makes enough passes."
                )
        return stack

    def _rows(self, X: npt.ArrayLike, shape: tuple[int, int, int]) -> npt.NDArray[Any]:
        """Return images, flat or not, as flat rows of the right width."""
        images = np.asarray(X)
        if images.shape[1:] in (shape, shape[:2] if shape[2] == 1 else None):
            images = images.reshape(len(images), -1)
        rows: Any = check_array(images, dtype="numeric", ensure_all_finite=False, input_name="X", estimator=self)
        width = int(np.prod(shape))
        if rows.shape[1] != width:
            raise ValueError(
                f"X has {rows.shape[1]} features, but images of shape {tuple(self.shape)} have {width}. "
                "Change shape, or resize the images."
            )
        return rows

    def _check_images(self, X: npt.ArrayLike, gaps: bool = False) -> Images:
        """Validate images that must resemble those of training."""
        lowest = self._fitted.levels[0]
        rows = self._rows(X, lowest.stage.shape)
        dtype = lowest.trainers[0].dtype
        refuse_unfit(rows, dtype, gaps=gaps or bool(lowest.stage.mixture.allow_nan))
        return self._as_images(rows)

    def _as_images(self, rows: npt.NDArray[Any]) -> Images:
        stage = self._fitted.levels[0].stage
        return rows.reshape(-1, *stage.shape)


def _layer_number(layer: int, count: int) -> int:
    """Return the number of a layer from the bottom; raise unless there is one."""
    if not -count <= layer < count:
        raise ValueError(f"layer is {layer}; there are {count} mixtures, numbered from 0.")
    return layer % count


def is_plain(stack: Stack) -> bool:
    """Whether a stack is nothing but one mixture of whole images."""
    stage = stack.levels[0].stage
    return len(stack.levels) == 1 and stage.n_positions == 1 and not stage.pools
