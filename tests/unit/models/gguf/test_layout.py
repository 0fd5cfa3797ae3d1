"""What a GGUF file says becomes a config, and what is not known is refused."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from models.errors import ModelNotFound
from models.gguf.layout import layout_of

_PARTS = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
SHAPES: dict[str, tuple[int, ...]] = {
    "token_embd.weight": (320, 256),
    "output_norm.weight": (256,),
    **{f"blk.0.{part}.weight": (256, 256) for part in _PARTS},
}


def _metadata(family: str = "llama", /, **more: Any) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "block_count": 1,
        "context_length": 512,
        "embedding_length": 256,
        "feed_forward_length": 512,
    }
    numbers |= {"attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-5}
    return {"general.architecture": family} | {f"{family}.{key}": value for key, value in (numbers | more).items()}


def test_the_config_has_the_file_s_numbers() -> None:
    config = layout_of(_metadata(**{"rope.freq_base": 5e5}), SHAPES).config
    assert (config["vocab_size"], config["head_dim"], config["num_key_value_heads"]) == (320, 64, 2)
    assert config["tie_word_embeddings"] and config["rope_parameters"] == {"rope_type": "default", "rope_theta": 5e5}
    assert not layout_of(_metadata(), SHAPES | {"output.weight": (320, 256)}).config["tie_word_embeddings"]


def test_only_llama_s_rows_are_sorted_back() -> None:
    layout = layout_of(_metadata(), SHAPES)
    assert layout.tensors["model.layers.0.self_attn.q_proj.weight"] == "blk.0.attn_q.weight"
    assert [layout.rotary_heads(f"blk.0.attn_{part}.weight") for part in "qkv"] == [4, 2, 0]
    assert layout_of(_metadata("qwen3"), SHAPES).rotary_heads("blk.0.attn_q.weight") == 0


def test_llama_3_s_rotary_factors_are_recognized() -> None:
    """They stand in the file as numbers; transformers' own formula gives the same from the parameters."""
    import torch

    theta, dim = 5e5, 64
    rope: dict[str, Any] = {"rope_type": "llama3", "rope_theta": theta, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    known = LlamaConfig(hidden_size=256, num_attention_heads=4, max_position_embeddings=131_072, rope_parameters=rope)
    stretched, _ = ROPE_INIT_FUNCTIONS["llama3"](known, "cpu")
    plain = 1.0 / theta ** (torch.arange(0, dim, 2) / dim)
    factors = [float(value) for value in plain / stretched]
    config = layout_of(_metadata(**{"rope.freq_base": theta}), SHAPES | {"rope_freqs.weight": (32,)}, factors).config
    assert config["rope_parameters"] == rope
    with pytest.raises(ModelNotFound, match="rope_freqs are not Llama 3's"):
        layout_of(_metadata(**{"rope.freq_base": theta}), SHAPES, [one * 1.1 for one in factors])


@pytest.mark.parametrize(
    ("metadata", "shapes", "message"),
    [
        (_metadata("mamba"), SHAPES, "architecture 'mamba' are not converted, but those of llama, qwen2, qwen3"),
        (_metadata(expert_count=8), SHAPES, "mixture of experts"),
        (_metadata(**{"rope.scaling.type": "yarn"}), SHAPES, r"rope\.scaling\.type yarn"),
        (_metadata(**{"rope.dimension_count": 32}), SHAPES, "32 of 64 dimensions"),
        (_metadata(**{"attention.sliding_window": 4096}), SHAPES, "window"),
        (_metadata(), SHAPES | {"blk.0.strange.weight": (1,)}, r"not converted: blk\.0\.strange\.weight"),
        (_metadata(block_count=2), SHAPES, r"lacks tensors: blk\.1\.attn_norm\.weight"),
        (_metadata(context_length=None), SHAPES, r"states no llama\.context_length"),
    ],
)
def test_what_is_not_known_is_refused(
    metadata: dict[str, Any], shapes: dict[str, tuple[int, ...]], message: str
) -> None:
    """Each would load and compute something else."""
    with pytest.raises(ModelNotFound, match=message):
        layout_of(metadata, shapes)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"block_count": 2**60}, r"lacks tensors: blk\.1"),
        ({"block_count": 20_000}, r"lacks tensors: blk\.1"),
        ({"embedding_length": 2**60}, "embeddings of 1152921504606846976 numbers"),
        ({"attention.key_length": 2**60}, "heads of 1152921504606846976 numbers"),
        ({"attention.head_count": 2**31}, "2147483648 heads"),
    ],
)
def test_sizes_that_the_tensors_do_not_have_are_refused(more: dict[str, Any], said: str) -> None:
    """At once: nothing is done as often as such a number says."""
    with pytest.raises(ModelNotFound, match=said):
        layout_of(_metadata(**more), SHAPES | {"rope_freqs.weight": (32,)}, [2.0] * 32)
