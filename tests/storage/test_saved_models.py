"""Whatever a training has saved loads again: checks of damaged files refuse no healthy one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture

KINDS = {"diag": ("natural", "sgd", "sem"), "full": ("natural", "sgd", "sem"), "low_rank": ("natural", "sem")}
KINDS_AND_RULES = [(kind, rule) for kind, rules in KINDS.items() for rule in rules]


def jumps(size: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(450, 6)), size + rng.normal(size=(450, 6))])


STREAMS = {
    "a jump": jumps(1e4),
    "a far jump": jumps(1e12),
    "one value": np.full((480, 4), 3.0),
    "a jump of one value": np.repeat([0.0, 1e5], 240)[:, None] * np.ones(4),
    "one direction": np.arange(480.0)[:, None] * [1.0, -2.0, 3e6, 1e-9],
    "heavy tails": 50 * np.random.default_rng(0).standard_cauchy((480, 4)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("kind", "rule"), KINDS_AND_RULES)
def test_saved_models_load(kind: str, rule: str, stream: str, tmp_path: Path) -> None:
    for dtype, n_jobs, scale in (("f4", None, "none"), ("f8", None, "auto"), ("f8", 2, "none")):
        model = StreamingGaussianMixture(
            5, covariance_type=kind, rank=2, rule=rule, n_jobs=n_jobs, batch_size=8, scale=scale, random_state=0
        )
        for part in np.array_split(STREAMS[stream].astype(dtype), 4):
            model.partial_fit(part).save(tmp_path / "model.safetensors")
            StreamingGaussianMixture.load(tmp_path / "model.safetensors")
