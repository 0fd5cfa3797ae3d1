"""Build KG-RAG's events beside the model's text: steps, abstention, references and the trace record. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from models.decoding.types import LoopUsage
from retrieval.graph.context.relations import asks_identifier
from retrieval.graph.context.select import Context, ContextCandidates, QuestionNames
from retrieval.graph.types import Mention, Node, Statement
from server.methods.base import (
    AnswerOutcome,
    Done,
    Event,
    Evidence,
    Retrieved,
    Source,
    Step,
    TextDelta,
    TranscriptDelta,
    add_usage,
)
from server.methods.kg_rag.entities import EntityNeighbourhoods, Recognised
from server.methods.kg_rag.prompts import KgRagOptions, ParsedQuestion
from server.methods.shared.call_lines import MAX_REFERENCES, render
from server.methods.shared.empty_states import MORE_STATEMENTS
from server.methods.shared.outcomes import listed, notice, why_cut

_PUBMED: Final = "https://pubmed.ncbi.nlm.nih.gov/{}"
_PMID: Final = re.compile(r"(?:PMID:?\s*)?([0-9]{1,9})$", re.IGNORECASE)
_P_VALUES: Final = ("gwas_pvalue", "pvalue", "p_value", "pValue", "fisher")
_MAX_CITED: Final = 40
# The DISEASES database's form of evidence from DistiLD.
_DISTILD: Final = re.compile(r"p-value = (\S+)$")
# Identifiers whose form alone determines their source, and the web pages of these sources.
_PAGES: Final = (
    (
        re.compile(r"(?:DOID|UBERON|GO|CHEBI|HP|MONDO|CL|NCBITaxon|inchikey|EFO|ORPHANET|HGNC):\S+$", re.I),
        "identifiers.org/{}",
    ),
    (re.compile(r"DB\d{5}$"), "go.drugbank.com/drugs/{}"),
    (re.compile(r"CHEMBL\d+$"), "identifiers.org/chembl.compound:{}"),
    (re.compile(r"rs\d+$"), "www.ncbi.nlm.nih.gov/snp/{}"),
    (re.compile(r"[CD]\d{6,9}$"), "id.nlm.nih.gov/mesh/{}"),
    (re.compile(r"R-HSA-\d+$"), "reactome.org/content/detail/{}"),
    (re.compile(r"WP\d+$"), "www.wikipathways.org/instance/{}"),
)
# PrimeKG puts the source before identifiers that have a form of their own, and drops leading zeros.
_SOURCE_BEFORE: Final = re.compile(r"^(?:DrugBank|REACTOME):", re.IGNORECASE)
_UNPADDED: Final = re.compile(r"(MONDO|UBERON|GO|HPO?|CL):(\d{1,7})$")
_GENE_ID: Final = re.compile(r"(?:ncbigene:|ncbi:|entrez:|geneid:)?(\d+)$", re.IGNORECASE)
_UNIPROT: Final = re.compile(r"[OPQ]\d[A-Z0-9]{3}\d$|[A-NR-Z]\d(?:[A-Z][A-Z0-9]{2}\d){1,2}$")


def node_url(node: Node) -> str:
    """Return the web page of a node's identifier, "" where none is known."""
    identifier = _UNPADDED.sub(_padded, _SOURCE_BEFORE.sub("", node.identifier.strip(), count=1))
    kind = node.kind.casefold()
    gene = _GENE_ID.match(identifier) if kind.startswith("gene") else None
    if gene is not None:
        return f"https://www.ncbi.nlm.nih.gov/gene/{gene[1]}"
    if kind == "protein" and _UNIPROT.match(identifier):
        return f"https://www.uniprot.org/uniprotkb/{identifier}"
    page = next((page for form, page in _PAGES if form.match(identifier)), "")
    return "https://" + page.format(quote(identifier, safe=":")) if page else ""


def _padded(found: re.Match[str]) -> str:
    return f"{'HP' if found[1] == 'HPO' else found[1]}:{found[2]:0>7}"


def p_value(statement: Statement) -> float | None:
    """Return the smallest p-value of the statement's evidence, None where it has none."""
    return min(_p_values(statement.edge.evidence), default=None)


