"""Yes or no is one token under a grammar, with its probability where the engine tells one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from models.catalog import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, ScriptedEngine
from models.types import Delta, GenerateParams, TokenLogprob
from server.methods.shared.generation import Generations
from server.methods.shared.verdicts import probability_of_first

CARD = ModelCard(name="scripted", source="scripted", prompt_form="base")
WORDS = ("Yes", "No")


class Telling(ScriptedEngine):
    """Tells the probabilities of its first token: yes 0.6, no 0.2, the rest elsewhere."""

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        tokens = {word: self.tokenizer.encode(word)[0] for word in ("Y", "N", "x")}
        top = tuple((tokens[word], value) for word, value in (("Y", -0.5108), ("N", -1.6094), ("x", -1.6094)))
        yield Delta(text="Yes", token_ids=(1,), logprobs=(TokenLogprob(tokens["Y"], -0.5108, top),))
        yield Delta(finish_reason="stop")


async def _asked(engine: ScriptedEngine) -> float | None:
    await engine.start()
    return await probability_of_first(Generations(engine, "r"), engine.tokenizer.encode("Is it?"), WORDS, "salt")


async def test_the_probability_is_that_of_yes_against_no() -> None:
    engine = Telling(CARD, EngineOptions(max_model_len=900), [], tokenizer=ByteTokenizer(()))
    assert await _asked(engine) == pytest.approx(0.75, abs=0.001)


@pytest.mark.parametrize(("written", "found"), [("Yes", 1.0), ("No", 0.0), ("It depends", None)])
async def test_what_is_neither_is_no_verdict(written: str, found: float | None) -> None:
    """The prompt's prefix is cached as that of the request."""
    engine = ScriptedEngine(CARD, EngineOptions(max_model_len=900), lambda _: written, tokenizer=ByteTokenizer(()))
    asked = await _asked(engine)
    assert asked is None if found is None else asked == pytest.approx(found, abs=0.01)
    params = engine.requests[0].params
    assert params.grammar is not None and params.grammar.spec == "Yes|No"
    assert (params.temperature, params.stop, params.cache_salt) == (0.0, (), "salt")


@pytest.mark.parametrize(("written", "found"), [("[", 1.0), ("[4] says:", 1.0), ("No passage", 0.0), ("[5]", None)])
async def test_any_two_texts_that_begin_differently_can_be_asked_for(written: str, found: float | None) -> None:
    """They are literal in the grammar; a token that both could begin with decides nothing."""
    words = ("[4] says:", "No passage says it.")
    engine = ScriptedEngine(CARD, EngineOptions(max_model_len=900), lambda _: written, tokenizer=ByteTokenizer(()))
    await engine.start()
    asked = await probability_of_first(Generations(engine, "r"), engine.tokenizer.encode("Is it?"), words, None)
    assert asked is None if found is None else asked == pytest.approx(found, abs=0.01)
    params = engine.requests[0].params
    assert params.grammar is not None and params.grammar.spec == r"\[4\] says:|No passage says it\."
