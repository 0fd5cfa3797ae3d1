"""The Messages API as Anthropic's SDK sees it, for a method and for the plain model of an engine of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from server_process import Served

QUESTION: Any = [{"role": "user", "content": "What is the official gene symbol of LMP10?"}]
GENEGPT = "scripted:genegpt"
PAGE = (Path(__file__).parents[2] / "docs" / "messages.md").read_text(encoding="utf-8")
GENE_PAGE = "https://www.ncbi.nlm.nih.gov/gene/5699"


@pytest.fixture
def messages(running: Any) -> Iterator[Any]:
    import anthropic

    with anthropic.Anthropic(base_url=running.url, api_key="-", max_retries=0) as made:
        yield made.messages


def _ask(messages: Any, model: str = GENEGPT, **more: Any) -> Any:
    return messages.create(model=model, max_tokens=2000, messages=QUESTION, **more)


def _steady(message: Any) -> Any:
    """Return what does not differ from one request to the next."""
    dumped = message.model_dump(exclude={"id", "usage", "arrowhead", "parsed_output"})
    for block in dumped["content"]:
        for name in ("id", "tool_use_id", "parsed_output"):
            block.pop(name, None)
    return dumped


def test_a_methods_answer_has_its_searches_and_citations(messages: Any) -> None:
    message = _ask(messages)
    *_, found, text = message.content

    assert [block.type for block in message.content] == ["server_tool_use", "web_search_tool_result"] * 2 + ["text"]
    assert [hit.url for hit in found.content] == [GENE_PAGE]
    assert text.text.splitlines()[:2] == ["PSMB10 [1]", ""]
    assert [citation.url for citation in text.citations] == [GENE_PAGE]
    assert (message.stop_reason, message.arrowhead["answer"]) == ("end_turn", "PSMB10")


def test_the_streamed_message_is_the_whole_one(messages: Any) -> None:
    """The SDK's accumulating helper takes every event."""
    with messages.stream(model=GENEGPT, max_tokens=2000, messages=QUESTION, thinking={"type": "adaptive"}) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()

    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert _steady(streamed) == _steady(_ask(messages, thinking={"type": "adaptive"}))
    assert streamed.content[1].type == "web_search_tool_result"
    searches = streamed.usage.server_tool_use
    assert (searches.web_search_requests, searches.arrowhead["answer"]) == (2, "PSMB10")
    assert "thinking" in {block.type for block in streamed.content}


def test_an_answer_can_be_sent_back(messages: Any) -> None:
    """Blocks of searches and thoughts in the history are passed over."""
    first = _ask(messages, thinking={"type": "adaptive"})
    turns = [*QUESTION, {"role": "assistant", "content": first.content}, *QUESTION]
    assert messages.create(model=GENEGPT, max_tokens=2000, messages=turns).content[-1].type == "text"


def test_usage_and_count_are_those_of_the_model(messages: Any, client: openai.OpenAI) -> None:
    chat = client.chat.completions.create(model=GENEGPT, messages=QUESTION, max_tokens=2000).usage
    usage = _ask(messages).usage

    assert chat is not None
    assert usage.input_tokens + usage.cache_read_input_tokens == chat.prompt_tokens
    assert usage.output_tokens == chat.completion_tokens
    assert messages.count_tokens(model=GENEGPT, messages=QUESTION).input_tokens > 5
    listed = {model.id: (model.type, model.display_name) for model in messages._client.models.list()}
    assert listed[GENEGPT] == ("model", GENEGPT)


def test_the_plain_model_stops_where_it_is_told(messages: Any) -> None:
    hello: Any = [{"role": "user", "content": "hello"}]
    whole = messages.create(model="scripted", max_tokens=2000, messages=hello).content[0].text
    cut = messages.create(model="scripted", max_tokens=1, messages=hello)
    stop = whole.split()[1]
    stopped = messages.create(model="scripted", max_tokens=2000, messages=hello, stop_sequences=[stop])

    assert cut.stop_reason == "max_tokens"
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", stop)
    assert whole.startswith(stopped.content[0].text)


@pytest.mark.parametrize(
    ("fields", "status", "kind"),
    [
        ({"model": "nobody"}, 404, "not_found_error"),
        ({"extra_body": {"temperature": 2}}, 422, "invalid_request_error"),
        ({"tools": [{"name": "look", "input_schema": {"type": "object"}}]}, 422, "invalid_request_error"),
        ({"extra_body": {"arrowhead": {"max_calls": -1}}}, 422, "invalid_request_error"),
        ({"messages": [*QUESTION, {"role": "assistant", "content": "It is"}]}, 422, "invalid_request_error"),
    ],
)
def test_faults_have_anthropics_shape(messages: Any, fields: dict[str, Any], status: int, kind: str) -> None:
    import anthropic

    with pytest.raises(anthropic.APIStatusError) as refused:
        messages.create(**{"model": GENEGPT, "max_tokens": 5, "messages": QUESTION} | fields)

    assert refused.value.status_code == status
    assert isinstance(refused.value.body, dict)
    assert (refused.value.body["type"], refused.value.body["error"]["type"]) == ("error", kind)


@pytest.mark.weights
def test_the_pages_example_runs(embedded_model: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands, but for the address."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(program.replace("http://127.0.0.1:8000", embedded_model.url), "messages.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "rotamine" in shown and shown.splitlines()[-1] == "answered"
