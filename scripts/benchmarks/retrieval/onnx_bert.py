"""Write a BERT of the original form as an ONNX graph with onnxruntime's fused layers, in float32 or dynamic int8."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from models.encoders.model_files import ModelFolder, weight_files
from models.files import read_json

_FUSED: Final = "com.microsoft"
# Half a step more, since a cast to integers cuts.
_ZERO_POINT: Final = 128


class _Graph:
    """Collect the nodes and weights; every method returns the name of its result."""

    def __init__(self, activations: str) -> None:
        self._activations = activations
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._quantized: dict[str, tuple[str, str, str]] = {}
        for name, value in (("127", 127.0), ("half", _ZERO_POINT + 0.5), ("least", 1e-9)):
            self.weight(name, np.array(value, np.float32))
        self.weight("zero", np.array(_ZERO_POINT, np.uint8))
        self.weight("last", np.array([-1], np.int64))

    def weight(self, name: str, values: NDArray[Any]) -> str:
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, operator: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        return self.add_many(operator, inputs, 1, domain, **attributes)[0]

    def add_many(
        self, operator: str, inputs: list[str], outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        from onnx import helper

        names = [f"{operator}_{len(self.nodes)}_{part}" for part in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names

    def product(self, rows: str, name: str, matrix: NDArray[Any]) -> str:
        """Multiply by a weight matrix [in, out]."""
        from onnx import TensorProto

        if self._activations == "float32":
            return self.add("MatMul", [rows, self.weight(name, matrix)])
        scale = np.maximum(np.abs(matrix).max(axis=0), 1e-9) / 127
        self.weight(f"{name}.int8", np.round(matrix / scale).astype(np.int8))
        self.weight(f"{name}.scale", scale.astype(np.float32))
        if rows not in self._quantized:
            by = self._by_batch if self._activations == "batch" else self._by_token
            self._quantized[rows] = by(rows)
        quantized, row_scale, zero = self._quantized[rows]
        whole = self.add("MatMulInteger", [quantized, f"{name}.int8", zero])
        found = self.add("Cast", [whole], to=TensorProto.FLOAT)
        return self.add("Mul", [found, self.add("Mul", [row_scale, f"{name}.scale"])])

    def _by_batch(self, rows: str) -> tuple[str, str, str]:
        quantized, scale, zero = self.add_many("DynamicQuantizeLinear", [rows], 3)
        return quantized, scale, zero

    def _by_token(self, rows: str) -> tuple[str, str, str]:
        from onnx import TensorProto

        largest = self.add("ReduceMax", [self.add("Abs", [rows]), "last"], keepdims=1)
        inverse = self.add("Div", ["127", self.add("Max", [largest, "least"])])
        shifted = self.add("Add", [self.add("Mul", [rows, inverse]), "half"])
        return self.add("Cast", [shifted], to=TensorProto.UINT8), self.add("Reciprocal", [inverse]), "zero"


def write_graph(folder: ModelFolder, path: Path, activations: str) -> None:
    """Write the graph of a folder's model, for texts of one segment.

    ``activations``: "float32"; or int8 with one scale for each "batch" or each "token".
    """
    import onnx
    from onnx import TensorProto, helper

    config = read_json(folder.path / "config.json")
    weights: dict[str, NDArray[Any]] = {}
    for file in weight_files(folder):
        weights |= load_file(file)
    graph = _Graph(activations)
    hidden = _embeddings(graph, weights, config)
    mask = graph.add("Cast", ["mask"], to=TensorProto.INT32)
    for layer in range(config["num_hidden_layers"]):
        hidden = _layer(graph, weights, (f"encoder.layer.{layer}.", config), (hidden, mask))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["rows", "width"]) for name in ("ids", "mask")]
    output = helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["rows", "width", config["hidden_size"]])
    made = helper.make_graph(graph.nodes, "bert", inputs, [output], graph.weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(_FUSED, 1)])
    model.ir_version = 9
    onnx.save(model, str(path))


def _embeddings(graph: _Graph, weights: dict[str, NDArray[Any]], config: dict[str, Any]) -> str:
    words = graph.weight("words", weights["embeddings.word_embeddings.weight"])
    places = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    graph.weight("places", places)
    graph.weight("first", np.array([0], np.int64))
    width = graph.add("Shape", ["ids"], start=1, end=2)
    found = graph.add("Add", [graph.add("Gather", [words, "ids"]), graph.add("Slice", ["places", "first", width])])
    names = [graph.weight(f"norm.{part}", weights[f"embeddings.LayerNorm.{part}"]) for part in ("weight", "bias")]
    return graph.add("LayerNormalization", [found, *names], epsilon=config["layer_norm_eps"], axis=-1)


def _layer(
    graph: _Graph, weights: dict[str, NDArray[Any]], place: tuple[str, dict[str, Any]], inputs: tuple[str, str]
) -> str:
    (prefix, config), (hidden, mask) = place, inputs

    def own(name: str) -> str:
        return graph.weight(prefix + name, weights[prefix + name])

    def added(rows: str, name: str, other: str) -> str:
        """Multiply by the matrix of ``name``.dense, add its bias and ``other``, and normalize."""
        product = graph.product(rows, f"{prefix}{name}.dense.weight", weights[f"{prefix}{name}.dense.weight"].T)
        norm = [own(f"{name}.LayerNorm.weight"), own(f"{name}.LayerNorm.bias"), own(f"{name}.dense.bias")]
        operands = [product, other, *norm]
        return graph.add("SkipLayerNormalization", operands, _FUSED, epsilon=config["layer_norm_eps"])

    parts = [f"{prefix}attention.self.{name}." for name in ("query", "key", "value")]
    matrix = np.concatenate([weights[part + "weight"] for part in parts]).T
    bias = graph.weight(prefix + "bias", np.concatenate([weights[part + "bias"] for part in parts]))
    joined = graph.product(hidden, prefix + "qkv", matrix)
    triple = graph.add_many("Split", [joined], 3, axis=-1, num_outputs=3)
    attended = graph.add("MultiHeadAttention", [*triple, bias, mask], _FUSED, num_heads=config["num_attention_heads"])
    hidden = added(attended, "attention.output", hidden)
    inner = graph.product(hidden, prefix + "inner", weights[prefix + "intermediate.dense.weight"].T)
    active = graph.add("BiasGelu", [inner, own("intermediate.dense.bias")], _FUSED)
    return added(active, "output", hidden)
