"""Make samples of KG-RAG: a small random graph, rendered as the server renders it, and questions about it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.graph.context.relations import statement
from retrieval.graph.context.render import RenderInput, render_context
from retrieval.graph.types import Edge, Node, Statement
from scripts.embedded.values import Values
from scripts.training.tasks.bioasq_tasks import listed
from scripts.training.tasks.names import Names
from scripts.training.tasks.samples import NO_STATEMENT, Sample, Text, Writer
from server.methods.kg_rag.prompts import NONE_OF_THESE, UNKNOWN, KgRagOptions, Prompts, read_question

_GENE: Final = "ASSOCIATES_DaG"
_SYMPTOM: Final = "PRESENTS_DpS"
_TREATS: Final = "TREATS_CtD"
_KIND_OF: Final = "ISA_DiD"
_RESEMBLES: Final = "RESEMBLES_DrD"
_SOURCES: Final = {
    _GENE: ("DISEASES", "GWAS Catalog", "DisGeNET", "OMIM"),
    _SYMPTOM: ("Arrowhead sample", "MEDLINE cooccurrence", "HPO"),
    _TREATS: ("PharmacotherapyDB", "DrugCentral", "ChEMBL"),
    _KIND_OF: ("Disease Ontology",),
    _RESEMBLES: ("MEDLINE cooccurrence",),
}


@dataclass(frozen=True, slots=True)
class _World:
    """Hold a context and what it says: by disease and edge type the names at the other end."""

    context: str
    diseases: tuple[Node, ...]
    said: dict[tuple[str, str], list[str]]
    sources: dict[tuple[str, str], str]


class GraphTasks:
    """Draw contexts of one form of question each, since the instruction of a form stands before the context."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._prompts = Prompts.load()

    def group(self, seed: str, form: str) -> list[Sample]:
        """``form``: true_false, multiple_choice or general."""
        drawer = _Drawer(random.Random(seed))
        world = drawer.world(2 if form == "multiple_choice" else drawer.draw.choice((1, 1, 2)))
        asks = {"true_false": drawer.true_false, "multiple_choice": drawer.multiple_choice, "general": drawer.general}[
            form
        ](world)
        return [self._sample(world.context, form, question, answer) for question, answer in asks]

    def _sample(self, context: str, form: str, question: str, answer: str) -> Sample:
        parsed = read_question(question, KgRagOptions())
        if parsed.form != form or (parsed.answers and answer not in parsed.answers):
            raise ValueError(f"{question!r} is read as {parsed.form} with {parsed.answers}")
        prompt = self._writer.messages(self._prompts.chat_form(parsed, context))
        return Sample(f"kg-rag {form}", prompt, (Text(answer),), question, context, answer)


