"""Evaluate a method that reads a corpus (MedRAG, WeiseEule) on BioASQ's questions, through an endpoint.

    python scripts/evals/clinfo.py corpus FOLDER/corpus.jsonl.gz --xml corpus.xml
    arrowhead namespace create bioasq
    arrowhead namespace add bioasq corpus.xml                      then: arrowhead serve
    python scripts/evals/bioasq.py FOLDER --model NAME:medrag --options '{"namespaces": ["bioasq"]}' --forms yesno

FOLDER has questions_dev.jsonl.gz. Asked are the yes-or-no questions and factoids that training holds out. Every record
is written to --out at once; the same command resumes after a kill.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, evaluate
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.intervals import bootstrap_mean
from scripts.evals.harness.records import Question, Record, digest_of
from scripts.evals.harness.tables import markdown_table
from scripts.training.tasks.bioasq import FILE, has_phrase, read_questions

FORMS: Final = ("yesno", "factoid")
_ANSWERS: Final = frozenset({"answered", "partial"})


def load(folder: Path) -> list[Question]:
    """Raises DatasetInvalid."""
    if not (folder / FILE).is_file():
        raise DatasetInvalid(f"{folder} has no {FILE}")
    return [
        Question(
            id=one.question_id,
            group=one.form,
            text=one.text,
            key=one.yes_no or [list(names) for names in one.items],
            messages=({"role": "user", "content": one.text},),
            meta={"gold": sorted(one.pmids)},
        )
        for one in read_questions(folder, held_out=True)
        if one.form in FORMS
    ]


def is_right(record: Record) -> bool:
    """Whether the answer begins with the right word, or names an item of a factoid's answer."""
    key, answer = record.question.key, record.reply.marked_answer or record.reply.text
    if isinstance(key, str):
        # "No passage that was found answers this question." is no "no".
        return re.match(rf"\W*{key}\b(?! passage)", answer, re.IGNORECASE) is not None
    return any(has_phrase(answer, name) for names in key for name in names)


def cites_gold(record: Record) -> bool:
    """Whether a gold article is among those that the answer cites, by the server's trace."""
    choice = ((record.reply.trace or {}).get("choices") or [{}])[0]
    details = choice.get("details") or {}
    found = (one for key in ("citations", "passages") for one in details.get(key) or () if "number" in one)
    gold = set(record.question.meta["gold"])
    numbers = {one["number"] for one in found if str(one.get("document_id")).removeprefix("PMID:") in gold}
    return not numbers.isdisjoint(details.get("cited") or ())


def table(records: Iterable[Record]) -> str:
    """Shares with 95 % bootstrap intervals; failed requests are in none."""
    measures: dict[str, list[float]] = {}
    for record in (one for one in records if not one.failed):
        answered = (record.reply.arrowhead or {}).get("outcome") in _ANSWERS
        right, group, key = is_right(record), record.question.group, record.question.key
        found = {group: right, f"{group}, answered": answered, f"{group}, gold article cited": cites_gold(record)}
        found |= {f"{group}, {key}": right} if isinstance(key, str) else {}
        found |= {f"{group}, right of those answered": right} if answered else {}
        for name, value in found.items():
            measures.setdefault(name, []).append(float(value))
    rows = []
    for name, values in sorted(measures.items()):
        interval = bootstrap_mean(values)
        rows.append((name, str(len(values)), f"{fmean(values):.2f}", f"{interval.low:.2f} to {interval.high:.2f}"))
    return markdown_table(("measure", "n", "share", "95 %"), rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--limit", type=int, help="the first questions of the file")
    add_endpoint_arguments(parser, model="arrowhead-small:medrag", out=Path("runs/bioasq.jsonl"))
    args = parser.parse_args(argv)

    def evaluation() -> Evaluation:
        everything = load(args.folder)
        asked = [question for question in everything if question.group in args.forms][: args.limit]
        return Evaluation(name="bioasq", dataset=digest_of(everything), questions=asked, score=score)

    return evaluate(args, evaluation, table)


def score(record: Record) -> float:
    return float(is_right(record))


if __name__ == "__main__":
    sys.exit(main())
