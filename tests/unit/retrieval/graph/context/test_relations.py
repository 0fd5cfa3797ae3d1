"""Every edge type has its own reading."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from retrieval.graph.context.relations import HETIONET, PRIMEKG, SPOKE, phrase, statement
from retrieval.graph.types import Edge, Node

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[6] / "shared" / "data")) / "kg"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the evaluation data are not beside the checkout")
GENE = Node(node_id="Gene::1", kind="Gene", name="A", identifier="1")
DISEASE = Node(node_id="Disease::2", kind="Disease", name="b disease", identifier="2")


def _text(kind: str) -> str:
    return statement(Edge(source_id="Gene::1", target_id="Disease::2", kind=kind), GENE, DISEASE).text


def test_types_that_share_their_first_word_read_differently() -> None:
    """A positive and a negative marker are not the same sentence."""
    assert _text("MARKER_POS_GmpD") == "Gene A is a positive marker of Disease b disease"
    assert _text("MARKER_NEG_GmnD") == "Gene A is a negative marker of Disease b disease"


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        ("IN_CLINICAL_TRIALS_FOR_CictD", "is in clinical trials for"),
        ("MENTIONED_CLINICAL_TRIALS_FOR_CmctD", "is mentioned in clinical trials for"),
        ("RESISTANT_TO_mGrC", "when mutated is resistant to"),
        ("CONTRAINDICATES_CcD", "is contraindicated in"),
        ("Gr>G", "regulates"),
        ("off-label use", "is used off-label for"),
        ("biolink:has_phenotype", "has the phenotype"),
    ],
)
def test_a_known_type_has_its_phrase(kind: str, reads: str) -> None:
    """Whole words, not what stands before the first underscore."""
    assert phrase(kind) == reads


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        ("SLOWS_DOWN_XsdY", "slows down"),
        ("biolink:affects_response_to", "affects response to"),
        ("relatedTo", "is related to"),
        ("PART_OF_AoB", "is part of"),
        ("??", "??"),
        ("_", "is linked to"),
    ],
)
def test_an_unknown_type_is_read_from_its_name(kind: str, reads: str) -> None:
    """A new release's types stay readable."""
    assert phrase(kind) == reads


def test_a_negated_edge_does_not_read_as_a_fact() -> None:
    """What a graph states to be untrue says so in its sentence."""
    assert (
        _text("NOT:has_phenotype") == "Gene A does not stand in the relation (has the phenotype) to Disease b disease"
    )


def test_kinds_of_nodes_read_as_words() -> None:
    """Neither humps nor underscores stand in a sentence."""
    node = Node(node_id="x", kind="biological_process", name="n", identifier="x")
    other = Node(node_id="y", kind="SideEffect", name="m", identifier="y")
    edge = Edge(source_id="x", target_id="y", kind="causes")
    assert statement(edge, node, other).text == "Biological process n causes Side Effect m"


def test_the_tables_are_of_the_size_of_their_graphs() -> None:
    """24 types of Hetionet; 30 relations of PrimeKG and the four roles of a drug's protein."""
    assert len(HETIONET) == 24
    assert len(PRIMEKG) == 34
    assert all(
        text and not text.endswith((".", " ")) for table in (SPOKE, HETIONET, PRIMEKG) for text in table.values()
    )


@pytest.mark.shared_data
@needs_data
def test_all_of_spokes_types_are_known() -> None:
    """The list that SPOKE gave has no type without a phrase."""
    types = json.loads((DATA / "spoke_types_reply.json").read_text(encoding="utf-8"))
    assert [kind for kind in types["edges"] if kind not in SPOKE] == []
