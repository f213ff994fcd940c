"""The parameters of a mixture: the tensors of its covariance kind, and the weights of its components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.tensors import EVERY, Tensors
from streamgmm.native import Floats

if TYPE_CHECKING:
    from streamgmm.core.covariance.base import Covariance


class Parameters:
    """Parameters that training changes in place.

    Parameters
    ----------
    kind : Covariance
        The covariance kind, which knows what the tensors mean.
    values : mapping of str to array-like
        The tensors of the kind by name; every kind has ``"means"`` (K, D). Their float type decides that of all.
    logits : array-like of shape (K,)
        Logarithms of the weights, up to a constant.

    Examples
    --------
    >>> from streamgmm.core.covariance import Diagonal
    >>> p = Parameters(Diagonal(), {"means": [[0.0, 1.0]], "scales": [[1.0, 2.0]]}, [0.0])
    >>> p.means.shape, p.buffers["means"].shape, p.log_dets.round(3).tolist()
    ((1, 2), (1, 16), [0.693])
    """

    def __init__(self, kind: Covariance, values: Mapping[str, npt.ArrayLike], logits: npt.ArrayLike) -> None:
        means = np.asarray(values["means"])
        dtype = np.dtype(np.float32 if means.dtype == np.float32 else np.float64)
        if means.ndim != 2 or 0 in means.shape:
            raise ValueError(f"means have shape {means.shape}; expected (components, features), both at least 1.")
        tensors = Tensors(kind.layout(means.shape[1]), values, dtype)
        if {len(buffer) for buffer in tensors.buffers.values()} != {len(means)} or np.shape(logits) != (len(means),):
            shapes = {name: value.shape for name, value in tensors.named().items()}
            raise ValueError(f"tensors have shapes {shapes} and logits {np.shape(logits)}; expected {len(means)} each.")
        self._own(kind, tensors, np.array(logits, dtype=np.float64), np.empty(len(means)))
        self.refresh()

    def _own(
        self, kind: Covariance, tensors: Tensors, logits: npt.NDArray[np.float64], log_dets: npt.NDArray[np.float64]
    ) -> None:
        self.kind, self.tensors, self.logits, self.log_dets = kind, tensors, logits, log_dets
        self.n_features: int = tensors["means"].shape[1]
        self.native: Any = kind.native(self)

    @property
    def means(self) -> Floats:
        """(K, D) view."""
        return self.tensors["means"]

    def __getitem__(self, name: str) -> Floats:
        return self.tensors[name]

    @property
    def buffers(self) -> dict[str, Floats]:
        """Tensors in the layout of the kernel."""
        return self.tensors.buffers

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """[E1] Softmax of the logits, (K,)."""
        e = np.exp(self.logits - self.logits.max())
        return e / e.sum()

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.tensors.dtype

    def __len__(self) -> int:
        return len(self.logits)

    def __reduce__(self) -> tuple[type[Parameters], tuple[Any, ...]]:
        return Parameters, (self.kind, {n: np.array(v) for n, v in self.tensors.named().items()}, self.logits)

    def refresh(self, rows: range | None = None) -> None:
        """Recompute what follows from the tensors, of all components or of some; call it after writing to them."""
        self.kind.refresh(self, range(len(self)) if rows is None else rows)

    def copy(self) -> Parameters:
        """Copy everything to memory of its own."""
        twin = Parameters.__new__(Parameters)
        twin._own(self.kind, self.tensors.copy(), self.logits.copy(), self.log_dets.copy())
        return twin

    def assign(self, other: Parameters, rows: slice = EVERY) -> None:
        """Overwrite all values with those of parameters of the same shape; tensors of some components only."""
        self.tensors.assign(other.tensors, rows)
        np.copyto(self.logits, other.logits)
        np.copyto(self.log_dets, other.log_dets)

    def select(self, components: npt.NDArray[np.int64]) -> Parameters:
        """Take the given components, in this order; one that appears twice shares its weight between the copies."""
        values = {name: value[components] for name, value in self.tensors.named().items()}
        copies = np.bincount(components, minlength=len(self))[components]
        return Parameters(self.kind, values, self.logits[components] - np.log(copies))


def logits_of(weights: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Logarithms of weights that sum to one; a weight of zero becomes the smallest positive number."""
    values = np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any() or abs(values.sum() - 1) > 1e-4:
        raise ValueError(
            f"weights have shape {values.shape} and sum to {values.sum():.6g}; "
            "expected a vector of non-negative numbers that sum to 1. Divide them by their sum."
        )
    return np.log(np.maximum(values, np.finfo(np.float64).tiny))
