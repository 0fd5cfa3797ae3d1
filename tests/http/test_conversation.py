"""Emergencies, greetings, follow-ups and system prompts with the models that ship, in every method."""

from __future__ import annotations

from typing import Any

import pytest

METHODS = ("genegpt", "kg-rag", "medrag", "i-medrag", "clinfo")
MODEL = "arrowhead-tiny"
FIRST = {"role": "user", "content": "What is the official gene symbol of LMP10?"}
URGENT = {
    "help, my father collapsed and is not breathing": "call 112 or your local emergency number",
    "mein Kind atmet nicht mehr, Hilfe": "112 oder die örtliche Notrufnummer anrufen",
}


@pytest.fixture
def server(embedded_model: Any) -> Any:
    return embedded_model


def _ask(server: Any, method: str, *messages: dict[str, str], **more: Any) -> Any:
    return server.client().chat.completions.create(model=f"{MODEL}:{method}", messages=list(messages), **more)


def test_an_emergency_has_numbers_before_the_methods_own_answer(server: Any) -> None:
    """In each method, in the language of the message; a question on the same thing has none."""
    for method in METHODS:
        for message, part in URGENT.items():
            told = _ask(server, method, {"role": "user", "content": message}, max_tokens=32).choices[0].message
            note, _, answer = told.content.partition("\n\n")
            assert part in note, (method, message)
            assert answer, method
        asked = {"role": "user", "content": "What are the symptoms of a heart attack?"}
        assert "112" not in _ask(server, method, asked, max_tokens=32).choices[0].message.content


def test_streams_and_completions_begin_with_the_same_note(server: Any) -> None:
    """However the answer is asked for."""
    message = {"role": "user", "content": "my husband collapsed and does not breathe"}
    whole = _ask(server, "genegpt", message).choices[0].message.content
    stream = _ask(server, "genegpt", message, stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    raw = server.client().completions.create(model=f"{MODEL}:genegpt", prompt=message["content"])
    note, _, answer = whole.partition("\n\n")
    assert "112" in note
    assert answer
    assert whole == streamed
    assert raw.choices[0].text.startswith(f"{note}\n\n")


def test_a_greeting_gets_an_empty_answer_and_a_question_to_try(server: Any) -> None:
    """A model that only looks things up has nothing to say to it."""
    told = _ask(server, "genegpt", {"role": "user", "content": "hello"}).choices[0].message
    assert told.arrowhead["outcome"] == "out_of_scope"
    assert told.content.endswith("A question to try: What is the official gene symbol of LMP10?")


def test_a_follow_up_is_understood_with_what_the_user_named(server: Any) -> None:
    """Told as a step, and searched for: the gene of the earlier question."""
    turns = (
        FIRST,
        {"role": "assistant", "content": "PSMB10"},
        {"role": "user", "content": "And on which chromosome is it?"},
    )
    told = _ask(server, "genegpt", *turns).choices[0].message
    assert told.reasoning_content.splitlines()[0] == "understood as: And on which chromosome is it (about: LMP10)?"
    assert any("LMP10" in call["url"] for call in told.arrowhead["calls"])

    pieces = [chunk.choices[0].delta for chunk in _ask(server, "genegpt", *turns, stream=True) if chunk.choices]
    thoughts = "".join(getattr(piece, "reasoning_content", None) or "" for piece in pieces)
    assert thoughts.startswith("understood as: And on which chromosome is it (about: LMP10)?\n")
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
