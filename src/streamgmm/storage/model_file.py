"""Model files: one safetensors file with everything that a training needs to continue.

A file holds tensors and one JSON text: no code, nothing to unpickle. All tensors share one name space; each part of a
model has a prefix of its own (``parameters.``, ``rule.``, ``engine.``, ``scaling.``, ``monitor.``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance import KINDS
from streamgmm.core.mixture import Mixture
from streamgmm.core.parameters import Parameters
from streamgmm.core.rules import RULES
from streamgmm.core.scaling import Scaling
from streamgmm.core.state import require_range
from streamgmm.core.trainer import Trainer
from streamgmm.engines import ENGINES, engine_from_settings
from streamgmm.errors import ModelFileError, Remedy
from streamgmm.monitoring import Monitor
from streamgmm.storage import format2
from streamgmm.storage.atomic import write_atomically
from streamgmm.storage.container import DAMAGE, ForeignFileError, plain, read_container, read_header, to_container
from streamgmm.storage.format3 import RUN, check_heading, check_model

FORMAT = 3
FACTORS = 1e-151, 1e300  # of a scaling: rows that can be learned do not differ by more, and means stay finite both ways


@dataclass
class SavedModel:
    """What a model file holds.

    Attributes
    ----------
    trainer : Trainer
        The whole training state.
    feature_names : list of str or None
        Names of the features, where the data had some.
    estimator : dict
        Parameters of the estimator that do not concern the trainer.
    scaling : Scaling or None
        How a run scales its rows before it learns them.
    monitor : Monitor or None
        What is typical of the stream.
    detector : dict or None
        Contamination, offset and the rest of weights of a detector.
    run : dict or None
        Where a run stands in its source.
    """

    trainer: Trainer
    feature_names: list[str] | None = None
    estimator: dict[str, Any] = field(default_factory=dict)
    scaling: Scaling | None = None
    monitor: Monitor | None = None
    detector: dict[str, Any] | None = None
    run: dict[str, Any] | None = None

    @property
    def mixture(self) -> Mixture:
        """The mixture in the units of the source, also if the run scales its rows."""
        if self.scaling is None:
            return self.trainer.mixture
        parameters, shift, factor = self.trainer.parameters, self.scaling.shift, self.scaling.factor
        tensors = parameters.kind.reframe(parameters.tensors.copy(), -shift * factor, 1 / factor)
        return Mixture(Parameters(parameters.kind, tensors.named(), parameters.logits))


def save_model(path: str | os.PathLike[str], saved: SavedModel, *, rows: bool = True) -> None:
    """Write a model atomically; raise ModelFileError rather than replace a good file by one that cannot be read.

    Parameters
    ----------
    path : str or path-like
        File to write.
    saved : SavedModel
        What to write.
    rows : bool, default=True
        Whether to write rows of the stream: those that the monitor keeps, and those that wait to be learned.
    """
    header, tensors = pack_model(saved, rows=rows)
    write_model_file(Path(path), header, tensors)


def write_model_file(path: Path, header: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write header and tensors atomically."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; create it first.")
    contiguous = {name: np.array(value, order="C") for name, value in tensors.items()}
    write_atomically(path, to_container(header, contiguous))


def pack_model(saved: SavedModel, *, rows: bool = True) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return header and tensors of a model; raise ModelFileError for what could not be read again."""
    trainer, rule = saved.trainer, saved.trainer.rule
    trainer.settle()
    header = {
        "format": FORMAT,
        "trainer": trainer.facts(),
        "engine": {**trainer.engine.settings(), "module": type(trainer.engine).__module__},
        "rule": {"name": rule.name, "module": type(rule).__module__},
        "covariance": {"name": trainer.parameters.kind.name, "module": type(trainer.parameters.kind).__module__},
        "feature_names": saved.feature_names,
        "estimator": saved.estimator,
        "scaling": None if saved.scaling is None else saved.scaling.kind,
        "detector": saved.detector,
        "run": saved.run,
    }
    tensors = trainer.tensors()
    if saved.scaling is not None:
        tensors |= {"scaling.shift": saved.scaling.shift, "scaling.factor": saved.scaling.factor}
    if saved.monitor is not None:
        tensors |= {f"monitor.{name}": value for name, value in saved.monitor.tensors(rows).items()}
    if not rows:
        _drop_rows(tensors)
    _require_readable(header, tensors, trainer)
    return header, tensors


def _require_readable(header: Mapping[str, Any], tensors: dict[str, npt.NDArray[Any]], trainer: Trainer) -> None:
    """Raise ModelFileError for what ``unpack_model`` would refuse, so that it does not replace a good file."""
    try:
        found = plain(header)
        if _unregistered(found) is None:  # what is not registered here may be so where the file is loaded
            check_model(found, tensors)
        trainer.require_restorable(tensors)
        _monitor(tensors, trainer)
    except DAMAGE as problem:
        raise ModelFileError(f"the model cannot be saved: it could not be read again ({problem!s:.200}).") from problem


