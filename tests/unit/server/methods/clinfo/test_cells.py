"""A cell of a further column has what the article states, with its quote, or nothing."""

from __future__ import annotations

import json

import pytest
from lexical_verifier import lexical_gate

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, ScriptedEngine
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest
from server.methods.clinfo.cells import CellReader, Cells
from server.methods.shared.evidence_table import Finding

TEXT = "In all, 40 adults took part in the trial.\nRESULTS: The dose that was given was 200 mg of lasmiditan."
ASKED = "Which dose was given?"
STATED = "RESULTS: The dose that was given was 200 mg of lasmiditan."


async def opened(written: str, trained_for: tuple[str, ...] | None = None) -> CellReader:
    """Cells of a model that writes this; one that is trained for other methods alone writes none."""
    card = ModelCard(name="scripted", source="scripted", prompt_form="base", trained_for=trained_for)
    options = EngineOptions(max_model_len=60_000, block_size=16)
    engine = ScriptedEngine(card, options, lambda _: written, tokenizer=ByteTokenizer(()))
    lifecycle = EngineLifecycle(card, lambda: engine)
    await lifecycle.load()
    return Cells(lifecycle, lexical_gate()).open(AnswerRequest(request_id="r"))


async def filled(value: str, quote: str) -> CellReader:
    return await opened(json.dumps({"cell": {"value": value, "quote": quote}}))


async def test_without_a_model_that_writes_the_cell_is_the_sentence_that_answers() -> None:
    reader = await opened("", ("genegpt",))
    assert await reader.read(ASKED, "A trial", TEXT) == Finding(STATED, STATED)
    assert await reader.read("Who funded this?", "A trial", TEXT) == Finding()
    assert reader.sampled_tokens == 0


async def test_a_model_fills_a_cell_with_a_quote_of_the_article() -> None:
    reader = await filled("200 mg", "The dose that was given was 200 mg")
    assert await reader.read(ASKED, "A trial", TEXT) == Finding("200 mg", "The dose that was given was 200 mg")
    assert reader.sampled_tokens > 0


@pytest.mark.parametrize(
    ("value", "quote"),
    [
        pytest.param("200 mg", "The dose was two hundred", id="quote_is_not_in_the_article"),
        pytest.param("300 mg", "The dose that was given was 200 mg", id="number_is_not_in_the_quote"),
        pytest.param("40", "40 adults", id="sentence_does_not_answer_the_column"),
        pytest.param("", "", id="article_states_nothing"),
    ],
)
async def test_a_cell_without_support_stays_empty(value: str, quote: str) -> None:
    assert await (await filled(value, quote)).read(ASKED, "A trial", TEXT) == Finding()


async def test_what_is_no_json_leaves_a_cell_empty() -> None:
    assert await (await opened("no data")).read(ASKED, "A trial", TEXT) == Finding()
