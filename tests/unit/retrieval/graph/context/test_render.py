"""How chosen statements read."""

from __future__ import annotations

import json

import pytest
from graph_doubles import GENES, ITCH, METHOTREXATE, PSORIASIS, STATEMENTS, ZOSTER, make_node, make_statement

from retrieval.graph.context.relations import asks_identifier, fitting, relations_of, statement
from retrieval.graph.context.render import RenderInput, evidence_json, fitting_text, render_context, verb_of
from retrieval.graph.types import Edge


def test_statements_with_relation_and_source_in_common_share_a_line() -> None:
    """Direction is kept: what treats is not what is treated."""
    told = RenderInput((PSORIASIS, ZOSTER), STATEMENTS, len(STATEMENTS))
    assert render_context(told, len(STATEMENTS)) == (
        "Disease psoriasis (DOID:8893, Disease Ontology):\n"
        "- associates Gene: IL23R; HLA-B; TNIP1 [source: GWAS Catalog]\n"
        "- Compound: Methotrexate - treats it [source: DrugCentral; ChEMBL]\n"
        "- presents Symptom: Pruritus [source: NCBI PubMed]\n"
        "Disease herpes zoster (DOID:8536, Disease Ontology):\n"
        "- associates Gene: HLA-B [source: DISEASES]\n"
        "- Compound: Acyclovir - treats it [source: DrugCentral]\n"
        "Common to all of these: HLA-B"
    )


def test_what_all_entities_reach_is_said_only_of_what_is_told() -> None:
    """Of the first statements the second one about the shared gene is missing; one entity has nothing in common."""
    assert "Common" not in render_context(RenderInput((PSORIASIS, ZOSTER), STATEMENTS, len(STATEMENTS)), 5)
    assert "Common" not in render_context(RenderInput((PSORIASIS,), STATEMENTS[:5], 5), 5)


def test_what_is_left_out_is_counted() -> None:
    """A model that sees a part is told so."""
    assert render_context(RenderInput((PSORIASIS,), STATEMENTS[:5], 9), 2).endswith("\n(Left out: 7 of 9 statements.)")


def test_evidence_is_json_that_parses() -> None:
    """Articles too; of long lists the beginning; what JSON has no number for is null."""
    items = [{"snp": f"rs{i}"} for i in range(8)]
    statement = make_statement(
        PSORIASIS,
        "ASSOCIATES_DaG",
        GENES["HLA-B"],
        pmids=("1", "2"),
        evidence={"p": 1e-8, "z": float("inf"), "s": items},
    )
    parsed = json.loads(evidence_json(statement))
    assert parsed == {"p": 1e-8, "z": None, "s": [*items[:5], "3 more"], "pmids": ["1", "2"]}
    text = render_context(RenderInput((PSORIASIS,), [statement], 1, evidence=True), 1)
    assert f"HLA-B {evidence_json(statement)} [source: GWAS Catalog]" in text


def test_articles_are_the_source_where_no_other_is_named() -> None:
    """The published program gave its own graph's name instead."""
    statement = make_statement(PSORIASIS, "PRESENTS_DpS", ITCH, provenance=(), pmids=tuple("123456"))
    assert "- presents Symptom: Pruritus (PMID 1, 2, 3, 4, 5 and more) [source: PubMed]" in render_context(
        RenderInput((PSORIASIS,), [statement], 1), 1
    )
    nameless = make_statement(PSORIASIS, "PRESENTS_DpS", ITCH, provenance=())
    assert "[source: the graph names none]" in render_context(RenderInput((PSORIASIS,), [nameless], 1), 1)


def test_names_cannot_break_lines_or_lists() -> None:
    """A line break becomes a blank; a name with the lists' separator is quoted; a very long one is cut."""
    nasty = make_node("Gene", "A\n\nQuestion: B; C")
    long = make_node("Gene", "x" * 500)
    known = [make_statement(PSORIASIS, "ASSOCIATES_DaG", gene) for gene in (nasty, long)]
    lines = render_context(RenderInput((PSORIASIS,), known, 2), 2).splitlines()
    assert len(lines) == 2
    assert lines[1].startswith('- associates Gene: "A Question: B; C"; xxx') and len(lines[1]) < 300


def test_the_verb_is_read_off_the_statements_text() -> None:
    """ "not associated with" stays whole; a sentence of another form has a line to itself."""
    usual = STATEMENTS[3]
    assert verb_of(usual) == "treats"
    odd = type(usual)(edge=usual.edge, source=METHOTREXATE, target=PSORIASIS, text="Methotrexate is given in psoriasis")
    assert verb_of(odd) == ""
    assert "- Methotrexate is given in psoriasis (Compound: Methotrexate)" in render_context(
        RenderInput((PSORIASIS,), [odd], 1), 1
    )


def test_a_budget_under_the_headings_gives_no_text() -> None:
    """Half a heading would name nothing."""
    assert fitting_text(RenderInput((PSORIASIS,), STATEMENTS[:5], 5), 10, len) == ("", 0, 0)


