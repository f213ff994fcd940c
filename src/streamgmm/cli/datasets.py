"""``streamgmm datasets``"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from streamgmm.cli.console import clean

if TYPE_CHECKING:
    from streamgmm.datasets import Listing


def datasets(as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False) -> None:
    """List the seven data sets of the paper, and how to get them.

    They are looked for in the folder that STREAMGMM_DATA names, then in the cache. Only the tables of the paper need
    them.

    Examples:

      streamgmm datasets

      STREAMGMM_DATA=/data/sets streamgmm datasets

      streamgmm datasets --json | jq -r '.[] | select(.place == null).name'
    """
    from streamgmm.datasets import folders, listing

    found = listing()
    if as_json:
        typer.echo(json.dumps([asdict(known) | {"place": known.place and str(known.place)} for known in found]))
        return
    typer.echo(clean(f"Looked for in {', then '.join(str(folder) for folder in folders())}."))
    for known in found:
        typer.echo()
        for line in _lines(known):
            typer.echo(clean(line))
    missing = [known.name for known in found if known.place is None]
    typer.echo(f"\n{len(found) - len(missing)} of {len(found)} are there{_named(missing)}.")


def _lines(known: Listing) -> list[str]:
    if known.place is None:
        return [
            f"{known.name:<13}missing",
            f"  get it      {known.origin}",
            f"  sha256      {known.expected} (of the file that our results were made with)",
        ]
    lines = [f"{known.name:<13}{known.place}"]
    if known.sha256 is not None:
        same = "same as ours" if known.sha256 == known.expected else f"ours was {known.expected}: results may differ"
        lines.append(f"  sha256      {known.sha256} ({same})")
    return lines


def _named(missing: list[str]) -> str:
    return f"; missing: {', '.join(missing)}" if missing else ""
