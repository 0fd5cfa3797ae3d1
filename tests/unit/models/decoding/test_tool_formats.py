"""The formats of calls, and their grammars as xgrammar reads them."""

from __future__ import annotations

import dataclasses
import json

import pytest
import xgrammar as xgr

from models.decoding.tool_calls import HERMES, LLAMA3, MISTRAL, ToolFormat, format_of, tool_format, tool_grammar
from models.decoding.types import Tool, ToolUse
from models.engines.scripted_engine import ByteTokenizer
from models.errors import UnsupportedParam

SCHEMA = {"type": "object", "properties": {"gene": {"enum": ["A", "B"]}}, "required": ["gene"]}
LOOK, ADD = (Tool(name, {}, SCHEMA) for name in ("look", "add"))
USE = ToolUse(tools=(LOOK, ADD), shown=(LOOK, ADD), choice="required")
L, A = '{"name": "look", "arguments": {"gene": "A"}}', '{"name": "add", "arguments": {"gene": "B"}}'
WRONG = '{"name": "look", "arguments": {"gene": "C"}}'


def accepts(use: ToolUse, form: ToolFormat, text: str) -> bool:
    """Whether the whole text is an output of the grammar."""
    grammar = tool_grammar(use, form)
    assert grammar is not None
    pieces = [bytes([i]) for i in range(256)] + [b""]
    info = xgr.TokenizerInfo(pieces, vocab_type=xgr.VocabType.RAW, stop_token_ids=[256])
    matcher = xgr.GrammarMatcher(xgr.GrammarCompiler(info).compile_structural_tag(grammar.spec))
    return bool(matcher.accept_string(text) and matcher.accept_token(256))


@pytest.mark.parametrize(
    ("form", "one", "two"),
    [
        (HERMES, f"<tool_call>\n{L}\n</tool_call>", f"<tool_call>\n{L}\n</tool_call>\n<tool_call>\n{A}\n</tool_call>"),
        (MISTRAL, f"[TOOL_CALLS][{L}]", f"[TOOL_CALLS][{L}, {A}]"),
        (LLAMA3, L.replace("arguments", "parameters"), f"{L}; {A}".replace("arguments", "parameters")),
    ],
)
def test_required_calls_are_the_whole_output(form: ToolFormat, one: str, two: str) -> None:
    """One call or several, of the tools and of their schemas; without parallel calls one alone."""
    assert accepts(USE, form, one)
    assert accepts(USE, form, two)
    assert not accepts(dataclasses.replace(USE, parallel=False), form, two)
    assert not accepts(USE, form, one.replace('"A"', '"C"'))
    assert not accepts(USE, form, "I would rather talk.")
    assert not accepts(dataclasses.replace(USE, tools=(ADD,), choice="named"), form, one)


@pytest.mark.parametrize(
    ("form", "call", "wrong"),
    [
        (HERMES, f"<tool_call>\n{L}\n</tool_call>", f"<tool_call>\n{WRONG}\n</tool_call>"),
        (MISTRAL, f"[TOOL_CALLS][{L}]", f"[TOOL_CALLS][{WRONG}]"),
    ],
)
def test_a_model_that_may_call_is_free_until_it_does(form: ToolFormat, call: str, wrong: str) -> None:
    """Free text, or free text and a call; a call that has begun is one of the tools'."""
    use = dataclasses.replace(USE, choice="auto")

    assert accepts(use, form, "A gene is a gene.")
    assert accepts(use, form, f"I look. {call}")
    assert not accepts(use, form, f"I look. {wrong}")


def test_an_answer_of_a_schema_may_take_the_place_of_calls() -> None:
    """``response_format`` and tools together: either the one or the other, no free text."""
    use = dataclasses.replace(USE, choice="auto", answer={"type": "boolean"})

    assert accepts(use, LLAMA3, "true")
    assert accepts(use, LLAMA3, L.replace("arguments", "parameters"))
    assert not accepts(use, LLAMA3, "perhaps")


def test_llamas_calls_have_no_beginning_to_wait_for() -> None:
    """Without a marker, a model that may call writes without a grammar."""
    assert tool_grammar(dataclasses.replace(USE, choice="auto"), LLAMA3) is None


def test_a_format_is_known_by_its_template() -> None:
    """Excerpts as such templates have them; another template has no format that is read here."""
    assert format_of("return a json object within <tool_call></tool_call> XML tags") is HERMES
    assert format_of("{{ '[TOOL_CALLS] [' }}") is MISTRAL
    assert format_of('Respond in the format {"name": function name, "parameters": dictionary}') is LLAMA3
    assert format_of("{% for tool in tools %}<function_calls>{% endfor %}") is None


def test_a_model_without_tools_is_refused_with_a_remedy() -> None:
    with pytest.raises(UnsupportedParam, match="leave tools out") as refused:
        tool_format(ByteTokenizer())

    assert refused.value.param == "tools"


def test_schemas_reach_the_grammar_unchanged() -> None:
    """The spec names the request's field for errors, and holds each tool's schema."""
    grammar = tool_grammar(USE, HERMES)

    assert grammar is not None and grammar.param == "tools"
    contents = [tag["content"]["json_schema"] for tag in json.loads(grammar.spec)["format"]["tags"]]
    assert contents == [SCHEMA, SCHEMA]
