"""Answer a question with statements of the graph, word for word, without the model. Pure.

A statement answers where it is about a name of the question and its type is the relation that the question asks for;
those of the most sources and articles come first. "True" needs a statement between the two names, a choice one for it
alone. A missing statement is reported as missing, since no graph is complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from models.decoding.types import LoopUsage
from models.encoders.relation_head import NOTHING
from models.function_words import FUNCTION_WORDS
from retrieval.graph.context.relations import asks_identifier
from retrieval.graph.context.select import QuestionNames, budget_order, support
from retrieval.graph.types import Node, Statement
from retrieval.lexical.tokens import query_terms
from server.methods.base import (
    AnswerOutcome,
    Done,
    Event,
    Evidence,
    EvidenceRead,
    Retrieved,
    Source,
    Step,
    TextDelta,
    TranscriptDelta,
)
from server.methods.kg_rag.reading import Asked, Reading
from server.methods.kg_rag.report import citation_records, mention_record, node_url, references_of
from server.methods.shared.call_lines import render
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.empty_states import MORE_STATEMENTS
from server.methods.shared.outcomes import notice
from server.methods.shared.reading.gate import MAX_SENTENCES
from server.methods.shared.sentences import quotation

_ASKS_IDENTIFIER: Final = frozenset(
    ("ontology", "identifier", "id", "accession", "number", "code", "disease", "gene", "database", "ncbi", "entrez")
)
_MAX_EVIDENCE: Final = 2_000
_MAX_UNREAD: Final = 5
_LEFT_OUT: Final = "What the graph states of the other name as well is left out; no graph is complete."
_FIT_ONE: Final = "No statement fits all of the names; these fit one of them."
_NOT_FALSE: Final = "which does not mean that it is false: no graph is complete."
_DENIED: Final = "The question asks for what does not hold, which no statement of the graph can support."
_UNREAD_DENIAL: Final = "Whether the question denies what it names could not be read."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Hold an answer: the ``verdict`` on a closed question, the statements or nodes that it rests on, and a reason.

    ``excluded``: what a denial asks for is left over beside the statements.
    """

    outcome: AnswerOutcome
    verdict: str = ""
    statements: tuple[Statement, ...] = ()
    nodes: tuple[Node, ...] = ()
    reason: str = ""
    excluded: bool = False


def events(reading: Reading, finding: Finding) -> Iterator[Event]:
    """Yield the whole answer that ``find`` returned."""
    gathered = reading.gathered
    order, _ = budget_order(gathered, support(gathered.statements))
    texts = [gathered.statements[index].text for index in order[:_MAX_EVIDENCE]]
    names = tuple(_node_line(node) for node in reading.gathered.entities)
    yield EvidenceRead(tuple(map(Source, (*texts, *names))))
    cited = references_of(finding.statements, reading.recognised.entities)
    yield Retrieved(tuple(node.name for node in reading.recognised.entities), tuple(url for _, url in cited))
    yield Step("statements of the graph answer, word for word, without the model")
    lines, sources = _cited_lines(finding)
    text = "\n\n".join(part for part in (reading.question.shown(finding.verdict), "\n".join(lines)) if part)
    if text:
        yield TranscriptDelta(text, "injected")
        yield TextDelta(text)
    if finding.reason:
        note = notice(finding.reason, text)
        yield TranscriptDelta(note.text, "injected")
        yield note
        text += note.text
    listed, references = render(sources, len(text)) if reading.options.references else ("", ())
    if references:
        yield TextDelta(listed, is_ours=True)
        yield Evidence(references)
    yield _done(reading, finding)


def decisive(reading: Reading) -> tuple[Statement, ...]:
    """Return the statements between the names of a denial that is true or false, of the relation that it names."""
    if reading.question.form != "true_false" or reading.asked is None or reading.asked.denial == NOTHING:
        return ()
    parsed = Asked.of(reading)
    return tuple(statement for statement in parsed.between if parsed.says(statement)) if parsed.denies else ()


def find(reading: Reading) -> Finding:
    """Return the answer that the statements give."""
    forms = {"true_false": _true_or_unknown, "multiple_choice": _choice}
    finding = forms.get(reading.question.form, _open)(reading, Asked.of(reading))
    if reading.asked is not None or finding.outcome != "answered":
        return finding
    return replace(finding, outcome="partial", reason=" ".join([finding.reason, _UNREAD_DENIAL]).strip())


