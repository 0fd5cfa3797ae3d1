"""Read what a question asks of the graph, and which statements say it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from models.encoders.relation_head import NOTHING, SECOND, AskedRelation
from retrieval.graph.context.relations import Relation, phrase, relation_named, relations_of, unread_words
from retrieval.graph.context.select import ContextCandidates, QuestionNames, budget_order, support
from retrieval.graph.types import Mention, Node, Statement
from retrieval.lexical.tokens import query_terms
from server.methods.kg_rag.entities import Recognised
from server.methods.kg_rag.prompts import KgRagOptions, ParsedQuestion
from server.methods.shared.conversation.follow_ups import ABOUT

# Between two nodes of one kind, the order of the names matters, except for these edges.
_SYMMETRIC: Final = ("resembles", "interacts", "gig", "crc", "drd", "associat", "covaries")
# As the questions that the head of relations learnt from name the kinds of nodes.
_SLOTS: Final = {"Compound": "drug", "GeneFamily": "family", "Complex": "family"}
# The end of a statement that its question names, for relations of one kind of node with itself.
_NAMED_END: Final = {"parents": "source", "children": "target"}


@dataclass(frozen=True, slots=True)
class Reading:
    """Hold what was found for one question; ``where`` names the graph.

    ``contradicting`` are the texts of statements that the verifier takes for the contrary of the question's statement.
    ``asked`` is what the head of relations reads in ``shape``, None where it could not or nothing was found.
    """

    question: ParsedQuestion
    options: KgRagOptions
    recognised: Recognised
    gathered: ContextCandidates
    where: str
    contradicting: frozenset[str] = frozenset()
    asked: AskedRelation | None = None

    @property
    def shape(self) -> str:
        """Return the question with the kinds of its names in their places."""
        text = self.question.stem
        spans = {(one.start, one.end): _SLOTS.get(one.node.kind, one.node.kind) for one in self.gathered.mentions}
        for (start, end), kind in sorted(spans.items(), reverse=True):
            if end <= len(self.question.stem):
                text = f"{text[:start]}{kind}{text[end:]}"
        return text


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold what a question asks of the graph.

    ``names``: for each name of the question the ids of its nodes. ``relations``: those that its other words name.
    ``ordered``: the statements, best first. ``asked``: the relation that was learnt, if it is one of ``relations``.
    ``denial`` is what the question denies.
    """

    names: tuple[frozenset[str], ...]
    relations: tuple[Relation, ...]
    ordered: tuple[Statement, ...]
    mentions: tuple[Mention, ...]
    rest: str
    is_named: Callable[[Node], bool]
    asked: AskedRelation | None
    denial: str = NOTHING

    @classmethod
    def of(cls, reading: Reading) -> Asked:
        gathered = reading.gathered
        names = QuestionNames(gathered.question, gathered.mentions)
        order, _ = budget_order(gathered, support(gathered.statements))
        spans: dict[tuple[int, int], set[str]] = {}
        for mention in gathered.mentions:
            spans.setdefault((mention.start, mention.end), set()).add(mention.node.node_id)
        ordered = tuple(one for one in (gathered.statements[index] for index in order) if not _denies(one))
        relations, asked = _relations(reading, names.rest, ordered)
        return cls(
            # Two spellings of one node are one name.
            names=tuple(dict.fromkeys(map(frozenset, spans.values()))),
            relations=relations,
            ordered=ordered,
            mentions=gathered.mentions,
            rest=names.rest,
            is_named=names.has,
            asked=asked,
            denial=reading.asked.denial if reading.asked else NOTHING,
        )

    @property
    def unread(self) -> tuple[str, ...]:
        """Return the words of the question that neither a name, a relation nor the kind of a node explains."""
        ends = (end for statement in self.ordered for end in (statement.source, statement.target))
        kinds = {term for kind in {end.kind for end in ends} for term in query_terms(kind)}
        words = unread_words(self.rest.replace(ABOUT, "("), self.relations)
        read = frozenset() if self.asked is None else self.asked.words
        return tuple(word for word in words if word.casefold() not in read and not kinds & {*query_terms(word)})

    @property
    def by_edge(self) -> list[Relation]:
        """Return the relations that are types of edges; the others only name the kind of a node."""
        return [relation for relation in self.relations if relation.edges]

    @property
    def between(self) -> list[Statement]:
        """Return the statements between two different names of the question."""
        return [
            statement
            for statement in self.ordered
            if self.is_named(statement.source)
            and self.is_named(statement.target)
            and not any(_ends(statement) <= nodes for nodes in self.names)
        ]

    @property
    def num_names(self) -> int:
        """Return the number of names, also those that only a statement's other end has."""
        ids = {node_id for nodes in self.names for node_id in nodes}
        ends = (end for statement in self.ordered for end in (statement.source, statement.target))
        others = {end.node_id for end in ends if end.node_id not in ids and self.is_named(end)}
        return len(self.names) + bool(others)

    def fits(self, statement: Statement) -> bool:
        """Return whether the statement is of every relation that the question names, by its edge or an end's kind."""
        kind, ends = statement.edge.kind, (statement.source, statement.target)
        edges = self.by_edge
        if edges and not any(relation.fits(kind, "") for relation in edges):
            return False
        # "Relieves symptoms of" names what the words "relieve" and "symptoms" ask for.
        says = phrase(kind)
        return all(
            relation.fits(kind, "")
            or any(end.kind.casefold() in relation.kinds for end in ends)
            or relation.words.search(says)
            for relation in self.relations
        )

    def says(self, statement: Statement) -> bool:
        """Return whether the statement says what a statement between two names asserts."""
        if not self.by_edge or not self.fits(statement):
            return False
        same_kind = statement.source.kind == statement.target.kind
        if not same_kind or statement.edge.kind.casefold().startswith(_SYMMETRIC):
            return True
        first = [m.start for m in self.mentions if m.node.node_id == statement.source.node_id]
        second = [m.start for m in self.mentions if m.node.node_id == statement.target.node_id]
        if not (first and second):
            return False
        if self.asked is not None and self.asked.name in _NAMED_END:
            return (min(first) < min(second)) == (_NAMED_END[self.asked.name] == "source")
        # "Is regulated by" has the words of the statement, turned round.
        return min(first) < min(second) and phrase(statement.edge.kind) in self.rest.casefold()

    def about_all(self) -> list[Statement]:
        """Return the fitting statements, with several names those whose other end fits all of them.

        Those that say it in the question's words come first: what treats before what relieves symptoms.
        """
        found = self._of_named_end([statement for statement in self.ordered if self.fits(statement)])
        found.sort(key=lambda one: not any(each.words.search(phrase(one.edge.kind)) for each in self.by_edge))
        if len(self.names) < 2:
            return found
        others = [
            {end for statement in found if (ends := _ends(statement)) & nodes for end in ends - nodes}
            for nodes in self.names
        ]
        if self.excludes:
            return [one for one in found if _ends(one) & self.names[0] and not _ends(one) & others[1]]
        shared = set.intersection(*others)
        named = {node_id for nodes in self.names for node_id in nodes}
        return [s for s in found if _ends(s) & shared or (len(self.names) == 2 and _ends(s) <= named)]

    @property
    def asks_shared(self) -> bool:
        """Return whether the relation cannot stand between the names, which are of one kind, but they share its ends.

        "Do psoriasis and lupus have any medicine in common?"
        """
        return self._are_alike and self.asked is not None and not self.between and bool(self.about_all())

    @property
    def _are_alike(self) -> bool:
        return len(self.names) > 1 and len({one.node.kind for one in self.mentions}) == 1

    def about_any(self) -> list[Statement]:
        """Return the fitting statements about one of several names of one kind."""
        found = [one for one in self.ordered if self.fits(one)] if self._are_alike and not self.excludes else []
        return self._of_named_end(found)

    @property
    def excludes(self) -> bool:
        """Return whether the second of two names of one kind is left out: "psoriasis but not rheumatoid arthritis"."""
        return self.denial == SECOND and len(self.names) == 2 and self._are_alike

    @property
    def denies(self) -> bool:
        """Return whether the question asks for what does not hold, or denies what it states."""
        return self.denial != NOTHING and not self.excludes

    @property
    def listed(self) -> dict[str, list[Statement]]:
        """Return what is stated of each of the names that stand beside one of another kind: "asthma: drug, drug"."""
        of_kind: dict[str, dict[str, frozenset[str]]] = {}
        for nodes in self.names:
            node = next(one.node for one in self.mentions if one.node.node_id in nodes)
            of_kind.setdefault(node.kind, {})[node.name] = nodes
        few, *many = sorted(of_kind.values(), key=len) or [{}]
        if len(few) != 1 or len(many) != 1:
            return {}
        (head,) = few.values()
        fitting = [one for one in self.ordered if self.fits(one) and _ends(one) & head]
        return {name: [one for one in fitting if _ends(one) & nodes] for name, nodes in many[0].items()}

    def _of_named_end(self, found: list[Statement]) -> list[Statement]:
        """Return the statements on what a disease is a kind of, or on its own kinds, where that is asked for."""
        end = _NAMED_END.get(self.asked.name if self.asked else "")
        named = {node_id for nodes in self.names for node_id in nodes}
        aimed = [one for one in found if end and getattr(one, end).node_id in named]
        return aimed or found

    def with_choice(self, nodes: frozenset[str], choice: str) -> list[Statement]:
        """Return the fitting statements between a name of the question and a choice."""
        found = []
        for statement in self.ordered:
            pairs = ((statement.source, statement.target), (statement.target, statement.source))
            if self.fits(statement) and any(one.node_id in nodes and _is(other, choice) for one, other in pairs):
                found.append(statement)
        return found


def _relations(
    reading: Reading, rest: str, statements: Sequence[Statement]
) -> tuple[tuple[Relation, ...], AskedRelation | None]:
    """Return the relation that was learnt, where it is likely and a statement has it, else those that words name."""
    named, asked = relations_of(rest), reading.asked
    learned = relation_named(asked.name) if asked is not None and asked.is_sure else None
    if learned is None or (named and not any(learned.fits(one.edge.kind, "") for one in statements)):
        return named, None
    return (learned,), asked


def _denies(statement: Statement) -> bool:
    """Return whether the statement says that its relation does not hold, as some of Monarch's do."""
    return statement.edge.kind.casefold().startswith("not:")


def _ends(statement: Statement) -> set[str]:
    return {statement.source.node_id, statement.target.node_id}


def _is(node: Node, choice: str) -> bool:
    requested = choice.strip().rstrip(".").casefold()
    return any(name.casefold() == requested for name in (node.name, *node.synonyms, node.identifier))
