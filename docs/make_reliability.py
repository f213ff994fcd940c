"""Disturb runs in every way that the tests know, and write what happened to docs/reliability.md.

Run it as ``python docs/make_reliability.py``; ``--every`` lets each operation fail once instead of a few of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.chaos import test_faults  # noqa: E402
from tests.chaos.broker_disturbances import BROKERS, OUTAGES  # noqa: E402
from tests.chaos.disturbances import DISTURBANCES, write_rows  # noqa: E402
from tests.chaos.faults import FAULTS  # noqa: E402
from tests.commands.command_line import streamgmm  # noqa: E402

INTRODUCTION = """# Reliability

What happens to a run when the machine or its data fail. `python docs/make_reliability.py --every` writes this page: it
disturbs runs, and fails if anything is lost, learned twice or not reported. *Same bits* means that the model file of
the resumed run holds the same numbers as that of an undisturbed run. If files cannot be linked, the run copies them and
continues. If the record of delivered alerts cannot be read, alerts are delivered again.

"""
DISKS = """## Disks

| command | fault | operations that failed | stopped, with a message | in the end |
|---|---|---|---|---|
"""
TABLES = {"Sources, clocks and processes": DISTURBANCES, "Brokers": {**OUTAGES, **BROKERS}}
PROMISES = """
## What else holds

- **Kills.** A run that is killed at any moment resumes from its last checkpoint to the same bits
  (`tests/chaos/test_kills.py`, with brokers `tests/chaos/test_broker_kills.py`, with alerts
  `tests/chaos/test_alert_kills.py`).
- **Hostile files.** Model files are checked as a whole before anything is built from them. `python -m tests.fuzz`
  mutates model files, stacks, messages of rounds, positions, settings, notes on deliveries, events, alerts, tables,
  arrays, images and messages of brokers; each case has 5 seconds, and ten times the size of its file in memory beside
  2 MB, which Python's allocator may take at once (64 MB for pictures and images, 20 MB for settings, whose dotted keys
  Python's parser takes the square of). The peak of memory is measured for each case alone. Models are scored, asked for
  samples and missing values, converted to ONNX, continued, saved, drawn and shown on the page; checkpoints are resumed
  and rolled back, and rows judged, also by the commands. Lines of CSV give the same numbers together and one by one.
  What it ever found is in `tests/fuzz/seeds`.
- **Readable files.** What could not be loaded again is not saved: a sentence says why, and the last good file stays.
- **Long runs.** `python -m tests.chaos.long_stream --hours 12` watches a log a thousand times faster than it would
  grow, with rotations, silence, floods, bursts, bad rows, outages of the log and of the target of alerts, and a
  restart every hour. Every row is learned once; memory and descriptors stay as they are. An event file that passes
  1 MB is thinned to half of it: of the kind of events that takes most room, every second one goes. Of alerts, the
  latest 10,000 are kept.
- **Nothing silent.** Options of a command that have no effect are named. A followed file that is gone for five seconds
  is named, and named again when it is back. If the record of deliveries cannot be read, the run says that alerts are
  sent again. Only the page skips what it cannot read, such as lines of events that no run has written, without a word.
- **Bombs.** A line of a compressed text, an image in a zip file, an array in an `.npz` file or a column in a group of
  a Parquet file may expand to 256 MB, or to more if it is less than 100 times its compressed size.
  An image may also have no more pixels than a file of its length can store: 8,256 in each byte of a PNG file, 512 of
  JPEG, 2,560 of GIF, 128 of BMP, 25,000 of WebP. `STREAMGMM_MOST_BYTES` raises these limits. Compressed Arrow files are
  limited by memory alone.
- **Links.** Links that lead out of a folder of images are not followed.
- **Text from outside.** Terminals get no control characters. Ids that a spreadsheet would compute get an apostrophe in
  front of them in CSV files; `streamgmm score --formulas` keeps them.
- **Brokers.** The Kafka brokers of these tests are librdkafka's own mock, over real sockets: its leaders, outages and
  retention are steered through its C functions. It cannot add partitions; a run that did not know them yet is resumed
  instead. Mosquitto and Redis are real servers. `make soak` repeats the outages with a minute each.
- **Kernels.** `make sanitize` runs their tests and the laws under AddressSanitizer and UBSan for every vector width.
  `make valgrind` looks for reads of uninitialised memory.
- **Threads.** Several threads may use one scikit-learn estimator. `partial_fit` and `save` take turns; `predict` and
  other questions are answered by the model of one moment, before or after a `partial_fit` that is under way. Pickle an
  estimator between two calls of `partial_fit`, not during one.
- **Processes.** A forked process, and one that got a pickled estimator, continues on its own.
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", action="store_true", help="let every operation fail once; takes some minutes")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    text = INTRODUCTION + DISKS
    with tempfile.TemporaryDirectory() as place:
        source = write_rows(Path(place))
        for command, settings in test_faults.COMMANDS.items():
            whole = Path(place) / f"whole-{command}"
            streamgmm(command, source, "--out", whole, *settings)
            for number, fault in enumerate(FAULTS):
                folder = Path(place) / f"{command}-{number}"
                folder.mkdir()
                most = 1000 if chosen.every else 4
                tried, stopped = test_faults.fail_and_resume(command, fault, source, whole, folder, most)
                if tried:
                    text += f"| `{command}` | {fault} | {tried} | {stopped} | same bits |\n"
        for title, disturbances in TABLES.items():
            text += f"\n## {title}\n\n| disturbance | what happens |\n|---|---|\n"
            for what, disturb in disturbances.items():
                folder = Path(place) / what.replace("/", " ")
                folder.mkdir()
                text += f"| {what} | {disturb(folder)} |\n"
    (ROOT / "docs" / "reliability.md").write_text(text + PROMISES)


if __name__ == "__main__":
    main()