def _true_or_unknown(reading: Reading, parsed: Asked) -> Finding:
    unknown = reading.question.abstention
    if parsed.denies:
        return _negated(reading)
    if asks_identifier(reading.question.text):
        return _identifier(reading)
    if parsed.num_names < 2:
        return Finding(outcome="abstained", verdict=unknown, reason=_one_name(reading))
    found = [statement for statement in parsed.between if parsed.says(statement)]
    if found and parsed.num_names == 2:
        return Finding(outcome="answered", verdict="True", statements=tuple(found[:MAX_SENTENCES]))
    if parsed.num_names > 2:
        reason = "The statement has more than two names, which no single statement of the graph can support."
        return Finding(outcome="abstained", verdict=unknown, reason=reason)
    if parsed.between and not parsed.by_edge:
        reason = f"{reading.where} connects the two names, but not by a relation that the statement names."
        return Finding(outcome="abstained", verdict=unknown, reason=reason)
    reason = f"{reading.where} has no such statement, {_NOT_FALSE}"
    return Finding(outcome="not_found", verdict=unknown, reason=reason)


def _negated(reading: Reading) -> Finding:
    """Return that a denial is false where the graph states what it denies, and that it is open elsewhere."""
    found = tuple(one for one in decisive(reading) if one.text in reading.contradicting)
    if found:
        return Finding(outcome="answered", verdict="False", statements=found[:MAX_SENTENCES])
    reason = "The statement is negated, and a graph has no statements about what does not hold."
    return Finding(outcome="abstained", verdict=reading.question.abstention, reason=reason)


def _one_name(reading: Reading) -> str:
    names = reading.recognised.entities
    linked = f"only {names[0].name} is linked to an entry" if names else "nothing is linked to an entry"
    return f"Of the two names that a statement needs, {linked} of {reading.where[0].lower()}{reading.where[1:]}."


def _identifier(reading: Reading) -> Finding:
    """Judge a statement about an identifier by those of the entities; every word of it has to be understood."""
    question, nodes = reading.question, reading.recognised.entities
    text = question.text.casefold()
    names = QuestionNames(reading.gathered.question, reading.gathered.mentions)
    named = [node for node in nodes if _stands_in(node.identifier, text)]
    if len(nodes) == len(named) == 1:
        (node,) = named
        left = names.rest.casefold().replace(node.identifier.casefold(), " ")
        understood = {*_ASKS_IDENTIFIER, *query_terms(node.kind), *query_terms(node.source)}
        is_whole = not set(query_terms(left)) - understood - FUNCTION_WORDS
        spelled = {text[m.start : m.end] for m in reading.gathered.mentions}
        if is_whole and spelled - {node.identifier.casefold()}:
            return Finding(outcome="answered", verdict="True", nodes=(node,))
    known = "; ".join(_node_line(node) for node in nodes[:3])
    reason = f"{reading.where} has {known or 'no entry for the name'}; that the statement is false does not follow."
    return Finding(outcome="not_found" if nodes else "abstained", verdict=question.abstention, reason=reason)


def _stands_in(identifier: str, text: str) -> bool:
    """Return whether the identifier, whole, stands in the text; one without a digit is a name."""
    if not any(map(str.isdigit, identifier)):
        return False
    return re.search(rf"(?<![\w:]){re.escape(identifier.casefold())}(?!\d)", text) is not None


def _choice(reading: Reading, parsed: Asked) -> Finding:
    """Return the one choice that statements connect with every name of the question, or that a denial leaves over."""
    question, none = reading.question, reading.question.abstention
    supported: dict[str, list[Statement]] = {}
    for choice in question.choices:
        per_name = [parsed.with_choice(nodes, choice) for nodes in parsed.names]
        if per_name and all(per_name):
            supported[choice] = [statement for found in per_name for statement in found[:1]]
    if parsed.denies:
        return _left_over(reading, {choice: supported.get(choice, []) for choice in question.choices}, none)
    if len(supported) == 1:
        (choice, found), *_ = supported.items()
        return Finding(outcome="answered", verdict=choice, statements=tuple(found))
    if supported:
        reason = f"{reading.where} has statements for more than one choice: {', '.join(supported)}."
        return Finding(outcome="abstained", verdict=none, reason=reason)
    if not parsed.names:
        reason = f"{reading.where} has no entry for anything that the question names. {MORE_STATEMENTS}"
        return Finding(outcome="abstained", verdict=none, reason=reason)
    reason = f"{reading.where} has no such statement for any of the choices, {_NOT_FALSE}"
    return Finding(outcome="not_found", verdict=none, reason=reason)


def _left_over(reading: Reading, stated: Mapping[str, list[Statement]], none: str) -> Finding:
    """Return the name that is left over where the graph states of all others what the question denies."""
    left = [name for name, statements in stated.items() if not statements]
    if len(left) != 1 or len(stated) < 2:
        return Finding(outcome="abstained", verdict=none, reason=_DENIED)
    reason = f"{reading.where} states it of the others, and not of {left[0]}, {_NOT_FALSE}"
    found = tuple(statement for statements in stated.values() for statement in statements[:1])
    return Finding(outcome="partial", verdict=left[0] if none else "", statements=found, reason=reason, excluded=True)


