"""Tokenise without files: one token per UTF-8 byte, a few special tokens, and optional whole-string tokens.

Used by the scripted engine. The extra tokens let tests have vocabularies where an arrow is part of a larger token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from models.errors import UnsupportedParam

_SPECIALS = ("<|begin|>", "<|eos|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
_FIRST_SPECIAL = 256
_ROLES = {"system": 258, "developer": 258, "user": 259, "assistant": 260, "tool": 259}
_END_OF_TURN = 261


class ByteTokenizer:
    """Map ids 0-255 to bytes, the next ones to special tokens, then to ``extra_tokens`` (matched longest first)."""

    def __init__(self, extra_tokens: Sequence[str] = (), *, chat: bool = True) -> None:
        self._chat = chat
        first = _FIRST_SPECIAL + len(_SPECIALS)
        self._extra = {token: first + i for i, token in enumerate(dict.fromkeys(extra_tokens)) if token}
        self._pieces = [bytes([i]) for i in range(256)] + [b""] * len(_SPECIALS) + [t.encode() for t in self._extra]
        longest_first = sorted(self._extra, key=len, reverse=True)
        self._splitter = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return frozenset({257})

    @property
    def bos_token_id(self) -> int | None:
        return _FIRST_SPECIAL

    @property
    def has_chat_template(self) -> bool:
        return self._chat

    def encode(self, text: str) -> list[int]:
        if self._splitter is None:
            return list(_utf8(text))
        ids: list[int] = []
        for piece in self._splitter.split(text):
            if piece in self._extra:
                ids.append(self._extra[piece])
            else:
                ids.extend(_utf8(piece))
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        known = (self._pieces[i] for i in token_ids if 0 <= i < len(self._pieces))
        return b"".join(known).decode("utf-8", errors="replace")

    def token_id(self, token: str) -> int | None:
        if token in self._extra:
            return self._extra[token]
        raw = _utf8(token)
        return raw[0] if len(raw) == 1 else None

    def encode_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        if not self._chat:
            raise UnsupportedParam("this model has no chat template", param="messages")
        ids = [_FIRST_SPECIAL]
        for message in messages:
            role = _ROLES.get(message["role"])
            if role is None:
                raise UnsupportedParam(f"unknown role {message['role']!r}", param="messages")
            ids += [role, *self.encode(message["content"]), _END_OF_TURN]
        if add_generation_prompt:
            ids.append(_ROLES["assistant"])
        return ids


def _utf8(text: str) -> bytes:
    # A lone surrogate, which JSON can contain, has no UTF-8 encoding.
    return text.encode("utf-8", errors="replace")
