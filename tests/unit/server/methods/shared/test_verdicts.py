"""Yes, no or unclear is one token under a grammar, with its probability where the engine tells one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
from lexical_verifier import AS_THE_MODEL

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, ScriptedEngine
from models.types import Delta, GenerateParams, TokenLogprob
from models.verifiers.base import Judgement
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.reading.evidence import EvidenceSentence
from server.methods.shared.reading.gate import JudgedSentence
from server.methods.shared.sentences import Sentence
from server.methods.shared.verdicts import VERDICTS, Verdict, VerdictPrompt, VerdictReader, probabilities_of

CARD = ModelCard(name="scripted", source="scripted", prompt_form="base")


class Telling(ScriptedEngine):
    """Tells the probabilities of its first token: yes 0.6, no 0.2, unclear 0.1, the rest elsewhere."""

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        tokens = {word: self.tokenizer.encode(word)[0] for word in ("Y", "N", "U", "x")}
        top = tuple(
            (tokens[word], value) for word, value in (("Y", -0.5108), ("N", -1.6094), ("U", -2.3026), ("x", -2.3026))
        )
        yield Delta(text="Yes", token_ids=(1,), logprobs=(TokenLogprob(tokens["Y"], -0.5108, top),))
        yield Delta(finish_reason="stop")


async def _asked(engine: ScriptedEngine, words: Sequence[str] = VERDICTS) -> tuple[float, ...] | None:
    await engine.start()
    return await probabilities_of(Generations(engine, "r"), engine.tokenizer.encode("Is it?"), words, "salt")


async def test_the_probabilities_are_those_of_the_words_against_each_other() -> None:
    engine = Telling(CARD, EngineOptions(max_model_len=900), [], tokenizer=ByteTokenizer(()))
    assert await _asked(engine) == pytest.approx((2 / 3, 2 / 9, 1 / 9), abs=0.001)
    assert await _asked(engine, ("Yes", "No")) == pytest.approx((0.75, 0.25), abs=0.001)


@pytest.mark.parametrize(
    ("written", "found"), [("Yes", (1, 0, 0)), ("No", (0, 1, 0)), ("Unclear", (0, 0, 1)), ("It depends", None)]
)
async def test_what_is_none_of_the_words_is_no_verdict(written: str, found: tuple[float, ...] | None) -> None:
    """The prompt's prefix is cached as that of the request."""
    engine = ScriptedEngine(CARD, EngineOptions(max_model_len=900), lambda _: written, tokenizer=ByteTokenizer(()))
    asked = await _asked(engine)
    assert asked is None if found is None else asked == pytest.approx(found, abs=0.01)
    params = engine.requests[0].params
    assert params.grammar is not None and params.grammar.spec == "Yes|No|Unclear"
    assert (params.temperature, params.stop, params.cache_salt) == (0.0, (), "salt")


@pytest.mark.parametrize(("written", "found"), [("[", 1.0), ("[4] says:", 1.0), ("No passage", 0.0), ("[5]", None)])
async def test_any_two_texts_that_begin_differently_can_be_asked_for(written: str, found: float | None) -> None:
    """They are literal in the grammar; a token that both could begin with decides nothing."""
    words = ("[4] says:", "No passage says it.")
    engine = ScriptedEngine(CARD, EngineOptions(max_model_len=900), lambda _: written, tokenizer=ByteTokenizer(()))
    await engine.start()
    asked = await probabilities_of(Generations(engine, "r"), engine.tokenizer.encode("Is it?"), words, None)
    assert asked is None if found is None else asked == pytest.approx((found, 1 - found), abs=0.01)
    params = engine.requests[0].params
    assert params.grammar is not None and params.grammar.spec == r"\[4\] says:|No passage says it\."


def _quote(text: str, relevance: float) -> JudgedSentence:
    sentence = Sentence(text, 0, len(text))
    return JudgedSentence(EvidenceSentence(0, sentence), Judgement(relevance, relevance, 0.0))


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (("It does. Yes", "It does too. Yes"), Verdict("Yes", is_sure=True)),
        (("It does not. No",), Verdict("No", is_sure=True)),
        (("It does. Yes", "It does not. No", "Nor here. No"), Verdict("Yes", is_sure=False)),
        (("It is told. Unclear", "It does not. No"), Verdict("No", is_sure=False)),
        (("It is told. Unclear",), Verdict("", is_sure=False)),
    ],
)
async def test_the_best_quote_decides_and_the_others_make_it_sure(lines: Sequence[str], verdict: Verdict) -> None:
    def last_word(prompt: str) -> str:
        return next(line for line in prompt.splitlines() if line.startswith("[1] says:")).split()[-1]

    engine = ScriptedEngine(CARD, EngineOptions(max_model_len=9000), last_word, tokenizer=ByteTokenizer(()))
    await engine.start()
    layout = PromptFormatter(engine, CARD)
    reader = VerdictReader(Generations(engine, "r"), layout, VerdictPrompt.load(), AS_THE_MODEL, None)
    quotes = [_quote(line, 0.9 - place / 10) for place, line in enumerate(lines)]
    assert await reader.verdict("Does it?", quotes) == verdict


async def test_an_engine_that_writes_something_else_gives_no_verdict() -> None:
    engine = ScriptedEngine(CARD, EngineOptions(max_model_len=9000), lambda _: "It may", tokenizer=ByteTokenizer(()))
    await engine.start()
    layout = PromptFormatter(engine, CARD)
    reader = VerdictReader(Generations(engine, "r"), layout, VerdictPrompt.load(), AS_THE_MODEL, None)
    quote = _quote("It does.", 0.9)
    assert await reader.verdict("Does it?", [quote]) is None
    assert await reader.choice("Which?", ("this", "that"), [[quote], [quote]]) is None


async def test_a_choice_is_the_one_that_is_most_probably_the_answer() -> None:
    """Each is asked for as a question of yes or no; a sentence that says nothing of it has no part."""
    engine = ScriptedEngine(
        CARD,
        EngineOptions(max_model_len=9000),
        lambda prompt: "Yes" if "Is it warfarin?" in prompt and "VKORC1" in prompt else "Unclear",
        tokenizer=ByteTokenizer(()),
    )
    await engine.start()
    layout = PromptFormatter(engine, CARD)
    reader = VerdictReader(Generations(engine, "r"), layout, VerdictPrompt.load(), AS_THE_MODEL, None)
    row = [_quote("Tea is drunk.", 0.9), _quote("Warfarin blocks VKORC1.", 0.8)]
    support = await reader.choice("Which drug?", ("aspirin", "warfarin"), [row, row])
    assert (
        support is not None
        and (support.place, support.sentence) == (1, row[1])
        and support.probability > 0.9 > 0.1 > support.shares[0]
    )
    assert len(engine.requests) == 4
