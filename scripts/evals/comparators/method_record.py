"""Run the method itself with ``evidence``: the context that its model gets, and the citations of its record.

The model is a scripted one that writes an answer given in advance, so the result does not depend on a model's skill.
Its tokenizer counts the method's budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from models.catalog import ModelCard
from models.encoders.base import Floats
from models.engines.base import EngineOptions, Tokenizer
from models.engines.scripted_engine import ScriptedEngine
from retrieval.graph.linking.model_extraction import Extractor
from retrieval.graph.types import Linked, Mention, Neighbourhood, Node, Statement
from scripts.evals.comparators.graph import Evaluated
from scripts.evals.comparators.questions import Question, numbers_in
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Done, Message
from server.methods.kg_rag.method import KgRag
from server.types import EgressMode

_CONTEXT_TOKENS = 20_000
Answers = Callable[[Question], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """``text_*``: in the prompt of the model; ``cited_*``: in the record's citations of the needed edge."""

    question: str
    answer: str
    text_edge: bool
    text_p_value: bool
    text_provenance: bool
    cited_edge: bool
    cited_p_value: bool
    cited_provenance: bool
    context_tokens: int


class StoreGraph:
    """``Graph``, ``Graphs`` and ``Linker`` of the method over an evaluation's store."""

    def __init__(self, graph: Evaluated) -> None:
        self._graph = graph

    @property
    def name(self) -> str:
        return self._graph.store.graph

    @property
    def release(self) -> str:
        return self._graph.store.release

    def open(self, ask: AnswerRequest, egress: EgressMode | None) -> StoreGraph:
        """The same for every answer."""
        return self

    async def link(self, question: str, extractor: Extractor | None = None) -> Linked:
        return await self._graph.linker.link(question)

    async def broader(self, text: str, mention: Mention) -> Mention | None:
        return await self._graph.linker.broader(text, mention)

    async def neighbourhood(self, node: Node) -> Neighbourhood:
        found = self._graph.store.statements(node.node_id)
        return Neighbourhood(node=node, statements=found, graph=self.name, release=self.release)

    async def encode(self, question: str) -> Floats:
        row: Floats = self._graph.encoder.encode_queries([question])[0]
        return row

    async def vectors(self, statements: Sequence[Statement]) -> Floats:
        return self._graph.store.vectors([statement.row for statement in statements])

    async def retracted(self, pmids: Sequence[str]) -> frozenset[str]:
        return frozenset()


async def told(graph: Evaluated, questions: Sequence[Question], answers: Answers, tokenizer: Tokenizer) -> list[Told]:
    """Each question through ``KgRag`` with ``evidence``; ``answers``: what the model writes."""
    written: list[str] = [""]
    card = ModelCard(name="scripted", source="scripted", prompt_form="base")
    options = EngineOptions(max_model_len=_CONTEXT_TOKENS, block_size=16)
    engine = ScriptedEngine(card, options, lambda _: f" {written[0]}", tokenizer=tokenizer)
    lifecycle = EngineLifecycle(card, lambda: engine)
    await lifecycle.load()
    over = StoreGraph(graph)
    method = KgRag(lifecycle, over, over, max_answer_tokens=200)
    found = []
    for place, question in enumerate(questions):
        written[0] = answers(question)
        ask = AnswerRequest(
            request_id=f"q{place}", messages=(Message("user", question.text),), options={"evidence": True}
        )
        last = [event async for event in method.answer(ask)][-1]
        if not isinstance(last, Done):
            raise TypeError(f"the method ended with {type(last).__name__}")
        asked = engine.requests[-1].prompt if engine.requests else ""
        found.append(_told(question, written[0], asked, last.details))
    await engine.close()
    return found


def _told(question: Question, answer: str, prompt: str, details: Mapping[str, Any]) -> Told:
    context = details["context"]
    # The prompt, not the record alone: what the model did not get does not count.
    given = context if context and context in prompt else ""
    pieces = pieces_of(given, question)
    cited = [record for record in details.get("citations", ()) if _is_about(record["text"], question)]
    return Told(
        question=question.text,
        answer=answer,
        text_edge=bool(pieces),
        text_p_value=any(question.p_value in numbers_in(piece) for piece, _ in pieces),
        text_provenance=any(source in line for _, line in pieces for source in question.sources),
        cited_edge=bool(cited),
        cited_p_value=any(record["p_value"] == question.p_value for record in cited),
        cited_provenance=any(source in record["sources"] for record in cited for source in question.sources),
        context_tokens=details["context_tokens"],
    )


def pieces_of(context: str, question: Question) -> list[tuple[str, str]]:
    """(what is said of the one name, its line) for each line below the other name's heading that says it."""
    found, heading = [], ""
    for line in context.splitlines():
        if not line.startswith("- "):
            heading = line
            continue
        for head, item in ((question.disease, question.gene), (question.gene, question.disease)):
            if f" {head.casefold()} (" not in f" {heading.casefold()} (".replace(":", " ("):
                continue
            match = re.search(rf"(?<![\w-]){re.escape(item)}(?![\w-])(?: \{{.*?\}}(?=; | \[| - |$))?", line, re.I)
            if match:
                found.append((match.group(), line))
    return found


def _is_about(text: str, question: Question) -> bool:
    folded = text.casefold()
    return folded.endswith(f" gene {question.gene.casefold()}") and f" {question.disease.casefold()} " in folded


def names_and_value(question: Question) -> str:
    """A complete answer."""
    return f"Yes, {question.gene} is associated with {question.disease} (GWAS, p = {question.p_value:g})."


def bare(question: Question) -> str:
    """The shortest answer that the published scoring takes for right."""
    return "Yes." if question.text.startswith("Is ") else f"{question.p_value:g}"
