"""Tools, JSON and patterns of the plain model on the transformers engine, as the OpenAI SDK asks for them.

The models are random: what they write is right because the grammars allow nothing else.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

pytestmark = [pytest.mark.weights, pytest.mark.timeout(600)]
USER: list[Any] = [{"role": "user", "content": "What is the official gene symbol of LMP10?"}]
TURNS = (
    "{{ '<|begin|>' }}{% if tools %}{{ '<|system|>\n' }}TOOLS<|end|>{% endif %}{% for m in messages %}"
    "{{ '<|' + m.role + '|>\n' }}{% if m.tool_calls %}CALLS{% else %}CONTENT{% endif %}{{ '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
TEMPLATES = {
    "hermes": TURNS.replace("TOOLS", "Tools: {{ tools | tojson }} Write <tool_call>, JSON, </tool_call>")
    .replace("CALLS", "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}")
    .replace("CONTENT", "{{ m.content }}"),
    "mistral": TURNS.replace("TOOLS", "{{ tools | tojson }}")
    .replace("CALLS", "[TOOL_CALLS][{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}]")
    .replace("CONTENT", "{{ m.content | trim }}"),
    "llama3_json": TURNS.replace("TOOLS", "{{ tools | tojson }} <|python_tag|> name and parameters")
    .replace("CALLS", "{{ m.tool_calls[0].function | tojson }}")
    .replace("CONTENT", "{% if m.role == 'tool' %}{{ m.content | tojson }}{% else %}{{ m.content }}{% endif %}"),
}


class Lookup(BaseModel):
    """Look a gene up."""

    database: Literal["gene", "snp"]
    human: bool


class Verdict(BaseModel):
    """Say what is known."""

    known: bool
    symbol: Literal["PSMB10", "BRCA1"]


LOOK: Any = openai.pydantic_function_tool(Lookup, name="look")
STOP: Any = {"type": "function", "function": {"name": "stop_here"}}
NAMED: Any = {"type": "function", "function": {"name": "look"}}


def build(directory: Path, template: str) -> Path:
    """A random chat model with the template, its marks as tokens: Hermes' ordinary, the others' special."""
    from tokenizers import AddedToken
    from transformers import AutoTokenizer

    runpy.run_path(str(Path(__file__).parents[1] / "tiny_models.py"))["build_llama"](directory, context=2048)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in ("<tool_call>", "</tool_call>")])
    special = [AddedToken(mark, normalized=False, special=True) for mark in ("[TOOL_CALLS]", "<|python_tag|>")]
    tokenizer.add_tokens([*special, AddedToken("<|tool|>", normalized=False, special=True)], special_tokens=True)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module", params=sorted(TEMPLATES))
def client(
    request: Any, host_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    directory = build(tmp_path_factory.mktemp(request.param) / "chat-tiny", TEMPLATES[request.param])
    variables = {
        "ARROWHEAD_MODEL__SCRIPT": None,
        "ARROWHEAD_MODEL__ENGINE": "transformers",
        "ARROWHEAD_MODEL__NAME": str(directory),
    }
    with host_with(variables) as running, running.client() as made:
        yield made


def ask(client: openai.OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(
        **{"model": "chat-tiny", "messages": USER, "max_tokens": 300, "seed": 1, **fields}
    )


def test_a_named_tool_is_called_once(client: openai.OpenAI) -> None:
    """The arguments are of the schema, the content is empty, and the reason says why the answer ended."""
    choice = ask(client, tools=[LOOK, STOP], tool_choice=NAMED).choices[0]
    (call,) = choice.message.tool_calls

    assert (call.type, call.function.name, choice.finish_reason) == ("function", "look", "tool_calls")
    assert choice.message.content is None
    Lookup.model_validate_json(call.function.arguments)


def test_a_streamed_call_joins_to_the_whole(client: openai.OpenAI) -> None:
    """Deltas have an index; the first has id, type and name, and the arguments join to JSON."""
    fields = {"tools": [LOOK], "tool_choice": NAMED, "temperature": 0}
    whole = ask(client, **fields).choices[0].message.tool_calls[0].function
    chunks = list(ask(client, stream=True, **fields))
    deltas = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]

    assert {delta.index for delta in deltas} == {0}
    assert deltas[0].id and deltas[0].type == "function"
    assert "".join(delta.function.name or "" for delta in deltas) == whole.name
    assert "".join(delta.function.arguments or "" for delta in deltas) == whole.arguments
    assert [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason] == ["tool_calls"]


def test_the_sdk_parses_a_required_call(client: openai.OpenAI) -> None:
    """``parse`` with a model as tool; its streaming helper sees the same call."""
    fields: Any = {
        "model": "chat-tiny",
        "messages": USER,
        "max_tokens": 300,
        "temperature": 0,
        "tools": [LOOK],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }
    calls = client.chat.completions.parse(**fields).choices[0].message.tool_calls or []
    with client.chat.completions.stream(**fields) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]

    assert [type(call.function.parsed_arguments) for call in calls] == [Lookup]
    assert [event.parsed_arguments for event in done] == [call.function.parsed_arguments for call in calls]


def test_a_reply_of_a_tool_is_read(client: openai.OpenAI) -> None:
    """Call and reply come back as messages; more calls may follow, and text may have any characters."""
    call = ask(client, tools=[LOOK], tool_choice=NAMED).choices[0].message
    reply = {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": '{"id": "5699"}\t<|end|>\n"'}
    told = [*USER, call.model_dump(exclude_none=True), reply]

    done = ask(client, messages=told, tools=[LOOK], max_tokens=4)
    assert done.usage.prompt_tokens > ask(client, messages=USER, tools=[LOOK], max_tokens=4).usage.prompt_tokens


def test_a_response_calls_a_function_and_reads_its_result(client: openai.OpenAI) -> None:
    """Typed items, events that end in the same response, and the reply's items with a result as the next input."""
    look = {"type": "function"} | LOOK["function"]
    fields: Any = {"model": "chat-tiny", "tools": [look], "temperature": 0, "max_output_tokens": 300}
    named: Any = {"type": "function", "name": "look"}
    whole = client.responses.create(input=USER, tool_choice=named, **fields)
    events = list(client.responses.create(input=USER, tool_choice=named, stream=True, **fields))
    (call,) = whole.output
    assert call.type == "function_call" and (call.name, call.status, whole.status) == ("look", "completed", "completed")
    Lookup.model_validate_json(call.arguments)
    done = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert [event.arguments for event in done] == [call.arguments]
    assert [item.type for item in events[-1].response.output] == ["function_call"]
    assert (whole.tools[0].name, whole.tool_choice.name) == ("look", "look")

    result = {"type": "function_call_output", "call_id": call.call_id, "output": '{"id": "5699"}'}
    follow: Any = [*USER, *whole.output, result]
    again = client.responses.create(input=follow, **fields | {"max_output_tokens": 4})
    assert again.usage is not None and whole.usage is not None
    assert again.usage.input_tokens > whole.usage.input_tokens


