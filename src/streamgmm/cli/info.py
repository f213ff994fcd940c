"""``streamgmm info``"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from streamgmm.cli.console import clean
from streamgmm.cli.options import ModelPath
from streamgmm.cli.stacks import describe_stack, stack_lines

MOST_NAMES = 12


def info(
    model: ModelPath,
    contamination: Annotated[
        float | None,
        typer.Option(
            min=1e-6, max=0.5, help="Share of rows below the threshold. [default: that of a detector, or 0.01]"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Describe a model: settings, columns, rows seen, threshold.

    For a stack of layers, it describes the progress of each layer.

    Examples:

      streamgmm info run

      streamgmm info run --json | jq .threshold
    """
    from streamgmm.runs.info import describe_model
    from streamgmm.storage import load_model
    from streamgmm.storage.run_folder import model_path
    from streamgmm.storage.stack_file import holds_stack

    path = model_path(model)
    is_stack = holds_stack(path)
    known = describe_stack(path) if is_stack else describe_model(load_model(path), path, contamination)
    if as_json:
        typer.echo(json.dumps(known))
        return
    for label, text in stack_lines(known) if is_stack else _lines(known):
        typer.echo(clean(f"{label:<12}{text}"))


def _lines(known: dict[str, Any]) -> list[tuple[str, str]]:
    run, threshold = known["run"], known["threshold"]
    gaps = "learned" if known["learns_gaps"] else "not learned"
    memory = "forgets nothing" if known["half_life"] is None else f"half-life {known['half_life']:,g} samples"
    state = "annealed" if known["annealed"] else f"still annealing, σ {known['sigma']:.3g}"
    share, kind = f"{100 * known['contamination']:g} % of rows", known["covariance_type"]
    lines = [
        ("model", f"{known['file']}, {known['bytes']:,} bytes, written {known['written']}"),
        ("components", f"{known['components']} ({known['live_components']} live), covariance {kind}"),
        ("features", f"{known['features']}{_some(known['feature_names'], ': ')}"),
        ("learning", f"rule {known['rule']}, scale {known['scale']}, {memory}{', reheats' if known['reheat'] else ''}"),
        ("gaps", gaps),
        ("computing", f"{known['dtype']}, {known['threads']} thread{'s' if known['threads'] > 1 else ''}"),
        ("seen", f"{known['samples']:,} samples, {known['rows_damped']:,} of them extreme; {state}"),
        ("threshold", f"unknown for {share}: {known['scores_known']:,} scores" if threshold is None
         else f"{threshold:.6g} nats flags at most {share} ({known['scores_known']:,} recent scores)"),
    ]  # fmt: skip
    if run is None:
        return lines
    ended = "read to its end" if run["finished"] else "not yet at its end"
    order = "in random order" if run["shuffled"] else "in its own order"
    lines += [
        ("source", f"{run['source']}, {order}, {ended}"),
        ("rows", f"{run['bad'] or 0:,} bad, {run['missing'] or 0:,} missing; {run['drifts'] or 0:,} drifts"),
        ("versions", ", ".join(run["versions"]) or "none"),
    ]
    return lines


def _some(names: list[str] | None, lead: str) -> str:
    """Return the first of some names."""
    if not names:
        return ""
    return lead + ", ".join(names[:MOST_NAMES]) + (" …" if len(names) > MOST_NAMES else "")
