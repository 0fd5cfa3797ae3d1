"""What a question asks for, as far as it decides how replies are condensed."""

from __future__ import annotations

import pytest

from server.evidence.ncbi import asks_for_a_field, asks_for_places


@pytest.mark.parametrize(
    ("question", "field", "places"),
    [
        ("What is the official gene symbol of LMP10?", True, False),
        ("Which chromosome is FAM66D gene located on human genome?", True, True),
        ("List chromosome locations of the genes related to Split-foot malformation.", False, True),
        ("What are genes related to Distal renal tubular acidosis?", False, False),
        ("Where are the genes of Hemolytic anemia?", True, True),
        ("What is the function of the gene associated with SNP rs1217074595?", False, False),
        ("Explain why the location of TP53 matters.", False, True),
    ],
)
def test_a_question_decides_what_stands_in_condensed_replies(question: str, field: bool, places: bool) -> None:
    """Prose is left out for names, places and types; map locations lead where places are asked for."""
    assert (asks_for_a_field(question), asks_for_places(question)) == (field, places)