class _Drawer:
    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.names = Names(Values(draw))

    def world(self, number: int) -> _World:
        draw = self.draw
        diseases = tuple(
            self._node("Disease", self.names.disease(), "DOID:", "Disease Ontology") for _ in range(number)
        )
        statements: list[Statement] = []
        said: dict[tuple[str, str], list[str]] = {}
        sources: dict[tuple[str, str], str] = {}
        shared = [self._node("Gene", self.names.gene(), "", "Entrez Gene") for _ in range(draw.choice((1, 1, 2)))]
        for disease in diseases:
            for kind, prefix, least in (("Gene", _GENE, 1), ("Symptom", _SYMPTOM, 0), ("Compound", _TREATS, 0),
                                        ("Parent", _KIND_OF, 0), ("Disease", _RESEMBLES, 0)):  # fmt: skip
                others = [
                    self._other(kind) for _ in range(draw.choice((least, 1, 2, 3) if kind == "Gene" else (0, 0, 1, 2)))
                ]
                others = list({other.name: other for other in others}.values())
                others += shared if kind == "Gene" and number > 1 else []
                statements += [self._statement(disease, other, prefix, said, sources) for other in others]
        draw.shuffle(statements)
        left_out = draw.choice((0, 0, draw.randint(1, 200)))
        inputs = RenderInput(diseases, statements, len(statements) + left_out)
        return _World(render_context(inputs, len(statements)), diseases, said, sources)

    def true_false(self, world: _World) -> list[tuple[str, str]]:
        """Return statements that the graph has, denies by its identifiers, or does not have; with and without "not".

        True, False and unknown are equally frequent, in any order.
        """
        draw, asks = self.draw, []
        for wanted in draw.sample(("True", "False", UNKNOWN) * 2, 6):
            disease = draw.choice(world.diseases)
            negated = draw.random() < 0.5
            if wanted != UNKNOWN and draw.random() < 0.2:
                number = disease.identifier if (wanted == "True") != negated else f"DOID:{draw.randint(1, 99_999)}"
                verb = "is not" if negated else "is"
                asks.append((f"Disease ontology identifier for {disease.name} {verb} {number}", wanted))
                continue
            has = wanted != UNKNOWN
            kinds = [kind for kind in (_GENE, _SYMPTOM, _TREATS, _KIND_OF) if world.said.get((disease.name, kind))]
            kind = draw.choice(kinds if has else (_GENE, _GENE, _SYMPTOM, _TREATS, _KIND_OF))
            other = draw.choice(world.said[disease.name, kind]) if has else self._other(_END[kind]).name
            text = self._sentence(kind, disease.name, other, negated=wanted == "False" if has else negated)
            asks.append((text, wanted))
        return [
            (f"{text} - true or false?" if draw.random() < 0.5 else f"True or false: {text}", a) for text, a in asks
        ]

    def multiple_choice(self, world: _World) -> list[tuple[str, str]]:
        draw, asks = self.draw, []
        one, other = world.diseases[0].name, world.diseases[1].name
        both = [name for name in world.said[one, _GENE] if name in world.said[other, _GENE]]
        single = [name for name in {*world.said[one, _GENE], *world.said[other, _GENE]} if name not in both]
        for _ in range(4):
            right = draw.choice(both) if draw.random() < 0.7 else ""
            wrong = draw.sample(sorted(single), min(len(single), draw.randint(0, 2)))
            wrong += [self.names.gene() for _ in range(draw.choice((3, 4, 4)) - len(wrong))]
            choices = [*wrong, right] if right else wrong
            draw.shuffle(choices)
            text = draw.choice((
                "Out of the given list, which Gene is associated with {} and {}. Given list is: {}",
                "Which gene is associated with both {} and {}? Options: {}",
            )).format(one, other, ", ".join(choices))  # fmt: skip
            asks.append((text, right or NONE_OF_THESE))
        return asks

    def general(self, world: _World) -> list[tuple[str, str]]:
        """Return open questions; the answer names the statement's ends and sources."""
        draw, asks = self.draw, []
        for disease in world.diseases:
            for kind, phrase, said in _OPEN:
                known = world.said.get((disease.name, kind), [])
                if not known and draw.random() < 0.5:
                    continue
                text = draw.choice(phrase).format(disease.name)
                if not known:
                    asks.append((text, NO_STATEMENT))
                    continue
                source = listed(list(dict.fromkeys(world.sources[disease.name, name] for name in known)))
                asks.append((text, f"{said.format(listed(known), disease.name)} (source: {source})."))
            asks += self._yes_no(world, disease)
        draw.shuffle(asks)
        return asks[:6]

    def _yes_no(self, world: _World, disease: Node) -> list[tuple[str, str]]:
        known = self.draw.choice(world.said[disease.name, _GENE])
        stranger = self.names.gene()
        source = world.sources[disease.name, known]
        return [
            (f"Is {disease.name} associated with {known}?",
             f"Yes, {disease.name} is associated with {known} (source: {source})."),
            (f"Is {disease.name} associated with {stranger}?", NO_STATEMENT),
        ]  # fmt: skip

    def _sentence(self, kind: str, disease: str, other: str, *, negated: bool) -> str:
        no = "not " if negated else ""
        if kind == _TREATS:
            return f"{other} does {no}treat {disease}" if negated else f"{other} treats {disease}"
        if kind == _SYMPTOM:
            return f"{disease} does {no}present with {other}" if negated else f"{disease} presents with {other}"
        if kind == _KIND_OF:
            return f"{disease} is {no}a {other}"
        return f"{disease} is {no}associated with Gene {other}"

    def _statement(
        self, disease: Node, other: Node, kind: str, said: dict[tuple[str, str], list[str]],
        sources: dict[tuple[str, str], str],
    ) -> Statement:  # fmt: skip
        source = self.draw.choice(_SOURCES[kind])
        ends = (other, disease) if kind == _TREATS else (disease, other)
        edge = Edge(source_id=ends[0].node_id, target_id=ends[1].node_id, kind=kind, provenance=(source,))
        said.setdefault((disease.name, kind), []).append(other.name)
        sources[disease.name, other.name] = source
        return statement(edge, *ends)

    def _other(self, kind: str) -> Node:
        names = self.names
        match kind:
            case "Gene":
                return self._node("Gene", names.gene(), "", "Entrez Gene")
            case "Compound":
                return self._node("Compound", names.drug(), "DB", "DrugBank")
            case "Symptom":
                return self._node("Symptom", names.symptom(), "D", "MeSH")
        return self._node("Disease", names.disease(), "DOID:", "Disease Ontology")

    def _node(self, kind: str, name: str, prefix: str, source: str) -> Node:
        identifier = f"{prefix}{self.draw.randint(1, 99_999)}"
        return Node(node_id=f"{kind}::{identifier}", kind=kind, name=name, identifier=identifier, source=source)


_END: Final = {_GENE: "Gene", _SYMPTOM: "Symptom", _TREATS: "Compound", _KIND_OF: "Parent", _RESEMBLES: "Disease"}
_OPEN: Final[Sequence[tuple[str, tuple[str, ...], str]]] = (
    (_GENE, ("Which genes are associated with {}?", "What genes are linked to {}?"), "{1} is associated with {0}"),
    (_SYMPTOM, ("What are the symptoms of {}?", "Which symptoms does {} present with?"), "{1} presents with {0}"),
    (_TREATS, ("Which drugs treat {}?", "What compounds treat {}?"), "{1} is treated with {0}"),
    (_KIND_OF, ("What kind of disease is {}?",), "{1} is a kind of {0}"),
    (_RESEMBLES, ("Which diseases resemble {}?",), "{1} resembles {0}"),
)
