"""What a model file says about itself: settings, features, how much it has seen, and its threshold."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

from streamgmm.runs.score import typical_scores
from streamgmm.sources import without_secrets
from streamgmm.storage import SavedModel
from streamgmm.storage.versions import versions


def describe_model(saved: SavedModel, path: Path, contamination: float | None = None) -> dict[str, Any]:
    """Return what is known of a model as plain data.

    Parameters
    ----------
    saved : SavedModel
        The model.
    path : Path
        Its file.
    contamination : float or None, default=None
        Share of rows to flag, for the threshold; None takes that of a saved detector, or 0.01.
    """
    trainer, facts = saved.trainer, saved.trainer.settings.facts()
    now, written = trainer.current(), path.stat()
    share = contamination or float((saved.detector or {}).get("contamination", 0.01))
    typical = typical_scores(saved)
    return {
        "file": str(path),
        "bytes": written.st_size,
        "written": datetime.fromtimestamp(written.st_mtime, UTC).isoformat(timespec="seconds"),
        "components": trainer.n_components,
        "features": trainer.n_features,
        "feature_names": saved.feature_names,
        "covariance_type": facts["covariance_type"],
        "rule": trainer.rule.name,
        "scale": facts["scale"] if saved.scaling is None else saved.scaling.kind,
        "half_life": facts["half_life"],
        "reheat": facts["reheat"],
        "learns_gaps": facts["allow_nan"],
        "dtype": trainer.dtype.name,
        "threads": trainer.engine.replicas,
        "samples": trainer.n_samples,
        "rows_damped": trainer.n_damped,
        "live_components": now.live,
        "annealed": trainer.annealed,
        "sigma": now.sigma,
        "max_component": now.max_component if isfinite(now.max_component) else None,
        "contamination": share,
        "threshold": typical.threshold(share) if typical.known else None,
        "scores_known": len(typical.scores),
        "settings": facts,
        "run": None if saved.run is None else _describe_run(saved.run, path.parent),
    }


def _describe_run(run: dict[str, Any], folder: Path) -> dict[str, Any]:
    progress = run.get("progress") or {}
    counts = {name: progress.get(name) for name in ("samples", "bad", "missing", "drifts", "seconds", "finished")}
    return {
        "source": without_secrets(str(run.get("source", ""))),
        "shuffled": run.get("shuffle_seed") is not None,
        "passes": run.get("passes"),
        "columns": run.get("heading"),
        "left_out": run.get("left_out"),
        "position": progress.get("position"),
        **counts,
        "versions": [v.name for v in versions(folder)],
    }
