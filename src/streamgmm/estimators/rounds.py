"""Rounds for those who bring their own cluster: begin one, learn its shares anywhere, and merge them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamgmm.core.trainer import Trainer
from streamgmm.engines import shares
from streamgmm.errors import ModelFileError
from streamgmm.estimators.locks import lock_of
from streamgmm.estimators.validation import refuse_unfit
from streamgmm.storage.container import DAMAGE
from streamgmm.storage.rounds import share_from_bytes, share_to_bytes, start_from_bytes, start_to_bytes


class Fitted(Protocol):
    """An estimator that has learned its first rows."""

    @property
    def trainer_(self) -> Trainer:
        """The trainer underneath."""


def begin_round(model: Fitted, replicas: int) -> bytes:
    """Begin a round that replicas learn elsewhere, and return what each of them needs to know.

    Between the first rows and ``merge_round`` the model must not learn anything else. Replicas may be processes,
    machines, or tasks of Spark or Flink: the result depends on the rows of each share alone.

    Parameters
    ----------
    model : StreamingGaussianMixture
        A model that has learned its first rows with ``partial_fit``: 1600 are enough.
    replicas : int
        Number of replicas.

    Returns
    -------
    start : bytes
        Where the round starts, for `learn_share` and `merge_round`; a safetensors file.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgmm import StreamingGaussianMixture, begin_round, learn_share, merge_round
    >>> x = np.random.default_rng(0).normal(0, 1, (6000, 3))
    >>> model = StreamingGaussianMixture(8, random_state=0).partial_fit(x[:2000])
    >>> start = begin_round(model, replicas=2)
    >>> learned = [learn_share(start, 0, x[2000:4000]), learn_share(start, 1, x[4000:])]
    >>> merge_round(model, start, learned)
    >>> model.n_samples_seen_
    6000
    """
    with lock_of(model):
        return start_to_bytes(model.trainer_.begin_round(replicas))


def learn_share(start: bytes, replica: int, X: npt.ArrayLike) -> bytes:
    """Learn one share of a round.

    Parameters
    ----------
    start : bytes
        What `begin_round` has returned.
    replica : int
        Number of the replica, from 0.
    X : array-like of shape (N, D)
        The rows of its share. Each replica learns other rows; some may have none.

    Returns
    -------
    learned : bytes
        What the replica has learned, for `merge_round`; a safetensors file.
    """
    begun = start_from_bytes(start)
    if not 0 <= replica < begun.replicas:
        raise ValueError(f"replica is {replica}; expected a number from 0 to {begun.replicas - 1}.")
    try:
        learner = shares.ShareLearner(begun, replica)
    except DAMAGE as problem:
        raise ModelFileError(f"the start of the round is damaged: {problem!s:.200}.") from problem
    rows, facts = np.asarray(X), begun.facts
    refuse_unfit(rows, np.dtype(facts["dtype"]), gaps=bool(facts["settings"]["allow_nan"]), table=X)
    learner.feed(rows)
    return share_to_bytes(learner.finish())


def merge_round(model: Fitted, start: bytes, learned: Iterable[bytes]) -> None:
    """End a round: the model becomes what all replicas have learned together.

    Parameters
    ----------
    model : StreamingGaussianMixture
        The model that began the round.
    start : bytes
        What `begin_round` has returned.
    learned : iterable of bytes
        What `learn_share` has returned, for each replica once, in any order.
    """
    begun, parts = start_from_bytes(start), [share_from_bytes(s) for s in learned]
    try:
        with lock_of(model):
            model.trainer_.merge_round(begun, parts)
    except DAMAGE as problem:
        raise ModelFileError(f"the round cannot be merged: {problem!s:.300}") from problem
