"""Models as ONNX graphs: the same answers from another runtime."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamgmm import Mixture, StreamingAnomalyDetector, StreamingGaussianMixture

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
NATS = 1e-3
FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def answers(model: Any, rows: np.ndarray) -> dict[str, np.ndarray]:
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"rows": rows}), strict=True))


def raw_rows(n: int, dtype: type, seed: int = 0) -> np.ndarray:
    """Three clusters in units from 1e-6 to 1e6, far from the origin; one feature never varies."""
    rng = np.random.default_rng(seed)
    unit = np.array([1e-6, 1.0, 1e6, 3.0, 1.0])
    x = unit * (rng.normal(0, 1, (n, 5)) + 8 * rng.integers(3, size=(n, 1)) + 5)
    x[:, 4] = 0.1
    return x.astype(dtype)


def fitted(dtype: type, **settings: Any) -> StreamingAnomalyDetector:
    mixture = StreamingGaussianMixture(8, random_state=0, allow_nan=True, **settings)
    return StreamingAnomalyDetector(mixture, contamination=0.02).fit(raw_rows(3000, dtype))


@FLOATS
def test_raw_rows_with_gaps_and_oddities(dtype: type) -> None:
    detector, x = fitted(dtype), raw_rows(500, dtype, seed=1)
    x[::3, 0] = np.nan
    x[1::7, 2:] = np.nan
    x[5, 4] = 0.3  # a feature that never varied
    x[6, 1] = 60.0
    found = answers(detector.to_onnx(), x)
    np.testing.assert_allclose(found["log_likelihood"], detector.score_samples(x), rtol=1e-6, atol=NATS)
    assert abs(found["log_likelihood"] - detector.score_samples(x))[np.arange(500) != 5].max() < NATS
    np.testing.assert_array_equal(found["component"], detector.mixture_.predict(x))
    np.testing.assert_array_equal(found["anomaly"], found["log_likelihood"] < detector.offset_)
    whole = ~np.isnan(x).any(1)
    np.testing.assert_array_equal(found["anomaly"][whole], detector.predict(x[whole]) < 0)
    assert 1 <= found["anomaly"][whole].sum() < 30


@FLOATS
@pytest.mark.parametrize("rule", ["natural", "sgd", "sem"])
def test_every_rule_and_many_features(dtype: type, rule: str) -> None:
    x = np.random.default_rng(0).random((2000, 200)).astype(dtype)
    model = StreamingGaussianMixture(16, rule=rule, scale="none", period=50, random_state=0).partial_fit(x)
    found = answers(model.to_onnx(), x[:300])
    assert list(found) == ["log_likelihood", "component"]
    np.testing.assert_allclose(found["log_likelihood"], model.score_samples(x[:300]), rtol=0, atol=NATS)
    np.testing.assert_array_equal(found["component"], model.predict(x[:300]))


@pytest.mark.parametrize(("own", "given"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_rows_of_another_type(own: type, given: type) -> None:
    detector, x = fitted(own), raw_rows(300, given, seed=1)
    found = answers(detector.to_onnx(given), x)
    known = np.abs(found["log_likelihood"]) < 1e5  # 0.1 differs between the types, where no feature may differ
    np.testing.assert_allclose(found["log_likelihood"], detector.score_samples(x), rtol=1e-6, atol=NATS)
    assert known.all() == (own is np.float32)


def test_narrow_components_far_from_the_origin() -> None:
    """Squares of rows and means would cancel out; differences do not."""
    m = Mixture.from_parameters([0.3, 0.7], [[1e9, 0.0], [1e9 + 1e-3, 1.0]], [[1e8, 1.0], [1e8, 4.0]])
    x = np.array([[1e9, 0.0], [1e9 + 1e-4, 1.0], [1e9 + 1e-3, 0.5]])
    np.testing.assert_allclose(answers(m.to_onnx(), x)["log_likelihood"], m.log_prob(x), atol=1e-9)


def test_one_row_and_none() -> None:
    m = Mixture.from_parameters([1.0], [[0.0]], [[1.0]])
    assert answers(m.to_onnx(), np.zeros((1, 1)))["log_likelihood"] == pytest.approx(m.log_prob([[0.0]]))
    assert answers(m.to_onnx(), np.zeros((0, 1)))["log_likelihood"].shape == (0,)


def test_names_are_in_the_metadata_and_rows_are_not() -> None:
    frame = pd.DataFrame(raw_rows(2000, np.float64), columns=list("abcde"))
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, random_state=0)).fit(frame)
    model = detector.to_onnx()
    notes = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert notes == {"feature_names": list("abcde")}
    parameters = 4 * 3 * 5 + 4
    assert sum(int(np.prod(t.dims)) for t in model.graph.initializer) < parameters + 20


def test_nothing_is_flagged_before_anything_is_known() -> None:
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(4)).partial_fit(np.zeros((1, 2)))
    assert not answers(detector.to_onnx(), np.full((3, 2), 1e6))["anomaly"].any()


def test_the_model_is_valid_for_older_runtimes() -> None:
    model = Mixture.from_parameters([1.0], [[0.0]], [[1.0]]).to_onnx(threshold=-3.0)
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version <= 8
    assert [o.version for o in model.opset_import] == [18]


def test_other_types_are_refused() -> None:
    with pytest.raises(ValueError, match="dtype is float16; expected float32 or float64"):
        Mixture.from_parameters([1.0], [[0.0]], [[1.0]]).to_onnx(dtype=np.float16)
