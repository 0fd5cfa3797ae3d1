"""The model may put names of the conversation into a question, and nothing else."""

from __future__ import annotations

from models.catalog import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedEngine
from server.methods.base import Message
from server.methods.shared.conversation.method import can_rewrite, is_faithful, rewritten
from server.methods.shared.generation import Generations, PromptFormatter

CARD = ModelCard(name="chatty", source="/nowhere", context_length=4096)
HISTORY = (Message("user", "What is the official gene symbol of LMP10?"), Message("assistant", "PSMB10"))
QUESTION = "And on which chromosome is it?"


async def _rewritten(text: str, *, context: int = 4096) -> tuple[str | None, ScriptedEngine]:
    card = ModelCard(name="chatty", source="/nowhere", context_length=context)
    engine = ScriptedEngine(card, EngineOptions(), [Rule("", text)], tokenizer=ByteTokenizer())
    await engine.start()
    calls = Generations(engine, "r")
    return await rewritten(HISTORY, QUESTION, PromptFormatter(engine, card), calls, "key"), engine


async def test_a_version_with_names_of_the_conversation_is_taken() -> None:
    """From the user's and the assistant's turns, which the model reads; the cache is the key's own."""
    text, engine = await _rewritten(" On which chromosome is PSMB10 located?\nmore")

    assert text == "On which chromosome is PSMB10 located?"
    (request,) = engine.requests
    assert "User: What is the official gene symbol of LMP10?" in request.prompt
    assert "Assistant: PSMB10" in request.prompt
    assert (request.params.cache_salt, request.params.temperature) == ("key", 0.0)
    assert request.params.max_tokens <= 100


async def test_a_version_that_cannot_be_used_is_none() -> None:
    """Made-up names, no text, text without an end, a conversation beyond the context."""
    assert (await _rewritten(" On which chromosome is TP53?\n"))[0] is None
    assert (await _rewritten("\n"))[0] is None
    assert (await _rewritten(" on which chromosome is it" * 20))[0] is None
    text, engine = await _rewritten(" On which chromosome is PSMB10?\n", context=128)
    assert text is None
    assert engine.requests == []


def test_a_rewritten_question_keeps_and_adds_only_what_was_said() -> None:
    """Identifiers and words alike."""
    said = ["Which gene causes cystic fibrosis?", "CFTR"]
    assert is_faithful("On which chromosome is CFTR?", "on which chromosome is it?", said)
    assert is_faithful("Does CFTR interact with rs12345678?", "does it interact with rs12345678?", said)
    assert not is_faithful("Does CFTR interact?", "does it interact with rs12345678?", said)
    assert not is_faithful("Is CFTR on chromosome 7?", "where is it?", said)
    assert not is_faithful("Is aspirin safe in cystic fibrosis?", "is it safe?", said)


async def test_only_a_model_that_chats_and_is_not_limited_rewrites() -> None:
    """The embedded model was trained for one method's transcripts alone."""
    limited = ModelCard(name="small", source="/nowhere", trained_for=("genegpt",))
    chat = ScriptedEngine(CARD, EngineOptions(), [Rule("", "x")], tokenizer=ByteTokenizer())
    base = ScriptedEngine(CARD, EngineOptions(), [Rule("", "x")], tokenizer=ByteTokenizer(chat=False))
    assert can_rewrite(chat, CARD)
    assert not can_rewrite(chat, limited)
    assert not can_rewrite(base, CARD)
