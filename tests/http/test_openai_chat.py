"""Chat completions as the official SDK sees them, against a real server process."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

QUESTION = "What is the official gene symbol of LMP10?"
GENEGPT = "scripted:genegpt"
GENE_PAGE = "https://www.ncbi.nlm.nih.gov/gene/5699"


def _ask(client: openai.OpenAI, question: str = QUESTION, model: str = GENEGPT, **more: Any) -> ChatCompletion:
    made: ChatCompletion = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": question}], **more
    )
    return made


def _stream(client: openai.OpenAI, question: str = QUESTION, **more: Any) -> list[ChatCompletionChunk]:
    more.setdefault("model", GENEGPT)
    return list(client.chat.completions.create(messages=[{"role": "user", "content": question}], stream=True, **more))


def _joined(chunks: list[ChatCompletionChunk], name: str, index: int = 0) -> str:
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices if choice.index == index]
    return "".join(getattr(delta, name, None) or "" for delta in deltas)


def test_an_answer_stands_first_and_its_sources_below(client: openai.OpenAI) -> None:
    """The content's first line is the answer, then a blank line and the list."""
    content = _ask(client).choices[0].message.content or ""

    assert content.splitlines()[:2] == ["PSMB10 [1]", ""]
    assert f"[1] [PSMB10, proteasome 20S subunit beta 10, human, NCBI Gene 5699]({GENE_PAGE})" in content


def test_each_annotation_points_at_its_marker(client: openai.OpenAI) -> None:
    """url_citation: the slice of the content is the marker [n]."""
    message = _ask(client).choices[0].message
    annotations = message.annotations or []

    assert [a.url_citation.url for a in annotations] == [GENE_PAGE]
    for number, annotation in enumerate(annotations, 1):
        citation = annotation.url_citation
        assert (message.content or "")[citation.start_index : citation.end_index] == f"[{number}]"


def test_calls_and_thoughts_are_reasoning(client: openai.OpenAI) -> None:
    """Each call is one short line; the replies' text stays out."""
    reasoning: str = _ask(client).choices[0].message.reasoning_content  # type: ignore[attr-defined]

    assert reasoning.count("]-> ") == 2
    assert "esearch.fcgi?db=gene&…&term=LMP10]-> 1 id\n" in reasoning
    assert "]-> 1 record\n" in reasoning
    assert "proteasome" not in reasoning


def test_streamed_and_whole_answers_are_equal(client: openai.OpenAI) -> None:
    """Content, reasoning, annotations, finish reason and usage: the same from both."""
    whole = _ask(client)
    chunks = _stream(client, stream_options={"include_usage": True})
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    annotated = [found for delta in deltas if (found := getattr(delta, "annotations", None))]

    assert _joined(chunks, "content") == whole.choices[0].message.content
    assert _joined(chunks, "reasoning_content") == whole.choices[0].message.reasoning_content  # type: ignore[attr-defined]
    assert [a["url_citation"]["url"] for a in annotated[0]] == [GENE_PAGE]
    assert [c.finish_reason for k in chunks for c in k.choices if c.finish_reason] == ["stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None and whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens


def test_reasoning_arrives_before_the_answer(client: openai.OpenAI) -> None:
    """A reader sees the calls while they are made."""
    kinds = []
    for chunk in _stream(client):
        for choice in chunk.choices:
            if getattr(choice.delta, "reasoning_content", None):
                kinds.append("reasoning")
            elif choice.delta.content:
                kinds.append("content")

    assert kinds == sorted(kinds, reverse=True)
    assert {"reasoning", "content"} == set(kinds)


def test_without_stream_options_there_is_no_usage_chunk(client: openai.OpenAI) -> None:
    """Every chunk has a choice, which clients that index the first one need."""
    assert all(chunk.choices for chunk in _stream(client))


def test_usage_tells_written_from_put_in(client: openai.OpenAI) -> None:
    """Sampled tokens are completion; prompt and replies are prompt; the scripted vocabulary is bytes."""
    done = _ask(client)
    trace = client.get(f"/traces/{done.id}", cast_to=object)
    spans = trace["choices"][0]["spans"]  # type: ignore[index]
    injected = sum(len(span["text"].encode()) for span in spans if span["kind"] == "injected")
    prompt = len(f"Question: {QUESTION}\n") + 1

    assert done.usage is not None
    assert done.usage.prompt_tokens == prompt + injected
    assert done.usage.completion_tokens >= sum(len(s["text"]) for s in spans if s["kind"] == "sampled")
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens


def test_a_repeated_prompt_is_reported_as_cached(client: openai.OpenAI) -> None:
    """cached_tokens counts what the engine had computed before."""
    _ask(client)
    usage = _ask(client).usage

    assert usage is not None and usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens_details.cached_tokens or 0) > 0