def cited(context: Context, question: ParsedQuestion, answer: str) -> tuple[Statement, ...]:
    """Return the statements whose other end the answer names, in the order of the context.

    An answer that names none, such as "True", "No" or a p-value, rests on those that the question names.
    """
    in_question = context.statements[: min(context.named, _MAX_CITED)]
    if question.form == "true_false":
        return in_question
    names = QuestionNames(answer, ())
    ids = {entity.node_id for entity in context.entities}
    found = [s for s in context.statements if any(names.has(end) for end in _others(s, ids))]
    return tuple(found[:_MAX_CITED]) or in_question


def references_of(statements: Sequence[Statement], entities: Sequence[Node]) -> list[tuple[str, str]]:
    """Return (title, address) of the statements, then of the entities.

    A statement's address is its first article, else the page of one of its ends.
    """
    ids = {entity.node_id for entity in entities}
    found: dict[str, str] = {}
    for statement in statements:
        url = _url(statement, ids)
        if url:
            found.setdefault(url, _plain(f"{statement.text} ({_source(statement)})"))
    for entity in entities if statements else ():
        url = node_url(entity)
        if url:
            found.setdefault(url, _plain(f"{entity.kind} {entity.name}, {entity.identifier}"))
    return [(title, url) for url, title in list(found.items())[:MAX_REFERENCES]]


def citation_records(statements: Iterable[Statement]) -> list[dict[str, Any]]:
    """Return JSON-able records for the trace, with all that is needed to find each statement again."""
    return [
        {
            "edge": statement.edge.edge_id,
            "text": statement.text,
            "sources": list(statement.edge.provenance),
            "pmids": list(statement.edge.pmids),
            "retracted": list(statement.edge.retracted),
            "pmid_urls": [url for url in map(_article_url, statement.edge.pmids) if url],
            "p_value": p_value(statement),
            "evidence": dict(statement.edge.evidence),
            "year": statement.edge.evidence.get("year"),
            "node_urls": [node_url(statement.source), node_url(statement.target)],
            "licence": statement.edge.licence,
        }
        for statement in statements
    ]


def _others(statement: Statement, entities: set[str]) -> list[Node]:
    ends = [statement.source, statement.target]
    return [end for end in ends if end.node_id not in entities] or ends


def _url(statement: Statement, entities: set[str]) -> str:
    articles = sorted(articles_of(statement), key=lambda number: number in statement.edge.retracted)
    pages = [_article_url(number) for number in articles[:1]]
    pages += [node_url(end) for end in (*_others(statement, entities), statement.source, statement.target)]
    pages += [source for source in statement.edge.provenance if source.startswith("https://") and ")" not in source]
    return next((page for page in pages if page), "")


def _article_url(pmid: str) -> str:
    number = _PMID.match(pmid)
    return _PUBMED.format(number[1]) if number else ""


def articles_of(statement: Statement) -> list[str]:
    """Return the PMIDs of a statement, as numbers alone."""
    return [number[1] for number in map(_PMID.match, statement.edge.pmids) if number]


def with_retractions(statement: Statement, retracted: frozenset[str]) -> Statement:
    """Return the statement with those of its articles that are retracted, as it is where none is."""
    found = tuple(number for number in articles_of(statement) if number in retracted)
    return replace(statement, edge=replace(statement.edge, retracted=found)) if found else statement


def _source(statement: Statement) -> str:
    sources = "; ".join(statement.edge.provenance) or ("PubMed" if statement.edge.pmids else "source not named")
    details = (statement.edge.evidence.get("year"), statement.edge.licence)
    sources = ", ".join((sources, *(str(one) for one in details if one)))
    if statement.edge.retracted:
        sources += f"; RETRACTED: PMID {', '.join(statement.edge.retracted)}"
    value = p_value(statement)
    return sources if value is None else f"{sources}, p = {value:g}"


def _p_values(evidence: Mapping[str, Any]) -> Iterator[float]:
    """Yield the p-values of an edge's evidence.

    In edges merged from several, a value that differs is a list, and ``items`` may be one.
    """
    for key in _P_VALUES:
        values = evidence.get(key)
        for value in values if isinstance(values, list | tuple) else (values,):
            if (number := _number(value)) is not None:
                yield number
    found = _DISTILD.match(str(evidence.get("evidence", "")))
    if found and (number := _number(found[1])) is not None:
        yield number
    items = evidence.get("items")
    for item in items if isinstance(items, list | tuple) else ():
        for one in item if isinstance(item, list | tuple) else (item,):
            if isinstance(one, Mapping):
                yield from _p_values({key: value for key, value in one.items() if key != "items"})


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _plain(title: str) -> str:
    """Return a title without brackets, which could end the text of a Markdown link."""
    return " ".join(title.split()).replace("[", "(").replace("]", ")")


