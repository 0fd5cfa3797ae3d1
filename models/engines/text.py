"""Turn text into token ids, and a stream of token ids into a stream of text.

Text is data: plain text never yields a special token, chat markup comes from the template alone. Streamed text has
whole characters only and no part of a stop string. Knows nothing of models or sampling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from models.catalog import ModelCard, disable_hub_access
from models.engines.base import Tokenizer
from models.engines.chat_template import ChatTemplate, template_source
from models.engines.control_tokens import ControlTokenEncoder, TextMask
from models.engines.repetition import RepetitionGuard
from models.engines.thinking import ThinkingTokens, begins_thinking
from models.errors import ModelNotFound, UnsupportedParam
from models.types import REPETITION, FinishReason, GenerateParams


class HfTokenizer:
    """Implement ``Tokenizer`` with a transformers fast tokenizer.

    ``eos_token_ids`` are added to the tokenizer's own and to the token with which the chat template ends a reply.
    """

    def __init__(self, fast: Any, eos_token_ids: Iterable[int] = ()) -> None:
        from tokenizers import Tokenizer as Backend

        self.fast = fast
        self._template = ChatTemplate(fast, template_source(fast.chat_template))
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
            raise ModelNotFound(f"no usable tokenizer in {source}: {_first_line(error)}") from error
        if not getattr(fast, "is_fast", False):
            raise ModelNotFound(f"the tokenizer of {source} has no fast form (tokenizer.json)")
        if chat_template is not None:
            try:
                fast.chat_template = chat_template.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise ModelNotFound(
                    f"the chat template {chat_template} cannot be read: {_first_line(error)}"
                ) from error
        return cls(fast, _configured_eos(source, revision=revision, local_only=local_only))

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
    found: list[object] = []
    with suppress(OSError):  # a tokenizer alone
        config, _ = PreTrainedConfig.get_config_dict(source, **where)
        found += [part.get("eos_token_id") for part in (config, config.get("text_config")) if isinstance(part, dict)]
    if not Path(source).is_dir() or (Path(source) / "generation_config.json").is_file():
        with suppress(OSError):  # an optional file
            found.append(GenerationConfig.from_pretrained(source, **where).eos_token_id)
    ids = [i for entry in found for i in (entry if isinstance(entry, (list, tuple)) else [entry])]
    return frozenset(i for i in ids if isinstance(i, int) and i >= 0)


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
    """Turn token ids into text that is safe to send: an ``IncrementalDecoder`` followed by a ``StopScanner``.

    Thinking, which can only begin a reply, is no part of that text and holds no stop strings. ``thought`` is what the
    last call has read of it, and ``was_thought`` says whether its token belongs to the thinking: to its text, its marks
    or the white space behind it.
    """

    def __init__(self, tokenizer: Tokenizer, params: GenerateParams, prompt_ids: Sequence[int]) -> None:
        self._decoder = IncrementalDecoder(tokenizer)
        self._scanner = StopScanner(params.stop)
        self._guard = (
            RepetitionGuard.continuing(prompt_ids, params.written or ()) if params.stop_on_repetition else None
        )
        self._repeats = False
        self._marks = tokenizer.thinking
        self._is_thinking = begins_thinking(self._marks, prompt_ids, params.grammar)
        self._has_text = False
        self._follows_thinking = False
        self._thoughts = ""
        self.thought = ""
        self.was_thought = False

    @property
    def stop_reason(self) -> str | None:
        """Return the stop string that ended the stream, or ``REPETITION``."""
        return REPETITION if self._repeats else self._scanner.matched

    def advance(self, token_id: int, *, is_eos: bool, is_last: bool) -> tuple[str, FinishReason | None]:
        """Return the new text, and the finish reason if the stream ends with this token; EOS itself has no text."""
        self.thought, self.was_thought = "", False
        text = "" if is_eos else self._scanner.feed(self._read(token_id))
        repeats = self._guard is not None and not is_eos and self._guard.add(token_id)
        if is_eos or is_last or repeats:
            text += self._flush()
        if is_eos or self._scanner.matched is not None:
            return text, "stop"
        self._repeats = repeats
        return text, "length" if is_last or repeats else None

    def flush(self) -> str:
        """Return the rest, when generation ends for another reason than a stop string (which it may still complete)."""
        self.thought, self.was_thought = "", False
        return self._flush()

    def _flush(self) -> str:
        rest = self._decoder.flush()
        if self._is_thinking:
            self._think(rest)
            rest = ""
        return self._scanner.feed(rest) + self._scanner.flush()

    def _read(self, token_id: int) -> str:
        """Return the token's text, "" for one that belongs to the thinking."""
        marks = self._marks
        if marks is None:
            return self._decoder.feed((token_id,))
        is_mark = token_id in (marks.start, marks.end) and (self._is_thinking or not self._has_text)
        if is_mark:
            rest = self._decoder.flush()
            if self._is_thinking:
                self._think(rest)
            self._is_thinking, self._follows_thinking = token_id == marks.start, True
            self.was_thought = True
            return ""
        text = self._decoder.feed((token_id,))
        if self._is_thinking:
            self._think(text)
            self.was_thought = True
            return ""
        return self._answer_text(text)

    def _answer_text(self, text: str) -> str:
        if self._follows_thinking and not self._has_text:
            text, before = text.lstrip(), text
            self.was_thought = bool(before) and not text
        self._has_text = self._has_text or bool(text.strip())
        return text

    def _think(self, text: str) -> None:
        # Models begin their thinking on a new line.
        self.thought += text if self._thoughts else text.lstrip("\n")
        self._thoughts = self._thoughts or self.thought
