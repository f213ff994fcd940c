"""Workers on a Ray cluster: Ray starts, finds and watches them, and moves parameters."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

import streamgmm
from streamgmm import native
from streamgmm.core.rounds import RoundStart
from streamgmm.engines.ray_connection import connect, knock, unreachable
from streamgmm.engines.workers import ClusterEngine, Learner, Workers, nothing
from streamgmm.errors import ClusterError, SettingError

ATTEMPTS = 10  # to learn one share, before giving up
START_SECONDS = 120.0  # until a worker answers for the first time
STORE_SHARE = 0.8  # of the object store that a round may fill


@dataclass(frozen=True)
class RayEngine(ClusterEngine):
    """Learn on a Ray cluster: one actor per worker, each of which reads its share of the rows itself.

    Parameters
    ----------
    workers : int
        Number of workers, each with a replica; the result depends on it.
    address : str or None, default=None
        Address of a running cluster, as ``ray.init`` takes it; None starts one on this machine.
    round_samples : int or None, default=None
        Samples of each replica in a round; None to choose it so that merging takes less than a tenth of the time.
    timeout : float, default=600.0
        Seconds after which a worker that has not answered is replaced, once all others have.

    Examples
    --------
    >>> RayEngine(workers=4, round_samples=1000).workers
    4
    """

    name: ClassVar[str] = "ray"
    workers: int
    address: str | None = None
    round_samples: int | None = None
    timeout: float = 600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.timeout > 0:
            raise SettingError("timeout", self.timeout, "a number of seconds above 0")

    def require_reachable(self) -> None:
        """Raise ``ClusterError`` if nobody listens at the address, before anything is read or learned."""
        if self.address is not None:
            try:
                knock(self.address)
            except OSError as problem:
                raise unreachable(self.address, problem) from problem

    def open(self, make: Callable[[], Learner[Any, Any]], width: str | None = None) -> RayWorkers:
        return RayWorkers(self, make, width)

    def map(self, make: Callable[[], Callable[[int], Any]], items: Sequence[int]) -> Iterator[Any]:
        ray, started = connect(self.address, self.workers)
        try:
            import ray.data as ray_data

            logging.getLogger("ray.data").setLevel(logging.ERROR)
            context = ray_data.DataContext.get_current()
            context.enable_progress_bars = False
            context.op_resource_reservation_enabled = False  # half of the CPUs, for other operators: there are none
            work = ray.put(make)  # kept here, so that workers that are replaced find it, too
            rows: Any = ray_data.from_items([{"item": int(i)} for i in items], override_num_blocks=len(items))
            done = rows.map_batches(
                _map_items,
                fn_args=([work],),
                batch_size=1,
                num_cpus=1,
                compute=ray_data.TaskPoolStrategy(size=min(self.workers, len(items))),
            )
            for row in done.iter_rows():
                yield json.loads(row["result"])
        except ray.exceptions.RayTaskError as problem:
            raise problem.cause from problem
        finally:
            if started:
                ray.shutdown()


class _Share(NamedTuple):
    """A share that a worker learns at present."""

    worker: int
    attempt: int


class RayWorkers(Workers[Any, Any]):
    """Actors, one per worker. One that dies or hangs is replaced, and its share learned again from the round's start.

    Parameters
    ----------
    engine : RayEngine
        Number of workers and where they run.
    make : callable
        Makes a worker; it is called on the machine of the worker.
    width : str or None, default=None
        Vector width that all must use; None takes the widest that all have.

    Attributes
    ----------
    pids : dict of int to int
        Process of each worker, on its machine.
    """

    def __init__(self, engine: RayEngine, make: Callable[[], Learner[Any, Any]], width: str | None = None) -> None:
        self.count, self._engine = engine.workers, engine
        self._ray, self._started = connect(engine.address, engine.workers)
        self._make = self._ray.put(make)  # it may hold rows
        self._actor_class = self._ray.remote(_Actor)
        self._actors: list[Any] = []
        self._shared: tuple[Any, Any] | None = None  # by all tasks, and its place in the object store
        self._room = False  # in the object store, as far as is known
        self._last_problem: Exception | None = None
        self.pids: dict[int, int] = {}
        try:
            self._warn_of_few_cpus()
            self._actors = [self._new_actor() for _ in range(self.count)]
            told = [self._insist(r, "describe") for r in range(self.count)]
            require_version(told)
            self.width = common_width([t.widths for t in told], width)
            native.use_width(self.width)
            for r in range(self.count):
                self.pids[r] = self._insist(r, "prepare", self._make, self.width)
        except BaseException:
            self.close()
            raise

    def _new_actor(self) -> Any:
        return self._actor_class.options(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD").remote()

    def _warn_of_few_cpus(self) -> None:
        """Say what workers wait for, if the cluster is too small for now; an autoscaler may add machines."""
        cpus = self._ray.cluster_resources().get("CPU", 0)
        if cpus < self.count:
            warnings.warn(
                f"the cluster has {cpus:g} CPUs for {self.count} workers, each of which needs one; waiting up to "
                f"{START_SECONDS:g} seconds for more.",
                stacklevel=4,
            )

    def _insist(self, worker: int, method: str, *arguments: Any) -> Any:
        """Call a method of a new worker; if it dies meanwhile, that of another one in its place."""
        errors, last = self._ray.exceptions, None
        for _ in range(ATTEMPTS):
            try:
                answer = getattr(self._actors[worker], method).remote(*arguments)
                return self._ray.get(answer, timeout=START_SECONDS)
            except errors.GetTimeoutError as problem:
                every, free = self._ray.cluster_resources(), self._ray.available_resources()
                raise ClusterError(
                    f"worker {worker} of {self.count} did not start within {START_SECONDS:g} seconds: each needs a "
                    f"CPU, and of {every.get('CPU', 0):g} CPUs {free.get('CPU', 0):g} are free. Use fewer workers, or "
                    "add machines."
                ) from problem
            except errors.RayTaskError as problem:
                raise problem.cause from problem
            except errors.RayActorError as problem:
                self._actors[worker], last = self._new_actor(), problem
        raise _failing(worker, last) from last

    def learn(
        self, start: RoundStart, tasks: Sequence[Any], shared: Any = None, meanwhile: Callable[[], Any] = nothing
    ) -> list[Any]:
        self._require_room(start)
        try:
            if self._shared is None or self._shared[0] is not shared:
                self._shared = shared, self._ray.put(shared)
            place = self._ray.put(start)
        except self._ray.exceptions.ObjectStoreFullError as problem:
            raise _too_small(start, self.count) from problem
        found: list[Any] = [None] * len(tasks)
        pending = {self._submit(r, place, task): _Share(r, 1) for r, task in enumerate(tasks)}
        meanwhile()
        while pending:
            # each answer gives the others as much time again
            done, _ = self._ray.wait(list(pending), num_returns=1, timeout=self._engine.timeout)
            late = [] if done else list(pending)
            lost = [a for a in done if not self._receive(a, pending[a], found)] + late
            failed = [pending[answer] for answer in lost]
            for answer in (*done, *late):
                del pending[answer]
            for worker, attempt in failed:
                if attempt == ATTEMPTS:
                    raise _failing(worker, self._last_problem)
                self._replace(worker)
                pending[self._submit(worker, place, tasks[worker])] = _Share(worker, attempt + 1)
        return found

    def _submit(self, worker: int, place: Any, task: Any) -> Any:
        assert self._shared is not None
        return self._actors[worker].learn.remote(place, task, self._shared[1])

    def _receive(self, answer: Any, share: _Share, found: list[Any]) -> bool:
        """Take an outcome; return whether it arrived. What a worker itself complains about is raised here."""
        errors = self._ray.exceptions
        try:
            found[share.worker] = self._ray.get(answer)
        except errors.RayTaskError as problem:
            raise problem.cause from problem
        except (
            errors.RayActorError, errors.WorkerCrashedError, errors.ObjectLostError, errors.OutOfMemoryError
        ) as problem:  # fmt: skip
            self._last_problem = problem
            return False
        return True

    def _replace(self, worker: int) -> None:
        """End a worker, if it has not ended, and start another one in its place."""
        self.replaced += 1
        self._room = False
        with suppress(Exception):
            self._ray.kill(self._actors[worker])
        self._actors[worker] = self._new_actor()
        self.pids[worker] = self._insist(worker, "prepare", self._make, self.width)

    def _require_room(self, start: RoundStart) -> None:
        """Raise if the object store cannot hold all replicas; ask once, and again when a worker was lost."""
        if self._room:
            return
        size = sum(np.asarray(value).nbytes for value in start.tensors.values())
        room = self._ray.cluster_resources().get("object_store_memory", float("inf"))
        if size * (self.count + 1) > STORE_SHARE * room:
            raise _too_small(start, self.count)
        self._room = True

    def close(self) -> None:
        for actor in self._actors:
            with suppress(Exception):
                self._ray.kill(actor)
        self._actors = []
        if self._started:
            self._ray.shutdown()


class Description(NamedTuple):
    """What a worker says about itself."""

    version: str
    widths: list[str]
    host: str


class _Actor:
    """What runs on the machine of a worker."""

    def __init__(self) -> None:
        self._worker: Any = None

    def describe(self) -> Description:
        """Return version and vector widths."""
        from socket import gethostname

        import streamgmm
        from streamgmm import native

        return Description(streamgmm.__version__, list(native.widths()), gethostname())

    def prepare(self, make: Any, width: str) -> int:
        """Make the worker, and return the id of its process."""
        from streamgmm import native

        native.use_width(width)
        self._worker = make()
        return os.getpid()

    def learn(self, start: RoundStart, task: Any, shared: Any) -> Any:
        """Learn a share."""
        return self._worker.learn(start, task, shared)


def _map_items(batch: dict[str, Any], place: list[Any]) -> dict[str, Any]:
    """Call a function on the machine of a worker; results are plain data."""
    work = _made(place[0])
    return {"result": [json.dumps(work(int(item))) for item in batch["item"]]}


@lru_cache(maxsize=1)
def _made(place: Any) -> Callable[[int], Any]:
    """Make the function once in every process."""
    import ray

    work: Callable[[int], Any] = ray.get(place)()
    return work


def common_width(machines: list[list[str]], wanted: str | None) -> str:
    """Return the widest vector width that all machines have; raise ``ClusterError`` if that is not the wanted one.

    Parameters
    ----------
    machines : list of list of str
        Widths of each machine, the widest last.
    wanted : str or None
        Width of the run so far.

    Examples
    --------
    >>> common_width([["x86-64"], native.widths()], None)
    'x86-64'
    """
    common = [w for w in native.widths() if all(w in widths for widths in machines)]
    if wanted is not None and wanted not in common:
        raise ClusterError(
            f"the run uses the vector width {wanted}, which not all machines have; they share {', '.join(common)}. "
            "Resume it on machines that have it."
        )
    return wanted or common[-1]


def require_version(told: list[Description]) -> None:
    """Raise ``ClusterError`` if a worker has another version of the package.

    Parameters
    ----------
    told : list of Description
        What workers say about themselves.
    """
    other = next((t for t in told if t.version != streamgmm.__version__), None)
    if other is not None:
        raise ClusterError(
            f"the worker on {other.host} has streamgmm {other.version}; this is {streamgmm.__version__}. Install the "
            "same version everywhere."
        )


def _failing(worker: int, problem: Exception | None) -> ClusterError:
    told = " ".join(str(problem or "it did not answer").split())
    return ClusterError(
        f"worker {worker} has failed {ATTEMPTS} times in a row. Check that RAY_AUTH_MODE and RAY_AUTH_TOKEN are those "
        "of the cluster; if memory is short, use fewer workers on each machine. Ray's logs on the machines tell more; "
        f"here it says: {told:.300}"
    )


def _too_small(start: RoundStart, workers: int) -> ClusterError:
    size = sum(np.asarray(value).nbytes for value in start.tensors.values())
    return ClusterError(
        f"memory is short: {workers} replicas of {size >> 20} MB each do not fit into the object store of the "
        "cluster. Use fewer workers, or start Ray with a larger object store."
    )
