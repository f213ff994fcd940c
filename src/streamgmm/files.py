"""An estimator ↔ one file: its settings beside the training state, and what a run keeps there."""

from __future__ import annotations

import os
import warnings
from numbers import Integral
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streamgmm import checkpoint, rules

Arrays = dict[str, npt.NDArray[Any]]
Model = TypeVar("Model", bound=Any)
INITS = ("weights_init", "means_init", "precisions_init")


class Scaled(NamedTuple):
    """The scaling that a run has put beside its model; whoever loads the model and saves it again passes it on."""

    facts: dict[str, Any]
    arrays: Arrays


class Loaded(NamedTuple, Generic[Model]):
    """A model, and the facts and arrays that its writer has put beside it."""

    model: Model
    facts: dict[str, Any]
    arrays: Arrays


def save(
    model: Any, path: str | os.PathLike[str], facts: dict[str, Any] | None = None, arrays: Arrays | None = None
) -> None:
    """Writes a fitted estimator, with JSON-ready facts and arrays of the caller's beside it."""
    state = model._state
    params = {**model.get_params(deep=False), **model._begun_with}  # what was changed since means nothing to training
    tensors = {name: np.asarray(params.pop(name)) for name in INITS if params[name] is not None}
    scaled: Scaled | None = getattr(model, "_scaled", None)
    if scaled is not None:
        facts, arrays = {**scaled.facts, **(facts or {})}, {**scaled.arrays, **(arrays or {})}
    tensors |= {f"also.{name}": value for name, value in (arrays or {}).items()}
    if isinstance(params["rule"], rules.Rule):
        params["rule"] = params["rule"].settings()
    if not isinstance(model.random_state, Integral):
        params["random_state"] = None  # the generator in use is part of the training state
    params = {k: v.item() if isinstance(v, np.generic) else v for k, v in params.items() if k not in INITS}
    names = getattr(model, "feature_names_in_", None)
    header = {"params": params, "feature_names": None if names is None else list(names), "also": facts or {}}
    checkpoint.save(path, state, header, tensors)


def load(kind: type[Model], path: str | os.PathLike[str]) -> Loaded[Model]:
    """Reads what ``save`` wrote, as an estimator of that kind."""
    state, facts, arrays = checkpoint.load(path)
    try:
        beside = {name[5:]: arrays.pop(name) for name in list(arrays) if name.startswith("also.")}
        params = {**facts["params"], **arrays}
        if isinstance(params["rule"], dict):
            params["rule"] = rules.from_settings(params["rule"])
        model = kind(**params)
        model._validate_params()
        names = facts["feature_names"]
        if model.n_components != state.grid.size or len(names or ()) not in (0, state.parameters.n_features):
            raise ValueError("n_components or feature names do not fit the tensors")
    except (KeyError, TypeError, ValueError) as problem:
        raise checkpoint.ModelFileError(
            f"{path} holds a mixture but no settings of this estimator ({problem!s:.200})."
        ) from problem
    model._take(state)
    model.n_features_in_ = state.parameters.n_features
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    also = dict(facts.get("also") or {})
    if also.get("scale", "none") != "none" and {"shift", "factor"} <= set(beside):
        model._scaled = Scaled({"scale": also["scale"]}, {name: beside[name] for name in ("shift", "factor")})
    return Loaded(model, also, beside)


def warn_of_scaling(facts: dict[str, Any]) -> None:
    """Warns that a model from a run with scaling knows nothing of it by itself."""
    if facts.get("scale", "none") != "none":
        warnings.warn(
            f"the model was trained on data scaled by {facts['scale']!r}, and expects data scaled alike: "
            "streamgmm.keeping.open_model(path).scaling.apply(X, dtype) does it.",
            UserWarning,
            stacklevel=3,
        )