def _open(reading: Reading, parsed: Asked) -> Finding:
    if not parsed.names:
        reason = f"{reading.where} has no entry for anything that the question names. {MORE_STATEMENTS}"
        return Finding(outcome="not_found", reason=reason)
    if asks_identifier(parsed.rest) and not parsed.relations:
        return Finding(outcome="answered", nodes=reading.recognised.entities[:3])
    named = ", ".join(node.name for node in reading.recognised.entities[:5])
    # "Is there a drug that treats vitiligo?" has one name, and no word beside it that could be another.
    is_open = parsed.num_names < 2 and not parsed.unread and parsed.relations
    if asks_yes_or_no(reading.question.text) and not (is_open or parsed.asks_shared):
        return _yes_or_no(reading, parsed)
    if parsed.denies:
        return _left_over(reading, parsed.listed, "")
    if not parsed.relations:
        reason = f"{reading.where} is asked for {named}, but the question names no relation that it could be asked for."
        return Finding(outcome="abstained", reason=reason)
    found = parsed.about_all()
    notes = [_LEFT_OUT] if parsed.excludes else []
    listed = {} if found else parsed.listed
    if any(listed.values()):
        # "Which of them treats asthma, salbutamol or heparin?"
        found = [one for statements in listed.values() for one in statements]
        left = [name for name, statements in listed.items() if not statements]
        notes = [f"{reading.where} has no such statement of {', '.join(left)}, {_NOT_FALSE}"] if left else []
    if not found and (found := parsed.about_any()):
        # A class beside a disease ("category of disease") is no second name.
        notes = [_FIT_ONE] if len(reading.recognised.entities) > 1 else []
    if not found:
        reason = f"{reading.where} has no statement of the relation that is asked for about {named}."
        return Finding(outcome="not_found", reason=reason)
    shown = found[:MAX_SENTENCES]
    if len(found) > len(shown):
        where = reading.where.replace("The ", "the ", 1)
        notes.insert(0, f"These are {len(shown)} of {len(found)} statements of {where} that fit the question.")
    if parsed.unread:
        words = ", ".join(f"“{word}”" for word in parsed.unread[:_MAX_UNREAD])
        notes.append(f"The statements do not take into account what the question says with {words}.")
    outcome: AnswerOutcome = "partial" if parsed.unread or _FIT_ONE in notes else "answered"
    return Finding(outcome=outcome, statements=tuple(shown), reason=" ".join(notes))


def _yes_or_no(reading: Reading, parsed: Asked) -> Finding:
    if parsed.denies:
        reason = "The question is negated, and a graph has no statements about what does not hold."
        return Finding(outcome="abstained", reason=reason)
    found = [statement for statement in parsed.between if parsed.says(statement)]
    if found:
        return Finding(outcome="answered", verdict="Yes", statements=tuple(found[:MAX_SENTENCES]))
    if parsed.num_names < 2:
        return Finding(outcome="abstained", reason=_one_name(reading))
    reason = f"{reading.where} has no such statement, which does not mean no: no graph is complete."
    return Finding(outcome="not_found", reason=reason)


def _node_line(node: Node) -> str:
    return f"{node.kind} {node.name}: {node.identifier}"


def _cited_lines(finding: Finding) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the quotes with the numbers of their sources, and the sources; one without an address is named."""
    numbers: dict[str, int] = {}
    sources: list[tuple[str, str]] = []
    lines = []
    pages: list[tuple[str, list[tuple[str, str]]]] = [(s.text, references_of([s], ())) for s in finding.statements]
    pages += [(_node_line(node), [(_node_line(node), node_url(node))]) for node in finding.nodes]
    for text, found in pages:
        title, url = next((page for page in found if page[1]), ("", ""))
        if url and url not in numbers:
            numbers[url] = len(numbers) + 1
            sources.append((title, url))
        quote = quotation(f"{text}.")
        lines.append(f"{quote} [{numbers[url]}]" if url else quote)
    return lines, sources


def _done(reading: Reading, finding: Finding) -> Done:
    lines = [statement.text for statement in finding.statements] + [_node_line(node) for node in finding.nodes]
    answer = finding.verdict or ". ".join(lines) or finding.reason
    details: dict[str, Any] = {
        "method": "kg-rag",
        "synthesis": "extractive",
        "options": asdict(reading.options),
        "form": reading.question.form,
        "choices": list(reading.question.choices),
        "graph": reading.where,
        "mentions": [mention_record(mention) for mention in reading.recognised.mentions],
        "unlinked": list(reading.recognised.unlinked),
        "abstained": not lines,
        "excluded": finding.excluded,
        "reason": finding.reason,
        "citations": citation_records(finding.statements),
    }
    if reading.question.answers:
        details["answer_in_list"] = True
    return Done(answer=answer, usage=LoopUsage(), details=details, outcome=finding.outcome)
