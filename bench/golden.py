"""Record the parameters of many training runs as hashes, and compare them after a change.

    python -m bench.golden record golden.json     # before
    python -m bench.golden compare golden.json    # after, on the same machine

Bits depend on the machine, the compiler and the vector width, so this is a command and not a test.
Only public names are used: the same file runs on both sides of a refactoring.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from streamgmm import Natural, StochasticEM, StreamingAnomalyDetector, StreamingGaussianMixture

RULES: dict[str, dict[str, Any]] = {"natural": {}, "sgd": {"tol": 0.05}, "sem": {}}  # the preset's tolerance
Run = Callable[[], list[Any]]


def clusters(rows: int, features: int = 20, seed: int = 0, shift: float = 0.0) -> np.ndarray:
    """Draw rows from twelve clusters in about [0, 1]."""
    centres = np.random.default_rng(7).random((12, features))
    rng = np.random.default_rng(seed)
    return np.asarray(centres[rng.integers(12, size=rows)] + shift + 0.1 * rng.standard_normal((rows, features)))


def changing(rows: int = 12_000) -> np.ndarray:
    """Two streams, one after the other: the second is a drift."""
    return np.concatenate([clusters(rows, seed=1), clusters(rows // 2, seed=2, shift=0.8)])


def with_gaps(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x[np.random.default_rng(3).random(x.shape) < 0.1] = np.nan
    return x


def learned(model: Any) -> list[Any]:
    """Everything public that training decides."""
    return [model.weights_, model.means_, model.precisions_, model.sigma_, model.learning_rate_, model.n_samples_seen_]


def streamed(x: np.ndarray, weights: np.ndarray | None = None, **settings: Any) -> list[Any]:
    model = StreamingGaussianMixture(random_state=5, **{"n_components": 16, "scale": "none", "n_epochs": 1, **settings})
    for part in np.array_split(np.arange(len(x)), 7):
        model.partial_fit(x[part], sample_weight=None if weights is None else weights[part])
    return [*learned(model), model.score_samples(x[:500])]


def fitted(x: np.ndarray, **settings: Any) -> list[Any]:
    return learned(StreamingGaussianMixture(16, scale="none", random_state=5, n_epochs=2, **settings).fit(x))


def detected(x: np.ndarray) -> list[Any]:
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(16, scale="none", random_state=5), contamination=0.02)
    for part in np.array_split(x, 5):
        detector.partial_fit(part)
    return [*learned(detector.mixture_), detector.offset_, detector.p_values(x[:300])]


def saved_and_loaded(x: np.ndarray, **settings: Any) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        StreamingGaussianMixture(16, scale="none", random_state=5, **settings).partial_fit(x[:777]).save(path)
        return learned(StreamingGaussianMixture.load(path).partial_fit(x[777:]))


def commanded(write: Callable[[Path], None], *runs: list[str]) -> list[Any]:
    """Train from a file by the command line, in one go or in several."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        program = str(Path(sys.executable).parent / "streamgmm")
        for options in runs:
            subprocess.run([program, "train", *options, "--out", "run"], cwd=folder, check=True, capture_output=True)
        return learned(StreamingGaussianMixture.load(Path(folder) / "run" / "model.safetensors"))


def write_csv(folder: Path) -> None:
    raw = clusters(5000, 6, seed=4) * [1, 10, 100, 0.1, 5, 1e4] + [0, 5, -20, 3, 0, 1e5]
    np.savetxt(folder / "raw.csv", raw, delimiter=",", header="a,b,c,d,e,f", comments="", fmt="%.8g")


def write_bytes(folder: Path) -> None:
    np.save(folder / "bytes.npy", np.clip(255 * clusters(4000), 0, 255).astype(np.uint8))


def runs() -> Iterator[tuple[str, Run]]:
    """Every run by name."""
    x = clusters(6000)
    for rule, dtype, batch, jobs in product(RULES, ("float32", "float64"), (1, 16), (1, 2)):
        settings = {"rule": rule, "batch_size": batch, "n_jobs": jobs, **RULES[rule]}
        yield f"{rule} {dtype} batch {batch} jobs {jobs}", lambda d=dtype, s=settings: streamed(x.astype(d), **s)
    counts = np.random.default_rng(6).integers(0, 4, len(x)) + np.random.default_rng(8).choice([0, 0.5], len(x))
    for rule, jobs in product(RULES, (1, 2)):
        both = {"rule": rule, "n_jobs": jobs, **RULES[rule]}
        yield f"{rule} gaps jobs {jobs}", lambda b=both: streamed(with_gaps(x), allow_nan=True, **b)
        yield (
            f"{rule} gaps batch 8 jobs {jobs}",
            lambda b=both: streamed(with_gaps(x), allow_nan=True, batch_size=8, **b),
        )
        yield f"{rule} weights jobs {jobs}", lambda b=both: streamed(x, counts, **b)
        yield f"{rule} reheat jobs {jobs}", lambda b=both: streamed(changing(), reheat=True, period=200, **b)
        yield f"{rule} fit jobs {jobs}", lambda b=both: fitted(x.astype(np.float32), **b)
        yield f"{rule} resumed jobs {jobs}", lambda b=both: saved_and_loaded(x, **b)
        if rule != "sgd":
            yield f"{rule} half-life jobs {jobs}", lambda b=both: streamed(changing(), half_life=3000, **b)
    yield "natural ring", lambda: streamed(x, grid="ring")
    yield "natural not annealed", lambda: streamed(x, annealing=False)
    yield "natural wide rows", lambda: streamed(clusters(3000, 300).astype(np.float32), n_components=25)
    yield "natural recruits", lambda: streamed(changing(), rule=Natural(recruits=0.2))
    yield "sem k-means", lambda: streamed(x, rule=StochasticEM(start_from="kmeans", accumulate=600))
    yield "one component", lambda: streamed(x, n_components=1)
    yield "detector", lambda: detected(x)
    csv = ["raw.csv", "--components", "9", "--scale", "standard", "--shuffle", "no"]
    yield "csv scaled", lambda: commanded(write_csv, [*csv, "--passes", "1"])
    yield (
        "csv scaled, two passes, resumed",
        lambda: commanded(write_csv, [*csv, "--passes", "2", "--samples", "2500"], [*csv, "--passes", "2", "--resume"]),
    )
    plain = ["bytes.npy", "--components", "9", "--scale", "none", "--shuffle", "no"]
    yield (
        "bytes, two passes, two threads",
        lambda: commanded(write_bytes, [*plain, "--passes", "2", "--jobs", "2"]),
    )


def digest(values: list[Any]) -> str:
    """A short hash of arrays and numbers, to the last bit."""
    found = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value)
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="runs whose name contains this")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    hashes = {name: digest(run()) for name, run in runs() if chosen.only in name}
    if chosen.action == "record":
        chosen.file.write_text(json.dumps(hashes, indent=1) + "\n")
        print(f"recorded {len(hashes)} runs in {chosen.file}")
        return
    known = {name: value for name, value in json.loads(chosen.file.read_text()).items() if chosen.only in name}
    different = [name for name in known.keys() | hashes.keys() if known.get(name) != hashes.get(name)]
    for name in sorted(different):
        print(f"different: {name} ({known.get(name)} → {hashes.get(name)})")
    print(f"{len(known) - len(different)} of {len(known)} runs are bit-identical")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
