"""ONNX: scoring outside of Python, by any runtime that reads the format.

The graph computes [E2] and [E3] in float64 for one component after the other, so that it needs no more memory than a
few copies of the rows. It subtracts means before it squares, and therefore agrees with ours however narrow a component
is. NaN marks missing values ([E21]), as everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.errors import MissingExtraError

Numbers = npt.NDArray[np.float64]
OPSET, IR_VERSION = 18, 8  # of 2022: runtimes older than the installed onnx read them
HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


class Density(NamedTuple):
    """A mixture with diagonal covariances, for a graph.

    Parameters
    ----------
    log_weights : array of shape (K,)
        Logarithms of the weights.
    means, scales : arrays of shape (K, D)
        Means, and one over standard deviations.
    dtype : dtype
        float32 or float64: what rows are rounded to, as in scoring here.
    constants : array of shape (D,)
        The value of each feature that never varied, and NaN for all others.
    penalty : float
        Nats that a row loses for each such feature in which it differs.
    """

    log_weights: Numbers
    means: Numbers
    scales: Numbers
    dtype: np.dtype[Any]
    constants: Numbers
    penalty: float


def onnx_model(
    density: Density, threshold: float | None, dtype: npt.DTypeLike, notes: Mapping[str, Any] | None = None
) -> Any:
    """Return an ``onnx.ModelProto`` that scores rows.

    Parameters
    ----------
    density : Density
        The mixture.
    threshold : float or None
        Log-likelihood below which a row is an anomaly; None leaves anomalies out.
    dtype : dtype
        Type of the rows, float32 or float64.
    notes : mapping or None, default=None
        Facts to store in the metadata, as JSON.
    """
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError as problem:
        raise MissingExtraError("to_onnx requires onnx", "onnx") from problem
    graph = _Graph(onnx)
    kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE}
    if np.dtype(dtype) not in kinds:
        raise ValueError(f"dtype is {np.dtype(dtype).name}; expected float32 or float64.")
    graph.add("Cast", ["rows"], "rounded", to=kinds[np.dtype(density.dtype)])
    graph.add("Cast", ["rounded"], "x", to=TensorProto.DOUBLE)
    graph.add("IsNaN", ["x"], "gaps")
    _add_scores(graph, density)
    graph.add("ReduceLogSumExp", ["scores", graph.constant("over_components", [0])], "density", keepdims=0)
    graph.add("ArgMax", ["scores"], "component", axis=0, keepdims=0)
    _add_penalty(graph, density)
    outputs = {"log_likelihood": TensorProto.DOUBLE, "component": TensorProto.INT64}
    if threshold is not None:
        graph.add("Less", ["log_likelihood", graph.constant("threshold", float(threshold))], "anomaly")
        outputs["anomaly"] = TensorProto.BOOL
    rows = helper.make_tensor_value_info("rows", kinds[np.dtype(dtype)], ["N", density.means.shape[1]])
    results = [helper.make_tensor_value_info(name, kind, ["N"]) for name, kind in outputs.items()]
    body = helper.make_graph(graph.nodes, "streamgmm", [rows], results, graph.constants)
    model = helper.make_model(
        body, producer_name="streamgmm", ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)]
    )
    helper.set_model_props(model, {name: json.dumps(value) for name, value in (notes or {}).items()})
    onnx.checker.check_model(model, full_check=True)
    return model


class _Graph:
    """Nodes and constants of a graph under construction."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.constants = onnx, list[Any](), list[Any]()

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [output], **attributes))

    def constant(self, name: str, values: Any) -> str:
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values), name))
        return name


def _add_scores(graph: _Graph, density: Density) -> None:
    """Add log π_k + log N_k(x) of every component, (K, N): a loop over components, each of which sees all rows."""
    make, kind = graph.onnx.helper.make_tensor_value_info, graph.onnx.TensorProto.DOUBLE
    n_features = density.means.shape[1]
    one = _Graph(graph.onnx)
    one.add("Sub", ["x", "mean"], "away")
    one.add("Mul", ["away", "scale"], "z")
    one.add("Mul", ["z", "z"], "squares")
    one.add("Mul", ["squares", "half"], "halves")
    one.add("Sub", ["level", "halves"], "terms")
    one.add("Where", ["gaps", "nothing", "terms"], "known")
    one.add("ReduceSum", ["known", "over_features"], "sum", keepdims=0)
    one.add("Add", ["sum", "log_weight"], "score")
    inputs = [make(name, kind, [n_features]) for name in ("mean", "scale", "level")]
    inputs.append(make("log_weight", kind, []))
    body = graph.onnx.helper.make_graph(one.nodes, "component", inputs, [make("score", kind, ["N"])])
    graph.constant("half", 0.5)
    graph.constant("nothing", 0.0)
    graph.constant("over_features", [1])
    arrays = [
        graph.constant("means", density.means),
        graph.constant("scales", density.scales),
        graph.constant("levels", np.log(density.scales) - HALF_LOG_2PI),
        graph.constant("log_weights", density.log_weights),
    ]
    graph.add("Scan", arrays, "scores", body=body, num_scan_inputs=len(arrays))


def _add_penalty(graph: _Graph, density: Density) -> None:
    """Subtract what rows lose by features that never varied, if there are any."""
    features = np.flatnonzero(~np.isnan(density.constants))
    if not len(features):
        graph.add("Identity", ["density"], "log_likelihood")
        return
    values = density.constants[features].astype(density.dtype).astype(np.float64)
    graph.add("Gather", ["x", graph.constant("constant_features", features)], "held", axis=1)
    graph.add("Equal", ["held", graph.constant("constant_values", values)], "same")
    graph.add("IsNaN", ["held"], "absent")
    graph.add("Or", ["same", "absent"], "usual")
    graph.add("Where", ["usual", "nothing", graph.constant("penalty", float(density.penalty))], "lost")
    graph.add("ReduceSum", ["lost", "over_features"], "lost_in_all", keepdims=0)
    graph.add("Sub", ["density", "lost_in_all"], "log_likelihood")
