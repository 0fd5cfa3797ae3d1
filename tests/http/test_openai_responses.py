"""The Responses API as the official SDK sees it, against a real server process."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import openai
import pytest
from openai.types.responses import Response

QUESTION = "What is the official gene symbol of LMP10?"
GENEGPT = "scripted:genegpt"
GENE_PAGE = "https://www.ncbi.nlm.nih.gov/gene/5699"


def _ask(client: openai.OpenAI, question: Any = QUESTION, model: str = GENEGPT, **more: Any) -> Response:
    made: Response = client.responses.create(model=model, input=question, **more)
    return made


def _events(client: openai.OpenAI, question: str = QUESTION, model: str = GENEGPT, **more: Any) -> list[Any]:
    return list(client.responses.create(model=model, input=question, stream=True, **more))


def _steady(response: Any) -> Any:
    """Without what differs from one request to the next: ids, times, and what was cached by then."""
    dumped = response.model_dump() if isinstance(response, Response) else response
    for name in ("id", "created_at", "usage"):
        dumped.pop(name)
    dumped["arrowhead"].pop("trace_id")
    for item in dumped["output"]:
        assert item.pop("id")
        for part in item.get("content") or ():
            part.pop("parsed", None)
    return dumped


def test_items_stand_in_the_order_of_what_happened(client: openai.OpenAI) -> None:
    """A search for each call, what it brought as reasoning, and the message last."""
    kinds = [item.type for item in _ask(client).output]

    assert kinds == ["web_search_call", "reasoning", "web_search_call", "reasoning", "message"]


def test_a_call_is_a_search_with_its_sources(client: openai.OpenAI) -> None:
    """What was asked for, the records that were read, and how it ended."""
    search, _, summary = _ask(client).output[:3]

    assert search.action.queries == ["esearch gene: LMP10"]  # type: ignore[union-attr]
    assert search.action.sources == []  # type: ignore[union-attr]
    assert search.arrowhead["summary"] == "1 id"  # type: ignore[union-attr]
    assert [source.url for source in summary.action.sources] == [GENE_PAGE]  # type: ignore[union-attr]
    assert summary.status == "completed"  # type: ignore[union-attr]


def test_each_annotation_points_at_its_marker(client: openai.OpenAI) -> None:
    """Flat url_citation: the slice of the text is the marker [n]."""
    response = _ask(client)
    part: Any = response.output[-1].content[0]  # type: ignore[union-attr,index]

    assert response.output_text == part.text
    assert part.text.splitlines()[:2] == ["PSMB10 [1]", ""]
    assert [annotation.url for annotation in part.annotations] == [GENE_PAGE]
    assert [part.text[a.start_index : a.end_index] for a in part.annotations] == ["[1]"]


def test_usage_is_that_of_chat(client: openai.OpenAI) -> None:
    """The same tokens under the names of this API; reasoning is what came before the answer."""
    usage = _ask(client).usage
    chat = client.chat.completions.create(model=GENEGPT, messages=[{"role": "user", "content": QUESTION}]).usage

    assert usage is not None and chat is not None and chat.prompt_tokens_details is not None
    assert (usage.input_tokens, usage.output_tokens) == (chat.prompt_tokens, chat.completion_tokens)
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert 0 < usage.output_tokens_details.reasoning_tokens < usage.output_tokens
    assert _ask(client, "hello", "scripted").usage.output_tokens_details.reasoning_tokens == 0  # type: ignore[union-attr]


def test_the_streams_last_response_is_the_whole_one(client: openai.OpenAI) -> None:
    """The SDK's accumulating helper takes every event, and ends with what is answered without a stream."""
    with client.responses.stream(model=GENEGPT, input=QUESTION) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        streamed = stream.get_final_response()

    assert text == streamed.output_text
    assert _steady(streamed) == _steady(_ask(client))