def test_the_trace_holds_the_whole_transcript(client: openai.OpenAI) -> None:
    """Under the id of the answer: spans, calls with status, options, bare answer."""
    done = _ask(client, extra_body={"arrowhead": {"max_calls": 5}})
    trace: Any = client.get(f"/traces/{done.id}", cast_to=object)
    choice = trace["choices"][0]

    assert trace["model"] == GENEGPT
    assert choice["question"] == QUESTION
    assert choice["answer"] == "PSMB10"
    assert [(call["status"], call["summary"]) for call in choice["calls"]] == [("ok", "1 id"), ("ok", "1 record")]
    assert [span["kind"] for span in choice["spans"]] == ["sampled", "injected", "sampled", "injected", "sampled"]
    assert choice["transcript"].endswith("Answer: PSMB10")
    assert choice["options"] == {"max_calls": 5}
    assert choice["details"]["options"]["max_calls"] == 5


def test_the_message_carries_the_bare_answer(client: openai.OpenAI) -> None:
    """For programs: no parsing of the content."""
    done = _ask(client)
    extra: Any = done.choices[0].message.arrowhead  # type: ignore[attr-defined]

    assert (extra["answer"], extra["trace_id"], extra["finish_reason"]) == ("PSMB10", done.id, "stop")


def test_references_can_be_left_out(client: openai.OpenAI) -> None:
    """The content is then the answer alone."""
    message = _ask(client, extra_body={"arrowhead": {"references": False}}).choices[0].message

    assert message.content == "PSMB10"
    assert not message.annotations


def test_the_call_limit_ends_in_an_answer(client: openai.OpenAI) -> None:
    """With no call allowed the first one is refused; the answer ends and the trace says why."""
    done = _ask(client, "broken", extra_body={"arrowhead": {"max_calls": 1}})

    assert (done.choices[0].message.content or "").startswith("not found\n\n(No record was found. Searched: gene")


def test_n_choices_of_a_method(client: openai.OpenAI) -> None:
    """Each choice is a whole answer; the shared prompt counts once."""
    one, three = _ask(client), _ask(client, n=3)

    assert [choice.index for choice in three.choices] == [0, 1, 2]
    assert {choice.message.content for choice in three.choices} == {one.choices[0].message.content}
    assert one.usage is not None and three.usage is not None
    assert three.usage.completion_tokens == 3 * one.usage.completion_tokens
    assert three.usage.prompt_tokens < 3 * one.usage.prompt_tokens


def test_n_streams_are_told_apart(client: openai.OpenAI) -> None:
    """Chunks of two choices interleave; each choice joins to the whole answer and finishes once."""
    chunks = _stream(client, n=2)

    assert _joined(chunks, "content", 0) == _joined(chunks, "content", 1)
    assert _joined(chunks, "content", 0).startswith("PSMB10 [1]\n")
    assert sorted(c.index for k in chunks for c in k.choices if c.finish_reason) == [0, 1]


def test_the_plain_model_answers_without_a_method(client: openai.OpenAI) -> None:
    """The bare name: no calls, no references."""
    message = _ask(client, "hello", model="scripted").choices[0].message

    assert message.content == "Hello there, reader."
    assert not message.annotations


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_both_names_of_the_token_limit_work(client: openai.OpenAI, field: str) -> None:
    """The text is cut and the finish reason is length."""
    limit: dict[str, Any] = {field: 6}
    choice = _ask(client, "hello", model="scripted", **limit).choices[0]

    assert (choice.finish_reason, choice.message.content) == ("length", "Hello")


def test_stop_strings_end_the_text(client: openai.OpenAI) -> None:
    """The text before the first of them is the answer."""
    choice = _ask(client, "hello", model="scripted", stop=["reader", " there"]).choices[0]

    assert (choice.finish_reason, choice.message.content) == ("stop", "Hello")


def test_logprobs_cover_every_token(client: openai.OpenAI) -> None:
    """One entry a token with the asked number of alternatives, streamed and whole."""
    more: dict[str, Any] = {"model": "scripted", "logprobs": True, "top_logprobs": 2, "max_tokens": 5}
    whole = _ask(client, "hello", **more).choices[0].logprobs
    chunks = _stream(client, "hello", **more)
    streamed = [t for k in chunks for c in k.choices if c.logprobs for t in c.logprobs.content or []]

    assert whole is not None and whole.content is not None
    assert "".join(entry.token for entry in whole.content) == " Hell"
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in whole.content)
    assert [entry.token for entry in streamed] == [entry.token for entry in whole.content]


def test_a_conversation_is_asked_by_its_last_question(client: openai.OpenAI) -> None:
    """Earlier turns, as a chat client sends them back with all our fields, do not disturb a method."""
    first = _ask(client).choices[0].message.model_dump()
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "earlier"},
        first,
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
    ]
    done = client.chat.completions.create(model=GENEGPT, messages=messages)

    assert (done.choices[0].message.content or "").startswith("PSMB10")
