"""``streamgmm rollback``"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamgmm.cli import console
from streamgmm.cli.console import CommandError
from streamgmm.cli.options import say_unused

if TYPE_CHECKING:
    from streamgmm.storage.versions import Version


def rollback(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run that was trained with --keep.")],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="The version, or the beginning of its name. [default: the latest before the model]"
        ),
    ] = None,
    keep_position: Annotated[
        bool,
        typer.Option("--keep-position", help="Skip the rows after the version instead of reading them again."),
    ] = False,
    only_list: Annotated[bool, typer.Option("--list", help="List the versions and change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the versions, or the new model, as JSON.")] = False,
) -> None:
    """Return to an earlier version of the model of a run.

    Stop the run first. The current model stays as a version, so that --to can undo this. Commands that follow the
    model, such as score --follow, use the new one at once. A resumed run learns again what came after the version,
    unless told otherwise.

    Examples:

      streamgmm rollback run --list

      streamgmm rollback run

      streamgmm rollback run --to 20260131T0600 --keep-position
    """
    from streamgmm.storage.run_folder import locked
    from streamgmm.storage.versions import find_version, roll_back, versions

    if not run.is_dir():
        raise CommandError(f"{run} is not a folder; expected that of a run.")
    if only_list:
        say_unused(context, to="with --list", keep_position="with --list")
        _print_versions(versions(run), as_json)
        return
    with locked(run), console.warnings_as_lines():
        version = find_version(run, to)
        record = roll_back(run, version, keep_position=keep_position)
    if as_json:
        typer.echo(json.dumps({"version": version.name, "samples": record.progress.samples}))
    else:
        console.say(
            f"{run} is back at version {version.name}, with {console.count(record.progress.samples, 'sample')}."
        )


def _print_versions(found: list[Version], as_json: bool) -> None:
    facts = [{"version": v.name, "samples": v.samples, "bytes": v.path.stat().st_size} for v in found]
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for fact in facts:
        typer.echo(f"{fact['version']}  {fact['samples']:>15,} samples  {fact['bytes']:>12,} bytes")
    if not facts:
        console.say("no versions: train with --keep 10 to have some.")
