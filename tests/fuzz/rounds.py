"""Rounds that are learned elsewhere: what goes to the replicas, and what comes back from them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from safetensors.numpy import save

from streamgmm import ModelFileError, StreamingGaussianMixture, begin_round, learn_share, merge_round
from tests.fuzz.formats import Format, cut_bytes, flip_bytes
from tests.fuzz.model_files import change_header, change_layout, change_tensor

MODELS = (
    {},
    {"rule": "sgd", "scale": "none"},
    {"rule": "sem"},
    {"covariance_type": "full"},
    {"covariance_type": "low_rank", "rank": 2, "batch_size": 4},
)
ROWS = np.random.default_rng(0).normal(0.5, 0.2, (1000, 3))
REPLICAS = 2


def model_of(number: int) -> StreamingGaussianMixture:
    """Return a model that is about to begin a round."""
    return StreamingGaussianMixture(4, random_state=0, **MODELS[number]).partial_fit(ROWS[:600])


@cache
def rounds() -> list[tuple[bytes, list[bytes]]]:
    """Return start and shares of a round of each model."""
    found = []
    for number in range(len(MODELS)):
        start = begin_round(model_of(number), REPLICAS)
        found.append((start, [learn_share(start, r, ROWS[600 + 200 * r :][:150]) for r in range(REPLICAS)]))
    return found


@cache
def round_examples() -> list[bytes]:
    """Return all messages of these rounds; the first byte tells which model they are of."""
    return [bytes([n]) + part for n, (start, learned) in enumerate(rounds()) for part in (start, learned[1])]


def _inside(change):  # type: ignore[no-untyped-def]
    def mutate(rng: Random, content: bytes) -> bytes:
        return content[:1] + change(rng, content[1:])

    return mutate


def try_round(path: Path) -> None:
    """Learn a share from a damaged start, and merge a damaged share; a round that fails changes nothing."""
    content = path.read_bytes()
    number, message = content[0] % len(MODELS), content[1:]
    start, learned = rounds()[number]
    try:
        for replica in range(REPLICAS):
            learn_share(message, replica, ROWS[:50])
    except ModelFileError:
        pass
    for begun, shares in ((message, learned), (start, [learned[0], message])):
        model = model_of(number)
        begin_round(model, REPLICAS)
        before = _saved(model)
        try:
            merge_round(model, begun, shares)
        except ModelFileError:
            assert _saved(model) == before, "a round that failed has changed the model"
            continue
        assert not np.isnan(model.score_samples(ROWS[:50])).any(), "a score is NaN"
        model.partial_fit(ROWS[:70])


def _saved(model: StreamingGaussianMixture) -> bytes:
    tensors = model.trainer_.tensors()
    return save({name: np.array(value, order="C") for name, value in tensors.items()})


ROUNDS = Format(
    "round",
    ".bin",
    round_examples,
    tuple(map(_inside, (flip_bytes, cut_bytes, change_layout, *4 * (change_header,), *5 * (change_tensor,)))),
    try_round,
)
