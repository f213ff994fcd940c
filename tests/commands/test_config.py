"""Options from a file, the settings that a run writes down, and what a resumed run does with others."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from streamgmm.cli.app import app
from streamgmm.cli.resumption import ON_RESUME, TAKEN
from streamgmm.storage import load_model
from streamgmm.storage.run_folder import MODEL
from tests.commands.command_line import invoke, streamgmm
from tests.sources.brokers import Brokers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal([0.2, 0.8], 0.1, (1500, 2))
    np.savetxt(tmp_path / "x.csv", x, delimiter=",", header="a,b", comments="")
    return tmp_path


def settings_of(run: Path) -> dict[str, Any]:
    return tomllib.loads((run / "settings.toml").read_text())


def trained(run: Path) -> Any:
    return load_model(run / MODEL).trainer


class TestConfig:
    def test_every_option_and_the_source(self, folder: Path) -> None:
        (folder / "run.toml").write_text(
            'source = "x.csv"\ncomponents = 3\nhalf_life = 5e3\nreheat = true\n'
            'columns = ["b", "a"]\nmissing = "learn"\n'
        )
        streamgmm("train", "--config", "run.toml", "--out", "run", folder=folder)
        saved = load_model(folder / "run" / MODEL)
        settings = saved.trainer.settings
        assert (settings.n_components, settings.half_life, settings.reheat) == (3, 5000.0, True)
        assert (saved.feature_names, settings.allow_nan) == (["b", "a"], True)

    def test_the_command_line_wins(self, folder: Path) -> None:
        (folder / "run.toml").write_text("components = 3\nreheat = true\nout = 'elsewhere'\n")
        command = ["train", "x.csv", "--config", "run.toml", "--out", "run", "--components", "5", "--no-reheat"]
        streamgmm(*command, folder=folder)
        assert not (folder / "elsewhere").exists()
        settings = trained(folder / "run").settings
        assert (settings.n_components, settings.reheat) == (5, False)

    def test_tables_are_for_their_command(self, folder: Path) -> None:
        (folder / "run.toml").write_text(
            'columns = "a"\n[train]\ncomponents = 3\nsource = "x.csv"\n[score]\nsamples = 7\njson = true\n'
        )
        streamgmm("train", "--config", "run.toml", "--out", "run", folder=folder)
        lines = streamgmm("score", "run", "x.csv", "--config", "run.toml", folder=folder).stdout.splitlines()
        assert len(lines) == 7
        assert json.loads(lines[0])["row"] == 0
        assert load_model(folder / "run" / MODEL).feature_names == ["a"]

    def test_commands_share_a_file(self, folder: Path) -> None:
        """The options of one outside of tables do not keep another from using it."""
        (folder / "run.toml").write_text(
            "components = 3\nhalf_life = 1e6\nkeep = 2\n[score]\nsamples = 7\njson = true\n"
        )
        streamgmm("train", "x.csv", "--config", "run.toml", "--out", "run", folder=folder)
        scored = streamgmm("score", "run", "x.csv", "--config", "run.toml", folder=folder)
        assert len(scored.stdout.splitlines()) == 7
        (folder / "run.toml").write_text("components = 3\n[score]\nkeep = 2\n")
        done = streamgmm("score", "run", "x.csv", "--config", "run.toml", folder=folder, fails=True)
        assert "holds 'keep', which score does not know" in done.words

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("componets = 3", "run.toml holds 'componets', which train does not know. Did you mean 'components'?"),
            ("zzz = 3", "Its options are: source, out, rule,"),
            ("components = true", "components is True in run.toml; expected a number or a text"),
            ("components = {a = 1}", "components is {'a': 1} in run.toml"),
            ("reheat = 1", "reheat is 1 in run.toml; expected true or false"),
            ("train = 3", "train is 3 in run.toml; expected a table"),
            ("components = ", "run.toml is not TOML"),
            ("resume = true", "'resume', which belongs on the command line"),
            ("[scoring]\na = 1", "holds 'scoring'"),
        ],
    )
    def test_mistakes_are_told(self, folder: Path, text: str, message: str) -> None:
        (folder / "run.toml").write_text(text)
        done = streamgmm("train", "x.csv", "--config", "run.toml", "--out", "run", folder=folder, fails=True)
        assert done.code == 1
        assert message in done.words
        assert not (folder / "run").exists()

    @pytest.mark.parametrize("text", ["components = 2.5", "components = 'many'", "components = 0", "scale = 'best'"])
    def test_values_are_checked_as_on_the_command_line(self, folder: Path, text: str) -> None:
        (folder / "run.toml").write_text(text)
        assert invoke("train", "x.csv", "--config", "run.toml", "--out", "run", folder=folder).code == 2


class TestSettings:
    def test_they_make_the_same_run(self, folder: Path) -> None:
        options = ["--components", "3", "--half-life", "2000", "--columns", "b,a", "--shuffle", "no", "--seed", "4"]
        streamgmm("train", "x.csv", *options, "--out", "first", folder=folder)
        streamgmm("train", "--config", "first/settings.toml", "--out", "second", folder=folder)
        assert settings_of(folder / "first") == settings_of(folder / "second")
        np.testing.assert_array_equal(trained(folder / "first").mixture.means, trained(folder / "second").mixture.means)

    def test_they_hold_what_is_in_effect(self, folder: Path) -> None:
        streamgmm("train", "x.csv", "--components", "3", "--out", "run", folder=folder)
        found = settings_of(folder / "run")
        assert found.items() >= {"source": "x.csv", "components": 3, "scale": "auto", "passes": "auto"}.items()
        assert "half-life" not in found
        streamgmm("train", "x.csv", "--half-life", "900", "--passes", "8", "--out", "run", "--resume", folder=folder)
        found = settings_of(folder / "run")
        assert found.items() >= {"components": 3, "half-life": 900.0, "passes": 8, "shuffle": "yes"}.items()

    def test_odd_names_survive(self, folder: Path) -> None:
        name = 'x "\\\x7f\t\x1bé😀.csv'
        (folder / name).write_bytes((folder / "x.csv").read_bytes())
        streamgmm("train", name, "--components", "2", "--out", "run", folder=folder)
        assert settings_of(folder / "run")["source"] == name

    @pytest.mark.services
    def test_passwords_are_left_out(self, folder: Path) -> None:
        brokers = Brokers()  # it lives as long as this name
        url = brokers.fill("sensors", (json.dumps([i % 7, i % 3]).encode() for i in range(200)))
        streamgmm("train", f"{url}?sasl.password=secret", "--components", "2", "--out", "run", folder=folder)
        assert settings_of(folder / "run")["source"] == f"{url}?…"

    def test_nothing_is_left_of_a_run_that_never_began(self, folder: Path) -> None:
        streamgmm("train", "nothing.csv", "--out", "run", folder=folder, fails=True)
        assert not (folder / "run").exists()


class TestResume:
    @pytest.fixture
    def run(self, folder: Path) -> Path:
        streamgmm(
            "train", "x.csv", "--components", "3", "--shuffle", "no", "--passes", "1", "--out", "run", folder=folder
        )
        return folder / "run"

    def again(self, run: Path, *options: object, fails: bool = False) -> str:
        return streamgmm("train", "x.csv", "--out", run, "--resume", *options, folder=run.parent, fails=fails).words

    @pytest.mark.parametrize(
        ("option", "value", "was"),
        [
            ("--components", "4", "--components 3"),
            ("--rule", "sgd", "--rule natural"),
            ("--scale", "none", "--scale auto"),
            ("--precision-max", "9", "no --precision-max"),
            ("--seed", "1", "--seed 0"),
            ("--jobs", "2", "--jobs 1"),
            ("--shuffle", "yes", "--shuffle no"),
            ("--missing", "learn", "--missing error"),
        ],
    )
    def test_what_was_built_in_is_refused_with_the_reason(self, run: Path, option: str, value: str, was: str) -> None:
        before = (run / MODEL).read_bytes()
        words = self.again(run, option, value, fails=True)
        assert f"this run was started with {was} and cannot be resumed with {option} {value}: " in words
        name = option.removeprefix("--").replace("-", "_")
        assert f"{ON_RESUME[name]}. Resume without it" in words
        assert (run / MODEL).read_bytes() == before

    def test_the_same_values_are_accepted(self, run: Path) -> None:
        same = ["--components", "3", "--rule", "natural", "--scale", "auto", "--seed", "0", "--jobs", "1"]
        assert "resuming after 1,500 samples" in self.again(run, *same, "--shuffle", "auto", "--missing", "error")

    def test_how_it_adapts_is_taken(self, run: Path) -> None:
        words = self.again(run, "--half-life", "700", "--reheat", "--passes", "2")
        assert "--half-life is 700 from now on; it was off" in words
        assert "--reheat is on from now on; it was off" in words
        trainer = trained(run)
        assert (trainer.n_samples, trainer.settings.half_life, trainer.settings.reheat) == (3000, 700.0, True)
        assert trainer.rule.memory == 700.0
        self.again(run, "--half-life", "inf", "--no-reheat", "--passes", "3")
        settings = trained(run).settings
        assert (settings.half_life, settings.reheat) == (None, False)

    def test_what_is_taken_stays_although_nothing_was_new(self, run: Path) -> None:
        self.again(run, "--half-life", "700")
        assert trained(run).n_samples == 1500
        assert trained(run).settings.half_life == 700.0
        assert settings_of(run)["half-life"] == 700.0

    def test_what_is_not_given_stays(self, run: Path) -> None:
        self.again(run, "--half-life", "700", "--passes", "2")
        self.again(run, "--passes", "3")
        assert trained(run).settings.half_life == 700.0

    def test_a_half_life_has_an_effect(self, folder: Path, run: Path) -> None:
        """After a change, the run that forgets is closer to what comes now."""
        y = np.random.default_rng(1).normal([0.6, 0.1], 0.1, (1500, 2))
        np.savetxt(folder / "y.csv", y, delimiter=",", header="a,b", comments="")
        likelihoods = []
        for name, options in (("kept", []), ("forgets", ["--half-life", "100"])):
            streamgmm(
                "train", "x.csv", "--components", "3", "--shuffle", "no", "--passes", "1", "--out", name, folder=folder
            )
            streamgmm("train", "y.csv", "--out", name, "--resume", "--passes", "1", *options, folder=folder)
            likelihoods.append(trained(folder / name).mixture.log_prob(y).mean())
        assert likelihoods[1] > likelihoods[0] + 0.05

    def test_a_rule_that_cannot_forget_says_so(self, folder: Path) -> None:
        command = ["train", "x.csv", "--components", "3", "--rule", "sgd", "--out", "sgd"]
        streamgmm(*command, folder=folder)
        words = streamgmm(*command, "--resume", "--half-life", "9", folder=folder, fails=True).words
        assert "does not support half_life" in words

    def test_the_seed_of_a_stream_stays(self, folder: Path) -> None:
        command = ["train", "glyphs:A-C", "--components", "4"]
        streamgmm(*command, "--samples", "4000", "--seed", "4", "--out", "whole", folder=folder)
        streamgmm(*command, "--samples", "2000", "--seed", "4", "--out", "parts", folder=folder)
        streamgmm(*command, "--samples", "3000", "--out", "parts", "--resume", folder=folder)
        streamgmm(*command, "--samples", "4000", "--seed", "4", "--out", "parts", "--resume", folder=folder)
        whole, parts = (trained(folder / name) for name in ("whole", "parts"))
        assert whole.n_samples == parts.n_samples
        np.testing.assert_array_equal(whole.mixture.means, parts.mixture.means)

    def test_an_option_of_a_file_counts_as_given(self, run: Path) -> None:
        (run.parent / "run.toml").write_text("components = 5\n")
        assert "cannot be resumed with --components 5" in self.again(run, "--config", "run.toml", fails=True)

    def test_every_option_is_taken_or_refused(self) -> None:
        """A new option of a command that resumes needs an entry in the table."""
        commands = {name: c for name, c in get_command(app).commands.items() if "resume" in {p.name for p in c.params}}
        assert "train" in commands
        every = {"out", "resume", "config", "as_json", "quiet", "debug", "log_json", "help"}
        for command in commands.values():
            assert {p.name for p in command.params} <= every | ON_RESUME.keys()
        assert all(reason == TAKEN or reason[0].islower() for reason in ON_RESUME.values())
