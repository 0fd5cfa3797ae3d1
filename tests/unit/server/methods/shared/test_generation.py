"""The client's system prompt stands after a method's own instruction, where the model chats; works end in time."""

from __future__ import annotations

import asyncio

import pytest

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedEngine
from server.methods.genegpt.prompt import MASKS
from server.methods.genegpt.prompt import Prompt as GeneGptPrompt
from server.methods.kg_rag.prompts import KgRagOptions, read_question
from server.methods.kg_rag.prompts import Prompts as KgRagPrompts
from server.methods.shared.generation import PromptFormatter, finished, with_instruction

WISH = "Answer in German."


def test_without_a_system_prompt_the_instruction_is_unchanged() -> None:
    """All requests without one share their cached prefix."""
    assert with_instruction("Cite.", "") == "Cite."


@pytest.mark.parametrize("chat", [True, False])
def test_a_formatted_prompt_has_it_where_the_model_chats(chat: bool) -> None:
    """As MedRAG and i-MedRAG format theirs; a base model would continue it."""
    card = ModelCard(name="m", source="/nowhere")
    engine = ScriptedEngine(card, EngineOptions(), [Rule("", "x")], tokenizer=ByteTokenizer(chat=chat))
    prompt = engine.tokenizer.decode(PromptFormatter(engine, card, WISH).ids("Cite.", "Q?"))
    assert (WISH in prompt) == chat
    assert not chat or prompt.index("Cite.") < prompt.index(WISH) < prompt.index("Q?")


def test_genegpt_and_kg_rag_have_it_after_their_instruction() -> None:
    """In the system message, the last of it."""
    system, _ = GeneGptPrompt.load().chat_form(MASKS["slim"], "Q?", WISH)
    assert system["content"].endswith(WISH)
    assert system["content"].startswith(GeneGptPrompt.load().chat_form(MASKS["slim"], "Q?")[0]["content"])
    question = read_question("Which genes are associated with asthma?", KgRagOptions())
    system, _ = KgRagPrompts.load().chat_form(question, "a context", WISH)
    assert system["content"].endswith(WISH)


async def test_a_prompt_is_rendered_beside_the_event_loop() -> None:
    """A hostile template takes seconds; the double refuses the loop's thread, so every method's tests hold it."""
    card = ModelCard(name="m", source="/nowhere")
    engine = ScriptedEngine(card, EngineOptions(), [Rule("", "x")], tokenizer=ByteTokenizer())
    formatter = PromptFormatter(engine, card)

    assert "Q?" in engine.tokenizer.decode(await formatter.prompt("Cite.", "Q?"))
    with pytest.raises(AssertionError, match="event loop"):
        formatter.ids("Cite.", "Q?")


async def _after(seconds: float, value: str) -> str:
    await asyncio.sleep(seconds)
    return value


async def _failing() -> str:
    raise ValueError("no")


async def test_what_is_finished_in_time_is_kept() -> None:
    """In the order of the works; what is late is cancelled, and an error is raised."""
    late = asyncio.ensure_future(_after(60, "late"))
    assert await finished([_after(0.01, "a"), late, _after(0, "b")], 0.2) == ["a", None, "b"]
    assert late.cancelled() and await finished([], 1) == []
    with pytest.raises(ValueError, match="no"):
        await finished([_failing()], 1)
