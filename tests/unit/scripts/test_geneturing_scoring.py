"""Strict and normalised scores of GeneTuring answers."""

from __future__ import annotations

import pytest

from scripts.evals.scoring import normalised_score, strict_score


@pytest.mark.parametrize(
    ("task", "gold", "answer", "strict", "normalised"),
    [
        ("Gene alias", "PSMB10", "PSMB10", 1.0, 1.0),
        ("Gene alias", "PSMB10", "psmb10.", 0.0, 1.0),
        ("Gene alias", "PSMB10", "PSMB9", 0.0, 0.0),
        ("Gene location", "chr8", "8", 0.0, 1.0),
        ("Gene location", "chr8", "Chromosome 8", 0.0, 1.0),
        ("SNP location", "chr13", "chr1", 0.0, 0.0),
        ("Protein-coding genes", "NA", "No", 0.0, 1.0),
        ("Protein-coding genes", "TRUE", "Yes, it is.", 0.0, 1.0),
        ("Protein-coding genes", "TRUE", "No", 0.0, 0.0),
        ("Gene disease association", "KRT12, KRT3", "KRT3", 0.5, 0.5),
        ("Gene disease association", "IL6, IL6", "IL6", 1.0, 1.0),
        ("Human genome DNA aligment", "chr15:10-20", "chr15", 0.5, 0.5),
        ("Human genome DNA aligment", "chr15:10-20", "chr15:10-20", 1.0, 1.0),
        ("Human genome DNA aligment", "chr15:10-20", "chr1:10-20", 0.0, 0.0),
        ("Multi-species DNA aligment", "yeast", "Saccharomyces cerevisiae S288C", 0.0, 1.0),
        ("Multi-species DNA aligment", "rat", "mouse", 0.0, 0.0),
        ("Disease gene location", ["21q22.3"], "21q22.3", 1.0, 1.0),
        ("SNP gene function", "ncRNA", "non-coding RNA", 0.0, 1.0),
        ("SNP gene function", "Enables binding of zinc. Located in nucleus.", "Enables binding of zinc.", 0.0, 1.0),
        ("SNP gene function", "Enables binding of zinc. Located in nucleus.", "ncRNA", 0.0, 0.0),
        ("Gene alias", "PSMB10", "", 0.0, 0.0),
    ],
)
def test_scores(task: str, gold: str | list[str], answer: str, strict: float, normalised: float) -> None:
    """Strict wants the exact text; normalised forgives form, never content."""
    assert strict_score(task, gold, answer) == strict
    assert normalised_score(task, gold, answer) == normalised