def _drop_rows(tensors: dict[str, npt.NDArray[Any]]) -> None:
    """Empty the tensors that hold rows; raise ValueError if there is nothing else yet."""
    if len(tensors.get("first.rows", ())) or "rule.buffer" in tensors:
        raise ValueError(
            "the model consists of rows so far, because training has only begun; save it with its rows, or learn more."
        )
    for name in ("pending.rows", "pending.shares"):
        tensors[name] = tensors[name][:0]


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model file; training continues from it as if it had never stopped.

    Parameters
    ----------
    path : str or path-like
        A file written by ``save`` or by a run, of this or an earlier version.
    """
    place = Path(path)
    header, tensors = read_model_file(place)
    try:
        return unpack_model(header, tensors, place)
    except ModelFileError:
        raise
    except DAMAGE as problem:
        raise ModelFileError(f"{place} is damaged: {problem!s:.200}. Use another copy, or train again.") from problem


def read_run_facts(path: Path) -> dict[str, Any]:
    """Return what a checkpoint says about its run, without reading its tensors.

    Parameters
    ----------
    path : Path
        A file written by a run.
    """
    try:
        facts = read_header(path)["run"]
        if not isinstance(facts, dict):
            raise ValueError("it says nothing about a run")
        RUN(facts, "run")
        return facts
    except DAMAGE as problem:
        raise ModelFileError(f"{path} is damaged or not a checkpoint of a run: {problem!s:.200}.") from problem


def read_model_file(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return header and tensors of a model file, in the present format, without building anything from them."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file; expected a model file.")
    try:
        header, tensors = read_container(path)
        version = header["format"]
    except ForeignFileError as problem:
        raise ModelFileError(f"{path} is not a streamgmm model: {problem}.") from problem
    except (*DAMAGE, OSError) as problem:
        raise ModelFileError(
            f"{path} is damaged or not a model file: {problem!s:.200}. Use another copy, or train again."
        ) from problem
    if version == format2.FORMAT:
        try:
            return format2.upgraded(header, tensors)
        except DAMAGE as problem:
            raise ModelFileError(f"{path} is damaged: {problem!s:.200}. Use another copy, or train again.") from problem
    if version != FORMAT:
        raise ModelFileError(
            f"{path} has format version {version!r}; this streamgmm reads versions {format2.FORMAT} to {FORMAT}. "
            "Install the streamgmm that wrote it, or train again."
        )
    return header, tensors


def unpack_model(header: Mapping[str, Any], tensors: dict[str, npt.NDArray[Any]], path: Path) -> SavedModel:
    """Return the model that header and tensors describe; raise an exception if they are damaged."""
    if "layers" in header:
        raise ModelFileError(f"{path} holds a stack of layers.", Remedy.LOAD_STACK)
    check_heading(header)
    if (what := _unregistered(header)) is not None:
        name, module = header[what]["name"], header[what].get("module")
        raise ModelFileError(
            f"{path} was trained with {what} {name!r:.100}, which is not registered. "
            f"Import {module!s:.100}, where it is defined, before loading the file."
        )
    check_model(header, tensors)
    facts = dict(header["trainer"])
    facts["settings"] = {"scale": "none", **facts["settings"]}  # earlier versions knew nothing else
    engine = {name: value for name, value in header["engine"].items() if name != "module"}
    trainer = Trainer.restore(facts, tensors, engine_from_settings(engine))
    names = header.get("feature_names")
    return SavedModel(
        trainer=trainer,
        feature_names=None if names is None else [str(n) for n in names],
        estimator=dict(header.get("estimator") or {}),
        scaling=_scaling(header.get("scaling"), tensors, trainer.n_features),
        monitor=_monitor(tensors, trainer),
        detector=header.get("detector"),
        run=header.get("run"),
    )


def _unregistered(header: Mapping[str, Any]) -> str | None:
    """Return which of rule, covariance kind and engine has a name that nothing is registered by, if any has."""
    known: dict[str, Mapping[str, Any]] = {"rule": RULES, "covariance": KINDS, "engine": ENGINES}
    return next((what for what, names in known.items() if header[what]["name"] not in names), None)


def _monitor(tensors: Mapping[str, npt.NDArray[Any]], trainer: Trainer) -> Monitor | None:
    own = {n.removeprefix("monitor."): v for n, v in tensors.items() if n.startswith("monitor.")}
    if not own:
        return None
    monitor = Monitor.from_tensors(own, trainer.n_features)
    monitor.check_snapshot(trainer)
    return monitor


def _scaling(kind: str | None, tensors: Mapping[str, npt.NDArray[Any]], n_features: int) -> Scaling | None:
    if kind is None:
        return None
    scaling = Scaling(kind, tensors["scaling.shift"], tensors["scaling.factor"])
    if not scaling.shift.shape == scaling.factor.shape == (n_features,):
        raise ValueError(f"the scaling has shape {scaling.shift.shape}; expected ({n_features},)")
    if scaling.shift.dtype != np.float64 or scaling.factor.dtype != np.float64:
        raise ValueError("the numbers of the scaling are not float64")
    require_range("scaling.factor", scaling.factor, *FACTORS)
    return scaling