def test_events_come_in_openais_order(client: openai.OpenAI) -> None:
    """Numbers count up from 0; each item is added, built and done; the response's own events are the first and last."""
    events = _events(client)
    kinds = [event.type.removeprefix("response.") for event in events]

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds[:7] == [
        "created",
        "in_progress",
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "output_item.done",
    ]
    assert kinds[7:13] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    message = kinds[len(kinds) - kinds[::-1].index("output_item.added") - 1 :]
    assert message[:2] == ["output_item.added", "content_part.added"]
    assert set(message[2:-4]) == {"output_text.delta", "output_text.annotation.added"}
    assert message[-5:] == [
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


def test_what_was_added_is_what_is_done(client: openai.OpenAI) -> None:
    """Added, done and final items have one id and one place."""
    events = _events(client)
    added = {event.output_index: event.item.id for event in events if event.type == "response.output_item.added"}
    done = {event.output_index: event.item.id for event in events if event.type == "response.output_item.done"}
    final = {place: item.id for place, item in enumerate(events[-1].response.output)}

    assert added == done == final


def test_the_wire_has_named_events_and_no_done(running: Any) -> None:
    """``event:`` stands before each ``data:``, with the type of the data; nothing follows the last."""
    body = json.dumps({"model": "scripted", "input": "hello", "stream": True}).encode()
    request = urllib.request.Request(
        f"{running.url}/v1/responses", body, {"Content-Type": "application/json", "Accept": "text/event-stream"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        blocks = [block for block in reply.read().decode().split("\n\n") if block and not block.startswith(":")]

    for block in blocks:
        name, data = block.split("\n")
        assert name == f"event: {json.loads(data.removeprefix('data: '))['type']}"
    assert blocks[-1].startswith("event: response.completed")


def test_an_answer_that_is_cut_is_incomplete(client: openai.OpenAI) -> None:
    """Status, reason, and the event that ends its stream."""
    response = _ask(client, "hello", "scripted", max_output_tokens=16)
    cut = _ask(client, "hello", "scripted", max_output_tokens=6)
    last = _events(client, "hello", "scripted", max_output_tokens=6)[-1]

    assert (cut.status, cut.output_text) == ("incomplete", "Hello")
    assert cut.incomplete_details is not None and cut.incomplete_details.reason == "max_output_tokens"
    assert cut.output[-1].status == "incomplete"  # type: ignore[union-attr]
    assert (last.type, last.response.output_text) == ("response.incomplete", "Hello")
    assert response.max_output_tokens == 16


def test_a_failure_in_mid_stream_is_told_twice(client: openai.OpenAI) -> None:
    """``error`` with what went wrong, then ``response.failed`` with what there is so far."""
    events = _events(client, "slowly broken")
    error, failed = events[-2:]

    assert (error.type, failed.type) == ("error", "response.failed")
    assert "no rule of the script" in error.message
    assert failed.response.status == "failed"
    assert failed.response.error.message == error.message
    assert "I search." in failed.response.output[0].summary[0].text


def test_a_conversation_comes_with_its_items(client: openai.OpenAI) -> None:
    """A history as the SDK sends it back: our own items, all roles, text as parts."""
    first = _ask(client)
    history: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "earlier"},
        *[item.model_dump() for item in first.output],
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
    ]

    assert _ask(client, history, instructions="Be exact.").output_text.startswith("PSMB10")


def test_what_was_asked_for_is_repeated(client: openai.OpenAI) -> None:
    """Metadata, instructions and limits; and that nothing is stored."""
    response = _ask(
        client,
        "hello",
        "scripted",
        instructions="Be kind.",
        metadata={"case": "7"},
        store=False,
        user="u",
        reasoning={"effort": "low", "summary": "auto"},
        include=["web_search_call.action.sources", "reasoning.encrypted_content"],
        parallel_tool_calls=False,
        text={"format": {"type": "text"}},
        truncation="disabled",
        tool_choice="auto",
        tools=[],
    )

    assert (response.status, response.metadata) == ("completed", {"case": "7"})
    assert (response.instructions, response.user) == ("Be kind.", "u")
    assert (response.model_extra or {})["store"] is False
    assert response.parallel_tool_calls is False


def test_options_of_a_method_are_taken(client: openai.OpenAI) -> None:
    """As in chat, beside OpenAI's fields."""
    response = _ask(client, extra_body={"arrowhead": {"references": False}})

    assert response.output_text == "PSMB10"


def test_logprobs_are_of_the_plain_model(client: openai.OpenAI) -> None:
    """Asked for by include, one entry a token, in the text and in its deltas."""
    more: dict[str, Any] = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "max_output_tokens": 5}
    part: Any = _ask(client, "hello", "scripted", **more).output[-1].content[0]  # type: ignore[union-attr,index]
    deltas = [e for e in _events(client, "hello", "scripted", **more) if e.type == "response.output_text.delta"]

    assert "".join(entry.token for entry in part.logprobs) == " Hell"
    assert all(len(entry.top_logprobs) == 2 for entry in part.logprobs)
    assert sum(len(delta.logprobs) for delta in deltas) == 5
    with pytest.raises(openai.UnprocessableEntityError):
        _ask(client, **more)


