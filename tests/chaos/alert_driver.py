"""A small watch: judge rows, group them, put alerts into the outbox, and write checkpoints.

    python -m tests.chaos.alert_driver FOLDER ROWS PACE TARGET...

It resumes from the checkpoint in FOLDER, handles a chunk of rows every PACE seconds, and ends once every target has all
alerts. What it tells people goes to standard output.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from streamgmm.monitoring import Burst, DiscoveryState, JudgedRows, discover, group_rows
from streamgmm.sinks.alerts import Alert, Outbox, close_alert, delivery, open_target
from streamgmm.storage.atomic import write_atomically

RUN, CHUNK, QUIET_ROWS = "chaos", 20, 6
CHECKPOINT_CHUNKS = 10


def p_values(first: int, count: int) -> np.ndarray:
    """p-values of rows, such that a burst is open at most checkpoints, and some discoveries depend on earlier ones."""
    numbers = np.arange(first, first + count)
    strange = (numbers // 7 * 2654435761 % 2**32) < 2**32 * 2 // 5
    low = np.where(numbers % 3 == 1, 4e-3, 1e-9 * (1 + numbers % 13))
    return np.where(strange, low, 0.5 + numbers % 7 / 20)


def alerts_of(
    first: int, count: int, state: DiscoveryState, burst: Burst | None
) -> tuple[list[Alert], DiscoveryState, Burst | None]:
    p = p_values(first, count)
    anomalous, state = discover(state, p)
    rows = JudgedRows(np.arange(first, first + count), anomalous, p)
    changes, burst = group_rows(RUN, burst, rows, QUIET_ROWS)
    made = []
    for change in changes:
        if change.state == "close":
            made.append(close_alert(RUN, change.burst))
        else:
            row = first + change.at
            made.append(Alert(change.burst.id, "open", RUN, row, f"row {row}", -9.0, -5.0, p[change.at], row % 4))
    return made, state, burst


def main(folder: Path, n_rows: int, pace: float, urls: list[str]) -> None:
    checkpoint = folder / "checkpoint.json"
    row, state, burst, length = 0, DiscoveryState(), None, 0
    if checkpoint.exists():
        facts = json.loads(checkpoint.read_bytes())
        row, length = facts["row"], facts["length"]
        state = DiscoveryState.from_facts(facts["state"])
        burst = None if facts["burst"] is None else Burst(**facts["burst"])
    delivery.FIRST_PAUSE = 0.02
    delivery.LONGEST_PAUSE = 1.0
    targets = [open_target(url) for url in urls]
    with Outbox(folder, targets, lambda text: print(text, flush=True), length=length, kept=50) as outbox:
        while row < n_rows:
            made, state, burst = alerts_of(row, CHUNK, state, burst)
            outbox.append(made)
            row += CHUNK
            if row // CHUNK % CHECKPOINT_CHUNKS == 0:
                length = outbox.sync()
                facts = {"row": row, "length": length, "state": state._asdict(), "burst": burst and burst._asdict()}
                write_atomically(checkpoint, json.dumps(facts).encode())
                outbox.commit(length)
            time.sleep(pace)
        while not outbox.drain(60):
            pass


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
