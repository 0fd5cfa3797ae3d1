"""Turn text into token ids, and a stream of token ids into a stream of text.

Text is data: plain text never yields a special token, chat markup comes from the template alone. Streamed text has
whole characters only and no part of a stop string. Knows nothing of models or sampling.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from models.errors import ModelNotFound, UnsupportedParam
from models.types import FinishReason

# Tokenised in front of text (and removed again) where the tokenizer treats the start of a text specially.
_ANCHOR = "\n"
_ROLE = re.compile(r"[a-z_]{1,32}")
_ESCAPED_TAB = "\\t"


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

    @cached_property
    def tool_template(self) -> str | None:
        return tool_template_of(self.fast.chat_template)

    def special_id(self, token: str) -> int | None:
        token_id = self._plain.token_to_id(token)
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
        self._check_markup(tools, "tools")
        self._check_markup([message.get("tool_calls") for message in messages], "messages")
        marks = [f"mark{secrets.token_hex(8)}" for _ in messages]
        rendered = self._render(messages, marks, {"add_generation_prompt": add_generation_prompt, "tools": tools})
        contents = {mark: message["content"] for mark, message in zip(marks, messages, strict=True)}
        for message, mark in zip(messages, marks, strict=True):
            # Templates show either the calls of a message or its text.
            if mark not in rendered and not message.get("tool_calls"):
                raise UnsupportedParam(f"the chat template drops a {message['role']!r} message", param="messages")
        return self._encode_rendered(rendered, contents)

    def _check_markup(self, values: object, param: str) -> None:
        """Refuse text that templates write into the markup as it stands, where it spells a special token."""
        for text in texts_in(values):
            if not self._special.isdisjoint(self._encode_raw(self._markup, text)):
                raise UnsupportedParam(f"{param}: text spells a special token of the model; rephrase it", param=param)

    def _render(self, messages: Sequence[Mapping[str, Any]], marks: Sequence[str], options: Mapping[str, Any]) -> str:
        from jinja2 import TemplateError

        for message in messages:
            # A role is written into the markup as it stands, so it must not be free text.
            if not _ROLE.fullmatch(message["role"]):
                raise UnsupportedParam(f"not a role: {message['role'][:32]!r}", param="messages")
        # The tabs, which no template writes itself, show whether the template strips its input.
        stand_ins = [
            {**message, "content": f"\t{mark}\t" if message["content"] else ""}
            for message, mark in zip(messages, marks, strict=True)
        ]
        try:
            tools = list(options["tools"]) or None
            return str(self.fast.apply_chat_template(stand_ins, tokenize=False, **{**options, "tools": tools}))
        except (TemplateError, ValueError) as error:
            raise UnsupportedParam(f"the chat template refuses: {_first_line(error)}", param="messages") from error

    def _encode_rendered(self, rendered: str, contents: Mapping[str, str]) -> list[int]:
        ids: list[int] = []
        for piece in re.split(r"((?:\t|\\t)?(?:" + "|".join(contents) + r")(?:\t|\\t)?)", rendered):
            mark = piece.strip().removeprefix(_ESCAPED_TAB).removesuffix(_ESCAPED_TAB)
            if mark not in contents:
                ids += self._encode_raw(self._markup, piece)
                continue
            text = contents[mark]
            if piece.startswith(_ESCAPED_TAB):
                # The template writes this message as a JSON string.
                ids += self.encode(json.dumps(text, ensure_ascii=False)[1:-1])
                continue
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


def texts_in(value: object) -> Iterator[str]:
    """Yield all keys and texts in a JSON value."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            waiting += one


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


