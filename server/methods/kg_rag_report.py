"""Build KG-RAG's events beside the model's text: steps, abstention, references and the trace record. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from models.decoding.types import LoopUsage
from retrieval.graph.context import Context, Gathered
from retrieval.graph.relations import asks_identifier
from retrieval.graph.types import Mention, Node
from server.methods import references
from server.methods.base import Done, Event, Evidence, Retrieved, Step, TextDelta, TranscriptDelta
from server.methods.kg_rag_citations import citation_records, cited, references_of
from server.methods.kg_rag_entities import Around, Recognised
from server.methods.kg_rag_extraction import both
from server.methods.kg_rag_options import KgRagOptions
from server.methods.kg_rag_prompts import Asked

_MAX_LISTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Hold the state after the context is chosen.

    ``stand_ins`` as in ``Around``. ``linking_usage`` is the usage of the model's linking call, None where there was
    none.
    """

    asked: Asked
    options: KgRagOptions
    context: Context
    recognised: Recognised
    stand_ins: Mapping[str, Node]
    graph: str
    release: str
    linking_usage: LoopUsage | None = None

    @property
    def given(self) -> str:
        """Return the context for the model, "" for none; an entity without statements still has its identifier."""
        named = bool(self.context.entities) and asks_identifier(self.asked.question)
        return self.context.text if named or not self.context.empty else ""

    @property
    def must_abstain(self) -> bool:
        return not self.given and self.options.without_context == "abstain"

    @property
    def told_of(self) -> list[Node]:
        """Return the entities that have statements of their own."""
        return [entity for entity in self.context.entities if entity.node_id not in self.stand_ins]

    def usage(self, answer: LoopUsage) -> LoopUsage:
        return answer if self.linking_usage is None else both(self.linking_usage, answer)


def recognised(found: Recognised) -> Iterator[str]:
    yield _in_question(found)
    yield from found.notes


def _in_question(found: Recognised) -> str:
    entities = found.entities
    if not entities:
        return "the graph has no node for anything in the question"
    said: dict[str, str] = {}
    for mention in found.mentions:
        node = mention.node
        score = f", {mention.score:.2f}" if mention.method in ("spelling", "nearest") else ""
        how = "" if mention.method == "exact" else f" by {mention.method}{score}"
        said.setdefault(node.node_id, f"{node.kind} {node.name} ({node.identifier}{how})")
    left = len(said) - len(entities)
    return "in the question: " + _listed(list(said.values())[: len(entities)]) + (f"; {left} not used" if left else "")


def neighbourhoods(around: Around, gathered: Gathered, graph: str, release: str) -> Iterator[str]:
    nodes = {found.node.node_id: found.node for found in around.found}
    for node_id, broader in around.stand_ins.items():
        silent = nodes[node_id]
        yield (
            f"{silent.kind} {silent.name} has no statements; "
            f"those of the broader {broader.kind} {broader.name} ({broader.identifier}) are used"
        )
    cut = [found.node.name for found in around.found if not found.complete]
    silent_ones = [f.node.name for f in around.found if not f.statements and f.node.node_id not in around.stand_ins]
    line = f"{len(gathered.statements)} statements in {graph} {release}".rstrip()
    line += f"; none about {_listed(silent_ones)}" if silent_ones and gathered.statements else ""
    yield line + (f"; cut off by the source for {_listed(cut)}" if cut else "")


def chosen(context: Context) -> str:
    if context.empty:
        return "none of them is for the context"
    named = f", {context.named} of them named in the question" if context.named else ""
    return f"{len(context.statements)} statements chosen{named}; {context.tokens} tokens, {context.left_out} left out"


def retrieved(context: Context) -> Retrieved:
    """Return the event that lists the entities and the web pages of the chosen statements."""
    pages = references_of(context.statements, context.entities)
    return Retrieved(tuple(entity.name for entity in context.entities), tuple(url for _, url in pages))


def abstention(outcome: Outcome) -> Iterator[Event]:
    """Yield the whole answer where the graph has nothing; the model is not called."""
    asked, context = outcome.asked, outcome.context
    where = f"The knowledge graph ({outcome.graph} {outcome.release})".replace(" )", ")")
    if not context.entities:
        reason = f"{where} has no entry for anything that the question names."
    elif context.left_out:
        names = _listed([entity.name for entity in outcome.told_of])
        reason = f"{where} has {context.left_out} statements about {names}, but none was chosen for this question."
    else:
        reason = f"{where} has no statement about {_listed([entity.name for entity in context.entities])}."
    shown = f"{asked.abstention}\n\n{reason}" if asked.abstention else reason
    yield TranscriptDelta(shown, "injected")
    yield TextDelta(shown)
    details = _details(outcome) | {"abstained": True, "reason": reason}
    if asked.answers:
        details["answer_in_list"] = True
    answer = asked.abstention or reason
    usage = outcome.usage(LoopUsage())
    yield Done(answer=answer, finish_reason="stop", stop_reason=None, usage=usage, details=details)


def ending(outcome: Outcome, done: Done) -> Iterator[Event]:
    """Yield the events that follow the model's text; ``done`` is that of the raw text."""
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
    listed = references_of(statements, outcome.told_of) if outcome.options.references and bare else []
    text, marked = references.render(listed, shown)
    if marked:
        yield TextDelta(text)
        yield Evidence(marked)
    details = _details(outcome) | {"abstained": abstained, "citations": citation_records(statements)}
    if asked.answers:
        details["answer_in_list"] = bool(in_list)
        if not in_list:
            yield Step("the answer is none of the choices")
    yield replace(done, answer=answer, usage=outcome.usage(done.usage), details=details)


def _details(outcome: Outcome) -> dict[str, Any]:
    asked, context = outcome.asked, outcome.context
    return {
        "method": "kg-rag",
        "options": asdict(outcome.options),
        "form": asked.form,
        "choices": list(asked.choices),
        "graph": outcome.graph,
        "release": outcome.release,
        "mentions": [_mention(mention) for mention in outcome.recognised.mentions],
        "linking_notes": list(outcome.recognised.notes),
        "linking_tokens": outcome.linking_usage.sampled_tokens if outcome.linking_usage else 0,
        "unlinked": list(outcome.recognised.unlinked),
        "broader": [{"node": node_id, "used": node.node_id} for node_id, node in outcome.stand_ins.items()],
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
