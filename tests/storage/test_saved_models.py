"""Whatever a training has saved loads again: checks of damaged files refuse no healthy one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamgmm import ModelFileError, StreamingGaussianMixture

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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "setting", [{"random_state": 1 << 60}, {"period": 10**12}, {"half_life": 1e308}, {"tol": 1e-300}]
)
def test_models_with_large_settings_load(setting: dict[str, float], tmp_path: Path) -> None:
    model = StreamingGaussianMixture(2, **setting).partial_fit(STREAMS["heavy tails"])
    model.save(tmp_path / "model.safetensors")
    again = StreamingGaussianMixture.load(tmp_path / "model.safetensors")
    [(name, value)] = setting.items()
    assert again.get_params()[name] == value


@pytest.mark.parametrize("setting", [{"batch_size": 1 << 32}, {"sigma_min": 1e-200}, {"mean_range": 1e299}])
def test_settings_that_no_file_could_hold_are_refused_at_the_start(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(setting))} is .*; expected"):
        StreamingGaussianMixture(2, **setting).partial_fit(STREAMS["a jump"])


def test_what_could_not_be_read_again_does_not_replace_a_good_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = StreamingGaussianMixture(2, random_state=0).partial_fit(STREAMS["a jump"])
    model.save(path)
    good = path.read_bytes()
    model.trainer_.parameters.means[0, 0] = 1e200
    with pytest.raises(ModelFileError, match="cannot be saved: it could not be read again"):
        model.save(path)
    assert path.read_bytes() == good
