"""What a model file of format 3 holds, declared once: everything is checked before anything is built from it.

Types come from the dataclasses that the header describes; ranges and relations that types do not tell are here. Shapes
and float types of the tensors of parameters and states follow from the covariance kind and the rule, which check them
when they are restored; here is what bounds their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, ulp
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.annealing import FARTHEST, Annealing, Schedule
from streamgmm.core.covariance import KINDS
from streamgmm.core.drift import DriftState
from streamgmm.core.rows import LIMITS
from streamgmm.core.rules import RULES
from streamgmm.core.scaling import SCALINGS
from streamgmm.core.settings import LONGEST_PERIOD, MOST_SAMPLES, Settings
from streamgmm.engines import ENGINES
from streamgmm.monitoring import Burst, DiscoveryState
from streamgmm.monitoring.bursts import is_plain_id
from streamgmm.monitoring.false_discovery import SPANS
from streamgmm.storage.run_record import Progress, RunRecord
from streamgmm.storage.schema import (
    COUNT,
    Check,
    anything,
    choice,
    either,
    every,
    fields_of,
    flag,
    list_of,
    number,
    optional,
    record,
    refuse,
    text,
    unicode_text,
)

Header = Mapping[str, Any]
Tensors = Mapping[str, npt.NDArray[Any]]

MOST_JOBS = 1024
ROWS = ("pending.rows", "first.rows", "monitor.rows", "monitor.reservoir.rows")  # they may have gaps
MOST_HASHED = 1 << 20  # bytes of a file
CONSTANTS = "monitor.snapshot.constants"  # NaN where a feature varies, inf where no value is known
USUAL = 3  # row of a frame that is NaN where no value is usual

POSITIVE = number(least=1e-100)
LOSS = optional(number(-FARTHEST, FARTHEST))
SQUARE = number(0, FARTHEST**2)
WORD128 = number(0, (1 << 128) - 1, whole=True)
SEED = number(0, inf, whole=True)

NAMED = record({"name": text}, {"module": optional(text)}, unknown=anything)
RNG = record(
    {
        "bit_generator": choice("PCG64"),
        "state": record({"state": WORD128, "inc": WORD128}),
        "has_uint32": choice(0, 1),
        "uinteger": number(0, (1 << 32) - 1, whole=True),
    }
)


def _row_id(value: Any, place: str) -> None:
    if not is_plain_id(value):
        refuse(value, place, "a text, a number or null")


SUMS = list_of(number(0, 1e15), length=len(SPANS))
DISCOVERIES = fields_of(DiscoveryState, {"row": COUNT, "last": COUNT, "sums": SUMS}, required=True)


def _discoveries(value: Any, place: str) -> None:
    DISCOVERIES(value, place)
    number(0, value["row"], whole=True)(value["last"], f"{place}.last")


BURST = {"rows": COUNT, "quiet": COUNT, "first_id": _row_id, "last_id": _row_id, "min_p_value": optional(number(0, 1))}
WATCH = record(
    {
        "burst": optional(fields_of(Burst, BURST)),
        "discoveries": _discoveries,
        **dict.fromkeys(("judged", "flagged", "window_judged", "window_flagged", "alerts"), COUNT),
    }
)


def _fingerprint(value: Any, place: str) -> None:
    list_of(anything, length=2)(value, place)
    number(0, MOST_HASHED, whole=True)(value[0], f"{place}[0]")
    text(value[1], f"{place}[1]")


COUNTS = {name: COUNT for name, value in vars(Progress()).items() if type(value) is int}
PROGRESS = {**COUNTS, "seconds": number(0), "position": optional(record({"row": COUNT}, unknown=anything))}
MOST_WORKERS = 1 << 20
CLUSTER = record(
    {
        "workers": number(1, MOST_WORKERS, whole=True),
        "round": record({"samples": optional(number(1, whole=True)), "chosen": flag}),
        "width": optional(text),
    }
)
RUN = every(
    record({"progress": anything}, unknown=anything),
    fields_of(
        RunRecord,
        {
            "missing": choice("error", "skip", "learn"),
            "fingerprint": optional(_fingerprint),
            "passes": either(choice(None, "auto"), number(1, whole=True)),
            "shuffle_seed": optional(SEED),
            "watch": optional(WATCH),
            "cluster": optional(CLUSTER),
            "progress": fields_of(Progress, PROGRESS),
        },
    ),
)


def check_heading(header: Any) -> None:
    """Raise ValueError unless a header names a rule, a covariance kind and an engine."""
    heading = {"rule": NAMED, "covariance": NAMED, "engine": NAMED, "trainer": record({}, unknown=anything)}
    record(heading, unknown=anything)(header, "the header")


def check_model(header: Header, tensors: Tensors) -> None:
    """Raise ValueError for a header or tensors that no training has written.

    Parameters
    ----------
    header : mapping
        The header of a model. Settings of a rule or an engine that is not registered are not checked.
    tensors : mapping of str to array
        All tensors.
    """
    check_heading(header)
    for name, check in _parts(header).items():
        if name in header:
            check(header[name], name)
    settings = header["trainer"]["settings"]
    rule = settings["rule"]
    for what, found in (
        ("rule", rule["name"] if isinstance(rule, dict) else rule),
        ("covariance", settings["covariance_type"]),
    ):
        if header[what]["name"] != found:
            raise ValueError(f"{what}.name is {header[what]['name']!r}, but the settings say {found!r}")
    check_size(header["trainer"], tensors)
    names, width = header.get("feature_names"), header["trainer"]["n_features"]
    if names is not None and len(names) != width:
        raise ValueError(f"{len(names)} feature names for {width} features")
    require_finite(tensors, gaps=settings.get("allow_nan") is True)


def _parts(header: Header) -> dict[str, Check]:
    jobs = optional(number(-MOST_JOBS, MOST_JOBS, whole=True))
    return {
        "trainer": _trainer(header["trainer"]),
        "engine": _settings_of(ENGINES.get(header["engine"]["name"])),
        "feature_names": optional(list_of(unicode_text)),
        "estimator": record(
            {},
            {
                "n_epochs": either(choice("auto"), number(1, whole=True)),
                "shuffle": flag,
                "n_jobs": jobs,
                "random_state": optional(SEED),
                "verbose": either(flag, COUNT),
            },
        ),
        "scaling": optional(choice(*SCALINGS)),
        "detector": optional(
            record({"contamination": number(ulp(0.0), 0.5)}, {"offset": optional(number()), "rest": number()})
        ),
        "run": optional(RUN),
    }


def _trainer(facts: Mapping[str, Any]) -> Check:
    schedule: dict[str, Check] = {
        "sigma_init": POSITIVE,
        "sigma_min": POSITIVE,
        "tol": optional(number(ulp(0.0), inf)),
        "period": number(1, LONGEST_PERIOD, whole=True),
        "shrink": number(1e-6, 1),
        "baseline": choice("mean", "first"),
        "drop_below": number(0),
    }
    losses = dict.fromkeys(("loss", "max_component", "baseline", "last"), LOSS)
    annealing = {"sigma": POSITIVE, "samples": COUNT, "variance": SQUARE, **losses}
    drift = {
        **dict.fromkeys(("checks", "low", "steps"), COUNT),
        "loss": number(-FARTHEST, FARTHEST),
        "floor": optional(number(-100 * FARTHEST, FARTHEST)),
        **dict.fromkeys(("variance", "scatter"), SQUARE),
        "total": number(0, FARTHEST**1.5),
        "squares": number(0, FARTHEST**2.5),
    }
    return record(
        {
            "n_features": number(1, whole=True),
            "dtype": choice("float32", "float64"),
            "settings": settings_check(facts.get("settings")),
            "schedule": fields_of(Schedule, schedule),
            "annealing": fields_of(Annealing, annealing),
            "drift": fields_of(DriftState, drift),
            "rng": RNG,
            "n_skipped": COUNT,
        },
        unknown=anything,
    )


def settings_check(facts: Any) -> Check:
    """Return the check of the settings of a training, which depends on the rule that they name."""
    rule = facts.get("rule") if isinstance(facts, dict) else None
    own: dict[str, Check] = {"rule": text}
    if isinstance(rule, dict):
        own["rule"] = _settings_of(RULES.get(str(rule.get("name"))))
    own |= {name: number(1, MOST_SAMPLES, whole=True) for name in ("n_components", "batch_size", "rank")}
    own |= {"half_life": optional(number(1, inf)), "tol": optional(number(ulp(0.0), inf))}
    present = record({"n_components": anything, "rule": anything, "covariance_type": text}, unknown=anything)
    return every(present, fields_of(Settings, own))


def _settings_of(kind: type | None) -> Check:
    """Check the settings of a rule or an engine, beside its name; anything will do where it is not registered."""
    typed = anything if kind is None else fields_of(kind)

    def check(value: Any, place: str) -> None:
        record({"name": text}, {"module": optional(text)}, unknown=anything)(value, place)
        typed({name: inner for name, inner in value.items() if name not in ("name", "module")}, place)

    return check


def check_size(trainer: Mapping[str, Any], tensors: Tensors) -> None:
    """Raise unless parameters are there as announced: the memory that a training takes is a multiple of theirs."""
    settings, dtype = trainer["settings"], trainer["dtype"]
    kind = KINDS[settings["covariance_type"]].with_rank(settings.get("rank", Settings.rank))
    for name, form in kind.layout(trainer["n_features"]).items():
        found, shape = tensors.get(f"parameters.{name}"), (settings["n_components"], *form.shape)
        if found is None:
            raise ValueError(f"tensor 'parameters.{name}' is missing")
        if found.shape != shape or found.dtype.name != dtype:
            raise ValueError(f"tensor 'parameters.{name}' is {found.dtype} {found.shape}; expected {dtype} {shape}")


def require_finite(tensors: Tensors, gaps: bool) -> None:
    """Raise ValueError for values that are not finite, or rows that could not be learned."""
    for name, tensor in tensors.items():
        if tensor.dtype.kind != "f":
            continue
        fit = np.isfinite(tensor)
        if (gaps and name in ROWS) or name == CONSTANTS:
            fit |= np.isnan(tensor) | ((tensor == np.inf) & (name == CONSTANTS))
        elif name.rpartition(".")[2] == "frame" and tensor.ndim == 2 and len(tensor) > USUAL:
            fit[USUAL] |= np.isnan(tensor[USUAL])
        if name in ROWS and tensor.size and np.nanmax(np.abs(tensor), initial=0.0) > LIMITS[tensor.dtype]:
            raise ValueError(f"tensor '{name}' holds values that are too large for its type")
        if not fit.all():
            raise ValueError(f"tensor '{name:.60}' holds values that are not finite")
