"""All formats that are fuzzed, by name."""

from __future__ import annotations

from tests.fuzz.binary_files import BINARIES
from tests.fuzz.broker_messages import MESSAGES
from tests.fuzz.commands import COMMANDS
from tests.fuzz.formats import Format
from tests.fuzz.model_files import MODELS
from tests.fuzz.rounds import ROUNDS
from tests.fuzz.run_files import RUN_FILES
from tests.fuzz.stacks import STACKS
from tests.fuzz.text_files import TEXTS

FORMATS: dict[str, Format] = {
    form.name: form for form in (MODELS, STACKS, *COMMANDS, ROUNDS, *RUN_FILES, *TEXTS, *BINARIES, *MESSAGES)
}
