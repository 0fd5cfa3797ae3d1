"""Which answers on drawn genes are right."""

from __future__ import annotations

import pytest

from retrieval.formats.records import Gene
from retrieval.gateway.importing.human_genes import HUMAN
from retrieval.gateway.store.writer import organism
from scripts.evals.human_genes import Asked, Kind, is_right, names_of_genes, question_of, questions

ORGANISM = organism(HUMAN, {})
ONE = Gene(gene_id=1, symbol="AAA1", name="a", organism=ORGANISM, aliases=("X1", "BBB2"), ensembl="ENSG1",
           gene_type="protein-coding")  # fmt: skip
TWO = Gene(gene_id=2, symbol="BBB2", name="b", organism=ORGANISM, aliases=("X1",), gene_type="other",
           locus_type="readthrough")  # fmt: skip


def test_a_shared_alias_means_either_gene_and_a_symbol_its_own() -> None:
    named = names_of_genes([ONE, TWO])

    assert named["x1"] == ("AAA1", "BBB2")
    assert named["bbb2"] == ("BBB2",)


def test_what_the_table_lacks_is_not_asked() -> None:
    assert question_of("ensembl", TWO, {}) is None


@pytest.mark.parametrize(
    ("kind", "names", "answer", "outcome", "right"),
    [
        ("aliases", ("X1", "X2"), "X2, x1, X3", "answered", True),
        ("aliases", ("X1", "X2"), "X1", "answered", False),
        ("aliases", (), "X1", "answered", False),
        ("aliases", (), "not found", "abstained", True),
        ("symbol", ("AAA1", "BBB2"), "BBB2", "partial", True),
        ("symbol", ("AAA1",), "BBB2", "answered", False),
        ("coding", ("readthrough",), "Yes", "answered", False),
        ("ensembl", ("AAA1",), "", "not_found", False),
    ],
)
def test_an_answer_is_right_or_wrong(
    kind: Kind, names: tuple[str, ...], answer: str, outcome: str, right: bool
) -> None:
    assert is_right(Asked(kind, "AAA1", "?", names), answer, outcome) == right


def test_the_draw_is_the_same_for_a_seed() -> None:
    assert list(questions(4, 3, each=False)) == list(questions(4, 3, each=False))
