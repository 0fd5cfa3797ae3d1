"""Device memory told from files alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from bert_models import build_bert, build_medcpt, minilm_folder

from models.encoders.base import EncoderOptions
from models.encoders.registry import activation_bytes, cross_encoder_memory, encoder_memory, parameters
from models.errors import ModelNotFound

BERT_BASE = {"hidden_size": 768, "intermediate_size": 3072}


def test_weights_are_counted_from_the_files_header() -> None:
    """22.7 million numbers of all-MiniLM-L6-v2, two bytes each on a GPU, four in float32."""
    count = parameters(minilm_folder() / "model.safetensors")

    assert 22_700_000 < count < 22_800_000
    assert encoder_memory("minilm", EncoderOptions()).weights == 2 * count
    assert encoder_memory("minilm", EncoderOptions(dtype="float32")).weights == 4 * count


def test_two_towers_weigh_twice_but_work_in_turn(tmp_path: Path) -> None:
    """Their batches never run at once."""
    both = encoder_memory(str(build_medcpt(tmp_path)), EncoderOptions(batch_tokens=4096))
    one = parameters(tmp_path / "MedCPT-Query-Encoder" / "model.safetensors")

    assert both.weights == 2 * 2 * one
    assert both.total == both.weights + both.activations


def test_activations_grow_with_the_batch_but_never_below_one_text() -> None:
    """A text over the budget runs alone all the same."""
    large, small = (activation_bytes(BERT_BASE, tokens, 512, 2) for tokens in (65_536, 1024))

    assert large == 64 * small
    assert activation_bytes(BERT_BASE, 1, 512, 2) == activation_bytes(BERT_BASE, 512, 512, 2)
    assert 10**9 < large < 3 * 10**9


def test_a_cross_encoder_is_estimated_too(tmp_path: Path) -> None:
    """Its head is among the weights."""
    folder = build_bert(tmp_path, labels=1)

    assert cross_encoder_memory(str(folder), EncoderOptions()).weights == 2 * parameters(folder / "model.safetensors")


def test_what_has_no_weights_takes_no_device_memory() -> None:
    """The encoders that match words run on the CPU alone."""
    assert encoder_memory("hashing", EncoderOptions()).total == 0
    assert cross_encoder_memory("overlap", EncoderOptions()).total == 0


@pytest.mark.parametrize("raw", [b"", b"\xff" * 16, b"\x02\0\0\0\0\0\0\0[]"])
def test_a_damaged_header_is_refused(tmp_path: Path, raw: bytes) -> None:
    """Without reading what it claims to be."""
    (tmp_path / "model.safetensors").write_bytes(raw)

    with pytest.raises(ModelNotFound, match="no safetensors file"):
        parameters(tmp_path / "model.safetensors")
