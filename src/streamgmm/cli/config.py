"""Options from a TOML file, and the settings of a run as such a file.

Keys are the names of options without dashes at the front, and ``source``. They count as if they were typed before
everything else on the command line. A table with the name of a command counts for that command only. Outside of tables,
keys that only other commands know are ignored, so that commands can share a file.
"""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer

from streamgmm.cli.console import CommandError

SETTINGS = "settings.toml"
OF_THE_CALL = {"out", "resume", "config", "quiet", "debug", "log_json", "as_json"}  # not settings of a run
HEADING = "# Settings in effect. Use them again with: streamgmm {command} --config settings.toml --out FOLDER\n"


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the values of a file as defaults of a command; the callback of --config."""
    if path is None or context.resilient_parsing:
        return path
    try:
        found = tomllib.loads(path.read_text(encoding="utf8"))
        context.default_map = _defaults(context, path, found)
    except CommandError:
        raise
    except (ValueError, RecursionError) as problem:
        raise CommandError(f"{path} is not TOML, or holds what no option takes: {problem}.") from problem
    return path


def _defaults(context: typer.Context, path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a file by the names of parameters, as they would be typed."""
    commands: dict[str, Any] = {} if context.parent is None else getattr(context.parent.command, "commands", {})
    command = context.info_name or ""
    own = found.get(command, {})
    tables = {key for key, value in found.items() if isinstance(value, dict) and key in commands}
    if not isinstance(own, dict):
        raise CommandError(f"{command} is {own!r} in {path}; expected a table.")
    known = _parameters(context.command.params)
    elsewhere = {name for other in commands.values() for name in _parameters(other.params)} - known.keys()
    shared = {k: v for k, v in found.items() if k not in tables and k.replace("_", "-") not in elsewhere}
    return {
        known[name].name or "": _typed(path, key, value, known[name])
        for key, value in [*shared.items(), *own.items()]
        if (name := _known_name(path, key, known, command))
    }


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        exists=True,
        dir_okay=False,
        is_eager=True,
        callback=read_config,
        help="TOML file with options, such as half-life = 1e5; options given here take precedence.",
    ),
]


def given_options(context: typer.Context) -> set[str]:
    """Return the parameters that were given, on the command line or in a file."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}


def settings_text(context: typer.Context, changes: Mapping[str, Any]) -> str:
    """Return all options of the present command as a TOML file, with some changed; passwords in URLs are left out."""
    from streamgmm.sources import without_secrets

    values = {**context.params, **changes}
    names = {p.name: key for key, p in reversed(_parameters(context.command.params).items())}
    lines = []
    for name, key in reversed(names.items()):
        value = values.get(name or "")
        if value is None or name in OF_THE_CALL:
            continue
        parts = [value] if isinstance(value, str) else value
        if isinstance(parts, list | tuple) and any("://" in str(part) for part in parts):
            shown = [without_secrets(str(part)) for part in parts]
            value = shown[0] if isinstance(value, str) else shown
        lines.append(f"{key} = {_toml(value)}\n")
    return HEADING.format(command=context.info_name) + "".join(lines)


def write_settings(folder: Path, context: typer.Context, changes: Mapping[str, Any]) -> None:
    """Write the settings in effect to a run folder."""
    from streamgmm.storage.atomic import write_atomically

    write_atomically(folder / SETTINGS, settings_text(context, changes).encode("utf8", "replace"))


def _parameters(parameters: list[Any]) -> dict[str, Any]:
    """Return parameters by the names they have in a file."""
    found = {}
    for parameter in parameters:
        for option in parameter.opts:
            if not option.startswith("-") or option.startswith("--"):
                found[option.removeprefix("--")] = parameter
    for unwanted in ("config", "help", "resume"):
        found.pop(unwanted, None)
    return found


def _known_name(path: Path, key: str, known: Mapping[str, Any], command: str) -> str:
    name = key.replace("_", "-")
    if name in known:
        return name
    if key in ("config", "resume"):
        raise CommandError(f"{path} holds {key!r}, which belongs on the command line.")
    close = get_close_matches(name, known, 1, 0.5)
    ending = f"Did you mean {close[0]!r}?" if close else f"Its options are: {', '.join(known)}."
    raise CommandError(f"{path} holds {key!r}, which {command} does not know. {ending}")


def _typed(path: Path, key: str, value: Any, parameter: Any) -> Any:
    """Return a value as it would be typed on the command line, so that it is checked in the same way."""
    if getattr(parameter, "is_flag", False):
        if not isinstance(value, bool):
            raise CommandError(f"{key} is {value!r} in {path}; expected true or false.")
        return value
    if isinstance(value, list) and all(isinstance(v, str | int | float) for v in value):
        return [str(v) for v in value] if getattr(parameter, "multiple", False) else _comma_separated(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CommandError(f"{key} is {value!r} in {path}; expected a number or a text.")
    return [str(value)] if getattr(parameter, "multiple", False) else str(value)


def _comma_separated(values: list[str | int | float]) -> str:
    """Return values as --columns takes them."""
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    value = value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return repr(value)  # inf and nan are TOML, too
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False).replace("\x7f", "\\u007f")