_MAX_LISTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Hold the state after the context is chosen.

    ``stand_ins`` as in ``Around``. ``linking_usage`` is the usage of the model's linking call, None where there was
    none. ``unread_names``: names of the graph that the answer has and no statement that was read.
    """

    question: ParsedQuestion
    options: KgRagOptions
    context: Context
    recognised: Recognised
    stand_ins: Mapping[str, Node]
    graph: str
    release: str
    linking_usage: LoopUsage | None = None
    unread_names: tuple[str, ...] = ()

    @property
    def context_text(self) -> str:
        """Return the context for the model, "" for none; an entity without statements still has its identifier."""
        named = bool(self.context.entities) and asks_identifier(self.question.text)
        return self.context.text if named or not self.context.empty else ""

    @property
    def entities_with_statements(self) -> list[Node]:
        """Return the entities that have statements of their own."""
        return [entity for entity in self.context.entities if entity.node_id not in self.stand_ins]

    def usage(self, answer: LoopUsage) -> LoopUsage:
        return answer if self.linking_usage is None else add_usage(self.linking_usage, answer)


def recognised(found: Recognised) -> Iterator[str]:
    yield _in_question(found)
    yield from found.notes


def _in_question(found: Recognised) -> str:
    entities = found.entities
    if not entities:
        return "the graph has no node for anything in the question"
    descriptions: dict[str, str] = {}
    for mention in found.mentions:
        node = mention.node
        score = f", {mention.score:.2f}" if mention.method == "spelling" else ""
        how = "" if mention.method == "exact" else f" by {mention.method}{score}"
        descriptions.setdefault(node.node_id, f"{node.kind} {node.name} ({node.identifier}{how})")
    num_unused = len(descriptions.keys() - found.classes) - len(entities)
    return (
        "in the question: "
        + listed(list(descriptions.values())[: len(entities)])
        + (f"; {num_unused} not used" if num_unused else "")
    )


def neighbourhoods(
    around: EntityNeighbourhoods, gathered: ContextCandidates, graph: str, release: str
) -> Iterator[str]:
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
    line += f"; none about {listed(silent_ones)}" if silent_ones and gathered.statements else ""
    yield line + (f"; cut off by the source for {listed(cut)}" if cut else "")


def chosen(context: Context) -> str:
    if context.empty:
        return "none of them is for the context"
    named = f", {context.named} of them named in the question" if context.named else ""
    return f"{len(context.statements)} statements chosen{named}; {context.tokens} tokens, {context.left_out} left out"


def retrieved(context: Context) -> Retrieved:
    """Return the event that lists the entities and the web pages of the chosen statements."""
    pages = references_of(context.statements, context.entities)
    return Retrieved(tuple(entity.name for entity in context.entities), tuple(url for _, url in pages))


def sources_of(outcome: Outcome) -> tuple[Source, ...]:
    """Return all that the model reads of the graph: each statement with its evidence, and the names of the entities."""
    context = outcome.context
    ends = (end for s in context.statements for end in (s.source, s.target))
    nodes = {node.node_id: node for node in (*context.entities, *ends)}.values()
    names = (Source(f"{node.kind}, {node.identifier}", title=node.name) for node in nodes)
    statements = (Source(f"{s.text} {_source(s)} {' '.join(s.edge.pmids)}") for s in context.statements)
    return (*names, *statements)


def abstention(outcome: Outcome) -> Iterator[Event]:
    """Yield the whole answer where the graph has nothing; the model is not called."""
    question, context = outcome.question, outcome.context
    where = graph_name(outcome.graph, outcome.release)
    if not context.entities:
        reason = f"{where} has no entry for anything that the question names. {MORE_STATEMENTS}"
    elif context.left_out:
        names = listed([entity.name for entity in outcome.entities_with_statements])
        reason = f"{where} has {context.left_out} statements about {names}, but none was chosen for this question."
    else:
        reason = f"{where} has no statement about {listed([entity.name for entity in context.entities])}."
    text = f"{question.abstention}\n\n{reason}" if question.abstention else reason
    yield TranscriptDelta(text, "injected")
    yield TextDelta(text, is_ours=True)
    details = _details(outcome) | {"abstained": True, "reason": reason}
    if question.answers:
        details["answer_in_list"] = True
    answer = question.abstention or reason
    usage = outcome.usage(LoopUsage())
    amounts_to: AnswerOutcome = "abstained" if context.entities and context.left_out else "not_found"
    yield Done(answer=answer, usage=usage, details=details, outcome=amounts_to)


@dataclass(frozen=True, slots=True)
class Verdict:
    """State what an answer of the model amounts to, with the reason, "" for none, and the statements that it names."""

    outcome: AnswerOutcome
    reason: str = ""
    statements: tuple[Statement, ...] = ()


_MISSING: Final = "No statement that was read says this. That a statement is missing does not mean that it is false."


def judged(outcome: Outcome, done: Done) -> Verdict:
    """Judge by the statements that were read what the model's answer rests on."""
    question, bare = outcome.question, done.answer.strip()
    answer = question.answer_in(bare) or bare
    if done.finish_reason != "stop" and not (question.answers and question.answer_in(bare)):
        return Verdict("cut", why_cut(done.finish_reason, done.stop_reason))
    if not answer:
        return Verdict("abstained", "The model wrote no answer.")
    if question.abstention and answer == question.abstention:
        return Verdict("abstained")
    if question.answers and not question.answer_in(bare):
        return Verdict("partial", "This is none of the choices.")
    statements = cited(outcome.context, question, answer)
    if outcome.unread_names:
        names = ", ".join(f"“{name}”" for name in outcome.unread_names[:_MAX_LISTED])
        return Verdict("partial", f"No statement that was read names {names}.", statements)
    return Verdict("answered", statements=statements) if statements else Verdict("partial", _MISSING)


