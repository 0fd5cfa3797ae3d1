"""What an answer is about: the nodes that its question names, and what the graph says of each.

A node of which the graph says nothing is stood in for by a broader one ("Fanconi anemia" for "Fanconi anemia,
complementation group D2"), and that is told wherever its statements are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from retrieval.graph.errors import GraphNodeUnknown
from retrieval.graph.linking.model_extraction import Extractor
from retrieval.graph.linking.types import Linked
from retrieval.graph.types import Mention, Neighbourhood, Node
from server.methods.kg_rag_prompts import Asked

MAX_ENTITIES: Final = 8
# Where a name within a name is of something broader. "Insulin receptor" is no insulin, "bone marrow" no bone.
_NESTED: Final = frozenset({"disease", "phenotype", "phenotypicfeature", "effect/phenotype", "symptom"})


class Linker(Protocol):
    """Finds the nodes that a question names."""

    async def link(self, question: str, extractor: Extractor | None = None) -> Linked:
        """With ``extractor`` by what the model reads; where that fails by the dictionary, with a note."""
        ...

    async def broader(self, text: str, mention: Mention) -> Mention | None:
        """A node of the same kind whose name the mention's words begin or end with."""
        ...


class Neighbourhoods(Protocol):
    """The part of a graph that is needed here."""

    @property
    def name(self) -> str: ...

    @property
    def release(self) -> str: ...

    async def neighbourhood(self, node: Node) -> Neighbourhood:
        """Raises GraphNodeUnknown, GraphSourceUnavailable and their kind."""
        ...


@dataclass(frozen=True, slots=True)
class Recognised:
    """``entities``: each node of ``mentions`` once, no more than eight. ``notes``: what was ambiguous, left out or
    went wrong. ``unlinked``: words of the question that name no node."""

    mentions: tuple[Mention, ...]
    notes: tuple[str, ...] = ()
    unlinked: tuple[str, ...] = ()

    @property
    def entities(self) -> tuple[Node, ...]:
        return tuple({mention.node.node_id: mention.node for mention in self.mentions}.values())[:MAX_ENTITIES]


@dataclass(frozen=True, slots=True)
class Around:
    """``found`` in the order of the entities, then of those that stand in. ``stand_ins``: by the id of the node that
    has no statements the broader one whose statements are used."""

    found: tuple[Neighbourhood, ...]
    stand_ins: Mapping[str, Node] = field(default_factory=dict)


async def recognise(linker: Linker, asked: Asked, extractor: Extractor | None) -> Recognised:
    """Choices are looked for in the entities' statements; they are entities only where the question has none."""
    linked = await linker.link(asked.stem, extractor)
    mentions, notes = linked.mentions or linked.options, linked.notes
    if not mentions and extractor is not None:
        linked = await linker.link(asked.stem)
        mentions = linked.mentions or linked.options
        notes = (*notes, "the model named nothing that the graph has; the dictionary was used", *linked.notes)
    if not mentions and asked.words != asked.stem:
        again = await linker.link(asked.words)
        mentions = again.mentions or again.options
        notes = tuple(dict.fromkeys((*notes, *again.notes)))
    return Recognised(mentions, notes, tuple(span.text for span in linked.unlinked))


async def neighbourhoods(graph: Neighbourhoods, linker: Linker, asked: Asked, recognised: Recognised) -> Around:
    """Raises what the graph raises, but for GraphNodeUnknown."""
    own = await _all_around(graph, recognised.entities)
    wider: dict[str, Node] = {}
    for entity, around in zip(recognised.entities, own, strict=True):
        if not around.statements and (node := await _broader(linker, asked, recognised, entity)):
            wider[around.node.node_id] = node
    known = {entity.node_id: around for entity, around in zip(recognised.entities, own, strict=True)}
    new = {node.node_id: node for node in wider.values() if node.node_id not in known}
    more = dict(zip(new, await _all_around(graph, tuple(new.values())), strict=True))
    answers = {i: found for i, node in wider.items() if (found := (known | more)[node.node_id]).statements}
    return Around(
        found=(*own, *(around for around in more.values() if around.statements)),
        stand_ins={node_id: around.node for node_id, around in answers.items()},
    )


async def _broader(linker: Linker, asked: Asked, recognised: Recognised, node: Node) -> Node | None:
    """By the question's own words, else by the node's name: it may stand there as an identifier."""
    mention = next(mention for mention in recognised.mentions if mention.node.node_id == node.node_id)
    if node.kind.casefold() not in _NESTED:
        return None
    found = await linker.broader(asked.words, mention)
    if found is None:
        found = await linker.broader(node.name, Mention(node=node, start=0, end=len(node.name), method="exact"))
    return found.node if found is not None and found.node.node_id != node.node_id else None


async def _all_around(graph: Neighbourhoods, nodes: Sequence[Node]) -> list[Neighbourhood]:
    async def around(node: Node) -> Neighbourhood:
        try:
            return await graph.neighbourhood(node)
        except GraphNodeUnknown:
            # The names are of another release than the graph: nothing is known, which the reader is told.
            return Neighbourhood(node=node, statements=(), graph=graph.name, release=graph.release)

    tasks = [asyncio.ensure_future(around(node)) for node in nodes]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        # Where one fails, the others' requests are for nothing.
        for task in tasks:
            task.cancel()
