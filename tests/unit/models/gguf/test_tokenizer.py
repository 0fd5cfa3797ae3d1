"""Tokenizers of GGUF files cut text as those that they were made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from models.errors import ModelNotFound
from models.gguf.conversion import write_tokenizer
from tests.tiny_gguf import metadata_of


@pytest.fixture(scope="module")
def metadata(tiny_llama: Path) -> dict[str, Any]:
    return metadata_of(tiny_llama)


def _pieces(metadata: dict[str, Any], folder: Path, text: str) -> list[str]:
    write_tokenizer(metadata, folder)
    backend = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    return [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [
        ("gpt-2", ["It", "'ll", "Ġcost", "Ċ", "Ċ", "1234", "Ġmg"]),
        ("smollm", ["It", "'ll", "Ġcost", "ĊĊ", "1", "2", "3", "4", "Ġmg"]),
        ("llama-bpe", ["It", "'ll", "Ġcost", "ĊĊ", "123", "4", "Ġmg"]),
        ("qwen2", ["It", "'ll", "Ġcost", "ĊĊ", "1", "2", "3", "4", "Ġmg"]),
    ],
)
def test_each_kind_cuts_its_own_words(kind: str, pieces: list[str], metadata: dict[str, Any], tmp_path: Path) -> None:
    """Digits and blank lines are where they differ."""
    assert _pieces(metadata | {"tokenizer.ggml.pre": kind}, tmp_path, "It'll cost\n\n1234 mg") == pieces


def test_control_tokens_template_and_end_are_kept(metadata: dict[str, Any], tmp_path: Path) -> None:
    write_tokenizer(metadata, tmp_path)
    fast = AutoTokenizer.from_pretrained(tmp_path)
    assert fast.eos_token == "<|end|>" and fast.chat_template == metadata["tokenizer.chat_template"]
    assert len(fast.encode("<|user|>")) == 1 and fast.decode(fast.encode("a<|user|>"), skip_special_tokens=True) == "a"
    assert fast.decode(fast.encode("a]->"), skip_special_tokens=True) == "a]->"


def test_the_first_token_is_put_in_front_where_the_file_says_so(metadata: dict[str, Any], tmp_path: Path) -> None:
    begin = metadata["tokenizer.ggml.bos_token_id"]
    for name, more, expected in (
        ("gpt-2", {}, False),
        ("gpt-2", {"tokenizer.ggml.add_bos_token": True}, True),
        ("llama-bpe", {}, True),
        ("llama-bpe", {"tokenizer.ggml.add_bos_token": False}, False),
    ):
        write_tokenizer(metadata | {"tokenizer.ggml.pre": name} | more, tmp_path)
        assert (AutoTokenizer.from_pretrained(tmp_path).encode("a")[0] == begin) is expected


@pytest.mark.parametrize(
    ("changed", "named"), [({"tokenizer.ggml.model": "llama"}, "llama"), ({"tokenizer.ggml.pre": "tekken"}, "tekken")]
)
def test_other_kinds_are_refused(changed: dict[str, str], named: str, metadata: dict[str, Any], tmp_path: Path) -> None:
    """A tokenizer that cuts otherwise gives the model tokens that it has not seen."""
    with pytest.raises(ModelNotFound, match=rf"tokenizer \(.*{named}.*\) is not converted"):
        write_tokenizer(metadata | changed, tmp_path)
