"""Prepare what an encoder reads, from texts to token ids, and state its fingerprint; without torch.

The same for vectors that are computed here and elsewhere. The tokenizer's own padding and truncation settings are off:
published files carry settings of their training (all-MiniLM's cuts at 128 and pads to 128), and none is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import EncoderFingerprint, PassageText, join_title
from models.encoders.model_files import digests
from models.encoders.resolve import ResolvedEncoder
from models.encoders.specs import EncoderSpec
from models.errors import ModelNotFound
from models.files import first_line, read_json

# Flag of tokenizer_config.json -> flag of the normalizer in tokenizer.json, and the default of the first.
_NORMALIZER: Final = (
    ("do_lower_case", "lowercase", True),
    ("strip_accents", "strip_accents", None),
    ("tokenize_chinese_chars", "handle_chinese_chars", True),
)
Text = str | tuple[str, str]


@dataclass(frozen=True, slots=True)
class EncoderTexts:
    """Turn queries and passages into the texts that a tokenizer gets."""

    spec: EncoderSpec

    def queries(self, texts: Sequence[str]) -> Iterator[Text]:
        for text in texts:
            yield self.query(text)

    def query(self, text: str) -> str:
        return self._cased(self.spec.prefixes[0] + text)

    def passages(self, passages: Sequence[PassageText]) -> Iterator[Text]:
        prefix = self.spec.prefixes[1]
        for passage in passages:
            if self.spec.pairs:
                yield self._cased(prefix + passage.title), self._cased(passage.text)
            else:
                yield self._cased(prefix + join_title(passage, self.spec.separator))

    def _cased(self, text: str) -> str:
        return text.lower() if self.spec.lower else text


def file_digests(resolved: ResolvedEncoder) -> tuple[tuple[str, str], ...]:
    """Return name and sha256 of the files of all towers; with two towers, names begin with the tower's role."""
    folders = list(resolved.folders)
    if len(folders) == 1:
        return digests(folders[0])
    return tuple(
        (f"{role}/{name}", digest)
        for role, folder in zip(("query", "passage"), folders, strict=True)
        for name, digest in digests(folder)
    )


def fingerprint_of(resolved: ResolvedEncoder, sha256: tuple[tuple[str, str], ...], dim: int) -> EncoderFingerprint:
    spec = resolved.spec
    return EncoderFingerprint(
        encoder_id=spec.name,
        revision=",".join(folder.revision for folder in resolved.folders).strip(","),
        sha256=sha256,
        pooling=spec.pooling,
        normalise=spec.normalise,
        metric=spec.metric,
        dim=dim,
        max_query=spec.max_query,
        max_passage=spec.max_passage,
        pairs=spec.pairs,
        separator=spec.separator,
        prefixes=spec.prefixes,
    )


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


@dataclass(frozen=True, slots=True)
class PlainTokenizer:
    """Offer what the encoder reads of a transformers tokenizer."""

    backend_tokenizer: Any
    pad_token_id: int
    model_input_names: tuple[str, ...] = ("input_ids", "token_type_ids", "attention_mask")

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size(with_added_tokens=True))


def load_tokenizer(directory: Path) -> Any:
    """Load the fast tokenizer of a directory.

    Raises:
        ModelNotFound: there is no tokenizer, or it has no fast form.
    """
    plain = load_plain_tokenizer(directory)
    if plain is not None:
        return plain
    from transformers import AutoTokenizer

    try:
        fast = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelNotFound(
            f"no usable tokenizer in {directory}: {type(error).__name__}: {first_line(error)}"
        ) from error
    if not getattr(fast, "is_fast", False):
        raise ModelNotFound(f"the tokenizer of {directory} has no fast form (tokenizer.json)")
    return fast


def load_plain_tokenizer(directory: Path) -> PlainTokenizer | None:
    """Load a BERT tokenizer from its tokenizer.json, or return None where transformers has to read the folder.

    transformers builds the normalizer from tokenizer_config.json: only where both files agree is the first one enough.
    """
    from tokenizers import Tokenizer

    try:
        config, text = read_json(directory / "tokenizer_config.json"), (directory / "tokenizer.json").read_text("utf-8")
        parts = json.loads(text)
        normalizer, model = parts["normalizer"], parts["model"]
        agrees = normalizer["type"] == "BertNormalizer" and model["type"] == "WordPiece"
        agrees = agrees and config["tokenizer_class"] in ("BertTokenizer", "BertTokenizerFast")
        agrees = agrees and all(
            config.get(config_key, usual) == normalizer[normalizer_key]
            for config_key, normalizer_key, usual in _NORMALIZER
        )
        if not agrees or (directory / "added_tokens.json").exists():
            return None
        return PlainTokenizer(Tokenizer.from_str(text), int(model["vocab"][config["pad_token"]]))
    except Exception:
        # Whatever is wrong with the files, transformers says it; tokenizers' error has no base class but this one.
        return None


def _valid(text: Text) -> Text:
    """Replace lone surrogates, which JSON can contain and tokenizers reject."""
    if isinstance(text, tuple):
        return _valid_text(text[0]), _valid_text(text[1])
    return _valid_text(text)


def _valid_text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
