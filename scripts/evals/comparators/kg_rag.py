"""Run the server's KG-RAG without the answering model: linking, neighbourhoods, vectors, choice of context."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from retrieval.graph.context.render import evidence_json
from retrieval.graph.context.select import Context, ContextCandidates, ContextOptions, Vectors, build_context, gather
from retrieval.graph.types import Neighbourhood
from scripts.evals.comparators.base import Fact, Retrieved, TokenCount, ends
from scripts.evals.comparators.graph import Evaluated
from server.methods.kg_rag.entities import Recognised


@dataclass(frozen=True, slots=True)
class KgRagRetriever:
    """``called``: its name in tables."""

    called: str
    graph: Evaluated
    options: ContextOptions
    count: TokenCount

    @property
    def name(self) -> str:
        return self.called

    async def retrieve(self, question: str) -> Retrieved:
        mentions = (await self.graph.linker.link(question)).mentions
        entities = Recognised(mentions).entities
        if not entities:
            return Retrieved("", nodes=(), note="nothing in the question names a node")
        store = self.graph.store
        around = [Neighbourhood(node=n, statements=store.statements(n.node_id), graph="", release="") for n in entities]
        gathered = gather(question, mentions, around)
        context = await asyncio.to_thread(self._chosen, question, gathered)
        nodes = tuple(entity.name for entity in entities)
        return Retrieved(context.text, tuple(_facts(context, self.options.evidence)), nodes=nodes)

    def _chosen(self, question: str, gathered: ContextCandidates) -> Context:
        rows = [statement.row for statement in gathered.statements]
        empty = np.zeros((0, self.graph.encoder.dim), np.float32)
        vectors = Vectors(
            self.graph.encoder.encode_queries([question])[0], self.graph.store.vectors(rows) if rows else empty
        )
        return build_context(gathered, vectors, self.count, self.options)


def _facts(context: Context, evidence: bool) -> Iterator[Fact]:
    """A fact is its other end's name with its attributes; the source stands at the end of its line."""
    ids = {entity.node_id for entity in context.entities}
    for statement in context.statements:
        other = statement.target if statement.edge.source_id in ids else statement.source
        attributes = evidence_json(statement) if evidence else ""
        source = "; ".join(statement.edge.provenance)
        yield Fact(ends(statement), f"{other.name} {attributes}".strip(), f"[source: {source}]" if source else "")
