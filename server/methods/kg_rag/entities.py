"""Find the nodes that a question names, and their neighbourhoods in the graph.

A broader node replaces a node without statements ("Fanconi anemia" for "Fanconi anemia, complementation group D2"), and
the replacement is reported wherever its statements are used.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from models.card import ModelCard
from models.decoding.types import LoopUsage
from models.engines.base import Engine
from models.errors import ModelError
from models.types import GenerateParams, Grammar
from retrieval.errors import GRAPH_NODE_UNKNOWN, GraphError
from retrieval.graph.linking.model_extraction import Extractor
from retrieval.graph.types import Linked, Mention, Neighbourhood, Node
from server.methods.base import AnswerRequest
from server.methods.kg_rag.prompts import ParsedQuestion
from server.methods.shared.generation import Generations, PromptFormatter

MAX_ENTITIES: Final = 8
# Kinds in which a name inside a name is broader. "Insulin receptor" is not an insulin, "bone marrow" not a bone.
_NESTED: Final = frozenset({"disease", "phenotype", "phenotypicfeature", "effect/phenotype", "symptom"})


class Linker(Protocol):
    """Find the nodes that a question names."""

    async def link(self, question: str, extractor: Extractor | None = None) -> Linked:
        """Link the names that ``extractor`` finds with the model, or those that the dictionary finds.

        Where extraction fails, the dictionary is used and a note is added.
        """
        ...

    async def broader(self, text: str, mention: Mention) -> Mention | None:
        """Return a node of the same kind whose name is a prefix or suffix of the mention's words."""
        ...


class Neighbourhoods(Protocol):
    """Provide the part of the graph interface that this module uses."""

    @property
    def name(self) -> str: ...

    @property
    def release(self) -> str: ...

    async def neighbourhood(self, node: Node) -> Neighbourhood:
        """Return the statements about a node.

        Raises:
            GraphError: the graph does not have the node; the graph's source failed; further graph errors are possible.
        """
        ...


@dataclass(frozen=True, slots=True)
class Recognised:
    """Hold the mentions of a question.

    ``entities`` has each node of ``mentions`` once, at most eight, without the ids of ``classes``. ``notes`` report
    what was ambiguous, left out or failed. ``unlinked`` are words of the question that name no node.
    """

    mentions: tuple[Mention, ...]
    notes: tuple[str, ...] = ()
    unlinked: tuple[str, ...] = ()
    classes: frozenset[str] = frozenset()

    @property
    def entities(self) -> tuple[Node, ...]:
        nodes = {mention.node.node_id: mention.node for mention in self.mentions}
        return tuple(node for node_id, node in nodes.items() if node_id not in self.classes)[:MAX_ENTITIES]


@dataclass(frozen=True, slots=True)
class EntityNeighbourhoods:
    """Hold the neighbourhoods of the entities, then those of the broader nodes.

    ``stand_ins`` maps the id of a node without statements to the broader node whose statements are used.
    """

    found: tuple[Neighbourhood, ...]
    stand_ins: Mapping[str, Node] = field(default_factory=dict)


async def recognise(linker: Linker, question: ParsedQuestion, extractor: Extractor | None) -> Recognised:
    """Link the question's names to nodes.

    Choices are searched for in the entities' statements; they become entities only where the question has none.
    """
    linked = await linker.link(question.stem, extractor)
    mentions, notes = linked.mentions or linked.options, linked.notes
    if not mentions and extractor is not None:
        linked = await linker.link(question.stem)
        mentions = linked.mentions or linked.options
        notes = (*notes, "the model named nothing that the graph has; the dictionary was used", *linked.notes)
    if not mentions and question.words != question.stem:
        again = await linker.link(question.words)
        mentions = again.mentions or again.options
        notes = tuple(dict.fromkeys((*notes, *again.notes)))
    classes = linked.classes if mentions else ()
    ids = frozenset(mention.node.node_id for mention in classes)
    return Recognised((*mentions, *classes), notes, tuple(span.text for span in linked.unlinked), ids)


