"""Score simple rules on KG-RAG's question sets without a model and without a graph: the floor for any score.

    python scripts/evals/kg/baselines.py FOLDER [--identifiers disease_name_with_id.csv]

No rule sees the answer to the question that it answers: it counts the answers of the set's other questions ("leave one
out"). ``identifiers`` (names of a vocabulary, case-folded, with their identifiers) adds rules that look names up. Pure
except for ``main``.
"""

from __future__ import annotations

import argparse
import ast
import csv
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from scripts.evals.graph_files import rows_of

Rows = Sequence[Mapping[str, Any]]
Identifiers = Mapping[str, frozenset[str]]
NO_IDENTIFIERS: Final[Identifiers] = MappingProxyType({})
_IDENTIFIER: Final = re.compile(r"disease ontology identifier for (?P<name>.+?) is (?P<identifier>doid:\d+)", re.I)
_KIND: Final = re.compile(r"What are the (\w+)", re.I)


class Score(NamedTuple):
    """``total`` counts questions; where an answer is a list, the items of all answers."""

    correct: int
    total: int


def baselines(set_name: str, rows: Rows, identifiers: Identifiers = NO_IDENTIFIERS) -> dict[str, Score]:
    """By rule. ``set_name``: the published file's name without ending; none for a set that is not known."""
    rules = _RULES.get(set_name)
    return rules(rows, identifiers) if rules else {}


def says_not(text: str) -> bool:
    return "not" in text.casefold().split()


def negation(row: Mapping[str, Any]) -> bool:
    """Whether "a sentence with 'not' in it is false, any other is true" gives the label."""
    return says_not(row["text"]) != _is_true(row)


def identified(row: Mapping[str, Any], identifiers: Identifiers) -> bool:
    """As ``negation``, but a statement about an identifier is looked up where its name is known."""
    match = _IDENTIFIER.match(row["text"])
    known = identifiers.get(match["name"].casefold()) if match else None
    if match is None or not known:
        return negation(row)
    return (match["identifier"].upper() in known) == _is_true(row)


def choices(row: Mapping[str, Any]) -> list[str]:
    return [part.strip() for part in row["options_combined"].split(",") if part.strip()]


def key(row: Mapping[str, Any]) -> str:
    return str(row["correct_node"]).strip()


def popularity(rows: Rows) -> list[bool]:
    """How often each choice is the right one of the other questions; the first one of equals."""
    counts = Counter(map(key, rows))
    right = []
    for row in rows:
        others = counts - Counter({key(row): 1})
        right.append(max(choices(row), key=others.__getitem__) == key(row))
    return right


def first_choice(rows: Rows) -> list[bool]:
    return [choices(row)[0] == key(row) for row in rows]


def popular_answer(answers: Sequence[str]) -> list[bool]:
    """Whether the most frequent answer of the others is the right one; the first one of equals."""
    counts = Counter(answers)
    right = []
    for answer in answers:
        others = counts - Counter({answer: 1})
        right.append(bool(others) and max(others, key=others.__getitem__) == answer)
    return right


def popular_items(answers: Sequence[Sequence[str]]) -> Score:
    """Items of each answer among the most frequent items of the others, of which as many are taken as it has."""
    counts = Counter(item for answer in answers for item in dict.fromkeys(answer))
    correct = total = 0
    for answer in answers:
        own = set(answer)
        others = counts - Counter(own)
        guessed = {item for item, _ in others.most_common(len(own))}
        correct, total = correct + len(own & guessed), total + len(own)
    return Score(correct, total)


def longest_name(text: str, names: Sequence[str]) -> str:
    """The longest of ``names`` (case-folded, longest first) that stands in the text as words; "" where none does."""
    folded = text.casefold()
    return next((name for name in names if name in folded and _as_words(name, folded)), "")


def read_identifiers(path: Path) -> dict[str, frozenset[str]]:
    """A CSV table with the columns disease_name and disease_id."""
    found: dict[str, frozenset[str]] = {}
    with path.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            name = row["disease_name"].casefold()
            found[name] = found.get(name, frozenset()) | {row["disease_id"].upper()}
    return found


