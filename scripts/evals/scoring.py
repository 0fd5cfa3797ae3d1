"""Score GeneTuring and GeneHop answers: strictly, and normalised. Pure.

Strict is exact text (set recall for lists). Normalised ignores letter case, a missing or doubled ``chr``, yes/no for
TRUE/NA, Latin for common names, surrounding words such as "gene", and gives 0.5 for the right chromosome alone where a
genome position was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

_SPECIES = {
    "homo sapiens": "human",
    "mus musculus": "mouse",
    "rattus norvegicus": "rat",
    "danio rerio": "zebrafish",
    "caenorhabditis elegans": "worm",
    "saccharomyces cerevisiae": "yeast",
    "gallus gallus": "chicken",
}
_CHROMOSOME_TASKS = frozenset({"Gene location", "SNP location"})
_ALIGNMENT = "Human genome DNA aligment"  # the benchmark's own spelling
_SPECIES_TASK = "Multi-species DNA aligment"
_FUNCTION = "SNP gene function"


def as_list(value: str | Sequence[str]) -> list[str]:
    parts = re.split(r",\s*|\s+and\s+", value) if isinstance(value, str) else list(value)
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def strict_score(task: str, gold: str | Sequence[str], answer: str) -> float:
    if task == _FUNCTION:
        return float(answer.strip() == gold)
    if not isinstance(gold, str) or task == "Gene disease association":
        given = set(answer.strip().split(", "))
        wanted = as_list(gold)
        return sum(g in given for g in wanted) / len(wanted)
    if task == _ALIGNMENT:
        return _position(gold, answer.strip())
    return float(answer.strip() == gold)


def normalised_score(task: str, gold: str | Sequence[str], answer: str) -> float:
    text = answer.strip().rstrip(".").strip()
    if task == _FUNCTION:
        return _function(str(gold), text)
    if not isinstance(gold, str) or task == "Gene disease association":
        given = {part.casefold() for part in as_list(text)}
        wanted = as_list(gold)
        return sum(g.casefold() in given for g in wanted) / len(wanted)
    if task == _ALIGNMENT:
        return _position(gold.casefold(), _chromosome(text))
    if task in _CHROMOSOME_TASKS:
        return float(_chromosome(text) == gold.casefold())
    if task == "Protein-coding genes":
        said = {"yes": "true", "true": "true", "no": "na", "na": "na"}.get(re.split(r"\W", text.casefold())[0], "")
        return float(said == gold.casefold())
    if task == _SPECIES_TASK:
        words = " ".join(re.sub(r"\(.*?\)", " ", text).casefold().split())
        return float(next((c for latin, c in _SPECIES.items() if words.startswith(latin)), words) == gold.casefold())
    return float(re.sub(r"\s+gene$", "", text.casefold()) == gold.casefold())


def _chromosome(text: str) -> str:
    bare = re.sub(r"^(chromosome|chr)\s*", "", text.casefold().strip())
    return "chr" + bare


def _position(gold: str, answer: str) -> float:
    if answer == gold:
        return 1.0
    return 0.5 if answer.split(":")[0] == gold.split(":")[0] else 0.0


def _function(gold: str, answer: str) -> float:
    """1 where answer and gold say the same: equal but for small edits, or one holds the other's first sentence."""
    a, g = " ".join(answer.casefold().split()), " ".join(gold.casefold().split())
    if g == "ncrna":
        return float(bool(re.search(r"nc-?rna|non-?coding", a)))
    first = g.split(". ")[0]
    return float(len(a) > 20 and (first in a or SequenceMatcher(None, a, g, autojunk=False).ratio() >= 0.9))
