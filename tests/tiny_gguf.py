"""Write the tiny random Llama of the tests as a GGUF file, as llama.cpp's converter does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.tiny_models import CHAT_TEMPLATE, CONTEXT, SPECIALS

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def metadata_of(folder: Path) -> dict[str, Any]:
    """What the file of a folder's model says, by key."""
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokens = dict(tokenizer["model"]["vocab"])
    added = {one["content"]: one for one in tokenizer["added_tokens"]}
    tokens |= {text: one["id"] for text, one in added.items()}
    ordered = sorted(tokens, key=lambda token: tokens[token])
    kinds = [3 if token in SPECIALS else 4 if token in added else 1 for token in ordered]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
    return {
        "general.architecture": "llama",
        "general.license": "apache-2.0",
        "llama.context_length": CONTEXT,
        "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.block_count": config["num_hidden_layers"],
        "llama.attention.head_count": config["num_attention_heads"],
        "llama.attention.head_count_kv": config["num_key_value_heads"],
        "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": ordered,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": config["bos_token_id"],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def write_gguf(folder: Path, file: Path, changed: Mapping[str, Any] | None = None, *, without: str = "") -> Path:
    """Write a folder's model; ``changed`` replaces metadata, the tensor ``without`` is left out."""
    import gguf
    from safetensors.numpy import load_file

    metadata = metadata_of(folder) | dict(changed or {})
    writer = gguf.GGUFWriter(file, metadata.pop("general.architecture"))
    for key, value in metadata.items():
        _add(writer, key, value)
    for name, values in load_file(folder / "model.safetensors").items():
        gguf_name = _gguf_name(name)
        if gguf_name == without:
            continue
        heads = {"attn_q": 2, "attn_k": 1}.get(gguf_name.split(".")[-2], 0)
        if heads:
            halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(gguf_name, values.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _add(writer: Any, key: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def _gguf_name(name: str) -> str:
    part, _, kind = name.rpartition(".")
    if part.startswith("model.layers."):
        _, _, layer, inner = part.split(".", 3)
        return f"blk.{layer}.{_NAMES[inner]}.{kind}"
    return f"{_NAMES[part]}.{kind}"