def ending(outcome: Outcome, done: Done) -> Iterator[Event]:
    """Yield the events that follow the model's text; ``done`` is that of the raw text."""
    question = outcome.question
    verdict = judged(outcome, done)
    num_chars = len(done.answer)
    if verdict.reason:
        note = notice(verdict.reason, done.answer)
        num_chars += len(note.text)
        yield note
    has_list = outcome.options.references and bool(done.answer.strip()) and verdict.outcome != "abstained"
    pages = references_of(verdict.statements, outcome.entities_with_statements) if has_list else []
    text, marked = render(pages, num_chars)
    if marked:
        yield TextDelta(text, is_ours=True)
        yield Evidence(marked)
    details = _details(outcome) | {
        "abstained": verdict.outcome == "abstained",
        "citations": citation_records(verdict.statements),
    }
    details |= {"reason": verdict.reason} if verdict.reason else {}
    answer = question.answer_in(done.answer) or done.answer.strip()
    if question.answers:
        details["answer_in_list"] = bool(question.answer_in(done.answer))
        if not details["answer_in_list"]:
            yield Step("the answer is none of the choices")
    usage = outcome.usage(done.usage)
    yield replace(done, answer=answer or verdict.reason, usage=usage, details=details, outcome=verdict.outcome)


def _details(outcome: Outcome) -> dict[str, Any]:
    question, context = outcome.question, outcome.context
    return {
        "method": "kg-rag",
        "options": asdict(outcome.options),
        "form": question.form,
        "choices": list(question.choices),
        "graph": outcome.graph,
        "release": outcome.release,
        "mentions": [mention_record(mention) for mention in outcome.recognised.mentions],
        "linking_notes": list(outcome.recognised.notes),
        "linking_tokens": outcome.linking_usage.sampled_tokens if outcome.linking_usage else 0,
        "unlinked": list(outcome.recognised.unlinked),
        "broader": [{"node": node_id, "used": node.node_id} for node_id, node in outcome.stand_ins.items()],
        "entities": [entity.node_id for entity in context.entities],
        "context": outcome.context_text,
        "context_tokens": context.tokens if outcome.context_text else 0,
        "statements": [statement.edge.edge_id for statement in context.statements],
        "left_out": context.left_out,
    }


def mention_record(mention: Mention) -> Mapping[str, Any]:
    """Return a mention as the trace has it."""
    return {
        "node": mention.node.node_id,
        "start": mention.start,
        "end": mention.end,
        "method": mention.method,
        "score": round(mention.score, 4),
        "margin": round(mention.margin, 4),
    }


def graph_name(name: str, release: str) -> str:
    """Return the graph as an answer names it."""
    return f"The knowledge graph ({' '.join(part for part in (name, release) if part)})"
