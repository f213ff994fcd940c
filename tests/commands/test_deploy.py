"""The files in deploy/: what cannot run here is parsed, and every command in them is one that we have."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from streamgmm.cli.app import app
from streamgmm.cli.resumption import ON_RESUME
from streamgmm.runs.metrics import FAMILIES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
pytestmark = pytest.mark.source


def parsed(arguments: list[str], config: Path) -> dict[str, Any]:
    """Parse the arguments of a command as our command line does, with a file of options that is at hand."""
    at = arguments.index("--config") + 1
    name, *others = [*arguments[:at], str(config), *arguments[at + 1 :]]
    command = get_command(app).commands[name]
    return dict(command.make_context(name, others).params)


def instructions() -> list[tuple[str, str]]:
    lines = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.partition(" ")[2]) for line in lines if line.strip()]


class TestPage:
    """docs/guide/deploy.md"""

    TEXT = (ROOT / "docs" / "guide" / "deploy.md").read_text(encoding="utf8")

    def test_the_table_names_every_option(self) -> None:
        table = self.TEXT.partition("| options |")[2].partition("\n\n")[0]
        options = {p.name: p.opts[0] for p in get_command(app).commands["train"].params}
        for name, reason in ON_RESUME.items():
            if name in options and name != "source":
                [line] = [line for line in table.splitlines() if f"`{options[name]}`" in line]
                assert ("refused" in line) == bool(reason), name

    def test_every_metric_is_named(self) -> None:
        for _, kind, name, _ in FAMILIES:
            assert f"`{name}{'_total' if kind == 'counter' else ''}`" in self.TEXT


class TestConfig:
    def test_every_key_is_an_option(self) -> None:
        arguments = ["train", "--config", "run.toml", "--out", "run", "--resume", "--log-json"]
        found = parsed(arguments, DEPLOY / "run.toml")
        assert found["source"].startswith("kafka://")
        expected = tomllib.loads((DEPLOY / "run.toml").read_text())
        assert (found["half_life"], found["keep"], found["follow"]) == (1e6, expected["keep"], True)


class TestImage:
    def test_instructions(self) -> None:
        found = instructions()
        assert {name for name, _ in found} <= INSTRUCTIONS
        assert found[0][0] == "FROM"
        assert all(":" in rest.split()[0] for name, rest in found if name == "FROM")  # a version, not the latest

    def test_it_does_not_run_as_root(self) -> None:
        users = [rest for name, rest in instructions() if name == "USER"]
        assert users == ["streamgmm"]

    def test_what_is_copied_exists_and_is_sent(self) -> None:
        ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
        for name, rest in instructions():
            if name == "COPY" and not rest.startswith("--from"):
                for source in rest.split()[:-1]:
                    assert (ROOT / source).exists(), source
                    assert f"!{source}" in ignored, source

    def test_extras_are_those_of_the_package(self) -> None:
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for _, rest in instructions():
            for extras in re.findall(r"\[([a-z,]+)\]\"", rest):
                assert set(extras.split(",")) <= set(known)

    def test_the_program_starts(self) -> None:
        [entry] = [json.loads(rest) for name, rest in instructions() if name == "ENTRYPOINT"]
        scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
        assert entry == list(scripts)


class TestCompose:
    @pytest.fixture
    def services(self) -> dict[str, Any]:
        yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
        found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
        assert set(found) == {"services", "volumes"}
        for service in found["services"].values():
            assert ("image" in service) != ("build" in service)
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                assert (DEPLOY / source).exists() if source.startswith(".") else source in found["volumes"]
        return dict(found["services"])

    def test_services_depend_on_each_other(self, services: dict[str, Any]) -> None:
        for service in services.values():
            assert set(service.get("depends_on", {})) <= set(services)
        build = services["streamgmm"]["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()

    def test_the_command_and_its_file(self, services: dict[str, Any]) -> None:
        found = parsed(services["streamgmm"]["command"], DEPLOY / "run.toml")
        assert found["resume"]
        host = re.match(r"kafka://(\w+):(\d+)/(\w+)$", found["source"])
        assert host is not None
        assert f"PLAINTEXT://{host[1]}:{host[2]}" == services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
        assert f"--topic={host[3]}" in services["topic"]["command"]
        assert f"127.0.0.1:{found['metrics_port']}/healthz" in services["streamgmm"]["healthcheck"]["test"][-1]
        compile(services["streamgmm"]["healthcheck"]["test"][-1], "healthcheck", "exec")

    def test_images_have_versions(self, services: dict[str, Any]) -> None:
        assert all(re.search(r":\d", s["image"]) for s in services.values() if "image" in s)


class TestUnit:
    @pytest.fixture
    def unit(self) -> ConfigParser:
        found = ConfigParser(interpolation=None)
        found.optionxform = str  # type: ignore[assignment, method-assign]
        found.read(DEPLOY / "streamgmm@.service")
        return found

    def test_the_command(self, unit: ConfigParser) -> None:
        _, *arguments = shlex.split(unit["Service"]["ExecStart"])
        found = parsed(arguments, DEPLOY / "run.toml")
        assert found["resume"]
        assert found["log_json"]
        assert unit["Service"]["Restart"] == "on-failure"
        assert str(found["out"]) == f"%S/{unit['Service']['StateDirectory']}"

    def test_systemd_accepts_it(self, unit: ConfigParser, tmp_path: Path) -> None:
        if shutil.which("systemd-analyze") is None:
            pytest.skip("systemd-analyze is not installed")
        text = (DEPLOY / "streamgmm@.service").read_text()
        program = shlex.split(unit["Service"]["ExecStart"])[0]
        (tmp_path / "streamgmm@plant.service").write_text(text.replace(program, str(shutil.which("env"))))
        command = ["systemd-analyze", "verify", str(tmp_path / "streamgmm@plant.service")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        complaints = [line for line in done.stderr.splitlines() if "streamgmm" in line]
        assert complaints == []
