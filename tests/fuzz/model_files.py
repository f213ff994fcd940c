"""Model files: mutations of bytes, of the header and of tensors; everything that reads a model tries them."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from onnx.numpy_helper import to_array
from safetensors.numpy import load, save

from streamgmm import ModelFileError, StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.errors import StreamGMMError
from tests.fuzz.formats import DEEP, Format, cut_bytes, flip_bytes, mutate_json, to_json
from tests.fuzz.model_examples import TABLE, examples, run_in, table, watcher_in

ROWS = np.random.default_rng(5).normal(0.5, 0.2, (70, 3))
NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e-320, 1e16, 1e37, 1e300, -1e300, 2.0**63)


def split_parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header of a safetensors file, and the bytes after it."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def join_parts(header: Any, data: bytes) -> bytes:
    """Return the file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode("utf8", "replace")
    return len(text).to_bytes(8, "little") + text + data


def change_header(rng: Random, content: bytes) -> bytes:
    """Change the JSON text that describes the model."""
    try:
        header, data = split_parts(content)
        [key] = header["__metadata__"]
        known = json.loads(header["__metadata__"][key])
    except (ValueError, KeyError, TypeError, RecursionError):
        return flip_bytes(rng, content)
    if rng.random() < 0.02:
        header["__metadata__"][key] = rng.choice((DEEP, '{"run": ' + DEEP + "}", "NaN", "3", ""))
    else:
        header["__metadata__"][key] = to_json(mutate_json(rng, known))
    return join_parts(header, data)


def change_layout(rng: Random, content: bytes) -> bytes:
    """Change what safetensors says about itself: names, types, shapes and places of tensors."""
    try:
        header, data = split_parts(content)
    except (ValueError, RecursionError):
        return cut_bytes(rng, content)
    return join_parts(mutate_json(rng, header), data)


def change_tensor(rng: Random, content: bytes) -> bytes:
    """Change values, the type or the shape of a tensor, or remove it."""
    try:
        tensors, metadata = load(content), split_parts(content)[0]["__metadata__"]
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
            number = odd_number(rng.choice(NUMBERS), value.dtype)
            if kind == 5:
                value[...] = number
            else:
                value.reshape(-1)[rng.randrange(value.size)] = number
            tensors[name] = value
    return save(tensors, metadata)


def odd_number(number: float, dtype: np.dtype[Any]) -> float:
    """Return a number as one that fits into a type."""
    if dtype.kind not in "iu":
        return number
    bounds = np.iinfo(dtype)
    whole = int(np.clip(number, -1e18, 1e18)) if np.isfinite(number) else int(bounds.max)
    return min(max(whole, int(bounds.min)), int(bounds.max))


def try_model(path: Path) -> None:
    """Load a model, then score, learn, save and describe it; show it on the page; look at it as a checkpoint."""
    from streamgmm.dashboard.follower import read_model
    from streamgmm.storage import load_model
    from streamgmm.storage.versions import Version

    read_model(path)
    with suppress(ModelFileError):
        assert Version(path.stem, path, datetime.now(UTC)).samples >= 0
    saved = load_model(path)  # what is refused here is refused by everything below, too
    with suppress(ModelFileError):
        _judge(StreamingAnomalyDetector.load(path))
    _describe(saved, path)
    model = StreamingGaussianMixture.load(path)
    if model.n_features_in_ > 100:
        return
    rows = np.resize(ROWS, (len(ROWS), model.n_features_in_))
    assert not np.isnan(saved.mixture.log_prob(rows)).any(), "a score in the units of the source is NaN"
    scores = model.score_samples(rows)
    assert not np.isnan(scores).any(), "a score is NaN"
    model.predict(rows)
    _ask(saved, model, rows)
    model.partial_fit(rows)
    model.save(path.with_name("again.safetensors"))
    StreamingGaussianMixture.load(path.with_name("again.safetensors"))


def _ask(saved: Any, model: StreamingGaussianMixture, rows: np.ndarray) -> None:
    """Draw samples, fill in gaps, explain rows and convert the model, in the units of the source."""
    gaps = np.where(np.arange(rows.size).reshape(rows.shape) % 4, rows, np.nan)[:10]
    for mixture in (model.mixture_, saved.mixture):
        assert not np.isnan(mixture.sample(5, 0)[0]).any(), "a sample is NaN"
        assert not np.isnan(mixture.impute(gaps)).any(), "a filled gap is NaN"
        mixture.explain(rows[:2], saved.feature_names, 2)
    if model.mixture_.covariance_type == "diag":
        graph = model.to_onnx().graph
        assert all(np.isfinite(to_array(constant)).all() for constant in graph.initializer), "ONNX holds NaN"


def _judge(detector: StreamingAnomalyDetector) -> None:
    if detector.n_features_in_ <= 100:
        rows = np.resize(ROWS, (len(ROWS), detector.n_features_in_))
        assert not np.isnan(detector.p_values(rows)).any(), "a p-value is NaN"
        detector.partial_fit(rows)


def _describe(saved: Any, path: Path) -> None:
    from streamgmm.runs.info import describe_model
    from streamgmm.runs.watch import WatchState
    from streamgmm.storage.run_folder import RunRecord

    json.dumps(describe_model(saved, path))
    if saved.run is not None:
        record = RunRecord.from_facts(saved.run)
        json.dumps(record.facts())
        state = None if record.watch is None else WatchState.from_facts(record.watch)
        if saved.trainer.n_features <= 100:
            _resume(saved, record, state, path.parent)


def _resume(saved: Any, record: Any, state: Any, folder: Path) -> None:
    """Continue a run for a few chunks of its source, and judge their rows if it did so before."""
    if not (folder / TABLE).exists():
        (folder / TABLE).write_text(table())
    try:
        with ExitStack() as after:
            watcher = None if state is None else after.enter_context(watcher_in(folder, state))
            run = run_in(folder, cluster=record.cluster is not None, watcher=watcher)
            run.resume(saved, record)
            for turn, _ in enumerate(run.go()):
                run.stop = lambda turn=turn: turn > 1
    except StreamGMMError:
        return


MODELS = Format(
    "model",
    ".safetensors",
    examples,
    (flip_bytes, cut_bytes, *2 * (change_layout,), *6 * (change_header,), *6 * (change_tensor,)),
    try_model,
)
