"""Text: CSV and NDJSON as sources, events as the page reads them, alerts as a resumed run reads them."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from streamgmm.errors import SourceError
from streamgmm.sources import open_source
from streamgmm.sources.base import ReadOptions
from streamgmm.sources.csv_lines import CsvParser
from streamgmm.sources.line_parser import LineError
from tests.fuzz.formats import DEEP, NASTY, Format, Mutation, cut_bytes, flip_bytes, mutate_json, to_json

CANVAS = 64 << 20  # bytes that a picture may take, whatever it shows
CELLS = (
    *("", "NA", "nan", "inf", "-inf", "1e400", "1e-400", "0x10", "1_000", "١٢", "=1+1", "+1", '"', '""', '"a', "a\tb"),
    *("\x00", "\x1b[2J", "\r", ";", "1;2", "9" * 400, "é", "\ufeff", "true", " 1 ", "1,5"),
)

SEPARATORS = (b",", b";", b"\t")


@cache
def csv_examples() -> list[bytes]:
    """Return tables with and without heading, quotes and gaps, as spreadsheets of several countries write them."""
    x = np.random.default_rng(0).normal(size=(30, 3)).round(3)
    rows = "\n".join(",".join(map(str, row)) for row in x)
    quoted = "\n".join(f'"id {i}",' + ",".join(f'"{v}"' for v in row) for i, row in enumerate(x))
    commas = rows.replace(",", ";").replace(".", ",")
    named = "\n".join(f'"n;{i}";' + line for i, line in enumerate(commas.split("\n")))
    texts = [f"a,b,c\n{rows}\n", rows, f"name,a,b,c\n{quoted}\n", f"a;b;c\n{rows.replace(',', ';')}\n"]
    texts += [f"a;b;c\n{commas}\n", commas, f'"id";"a;1";b;c\n{named}\n', f"a\tb\tc\n{rows.replace(',', chr(9))}\n"]
    return [text.encode() for text in texts] + [texts[i].replace("\n", "\r\n").encode("utf-8-sig") for i in (0, 4)]


@cache
def json_examples() -> list[bytes]:
    """Return objects and arrays, one per line."""
    x = np.random.default_rng(0).normal(size=(30, 3)).round(3).tolist()
    objects = [{"id": f"n{i}", **dict(zip("abc", row, strict=True))} for i, row in enumerate(x)]
    return ["".join(json.dumps(row) + "\n" for row in rows).encode() for rows in (x, objects)]


@cache
def event_examples() -> list[bytes]:
    """Return the events of a run."""
    from streamgmm.core.control import Check
    from streamgmm.storage import events
    from streamgmm.storage.event_thinning import thin

    checks = [Check(100 * i, -3.0 + 0.1 * i, -4.0, 2.0 / (i + 1), 0.1, 4, False) for i in range(20)]
    kinds = ["start", *["check"] * 15, "drift", "checkpoint", "stop", "end"]
    records = [events.record(kind, check, i * 0.5) for i, (kind, check) in enumerate(zip(kinds, checks, strict=True))]
    whole = events.lines(records).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        path.write_bytes(whole)
        thin(path, 3000, 3000)
        return [whole, path.read_bytes()]


@cache
def alert_examples() -> list[bytes]:
    """Return the log of alerts of a run."""
    reason = {"feature": "a", "share": 0.5, "value": 1.0, "expected": 0.0, "low": -1.0, "high": 1.0}
    alerts = [{"id": f"run:{i}", "state": "row", "run": "run", "row": i, "explain": [reason]} for i in range(20)]
    alerts.append({"id": "run:19", "state": "close", "row": 25, "first_row": 19, "count": 2, "min_p_value": 0.001})
    return [b'{"v": 1, "removed": 120}\n' + "".join(json.dumps(a) + "\n" for a in alerts).encode()]


def change_cell(rng: Random, content: bytes) -> bytes:
    """Replace a cell of a table, or put it between quotes."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    separator = max(SEPARATORS, key=lines[at].count)
    cells = lines[at].split(separator)
    place = rng.randrange(len(cells))
    cells[place] = b'"' + cells[place] + b'"' if rng.random() < 0.1 else rng.choice(CELLS).encode()
    lines[at] = separator.join(cells)
    return b"\n".join(lines)


def change_separators(rng: Random, content: bytes) -> bytes:
    """Write one line, some or all with other separators, decimal marks, line breaks or byte order marks."""
    lines = content.split(b"\n")
    share = rng.choice((0.0, 0.1, 0.5, 1.0))
    chosen = {rng.randrange(len(lines)), *(i for i in range(len(lines)) if rng.random() < share)}
    old, new = rng.choice(
        (
            *((a, b) for a in SEPARATORS for b in SEPARATORS if a != b),
            *((b".", b","), (b",", b"."), (b";", b";;"), (b",", b"\t,"), (b"\t", b" \t "), (b"", b"\xef\xbb\xbf")),
            *((b"\n", b"\r"), (b'"', b""), (b'"', b"'"), (b";", b'";"'), (b",", b'","')),
        )
    )
    for i in chosen:
        lines[i] = (lines[i] + b"\n").replace(old, new, -1 if old else 1).removesuffix(b"\n")
    return b"\n".join(lines)


