"""Model files: mutations of bytes, of the header and of tensors; everything that reads a model tries them."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from streamgmm import ModelFileError, Natural, StochasticEM, StreamingAnomalyDetector, StreamingGaussianMixture
from tests.fuzz.formats import DEEP, Format, cut_bytes, flip_bytes, mutate_json

OLD = Path(__file__).parents[1] / "data" / "format2"
ROWS = np.random.default_rng(5).normal(0.5, 0.2, (70, 3))
NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-320, 1e16, 1e37, 1e300, -1e300, 2.0**63)


@cache
def examples() -> list[bytes]:
    """Return files of all rules, engines and stages of a training, of this format and the one before."""
    x = np.random.default_rng(0).normal(0.5, 0.2, (700, 3))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.safetensors"
        made = [_saved(path, model.partial_fit(rows)) for model, rows in _models(x)]
        detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, random_state=0)).fit(x)
        detector.save(path)
        made += [path.read_bytes(), _checkpoint(Path(place), x)]
    old = ("natural", "sem-accumulating", "threads-in-a-round", "detector", "run-scaled")
    return made + [(OLD / f"{name}.safetensors").read_bytes() for name in old]


def _models(x: np.ndarray) -> list[tuple[StreamingGaussianMixture, np.ndarray]]:
    with_gaps = np.where(np.random.default_rng(1).random(x.shape) < 0.1, np.nan, x)
    start = {"means_init": x[:4], "weights_init": [0.25] * 4}
    return [
        (StreamingGaussianMixture(4, batch_size=2, random_state=0), x[:701:1]),
        (StreamingGaussianMixture(4, rule="sgd", scale="none", random_state=0), x.astype(np.float32)),
        (StreamingGaussianMixture(4, rule="sem", random_state=0), x[:301]),
        (StreamingGaussianMixture(4, rule="sem", random_state=0), x),
        (StreamingGaussianMixture(4, rule=StochasticEM(start_from="kmeans"), random_state=0), x[:320]),
        (StreamingGaussianMixture(4, n_jobs=2, random_state=0, rule=Natural(half_life=500)), x[:633]),
        (StreamingGaussianMixture(4, allow_nan=True, reheat=True, random_state=0), with_gaps),
        (StreamingGaussianMixture(4, allow_nan=True, random_state=0, **start), with_gaps[:50]),
    ]


def _saved(path: Path, model: StreamingGaussianMixture) -> bytes:
    model.save(path)
    return path.read_bytes()


def _checkpoint(folder: Path, x: np.ndarray) -> bytes:
    """Return the checkpoint of a run, with what a run that watches its source adds to it."""
    from typer.testing import CliRunner

    from streamgmm.cli.app import app
    from streamgmm.monitoring import Burst
    from streamgmm.runs.watch import WatchState
    from streamgmm.storage import load_model, save_model

    lines = "\n".join(["a,b,c", *(",".join(map(str, row)) for row in np.vstack([x, x + 9.0]).round(4))])
    (folder / "x.csv").write_text(lines + "\n")
    command = ["train", str(folder / "x.csv"), "--out", str(folder / "run"), "--components", "4", "--passes", "1"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    saved = load_model(folder / "run" / "model.safetensors")
    burst = Burst("run:7", 2, 7, 9, "a", 3, 0.001)
    saved.run = {**(saved.run or {}), "watch": WatchState(burst, judged=900, flagged=9).facts()}
    save_model(folder / "watched.safetensors", saved)
    return (folder / "watched.safetensors").read_bytes()


def _parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def _joined(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode("utf8", "replace")
    return len(text).to_bytes(8, "little") + text + data


def change_header(rng: Random, content: bytes) -> bytes:
    """Change the JSON text that describes the model."""
    try:
        header, data = _parts(content)
        known = json.loads(header["__metadata__"]["streamgmm"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return flip_bytes(rng, content)
    if rng.random() < 0.02:
        header["__metadata__"]["streamgmm"] = rng.choice((DEEP, '{"run": ' + DEEP + "}", "NaN", "3", ""))
    else:
        header["__metadata__"]["streamgmm"] = json.dumps(mutate_json(rng, known))
    return _joined(header, data)


def change_layout(rng: Random, content: bytes) -> bytes:
    """Change what safetensors says about itself: names, types, shapes and places of tensors."""
    try:
        header, data = _parts(content)
    except (ValueError, RecursionError):
        return cut_bytes(rng, content)
    return _joined(mutate_json(rng, header), data)


def change_tensor(rng: Random, content: bytes) -> bytes:
    """Change values, the type or the shape of a tensor, or remove it."""
    try:
        tensors, metadata = load(content), _parts(content)[0]["__metadata__"]
        name = rng.choice(sorted(tensors))
    except Exception:
        return flip_bytes(rng, content)
    value = np.array(tensors[name])
    kind = rng.randrange(8)
    with np.errstate(all="ignore"):
        if kind == 0:
            del tensors[name]
        elif kind == 1:
            tensors[name] = value.astype(rng.choice(("f4", "f8", "i8", "u1", "?", "f2")))
        elif kind == 2:
            shapes = ((-1,), (1, *value.shape), (*value.shape, 1), value.shape[::-1])
            tensors[name] = np.ascontiguousarray(value.reshape(rng.choice(shapes)))
        elif kind == 3:
            times = rng.choice((0, 2, 3))
            tensors[name] = np.repeat(value, times, axis=0) if value.ndim else value
        elif kind == 4:
            tensors[rng.choice(sorted(tensors))] = value
        elif value.size:
            number = rng.choice(NUMBERS)
            bounds = np.iinfo(value.dtype) if value.dtype.kind in "iu" else None
            if bounds is not None:
                number = int(np.clip(number, -1e18, 1e18)) if np.isfinite(number) else bounds.max
                number = min(max(number, bounds.min), bounds.max)
            if kind == 5:
                value[...] = number
            else:
                value.reshape(-1)[rng.randrange(value.size)] = number
            tensors[name] = value
    return save(tensors, metadata)


def try_model(path: Path) -> None:
    """Load a model, then score, learn, save and describe it; show it on the page; look at it as a checkpoint."""
    from streamgmm.dashboard.follower import read_model
    from streamgmm.storage import load_model
    from streamgmm.storage.model_file import read_run_facts

    read_model(path)
    for read in (read_run_facts, StreamingAnomalyDetector.load):
        try:
            found = read(path)
        except ModelFileError:
            continue
        if isinstance(found, StreamingAnomalyDetector):
            _judge(found)
    try:
        saved = load_model(path)
    except ModelFileError:
        return
    _describe(saved, path)
    try:
        model = StreamingGaussianMixture.load(path)
    except ModelFileError:
        return
    if model.n_features_in_ > 100:
        return
    rows = np.resize(ROWS, (len(ROWS), model.n_features_in_))
    scores = model.score_samples(rows)
    assert not np.isnan(scores).any(), "a score is NaN"
    model.predict(rows)
    model.partial_fit(rows)
    model.save(path.with_name("again.safetensors"))
    StreamingGaussianMixture.load(path.with_name("again.safetensors"))


def _judge(detector: StreamingAnomalyDetector) -> None:
    if detector.n_features_in_ <= 100:
        rows = np.resize(ROWS, (len(ROWS), detector.n_features_in_))
        detector.p_values(rows)
        detector.partial_fit(rows)


def _describe(saved: Any, path: Path) -> None:
    from streamgmm.runs.info import describe_model
    from streamgmm.runs.watch import WatchState
    from streamgmm.storage.run_folder import RunRecord

    json.dumps(describe_model(saved, path))
    if saved.run is not None:
        record = RunRecord.from_facts(saved.run)
        json.dumps(record.facts())
        if record.watch is not None:
            WatchState.from_facts(record.watch)


MODELS = Format(
    "model",
    ".safetensors",
    examples,
    (flip_bytes, cut_bytes, *2 * (change_layout,), *6 * (change_header,), *6 * (change_tensor,)),
    try_model,
)
