"""Write the page of the command line from what ``--help`` shows, so that the two cannot differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from streamgmm.cli.app import app

INTRODUCTION = """\
# The command line

`streamgmm COMMAND --help` shows the same text. Data go to standard output and messages to standard error. A command
exits with 0 if it succeeded, 1 if it failed and 2 if it was called wrongly; `score --fail-on-anomaly` exits with 3 if a
row is an anomaly.
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
        for table, other in getattr(command, "commands", {}).items():
            parts += section(other, root.context_class(other, info_name=table, parent=inner), "###")
    return "\n".join(parts)


def section(command: Any, context: Any, level: str) -> Iterator[str]:
    """Yield the lines of the section of a command.

    Parameters
    ----------
    command : Command
        The command.
    context : Context
        Its context, which knows the names of the commands above it.
    level : str
        The marks of its heading.
    """
    words, _, examples = (command.help or "").partition("Examples:")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"{level} {context.command_path}\n"
    yield f"{marked(words.strip())}\n"
    yield f"```text\n{usage}\n```\n"
    if examples:
        lines = [" ".join(example.split()) for example in examples.split("\n\n")]
        yield "```sh\n" + "\n".join(line for line in lines if line) + "\n```\n"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in record[0]:
            yield f"`{record[0]}`\n: {marked(' '.join(record[1].split()))}\n"


def marked(words: str) -> str:
    """Return help as Markdown, with options in the type of code.

    Parameters
    ----------
    words : str
        Help of a command or an option.
    """
    escaped = re.sub(r"([\[\]*<>_|])", r"\\\1", words)
    return re.sub(r"(?<![\w`-])--[a-z][a-z-]*", r"`\g<0>`", escaped)
