"""Files of stacks: what is mutated in model files is mutated here, in the header and in the tensors of all layers."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from streamgmm import DeepStreamingMixture, Fold, ModelFileError, Pool, StreamingGaussianMixture
from tests.fuzz.formats import Format, cut_bytes, flip_bytes
from tests.fuzz.model_files import change_header, change_layout, change_tensor

IMAGES = np.random.default_rng(0).random((450, 36)).astype(np.float32)


@cache
def stack_examples() -> list[bytes]:
    """Return stacks with shared and separate mixtures, pooling, gaps and bytes, some in the middle of a block."""
    upper = {"scale": "none", "precision_max": 1000.0}
    shared = [Fold(4, stride=2), StreamingGaussianMixture(4), Fold(), StreamingGaussianMixture(3, **upper)]
    apart = [
        Pool(2),
        Fold(2, stride=1, shared=False),
        StreamingGaussianMixture(2, allow_nan=True),
        Pool(2, "mean"),
        Fold(),
        StreamingGaussianMixture(2, allow_nan=True, **upper),
    ]
    full = [Fold(), StreamingGaussianMixture(3, covariance_type="low_rank", rank=2)]
    cases = [(shared, (6, 6), IMAGES), (apart, (6, 6), IMAGES), (full, (3, 4, 3), IMAGES[:250])]
    cases.append((shared, (6, 6), (255 * IMAGES[:250]).astype(np.uint8)))
    found = []
    with tempfile.TemporaryDirectory() as place:
        for layers, shape, images in cases:
            model = DeepStreamingMixture(layers, shape, random_state=0).partial_fit(images)
            model.save(Path(place) / "stack.safetensors")
            found.append((Path(place) / "stack.safetensors").read_bytes())
    return found


def try_stack(path: Path) -> None:
    """Load a stack, then score, learn and save it; whatever reads other models says what it is."""
    from streamgmm.dashboard.follower import read_model
    from streamgmm.storage import load_model

    read_model(path)
    for read in (load_model, StreamingGaussianMixture.load):
        try:
            read(path)
        except ModelFileError:
            continue
    model = DeepStreamingMixture.load(path)
    if model.n_features_in_ > 100:
        return
    images = np.resize(IMAGES, (20, model.n_features_in_))
    assert not np.isnan(model.score_samples(images)).any(), "a score is NaN"
    model.transform(images)
    model.partial_fit(images)
    model.sample(2)
    model.save(path.with_name("again.safetensors"))
    DeepStreamingMixture.load(path.with_name("again.safetensors"))


STACKS = Format(
    "stack",
    ".safetensors",
    stack_examples,
    (flip_bytes, cut_bytes, *2 * (change_layout,), *6 * (change_header,), *6 * (change_tensor,)),
    try_stack,
)