def test_no_tool_is_called_where_none_is_wanted(client: openai.OpenAI) -> None:
    """``none`` leaves the tools out of the prompt, too."""
    without = ask(client, max_tokens=4, temperature=0)
    done = ask(client, max_tokens=4, temperature=0, tools=[LOOK], tool_choice="none")

    assert done.choices[0].message.tool_calls is None
    assert done.usage.prompt_tokens == without.usage.prompt_tokens


def test_the_sdk_parses_an_answer(client: openai.OpenAI) -> None:
    """``parse`` with a model as response format, whole and streamed."""
    fields: Any = {"model": "chat-tiny", "messages": USER, "max_tokens": 600, "seed": 2, "response_format": Verdict}
    whole = client.chat.completions.parse(**fields).choices[0].message
    with client.chat.completions.stream(**fields) as stream:
        streamed = stream.get_final_completion().choices[0].message

    assert isinstance(whole.parsed, Verdict)
    assert streamed.parsed == whole.parsed


def test_patterns_and_choices_hold(client: openai.OpenAI) -> None:
    """vLLM's ``structured_outputs``, in chat and in completions."""
    rsid = ask(client, extra_body={"structured_outputs": {"regex": "rs[0-9]{4}"}}).choices[0].message.content
    choice = client.completions.create(
        model="chat-tiny",
        prompt="Which?",
        max_tokens=50,
        extra_body={"structured_outputs": {"choice": ["exonic (1)", 'the "other"']}},
    )

    assert rsid[:2] == "rs" and rsid[2:].isdigit() and len(rsid) == 6
    assert choice.choices[0].text in ("exonic (1)", 'the "other"')


