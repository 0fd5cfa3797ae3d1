"""Evaluate GeneTuring and GeneHop through an OpenAI-compatible endpoint.

    python scripts/evals/geneturing.py QUESTIONS.jsonl --base-url http://127.0.0.1:8000/v1 --model NAME:genegpt

Each line of the questions file: {"set", "task", "question", "answer"}. Prints a table per task with the normalised and
the strict score, and writes every question, answer and trace to --out (one JSON line each; an interrupted run resumes).

Strict is exact text (set recall for lists). Normalised ignores letter case, a missing or doubled ``chr``, yes/no for
TRUE/NA, Latin for common names, surrounding words such as "gene", and gives 0.5 for the right chromosome alone where a
genome position was asked for.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, evaluate
from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Question, Record, digest_of, rows_of
from scripts.evals.harness.tables import markdown_table

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
Gold = str | Sequence[str]


def as_list(value: Gold) -> list[str]:
    parts = re.split(r",\s*|\s+and\s+", value) if isinstance(value, str) else list(value)
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def strict_score(task: str, gold: Gold, answer: str) -> float:
    text = answer.strip()
    if task == _FUNCTION:
        return float(text == gold)
    if not isinstance(gold, str) or task == "Gene disease association":
        wanted = as_list(gold)
        return sum(one in text.split(", ") for one in wanted) / len(wanted)
    return _position(gold, text) if task == _ALIGNMENT else float(text == gold)


def normalised_score(task: str, gold: Gold, answer: str) -> float:
    text = answer.strip().rstrip(".").strip()
    if task == _FUNCTION:
        return _function(str(gold), text)
    if not isinstance(gold, str) or task == "Gene disease association":
        given, wanted = {part.casefold() for part in as_list(text)}, as_list(gold)
        return sum(one.casefold() in given for one in wanted) / len(wanted)
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
    return "chr" + re.sub(r"^(chromosome|chr)\s*", "", text.casefold().strip())


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


def load(path: Path) -> list[Question]:
    """Raises DatasetInvalid."""
    seen: Counter[str] = Counter()
    questions = []
    try:
        for row in rows_of(path):
            name = f"{row['set']}/{row['task']}"
            seen[name] += 1
            questions.append(
                Question(
                    id=f"{name}/{seen[name]:04d}",
                    group=str(row["task"]),
                    text=row["question"],
                    key=row["answer"],
                    messages=({"role": "user", "content": row["question"]},),
                    meta={"set": str(row["set"])},
                )
            )
    except (KeyError, TypeError) as error:
        raise DatasetInvalid(f"{path}: {error!r}") from error
    return questions


def answer_of(record: Record) -> str:
    """The bare answer the server marks; else the text after the last "Answer:"; else the content."""
    marked = record.reply.marked_answer
    return record.reply.text.rsplit("Answer:", 1)[-1].strip().split("\n\n")[0].strip() if marked is None else marked


def scored(record: Record, rule: Callable[[str, Gold, str], float] = normalised_score) -> float:
    """0 for a failed request."""
    return 0.0 if record.failed else rule(record.question.group, record.question.key, answer_of(record))


def table(records: Iterable[Record]) -> str:
    """Markdown, by set and task in the order of the alphabet, with the mean over each set's tasks."""
    grouped: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        grouped[record.question.meta["set"]][record.question.group].append(record)
    rows = []
    for name, tasks in sorted(grouped.items()):
        means = {
            task: [fmean(scored(one, rule) for one in found) for rule in (normalised_score, strict_score)]
            for task, found in sorted(tasks.items())
        }
        rows += [(task, str(len(tasks[task])), *(f"{value:.3f}" for value in both)) for task, both in means.items()]
        macro = (f"{fmean(column):.3f}" for column in zip(*means.values(), strict=True))
        rows.append((f"{name}, macro mean", str(sum(map(len, tasks.values()))), *macro))
    return markdown_table(("task", "n", "normalised", "strict"), rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--task", action="append", default=[], help="only this task (may be given several times)")
    parser.add_argument("--limit", type=int, help="the first questions of each task")
    add_endpoint_arguments(parser, model="arrowhead-small:genegpt", out=Path("runs/geneturing.jsonl"))
    args = parser.parse_args(argv)
    return evaluate(args, lambda: evaluation_of(args.questions, args.task, args.limit), table)


def evaluation_of(path: Path, tasks: Sequence[str], limit: int | None = None) -> Evaluation:
    """Raises DatasetInvalid."""
    everything = load(path)
    chosen = [question for question in everything if not tasks or question.group in tasks]
    if not chosen:
        raise DatasetInvalid("no question matches")
    if limit is not None:
        by_task = defaultdict[str, list[Question]](list)
        for one in chosen:
            by_task[one.group].append(one)
        chosen = [one for some in by_task.values() for one in some[:limit]]
    return Evaluation(name="geneturing", dataset=digest_of(everything), questions=chosen, score=scored)


if __name__ == "__main__":
    sys.exit(main())
