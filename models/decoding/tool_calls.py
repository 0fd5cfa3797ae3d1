"""Describe how models write calls of a client's tools, constrain them by grammars, and read them as they come.

Three common formats are known. Text outside of calls is passed on; a call is passed on when it is complete. What only
looks like a call, or names an unknown tool, is text. Knows nothing of engines or OpenAI's objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from models.decoding.grammar import json_form
from models.decoding.types import Tool, ToolUse
from models.engines.base import Tokenizer
from models.engines.text_stream import IncrementalDecoder, StopScanner
from models.errors import UnsupportedParam
from models.types import Delta, Grammar

_ARGS: Final = "[ARGS]"

_NAMED: Final = re.compile(r"\s*([a-zA-Z0-9_-]{1,64})\s*(?:\[ARGS\])?\s*(?=\{)")

_BETWEEN: Final = re.compile(r"[\s;,]*")


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """Describe one format.

    ``begin`` opens calls, ``end`` closes each of them, "" where they go on to the end of the output. An output that is
    nothing but calls begins with ``opening``; ``optional_begin`` says that calls may also begin without ``begin``, as
    the first thing of an output. ``arguments`` is the member of a call's JSON that has its arguments. ``id_chars`` is
    the length of a call's id where templates require one.
    """

    name: str
    begin: str
    end: str
    opening: str
    closing: str
    separator: str
    arguments: str = "arguments"
    optional_begin: bool = False
    id_chars: int | None = None


HERMES: Final = ToolFormat(
    name="hermes",
    begin="<tool_call>",
    end="</tool_call>",
    opening="<tool_call>\n",
    closing="\n</tool_call>",
    separator="\n",
)

LLAMA3: Final = ToolFormat(
    name="llama3_json",
    begin="<|python_tag|>",
    end="",
    opening="",
    closing="",
    separator="; ",
    arguments="parameters",
    optional_begin=True,
)

MISTRAL: Final = ToolFormat(
    name="mistral", begin="[TOOL_CALLS]", end="", opening="[TOOL_CALLS][", closing="]", separator=", ", id_chars=9
)

FORMATS: Final = (HERMES, MISTRAL, LLAMA3)


def format_of(template: str) -> ToolFormat | None:
    """Return the format that a chat template teaches, None for another one."""
    for form in (HERMES, MISTRAL):
        if form.begin in template:
            return form
    # Llama 3 templates spell the call in their instructions; only some mention the tag.
    if '"name": function name, "parameters"' in template or ("parameters" in template and LLAMA3.begin in template):
        return LLAMA3
    return None


def tool_format(tokenizer: Tokenizer) -> ToolFormat:
    """Return the format of a model's calls.

    Raises:
        UnsupportedParam: its chat template has no tools, or a format that is not known here.
    """
    template = tokenizer.tool_template
    if template is None:
        raise UnsupportedParam(
            "tools: this model's chat template has no place for tools; serve a model trained for tools, such as "
            "Qwen or Llama 3 Instruct, or leave tools out",
            param="tools",
        )
    form = format_of(template)
    if form is None:
        known = ", ".join(form.name for form in FORMATS)
        raise UnsupportedParam(
            f"tools: this model writes calls in a format that is not read here ({known} are); serve it with vLLM and "
            "set model.tool_call_parser",
            param="tools",
        )
    return form


def tool_grammar(use: ToolUse, form: ToolFormat) -> Grammar | None:
    """Return the grammar of an output with calls, None where the model is free to write anything.

    Calls that must be made are the whole output. Of those that may be made, each is well-formed from its ``begin`` on.
    """
    if use.choice in ("required", "named"):
        shape = _only_calls(use, form)
    elif use.answer is not None:
        shape = {"type": "or", "elements": [_only_calls(use, form), json_form(use.answer)]}
    elif form.optional_begin:
        return None  # where a call begins is known only in hindsight
    else:
        shape = _text_with_calls(use, form)
    return Grammar("structural_tag", json.dumps({"type": "structural_tag", "format": shape}), param="tools")


def _only_calls(use: ToolUse, form: ToolFormat) -> dict[str, Any]:
    if form.end:
        return _calls_shape(use.tools, form, form.opening, form.closing, use.parallel)
    inner = _calls_shape(use.tools, form, "", "", use.parallel)
    if not form.opening:
        return inner
    return {"type": "sequence", "elements": [_text(form.opening), inner, _text(form.closing)]}


def _text_with_calls(use: ToolUse, form: ToolFormat) -> dict[str, Any]:
    if form.end:
        tags = [_tag(tool, form, form.opening, form.closing) for tool in use.tools]
    else:
        calls = _calls_shape(use.tools, form, "", "", use.parallel)
        tags = [{"type": "tag", "begin": form.opening, "content": calls, "end": form.closing}]
    # What follows calls that go on to the end would be read as a part of them.
    return {
        "type": "triggered_tags",
        "triggers": [form.begin],
        "tags": tags,
        "stop_after_first": not (use.parallel and form.end),
    }


def _calls_shape(tools: Sequence[Tool], form: ToolFormat, before: str, after: str, parallel: bool) -> dict[str, Any]:
    return {
        "type": "tags_with_separator",
        "tags": [_tag(tool, form, before, after) for tool in tools],
        "separator": form.separator,
        "at_least_one": True,
        "stop_after_first": not parallel,
    }


def _tag(tool: Tool, form: ToolFormat, before: str, after: str) -> dict[str, Any]:
    begin = f'{before}{{"name": {json.dumps(tool.name)}, "{form.arguments}": '
    return {"type": "tag", "begin": begin, "content": json_form(tool.parameters), "end": f"}}{after}"}


def _text(value: str) -> dict[str, Any]:
    return {"type": "const_string", "value": value}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Hold one complete call; ``arguments`` is the text of a JSON object."""

    name: str
    arguments: str


