"""Give llguidance the tokens of a model.

From a Hugging Face tokenizer it would read them by writing all of it as JSON and parsing that twice. Of a byte-level
vocabulary the bytes of each token can be told from its name, which takes a third of the time; text is then tokenized by
the tokenizer that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.call_lark import slices


def library_tokenizer(tokenizer: HfTokenizer, vocab_size: int) -> Any:
    """Return llguidance's tokenizer of ``vocab_size`` ids; a vocabulary of another kind is read by the library itself.

    Ids without a token, which models have to fill their matrices up, are special tokens to it.
    """
    from llguidance import LLTokenizer
    from llguidance.hf import from_tokenizer

    ends = sorted(tokenizer.eos_token_ids)
    tokens = byte_level_tokens(tokenizer.backend)
    if tokens is None or max(tokens, default=0) >= vocab_size:
        return from_tokenizer(tokenizer.fast, n_vocab=vocab_size, eos_token=ends, slices=slices())
    return LLTokenizer(_Tokens(tokenizer, tokens, vocab_size), n_vocab=vocab_size, eos_token=ends, slices=slices())


def byte_level_tokens(backend: Any) -> dict[int, bytes] | None:
    """Return the bytes of each token by its id; None where the vocabulary is not byte-level."""
    from tokenizers import decoders
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    if not isinstance(backend.decoder, decoders.ByteLevel):
        return None
    letters = {ord(letter): chr(byte) for byte, letter in bytes_to_unicode().items()}
    vocabulary = backend.get_vocab(with_added_tokens=False)
    try:
        tokens = {number: name.translate(letters).encode("latin-1") for name, number in vocabulary.items()}
    except UnicodeEncodeError:  # a letter that stands for no byte
        return None
    return tokens | {number: token.content.encode() for number, token in backend.get_added_tokens_decoder().items()}


class _Tokens:
    """Be what llguidance takes for a tokenizer of Python's."""

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: HfTokenizer, tokens: Mapping[int, bytes], vocab_size: int) -> None:
        self.tokens = [tokens.get(number) or f"<[{number}]>".encode() for number in range(vocab_size)]
        self.eos_token_id = min(tokenizer.eos_token_ids)
        self.bos_token_id = tokenizer.bos_token_id
        added = tokenizer.backend.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special}
        self.special_token_ids = sorted(special.union(number for number in range(vocab_size) if number not in tokens))
        self._backend = tokenizer.backend

    def __call__(self, text: str) -> list[int]:
        return list(self._backend.encode(text, add_special_tokens=False).ids)
