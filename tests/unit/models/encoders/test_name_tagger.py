"""The tagger that ships finds genes and diseases that are named in words, in questions that it was not trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from models.encoders.message_head import CONFIG, WEIGHTS
from models.encoders.name_tagger import DISEASE, GENE, MAX_WORDS, NAME_TAGGER_DIR, NO_NAME, load_name_tagger
from models.errors import ModelNotFound

TAGGER = load_name_tagger()


@pytest.mark.parametrize(
    ("question", "name", "kind"),
    [
        ("What does the protein kinase C gene do?", "protein kinase C", GENE),
        ("On which chromosome is huntingtin?", "huntingtin", GENE),
        ("Which genes cause cystic fibrosis?", "cystic fibrosis", DISEASE),
        ("Which gene is mutated in Duchenne muscular dystrophy?", "Duchenne muscular dystrophy", DISEASE),
        ("which genes are linked to alzheimer disease", "alzheimer disease", DISEASE),
    ],
)
def test_a_name_is_found_whole_and_of_its_kind(question: str, name: str, kind: str) -> None:
    found = TAGGER.find(question)
    assert found is not None and (found.text, found.kind) == (name, kind)
    assert question[found.start : found.end] == name and found.probability > 0.5


@pytest.mark.parametrize("question", ["", "?", "Where is it located?", "Where is this gene?", "thanks"])
def test_a_question_without_a_name_has_none(question: str) -> None:
    """A pronoun is none."""
    assert TAGGER.find(question) is None


def test_a_long_message_is_not_read() -> None:
    """It would keep every other request waiting; no question of the training is as long."""
    asked = "Which genes cause cystic fibrosis?"
    assert TAGGER.find(f"{'so ' * (MAX_WORDS - 5)}{asked}") is not None
    assert TAGGER.find(f"{'so ' * MAX_WORDS}{asked}") is None


def test_the_tagger_that_ships_is_small() -> None:
    assert TAGGER.kinds == (DISEASE, GENE, NO_NAME) and "gene" in TAGGER.known
    assert (NAME_TAGGER_DIR / WEIGHTS).stat().st_size < 150_000


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """The folder is named."""
    with pytest.raises(ModelNotFound, match="no usable weights"):
        load_name_tagger(tmp_path)
    shutil.copy(NAME_TAGGER_DIR / WEIGHTS, tmp_path)
    (tmp_path / CONFIG).write_text(json.dumps({"kinds": [GENE, NO_NAME], "known": []}), "utf-8")
    with pytest.raises(ModelNotFound, match="do not fit"):
        load_name_tagger(tmp_path)
