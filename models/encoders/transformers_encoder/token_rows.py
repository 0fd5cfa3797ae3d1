"""Tokenise texts with a Hugging Face tokenizer and cut them to length.

The tokenizer's own padding and truncation settings are off: published files carry settings of their training
(all-MiniLM's cuts at 128 and pads to 128), and none is used.
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
    """Hold one text's token ids and, of equal length, its segment ids.

    Never empty.
    """

    ids: NDArray[np.int32]
    segments: NDArray[np.int32]


class TruncatingTokenizer:
    """Tokenise texts, or pairs of segments, into rows of at most ``max_tokens``.

    Rows are cut at the end; of a pair the longer part first. Safe from many threads: the tokenizer is configured once
    and only read after.
    """

    def __init__(self, fast: Any, max_tokens: int, *, literal: bool = True) -> None:
        """Copy the tokenizer without its padding and truncation settings.

        ``literal``: names of special tokens inside a text are plain text.
        """
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

    @property
    def vocabulary(self) -> list[str]:
        """Return the names of all tokens by id, "" for an id without one."""
        known = self._whole.get_vocab(with_added_tokens=True)
        names = [""] * (max(known.values(), default=-1) + 1)
        for name, number in known.items():
            names[number] = name
        return names

    def rows(self, texts: Sequence[Text]) -> list[TokenRow]:
        encodings = self._backend.encode_batch_fast([_valid(text) for text in texts])
        return [self._row(encoding) for encoding in encodings]

    def count(self, text: str) -> int:
        """Count the tokens of an uncut text, special tokens included."""
        return len(self._whole.encode_batch_fast([_valid(text)])[0])

    def _row(self, encoding: Any) -> TokenRow:
        ids = encoding.ids
        if not ids:
            # Without special tokens an empty text has no ids, and no ids have no mean.
            return TokenRow(np.array([self._pad_id], np.int32), np.zeros(1, np.int32))
        return TokenRow(np.array(ids, np.int32), np.array(encoding.type_ids, np.int32))


def load_tokenizer(directory: Path) -> Any:
    """Load the fast tokenizer of a directory.

    Raises:
        ModelNotFound: there is no tokenizer, or it has no fast form.
    """
    from models.encoders.transformers_encoder.plain_bert import load_plain_tokenizer

    plain = load_plain_tokenizer(directory)
    if plain is not None:
        return plain
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
    """Replace lone surrogates, which JSON can contain and tokenizers reject."""
    if isinstance(text, tuple):
        return _valid_text(text[0]), _valid_text(text[1])
    return _valid_text(text)


def _valid_text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
