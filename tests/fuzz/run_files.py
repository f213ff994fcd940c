"""What runs keep beside their models: settings, notes on deliveries, and positions in all kinds of sources."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from streamgmm.errors import SourceError
from streamgmm.sources import Source, kafka, mqtt, open_source, redis_streams
from streamgmm.sources.base import ReadOptions, check_position
from streamgmm.sources.shuffled import ShuffledSource
from tests.commands.command_line import invoke
from tests.fuzz import binary_files, broker_messages, text_files
from tests.fuzz.formats import DEEP, DIGITS, NASTY, Format, cut_bytes, flip_bytes, mutate_json, to_json

SOURCES = {
    "x.csv": text_files.csv_examples,
    "x.ndjson": text_files.json_examples,
    "x.npy": binary_files.array_examples,
    "x.npz": binary_files.npz_examples,
    "x.parquet": binary_files.parquet_examples,
    "x.arrow": binary_files.arrow_examples,
    "x.zip": binary_files.zip_examples,
}
DOTTED = 20 << 20  # bytes: Python's parser takes the square of the parts of a dotted key
FOLDER = "folder.csv"  # files with consecutive names
BROKERS: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "kafka": ({"offsets": kafka.OFFSETS}, kafka.FACTS, broker_messages.parse_kafka),
    "mqtt": (mqtt.POSITION, mqtt.FACTS, broker_messages.parse_mqtt),
    "redis": (redis_streams.POSITION, redis_streams.FACTS, broker_messages.parse_redis),
}
TOML = (
    *(
        "nan",
        "-inf",
        "true",
        "1979-05-27",
        '"\\u0000"',
        '"\\u001b[2J"',
        "[]",
        "[[1]]",
        "{a = 1}",
        "''' x",
        "0x" + "f" * 9000,
    ),
    *(DIGITS, f"-{DIGITS}", DEEP, "{a=" * 2000 + "1" + "}" * 2000, "1e999", '"x', "", "00", '["a", 1, 2.5]'),
)


@cache
def settings_examples() -> list[bytes]:
    """Return settings as runs write them, and as people do."""
    own = 'source = "x.csv"\ncomponents = 4\nhalf-life = 1e5\ncolumns = ["a", "b"]\nquiet = true\n'
    return [(own + "[train]\npasses = 2\n[watch]\nfdr = 0.05\n").encode(), own.encode(), b"[train]\nkeep = 3\n"]


def change_setting(rng: Random, content: bytes) -> bytes:
    """Give a setting another value, or a value another name."""
    lines = content.decode("utf8", "replace").split("\n")
    at = rng.randrange(len(lines))
    name, _, value = lines[at].partition(" = ")
    if rng.random() < 0.2:
        name = rng.choice(
            ("train", "config", "resume", "seed", "out", "", '"\\u001b"', ".".join("a" * 2000), "x" * 9000)
        )
    lines[at] = f"{name} = {rng.choice(TOML) if rng.random() < 0.8 else value}"
    return "\n".join(lines).encode()


def try_settings(path: Path) -> None:
    """Parse a command line with these settings, as far as a folder that is not empty."""
    out = path.parent / "taken"
    out.mkdir(exist_ok=True)
    (out / "x").touch()
    invoke("train", "--config", path, "--out", out)


@cache
def delivery_examples() -> list[bytes]:
    """Return notes on up to where targets have the alerts."""
    return [b'{"v": 1, "places": {"here": 13, "file:x#1": 20}}', b'{"v": 1, "places": {}}']


def change_note(rng: Random, content: bytes) -> bytes:
    """Change the JSON value."""
    try:
        return to_json(mutate_json(rng, json.loads(content))).encode()
    except (ValueError, RecursionError):
        return to_json(rng.choice(NASTY)).encode()


def try_deliveries(path: Path) -> None:
    """Open an outbox with this note; nobody is sent less than what waits."""
    from streamgmm.sinks.alerts import Outbox
    from streamgmm.sinks.alerts.outbox import DELIVERED
    from streamgmm.storage.alert_log import ALERTS

    (path.parent / ALERTS).write_bytes(text_files.alert_examples()[0])
    (path.parent / DELIVERED).write_bytes(path.read_bytes())
    with Outbox(path.parent, [], lambda text: None) as outbox:
        assert outbox.sync() > 0


@cache
def position_examples() -> list[bytes]:
    """Return positions in sources of all kinds: in their order, shuffled, and as brokers have them."""
    import tempfile

    found = []
    with tempfile.TemporaryDirectory() as place:
        for name in (*SOURCES, FOLDER):
            for source in _opened(Path(place), name):
                kind = name if not isinstance(source, ShuffledSource) else f"shuffled {name}"
                found += [_packed(kind, chunk.position) for chunk in list(source.chunks())[:1]]
    json_facts, row = {"json": True, "width": None}, {"row": 6}
    found.append(_packed("kafka", {**row, "offsets": {"0": 3, "1": 3}, "turn": 1, "block": 100, **json_facts}))
    found.append(_packed("kafka", {**row, "offsets": {"0": 6}, "turn": 0, "block": 9, "json": False, "width": 12}))
    texts = {"latest": {"plant/a": "1.5"}, "round": {"plant/b": "2"}}
    found.append(_packed("mqtt", {**row, "messages": 6, "client": "x", "rows": "topics", **texts, **json_facts}))
    entry = {"entry": "15-0", "added": 6, "most": 10, "columns": False, "field": "row"}
    return [*found, _packed("redis", {**row, **entry, **json_facts})]


def _packed(kind: str, position: Any) -> bytes:
    return json.dumps({"kind": kind, "position": position}).encode()


def _opened(folder: Path, name: str) -> list[Source]:
    """Open a source, in its order and shuffled if it can be."""
    path = folder / name
    if name == FOLDER:
        path.mkdir(exist_ok=True)
        for number in range(3):
            (path / f"{number}.csv").write_bytes(text_files.csv_examples()[0])
    elif not path.exists():
        path.write_bytes(SOURCES[name]()[0])
    source = open_source(str(path), skip_bad=True)
    return [source, *([ShuffledSource(source, 3)] if source.seekable else [])]


def change_position(rng: Random, content: bytes) -> bytes:
    """Change a position, or take it to another source."""
    facts = json.loads(content)
    if rng.random() < 0.1:
        facts["kind"] = rng.choice((*SOURCES, FOLDER, f"shuffled {FOLDER}", *BROKERS))
    with suppress(RecursionError):  # of a nested value that was put into another one
        for _ in range(rng.choice((1, 1, 2))):
            facts["position"] = mutate_json(rng, facts["position"])
    return to_json(facts).encode()


def try_position(path: Path) -> None:
    """Continue to read from a position."""
    try:
        facts = json.loads(path.read_bytes())
    except RecursionError:
        return
    kind, position = facts["kind"], facts["position"]
    if not isinstance(position, dict) or not isinstance(position.get("row"), int):
        return  # which a model file is checked for
    try:
        if kind in BROKERS:
            required, others, parse = BROKERS[kind]
            check_position(position, required, kind, others)
            parse(broker_messages.bodies()[0], ReadOptions(skip_bad=True), position)
            return
        source = _opened(path.parent, kind.removeprefix("shuffled "))[-1 if kind.startswith("shuffled") else 0]
        total = sum(len(chunk.rows) for chunk in source.chunks(position))
        assert total <= 1000, "rows were read again and again"
    except SourceError:
        return


RUN_FILES = (
    Format(
        "settings", ".toml", settings_examples, (flip_bytes, cut_bytes, *4 * (change_setting,)), try_settings, DOTTED
    ),
    Format("deliveries", ".json", delivery_examples, (flip_bytes, cut_bytes, *4 * (change_note,)), try_deliveries),
    Format("position", ".json", position_examples, (change_position,), try_position),
)
