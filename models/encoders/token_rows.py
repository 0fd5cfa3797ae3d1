"""Adapter: a Hugging Face tokenizer that cuts texts to length, with its own padding and truncation settings off.

Published tokenizer files carry settings of their training (all-MiniLM's cuts at 128 and pads to 128); none is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.errors import ModelNotFound

Text = str | tuple[str, str]


class TokenRow(NamedTuple):
    """One text's token ids and, of equal length, segment numbers. Never empty."""

    ids: NDArray[np.int32]
    segments: NDArray[np.int32]


class TokenCutter:
    """Texts, or pairs of segments, to rows of at most ``max_tokens``, cut at the end; of a pair the longer part first.

    Safe from many threads: the tokenizer is set up once and only read after.
    """

    def __init__(self, fast: Any, max_tokens: int, *, literal: bool = True) -> None:
        """``literal``: names of special tokens inside a text are text."""
        from tokenizers import Tokenizer

        self._backend = Tokenizer.from_str(fast.backend_tokenizer.to_str())
        self._backend.no_padding()
        self._backend.encode_special_tokens = literal
        self._whole = Tokenizer.from_str(self._backend.to_str())
        self._whole.no_truncation()
        self._whole.encode_special_tokens = literal
        self._backend.enable_truncation(max_tokens, strategy="longest_first", direction="right")
        self._pad_id = int(fast.pad_token_id or 0)

    @property
    def pad_id(self) -> int:
        return self._pad_id

    def rows(self, texts: Sequence[Text]) -> list[TokenRow]:
        encodings = self._backend.encode_batch_fast([_valid(text) for text in texts])
        return [self._row(encoding) for encoding in encodings]

    def count(self, text: str) -> int:
        """Tokens with the special ones, uncut."""
        return len(self._whole.encode_batch_fast([_valid(text)])[0])

    def _row(self, encoding: Any) -> TokenRow:
        ids = encoding.ids
        if not ids:
            # A tokenizer without special tokens makes nothing of an empty text, and nothing has no mean.
            return TokenRow(np.array([self._pad_id], np.int32), np.zeros(1, np.int32))
        return TokenRow(np.array(ids, np.int32), np.array(encoding.type_ids, np.int32))


def load_tokenizer(directory: Path) -> Any:
    """Raises ModelNotFound when there is no tokenizer, or one without a fast form."""
    from transformers import AutoTokenizer

    try:
        fast = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        line = (str(error).strip().splitlines() or [""])[0]
        raise ModelNotFound(f"no usable tokenizer in {directory}: {type(error).__name__}: {line}") from error
    if not getattr(fast, "is_fast", False):
        raise ModelNotFound(f"the tokenizer of {directory} has no fast form (tokenizer.json)")
    return fast


def _valid(text: Text) -> Text:
    """Lone surrogates, which JSON can carry, are no text that a tokenizer takes."""
    if isinstance(text, tuple):
        return _valid_text(text[0]), _valid_text(text[1])
    return _valid_text(text)


def _valid_text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