class ToolTokens:
    """Decode ids with the special tokens that mark calls, which a tokenizer's own ``decode`` leaves out."""

    def __init__(self, tokenizer: Tokenizer, markers: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        ids = {tokenizer.special_id(marker): marker for marker in markers if marker}
        self._markers = {token_id: marker for token_id, marker in ids.items() if token_id is not None}

    def decode(self, token_ids: Sequence[int]) -> str:
        if self._markers.keys().isdisjoint(token_ids):
            return self._tokenizer.decode(token_ids)
        pieces, begin = [], 0
        for at, token_id in enumerate(token_ids):
            if token_id in self._markers:
                pieces += [self._tokenizer.decode(token_ids[begin:at]), self._markers[token_id]]
                begin = at + 1
        return "".join([*pieces, self._tokenizer.decode(token_ids[begin:])])


class ToolCallReader:
    """Read one output from an engine's deltas, in order.

    Decodes the ids itself, because the deltas' text has no special tokens. ``stops`` are those that the engine got.
    """

    def __init__(self, tokenizer: Tokenizer, form: ToolFormat, names: Collection[str], stops: Sequence[str]) -> None:
        self._decoder = IncrementalDecoder(ToolTokens(tokenizer, (form.begin, form.end, _ARGS)))
        self._scanner = StopScanner(stops)
        self._parser = CallParser(form, names)

    def feed(self, delta: Delta) -> list[str | ToolCall]:
        """Return the text and the calls that the delta completes; thinking holds none."""
        ids = delta.token_ids[delta.num_reasoning_tokens :]
        if delta.finish_reason == "stop" and delta.stop_reason is None:
            ids = ids[:-1]  # the end token
        parts = self._parser.feed(self._scanner.feed(self._decoder.feed(ids)))
        if delta.finish_reason is not None:
            rest = self._scanner.feed(self._decoder.flush()) + self._scanner.flush()
            parts += [*self._parser.feed(rest), *self._parser.finish()]
        return parts


class CallParser:
    """Split text, fed in pieces, into text and calls.

    Blanks next to calls belong to neither.
    """

    def __init__(self, form: ToolFormat, names: Collection[str]) -> None:
        self._form = form
        self._names = names
        self._buffer = ""
        self._in_call = False
        self._is_start = True  # nothing but blanks was written so far
        self._after_call = False

    def feed(self, text: str) -> list[str | ToolCall]:
        self._buffer += text
        parts: list[str | ToolCall] = []
        while (piece := self._next()) is not None:
            parts += piece
        return parts

    def finish(self) -> list[str | ToolCall]:
        """Return the rest, when the output has ended."""
        rest, self._buffer = self._buffer, ""
        if not self._in_call:
            return self._as_text(rest if rest.strip() or not self._after_call else "")
        self._in_call = False
        return self._judge(rest, rest)

    def _next(self) -> list[str | ToolCall] | None:
        """Return what can be decided now, None where more text is needed."""
        if self._in_call:
            return self._next_in_call()
        if self._form.optional_begin and self._is_start and self._buffer.lstrip().startswith("{"):
            self._in_call = True
            return []
        at = self._buffer.find(self._form.begin)
        if at >= 0:
            before, self._buffer = self._buffer[:at].rstrip(), self._buffer[at:]
            self._in_call = True
            return self._as_text(before)
        keep = _undecided(self._buffer, self._form.begin)
        if keep == 0:
            return None
        ready, self._buffer = self._buffer[:keep], self._buffer[keep:]
        return self._as_text(ready)

    def _next_in_call(self) -> list[str | ToolCall] | None:
        end = self._form.end
        if not end or (at := self._buffer.find(end)) < 0:
            return None
        whole, self._buffer = self._buffer[: at + len(end)], self._buffer[at + len(end) :]
        self._in_call = False
        return self._judge(whole, whole[:at])

    def _judge(self, whole: str, text: str) -> list[str | ToolCall]:
        calls = _calls(text.strip().removeprefix(self._form.begin), self._names)
        if not calls:
            return self._as_text(whole)
        self._is_start, self._after_call = False, True
        return list(calls)

    def _as_text(self, text: str) -> list[str | ToolCall]:
        if self._after_call:
            text = text.lstrip()
        if not text:
            return []
        self._is_start = self._is_start and not text.strip()
        self._after_call = self._after_call and not text.strip()
        return [text]


def _undecided(text: str, begin: str) -> int:
    """Return the offset of the end of ``text`` that may belong to a call: blanks, and the start of ``begin``."""
    length = next((n for n in range(min(len(begin) - 1, len(text)), 0, -1) if text.endswith(begin[:n])), 0)
    return len(text[: len(text) - length].rstrip())


def _calls(text: str, names: Collection[str]) -> list[ToolCall]:
    """Return the calls that a text consists of, [] where it is anything else.

    They are JSON objects, in a list or one after the other, or Mistral's newer ``NAME[ARGS]{...}``.
    """
    calls: list[ToolCall] = []
    at = _BETWEEN.match(text).end()  # type: ignore[union-attr]  # matches everywhere
    while at < len(text):
        named = _NAMED.match(text, at)
        value, at = _json_at(text, named.end() if named else at)
        items = [{"name": named[1], "arguments": value}] if named else value if isinstance(value, list) else [value]
        for item in items:
            call = _call_of(item, names)
            if call is None:
                return []
            calls.append(call)
        at = _after_call(text, at)
    return calls


def _after_call(text: str, at: int) -> int:
    at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
    return at + len("[TOOL_CALLS]") if text.startswith("[TOOL_CALLS]", at) else at


def _json_at(text: str, at: int) -> tuple[Any, int]:
    try:
        value, end = json.JSONDecoder(parse_constant=_refuse).raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, len(text)
    return value, end


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _call_of(item: object, names: Collection[str]) -> ToolCall | None:
    if not isinstance(item, Mapping) or not isinstance(item.get("name"), str) or item["name"] not in names:
        return None
    arguments = item.get("arguments", item.get("parameters"))
    if not isinstance(arguments, Mapping):
        return None
    # JSON can spell half of a surrogate pair, which no reply can carry.
    text = json.dumps(arguments, ensure_ascii=False).encode("utf-8", errors="replace").decode()
    return ToolCall(item["name"], text)
