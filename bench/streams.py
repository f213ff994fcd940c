"""Whole runs from files and from a broker, checkpoints included, against the same rows from memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench import work
from bench.report import Table
from streamgmm import StreamingGaussianMixture
from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.train import RunOptions, TrainingRun
from streamgmm.sources import open_source

ROWS = 24_000  # of 784 float32 each: as many as a mock broker keeps, compressed

BROKER = """
import sys, confluent_kafka, numpy
producer = confluent_kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0,
                                     "compression.type": "lz4", "linger.ms": 50})
address = next(f"{b.host}:{b.port}" for b in producer.list_topics(timeout=10).brokers.values())
for i, row in enumerate(numpy.load(sys.argv[1])):
    producer.produce("x", row.tobytes(), partition=i % 4)
producer.flush(30)
print(f"kafka://{address}/x", flush=True)
sys.stdin.read()
"""


def sources(quick: bool) -> list[Table]:
    """Compare runs from several sources with training from memory.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer passes and rounds.
    """
    table = Table(
        "Training from a stream",
        "K=64, D=784, MNIST rows as float32: rows per second of a whole run (reading, learning, scoring every "
        f"sixteenth row for the anomaly threshold, events, checkpoints) over {ROWS:,} rows, repeated, ÷ partial_fit "
        "on the same array in memory. Parquet files contain all repetitions; other sources are read again. Parquet: "
        "a column of vectors that may be null, with pyarrow's defaults (dictionary, snappy). Parquet, plain: no "
        "nulls, no dictionary, lz4. Parquet, columns: 784 columns, with pyarrow's defaults. Kafka: librdkafka's mock "
        "broker in another process on the same two cores, messages compressed with lz4. 'CPU ÷ memory': CPU time for a "
        "row, of all threads of the run, ÷ that of partial_fit; 'cores': CPU time ÷ time, that of the broker included. "
        "A run that needs c times the CPU of partial_fit can reach 2/c of its rate on two cores; where 'cores' is near "
        "2, they are full.",
        ["rule", "source", "rows/s", "÷ memory", "÷ memory, least", "÷ memory, most", "CPU ÷ memory", "cores"],
    )
    x = np.ascontiguousarray(work.images(count=ROWS)[1], dtype=np.float32)
    passes, rounds = (5, 2) if quick else (12, 5)
    with tempfile.TemporaryDirectory() as name, _made(Path(name), x, passes) as (names, broker):
        for rule in ("natural", "sgd"):
            found: dict[str, list[_Cost]] = {label: [] for label in names}
            memory = list[_Cost]()
            for turn in range(rounds):
                memory.append(_cost(lambda rule=rule: _in_memory(x, rule, passes)))
                for label, source in names.items():
                    folder = Path(name) / f"{rule}-{label}-{turn}"
                    times = 1 if source.endswith(".parquet") else passes
                    found[label].append(_cost(_run(source, rule, folder, times), broker))
            for label, costs in found.items():
                rates = [one.seconds / cost.seconds for one, cost in zip(memory, costs, strict=True)]
                busy = np.median([cost.cpu / one.cpu for one, cost in zip(memory, costs, strict=True)])
                cores = np.median([(cost.cpu + cost.broker) / cost.seconds for cost in costs])
                speed = ROWS * passes / np.median([cost.seconds for cost in costs])
                middle = float(np.median(rates))
                table.add(rule, label, f"{speed:,.0f}", middle, min(rates), max(rates), float(busy), float(cores))
    return [table]


class _Cost(NamedTuple):
    seconds: float
    cpu: float
    broker: float  # CPU seconds of the broker's process


def _cost(run: Callable[[], None], broker: int | None = None) -> _Cost:
    begin, busy, serving = time.perf_counter(), time.process_time(), _cpu_seconds(broker)
    run()
    return _Cost(time.perf_counter() - begin, time.process_time() - busy, _cpu_seconds(broker) - serving)


def _cpu_seconds(process: int | None) -> float:
    """Return the CPU time of another process so far; 0 where the system does not tell."""
    stat = Path(f"/proc/{process}/stat")
    if process is None or not stat.exists():
        return 0.0
    fields = stat.read_text("utf8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _in_memory(x: np.ndarray, rule: str, passes: int) -> None:
    model = StreamingGaussianMixture(64, rule=rule, random_state=0)
    for _ in range(passes):
        model.partial_fit(x)


def _run(source: str, rule: str, folder: Path, passes: int) -> Callable[[], None]:
    def go() -> None:
        folder.mkdir()
        settings, options = Settings(rule=rule), RunOptions(passes=passes)
        run = TrainingRun(folder, open_source(source), settings, Serial(), options)
        for _ in run.go():
            pass
        if run.progress.samples % ROWS:  # a mock broker drops what it has no room for
            raise RuntimeError(f"{source} has brought {run.progress.samples:,} rows; expected multiples of {ROWS:,}.")

    return go


@contextmanager
def _made(folder: Path, x: np.ndarray, passes: int) -> Iterator[tuple[dict[str, str], int]]:
    """Write the same rows in every form, and yield names and sources, and the process of the broker.

    Parquet files contain all passes.
    """
    np.save(folder / "x.npy", x)
    default = _parquet(folder / "default.parquet", x, passes, nullable=True)
    plain = _parquet(folder / "plain.parquet", x, passes, nullable=False, use_dictionary=False, compression="lz4")
    columns = _columns(folder / "columns.parquet", x, passes)
    broker = subprocess.Popen(
        [sys.executable, "-c", BROKER, str(folder / "x.npy")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert broker.stdout is not None
    try:
        kafka = broker.stdout.readline().strip()
        names = {
            "npy": str(folder / "x.npy"),
            "Parquet": str(default),
            "Parquet, plain": str(plain),
            "Parquet, columns": str(columns),
            "Kafka": kafka,
        }
        yield names, broker.pid
    finally:
        broker.kill()
        broker.wait()


def _columns(path: Path, x: np.ndarray, passes: int) -> Path:
    """Write rows as a table with one column per feature, ``passes`` times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({f"x{i}": np.ascontiguousarray(column) for i, column in enumerate(x.T)})
    with pq.ParquetWriter(path, table.schema) as file:
        for _ in range(passes):
            file.write_table(table)
    return path


def _parquet(path: Path, x: np.ndarray, passes: int, *, nullable: bool, **form: Any) -> Path:
    """Write rows as one column of vectors, ``passes`` times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = pa.list_(pa.field("item", pa.float32(), nullable), x.shape[1])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), type=kind)
    table = pa.table([vectors], schema=pa.schema([pa.field("x", kind, nullable)]))
    with pq.ParquetWriter(path, table.schema, **form) as file:
        for _ in range(passes):
            file.write_table(table, row_group_size=2000)
    return path
