"""The questions that the tagger of names is trained on, and one that is trained on some of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from models.encoders.name_tagger import DISEASE, GENE, NO_NAME, load_name_tagger
from scripts.train_name_tagger import KINDS, disease_names, gene_names, known_words, report, save, tagged, trained


def test_names_are_those_that_people_use() -> None:
    """Of a gene without what stands in brackets; a disease's abbreviation is no name in words."""
    assert {"insulin", "leptin"} <= set(gene_names())
    assert "cystic fibrosis" in disease_names() and "ALS" not in disease_names()


def test_a_name_stands_where_the_line_has_the_place_of_one() -> None:
    """Of every kind, and lines without a name."""
    questions = list(tagged(random.Random(1), times=1))
    assert {one.kind for one in questions} == set(KINDS)
    named = [one for one in questions if one.kind in (GENE, DISEASE)]
    assert all(0 <= one.start < one.end <= len(one.text) for one in named)
    assert {"gene", "chromosome"} <= known_words() and "insulin" not in known_words()


@pytest.mark.long
def test_a_tagger_is_trained_reported_and_saved(tmp_path: Path) -> None:
    """What is loaded again finds what was trained."""
    questions = list(tagged(random.Random(1), times=1))[::80]
    assert "none " in report(questions, frozenset())
    tagger = trained(questions, frozenset({"insulin"}))
    save(tmp_path, tagger)
    assert load_name_tagger(tmp_path).kinds == tagger.kinds == KINDS
    found = load_name_tagger(tmp_path).find("Which chromosome is the alpha globin gene on?")
    assert found is None or found.kind != NO_NAME