def change_line(rng: Random, content: bytes) -> bytes:
    """Replace, repeat, remove, move or lengthen a line."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif kind == 2:
        lines[at] = b",".join([lines[at]] * rng.choice((2, 50)))
    elif kind == 3:
        lines[at] = rng.choice(CELLS).encode()
    elif kind == 4:
        lines[at] = DEEP.encode()
    else:
        lines.insert(at, b"")
    return b"\n".join(lines)


def change_object(rng: Random, content: bytes) -> bytes:
    """Change the JSON value of a line."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        value = mutate_json(rng, json.loads(lines[at]))
    except (ValueError, RecursionError):
        value = rng.choice(NASTY)
    lines[at] = to_json(value, ensure_ascii=rng.random() < 0.5).encode("utf8", "surrogatepass")
    return b"\n".join(lines)


def read_all(path: Path) -> None:
    """Read a source in its order and shuffled, with and without bad rows and gaps, and once from the middle."""
    for options in ({}, {"skip_bad": True, "missing": True}, {"skip_bad": True, "id_column": "id"}):
        try:
            source = open_source(str(path), **options)
            positions = [chunk.position for chunk in source.chunks()]
            for position in positions[:1]:
                list(source.chunks(json.loads(json.dumps(position))))
            if source.seekable:
                source.blocks()
        except SourceError:
            continue


def try_compressed(path: Path) -> None:
    """Read the same text from a compressed file, half of which is damaged."""
    packed = path.with_name(f"{path.name}.gz")
    content = gzip.compress(path.read_bytes(), 1, mtime=0)
    number = sum(content) % len(content)
    packed.write_bytes(content if number % 2 else content[:number] + bytes([number % 256]) + content[number + 1 :])
    read_all(path)
    read_all(packed)


def try_table(path: Path) -> None:
    """Read a table from plain and compressed files; whether lines are parsed together or one by one is the same."""
    try_compressed(path)
    for options in (ReadOptions(skip_bad=True), ReadOptions(skip_bad=True, missing=True)):
        parser, lines = CsvParser(path.name, options), io.BytesIO(path.read_bytes()).readlines()
        try:
            first = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
            lines = lines[first + parser.read_heading(lines[first]) :] if lines[first:] else []
            together = [parser.chunk(lines, 0, {"row": len(lines)})]
        except (LineError, SourceError):
            continue
        parser.expect_many_lines()
        together.append(parser.chunk(lines, 0, {"row": len(lines)}))
        apart = [parser.chunk([line], i, {"row": i + 1}) for i, line in enumerate(lines)]
        for chunk in together if lines else ():
            assert np.array_equal(chunk.numbers, np.concatenate([part.numbers for part in apart])), "other rows"
            rows = np.concatenate([part.rows for part in apart])
            assert np.array_equal(chunk.rows, rows, equal_nan=True), "other numbers"


def try_events(path: Path) -> None:
    """Show a run with these events on the page, and thin and cut the file as runs do."""
    from streamgmm.dashboard.follower import Follower
    from streamgmm.storage import events
    from streamgmm.storage.event_thinning import cut, thin, written

    content = path.read_bytes()
    list(events.read(path))
    folder = path.parent / "run"
    folder.mkdir(exist_ok=True)
    copy = folder / "events.jsonl"
    copy.write_bytes(content)
    follower = Follower(folder)
    follower.poll()
    assert follower.state
    json.dumps(follower.history.points)
    before = written(copy)
    thin(copy, before // 2, 1000)
    assert written(copy) == before, "thinning has changed what a place means"
    for place in (before, before // 3, 0):
        cut(copy, place, 500)


def try_curve(path: Path) -> None:
    """Draw these events."""
    from streamgmm import plots
    from streamgmm.storage import events

    plots.curve(list(events.read(path))).savefig(io.BytesIO(), dpi=50)


def try_alerts(path: Path) -> None:
    """Show alerts on the page, and open their log as runs do that resume, then append and read."""
    from streamgmm.dashboard.alerts import read_alerts
    from streamgmm.errors import StreamGMMError
    from streamgmm.storage.alert_log import ALERTS, AlertLog

    read_alerts(path)
    for length in (None, 0, 300, 10_000):
        (path.parent / ALERTS).write_bytes(path.read_bytes())
        try:
            log = AlertLog(path.parent, length)
        except StreamGMMError:
            continue
        try:
            log.append([b'{"id": "new"}\n'])
            assert log.sync() == log.length
            assert log.read(log.first, 10_000)[-1] == b'{"id": "new"}\n'
            log.release(log.length, log.length)
        finally:
            log.close()


def _text(name: str, suffix: str, examples: Callable[[], list[bytes]], *own: Mutation) -> Format:
    trials = {"csv": try_table, "events": try_events, "alerts": try_alerts, "curve": try_curve}
    trial = trials.get(name, try_compressed)
    form = Format(name, suffix, examples, (flip_bytes, cut_bytes, change_line, *3 * own), trial)
    return form._replace(margin=CANVAS) if name == "curve" else form


TEXTS = (
    _text("csv", ".csv", csv_examples, change_cell, change_separators),
    _text("ndjson", ".ndjson", json_examples, change_object),
    _text("events", ".jsonl", event_examples, change_object),
    _text("curve", ".jsonl", event_examples, change_object),
    _text("alerts", ".ndjson", alert_examples, change_object),
)
