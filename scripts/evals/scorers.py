"""Find the scorer of each evaluation by its name in a record file; it maps a record to 0 … 1."""

from __future__ import annotations

from scripts.evals.geneturing.records import normalised
from scripts.evals.harness.errors import RunFileInvalid
from scripts.evals.harness.runner import Scorer
from scripts.evals.kg.scoring import score
from scripts.evals.mirage.scoring import strict


def scorer_of(evaluation: str) -> Scorer:
    """Raises RunFileInvalid for an evaluation that there is not."""
    scorers: dict[str, Scorer] = {"mirage": strict, "kg-rag": score, "geneturing": normalised}
    if evaluation not in scorers:
        raise RunFileInvalid(f"no scorer for the evaluation {evaluation!r}")
    return scorers[evaluation]
