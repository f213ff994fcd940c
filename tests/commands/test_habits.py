"""What all commands have in common: quiet, debug, help, completion, Ctrl-C, and how they tell mistakes from bugs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import streamgmm as package
from streamgmm.cli import main
from streamgmm.cli.app import app
from streamgmm.errors import SourceError
from streamgmm.storage.run_folder import MODEL
from tests.commands.command_line import COMMAND, invoke, streamgmm

ESCAPE = "\x1b"


def all_commands() -> list[str]:
    """Every command by its full name, groups included."""

    def walk(command: object, name: str) -> list[str]:
        inner = getattr(command, "commands", {})
        return [name.strip()] + [n for key, value in inner.items() for n in walk(value, f"{name} {key}")]

    return walk(get_command(app), "")


COMMANDS = all_commands()
MISTAKES = {
    "demo": ["--out", "file"],
    "train": ["nothing.csv", "--out", "new"],
    "watch": ["nothing.csv", "--out", "new"],
    "score": ["nothing", "nothing.csv"],
    "impute": ["nothing", "nothing.csv"],
    "sample": ["nothing", "--out", "s.csv"],
    "plot": ["nothing"],
    "info": ["nothing"],
    "rollback": ["nothing"],
    "compare": ["nothing.csv"],
    "dashboard": ["run", "--address", "example.org"],
    **{name: ["--dataset", "nosuch"] for name in COMMANDS if name.startswith("paper ")},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("habits")
    (place / "file").write_text("in the way")
    x = np.random.default_rng(0).normal([0.2, 0.8], 0.1, (3000, 2))
    np.savetxt(place / "x.csv", x, delimiter=",", header="a,b", comments="")
    streamgmm("train", "x.csv", "--components", "4", "--out", "run", folder=place)
    return place


def test_there_is_a_mistake_for_every_command() -> None:
    assert set(MISTAKES) == set(COMMANDS) - {"", "paper", "datasets"}  # the last takes no input


class TestQuiet:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["demo", "--samples", "500", "--components", "4", "--out", "demo"],
            ["train", "x.csv", "--components", "4", "--out", "quiet"],
            ["train", "x.csv", "--passes", "2", "--out", "quiet", "--resume"],
            ["score", "run", "x.csv", "--out", "scores.csv"],
            ["sample", "run", "--out", "samples.csv"],
            ["plot", "run", "--out", "pictures"],
            ["train", "x.csv", "--components", "4", "--out", "kept", "--keep", "2", "--checkpoint-every", "1000"],
            ["rollback", "kept"],
        ],
        ids=lambda a: a[0],
    )
    def test_nothing_is_said_when_all_is_well(self, folder: Path, arguments: list[str]) -> None:
        done = streamgmm(*arguments, "--quiet", folder=folder)
        assert (done.stdout, done.stderr) == ("", "")

    def test_data_are_still_written(self, folder: Path) -> None:
        done = streamgmm("score", "run", "x.csv", "-q", folder=folder)
        assert len(done.stdout.splitlines()) == 3001
        assert done.stderr == ""

    @pytest.mark.parametrize("command", MISTAKES)
    def test_errors_are_told(self, folder: Path, command: str) -> None:
        done = streamgmm(*command.split(), *MISTAKES[command], "--quiet", folder=folder, fails=True)
        assert done.code == 1
        assert done.stderr.startswith("streamgmm: ")
        assert len(done.stderr.splitlines()) == 1


class TestDebug:
    @pytest.mark.parametrize("command", MISTAKES)
    def test_a_mistake_is_raised(self, folder: Path, command: str) -> None:
        with pytest.raises((ValueError, OSError)):
            invoke(*command.split(), *MISTAKES[command], "--debug", folder=folder)

    def test_people_see_where(self, folder: Path) -> None:
        command = [*COMMAND, "score", "nothing", "nothing.csv", "--debug"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "Traceback" in done.stderr
        assert "FileNotFoundError" in done.stderr


class TestLogJson:
    def read(self, text: str) -> list[dict[str, str]]:
        found = [json.loads(line) for line in text.splitlines()]
        assert all(list(message) == ["time", "level", "message"] for message in found)
        assert all(datetime.fromisoformat(message["time"]).tzinfo for message in found)
        return found

    def test_messages_are_lines_of_json(self, folder: Path) -> None:
        done = streamgmm("train", "x.csv", "--components", "4", "--out", "logged", "--log-json", folder=folder)
        messages = self.read(done.stderr)
        assert {m["level"] for m in messages} == {"info"}
        assert messages[-1]["message"] == "features: a, b"

    def test_warnings_have_a_level(self, folder: Path) -> None:
        (folder / "text.csv").write_text("a,b,name\n" + "1,2,x\n2,1,y\n" * 50)
        done = streamgmm("train", "text.csv", "--components", "2", "--out", "warned", "--log-json", folder=folder)
        [warning] = [m for m in self.read(done.stderr) if m["level"] == "warning"]
        assert "'name' of text.csv left out" in warning["message"]

    @pytest.mark.parametrize("command", ["train", "score", "info", "rollback"])
    def test_errors_have_a_level(self, folder: Path, command: str) -> None:
        done = streamgmm(*command.split(), *MISTAKES[command], "--log-json", "--quiet", folder=folder, fails=True)
        assert [m["level"] for m in self.read(done.stderr)] == ["error"]

    def test_control_characters_are_escaped(self, folder: Path) -> None:
        done = streamgmm("score", f"no{ESCAPE}", "x.csv", "--log-json", folder=folder, fails=True)
        assert ESCAPE not in done.stderr
        assert ESCAPE in self.read(done.stderr)[0]["message"]


class TestBugsAndMistakes:
    """A bug of ours is raised, with its traceback; a mistake of the user is told in one line."""

    PLACES = pytest.mark.parametrize(
        ("place", "arguments"),
        [
            ("streamgmm.sources.open_source", ["train", "x.csv", "--out", "new"]),
            ("streamgmm.runs.train.TrainingRun.go", ["train", "x.csv", "--out", "new"]),
            ("streamgmm.storage.latest_model.load_model", ["score", "run", "x.csv"]),
            ("streamgmm.sources.open_source", ["score", "run", "x.csv"]),
            ("streamgmm.runs.score.score_rows", ["score", "run", "x.csv"]),
            ("streamgmm.storage.load_model", ["sample", "run", "--out", "s.csv"]),
            ("streamgmm.storage.load_model", ["plot", "run"]),
            ("streamgmm.storage.load_model", ["info", "run"]),
        ],
    )

    @PLACES
    @pytest.mark.parametrize("kind", [RuntimeError, ValueError, KeyError])
    def test_bugs(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        place: str,
        arguments: list[str],
        kind: type[Exception],
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise kind("a bug")

        monkeypatch.setattr(place, fail)
        with pytest.raises(kind, match="a bug"):
            invoke(*arguments, folder=folder)
        assert not (folder / "new").exists()

    @PLACES
    def test_mistakes(self, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, arguments: list[str]) -> None:
        def fail(*_: object, **__: object) -> None:
            raise SourceError("the data are odd.")

        monkeypatch.setattr(place, fail)
        done = streamgmm(*arguments, folder=folder, fails=True)
        assert done.code == 1
        assert done.stderr == "streamgmm: the data are odd.\n"

    def test_usage(self, folder: Path) -> None:
        for arguments in (["train", "x.csv"], ["train", "x.csv", "--out", "new", "--passes", "0"], ["party"]):
            assert streamgmm(*arguments, folder=folder, fails=True).code == 2


class TestControlCharacters:
    """Names may hold commands to the terminal; people must see names, not their effect."""

    def test_in_a_column(self, folder: Path) -> None:
        x = np.random.default_rng(0).normal([0.2, 0.8], 0.1, (3000, 2))
        np.savetxt(folder / "y.csv", x, delimiter=",", header=f"a{ESCAPE}[2J,b", comments="")
        done = streamgmm("train", "y.csv", "--components", "4", "--out", "odd-column", folder=folder)
        assert "features: a\N{REPLACEMENT CHARACTER}[2J, b" in done.stderr
        assert ESCAPE not in done.stderr
        done = streamgmm("score", "odd-column", "x.csv", folder=folder, fails=True)
        assert "has no column" in done.stderr
        assert ESCAPE not in done.stderr
        done = streamgmm("train", "y.csv", "--columns", "a", "--out", "none", folder=folder, fails=True)
        assert "has no column 'a'" in done.stderr
        assert ESCAPE not in done.stderr

    def test_in_a_value(self, folder: Path) -> None:
        (folder / "z.csv").write_text(f"a,b\n1,{ESCAPE}[2J\n" + "1,2\n" * 20)
        for more, fails in (["--bad-rows", "skip"], False), ([], True):
            done = streamgmm("train", "z.csv", *more, "--out", f"value{fails}", folder=folder, fails=fails)
            assert "row 0" in done.stderr
            assert ESCAPE not in done.stderr

    def test_in_a_file(self, folder: Path) -> None:
        name = f"x{ESCAPE}[2J.csv"
        (folder / name).write_text((folder / "x.csv").read_text())
        done = streamgmm("train", name, "--components", "4", "--out", f"odd{ESCAPE}[2J", folder=folder)
        assert "odd\N{REPLACEMENT CHARACTER}[2J" in done.stderr
        assert ESCAPE not in done.stderr
        for arguments in (
            ["score", "run", name, "--out", f"s{ESCAPE}[2J.csv"],
            ["sample", "run", "--out", f"s{ESCAPE}[2J.csv"],
        ):
            assert ESCAPE not in streamgmm(*arguments, folder=folder).stderr
        for arguments in (["train", f"no{ESCAPE}.csv", "--out", "none"], ["score", f"no{ESCAPE}", "x.csv"]):
            assert ESCAPE not in streamgmm(*arguments, folder=folder, fails=True).stderr


class TestHelp:
    @pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("", "paper")])
    def test_every_command_has_examples(self, command: str) -> None:
        for option in ("--help", "-h"):
            done = streamgmm(*command.split(), option)
            assert "Examples:" in done.stdout
            assert f"streamgmm {command} " in done.stdout
            assert "--quiet" in done.stdout
            assert "--debug" in done.stdout

    def test_all_commands_are_listed(self) -> None:
        done = streamgmm("--help")
        assert all(name.split()[0] in done.stdout for name in COMMANDS if name)
        assert "--install-completion" in done.stdout
        assert "--show-completion" in done.stdout
        assert "..." not in done.stdout.split("Commands:")[1]  # each is described in one line


class TestVersion:
    def test_of_the_module(self) -> None:
        done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == package.__version__

    def test_of_the_commands(self) -> None:
        assert streamgmm("--version").stdout.strip() == package.__version__


class TestCompletion:
    def complete(self, **environment: str) -> str:
        done = CliRunner().invoke(app, [], prog_name="streamgmm", env={**environment})
        assert done.exit_code == 0, done.output
        return done.stdout

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_a_script(self, shell: str) -> None:
        assert "_STREAMGMM_COMPLETE" in self.complete(_STREAMGMM_COMPLETE=f"source_{shell}")

    @pytest.mark.parametrize(
        ("words", "expected"), [("streamgmm sc", ["score"]), ("streamgmm train --sca", ["--scale"])]
    )
    def test_words(self, words: str, expected: list[str]) -> None:
        place = str(len(words.split()) - 1)
        asked = self.complete(_STREAMGMM_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)
        assert asked.split() == expected


class TestInterrupts:
    """Ctrl-C at any moment, even while modules are loaded, is no reason for a traceback."""

    @pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5])
    def test_during_the_start(self, tmp_path: Path, delay: float) -> None:
        script = "from streamgmm.cli import main; print('started', flush=True); main()"
        command = [sys.executable, "-c", script, "train", "glyphs:A-J", "--components", "4", "--out", "run"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as going:
            assert going.stdout is not None
            assert going.stdout.readline() == "started\n"
            time.sleep(delay)
            going.send_signal(signal.SIGINT)
            _, errors = going.communicate(timeout=60)
        assert "Traceback" not in errors
        assert going.returncode in ((0,) if (tmp_path / "run" / MODEL).exists() else (1, 130)), errors

    @pytest.fixture
    def handler(self) -> Iterator[None]:
        before = signal.getsignal(signal.SIGINT)
        yield
        signal.signal(signal.SIGINT, before)

    @pytest.mark.usefixtures("handler")
    def test_while_modules_are_loaded(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        class Interrupted:
            def find_spec(self, name: str, *_: object) -> None:
                if name == "streamgmm.cli.app":
                    raise KeyboardInterrupt

        monkeypatch.setattr(sys, "argv", ["streamgmm", "train"])
        monkeypatch.delitem(sys.modules, "streamgmm.cli.app")
        monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 130
        assert capsys.readouterr().err == "streamgmm: interrupted\n"


class TestOptionsWithoutEffect:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["train", "x.csv", "--out", "t1", "--rank", "3"], "--rank has no effect without --covariance low_rank"),
            (["train", "x.csv", "--out", "t2", "--port", "0"], "--port has no effect without --dashboard"),
            (["watch", "x.csv", "--out", "w1", "--no-follow", "--max-p", "0.01", "--contamination", "0.1"],
             "--contamination has no effect with --max-p"),
            (["watch", "run.npy", "--out", "w2", "--follow"], "--follow has no effect on run.npy, which cannot grow"),
            (["score", "run", "x.csv", "--json", "--out", "s.csv"], "--json has no effect with --out"),
            (["score", "run", "x.csv", "--formulas", "--json"], "--formulas has no effect on ndjson output"),
            (["impute", "run", "x.csv", "--json", "--out", "i.csv"], "--json has no effect with --out"),
            (["sample", "run", "--out", "s.csv", "--shape", "1x2"], "--shape has no effect on numbers"),
            (["rollback", "run", "--list", "--to", "2026"], "--to has no effect with --list"),
        ],
    )  # fmt: skip
    def test_are_named(self, folder: Path, arguments: list[str], said: str) -> None:
        np.save(folder / "run.npy", np.random.default_rng(1).normal([0.2, 0.8], 0.1, (1000, 2)))
        assert said in streamgmm(*arguments, folder=folder).words

    def test_those_of_a_file_with_settings_are_not(self, folder: Path) -> None:
        (folder / "settings.toml").write_text("rank = 3\nport = 8000\n")
        done = streamgmm("train", "x.csv", "--out", "t3", "--config", "settings.toml", folder=folder)
        assert "no effect" not in done.words

    def test_passes_of_a_followed_file(self, folder: Path) -> None:
        done = streamgmm(
            "train", "x.csv", "--out", "t4", "--follow", "--passes", "3", "--samples", "500", folder=folder
        )
        assert "--passes has no effect with --follow" in done.words
