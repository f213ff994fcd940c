"""What a run that is resumed does with options that differ from those it was started with."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from streamgmm.cli.config import given_options
from streamgmm.cli.console import CommandError, user_input

if TYPE_CHECKING:
    from streamgmm.core.trainer import Trainer
    from streamgmm.storage import SavedModel
    from streamgmm.storage.run_folder import RunRecord

TAKEN = ""
ON_RESUME = {
    # what the model was built with
    "components": "their number cannot change during training",
    "rule": "one rule cannot use the state of another",
    "scale": "everything learned so far is in its units",
    "precision_max": "it has limited the variances from the start",
    "seed": "it decided the random start",
    "jobs": "results depend on the number of threads",
    "shuffle": "the position in the source depends on the order of rows",
    "missing": "a model learns from gaps from its first row or not at all",
    # how it adapts
    "half_life": TAKEN,
    "reheat": TAKEN,
    "contamination": TAKEN,
    # what is said about rows
    "alert_to": TAKEN,
    "max_p": TAKEN,
    "fdr": TAKEN,
    "only_anomalies": TAKEN,
    "explain": TAKEN,
    # what it reads
    "source": TAKEN,
    "columns": TAKEN,
    "id_column": TAKEN,
    "bad_rows": TAKEN,
    "passes": TAKEN,
    "follow": TAKEN,
    "samples": TAKEN,
    # what it writes
    "checkpoint_every": TAKEN,
    "keep": TAKEN,
    "no_rows": TAKEN,
    "dashboard": TAKEN,
    "port": TAKEN,
    "metrics_port": TAKEN,
    # where it learns; the run itself refuses to change the kind of its engine
    "engine": TAKEN,
    "workers": TAKEN,
    "address": TAKEN,
    "round_samples": TAKEN,
    # the form of components
    "covariance": "covariances of one kind cannot become those of another",
    "rank": "the number of factors cannot change during training",
}
"""For each option that a run may be resumed with: the reason why a change is refused, or `TAKEN`."""


class Resumed(NamedTuple):
    """Options of a run that is resumed.

    Parameters
    ----------
    values : dict of str to object
        Those that the checkpoint knows, as they are from now on.
    changed : dict of str to object
        Those of them that differ from before, with the value they had.
    lines : list of str
        What has changed, for people.
    """

    values: dict[str, Any]
    changed: dict[str, Any]
    lines: list[str]

    def apply(self, trainer: Trainer) -> None:
        """Change how a training adapts, as the options say."""
        if self.changed.keys() & {"half_life", "reheat"}:
            with user_input():
                trainer.adapt(half_life=self.values["half_life"], reheat=self.values["reheat"])


def resumed_options(context: typer.Context, saved: SavedModel, record: RunRecord) -> Resumed:
    """Compare the options of the present command with a checkpoint; raise for those that a run cannot change."""
    wanted, before = context.params, options_of(saved, record)
    values, changed = dict(before), dict[str, Any]()
    for name in given_options(context) & before.keys():
        asked = _comparable(name, wanted[name])
        if asked == before[name] or (name == "shuffle" and asked == "auto"):
            continue
        if ON_RESUME[name] and not (name == "missing" and {asked, before[name]} == {"error", "skip"}):
            raise CommandError(
                f"this run was started with {_typed(context, name, before[name])} and cannot be resumed with "
                f"{_typed(context, name, asked)}: {ON_RESUME[name]}. Resume without it, or start a new run in "
                "another folder."
            )
        values[name], changed[name] = asked, before[name]
    lines = [
        f"{_option(context, name)} is {_shown(values[name])} from now on; it was {_shown(before)}"
        for name, before in changed.items()
    ]
    return Resumed(values, changed, lines)


def options_of(saved: SavedModel, record: RunRecord) -> dict[str, Any]:
    """Return the options that a checkpoint knows, by the names of parameters."""
    settings, scaling = saved.trainer.settings, saved.scaling
    return {
        "components": saved.trainer.n_components,
        "covariance": settings.covariance_type,
        "rank": settings.rank,
        "rule": saved.trainer.rule.name,
        "scale": settings.scale if scaling is None else scaling.kind,
        "precision_max": settings.precision_max,
        "seed": saved.estimator.get("random_state") or 0,
        "jobs": saved.trainer.engine.replicas,
        "shuffle": "no" if record.shuffle_seed is None else "yes",
        "missing": record.missing,
        "half_life": settings.half_life,
        "reheat": bool(settings.reheat),
    }


def _comparable(name: str, value: Any) -> Any:
    """Return the value of an option in the form in which a checkpoint has it."""
    if name == "jobs":
        from streamgmm.engines import thread_count

        return thread_count(value)
    if name == "half_life" and value == inf:
        return None
    return getattr(value, "value", value)


def _shown(value: Any) -> str:
    if value is None:
        return "off"
    return ("on" if value else "off") if isinstance(value, bool) else _number(value)


def _typed(context: typer.Context, name: str, value: Any) -> str:
    """Return an option as it is typed."""
    option = _option(context, name)
    return f"no {option}" if value is None else f"{option} {_number(value)}"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _option(context: typer.Context, name: str) -> str:
    """Return what a parameter is called on the command line."""
    return next(str(p.opts[0]) for p in context.command.params if p.name == name)
