"""Model files of streamgmm 0.1 (format 2), converted to the present format when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.engines.threads import MOST_REPLICAS
from streamgmm.storage.schema import anything, number, optional, record, text

Tensors = dict[str, npt.NDArray[Any]]
FORMAT = 2
OF_ESTIMATOR = ("n_epochs", "shuffle", "n_jobs", "random_state", "verbose")
STATE_NAMES = {
    "lately": "since_restart",
    "wanted": "recruits_left",
    "learning_rate": "rate",
    "variances": "moments.variances",
    "means": "means.means",
}
MONITOR_NAMES = {
    "scores": "scores",
    "scores_before": "scores_before",
    "odd_rows": "rows",
    "odd_scores": "row_scores",
    "odd_numbers": "row_numbers",
    "odd_times": "row_times",
}
RUN_NAMES = {"looked": "scored", "told": "last_check_event", "told_checkpoint": "last_checkpoint_event"}


OBJECT = record({}, unknown=anything)
HEADER = record(
    {
        "facts": record({"params": OBJECT, "feature_names": anything}, {"also": optional(OBJECT)}, unknown=anything),
        "n_features": number(1, whole=True),
        "rule": record({"name": text}, {"replicas": number(1, MOST_REPLICAS, whole=True)}, unknown=anything),
        **dict.fromkeys(("schedule", "annealing", "watch", "rng"), OBJECT),
        "skipped": anything,
    },
    unknown=anything,
)
"""What is converted; the result is checked as a file of the present format."""


def upgraded(header: Mapping[str, Any], tensors: Tensors) -> tuple[dict[str, Any], Tensors]:
    """Return header and tensors in the present format; raise KeyError, TypeError or ValueError if damaged."""
    HEADER(header, "the header")
    facts, width = header["facts"], int(header["n_features"])
    also, params, rule = dict(facts.get("also") or {}), dict(facts["params"]), header["rule"]
    replicas = int(rule["replicas"]) if rule["name"] == "replicated" else 1
    name = (rule["rule"] if replicas > 1 else rule)["name"]
    if replicas > 1 and name == "sgd":
        params["rule"] = {**_rates(params), "name": name, "scaled_steps": False}
    scale = also.get("scale", "none")
    estimator = {key: params.pop(key) for key in OF_ESTIMATOR if key in params}
    new = {
        "format": FORMAT + 1,
        "trainer": {
            "n_features": width,
            "dtype": str(tensors["means"].dtype),
            "settings": {key: value for key, value in params.items() if not key.endswith("_init") or _kept(key)},
            "schedule": header["schedule"],
            "annealing": header["annealing"],
            "drift": header["watch"],
            "rng": header["rng"],
            "n_skipped": header["skipped"],
        },
        "engine": {"name": "serial"} if replicas == 1 else {"name": "threads", "count": replicas},
        "rule": {"name": name, "module": "streamgmm.core.rules"},
        "covariance": {"name": "diag", "module": "streamgmm.core.covariance"},
        "feature_names": facts["feature_names"],
        "estimator": estimator,
        "scaling": None if scale == "none" else scale,
        "detector": also.get("detector"),
        "run": _run(also),
    }
    return new, _tensors(tensors, width, replicas)


def _rates(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: params[name] for name in ("learning_rate_init", "learning_rate_min") if name in params}


def _kept(name: str) -> bool:
    """Whether a parameter is a plain setting though its name ends like that of an initial array."""
    return name in ("learning_rate_init", "sigma_init")


def _run(also: Mapping[str, Any]) -> dict[str, Any] | None:
    if "run" not in also:
        return None
    progress = {RUN_NAMES.get(name, name): value for name, value in also["run"].items()}
    return {
        "source": also["source"],
        "missing": also.get("missing", "error"),
        "fingerprint": also.get("beginning"),
        "progress": progress,
    }


def _tensors(old: Tensors, width: int, replicas: int) -> Tensors:
    rule = {n.removeprefix("rule."): v for n, v in old.items() if n.startswith("rule.")}
    main = {f"{n}.": old[n] for n in ("means", "scales", "logits")}
    new = _replica({**main, **{n: v for n, v in rule.items() if n.count(".") == 0}}, width)
    if replicas > 1 and int(rule["turn"]) > 0:
        new |= {f"engine.{n}": rule[n] for n in ("turn", "learned")}
        for place in ("start", *(f"replica{r}" for r in range(replicas))):
            own = {n.removeprefix(f"{place}."): v for n, v in rule.items() if n.startswith(f"{place}.")}
            new |= {f"engine.{place}.{n}": v for n, v in _replica(own, width).items()}
    new |= {"pending.rows": old["pending"], "pending.shares": old["pending_shares"]}
    new |= {"wins": old["wins"], "usage": old["usage"]}
    for name, value in old.items():
        if name.startswith("extra.also."):
            new |= _beside(name.removeprefix("extra.also."), value)
        elif name.startswith("extra."):
            new[f"settings.{name.removeprefix('extra.')}"] = value
    if "monitor.scores" in new:
        new.setdefault("monitor.row_times", new["monitor.row_numbers"])
    return new


def _replica(old: Mapping[str, npt.NDArray[Any]], width: int) -> Tensors:
    """Parameters have names that end in a dot; everything else is what the rule remembers."""
    new: Tensors = {"typical_loss": np.pad(old["usual"], (0, 2))}
    for name, value in old.items():
        if name in ("usual", "turn", "learned", "log_dets."):
            continue
        wide = value.ndim == 2 and not name.startswith("buffer")
        trimmed = np.ascontiguousarray(value[:, :width]) if wide else value
        if name.endswith("."):
            new[f"parameters.{name[:-1]}"] = trimmed
        elif name != "means" or value.size:  # after accumulation the means were an empty array
            new[f"rule.{STATE_NAMES.get(name, name)}"] = trimmed
    return new


def _beside(name: str, value: npt.NDArray[Any]) -> Tensors:
    if name in MONITOR_NAMES:
        return {f"monitor.{MONITOR_NAMES[name]}": value}
    return {f"scaling.{name}": value} if name in ("shift", "factor") else {}
