"""llguidance's tokenizer from the vocabulary: the same tokens as where the library reads the tokenizer itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from llguidance.hf import from_tokenizer
from tokenizers import Tokenizer, decoders, models

from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.library_tokenizer import byte_level_tokens, library_tokenizer

TEXTS = ("[https://ncbi.gov/esearch?term=LMP10]->", " naïve β-cell\n\n  x", "<|end|>", "0123 -> ]->[", "")


@pytest.mark.parametrize("padding", [0, 37])
def test_tokens_and_texts_are_those_of_the_library(tiny_llama: Path, padding: int) -> None:
    """Bytes of each id, which ids are special, and the tokens of texts, also of one cut inside a letter."""
    tokenizer = HfTokenizer.load(str(tiny_llama))
    size = tokenizer.vocab_size + padding
    read = from_tokenizer(tokenizer.fast, n_vocab=size, eos_token=sorted(tokenizer.eos_token_ids))
    made = library_tokenizer(tokenizer, size)

    assert byte_level_tokens(tokenizer.backend) is not None
    assert (made.vocab_size, made.eos_tokens) == (read.vocab_size, read.eos_tokens)
    for number in range(size):
        assert made.decode_bytes([number]) == read.decode_bytes([number])
        assert made.is_special_token(number) == read.is_special_token(number)
    for text in TEXTS:
        assert made.tokenize_str(text) == read.tokenize_str(text)
        assert made.tokenize_bytes(text.encode()[:-1]) == read.tokenize_bytes(text.encode()[:-1])


def test_a_vocabulary_of_another_kind_is_left_to_the_library(tiny_llama: Path) -> None:
    """No byte-level decoder, a letter that stands for no byte, or a model with fewer ids than the tokenizer has."""
    other = Tokenizer(models.BPE({"a": 0, "▁": 1}, []))
    assert byte_level_tokens(other) is None
    other.decoder = decoders.ByteLevel()
    assert byte_level_tokens(other) is None
    tokenizer = HfTokenizer.load(str(tiny_llama))
    state = json.loads(tokenizer.backend.to_str())
    assert byte_level_tokens(Tokenizer.from_str(json.dumps(state | {"decoder": None}))) is None
