"""What KG-RAG tells beside the model's text: its steps, abstention, references and the record of the trace. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from models.decoding.types import LoopUsage
from retrieval.graph.context import Context
from retrieval.graph.relations import asks_identifier
from retrieval.graph.types import Mention, Neighbourhood, Node
from server.methods import references
from server.methods.base import Done, Event, Evidence, Retrieved, Step, TextDelta, TranscriptDelta
from server.methods.kg_rag_citations import citation_records, cited, references_of
from server.methods.kg_rag_options import KgRagOptions
from server.methods.kg_rag_prompts import Asked

_MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is known when the context is chosen."""

    asked: Asked
    options: KgRagOptions
    context: Context
    mentions: tuple[Mention, ...]
    graph: str
    release: str

    @property
    def given(self) -> str:
        """The context that the model gets, "" for none. A name without statements still has its identifier."""
        named = bool(self.context.entities) and asks_identifier(self.asked.question)
        return self.context.text if named or not self.context.empty else ""

    @property
    def must_abstain(self) -> bool:
        return not self.given and self.options.without_context == "abstain"


def entities_of(mentions: Sequence[Mention], most: int) -> tuple[Node, ...]:
    """Each node once, in the order of the question."""
    return tuple({mention.node.node_id: mention.node for mention in mentions}.values())[:most]


def recognised(mentions: Sequence[Mention], entities: Sequence[Node]) -> str:
    if not entities:
        return "the graph has no node for anything in the question"
    said: dict[str, str] = {}
    for mention in mentions:
        node = mention.node
        how = "" if mention.method == "exact" else f" by {mention.method}, {mention.score:.2f}"
        said.setdefault(node.node_id, f"{node.kind} {node.name} ({node.identifier}{how})")
    left = len(said) - len(entities)
    return "in the question: " + _listed(list(said.values())[: len(entities)]) + (f"; {left} not used" if left else "")


def neighbourhoods(found: Sequence[Neighbourhood], total: int, graph: str, release: str) -> str:
    cut = [around.node.name for around in found if not around.complete]
    line = f"{total} statements in {graph} {release}".rstrip()
    return line + (f"; cut off by the source for {_listed(cut)}" if cut else "")


def chosen(context: Context) -> str:
    if context.empty:
        return "none of them is for the context"
    named = f", {context.named} of them named in the question" if context.named else ""
    return f"{len(context.statements)} statements chosen{named}; {context.tokens} tokens, {context.left_out} left out"


def retrieved(context: Context) -> Retrieved:
    """The entities that were looked up, and where the chosen statements can be looked up by a reader."""
    pages = references_of(context.statements, context.entities)
    return Retrieved(tuple(entity.name for entity in context.entities), tuple(url for _, url in pages))


def abstention(outcome: Outcome) -> Iterator[Event]:
    """The whole answer where the graph has nothing: no model is asked."""
    asked, context = outcome.asked, outcome.context
    where = f"The knowledge graph ({outcome.graph} {outcome.release})".replace(" )", ")")
    if not context.entities:
        reason = f"{where} has no entry for anything that the question names."
    elif context.left_out:
        names = _listed([entity.name for entity in context.entities])
        reason = f"{where} has {context.left_out} statements about {names}, but none was chosen for this question."
    else:
        reason = f"{where} has no statement about {_listed([entity.name for entity in context.entities])}."
    shown = f"{asked.abstention}\n\n{reason}" if asked.abstention else reason
    yield TranscriptDelta(shown, "injected")
    yield TextDelta(shown)
    details = _details(outcome) | {"abstained": True, "reason": reason}
    answer = asked.abstention or reason
    yield Done(answer=answer, finish_reason="stop", stop_reason=None, usage=LoopUsage(), details=details)


def ending(outcome: Outcome, done: Done) -> Iterator[Event]:
    """What comes after the model's text. ``done`` is of the text as it was written."""
    asked, context = outcome.asked, outcome.context
    written, bare = done.answer, done.answer.strip()
    in_list = asked.answer_in(written)
    answer = in_list or bare
    abstained = bool(asked.abstention) and in_list == asked.abstention
    statements = cited(context, asked, answer) if outcome.given and not abstained else ()
    shown = len(written)
    if not outcome.given:
        note = "\n\n(Answered without the knowledge graph, which has nothing on this.)"
        shown += len(note)
        yield TextDelta(note)
    listed = references_of(statements, context.entities) if outcome.options.references and bare else []
    text, marked = references.render(listed, shown)
    if marked:
        yield TextDelta(text)
        yield Evidence(marked)
    details = _details(outcome) | {"abstained": abstained, "citations": citation_records(statements)}
    if asked.answers:
        details["answer_in_list"] = bool(in_list)
        if not in_list:
            yield Step("the answer is none of the choices")
    yield replace(done, answer=answer, details=details)


def _details(outcome: Outcome) -> dict[str, Any]:
    asked, context = outcome.asked, outcome.context
    return {
        "method": "kg-rag",
        "options": asdict(outcome.options),
        "form": asked.form,
        "choices": list(asked.choices),
        "graph": outcome.graph,
        "release": outcome.release,
        "mentions": [_mention(mention) for mention in outcome.mentions],
        "entities": [entity.node_id for entity in context.entities],
        "context": outcome.given,
        "context_tokens": context.tokens if outcome.given else 0,
        "statements": [statement.edge.edge_id for statement in context.statements],
        "left_out": context.left_out,
    }


def _mention(mention: Mention) -> Mapping[str, Any]:
    return {
        "node": mention.node.node_id,
        "start": mention.start,
        "end": mention.end,
        "method": mention.method,
        "score": round(mention.score, 4),
        "margin": round(mention.margin, 4),
    }


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_LISTED
    return ", ".join(names[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
