"""Map words of a question to the relations and edge types that they name.

Graphs name one relation differently (TREATS_CtD in SPOKE, CtD in Hetionet, "indication" in PrimeKG), so an edge matches
by the prefix of its type, ignoring letter case; the table omits Hetionet's abbreviations and Monarch's predicates and
classes. Each row of ``RELATIONS`` that a question names and a statement fits adds one to that statement's count: "which
Gene is associated with" names two rows, and a gene association fits both.

| the question says | edge types that begin with | or the other end is a |
|---|---|---|
| treat, drug, medicine, compound, therapy, indicated, cure | treats, palliates, indication | Compound, Drug |
| contraindicated, avoid | contraindicat… | |
| clinical trial | in_clinical_trials, mentioned_clinical_trials | |
| gene, genetic, genome-wide, GWAS | | Gene, gene/protein |
| variant, SNP, polymorphism, mutation | | Variant |
| associated, association, linked | associates | |
| protein, enzyme | | Protein, gene/protein |
| symptom, sign, phenotype, manifestation | presents, phenotype_present, disease_phenotype | Symptom, phenotype |
| where, location, localised, anatomy, tissue, organ | localizes, anatomy | Anatomy |
| resemble, similar | resembles | |
| subtype, kind of, type of, form of, parent, is a | isa, is_a, disease_disease, parentof | |
| side effect, adverse | causes_c, side_effect, drug_effect | SideEffect |
| pathogen, organism, bacterium, virus, caused by | causes_o | Organism |
| pathway, process, function, component | participates, …_pathway | Pathway, BiologicalProcess and their kind |
| increase, upregulate, overexpress | upregulates, increasedin | |
| decrease, downregulate, underexpress | downregulates, decreasedin | |
| express | expresses, expressedin | |
| marker, biomarker | marker_ | |
| prevalence, prevalent, epidemiology | prevalence | Location |
| bind, target, interact | binds, interacts, targets, drug_protein | |
| pharmacologic class | includes, partof_cppg | PharmacologicClass |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Relation:
    """Describe one relation.

    ``words``: a pattern for the question in lower case. ``edges``: prefixes of the edge type; ``kinds``: types of the
    other end; both in lower case.
    """

    words: re.Pattern[str]
    edges: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()

    def fits(self, edge_kind: str, end_kind: str) -> bool:
        """Return True if the edge's type or its other end's type matches."""
        return end_kind.casefold() in self.kinds or edge_kind.casefold().startswith(self.edges)


def _relation(words: str, edges: str = "", kinds: str = "") -> Relation:
    pattern = re.compile(rf"\b(?:{words})")
    return Relation(pattern, tuple(edges.split()), frozenset(kind.replace("+", " ") for kind in kinds.split()))


RELATIONS: Final = (
    _relation(
        r"treat|drugs?\b|medication|medicine|compounds?\b|therap|indicated|cures?\b",
        "treats palliates indication off-label ctd cpd",
        "compound drug chemicalentity smallmolecule molecularmixture",
    ),
    _relation(r"contraindicat|avoid", "contraindicat"),
    _relation(r"clinical trial|trials?\b", "in_clinical_trials mentioned_clinical_trials"),
    _relation(r"genes?\b|genetic|genome|gwas\b", "", "gene gene/protein"),
    _relation(r"variants?\b|snps?\b|polymorphism|mutation|rs\d", "", "variant sequencevariant"),
    _relation(
        r"associat|linked", "associates disease_protein associated_with gene_associated genetically_associated dag"
    ),
    _relation(r"proteins?\b|enzymes?\b", "", "protein gene/protein"),
    _relation(
        r"symptom|signs?\b|phenotyp|manifest|presents?\b",
        "presents phenotype_present disease_phenotype has_phenotype dps",
        "symptom phenotype effect/phenotype phenotypicfeature",
    ),
    _relation(
        r"where\b|locat|locali[sz]|anatom|tissues?\b|organs?\b",
        "localizes anatomy disease_has_location located_in dla",
        "anatomy anatomicalentity grossanatomicalstructure",
    ),
    _relation(r"resembl|similar", "resembles drd crc"),
    _relation(
        r"sub-?types?\b|kinds? of|types? of|forms? of|parents?\b|is an? |classified",
        "isa is_a disease_disease parentof subclass_of",
    ),
    _relation(
        r"side.effect|adverse", "causes_c side_effect drug_effect ccse", "sideeffect side+effect effect/phenotype"
    ),
    _relation(r"pathogen|organism|bacteri|virus|caused by", "causes_o", "organism"),
    _relation(
        r"pathway|process|functions?\b|component",
        "participates pathway",
        "pathway biologicalprocess molecularfunction cellularcomponent biological+process molecular+function"
        " cellular+component biological_process molecular_function cellular_component molecularactivity",
    ),
    _relation(r"increas|up-?regulat|over-?express", "upregulates increasedin aug cug dug"),
    _relation(r"decreas|down-?regulat|under-?express", "downregulates decreasedin adg cdg ddg"),
    _relation(r"express", "expresses expressedin expressed_in aeg"),
    _relation(r"bio-?marker|markers?\b", "marker_"),
    _relation(r"prevalen|epidemiolog", "prevalence", "location"),
    _relation(r"binds?\b|binding|targets?\b|interact", "binds interacts targets drug_protein cbg gig"),
    _relation(r"pharmacologic|drug class", "includes partof_cppg pcic", "pharmacologicclass pharmacologic+class"),
)
_IDENTIFIER: Final = re.compile(r"\bidentifiers?\b|\baccession\b|\bids?\b|\b[A-Za-z]{2,12}:\d{2,}")


def relations_of(question: str) -> tuple[Relation, ...]:
    """Return the relations that the question names."""
    lower = question.casefold()
    return tuple(relation for relation in RELATIONS if relation.words.search(lower))


def fitting(relations: Sequence[Relation], edge_kind: str, end_kind: str) -> int:
    """Return how many of the relations an edge of this type to an end of this kind fits."""
    return sum(relation.fits(edge_kind, end_kind) for relation in relations)


def asks_identifier(question: str) -> bool:
    """Return True if the question may ask for an identifier, which the context has beside the node's name."""
    return _IDENTIFIER.search(question) is not None
