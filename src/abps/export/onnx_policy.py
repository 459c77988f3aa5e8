"""A policy as ONNX: one float64 graph from (n, s) observations to (n, a) actions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abps.arrays import Array
from abps.errors import ConfigError
from abps.export.form import PolicyArrays, safe_text
from abps.policies.layers import Layer

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["act_onnx", "write_onnx"]

FILE = "policy.onnx"
OPSET, IR_VERSION = 17, 8
"""Old enough for runtimes since 2022, new enough for all operators used."""
OPERATORS = {"tanh": "Tanh", "sin": "Sin", "exp": "Exp", "square": "Mul"}

Node = tuple[str, list[str], list[str]]
"""An operator, its inputs and its outputs."""


def write_onnx(form: PolicyArrays, directory: Path) -> list[Path]:
    """Write `policy.onnx`; return the files.

    Raises:
        ConfigError: the policy moves along a path or limits its rate, or the package onnx is not installed.
    """
    if form.knots:
        what = "moves along a path" if form.knots > 1 or form.rate is None else "limits the rate of its actions"
        raise ConfigError(f"a policy that {what} cannot be exported as ONNX, whose graphs know no time; use numpy or c")
    onnx = _package("onnx")
    path = Path(directory) / FILE
    model = _model(form, onnx)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())
    return [path]


def act_onnx(directory: Path, observations: Array) -> Array:
    """Actions of the written file in ONNX Runtime: (m, s) → (m, a).

    Raises:
        ConfigError: the package onnxruntime is not installed.
    """
    runtime = _package("onnxruntime")
    session = runtime.InferenceSession(str(Path(directory) / FILE), providers=["CPUExecutionProvider"])
    return session.run(["action"], {"observation": observations})[0]


def _model(form: PolicyArrays, onnx: Any) -> "ModelProto":
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    constants: dict[str, Array] = {
        "mean": form.mean, "std": form.std, "centre": form.centre, "half": form.half, "low": form.low, "high": form.high
    }  # fmt: skip
    nodes: list[Node] = [("Sub", ["observation", "mean"], ["shifted"]), ("Div", ["shifted", "std"], ["values_0"])]
    for number, layer in enumerate(form.layers, 1):
        nodes += _layer(number, layer, constants)
    latent = f"values_{len(form.layers)}"
    if form.squash == "tanh":
        nodes += [("Tanh", [latent], ["squashed"]), ("Mul", ["squashed", "half"], ["scaled"]),
                  ("Add", ["scaled", "centre"], ["action"])]  # fmt: skip
    else:
        # Clip takes scalar bounds only; Max and Min take one per action.
        nodes += [("Add", [latent, "centre"], ["wanted"]), ("Max", ["wanted", "low"], ["raised"]),
                  ("Min", ["raised", "high"], ["action"])]  # fmt: skip
    used = {name for _, inputs, _ in nodes for name in inputs}
    graph = helper.make_graph(
        [
            helper.make_node(kind, inputs, outputs, **({"axis": -1} if kind in ("Split", "Concat") else {}))
            for kind, inputs, outputs in nodes
        ],
        "policy",
        [helper.make_tensor_value_info("observation", double, ["n", form.mean.size])],
        [helper.make_tensor_value_info("action", double, ["n", form.low.size])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items() if name in used],
        doc_string=f"Deterministic policy for {safe_text(form.task)}: raw observations in, bounded actions out.",
    )
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="abps")


def _layer(number: int, layer: Layer, constants: dict[str, Array]) -> list[Node]:
    """The nodes from `values_<number − 1>` to `values_<number>`; adds their constants."""
    weights, bias, split, last = (f"{name}_{number}" for name in ("weights", "bias", "split", "values"))
    constants |= {weights: np.ascontiguousarray(layer.weights.T), bias: layer.bias}
    done = layer.function == "identity"
    total = last if done else f"sum_{number}"
    nodes: list[Node] = [
        ("MatMul", [f"values_{number - 1}", weights], [f"product_{number}"]),
        ("Add", [f"product_{number}", bias], [total]),
    ]
    if done:
        return nodes
    active, passed, changed = (f"{name}_{number}" for name in ("active", "passed", "changed"))
    if layer.plain:
        constants[split] = np.array([len(layer.bias) - layer.plain, layer.plain], dtype=np.int64)  # type: ignore[assignment]
        nodes.append(("Split", [total, split], [active, passed]))
    source, target = (active, changed) if layer.plain else (total, last)
    kind = OPERATORS[layer.function]
    nodes.append((kind, [source] * (2 if kind == "Mul" else 1), [target]))
    return [*nodes, ("Concat", [changed, passed], [last])] if layer.plain else nodes


def _package(name: str) -> Any:
    import importlib

    try:
        module = importlib.import_module(name)
        if name == "onnx":
            importlib.import_module("onnx.checker")
            importlib.import_module("onnx.numpy_helper")
    except ImportError as error:
        raise ConfigError(f"ONNX export needs the package {name}: pip install 'abps[onnx]'") from error
    return module
