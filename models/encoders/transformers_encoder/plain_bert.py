"""Compute the token vectors of a BERT model with torch alone, from its own files.

Importing transformers' model classes takes three times as long as importing torch: most of a search from a terminal.
So the common case, a BERT of the original form with its tokenizer, is read here; every other folder, and one that
is not whole, is left to transformers. The same operations in the same order as transformers with ``sdpa`` give the same
bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.encoders.model_files import ModelFolder, read_json, weight_files

# Values of config.json other than these change what is computed; a missing key has the value.
_ORIGINAL: Final[dict[str, object]] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_SIZES: Final = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size")


class TokenVectors(NamedTuple):
    """Hold the output of the last layer, [rows, width, hidden]."""

    last_hidden_state: Tensor


@dataclass(frozen=True, slots=True)
class PlainConfig:
    """Hold the values of a config.json."""

    values: dict[str, Any] = field(repr=False)

    @property
    def hidden_size(self) -> int:
        return int(self.values["hidden_size"])

    @property
    def vocab_size(self) -> int:
        return int(self.values["vocab_size"])

    def to_dict(self) -> dict[str, Any]:
        return dict(self.values)


class PlainBert(nn.Module):
    """Compute the token vectors of BERT; its parameters have the names of published checkpoints."""

    def __init__(self, config: PlainConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _Embeddings(config.values)
        layers = (_Layer(config.values) for _ in range(config.values["num_hidden_layers"]))
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(layers)})

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> TokenVectors:
        hidden = self.embeddings(input_ids, token_type_ids)
        mask = None if bool(attention_mask.all()) else _added_mask(attention_mask, hidden.dtype)
        for layer in self.encoder["layer"]:  # type: ignore[attr-defined]  # a ModuleList
            hidden = layer(hidden, mask)
        return TokenVectors(hidden)


class _Embeddings(nn.Module):
    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__()
        hidden = values["hidden_size"]
        self.word_embeddings = _table(values["vocab_size"], hidden)
        self.position_embeddings = _table(values["max_position_embeddings"], hidden)
        self.token_type_embeddings = _table(values["type_vocab_size"], hidden)
        self.LayerNorm = _norm(values)

    def forward(self, ids: Tensor, segments: Tensor) -> Tensor:
        found = self.word_embeddings(ids) + self.token_type_embeddings(segments)
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        normed: Tensor = self.LayerNorm(found + self.position_embeddings(positions))
        return normed


class _Layer(nn.Module):
    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__()
        hidden, inner = values["hidden_size"], values["intermediate_size"]
        self._heads = values["num_attention_heads"]
        projections = nn.ModuleDict({name: nn.Linear(hidden, hidden) for name in ("query", "key", "value")})
        output = nn.ModuleDict({"dense": nn.Linear(hidden, hidden), "LayerNorm": _norm(values)})
        self.attention = nn.ModuleDict({"self": projections, "output": output})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(hidden, inner)})
        self.output = nn.ModuleDict({"dense": nn.Linear(inner, hidden), "LayerNorm": _norm(values)})

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        projections, output = self.attention["self"], self.attention["output"]
        query, key, value = (self._by_head(projections[name](hidden)) for name in ("query", "key", "value"))  # type: ignore[index]
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        joined = context.transpose(1, 2).contiguous().reshape(*hidden.shape[:-1], -1).contiguous()
        hidden = output["LayerNorm"](output["dense"](joined) + hidden)  # type: ignore[index]
        inner = functional.gelu(self.intermediate["dense"](hidden))
        normed: Tensor = self.output["LayerNorm"](self.output["dense"](inner) + hidden)
        return normed

    def _by_head(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:-1], self._heads, -1).transpose(1, 2)


def _added_mask(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what attention adds to the scores, [rows, 1, width, width]: 0 for text, minus infinity for padding.

    Of a mask of true and false, torch would make these numbers in every layer, for every pair of tokens.
    """
    rows, width = attention_mask.shape
    added = torch.zeros(rows, 1, 1, width, dtype=dtype, device=attention_mask.device)
    padding = attention_mask[:, None, None, :] == 0
    return added.masked_fill_(padding, -torch.inf).expand(rows, 1, width, width)


def _table(rows: int, width: int) -> nn.Embedding:
    # nn.Embedding() draws its values, which on the device "meta" imports torch's compiler: two seconds.
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


def _norm(values: dict[str, Any]) -> nn.LayerNorm:
    return nn.LayerNorm(values["hidden_size"], eps=values.get("layer_norm_eps", 1e-12))


def load_plain_bert(folder: ModelFolder, dtype: torch.dtype) -> PlainBert | None:
    """Load a BERT of the original form onto the CPU, or return None where transformers has to read the folder.

    Raises:
        ModelNotFound: config.json cannot be read.
        SafetensorError: the weights are damaged.
    """
    from safetensors.torch import load_file

    values = read_json(folder.path / "config.json")
    if not _is_original(values):
        return None
    found = {name: tensor for file in weight_files(folder) for name, tensor in load_file(file).items()}
    with torch.device("meta"):
        model = PlainBert(PlainConfig(values))
    weights: dict[str, Tensor] = {}
    for name, empty in model.state_dict().items():
        tensor = found.get(name, found.get(f"bert.{name}"))
        if tensor is None or tensor.shape != empty.shape:
            return None
        weights[name] = tensor.to(dtype)
    model.load_state_dict(weights, assign=True)
    return model


def _is_original(values: dict[str, Any]) -> bool:
    if any(values.get(name, usual) != usual for name, usual in _ORIGINAL.items()) or "quantization_config" in values:
        return False
    sizes = [values.get(name) for name in (*_SIZES, "max_position_embeddings", "type_vocab_size")]
    return "model_type" in values and all(isinstance(size, int) and size > 0 for size in sizes)