def _true_false(rows: Rows, identifiers: Identifiers) -> dict[str, Score]:
    rules = {
        "always True": _share(map(_is_true, rows)),
        '"not" in the sentence: False': _share(map(negation, rows)),
    }
    if identifiers:
        looked_up = _share(identified(row, identifiers) for row in rows)
        rules['"not" in the sentence: False, identifiers looked up'] = looked_up
    return rules


def _multiple_choice(rows: Rows, _: Identifiers) -> dict[str, Score]:
    return {
        "most frequent answer of the other questions": _share(popularity(rows)),
        "first choice of the list": _share(first_choice(rows)),
    }


def _p_values(rows: Rows, _: Identifiers) -> dict[str, Score]:
    """The paper's script takes "Yes" for right where it stands in an answer, whatever the question."""
    return {
        'always "Yes", where that is a possible answer': _share(is_yes_or_no(row["question"]) for row in rows),
        "most frequent p-value of the other questions": _share(popular_answer([row["gwas_pvalue"] for row in rows])),
    }


def is_yes_or_no(question: str) -> bool:
    return question.lstrip().casefold().startswith("is ")


def _entities(rows: Rows, identifiers: Identifiers) -> dict[str, Score]:
    gold = [row["node_hits"].casefold() for row in rows]
    rules = {"most frequent disease of the other questions": _share(popular_answer(gold))}
    if identifiers:
        names = sorted(identifiers, key=len, reverse=True)
        found = (longest_name(row["text"], names) == name for row, name in zip(rows, gold, strict=True))
        rules["longest name of the vocabulary in the text"] = _share(found)
    return rules


def _one_disease(rows: Rows, _: Identifiers) -> dict[str, Score]:
    return {
        f"most frequent {column} of the other questions": popular_items([_items(row[column]) for row in rows])
        for column in ("Compounds", "Diseases")
    }


def _two_diseases(rows: Rows, _: Identifiers) -> dict[str, Score]:
    of_kind: dict[str, list[list[str]]] = {}
    for row in rows:
        match = _KIND.match(row["text"])
        of_kind.setdefault(match[1] if match else "nodes", []).append(_items(row["central_nodes"]))
    return {f"most frequent {kind} of the other questions": popular_items(answers) for kind, answers in of_kind.items()}


def _items(text: str) -> list[str]:
    """The sets hold lists as Python prints them. Raises ValueError for anything else."""
    found = ast.literal_eval(text)
    if not isinstance(found, list):
        raise ValueError(f"{text[:40]!r} is no list")
    return [str(item) for item in found]


def _is_true(row: Mapping[str, Any]) -> bool:
    return str(row["label"]).strip().casefold() == "true"


def _as_words(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _share(right: Iterable[bool]) -> Score:
    outcomes = list(right)
    return Score(sum(outcomes), len(outcomes))


_RULES: Final[Mapping[str, Callable[[Rows, Identifiers], dict[str, Score]]]] = MappingProxyType(
    {
        "true_false_questions": _true_false,
        "mcq_questions": _multiple_choice,
        "rag_comparison_data": _p_values,
        "dataset_for_entity_retrieval_accuracy_analysis": _entities,
        "single_disease_entity_prompts": _one_disease,
        "two_disease_entity_prompts": _two_diseases,
    }
)


def table(scores: Mapping[str, Mapping[str, Score]]) -> list[str]:
    """Markdown, by set and rule."""
    lines = ["| set | rule | right |", "|---|---|---|"]
    for name, rules in scores.items():
        lines += [
            f"| {name} | {rule} | {score.correct}/{score.total} = {score.correct / max(1, score.total):.3f} |"
            for rule, score in rules.items()
        ]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--identifiers", type=Path)
    args = parser.parse_args()
    identifiers = read_identifiers(args.identifiers) if args.identifiers else NO_IDENTIFIERS
    scores = {}
    for file in sorted(args.folder.glob("*.jsonl")):
        name = re.sub(r"_(dev|test)$", "", file.stem)
        scores[name] = baselines(name, list(rows_of(file)), identifiers)
    print("\n".join(table(scores)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
