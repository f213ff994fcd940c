"""Joining a Ray cluster, or starting one, and saying why that fails."""

from __future__ import annotations

import os
import secrets
import socket
import warnings
from typing import Any

from streamgmm.errors import ClusterError, MissingExtraError

CONNECT_SECONDS = 10.0


def connect(address: str | None, workers: int) -> tuple[Any, bool]:
    """Connect to a cluster, or start one on this machine; return Ray, and whether the cluster is ours to end.

    Parameters
    ----------
    address : str or None
        Address of a cluster; None for one of our own.
    workers : int
        CPUs that a cluster of our own needs.
    """
    if address is None:  # the mode is read when Ray is loaded
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        if os.environ["RAY_AUTH_MODE"] == "token" and "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's own choice, 15, gives way to anything that runs here
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as problem:
        raise MissingExtraError("a cluster requires Ray", "ray") from problem
    if ray.is_initialized():
        return ray, False
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "error", "configure_logging": False}
    if address is None:
        # "local": otherwise Ray would join a cluster that happens to run here, or that RAY_ADDRESS names
        ray.init("local", num_cpus=max(workers, os.cpu_count() or 1), include_dashboard=False, **settings)
        return ray, True
    try:
        knock(address)
        ray.init(address=address, **settings)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as problem:
        raise unreachable(address, problem) from problem
    if os.environ.get("RAY_AUTH_MODE") != "token":
        warnings.warn(
            f"the cluster at {address} accepts anyone who can reach it, and runs what they send. Start it with "
            "RAY_AUTH_MODE=token.",
            stacklevel=3,
        )
    return ray, True


def knock(address: str) -> None:
    """Raise OSError if nobody listens at an address: Ray itself would try for minutes.

    Parameters
    ----------
    address : str
        Address of a cluster.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()) and address not in ("auto", "local"):
        raise OSError("expected HOST:PORT, for example 10.0.0.5:6379")
    if host:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()


def unreachable(address: str, problem: Exception) -> ClusterError:
    """Return what to tell somebody whose cluster does not answer.

    Parameters
    ----------
    address : str
        Address of the cluster.
    problem : Exception
        What happened.
    """
    reason = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
    return ClusterError(
        f"no Ray cluster answers at {address} ({reason:.200}). Check the address, and that RAY_AUTH_MODE and "
        "RAY_AUTH_TOKEN are those of the cluster."
    )
