"""A follow-up is written by the model, which loses and adds no code, or has names of an earlier turn behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.card import ModelCard
from models.engines.base import Engine, EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedEngine
from models.errors import EngineUnavailable
from models.types import Delta, GenerateParams
from server.methods.base import Message
from server.methods.shared.conversation.follow_ups import (
    about,
    can_rewrite,
    codes_in,
    keeps_codes,
    rewritten,
    symbols_in,
    with_names,
)
from server.methods.shared.generation import Generations, PromptFormatter

CARD = ModelCard(name="chatty", source="/nowhere", context_length=4096)
HISTORY = (Message("user", "What is the official gene symbol of LMP10?"), Message("assistant", "PSMB10"))
QUESTION = "And on which chromosome is it?"


class Words:
    """Know these names alone."""

    def __init__(self, *names: str) -> None:
        self._names = names

    async def names_in(self, text: str) -> Sequence[str]:
        return [name for name in self._names if name in text]


class Dead:
    """An engine that dies while it writes."""

    max_model_len = 4096
    tokenizer = ByteTokenizer()

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        raise EngineUnavailable("gone")
        yield Delta()


async def _rewritten(text: str, *, context: int = 4096) -> tuple[str | None, ScriptedEngine]:
    card = ModelCard(name="chatty", source="/nowhere", context_length=context)
    engine = ScriptedEngine(card, EngineOptions(), [Rule("", text)], tokenizer=ByteTokenizer())
    await engine.start()
    calls = Generations(engine, "r")
    return await rewritten(HISTORY, QUESTION, PromptFormatter(engine, card), calls, "key"), engine


async def test_the_models_version_is_taken_in_its_own_words() -> None:
    """From the user's and the assistant's turns, which the model reads; the cache is the key's own."""
    text, engine = await _rewritten(" Which chromosome carries the locus of PSMB10?\nmore")

    assert text == "Which chromosome carries the locus of PSMB10?"
    (request,) = engine.requests
    assert "User: What is the official gene symbol of LMP10?" in request.prompt
    assert "Assistant: PSMB10" in request.prompt
    assert (request.params.cache_salt, request.params.temperature) == ("key", 0.0)
    assert request.params.max_tokens <= 100


@pytest.mark.parametrize(
    "written",
    [" On which chromosome is TP53?\n", "\n", " on which chromosome is it" * 20, f" {'Where is it? ' * 50}\n"],
)
async def test_a_version_that_cannot_be_used_is_none(written: str) -> None:
    """A made-up code, no text, text without an end, too long a text."""
    assert (await _rewritten(written))[0] is None


async def test_a_conversation_beyond_the_context_is_not_sent() -> None:
    """The question stays as it was asked."""
    text, engine = await _rewritten(" On which chromosome is PSMB10?\n", context=128)
    assert text is None
    assert engine.requests == []


async def test_a_failed_generation_is_no_version() -> None:
    """The method reports the engine's failure, if it lasts."""
    engine = cast(Engine, Dead())
    layout = PromptFormatter(engine, CARD)
    assert await rewritten(HISTORY, QUESTION, layout, Generations(engine, "r"), None) is None


@pytest.mark.parametrize(
    ("text", "question", "is_kept"),
    [
        ("On which chromosome is CFTR?", "on which chromosome is it?", True),
        ("Does CFTR interact with rs12345678?", "does it interact with rs12345678?", True),
        ("Does CFTR interact?", "does it interact with rs12345678?", False),
        ("Is CFTR on chromosome 7?", "where is it?", False),
        ("Is aspirin 100mg safe with CFTR?", "is 100 mg of it safe?", True),
        ("Is 100 g of aspirin safe?", "is 100 mg of it safe?", False),
        ("Ist Mukoviszidose heilbar?", "ist das heilbar?", True),
    ],
)
def test_numbers_and_codes_stay_and_none_is_made_up(text: str, question: str, is_kept: bool) -> None:
    """Words are the model's to choose."""
    said = ["Which gene causes cystic fibrosis?", "CFTR"]
    assert keeps_codes(text, question, said) is is_kept


def test_codes_are_numbers_with_units_and_words_with_digits_or_capitals() -> None:
    """Whatever their spaces, hyphens and case."""
    found = codes_in("Is HbA1c of 7.5 % in TNF-alpha, rs334 and 10mg/kg of Aspirin DNA?")
    assert found == {"hba1c", "7.5%", "tnfalpha", "rs334", "10mg/kg", "dna"}
    assert [word[0] for word in symbols_in("What about TP53, rs334, DNA and 10 mg for Anna?")] == [
        "TP53",
        "rs334",
        "DNA",
    ]


async def test_only_a_model_that_chats_and_is_not_limited_rewrites() -> None:
    """The embedded model was trained for its methods' transcripts alone."""
    limited = ModelCard(name="small", source="/nowhere", trained_for=("genegpt",))
    chat = ScriptedEngine(CARD, EngineOptions(), [Rule("", "x")], tokenizer=ByteTokenizer())
    base = ScriptedEngine(CARD, EngineOptions(), [Rule("", "x")], tokenizer=ByteTokenizer(chat=False))
    assert can_rewrite(chat, CARD)
    assert not can_rewrite(chat, limited)
    assert not can_rewrite(base, CARD)


@pytest.mark.parametrize(
    ("earlier", "question", "expected"),
    [
        (["What is asthma?"], "How common are side effects?", "How common are side effects (about: asthma)?"),
        (["What is asthma?"], "Does heparin help?", "Does heparin help?"),
        (["What is asthma?", "thanks"], "is it inherited", "is it inherited (about: asthma)"),
        (["What is asthma?", "And heparin?"], "is it safe?!", "is it safe (about: heparin)?!"),
        (["heparin or asthma?"], "which?", "which (about: heparin, asthma)?"),
        (["hello"], "is it safe?", "is it safe?"),
    ],
)
async def test_names_of_the_latest_turn_that_has_some_stand_behind(
    earlier: list[str], question: str, expected: str
) -> None:
    """A question with a name of its own, or a conversation without any, stays as it is."""
    assert await with_names(question, earlier, Words("heparin", "asthma")) == expected


@pytest.mark.parametrize(
    ("earlier", "question", "expected"),
    [
        (["Which genes cause asthma?"], "And heparin?", "Which genes cause heparin?"),
        (["Which genes cause asthma?", "and asthma"], "heparin?", "Which genes cause heparin?"),
        (["Does heparin help in asthma?"], "And asthma?", "And asthma?"),
        (["Which genes cause asthma?"], "heparin dose?", "heparin dose?"),
        (["hello"], "And heparin?", "And heparin?"),
    ],
)
async def test_a_name_that_nothing_is_asked_of_is_asked_what_was_asked_before(
    earlier: list[str], question: str, expected: str
) -> None:
    """Where one name stands for one."""
    assert await with_names(question, earlier, Words("heparin", "asthma")) == expected


@given(st.text(max_size=80), st.lists(st.text(min_size=1, max_size=10), max_size=5))
def test_the_words_of_a_question_are_never_changed(question: str, names: list[str]) -> None:
    """Names stand behind them, whatever they are."""
    words = question.strip().rstrip("?!. ")
    assert about(question, names).startswith(words)
    assert asyncio.run(with_names(question, [], Words())) == question
