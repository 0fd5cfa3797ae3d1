"""Read from an article what one further column of an evidence table asks, with the quote that states it.

Nothing is filled in that the article does not state: a quote of the model stands in the article letter for letter and
has the numbers of its value, and the verifier takes its sentence for an answer to what the column asks. Without a model
that writes, the cell is the sentence that answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest
from server.methods.clinfo.generated import written_row
from server.methods.clinfo.judging import Judge, Prompts, judge_of
from server.methods.clinfo.literature import Article, Section
from server.methods.clinfo.statements import readable
from server.methods.shared.evidence_table import Finding
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import Gate
from server.methods.shared.sentences import split_sentences
from server.methods.shared.synthesis import choose_synthesis

_CELL: Final = "cell"


@dataclass(frozen=True, slots=True)
class CellReader:
    """Read cells for one request; ``judge`` None: no model writes."""

    gate: Gate
    judge: Judge | None

    @property
    def sampled_tokens(self) -> int:
        """Return how many tokens the model has written so far."""
        return self.judge.generations.usage.sampled_tokens if self.judge else 0

    async def read(self, column: str, title: str, text: str) -> Finding:
        """Return what an article states on what ``column`` asks; empty where it states nothing.

        Raises:
            ModelError: the model or the verifier failed.
        """
        article = Article(key="", title=title, sections=tuple(Section("", line) for line in text.splitlines()))
        if self.judge is None:
            return await self._quoted(column, article)
        return await self._written(self.judge, column, article)

    async def _quoted(self, column: str, article: Article) -> Finding:
        reading = await self.gate.read(column, readable([article]).sources)
        # A sentence that answers only with the one before it states too little for a cell.
        best = next((one for one in reading.ranked if not one.evidence.parts), None)
        if best is None or best.relevance < reading.points.answer:
            return Finding()
        return Finding(best.evidence.line, best.evidence.line)

    async def _written(self, judge: Judge, column: str, article: Article) -> Finding:
        try:
            row = await written_row(judge, judge.prompts.cell(column, article), article, (_CELL,))
        except ValueError:  # no JSON
            return Finding()
        found = row.get(_CELL, Finding())
        if not found.value:
            return found
        lines = (one.line for section in article.sections for one in split_sentences(section.text))
        stated = next((line for line in lines if found.quote in line), found.quote)
        reading = await self.gate.read(column, [EvidenceText(article.title, stated)])
        return found if reading.ranked and reading.best >= reading.points.quote else Finding()


class Cells:
    """Read what further columns of an evidence table ask from articles; the ``CellSource`` of reviews.

    Where a model writes reviews it fills them; otherwise a cell is the sentence that answers.
    """

    def __init__(self, lifecycle: EngineLifecycle, gate: Gate) -> None:
        self._lifecycle = lifecycle
        self._gate = gate
        self._prompts = Prompts.load()

    def open(self, ask: AnswerRequest) -> CellReader:
        """Return what reads cells for one request.

        Raises:
            ModelError: there is no engine now.
        """
        is_written = choose_synthesis(None, "clinfo", self._lifecycle.card) == "generated"
        return CellReader(self._gate, judge_of(self._lifecycle, ask, self._prompts) if is_written else None)
