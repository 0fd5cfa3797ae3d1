"""Small talk, emergencies, follow-ups and system prompts with the model that ships, in every method."""

from __future__ import annotations

from typing import Any

import pytest
from metrics_text import scrape, total

METHODS = ("genegpt", "kg-rag", "medrag", "i-medrag", "clinfo")
MODEL = "arrowhead-tiny"
FIRST = {"role": "user", "content": "What is the official gene symbol of LMP10?"}
TALK = {"hello": "Hello.", "Thank you!": "You are welcome.", "I have crushing chest pain": "112 in Europe"}


@pytest.fixture
def server(embedded_model: Any) -> Any:
    return embedded_model


def _ask(server: Any, method: str, *messages: dict[str, str], **more: Any) -> Any:
    return server.client().chat.completions.create(model=f"{MODEL}:{method}", messages=list(messages), **more)


def test_small_talk_and_emergencies_are_answered_without_model_and_network(server: Any) -> None:
    """In each method: a fitting text, the outcome, no token and no call, by the counters as well."""
    before = scrape(server.url)
    for method in METHODS:
        for message, part in TALK.items():
            made = _ask(server, method, {"role": "user", "content": message})
            told = made.choices[0].message
            assert part in told.content, (method, message)
            assert told.arrowhead["outcome"] == "out_of_scope"
            assert told.arrowhead["calls"] == []
            assert made.usage.total_tokens == 0
    after = scrape(server.url)
    outcomes = "arrowhead_answer_outcomes_total"
    answered = total(after, outcomes, outcome="out_of_scope") - total(before, outcomes, outcome="out_of_scope")
    assert answered == len(METHODS) * len(TALK)
    for name in ("arrowhead_ncbi_requests_total", "arrowhead_tokens_total"):
        assert total(after, name) == total(before, name), name


def test_streams_and_completions_have_the_same_text(server: Any) -> None:
    """However the answer is asked for."""
    message = {"role": "user", "content": "I can't breathe"}
    whole = _ask(server, "genegpt", message).choices[0].message.content
    stream = _ask(server, "genegpt", message, stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    raw = server.client().completions.create(model=f"{MODEL}:genegpt", prompt=message["content"])
    assert whole == streamed == raw.choices[0].text


def test_a_follow_up_is_understood_with_what_the_user_named(server: Any) -> None:
    """Told as a step, and searched for: the gene of the earlier question."""
    turns = (
        FIRST,
        {"role": "assistant", "content": "PSMB10"},
        {"role": "user", "content": "And on which chromosome is it?"},
    )
    told = _ask(server, "genegpt", *turns).choices[0].message
    assert told.reasoning_content.splitlines()[0] == "understood as: On which chromosome is LMP10?"
    assert any("LMP10" in call["url"] for call in told.arrowhead["calls"])

    pieces = [chunk.choices[0].delta for chunk in _ask(server, "genegpt", *turns, stream=True) if chunk.choices]
    thoughts = "".join(getattr(piece, "reasoning_content", None) or "" for piece in pieces)
    assert thoughts.startswith("understood as: On which chromosome is LMP10?\n")
    assert "".join(piece.content or "" for piece in pieces) == told.content


@pytest.mark.parametrize("method", METHODS)
def test_a_system_prompt_that_the_model_cannot_follow_is_told(server: Any, method: str) -> None:
    """Clients such as Open WebUI send one with every question, so it is no error."""
    system = {"role": "system", "content": "Answer in German."}
    # The answer itself is not waited for.
    with _ask(server, method, system, FIRST, max_tokens=32, stream=True) as stream:
        told = (getattr(chunk.choices[0].delta, "reasoning_content", None) for chunk in stream if chunk.choices)
        first = next(filter(None, told))
    assert first.startswith("the system prompt of the client is not used")
