"""Stacks in and out of files: layers become plain data, and plain data become layers."""

from __future__ import annotations

import os
from dataclasses import asdict
from numbers import Integral
from typing import Any

import numpy as np

from streamgmm.errors import ModelFileError
from streamgmm.estimators.mixture import StreamingGaussianMixture
from streamgmm.layers.fold import Fold, Pool
from streamgmm.layers.level import Level
from streamgmm.layers.stack import Stack
from streamgmm.layers.stages import plan
from streamgmm.storage import SavedModel
from streamgmm.storage.container import DAMAGE
from streamgmm.storage.stack_file import SavedStack, load_stacked_models, save_stacked_models

OTHERS = ("period", "n_epochs", "shuffle", "n_jobs", "verbose")  # of a mixture, beside the settings of its trainer


def save_stack(path: str | os.PathLike[str], stack: Stack, parameters: dict[str, Any]) -> None:
    """Write a stack with its training state, and plain data about the estimator."""
    stack.settle()
    layers: list[dict[str, Any]] = []
    for level in stack.levels:
        mixture = level.stage.mixture
        seed = mixture.random_state if isinstance(mixture.random_state, Integral) else None
        layers += [{"pool": asdict(pool)} for pool in level.stage.pools]
        layers.append({"fold": asdict(level.stage.fold)})
        cap = None if mixture.precision_max is None else float(mixture.precision_max)
        known = {**{name: getattr(mixture, name) for name in OTHERS}, "precision_max": cap, "random_state": seed}
        layers.append({"mixture": known})
    models = [[SavedModel(trainer) for trainer in level.trainers] for level in stack.levels]
    save_stacked_models(path, SavedStack(models, layers, parameters, stack.waiting, stack.n_images))


def load_stack(path: str | os.PathLike[str]) -> tuple[Stack, list[Any], dict[str, Any]]:
    """Read a stack; return it with its layers and the plain data about its estimator."""
    saved = load_stacked_models(path)
    try:
        layers = _layers(saved)
        stages = plan(layers, saved.parameters["shape"])
        levels = [
            Level(stage, [model.trainer for model in models])
            for stage, models in zip(stages, saved.models, strict=True)
        ]
        for level in levels:
            _check(level)
        stack = Stack(levels, saved.waiting, saved.n_images)
        if saved.waiting.shape[1:] != stages[0].shape or len(saved.waiting) >= stack.block:
            raise ValueError(f"images that wait have shape {saved.waiting.shape}")
    except DAMAGE as problem:
        raise ModelFileError(f"{path} is damaged: {problem!s:.200}. Use another copy, or train again.") from problem
    return stack, layers, saved.parameters


def _layers(saved: SavedStack) -> list[Any]:
    layers: list[Any] = []
    models = iter(saved.models)
    for facts in saved.layers:
        [(kind, values)] = facts.items()
        if kind == "mixture":
            settings = vars(next(models)[0].trainer.settings)
            layers.append(StreamingGaussianMixture(**{**settings, **values}))
        else:
            tupled = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
            layers.append({"fold": Fold, "pool": Pool}[kind](**tupled))
    return layers


def _check(level: Level) -> None:
    """Raise ValueError unless the trainers of a level fit its stage."""
    expected = 1 if level.stage.fold.shared else level.stage.n_positions
    widths = {trainer.n_features for trainer in level.trainers}
    if len(level.trainers) != expected or widths != {level.stage.n_features}:
        raise ValueError(f"{len(level.trainers)} models of {widths} features; expected {expected}")
    if not np.isin([t.n_components for t in level.trainers], level.stage.n_components).all():
        raise ValueError(f"models do not have {level.stage.n_components} components")
