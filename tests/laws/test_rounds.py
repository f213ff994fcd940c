"""Rounds that are learned elsewhere: the result is that of replicas on threads, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamgmm import ModelFileError, StreamingGaussianMixture, begin_round, learn_share, merge_round
from streamgmm.core.rounds import LearnedShare, RoundStart
from streamgmm.core.trainer import Trainer
from streamgmm.engines import shares
from streamgmm.engines.threads import LONG_ROUND
from streamgmm.storage.rounds import share_from_bytes, share_to_bytes, start_from_bytes, start_to_bytes
from tests.conftest import assert_same_training, make_trainer, scales

Learn = Callable[[RoundStart, int, np.ndarray], LearnedShare]


def clusters(n: int, features: int = 5) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(0, 0.3, (n, features)) + rng.integers(0, 3, (n, 1))).astype(np.float32)


def through_bytes(start: RoundStart, replica: int, x: np.ndarray) -> LearnedShare:
    """Learn a share as another machine would."""
    learned = shares.learn_share(start_from_bytes(start_to_bytes(start)), replica, x)
    return share_from_bytes(share_to_bytes(learned))


def in_rounds(trainer: Trainer, x: np.ndarray, replicas: int, learn: Learn = shares.learn_share) -> int:
    """Learn rows in rounds as `Threads` cuts them, step t in replica t mod R; return how many rows were learned."""
    size, done = trainer.batch_size, 0
    while trainer.warming_up:
        trainer.feed(x[done : done + 200])
        done += 200
    if rest := trainer.n_samples % trainer.schedule.period:  # threads end the first round here, too
        trainer.feed(x[done : done + trainer.schedule.period - rest])
        done += trainer.schedule.period - rest
    while done + (rows := trainer.samples_in_round(LONG_ROUND * replicas)) <= len(x):
        start = trainer.begin_round(replicas)
        steps = x[done : done + rows].reshape(-1, size, x.shape[1])
        learned = [learn(start, r, steps[r::replicas].reshape(-1, x.shape[1])) for r in range(replicas)]
        trainer.merge_round(start, learned[::-1])
        done += rows
    return done


@scales
@pytest.mark.parametrize("rule", ["natural", "sgd", "sem"])
@pytest.mark.parametrize(("replicas", "batch_size"), [(2, 1), (3, 4), (8, 1)])
def test_rounds_are_what_threads_do(rule: str, replicas: int, batch_size: int, scale: str) -> None:
    x = clusters(30_000)
    settings: dict[str, Any] = {"n_components": 9, "rule": rule, "batch_size": batch_size, "scale": scale}
    here, there = (make_trainer(5, np.float32, threads=replicas, **settings) for _ in range(2))
    done = in_rounds(here, x, replicas, through_bytes)
    there.feed(x[:done])
    there.begin_round(1)  # ends the round of the threads
    assert done > 15_000
    assert_same_training(here, there)


def test_samples_with_gaps_are_skipped_and_counted() -> None:
    x = clusters(4000)
    x[::7, 0] = np.nan
    x[::11] = np.nan
    here = make_trainer(5, np.float32, n_components=4, scale="none", allow_nan=True)
    start = here.begin_round(2)
    here.merge_round(start, [shares.learn_share(start, r, x[r::2]) for r in range(2)])
    empty = len(x[::11])
    assert (here.n_samples, here.n_skipped) == (4000 - empty, empty)


def test_a_replica_without_rows_changes_nothing() -> None:
    x = clusters(3000)
    alone, beside = (make_trainer(5, np.float32, n_components=4, scale="none") for _ in range(2))
    start = alone.begin_round(1)
    alone.merge_round(start, [shares.learn_share(start, 0, x)])
    start = beside.begin_round(2)
    beside.merge_round(start, [shares.learn_share(start, 0, x), shares.learn_share(start, 1, x[:0])])
    assert beside.n_samples == alone.n_samples == 3000
    np.testing.assert_allclose(beside.mixture.means, alone.mixture.means, rtol=1e-5, atol=1e-5)


class TestPublicFunctions:
    x = clusters(6000)

    def begun(self) -> StreamingGaussianMixture:
        return StreamingGaussianMixture(9, random_state=0).partial_fit(self.x[:2000])

    def test_a_round_improves_the_model(self) -> None:
        model = self.begun()
        before = model.score(self.x)
        start = begin_round(model, replicas=2)
        merge_round(model, start, [learn_share(start, r, self.x[2000 + r :: 2]) for r in (1, 0)])
        assert model.n_samples_seen_ == 6000
        assert model.score(self.x) > before

    def test_all_shares_are_needed_once(self) -> None:
        model = self.begun()
        start = begin_round(model, replicas=2)
        first = learn_share(start, 0, self.x[2000:])
        for learned in ([first], [first, first]):
            with pytest.raises(ValueError, match="each from 0 to 1 once"):
                merge_round(model, start, learned)

    def test_shares_of_another_round_are_refused(self) -> None:
        model = self.begun()
        start = begin_round(model, replicas=1)
        learned = [learn_share(start, 0, self.x[2000:3000])]
        merge_round(model, start, learned)
        with pytest.raises(ValueError, match="merge each round before the next one"):
            merge_round(model, start, learned)
        with pytest.raises(ValueError, match="belongs to another round"):
            merge_round(model, begin_round(model, replicas=1), learned)

    def test_a_number_that_is_no_replica(self) -> None:
        start = begin_round(self.begun(), replicas=2)
        with pytest.raises(ValueError, match="replica is 2; expected a number from 0 to 1"):
            learn_share(start, 2, self.x)
        with pytest.raises(ValueError, match="replicas is 0; expected at least 1"):
            begin_round(self.begun(), replicas=0)

    @pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"x" + b, lambda b: b"", lambda b: b[:40]])
    def test_damaged_bytes(self, damage: Callable[[bytes], bytes]) -> None:
        with pytest.raises(ModelFileError, match="damaged, or no part of a round"):
            learn_share(damage(begin_round(self.begun(), replicas=2)), 0, self.x)

    def test_bytes_of_another_kind(self) -> None:
        model = self.begun()
        start = begin_round(model, replicas=1)
        with pytest.raises(ModelFileError, match="the start of a round; expected a learned share"):
            merge_round(model, start, [start])

    def test_a_replica_that_cannot_be(self) -> None:
        trainer = self.begun().trainer_
        start = trainer.begin_round(1)
        for name, value, complaint in (("means", np.nan, "not finite"), ("logits", None, "lacks the tensor")):
            learned = shares.learn_share(start, 0, self.x[2000:2100])
            if value is None:
                del learned.tensors[f"replica.parameters.{name}"]
            else:
                learned.tensors[f"replica.parameters.{name}"][0, 0] = value
            with pytest.raises(ValueError, match=complaint):
                trainer.merge_round(start, [learned])
        assert trainer.n_samples == 2000

    def test_a_model_that_knows_no_scale_yet(self) -> None:
        model = StreamingGaussianMixture(9, random_state=0).partial_fit(self.x[:1])
        assert begin_round(model, replicas=2)  # one row is enough to begin, if all is known that there is


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_shares_are_validated_like_rows(value: float) -> None:
    x = clusters(3000).astype(np.float64)
    model = StreamingGaussianMixture(8, random_state=0).partial_fit(x[:2000])
    start, rows = begin_round(model, 1), x[2000:].copy()
    rows[123, 2] = value
    with pytest.raises(ValueError, match="row 123 of X"):
        learn_share(start, 0, rows)


def test_a_merged_round_ends_a_refinement() -> None:
    x = clusters(3000)
    model = StreamingGaussianMixture(8, random_state=0).fit(x[:2000])
    assert model.trainer_.refined
    start = begin_round(model, 1)
    merge_round(model, start, [learn_share(start, 0, x[2000:])])
    assert not model.trainer_.refined