class StopScanner:
    """Pass on the text that is fed, up to the first stop string.

    The stop string whose last character comes first wins; of two ending together, the longer one.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stops if stop))
        self._longest = max(map(len, self._stops), default=0)
        self._withheld = ""
        self.matched: str | None = None

    def feed(self, text: str) -> str:
        """Return the text that no stop string can include any more; after a match, drop everything."""
        if self.matched is not None:
            return ""
        if not self._stops:
            return text
        buffer = self._withheld + text
        found = self._first_match(buffer)
        if found is not None:
            start, self.matched = found
            self._withheld = ""
            return buffer[:start]
        length = self._withheld_length(buffer)
        self._withheld = buffer[len(buffer) - length :]
        return buffer[: len(buffer) - length]

    def flush(self) -> str:
        """Return the withheld rest, when the text ends without a stop string."""
        withheld, self._withheld = self._withheld, ""
        return withheld

    def _first_match(self, buffer: str) -> tuple[int, str] | None:
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = buffer.find(stop)
            if start >= 0:
                candidate = (start + len(stop), -len(stop), stop)
                best = candidate if best is None else min(best, candidate)
        if best is None:
            return None
        return best[0] + best[1], best[2]

    def _withheld_length(self, buffer: str) -> int:
        for length in range(min(self._longest - 1, len(buffer)), 0, -1):
            tail = buffer[-length:]
            if any(len(stop) > length and stop.startswith(tail) for stop in self._stops):
                return length
        return 0


_REPLACEMENT = "�"
# A UTF-8 character has at most four bytes, so an unfinished one spans at most the last three tokens. Without the bound,
# bytes that never become characters would be decoded again and again.
_MAX_PENDING = 8
_UNFINISHED = 3


class Decoder(Protocol):
    """Turn ids into text: the part of a ``Tokenizer`` that a stream of ids needs."""

    def decode(self, token_ids: Sequence[int]) -> str: ...


class IncrementalDecoder:
    """Decode ids as they come, withholding a character until all its bytes are there.

    All pieces and the flush together are ``tokenizer.decode`` of all ids.
    """

    def __init__(self, tokenizer: Decoder) -> None:
        self._tokenizer = tokenizer
        self._pending: list[int] = []
        self._num_emitted = 0  # characters of the pending ids' text already returned

    def feed(self, token_ids: Sequence[int]) -> str:
        pieces = []
        for token_id in token_ids:
            self._pending.append(token_id)
            pieces.append(self._advance())
        return "".join(pieces)

    def flush(self) -> str:
        """Return the withheld text; unfinished characters become U+FFFD."""
        text = self._tokenizer.decode(self._pending)[self._num_emitted :]
        self._pending, self._num_emitted = [], 0
        return text

    def _advance(self) -> str:
        text = self._tokenizer.decode(self._pending)
        if not text.endswith(_REPLACEMENT):
            new = text[self._num_emitted :]
            self._pending, self._num_emitted = [], 0
            return new
        settled = text.rstrip(_REPLACEMENT)
        new = settled[self._num_emitted :]
        self._num_emitted = max(self._num_emitted, len(settled))
        return new + self._drop_settled(text)

    def _drop_settled(self, text: str) -> str:
        if len(self._pending) <= _MAX_PENDING:
            return ""
        head, tail = self._pending[:-_UNFINISHED], self._pending[-_UNFINISHED:]
        head_text = self._tokenizer.decode(head)
        # Equal only when no character spans the cut: a spanning one would be replaced on both sides.
        if head_text + self._tokenizer.decode(tail) != text:
            return ""
        new = head_text[self._num_emitted :]
        self._num_emitted = max(0, self._num_emitted - len(head_text))
        self._pending = tail
        return new


class TextStream:
    """Turn token ids into text that is safe to send: an ``IncrementalDecoder`` followed by a ``StopScanner``."""

    def __init__(self, tokenizer: Decoder, stops: Sequence[str]) -> None:
        self._decoder = IncrementalDecoder(tokenizer)
        self._scanner = StopScanner(stops)

    @property
    def stop_matched(self) -> str | None:
        return self._scanner.matched

    def advance(self, token_id: int, *, is_eos: bool, is_last: bool) -> tuple[str, FinishReason | None]:
        """Return the new text, and the finish reason if the stream ends with this token; EOS itself has no text."""
        text = "" if is_eos else self._scanner.feed(self._decoder.feed((token_id,)))
        if is_eos or is_last:
            text += self.flush()
        if is_eos or self._scanner.matched is not None:
            return text, "stop"
        return text, "length" if is_last else None

    def flush(self) -> str:
        """Return the rest, when generation ends for another reason than a stop string (which it may still complete)."""
        return self._scanner.feed(self._decoder.flush()) + self._scanner.flush()
