"""The second writing of an answer: what the model is given, and when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from waiting import until

from models.catalog import ModelCard
from models.decoding.grammar import MAX_LISTED
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedBehaviour, ScriptedEngine
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Message
from server.methods.shared.generation import FirstAnswer, GrammarRewriter, listed_identifiers

ASK = AnswerRequest(request_id="r", messages=(Message("user", "Which gene is LMP10?"),))
FIRST = FirstAnswer("It is TP53 [2].", ("TP53",), ["LMP10 is PSMB10,\nread by DNA sequencing.", "At 16q22.1."])
Made = tuple[GrammarRewriter, ScriptedEngine]
Make = Callable[..., Any]


@pytest.fixture
def make() -> Make:
    @asynccontextmanager
    async def build(text: str, *, timeout_s: float = 30, max_model_len: int = 4096, **more: Any) -> AsyncIterator[Made]:
        card = ModelCard(name="m", source="/nowhere", trained_for=more.pop("trained_for", None))
        engine = ScriptedEngine(
            card,
            EngineOptions(max_model_len=max_model_len),
            [Rule("", text)],
            tokenizer=ByteTokenizer(chat=more.pop("chat", True)),
            behaviour=ScriptedBehaviour(**more),
        )
        lifecycle = EngineLifecycle(card, lambda: engine)
        await lifecycle.load()
        yield GrammarRewriter(lifecycle, timeout_s), engine
        await engine.close()

    return build


@pytest.mark.parametrize("chat", [True, False])
async def test_the_model_gets_what_was_read_and_a_grammar_of_its_identifiers(make: Make, chat: bool) -> None:
    async with make(" It is PSMB10 [2].\n", chat=chat) as (rewriter, engine):
        second = await rewriter.rewritten(ASK, FIRST)
    assert second.text == "It is PSMB10 [2]." and second.usage.segments == 1
    (request,) = engine.requests
    assert "LMP10 is PSMB10, read by DNA sequencing.\nAt 16q22.1." in request.prompt
    assert "These stand nowhere in what was read: TP53" in request.prompt
    grammar = request.params.grammar
    assert all(word in grammar.spec for word in ("LMP10", "PSMB10", "DNA")) and "TP53" not in grammar.spec
    assert r"\[2\]" in grammar.spec


@pytest.mark.parametrize(
    "more",
    [
        {"trained_for": ("genegpt",)},
        {"max_model_len": 600},
        {"timeout_s": 0.05, "token_delay_s": 0.05},
        {"fail_after_tokens": 2},
        {"text": "and so on " * 300},
    ],
)
async def test_without_a_second_answer_there_is_no_text(make: Make, more: dict[str, Any]) -> None:
    """A model of another training, no room, no time, an engine that fails, an answer that does not end."""
    async with make(more.pop("text", "It is PSMB10."), **more) as (rewriter, engine):
        assert (await rewriter.rewritten(ASK, FIRST)).text == ""
        assert engine.stats().running == 0


async def test_the_end_of_long_evidence_is_left_out(make: Make) -> None:
    first = FirstAnswer("It is TP53.", ("TP53",), ["Begins. " + "word " * 20_000])
    async with make("It is.", max_model_len=3000) as (rewriter, engine):
        assert (await rewriter.rewritten(ASK, first)).text == "It is."
    assert len(engine.requests[0].prompt) <= 3000 - 400 and "Begins." in engine.requests[0].prompt


async def test_a_client_that_leaves_ends_the_writing(make: Make) -> None:
    async with make("It is PSMB10.", token_delay_s=0.05) as (rewriter, engine):
        task = asyncio.create_task(rewriter.rewritten(ASK, FIRST))
        await until(lambda: engine.stats().running)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert engine.stats().running == 0


def test_identifiers_of_the_answer_come_first_and_no_more_than_a_grammar_takes() -> None:
    """What cannot stand in a grammar is left out; abbreviations that are no identifiers may be written."""
    sources = [" ".join(f"GENE{n}" for n in range(1000)), "COVID-19 and https://x.example/" + "y" * 200]
    listed = listed_identifiers("It is GENE900 in DNA and cDNA.", sources)
    assert listed[:3] == ["GENE900", "DNA", "cDNA"] and len(listed) < MAX_LISTED
    assert "COVID-19" in listed_identifiers("", ["COVID-19 The For all NOT"])
    assert "The" not in listed_identifiers("", ["COVID-19 The For all NOT"])
    assert not any(len(word) > 120 for word in listed)
