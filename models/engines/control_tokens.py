"""Tokenise text in which a control token exists only where a chat template wrote it.

Owns which added tokens of a vocabulary are control tokens and how text that merely spells one is kept apart from them.
Knows nothing of messages or templates.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from models.errors import UnsupportedParam

# Tokenised in front of text (and removed again) where the tokenizer treats the start of a text specially. The first one
# that does not merge with the text is used.
_ANCHORS = ("\n", ".", "a")
_BRACKETED = re.compile(r"[<\[({|｜].+[>\])}|｜]", re.DOTALL)
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
# Gemma has tokens for these elements. They occur in documents and control nothing.
_HTML = re.compile(
    r"</?(?:table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|strong|em|b|i|u|s|sub|sup|code)>", re.IGNORECASE
)
_PRIVATE = (range(0x100000, 0x10FFFE), range(0xF0000, 0xFFFFE))


@dataclass(frozen=True, slots=True)
class TextMask:
    """Exchange the characters with which control tokens begin and end for characters that no text here contains.

    Templates trim, cut and join the masked text as they would the text itself, since lengths and white space stay.
    """

    _to_private: Mapping[int, str]
    _from_private: Mapping[int, str]

    @classmethod
    def of(cls, characters: Iterable[str], value: object) -> TextMask:
        """Build a mask for all strings in ``value``, which is of the kinds that JSON has.

        Raises:
            UnsupportedParam: the texts use up the private characters of Unicode.
        """
        exchanged = sorted(characters)
        used = set().union(*_strings(value))
        free = (chr(code) for codes in _PRIVATE for code in codes if chr(code) not in used)
        pairs = dict(zip(exchanged, free, strict=False))
        if len(pairs) < len(exchanged):
            raise UnsupportedParam("the text uses every private character of Unicode", param="messages")
        return cls(
            {ord(char): private for char, private in pairs.items()},
            {ord(private): char for char, private in pairs.items()},
        )

    def hide(self, value: Any) -> Any:
        """Mask all strings in ``value``."""
        if isinstance(value, str):
            return value.translate(self._to_private)
        if isinstance(value, Mapping):
            return {self.hide(key): self.hide(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.hide(inner) for inner in value]
        return value

    def show(self, text: str) -> str:
        return text.translate(self._from_private)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings([*value.keys(), *value.values()])
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)


class ControlTokenEncoder:
    """Encode text with a copy of the tokenizer in which unguessable words stand for the control tokens.

    The copy splits, normalises and merges as the tokenizer itself does around its control tokens, so that ordinary text
    gets the tokens of the tokenizer, also beside a control token. ``template`` is the source of the chat template, ""
    where there is none: a token that it names is a control token.
    """

    def __init__(self, backend: Any, template: str) -> None:
        added = backend.get_added_tokens_decoder()
        state = json.loads(backend.to_str())
        self.control: Mapping[str, int] = {
            token.content: token_id for token_id, token in added.items() if _is_control(token, template)
        }
        self.characters = frozenset(char for content in self.control for char in (content[0], content[-1]))
        self._backend, self._real_ids, self._stand_ins = self._copy(backend, state, added)
        vocabulary = backend.get_vocab(with_added_tokens=False)
        spared = _unknown_token(state, vocabulary)
        # Control tokens that the model's own vocabulary also has: merges may spell them from ordinary characters.
        self._reachable = {
            vocabulary[content]: content
            for content in self.control
            if content in vocabulary and content != spared and not _BYTE.fullmatch(content)
        }
        self._anchor = self._find_anchor()

    def encode(self, text: str) -> list[int]:
        """Encode text that continues a sequence: no control token, no space in front."""
        if not text:
            return []
        return self._without_control(self._encode_middle(text))

    def encode_start(self, text: str) -> list[int]:
        """Encode text that begins a sequence, as the tokenizer does: some put a space in front."""
        return self._without_control(self._encode_raw(text)) if text else []

    def encode_rendered(self, rendered: str, mask: TextMask) -> list[int]:
        """Encode what a template has made of masked text: control tokens outside the masked text are real."""
        marked = self._pattern.sub(lambda found: self._stand_ins[found[0]], rendered) if self.control else rendered
        return self._without_control(self._encode_raw(mask.show(marked)))

    def leading_control(self, text: str) -> int | None:
        """Return the id of the control token that ``text`` begins with, after white space, if any."""
        found = self._pattern.match(text.lstrip()) if self.control else None
        return None if found is None else self.control[found[0]]

    @property
    def anchor(self) -> list[int]:
        """Return the ids to decode before others where the decoder treats the start of a text specially."""
        return self._anchor

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        # The longest one wins, as in the tokenizer.
        return re.compile("|".join(map(re.escape, sorted(self.control, key=len, reverse=True))))

    def _copy(
        self, backend: Any, state: dict[str, Any], added: Mapping[int, Any]
    ) -> tuple[Any, dict[int, int], dict[str, str]]:
        """Return the copy, its ids that differ from the tokenizer's, and the word for each control token."""
        kept = [entry for entry in state["added_tokens"] if entry["content"] not in self.control]
        changed = {"added_tokens": kept, "post_processor": None, "padding": None, "truncation": None}
        source = json.dumps(state | changed)
        nonce = secrets.token_hex(16)
        words = {content: f"<{nonce}.{number}>" for number, content in enumerate(self.control)}
        tokens = {words[token.content]: token for token in added.values() if token.content in words}
        copy = _with_words(source, tokens, frozenset())
        # A normalizer that puts a space in front hides tokens that are searched for in normalised text.
        normalized = [word for word, token in tokens.items() if token.normalized]
        hidden = [
            w for w in normalized if copy.token_to_id(w) not in copy.encode(f"a{w}a", add_special_tokens=False).ids
        ]
        if hidden:
            copy = _with_words(source, tokens, frozenset(hidden))
        names = {entry["content"]: entry["content"] for entry in kept} | words
        ids = {int(copy.token_to_id(name)): int(backend.token_to_id(content)) for content, name in names.items()}
        return copy, ids, words

    def _find_anchor(self) -> list[int]:
        anchor, bare = self._encode_raw(_ANCHORS[0]), self._encode_raw("x")
        exact = self._encode_raw(_ANCHORS[0] + "x") == [*anchor, *bare]
        exact = exact and self._backend.decode(bare) == "x" and self._backend.decode(self._encode_raw(" x")) == " x"
        return [] if exact else anchor

    def _encode_middle(self, text: str) -> list[int]:
        for anchor in _ANCHORS if self._anchor else ():
            head, ids = self._encode_raw(anchor), self._encode_raw(anchor + text)
            if ids[: len(head)] == head:
                return ids[len(head) :]
        return self._encode_raw(text)

    def _encode_raw(self, text: str) -> list[int]:
        # A lone surrogate, which JSON can contain, has no UTF-8 encoding and would raise.
        clean = text.encode("utf-8", errors="replace").decode()
        return list(self._backend.encode(clean, add_special_tokens=False).ids)

    def _without_control(self, ids: list[int]) -> list[int]:
        """Return the tokenizer's own ids, control tokens that merges have spelled taken apart."""
        if self._reachable and not self._reachable.keys().isdisjoint(ids):
            ids = [part for token_id in ids for part in self._apart(token_id)]
        return [self._real_ids.get(token_id, token_id) for token_id in ids]

    def _apart(self, token_id: int) -> list[int]:
        content = self._reachable.get(token_id)
        if content is None:
            return [token_id]
        pieces = [self._encode_middle(content[:1]), self._encode_middle(content[1:])]
        return [part for piece in pieces for part in piece if part not in self._reachable]


def _is_control(token: Any, template: str) -> bool:
    """Return whether a token steers the model; the others (runs of spaces, words) are text that is one token."""
    content = token.content
    if token.special:
        return True
    if not content.strip("▁ \t\r\n"):
        return False
    if content in template and not content.isalnum():
        return True
    return _BRACKETED.fullmatch(content) is not None and _HTML.fullmatch(content) is None


def _with_words(source: str, tokens: Mapping[str, Any], bare: Container[str]) -> Any:
    """Return a tokenizer with the words, matched as their tokens are; those in ``bare`` before normalisation."""
    from tokenizers import AddedToken, Tokenizer

    copy = Tokenizer.from_str(source)
    copy.add_tokens(
        [
            AddedToken(
                word,
                single_word=token.single_word,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                normalized=token.normalized and word not in bare,
            )
            for word, token in tokens.items()
        ]
    )
    return copy


def _unknown_token(state: Mapping[str, Any], vocabulary: Mapping[str, int]) -> str | None:
    """Return the token of unknown characters, which any text may have."""
    model = state["model"]
    if model.get("unk_token") is not None:
        return str(model["unk_token"])
    unknown = model.get("unk_id")
    return None if unknown is None else next((text for text, i in vocabulary.items() if i == unknown), None)
