"""Workers: objects that learn shares of rounds, on this machine or on others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from streamgmm import native
from streamgmm.core.rounds import RoundStart
from streamgmm.engines.threads import run_all
from streamgmm.errors import ClusterError, SettingError

T = TypeVar("T", contravariant=True)
O = TypeVar("O", covariant=True)  # noqa: E741


def nothing() -> None:
    """Do nothing."""


class Learner(Protocol[T, O]):
    """What a worker must be able to do."""

    def learn(self, start: RoundStart, task: T, shared: Any) -> O:
        """Learn a share of a round: the outcome depends on the arguments alone."""


class Workers(ABC, Generic[T, O]):
    """Several workers. A share that fails with its worker is learned again by another one.

    Attributes
    ----------
    count : int
        Number of workers.
    width : str
        Vector width that all of them use; the last bits of the result depend on it.
    replaced : int
        Workers that had to be replaced.
    """

    count: int
    width: str
    replaced: int = 0

    @abstractmethod
    def learn(
        self, start: RoundStart, tasks: Sequence[T], shared: Any = None, meanwhile: Callable[[], Any] = nothing
    ) -> list[O]:
        """Learn the shares of a round, one per worker, and return what each has learned.

        Parameters
        ----------
        start : RoundStart
            Where the round starts.
        tasks : sequence
            The shares; worker r learns the one of number r.
        shared : object, optional
            What all tasks need; the same object in many rounds is sent once.
        meanwhile : callable, default=nothing
            Called here while workers learn.
        """

    def close(self) -> None:
        """End all workers."""
        return


class ClusterEngine(ABC):
    """Settings of an engine whose workers read their rows themselves.

    Attributes
    ----------
    workers : int
        Number of workers.
    round_samples : int or None
        Samples of each replica in a round; None to choose it.
    """

    name: ClassVar[str]
    workers: int
    round_samples: int | None

    def __post_init__(self) -> None:
        for setting, value in (("workers", self.workers), ("round_samples", self.round_samples)):
            if value is not None and value < 1:
                raise SettingError(setting, value, "a number of at least 1")

    @abstractmethod
    def open(self, make: Callable[[], Learner[Any, Any]], width: str | None = None) -> Workers[Any, Any]:
        """Start the workers.

        Parameters
        ----------
        make : callable
            Makes a worker.
        width : str or None, default=None
            Vector width that all must use; None takes the widest that all have.
        """

    @abstractmethod
    def map(self, make: Callable[[], Callable[[int], Any]], items: Sequence[int]) -> Iterator[Any]:
        """Yield what a function makes of each item, in any order; items of a worker that fails are tried again.

        Parameters
        ----------
        make : callable
            Makes the function, once for every worker.
        items : sequence of int
            What to call it with.
        """


@dataclass(frozen=True)
class LocalCluster(ClusterEngine):
    """The workers of a cluster in this process: to simulate one, and to test.

    Parameters
    ----------
    workers : int
        Number of workers.
    round_samples : int or None, default=None
        Samples of each replica in a round; None to choose it.
    threads : bool, default=False
        Whether workers run at the same time; the result is the same.
    """

    name: ClassVar[str] = "local"
    workers: int
    round_samples: int | None = None
    threads: bool = False

    def open(self, make: Callable[[], Learner[Any, Any]], width: str | None = None) -> LocalWorkers:
        if width is not None:
            if width not in native.widths():
                raise ClusterError(
                    f"the run used vectors of {width!r:.60}, which this machine does not have; expected one of "
                    f"{', '.join(native.widths())}."
                )
            native.use_width(width)
        return LocalWorkers(self.workers, make, threads=self.threads)

    def map(self, make: Callable[[], Callable[[int], Any]], items: Sequence[int]) -> Iterator[Any]:
        return map(make(), items)


class LocalWorkers(Workers[Any, Any]):
    """Workers of this process, which take turns or run on threads of their own.

    Parameters
    ----------
    count : int
        Number of workers.
    make : callable
        Makes a worker.
    threads : bool, default=False
        Whether they run at the same time.
    """

    def __init__(self, count: int, make: Callable[[], Learner[Any, Any]], *, threads: bool = False) -> None:
        self.count, self._threads, self.width = count, threads, native.width()
        self._workers = [make() for _ in range(count)]

    def learn(
        self, start: RoundStart, tasks: Sequence[Any], shared: Any = None, meanwhile: Callable[[], Any] = nothing
    ) -> list[Any]:
        meanwhile()
        pairs = list(zip(self._workers, tasks, strict=False))
        if not self._threads:
            return [worker.learn(start, task, shared) for worker, task in pairs]
        return run_all(self.count, lambda pair: pair[0].learn(start, pair[1], shared), pairs)