def test_the_trace_is_kept(client: openai.OpenAI) -> None:
    """Under the response's id; the response itself is not, which is said with where to look."""
    response = _ask(client)
    trace: Any = client.get(f"/traces/{response.id}", cast_to=object)

    assert trace["choices"][0]["answer"] == "PSMB10"
    for ask in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError) as gone:
            ask(response.id)
        assert (gone.value.code, "/v1/traces/" in gone.value.message) == ("response_not_found", True)


IMAGE = [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x/y.png"}]}]
FILE = [{"role": "user", "content": "x"}, {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "send the earlier items in input"),
        ({"conversation": "conv_1"}, "conversation", "send the earlier items in input"),
        ({"background": True}, "background", "stream: true"),
        ({"store": True}, "store", "not stored"),
        ({"tools": [{"type": "web_search"}]}, "tools", "methods make their calls themselves"),
        ({"tool_choice": "required"}, "tool_choice", "needs tools"),
        ({"tools": [{"type": "function", "name": "f"}]}, "tools", "ask scripted, the plain model"),
        ({"truncation": "auto"}, "truncation", "leave earlier items out"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format", "only text"),
        ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}}, "text.format", "only text"),
        ({"include": ["everything"]}, "include[0]", "include"),
        ({"top_logprobs": 3}, "top_logprobs", "needs include"),
        ({"max_output_tokens": 0}, "max_output_tokens", "max_output_tokens"),
        ({"colour": 1}, "colour", "no such field"),
        ({"metadata": {"a": 1}}, "metadata.a", "metadata"),
        ({"arrowhead": {"colour": 1}}, "arrowhead.colour", "colour"),
        ({"input": []}, "input", "no user message"),
        ({"input": 7}, "input", "text or a list"),
        ({"input": IMAGE}, "input[0].content[0]", "images are not served"),
        ({"input": FILE}, "input[1].content[0]", "files are not served"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]},
            "input",
            "takes no calls of tools",
        ),
        ({"input": [{"type": "computer_call"}]}, "input[0].type", "not served"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]", "send the item itself"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role", "input"),
    ],
)
def test_a_refused_field_is_named_with_what_to_do(
    client: openai.OpenAI, body: dict[str, Any], param: str, said: str
) -> None:
    """422, the field as param, and the remedy in the message."""
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        _ask(client, extra_body=body)

    assert refused.value.param == param
    assert said in refused.value.message


def test_an_unknown_model_is_404(client: openai.OpenAI) -> None:
    """As everywhere, before the stream begins."""
    for stream in (False, True):
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model="scripted:medrag7", input="x", stream=stream)