async def neighbourhoods(
    graph: Neighbourhoods, linker: Linker, question: ParsedQuestion, recognised: Recognised
) -> EntityNeighbourhoods:
    """Return the neighbourhoods of the entities, with broader nodes for those without statements.

    Raises:
        GraphError: any error of the graph but that it has no such node.
    """
    own = await _all_around(graph, recognised.entities)
    wider: dict[str, Node] = {}
    for entity, around in zip(recognised.entities, own, strict=True):
        if not around.statements and (node := await _broader(linker, question, recognised, entity)):
            wider[around.node.node_id] = node
    known = {entity.node_id: around for entity, around in zip(recognised.entities, own, strict=True)}
    new = {node.node_id: node for node in wider.values() if node.node_id not in known}
    more = dict(zip(new, await _all_around(graph, tuple(new.values())), strict=True))
    answers = {i: found for i, node in wider.items() if (found := (known | more)[node.node_id]).statements}
    return EntityNeighbourhoods(
        found=(*own, *(around for around in more.values() if around.statements)),
        stand_ins={node_id: around.node for node_id, around in answers.items()},
    )


async def _broader(linker: Linker, question: ParsedQuestion, recognised: Recognised, node: Node) -> Node | None:
    """Return a broader node by the question's words, else by the node's name.

    The question may contain an identifier instead of the name.
    """
    mention = next(mention for mention in recognised.mentions if mention.node.node_id == node.node_id)
    if node.kind.casefold() not in _NESTED:
        return None
    found = await linker.broader(question.words, mention)
    if found is None:
        found = await linker.broader(node.name, Mention(node=node, start=0, end=len(node.name), method="exact"))
    return found.node if found is not None and found.node.node_id != node.node_id else None


async def _all_around(graph: Neighbourhoods, nodes: Sequence[Node]) -> list[Neighbourhood]:
    async def around(node: Node) -> Neighbourhood:
        try:
            return await graph.neighbourhood(node)
        except GraphError as error:
            if not GRAPH_NODE_UNKNOWN.is_of(error):
                raise
            # The names are from another release than the graph: an empty neighbourhood, which a step reports.
            return Neighbourhood(node=node, statements=(), graph=graph.name, release=graph.release)

    tasks = [asyncio.ensure_future(around(node)) for node in nodes]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        # If one request fails, the results of the others are not used.
        for task in tasks:
            task.cancel()


# About twice the tokens of sixteen names with their kinds.
MAX_TOKENS: Final = 512


class EngineExtractor:
    """Extract names for one answer.

    ``usage`` is the token usage so far, also after a failure or a cancellation.
    """

    def __init__(self, engine: Engine, card: ModelCard, ask: AnswerRequest) -> None:
        self._generations = Generations(engine, f"{ask.request_id}-names")
        self._layout = PromptFormatter(engine, card)
        self._cache_salt = ask.cache_salt

    @property
    def usage(self) -> LoopUsage:
        return self._generations.usage

    async def extract(self, system: str, user: str, schema: Mapping[str, Any]) -> str:
        """Generate text under the schema as a grammar, at most 512 tokens.

        Raises:
            ModelError: the text does not end within the limit.
            ArrowheadError: the engine failed.
        """
        asked, begins = (user, "") if self._layout.is_chat else (f"Question: {user}", "Names as JSON:")
        prompt = await self._layout.prompt(system, asked, begins)
        grammar = Grammar("json_schema", json.dumps(schema))
        params = GenerateParams(
            max_tokens=MAX_TOKENS, grammar=grammar, cache_salt=self._cache_salt, stop_on_repetition=True
        )
        written = await self._generations.write(prompt, params)
        if written.finish_reason != "stop":
            raise ModelError(f"its list of names was cut off after {written.sampled} tokens ({written.finish_reason})")
        return written.text
