"""Express edges in words, and map words of a question to the relations and edge types that they name.

Graphs name one relation differently (TREATS_CtD in SPOKE, CtD in Hetionet, "indication" in PrimeKG), so an edge matches
a question by the prefix of its type, ignoring letter case; the table omits Hetionet's abbreviations and Monarch's
predicates and classes. Each row of ``RELATIONS`` that a question names and a statement fits adds one to that
statement's count: "which Gene is associated with" names two rows, and a gene association fits both.

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
| family, member, belong, complex, part of | memberof, partof | GeneFamily, Complex |
| marker, biomarker | marker_ | |
| prevalence, prevalent, epidemiology | prevalence | Location |
| bind, target, interact | binds, interacts, targets, drug_protein, acts_as | |
| pharmacologic class | includes, partof_cppg | PharmacologicClass |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from models.function_words import FUNCTION_WORDS
from retrieval.graph.types import Edge, Node, Statement

# Names as in SPOKE's /types. Types that share their first word differ in meaning, so each has its own phrase.
SPOKE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ADVRESPONSE_TO_mGarC": "when mutated leads to an adverse response to",
        "AFFECTS_CamG": "affects mutant",
        "ASSOCIATES_DaG": "is associated with",
        "ASSOCIATES_GaS": "is associated with",
        "BINDS_CbP": "binds",
        "BINDS_CbPD": "binds",
        "CATALYZES_ECcR": "catalyzes",
        "CAUSES_CcSE": "causes",
        "CAUSES_OcD": "causes",
        "CLEAVESTO_PctP": "is cleaved to",
        "CONSUMES_RcC": "consumes",
        "CONTAINS_BcC": "contains",
        "CONTAINS_BcF": "contains",
        "CONTAINS_DScB": "contains",
        "CONTAINS_DScC": "contains",
        "CONTAINS_FcC": "contains",
        "CONTRAINDICATES_CcD": "is contraindicated in",
        "DECREASEDIN_PdD": "is decreased in",
        "DOWNREGULATES_AdG": "downregulates",
        "DOWNREGULATES_CdG": "downregulates",
        "DOWNREGULATES_GPdG": "downregulates",
        "DOWNREGULATES_KGdG": "when knocked down downregulates",
        "DOWNREGULATES_OGdG": "when overexpressed downregulates",
        "ENCODES_GeP": "encodes",
        "ENCODES_OeP": "encodes",
        "EXPRESSEDIN_GeiCT": "is expressed in",
        "EXPRESSEDIN_PeCT": "is expressed in",
        "EXPRESSES_ACTeG": "expresses",
        "EXPRESSES_AeG": "expresses",
        "FOUNDIN_CfL": "is found in",
        "HASROLE_ChC": "has the role of",
        "HAS_PhEC": "has the enzyme class",
        "INCLUDES_PCiC": "includes",
        "INCREASEDIN_PiD": "is increased in",
        "INTERACTS_CiF": "interacts with",
        "INTERACTS_PDiPD": "interacts with",
        "INTERACTS_PiC": "interacts with",
        "INTERACTS_PiP": "interacts with",
        "IN_CLINICAL_TRIALS_FOR_CictD": "is in clinical trials for",
        "ISA_AiA": "is a kind of",
        "ISA_CLiCL": "is a kind of",
        "ISA_CTiCT": "is a kind of",
        "ISA_CiC": "is a kind of",
        "ISA_DiD": "is a kind of",
        "ISA_ECiEC": "is a kind of",
        "ISA_FiF": "is a kind of",
        "ISA_OiO": "is a kind of",
        "ISA_PWiPW": "is a kind of",
        "ISA_SiS": "is a kind of",
        "LOCALIZES_DlA": "is localized in",
        "MAPS_VmG": "maps to",
        "MARKER_NEG_GmnD": "is a negative marker of",
        "MARKER_POS_GmpD": "is a positive marker of",
        "MEASURESIN_CLmA": "is measured in",
        "MEASURES_CLmA": "measures",
        "MEASURES_CLmBP": "measures",
        "MEASURES_CLmC": "measures",
        "MEASURES_CLmCC": "measures",
        "MEASURES_CLmMF": "measures",
        "MEASURES_CLmP": "measures",
        "MEMBEROF_PDmPF": "is a member of",
        "MENTIONED_CLINICAL_TRIALS_FOR_CmctD": "is mentioned in clinical trials for",
        "PARTICIPATES_CpR": "participates in",
        "PARTICIPATES_GpBP": "participates in",
        "PARTICIPATES_GpCC": "is located in",
        "PARTICIPATES_GpMF": "has the molecular function",
        "PARTICIPATES_GpPW": "participates in",
        "PARTICIPATES_GpR": "participates in",
        "PARTICIPATES_PGpR": "participates in",
        "PARTICIPATES_PpR": "participates in",
        "PARTOF_ApA": "is part of",
        "PARTOF_CTpA": "is part of",
        "PARTOF_CpC": "is part of",
        "PARTOF_CpPG": "is part of",
        "PARTOF_GpPG": "is part of",
        "PARTOF_LpL": "is part of",
        "PARTOF_PDpP": "is part of",
        "PARTOF_PGpPG": "is part of",
        "PARTOF_PpCP": "is part of",
        "PARTOF_PpPG": "is part of",
        "PARTOF_RpPW": "is part of",
        "PRESENTS_DpS": "presents with",
        "PREVALENCE_DpL": "is prevalent in",
        "PRODUCES_RpC": "produces",
        "REDUCES_SEN_mGrsC": "when mutated reduces sensitivity to",
        "REGULATES_PrG": "regulates",
        "RESEMBLES_DrD": "resembles",
        "RESISTANT_TO_mGrC": "when mutated is resistant to",
        "RESPONSE_TO_mGrC": "when mutated responds to",
        "TARGETS_MtG": "targets",
        "TRANSPORTS_PtC": "transports",
        "TREATS_CtD": "treats",
        "UPREGULATES_AuG": "upregulates",
        "UPREGULATES_CuG": "upregulates",
        "UPREGULATES_GPuG": "upregulates",
        "UPREGULATES_KGuG": "when knocked down upregulates",
        "UPREGULATES_OGuG": "when overexpressed upregulates",
    }
)
# Hetionet's abbreviations; ">" is a direction.
HETIONET: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AdG": "downregulates",
        "AeG": "expresses",
        "AuG": "upregulates",
        "CbG": "binds",
        "CcSE": "causes",
        "CdG": "downregulates",
        "CpD": "palliates",
        "CrC": "resembles",
        "CtD": "treats",
        "CuG": "upregulates",
        "DaG": "is associated with",
        "DdG": "downregulates",
        "DlA": "is localized in",
        "DpS": "presents with",
        "DrD": "resembles",
        "DuG": "upregulates",
        "GcG": "covaries with",
        "GiG": "interacts with",
        "GpBP": "participates in",
        "GpCC": "is located in",
        "GpMF": "has the molecular function",
        "GpPW": "participates in",
        "Gr>G": "regulates",
        "PCiC": "includes",
    }
)
# PrimeKG lists an edge both ways; the phrase reads from the first kind to the second. Its hierarchies do not say which
# end is the parent.
PRIMEKG: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anatomy_anatomy": "is a parent or child of",
        "anatomy_protein_absent": "does not express",
        "anatomy_protein_present": "expresses",
        "bioprocess_bioprocess": "is a parent or child of",
        "bioprocess_protein": "involves",
        "cellcomp_cellcomp": "is a parent or child of",
        "cellcomp_protein": "contains",
        "contraindication": "is contraindicated in",
        "disease_disease": "is a parent or child of",
        "disease_phenotype_negative": "does not present with",
        "disease_phenotype_positive": "presents with",
        "disease_protein": "is associated with",
        "drug_drug": "interacts synergistically with",
        "drug_effect": "has the side effect",
        "drug_protein": "acts on",
        "drug_protein:carrier": "is carried by",
        "drug_protein:enzyme": "is metabolized by or acts on the enzyme",
        "drug_protein:target": "targets",
        "drug_protein:transporter": "is transported by",
        "exposure_bioprocess": "affects",
        "exposure_cellcomp": "affects",
        "exposure_disease": "is linked to",
        "exposure_exposure": "is a parent or child of",
        "exposure_molfunc": "affects",
        "exposure_protein": "interacts with",
        "indication": "is indicated for",
        "molfunc_molfunc": "is a parent or child of",
        "molfunc_protein": "is a function of",
        "off-label use": "is used off-label for",
        "pathway_pathway": "is a parent or child of",
        "pathway_protein": "involves",
        "phenotype_phenotype": "is a parent or child of",
        "phenotype_protein": "is associated with",
        "protein_protein": "interacts with",
    }
)
# Types of this project and of Monarch; biolink's other predicates read well by themselves.
OTHERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MEMBEROF_GmGF": "is a member of",
        "PALLIATES_CpD": "relieves symptoms of",
        "PARTOF_GpCX": "is part of",
        "ASSOCIATES_VaD": "is associated with",
        "acts_upstream_of": "acts upstream of",
        "causes": "causes",
        "contributes_to": "contributes to",
        "gene_associated_with_condition": "is associated with",
        "genetically_associated_with": "is genetically associated with",
        "has_mode_of_inheritance": "has the mode of inheritance",
        "has_participant": "has as a participant",
        "has_phenotype": "has the phenotype",
        "model_of": "is a model of",
        "orthologous_to": "is orthologous to",
        "subclass_of": "is a kind of",
        "treats_or_applied_or_studied_to_treat": "is used or studied to treat",
    }
)
# Prefix for the type of an edge that its graph negates (KGX's ``negated``).
NOT: Final = "NOT:"
_SIGNATURE: Final = re.compile(r"[A-Za-z]*[a-z>][A-Za-z>]*")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_PHRASES: Final = {**OTHERS, **PRIMEKG, **HETIONET, **SPOKE}
_ARTICLE_LESS: Final = frozenset({"in", "of", "on", "to", "by", "with", "for", "from"})
_COPULA: Final = frozenset({"part", "member", "marker", "resistant", "sensitive", "associated", "related"})


def phrase(kind: str) -> str:
    """Return the phrase between source and target, derived from the name of an unknown type and never empty."""
    if kind.startswith(NOT):
        return f"does not stand in the relation ({_shorter(phrase(kind.removeprefix(NOT)))}) to"
    name = kind.removeprefix("biolink:")
    return _PHRASES.get(name) or _guess(name)


def statement(edge: Edge, source: Node, target: Node, row: int = -1) -> Statement:
    """Build the statement of an edge, with its ends and its sentence."""
    text = f"{readable_kind(source.kind)} {source.name} {phrase(edge.kind)} {readable_kind(target.kind)} {target.name}"
    return Statement(edge=edge, source=source, target=target, text=text, row=row)


def readable_kind(kind: str) -> str:
    """Return "Side Effect" for "SideEffect" and "Biological process" for "biological_process"; abbreviations stay."""
    text = _HUMP.sub(" ", kind.removeprefix("biolink:").replace("_", " ")).strip()
    return text[:1].upper() + text[1:]


def _guess(kind: str) -> str:
    """Derive a phrase from the name of an unknown type, dropping the signature (_XyZ) that ends SPOKE's names."""
    words = kind.split("_")
    if len(words) > 1 and words[0].isupper() and _SIGNATURE.fullmatch(words[-1]):
        words = words[:-1]
    text = re.sub(r"[\s:/>-]+", " ", " ".join(_HUMP.sub(" ", word) for word in words)).strip().lower()
    first, _, rest = text.partition(" ")
    if first in _COPULA or (first in _ARTICLE_LESS and rest):
        return f"is {text}"
    return text or "is linked to"


