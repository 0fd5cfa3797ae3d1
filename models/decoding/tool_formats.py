"""Describe how models write calls of a client's tools: three common formats, and the grammar of each.

Pure text; the engine compiles the grammars and ``tool_calls`` reads the calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from models.decoding.grammar import json_form
from models.engines.base import Tokenizer
from models.errors import UnsupportedParam
from models.types import Grammar

ToolChoice = Literal["auto", "none", "required", "named"]


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
    name="mistral",
    begin="[TOOL_CALLS]",
    end="",
    opening="[TOOL_CALLS][",
    closing="]",
    separator=", ",
    id_chars=9,
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


@dataclass(frozen=True, slots=True)
class Tool:
    """Hold one tool: its OpenAI object, and the JSON schema of its arguments."""

    name: str
    definition: Mapping[str, Any]
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolUse:
    """State which tools the model may or must call.

    ``choice`` ``named`` means that ``tools`` has the one tool which must be called; ``shown`` are the tools that the
    prompt lists. ``answer`` is the schema of an answer without calls, None for free text.
    """

    tools: tuple[Tool, ...]
    shown: tuple[Tool, ...]
    choice: ToolChoice = "auto"
    parallel: bool = True
    answer: Mapping[str, Any] | None = field(default=None)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)


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
        return _calls(use.tools, form, form.opening, form.closing, use.parallel)
    inner = _calls(use.tools, form, "", "", use.parallel)
    if not form.opening:
        return inner
    return {"type": "sequence", "elements": [_text(form.opening), inner, _text(form.closing)]}


def _text_with_calls(use: ToolUse, form: ToolFormat) -> dict[str, Any]:
    if form.end:
        tags = [_tag(tool, form, form.opening, form.closing) for tool in use.tools]
    else:
        calls = _calls(use.tools, form, "", "", use.parallel)
        tags = [{"type": "tag", "begin": form.opening, "content": calls, "end": form.closing}]
    # What follows calls that go on to the end would be read as a part of them.
    return {
        "type": "triggered_tags",
        "triggers": [form.begin],
        "tags": tags,
        "stop_after_first": not (use.parallel and form.end),
    }


def _calls(tools: Sequence[Tool], form: ToolFormat, before: str, after: str, parallel: bool) -> dict[str, Any]:
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
