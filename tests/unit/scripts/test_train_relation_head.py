"""The questions that the head of relations is trained on, and a head that is trained on some of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import get_args

import numpy as np

from models.encoders.hashing import HashingEncoder
from models.encoders.relation_head import ALL, NOTHING, OTHER, SECOND, load_relation_head
from scripts.train_relation_head import GENE_QUESTIONS, Asked, features, fitted, read_questions, report, save, written
from server.methods.genegpt.questions import Relation


def test_a_line_stands_for_all_of_its_questions_or_sixty() -> None:
    """Some of many are the same at each reading."""
    assert written("{What|Which} drug {treats|cures|} DISEASE?") == [
        "What drug DISEASE?", "What drug cures DISEASE?", "What drug treats DISEASE?",
        "Which drug DISEASE?", "Which drug cures DISEASE?", "Which drug treats DISEASE?",
    ]  # fmt: skip
    many = " ".join(["{a|b|c|d|e}"] * 4)
    assert 40 < len(written(many)) <= 60
    assert written(many) == written(many)


def test_every_relation_has_many_questions() -> None:
    of_genes = Counter(one.relation for one in read_questions(GENE_QUESTIONS))
    claims = {"claimed_snp_gene", "claimed_gene_of"}
    assert {*of_genes} == {*get_args(Relation), *claims, OTHER} - {""} and min(of_genes.values()) > 100
    counts = Counter(one.relation for one in read_questions())
    assert set(counts) == {"treats", "genes", "symptoms", "parents", "children", "parts", "resembles", OTHER}
    assert min(counts.values()) > 100
    assert {one.denial for one in read_questions()} == {NOTHING, ALL, SECOND}


def test_a_head_is_trained_reported_and_saved(tmp_path: Path) -> None:
    questions = [
        Asked(relation, text, number, denial)
        for number in range(6)
        for relation, text, denial in (
            ("treats", f"what treats {number}", NOTHING),
            ("genes", f"genes behind one, none {number}", SECOND),
            (OTHER, f"never mind {number}", ALL),
        )
        for _ in range(2)
    ]
    encoder = HashingEncoder()
    inputs, idf = features([one.text for one in questions], encoder)
    assert report(inputs, questions).startswith("1.000 of 36")
    rows = np.ones(len(questions), np.bool_)
    models = {of: fitted(inputs, questions, rows, of) for of in ("relation", "denial")}
    save(tmp_path, models, idf, questions)
    head = load_relation_head(tmp_path)
    read = head.read("what treats it", encoder.encode_queries(["what treats it"])[0])
    assert (read.name, read.denial) == ("treats", NOTHING) and "treats" in read.words
    assert head.read("never mind it", encoder.encode_queries(["never mind it"])[0]).denial == ALL