def test_an_object_is_json(client: openai.OpenAI) -> None:
    """``json_object``: what is written so far always begins an object."""
    done = ask(client, response_format={"type": "json_object"}, max_tokens=20).choices[0]

    assert done.message.content.lstrip().startswith("{")
    if done.finish_reason == "stop":
        assert isinstance(json.loads(done.message.content), dict)


DEEP: dict[str, Any] = {"type": "string"}
for _ in range(60):
    DEEP = {"type": "array", "items": DEEP}
HUGE = {"enum": [str(i) for i in range(2100)]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "d", "schema": DEEP}}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "h", "schema": HUGE}}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "t", "schema": {"type": "no"}}}},
            "response_format",
        ),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": DEEP}}]}, "tools"),
        ({"tools": [LOOK, LOOK]}, "tools"),
        ({"tools": [LOOK], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"extra_body": {"structured_outputs": {"regex": "(a{900}){900}"}}}, "structured_outputs"),
        ({"extra_body": {"structured_outputs": {"regex": "(("}}}, "structured_outputs"),
        ({"extra_body": {"structured_outputs": {"regex": "a", "choice": ["b"]}}}, "structured_outputs"),
        ({"model": "chat-tiny:genegpt", "tools": [LOOK]}, "tools"),
        ({"model": "chat-tiny:genegpt", "response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": [*USER, {"role": "tool", "content": "x"}]}, "messages[1].tool_call_id"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(client: openai.OpenAI, fields: dict[str, Any], param: str) -> None:
    """422, the field as param and in the message, and the server goes on."""
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        ask(client, **fields)

    assert refused.value.param == param
    assert param in refused.value.message
    assert ask(client, max_tokens=1).choices


def test_biases_and_penalties_reach_the_engine(client: openai.OpenAI) -> None:
    """A bias makes one token certain; a penalty ends it after the first."""
    fields = {"temperature": 0, "max_tokens": 6, "logprobs": True}
    biased = ask(client, logit_bias={"70": 100}, **fields).choices[0]
    penalties = {"presence_penalty": 2, "frequency_penalty": 2, "extra_body": {"repetition_penalty": 1000.0}}
    penalised = ask(client, logit_bias={"70": 100}, **penalties, **fields).choices[0]

    tokens = [token.token for token in biased.logprobs.content]
    assert len(tokens) == 6 and len(set(tokens)) == 1
    assert [token.token for token in penalised.logprobs.content].count(tokens[0]) == 1


def test_echo_repeats_the_prompt(client: openai.OpenAI) -> None:
    """In front of each text, whole and streamed; not with logprobs."""
    fields: Any = {"model": "chat-tiny", "max_tokens": 4, "temperature": 0, "echo": True}
    whole = client.completions.create(prompt=["One gene", "Two genes"], n=2, **fields)
    streamed = list(client.completions.create(prompt="One gene", stream=True, **fields))

    starts = ["One gene", "One gene", "Two genes", "Two genes"]
    assert [one.text.startswith(start) for one, start in zip(whole.choices, starts, strict=True)] == [True] * 4
    assert "".join(chunk.choices[0].text for chunk in streamed) == whole.choices[0].text
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.completions.create(prompt="x", logprobs=1, **fields)
    assert refused.value.param == "echo"
