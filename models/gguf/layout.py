"""Map the metadata and tensor names of a GGUF file to those of transformers.

Dense decoders of three families: Llama (with Mistral, SmolLM, …, which llama.cpp writes under the same name), Qwen 2
and Qwen 3. Everything that a file states and this module does not know is refused: a model that computes something
else than it was trained for looks like one that works.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from models.errors import ModelNotFound

ROPE_FREQS: Final = "rope_freqs.weight"
_CLASSES: Final = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
_OUTER: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_INNER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK: Final = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_NEEDED: Final = (
    "attn_norm",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
)
# Llama 3.1's stretching of the rotary embedding, as its config.json states it; the file holds the resulting factors.
_LOW_FACTOR, _HIGH_FACTOR, _FIRST_CONTEXT = 1.0, 4.0, 8192
_ROPE_TOLERANCE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Layout:
    """Hold transformers' config of a model, and the GGUF name of each of its tensors by transformers' name."""

    config: dict[str, Any]
    tensors: dict[str, str]

    def rotary_heads(self, gguf_name: str) -> int:
        """Return into how many heads the rows of a tensor must be sorted back, 0 for none.

        llama.cpp writes Llama's queries and keys with the two halves of each head interleaved.
        """
        if self.config["model_type"] != "llama":
            return 0
        if ".attn_q." in gguf_name:
            return int(self.config["num_attention_heads"])
        return int(self.config["num_key_value_heads"]) if ".attn_k." in gguf_name else 0


def layout_of(
    metadata: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], rope_factors: Sequence[float] | None = None
) -> Layout:
    """Return the layout of a file with this metadata and these tensors.

    ``shapes`` [rows, columns] by GGUF name; ``rope_factors`` are the values of ``rope_freqs.weight``, where it exists.

    Raises:
        ModelNotFound: the file's model is of a kind that is not converted, or parts are missing.
    """
    family = str(metadata.get("general.architecture"))
    if family not in _CLASSES:
        raise ModelNotFound(
            f"GGUF files of the architecture {family!r} are not converted, but those of {', '.join(_CLASSES)}; "
            "fetch the model in its safetensors form"
        )
    _check_sizes(family, metadata, shapes)
    tensors = _tensors(shapes, _number(metadata, family, "block_count"))
    return Layout(_config(family, metadata, shapes, tensors, rope_factors), tensors)


def _check_sizes(family: str, metadata: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]) -> None:
    """Check what the file says of the model's sizes against its tensors, before anything is done as often as it says.

    Raises:
        ModelNotFound: they differ.
    """
    width = _number(metadata, family, "embedding_length")
    heads = _number(metadata, family, "attention.head_count")
    head_dim = int(metadata.get(f"{family}.attention.key_length") or width // heads)
    embedding, queries = shapes.get("token_embd.weight", ()), shapes.get("blk.0.attn_q.weight", ())
    faults = {
        f"embeddings of {width} numbers, but tensors of {list(embedding)}": bool(embedding) and embedding[-1] != width,
        f"{heads} heads of {head_dim} numbers, but tensors of {list(queries)}": bool(queries)
        and queries[0] != heads * head_dim,
    }
    for what, is_wrong in faults.items():
        if is_wrong:
            raise ModelNotFound(f"the GGUF file states {what}; it may be damaged, or one part of several")


def _tensors(shapes: Mapping[str, Sequence[int]], blocks: int) -> dict[str, str]:
    names = {_hf_name(name): name for name in shapes if name != ROPE_FREQS}
    needed = ["token_embd.weight", "output_norm.weight"]
    # A file that states more blocks than it has tensors lacks some of the first.
    needed += [f"blk.{block}.{part}.weight" for block in range(min(blocks, len(shapes))) for part in _NEEDED]
    missing = [name for name in needed if name not in shapes]
    if missing:
        raise ModelNotFound(f"the GGUF file lacks tensors: {', '.join(missing[:3])} …; it may be one part of several")
    return names


def _hf_name(name: str) -> str:
    match = _BLOCK.fullmatch(name)
    if match and match[2] in _INNER:
        return f"model.layers.{match[1]}.{_INNER[match[2]]}.{match[3]}"
    part, _, kind = name.rpartition(".")
    if part in _OUTER and kind == "weight":
        return f"{_OUTER[part]}.weight"
    raise ModelNotFound(f"the GGUF file holds a tensor that is not converted: {name}")


def _config(
    family: str,
    metadata: Mapping[str, Any],
    shapes: Mapping[str, Sequence[int]],
    tensors: Iterable[str],
    rope_factors: Sequence[float] | None,
) -> dict[str, Any]:
    heads, width = _number(metadata, family, "attention.head_count"), _number(metadata, family, "embedding_length")
    head_dim = int(metadata.get(f"{family}.attention.key_length") or width // heads)
    _refuse_unknown(family, metadata, head_dim)
    names = set(tensors)
    config: dict[str, Any] = {
        "architectures": [_CLASSES[family]],
        "model_type": family,
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": _number(metadata, family, "feed_forward_length"),
        "num_hidden_layers": _number(metadata, family, "block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": int(metadata.get(f"{family}.attention.head_count_kv") or heads),
        "head_dim": head_dim,
        "rms_norm_eps": float(metadata[f"{family}.attention.layer_norm_rms_epsilon"]),
        "max_position_embeddings": _number(metadata, family, "context_length"),
        "rope_parameters": _rope(float(metadata.get(f"{family}.rope.freq_base") or 10_000.0), head_dim, rope_factors),
        "vocab_size": int(shapes["token_embd.weight"][0]),
        "tie_word_embeddings": "lm_head.weight" not in names,
        "bos_token_id": metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": metadata.get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": metadata.get("tokenizer.ggml.padding_token_id"),
    }
    if family != "qwen2":
        config["attention_bias"] = "model.layers.0.self_attn.q_proj.bias" in names
    if family == "llama":
        config["mlp_bias"] = "model.layers.0.mlp.up_proj.bias" in names
    return config


def _refuse_unknown(family: str, metadata: Mapping[str, Any], head_dim: int) -> None:
    scaling = metadata.get(f"{family}.rope.scaling.type", "none")
    rotated = metadata.get(f"{family}.rope.dimension_count", head_dim)
    refused = {
        f"rope.scaling.type {scaling}": scaling != "none",
        f"rotary embeddings of {rotated} of {head_dim} dimensions": rotated != head_dim,
        "a mixture of experts": bool(metadata.get(f"{family}.expert_count")),
        "attention to a window": bool(metadata.get(f"{family}.attention.sliding_window")),
    }
    for what, is_there in refused.items():
        if is_there:
            raise ModelNotFound(f"the GGUF file's model has {what}; fetch it in its safetensors form")


def _rope(theta: float, head_dim: int, factors: Sequence[float] | None) -> dict[str, Any]:
    """Return the rotary embedding's parameters; ``factors`` divide its frequencies."""
    if factors is None or max(factors) == 1.0:
        return {"rope_type": "default", "rope_theta": theta}
    most = round(max(factors), 3)
    expected = _stretched(theta, head_dim, most)
    if len(factors) != len(expected) or any(
        abs(factor - other) > _ROPE_TOLERANCE * other for factor, other in zip(factors, expected, strict=True)
    ):
        raise ModelNotFound("the GGUF file's rope_freqs are not Llama 3's; fetch the model in its safetensors form")
    return {
        "rope_type": "llama3",
        "rope_theta": theta,
        "factor": most,
        "low_freq_factor": _LOW_FACTOR,
        "high_freq_factor": _HIGH_FACTOR,
        "original_max_position_embeddings": _FIRST_CONTEXT,
    }


def _stretched(theta: float, head_dim: int, most: float) -> list[float]:
    """Return by how much Llama 3.1 divides each frequency: 1 for short waves to ``most`` for long ones."""
    factors = []
    for pair in range(head_dim // 2):
        wavelength = 2 * 3.141592653589793 * theta ** (2 * pair / head_dim)
        if wavelength < _FIRST_CONTEXT / _HIGH_FACTOR:
            factors.append(1.0)
        elif wavelength > _FIRST_CONTEXT / _LOW_FACTOR:
            factors.append(most)
        else:
            smooth = (_FIRST_CONTEXT / wavelength - _LOW_FACTOR) / (_HIGH_FACTOR - _LOW_FACTOR)
            factors.append(1 / ((1 - smooth) / most + smooth))
    return factors


def _number(metadata: Mapping[str, Any], family: str, key: str) -> int:
    value = metadata.get(f"{family}.{key}")
    if not isinstance(value, int) or value < 1:
        raise ModelNotFound(f"the GGUF file states no {family}.{key}")
    return value
