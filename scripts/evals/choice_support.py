"""Measure on which choices a sentence of the passages can be named as support, with BioASQ's factoid questions.

    python scripts/evals/choice_support.py FOLDER [--wrong 3]

``FOLDER`` has ``questions_dev.jsonl.gz`` ({id, type, question, exact, snippets}). Each factoid becomes a question of
several choices: its answer, and answers of other factoids. Its passages are its gold snippets among those of two other
questions; ``removed`` is without the gold ones. Asked is how often a right and a wrong choice has support, by the bar:
questions with an even hash are for setting it, the others for the report. No model is asked.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from server.methods.medrag.judging import CHOICE_BAR, support_of
from server.methods.shared.extractive import Source

_BARS: Final = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
_OTHERS: Final = 2
_LONGEST_ANSWER: Final = 6


def _factoids(folder: Path) -> list[dict[str, Any]]:
    with gzip.open(folder / "questions_dev.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    found = [row for row in rows if row["type"] == "factoid" and row.get("exact") and row.get("snippets")]
    return [row for row in found if len(_answer(row).split()) <= _LONGEST_ANSWER]


def _answer(row: dict[str, Any]) -> str:
    first = row["exact"][0]
    return str(first[0] if isinstance(first, list) else first)


def _is_for_fitting(row: dict[str, Any]) -> bool:
    return int(hashlib.sha256(str(row["id"]).encode()).hexdigest()[:12], 16) % 2 == 0


def _scores(rows: Sequence[dict[str, Any]], num_wrong: int) -> dict[str, list[float]]:
    """Return the scores of right and wrong choices, with the gold snippets and without them."""
    draw = random.Random(7)
    scores: dict[str, list[float]] = {"right": [], "wrong": [], "right, removed": [], "wrong, removed": []}
    for row in rows:
        others = draw.sample([one for one in rows if one is not row], num_wrong + _OTHERS)
        right = _answer(row)
        wrong = [text for text in map(_answer, others[:num_wrong]) if text.casefold() != right.casefold()]
        choices = [right, *wrong]
        beside = [Source("", one["text"]) for other in others for one in other["snippets"][:3]]
        gold = [Source("", one["text"]) for one in row["snippets"]]
        for name, sources in (("", [*gold, *beside]), (", removed", beside)):
            supports = [support_of(row["question"], choices, at, sources) for at in range(len(choices))]
            found = [one.score if one.score >= one.rival else 0.0 for one in supports]
            scores[f"right{name}"].append(found[0])
            scores[f"wrong{name}"] += found[1:]
    return scores


def _table(scores: dict[str, list[float]]) -> str:
    lines = [f"| bar | {' | '.join(scores)} |", f"| --- |{' --: |' * len(scores)}"]
    for bar in _BARS:
        shares = (sum(score >= bar for score in found) / max(1, len(found)) for found in scores.values())
        lines.append(
            f"| {bar:.2f}{' (used)' if bar == CHOICE_BAR else ''} | {' | '.join(f'{share:.3f}' for share in shares)} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wrong", type=int, default=3, help="wrong choices of each question")
    args = parser.parse_args()
    if not (args.folder / "questions_dev.jsonl.gz").exists():
        print(f"{args.folder} has no questions_dev.jsonl.gz; nothing is measured")
        return 0
    rows = _factoids(args.folder)
    for name, is_fitting in (("to set the bar", True), ("held out", False)):
        half = [row for row in rows if _is_for_fitting(row) == is_fitting]
        print(f"\n{name}: {len(half)} questions\n\n{_table(_scores(half, args.wrong))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