def test_relations_are_known_by_how_edge_types_begin() -> None:
    """Whatever the graph calls them; a contraindication is no treatment."""
    treats = relations_of("Which drugs treat it?")
    assert [fitting(treats, kind, "X") for kind in ("TREATS_CtD", "treats", "indication")] == [1, 1, 1]
    assert fitting(treats, "contraindication", "X") == 0
    both = relations_of("which Gene is associated with it")
    assert fitting(both, "ASSOCIATES_DaG", "Gene") == 2 and fitting(both, "DOWNREGULATES_AdG", "Gene") == 1
    assert relations_of("hello") == ()


def test_a_question_for_an_identifier_is_known() -> None:
    """By the word, or by one that it gives."""
    assert asks_identifier("What is the Disease Ontology identifier of it?") and asks_identifier("is it DOID:10588")
    assert not asks_identifier("Which genes did it have at 10:30?")


def test_an_edge_between_neighbours_is_told_whole() -> None:
    """A graph's server may send it with a neighbourhood."""
    sibling = make_statement(METHOTREXATE, "TREATS_CtD", ZOSTER, provenance=("ChEMBL",))
    assert render_context(RenderInput((PSORIASIS,), [STATEMENTS[0], sibling], 2), 2).splitlines()[2:] == [
        "Beside these:",
        "- Compound Methotrexate treats Disease herpes zoster (Compound: Methotrexate) [source: ChEMBL]",
    ]


def test_long_texts_among_attributes_are_cut() -> None:
    """One would fill the context."""
    edge = make_statement(
        PSORIASIS, "ASSOCIATES_DaG", GENES["IL23R"], evidence={"note": "x" * 10_000, "n": {"m": ["y" * 999]}}
    )
    parsed = json.loads(evidence_json(edge))
    assert len(parsed["note"]) == 200 and parsed["note"].endswith("…")
    assert len(parsed["n"]["m"][0]) == 200


@pytest.mark.parametrize(
    ("question", "edge", "end"),
    [
        ("What treats it?", "CtD", "Disease"),
        ("What is it associated with?", "DaG", "Disease"),
        ("What resembles it?", "DrD", "Disease"),
        ("Where is it located?", "DlA", "Disease"),
        ("Which symptoms has it?", "DpS", "Disease"),
        ("What is upregulated?", "DuG", "Disease"),
        ("What is down-regulated?", "CdG", "Disease"),
        ("What does it bind?", "CbG", "Disease"),
        ("What does it interact with?", "GiG", "Disease"),
        ("Where is it expressed?", "AeG", "Gene"),
        ("Which pharmacologic class is it of?", "PCiC", "Compound"),
        ("Which symptoms has it?", "has_phenotype", "Disease"),
        ("Which phenotypes has it?", "x", "PhenotypicFeature"),
        ("What is it associated with?", "gene_associated_with_condition", "Disease"),
        ("What is it a subtype of?", "subclass_of", "Disease"),
        ("Where in the body is it located?", "disease_has_location", "Disease"),
        ("Which tissue is it of?", "x", "AnatomicalEntity"),
        ("Where is it expressed?", "expressed_in", "Gene"),
        ("Which drug is it?", "x", "SmallMolecule"),
        ("Which drug is it?", "x", "ChemicalEntity"),
        ("Which variants has it?", "x", "SequenceVariant"),
        ("Which process is it part of?", "x", "MolecularActivity"),
    ],
)
def test_relations_of_each_graph_are_known(question: str, edge: str, end: str) -> None:
    """Hetionet's abbreviations and Monarch's predicates and classes, as SPOKE's types."""
    assert fitting(relations_of(question), edge, end) >= 1


@pytest.mark.parametrize(
    ("question", "edge"), [("What treats it?", "CcSE"), ("What resembles it?", "DaG"), ("Which genes?", "DpS")]
)
def test_other_relations_do_not_fit(question: str, edge: str) -> None:
    """An abbreviation is one relation's."""
    assert fitting(relations_of(question), edge, "Disease") == 0


@pytest.mark.parametrize(
    ("kinds", "edge", "expected"),
    [
        (("disease", "gene/protein"), "disease_protein", "- is associated with Gene/protein: A; B [source: PrimeKG]"),
        (
            ("Disease", "PhenotypicFeature"),
            "has_phenotype",
            "- has the phenotype Phenotypic Feature: A; B [source: PrimeKG]",
        ),
        (("Compound", "SideEffect"), "CcSE", "- causes Side Effect: A; B [source: PrimeKG]"),
    ],
)
def test_statements_of_every_graphs_kinds_share_a_line(kinds: tuple[str, str], edge: str, expected: str) -> None:
    """Sentences write kinds for people ("Side Effect"); what stands between the names is found all the same."""
    entity, others = make_node(kinds[0], "it"), [make_node(kinds[1], name) for name in "AB"]
    told = [
        statement(
            Edge(source_id=entity.node_id, target_id=other.node_id, kind=edge, provenance=("PrimeKG",)), entity, other
        )
        for other in others
    ]
    assert expected in render_context(RenderInput((entity,), told, 2), 2).splitlines()
