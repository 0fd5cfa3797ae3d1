"""Passages that were found elsewhere are read as MedRAG reads its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lexical_verifier import lexical_gate
from passage_bench import PassageBench, done, shown, steps

from models.errors import EngineUnavailable
from server.methods.base import AnswerRequest
from server.methods.medrag.method import MedRag
from server.methods.medrag.reading import PassageReader
from server.methods.medrag.request import MedRagOptions, ParsedQuestion
from server.methods.shared.passages import Gathered, PassageQuery, SentenceScores

QUESTION = ParsedQuestion("Which drug reverses heparin?", "open")


class Found:
    """Passages of one search, whatever is asked for."""

    names = ("drugs",)

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered

    def check(self, passage_query: PassageQuery) -> None:
        """Everything is there."""

    async def find(self, queries: Sequence[str], passage_query: PassageQuery) -> Gathered:
        return self._gathered

    async def compare(self, question: str, sentences: Sequence[str], names: Sequence[str]) -> SentenceScores:
        return SentenceScores()


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    readers: list[PassageReader] = []

    def make(slot: Any, service: Any) -> MedRag:
        readers.append(PassageReader(slot, 400))
        return MedRag(slot, service, lexical_gate(), 400)

    return PassageBench(make, tmp_path, lambda prompt: " Clopidogrel [1]."), readers


async def _read(made: PassageBench, reader: PassageReader, ask: AnswerRequest) -> list[Any]:
    found = await made.service.open(ask).find(["What does clopidogrel block?"], PassageQuery(k=1))
    return [event async for event in reader.read(ask, QUESTION, MedRagOptions(), "other", Found(found))]


async def test_the_passages_given_are_read_and_no_others(bench: Any) -> None:
    """The record says whose answer it is."""
    made, readers = bench
    async with made:
        events = await _read(made, readers[0], made.made(QUESTION.stem))
    assert any("1 passage to read" in step for step in steps(events))
    assert "Protamine" not in shown(events) and done(events).details["method"] == "other"


async def test_without_an_engine_nothing_is_read(bench: Any) -> None:
    made, readers = bench
    async with made:
        await made.engine.close()
        with pytest.raises(EngineUnavailable):
            await _read(made, readers[0], made.made(QUESTION.stem))
