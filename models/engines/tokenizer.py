"""Turn text and chats into token ids, and ids back into text, with a Hugging Face tokenizer.

Text is data: a control token exists only where a chat template wrote it. Owns which added tokens of a vocabulary are
control tokens, and how text that merely spells one is kept apart from them. Knows nothing of models or sampling.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from models.card import ModelCard
from models.catalog import disable_hub_access
from models.engines.base import ThinkingTokens
from models.engines.chat_template import ChatTemplate, template_source
from models.errors import ModelNotFound, UnsupportedParam
from models.files import first_line

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


class HfTokenizer:
    """Implement ``Tokenizer`` with a transformers fast tokenizer.

    ``eos_token_ids`` are added to the tokenizer's own and to the token with which the chat template ends a reply.
    """

    def __init__(self, fast: Any, eos_token_ids: Iterable[int] = ()) -> None:
        from tokenizers import Tokenizer as Backend

        self.fast = fast
        self._template = ChatTemplate(fast.special_tokens_map, template_source(fast.chat_template))
        self._backend = Backend.from_str(fast.backend_tokenizer.to_str())
        self._backend.no_padding()
        self._backend.no_truncation()
        self._encoder = ControlTokenEncoder(self._backend, self._template.source)
        self._thinking = ThinkingTokens.of(self._encoder.control)
        self._begin = _tokens_put_in_front(self._backend)
        self._vocab_size = max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        own_eos = () if fast.eos_token_id is None else (int(fast.eos_token_id),)
        self._eos = frozenset((*eos_token_ids, *own_eos, *self._end_of_turn()))
        # What ``decode`` leaves out.
        self._special = {i for i, token in self._backend.get_added_tokens_decoder().items() if token.special}
        self._by_text: dict[str, int] | None = None

    @classmethod
    def of_card(cls, card: ModelCard, chat_template: Path | None = None) -> HfTokenizer:
        """Read the tokenizer of a card, from the hub only where the card allows it; raises as ``load``."""
        local_only = card.is_local or not card.allow_download
        if local_only:
            disable_hub_access()
        return cls.load(card.source, revision=card.revision, local_only=local_only, chat_template=chat_template)

    @classmethod
    def load(
        cls, source: str, *, revision: str | None = None, local_only: bool = True, chat_template: Path | None = None
    ) -> HfTokenizer:
        """Read the tokenizer and the end tokens of a model directory or hub id.

        ``chat_template`` is a Jinja file in place of the model's own template.

        Raises:
            ModelNotFound: files are missing, damaged, or hold no fast tokenizer.
        """
        from transformers import AutoTokenizer

        try:
            fast = AutoTokenizer.from_pretrained(source, revision=revision, local_files_only=local_only)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise ModelNotFound(f"no usable tokenizer in {source}: {first_line(error)}") from error
        if not getattr(fast, "is_fast", False):
            raise ModelNotFound(f"the tokenizer of {source} has no fast form (tokenizer.json)")
        if chat_template is not None:
            try:
                fast.chat_template = chat_template.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise ModelNotFound(f"the chat template {chat_template} cannot be read: {first_line(error)}") from error
        return cls(fast, _configured_eos(source, revision=revision, local_only=local_only))

    @property
    def backend(self) -> Any:
        """Return the tokenizer of the library ``tokenizers``, which neither pads nor truncates."""
        return self._backend

    @property
    def vocab_size(self) -> int:
        """Return the largest id plus one."""
        return self._vocab_size

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return self._eos

    @property
    def control_ids(self) -> frozenset[int]:
        """Return the ids of the tokens that text never yields, whatever it spells."""
        return frozenset((*self._encoder.control.values(), *self._special))

    @property
    def bos_token_id(self) -> int | None:
        return self._begin[0] if self._begin else None

    @property
    def has_chat_template(self) -> bool:
        return bool(self._template.source)

    @property
    def thinking(self) -> ThinkingTokens | None:
        return self._thinking

    @property
    def thinks_by_default(self) -> bool:
        """Return whether the chat template lets the model think where a request does not say so."""
        if self._thinking is None or not self.has_chat_template:
            return False
        opens = self._thinking.is_open(self.encode_chat([{"role": "user", "content": "a"}]))
        return opens or "enable_thinking" in self._template.source

    def encode(self, text: str) -> list[int]:
        return self._encoder.encode(text)

    def encode_start(self, text: str) -> list[int]:
        return [*self._begin, *self._encoder.encode_start(text)]

    def decode(self, token_ids: Sequence[int]) -> str:
        known = [i for i in token_ids if 0 <= i < self._vocab_size]
        anchor = self._encoder.anchor
        if not anchor:
            return str(self._backend.decode(known, skip_special_tokens=True))
        anchored = str(self._backend.decode([*anchor, *known], skip_special_tokens=True))
        return anchored[len(self._backend.decode(anchor, skip_special_tokens=True)) :]

    def token_id(self, token: str) -> int | None:
        ids = self.encode(token)
        if len(ids) == 1 and self.decode(ids) == token:
            return ids[0]
        if self._by_text is None:
            self._by_text = self._index_by_text()
        return self._by_text.get(token)

    @cached_property
    def tool_template(self) -> str | None:
        return tool_template_of(self.fast.chat_template)

    def special_id(self, token: str) -> int | None:
        token_id = self._backend.token_to_id(token)
        return token_id if token_id in self._special else None

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[int]:
        if not self.has_chat_template:
            raise UnsupportedParam("this model has no chat template", param="messages")
        if not messages:
            raise UnsupportedParam("there are no messages", param="messages")
        if tools and self.tool_template is None:
            raise UnsupportedParam("the chat template has no place for tools", param="tools")
        with_tools: dict[str, Any] = {"tools": list(tools), "chat_template": self.tool_template} if tools else {}
        return self.encode_conversation(messages, add_generation_prompt=add_generation_prompt, **with_tools)

    def encode_conversation(
        self, messages: Sequence[Mapping[str, Any]], *, chat_template: str | None = None, **variables: Any
    ) -> list[int]:
        """Apply the chat template to messages of any form, with ``variables`` for it (tools, documents).

        ``chat_template`` is the source of another of the model's templates.

        Raises:
            UnsupportedParam: the template refuses them.
        """
        if all(message.keys() == {"role", "content"} and isinstance(message["content"], str) for message in messages):
            messages = self._template.arrange(messages)
        mask = TextMask.of(self._encoder.characters, [*messages, variables])
        masked = [self._masked(message, mask) for message in messages]
        given = {key: mask.hide(value) for key, value in variables.items()}
        rendered = self._template.render(masked, given | {"chat_template": chat_template or self._template.source})
        return self._encoder.encode_rendered(rendered, mask)

    def _masked(self, message: Mapping[str, Any], mask: TextMask) -> dict[str, Any]:
        masked: dict[str, Any] = mask.hide(message)
        if message["role"] == "assistant" and isinstance(message.get("content"), str):
            masked["content"] = self._masked_reply(message["content"], mask)
        return masked

    def _masked_reply(self, text: str, mask: TextMask) -> Any:
        """Mask an earlier reply, except what the template reads in it to cut its thinking."""
        thinking = self._thinking
        if thinking is None or thinking.end_text not in self._template.source:
            return mask.hide(text)
        thoughts, end, rest = text.rpartition(thinking.end_text)
        before, start, inner = thoughts.partition(thinking.start_text)
        if not end:
            return mask.hide(text)
        return mask.hide(before) + start + mask.hide(inner) + end + mask.hide(rest)

    def _end_of_turn(self) -> tuple[int, ...]:
        if not self.has_chat_template:
            return ()
        end = self._encoder.leading_control(self._template.after_reply())
        return () if end is None else (end,)

    def _index_by_text(self) -> dict[str, int]:
        control = frozenset(self._encoder.control.values())
        index: dict[str, int] = {}
        for token_id in range(self._vocab_size):
            if token_id not in control:
                index.setdefault(self.decode((token_id,)), token_id)
        return index


def tool_template_of(template: str | Mapping[str, str] | None) -> str | None:
    """Return the text of the chat template that lists tools, None where none does.

    A model can have several templates by name; that for tools is called ``tool_use``.
    """
    from jinja2 import Environment, TemplateError, meta

    if isinstance(template, Mapping):
        template = template.get("tool_use") or template.get("default")
    if not template:
        return None
    try:
        # Templates mark the text of assistants with a block of transformers' own, which has no meaning here.
        plain = re.sub(r"\{%-?\s*(?:end)?generation\s*-?%\}", "", template)
        names = meta.find_undeclared_variables(Environment(extensions=["jinja2.ext.loopcontrols"]).parse(plain))
    except TemplateError:
        return None
    return template if "tools" in names else None


def _tokens_put_in_front(backend: Any) -> tuple[int, ...]:
    """Return what the tokenizer puts in front of a text that begins a sequence: BOS, for most nothing."""
    bare, whole = (list(backend.encode("a", add_special_tokens=special).ids) for special in (False, True))
    starts = (start for start in range(len(whole)) if whole[start : start + len(bare)] == bare)
    return tuple(whole[: next(starts, 0)])


def _configured_eos(source: str, *, revision: str | None, local_only: bool) -> frozenset[int]:
    """Return the end tokens of config.json and generation_config.json together; each may list several."""
    from transformers import GenerationConfig, PreTrainedConfig

    where: dict[str, Any] = {"revision": revision, "local_files_only": local_only}
    stated: list[object] = []
    with suppress(OSError):  # a tokenizer alone
        config, _ = PreTrainedConfig.get_config_dict(source, **where)
        stated += [part.get("eos_token_id") for part in (config, config.get("text_config")) if isinstance(part, dict)]
    if not Path(source).is_dir() or (Path(source) / "generation_config.json").is_file():
        with suppress(OSError):  # an optional file
            stated.append(GenerationConfig.from_pretrained(source, **where).eos_token_id)
    ids = [i for entry in stated for i in (entry if isinstance(entry, (list, tuple)) else [entry])]
    return frozenset(i for i in ids if isinstance(i, int) and i >= 0)


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
        marked = self._pattern.sub(lambda match: self._stand_ins[match[0]], rendered) if self.control else rendered
        return self._without_control(self._encode_raw(mask.show(marked)))

    def leading_control(self, text: str) -> int | None:
        """Return the id of the control token that ``text`` begins with, after white space, if any."""
        match = self._pattern.match(text.lstrip()) if self.control else None
        return None if match is None else self.control[match[0]]

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
