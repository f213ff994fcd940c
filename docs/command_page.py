"""Write the page of the command line from what ``--help`` shows, so that the two cannot differ."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from typer.main import get_command

from streamgmm.cli.app import app

INTRODUCTION = """\
# The command line

`streamgmm COMMAND --help` shows the same text. Data go to standard output and messages to standard error. A command
exits with 0 on success, 1 on failure and 2 if its arguments are wrong; `score --fail-on-anomaly` exits with 3 if a row
is an anomaly.
`python -m streamgmm` is the same program, and `streamgmm --install-completion` installs shell completion.
"""


def write(path: Path) -> None:
    """Write the page.

    Parameters
    ----------
    path : Path
        The Markdown file to write; it stays untouched if its content is the same.
    """
    text = page()
    if not path.exists() or path.read_text(encoding="utf8") != text:
        path.write_text(text, encoding="utf8")


def page() -> str:
    """Return the page: one section for each command, and one for each table of ``paper``."""
    root: Any = get_command(app)  # typer does not say which click its types are from
    context = root.context_class(root, info_name="streamgmm")
    parts = [INTRODUCTION]
    for name, command in root.commands.items():
        inner = root.context_class(command, info_name=name, parent=context)
        parts += section(command, inner, "##")
        tables = [
            (other, root.context_class(other, info_name=table, parent=inner))
            for table, other in getattr(command, "commands", {}).items()
        ]
        shared = [line for line in options(*tables[0]) if all(line in options(*t) for t in tables)] if tables else []
        parts += ["All tables accept these options:\n", *shared] if shared else []
        for other, place in tables:
            parts += section(other, place, "###", shared)
    return "\n".join(parts)


def options(command: Any, context: Any) -> list[str]:
    """Return the arguments and options of a command, each with its help.

    Parameters
    ----------
    command : Command
        The command.
    context : Context
        Its context.
    """
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    shown = [record for record in records if record is not None and "--help" not in record[0]]
    return [f"`{names}`\n: {marked(' '.join(words.split()))}\n" for names, words in shown]


def section(command: Any, context: Any, level: str, known: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of the section of a command.

    Parameters
    ----------
    command : Command
        The command.
    context : Context
        Its context, which knows the names of the commands above it.
    level : str
        The marks of its heading.
    known : sequence of str
        Options that the page has listed before, for several commands.
    """
    words, _, examples = (command.help or "").partition("Examples:")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"{level} {context.command_path}\n"
    yield f"{marked(words.strip())}\n"
    yield f"```text\n{usage}\n```\n"
    if examples:
        lines = [" ".join(example.split()) for example in examples.split("\n\n")]
        yield "```sh\n" + "\n".join(line for line in lines if line) + "\n```\n"
    yield from (line for line in options(command, context) if line not in known)


def marked(words: str) -> str:
    """Return help as Markdown, with options in the type of code.

    Parameters
    ----------
    words : str
        Help of a command or an option.
    """
    escaped = re.sub(r"([\[\]*<>_|])", r"\\\1", words)
    return re.sub(r"(?<![\w`-])--[a-z][a-z-]*", r"`\g<0>`", escaped)
