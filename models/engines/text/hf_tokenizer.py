"""Adapt a Hugging Face fast tokenizer to our ``Tokenizer``.

Ensures that text is data: plain text never yields a special token, chat markup comes from the template alone. Knows
nothing of models or sampling.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from models.errors import ModelNotFound, UnsupportedParam

# Tokenised in front of text (and removed again) where the tokenizer treats the start of a text specially.
_ANCHOR = "\n"
_ROLE = re.compile(r"[a-z_]{1,32}")


class HfTokenizer:
    """Implement ``Tokenizer`` with a transformers fast tokenizer.

    ``eos_token_ids`` are added to the tokenizer's own (generation configs list more).
    """

    def __init__(self, fast: Any, eos_token_ids: Iterable[int] = ()) -> None:
        from tokenizers import Tokenizer as Backend

        self.fast = fast
        serialised = fast.backend_tokenizer.to_str()
        self._markup = Backend.from_str(serialised)
        self._plain = Backend.from_str(serialised)
        self._plain.encode_special_tokens = True
        for backend in (self._markup, self._plain):
            backend.no_padding()
            backend.no_truncation()
        self._special = {i for i, t in self._plain.get_added_tokens_decoder().items() if t.special}
        own_eos = () if fast.eos_token_id is None else (int(fast.eos_token_id),)
        self._eos = frozenset(eos_token_ids) | frozenset(own_eos)
        self._vocab_size = max(self._plain.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self._anchor = [] if _is_byte_level(serialised) else self._encode_raw(self._plain, _ANCHOR)
        self._by_text: dict[str, int] | None = None

    @classmethod
    def load(cls, source: str, *, revision: str | None = None, local_only: bool = True) -> HfTokenizer:
        """Read the tokenizer and the generation config of a model directory or hub id.

        Raises:
            ModelNotFound: files are missing, damaged, or hold no fast tokenizer.
        """
        from transformers import AutoTokenizer

        try:
            fast = AutoTokenizer.from_pretrained(source, revision=revision, local_files_only=local_only)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise ModelNotFound(f"no usable tokenizer in {source}: {_first_line(error)}") from error
        if not getattr(fast, "is_fast", False):
            raise ModelNotFound(f"the tokenizer of {source} has no fast form (tokenizer.json)")
        return cls(fast, _generation_eos(source, revision=revision, local_only=local_only))

    @property
    def vocab_size(self) -> int:
        """Return the largest id plus one."""
        return self._vocab_size

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return self._eos

    @property
    def bos_token_id(self) -> int | None:
        bos = self.fast.bos_token_id
        return None if bos is None else int(bos)

    @property
    def has_chat_template(self) -> bool:
        return bool(self.fast.chat_template)

    def encode(self, text: str) -> list[int]:
        if not text:
            return []
        if not self._anchor:
            return self._encode_raw(self._plain, text)
        ids = self._encode_raw(self._plain, _ANCHOR + text)
        if ids[: len(self._anchor)] == self._anchor:
            return ids[len(self._anchor) :]
        return self._encode_raw(self._plain, text)

    def decode(self, token_ids: Sequence[int]) -> str:
        known = [i for i in token_ids if 0 <= i < self._vocab_size]
        if not self._anchor:
            return str(self._plain.decode(known, skip_special_tokens=True))
        anchored = str(self._plain.decode([*self._anchor, *known], skip_special_tokens=True))
        return anchored[len(self._plain.decode(self._anchor, skip_special_tokens=True)) :]

    def token_id(self, token: str) -> int | None:
        ids = self.encode(token)
        if len(ids) == 1 and self.decode(ids) == token:
            return ids[0]
        if self._by_text is None:
            self._by_text = self._index_by_text()
        return self._by_text.get(token)

    def encode_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        if not self.has_chat_template:
            raise UnsupportedParam("this model has no chat template", param="messages")
        if not messages:
            raise UnsupportedParam("there are no messages", param="messages")
        marks = [f"mark{secrets.token_hex(8)}" for _ in messages]
        rendered = self._render(messages, marks, add_generation_prompt)
        contents = {mark: message["content"] for mark, message in zip(marks, messages, strict=True)}
        for message, mark in zip(messages, marks, strict=True):
            if mark not in rendered:
                raise UnsupportedParam(f"the chat template drops a {message['role']!r} message", param="messages")
        return self._encode_rendered(rendered, contents)

    def _render(self, messages: Sequence[Mapping[str, str]], marks: Sequence[str], add_generation_prompt: bool) -> str:
        from jinja2 import TemplateError

        for message in messages:
            # A role is written into the markup as it stands, so it must not be free text.
            if not _ROLE.fullmatch(message["role"]):
                raise UnsupportedParam(f"not a role: {message['role'][:32]!r}", param="messages")
        # The tabs, which no template writes itself, show whether the template strips its input.
        stand_ins = [{"role": m["role"], "content": f"\t{mark}\t"} for m, mark in zip(messages, marks, strict=True)]
        try:
            return str(
                self.fast.apply_chat_template(stand_ins, tokenize=False, add_generation_prompt=add_generation_prompt)
            )
        except (TemplateError, ValueError) as error:
            raise UnsupportedParam(f"the chat template refuses: {_first_line(error)}", param="messages") from error

    def _encode_rendered(self, rendered: str, contents: Mapping[str, str]) -> list[int]:
        ids: list[int] = []
        for piece in re.split(r"(\t?(?:" + "|".join(contents) + r")\t?)", rendered):
            mark = piece.strip()
            if mark not in contents:
                ids += self._encode_raw(self._markup, piece)
                continue
            text = contents[mark]
            text = text if piece.startswith("\t") else text.lstrip()
            ids += self.encode(text if piece.endswith("\t") else text.rstrip())
        return ids

    @staticmethod
    def _encode_raw(backend: Any, text: str) -> list[int]:
        # A lone surrogate, which JSON can contain, has no UTF-8 encoding and would raise.
        clean = text.encode("utf-8", errors="replace").decode()
        return list(backend.encode(clean, add_special_tokens=False).ids)

    def _index_by_text(self) -> dict[str, int]:
        index: dict[str, int] = {}
        for token_id in range(self._vocab_size):
            if token_id not in self._special:
                index.setdefault(self.decode((token_id,)), token_id)
        return index


def _is_byte_level(serialised: str) -> bool:
    decoder = json.loads(serialised).get("decoder") or {}
    parts = decoder.get("decoders", [decoder])
    return any(part.get("type") == "ByteLevel" for part in parts)


def _generation_eos(source: str, *, revision: str | None, local_only: bool) -> frozenset[int]:
    from transformers import GenerationConfig

    if Path(source).is_dir() and not (Path(source) / "generation_config.json").is_file():
        return frozenset()
    try:
        config = GenerationConfig.from_pretrained(source, revision=revision, local_files_only=local_only)
    except OSError:
        # Optional file: without it the tokenizer's own end token is the only one.
        return frozenset()
    eos = config.eos_token_id
    if eos is None:
        return frozenset()
    return frozenset(eos) if isinstance(eos, (list, tuple)) else frozenset({int(eos)})


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