def _shorter(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"


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


_WORD: Final = re.compile(r"[^\W_][\w'’-]*")
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
    _relation(r"famil(?:y|ies)\b|members?\b|belongs?\b|complex|part of", "memberof partof", "genefamily complex"),
    _relation(r"bio-?marker|markers?\b", "marker_"),
    _relation(r"prevalen|epidemiolog", "prevalence", "location"),
    _relation(r"binds?\b|binding|targets?\b|interact", "binds interacts targets drug_protein acts_as cbg gig"),
    _relation(r"pharmacologic|drug class", "includes partof_cppg pcic", "pharmacologicclass pharmacologic+class"),
)
# By what a question asks for: the beginning of an edge type of the relation.
_LEARNED: Final = MappingProxyType(
    {
        "treats": "treats",
        "genes": "associates",
        "symptoms": "presents",
        "parents": "isa",
        "children": "isa",
        "parts": "memberof",
        "resembles": "resembles",
    }
)
_IDENTIFIER: Final = re.compile(r"\bidentifiers?\b|\baccession\b|\bids?\b|\b[A-Za-z]{2,12}:\d{2,}")


def relations_of(question: str) -> tuple[Relation, ...]:
    """Return the relations that the question names."""
    lower = question.casefold()
    return tuple(relation for relation in RELATIONS if relation.words.search(lower))


def relation_named(name: str) -> Relation | None:
    """Return the relation of a name that the head of relations gives, None for what is no relation."""
    edge = _LEARNED.get(name)
    return None if edge is None else next(relation for relation in RELATIONS if relation.fits(edge, ""))


def unread_words(text: str, relations: Sequence[Relation]) -> tuple[str, ...]:
    """Return the words of a question that name no relation and are no function words, as they are written."""
    lower = text.casefold()
    named = [match.span() for relation in relations for match in relation.words.finditer(lower)]
    words = (match for match in _WORD.finditer(text) if match[0].casefold() not in FUNCTION_WORDS)
    unread = (word[0] for word in words if not any(start < word.end() and word.start() < end for start, end in named))
    return tuple(dict.fromkeys(unread))


def fitting(relations: Sequence[Relation], edge_kind: str, end_kind: str) -> int:
    """Return how many of the relations an edge of this type to an end of this kind fits."""
    return sum(relation.fits(edge_kind, end_kind) for relation in relations)


def asks_identifier(question: str) -> bool:
    """Return True if the question may ask for an identifier, which the context has beside the node's name."""
    return _IDENTIFIER.search(question) is not None
