"""Measure whether a small model loses what stands in the middle: the gold passage at each place among others.

    python scripts/evals/passage_order.py BASE [--adapter FOLDER] [--bioasq FOLDER] [--limit N] [--served] [--out FILE]
    python scripts/evals/passage_order.py --score FILE …

A yes/no or factoid question of BioASQ that training holds out is asked ``--passages`` times, with the same passages and
the gold one at the first place, the second, and so on. Model, prompts and scores are those of ``default_model.py``. A
question is left out where the passages do not fit into the context.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.default_model import SEED, Greedy, Item, Row, Served, others_of, scores
from scripts.evals.harness.intervals import bootstrap_mean, paired
from scripts.evals.harness.tables import markdown_table
from scripts.training.tasks.bioasq import FILE, Question, read_questions
from scripts.training.tasks.bioasq_tasks import asked_of
from scripts.training.tasks.reading import Asked, ReadingTasks, Source, numbers_of
from scripts.training.tasks.samples import Writer

PASSAGES: Final = 8
_FORMS: Final = ("yesno", "factoid")
_RIGHT: Final = ("yes/no", "factoid, lenient")
_CITED: Final = "gold passage cited"
_SILENT: Final = "says so wrongly"


def placed_items(writer: Writer, questions: Sequence[Question], passages: int, limit: int) -> list[Item]:
    """Return ``limit`` questions, 0 for all, each with its gold passage at each place, the first place first."""
    tasks, items = ReadingTasks(writer), list[Item]()
    for at, question in enumerate(questions):
        if limit and len(items) >= limit * passages:
            break
        if question.form not in _FORMS:
            continue
        draw = random.Random(f"{SEED}:{question.question_id}")
        snippet = draw.choice(question.support())
        gold = Source(f"PMID:{snippet.pmid}", snippet.text)
        asked = asked_of(question, [gold])
        others = others_of(questions, at, draw, passages - 1)
        if asked is not None and len(others) == passages - 1:
            items += _at_each_place(tasks, question, asked, (gold, others))
    return items


def _at_each_place(
    tasks: ReadingTasks, question: Question, asked: Asked, sources: tuple[Source, Sequence[Source]]
) -> list[Item]:
    """Return a question once for each place, () where the passages do not fit."""
    gold, others = sources
    items = []
    for place in range(len(others) + 1):
        context = tasks.context([*others[:place], gold, *others[place:]], "rank")
        if len(context.passages) <= len(others) or numbers_of(context, [gold.key]) != (place + 1,):
            return []
        sample = tasks.sample(context, asked, "reasoned")
        items.append(Item(question.form, sample, question.items, question.yes_no, place + 1, context))
    return items


def by_place(rows: Iterable[Row]) -> dict[int, dict[str, dict[str, float]]]:
    """Return whether each question was answered rightly, with its citation, or not, by place and measure."""
    found: dict[int, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        values = {name: value for name, (value, *_) in scores([row]).items()}
        right = next(values[name] for name in _RIGHT if name in values)
        for name, value in (("right", right), ("gold cited", values[_CITED]), ("says nothing", values[_SILENT])):
            found[row.gold][name][row.question] = value
    return dict(sorted(found.items()))


def place_table(found: dict[int, dict[str, dict[str, float]]]) -> str:
    """Return shares by place, with 95 % bootstrap intervals."""
    names = list(next(iter(found.values())))
    rows = [[str(place), str(len(one[names[0]])), *(_share(one[name].values()) for name in names)]
            for place, one in found.items()]  # fmt: skip
    return markdown_table(["place of the gold passage", "n", *names], rows)


def middle_table(found: dict[int, dict[str, dict[str, float]]]) -> str:
    """Return what the places in the middle make worse than the first and the last, by question."""
    first, *middle, last = found
    rows = []
    for name in found[first]:
        questions = [one for one in found[first][name] if all(one in found[place][name] for place in found)]
        if questions:
            at_ends = [(found[first][name][one] + found[last][name][one]) / 2 for one in questions]
            between = [sum(found[place][name][one] for place in middle) / len(middle) for one in questions]
            change = paired(at_ends, between)
            interval = f"{change.interval.low:+.2f} to {change.interval.high:+.2f}"
            rows.append([name, str(len(questions)), f"{change.first:.2f}", f"{change.second:.2f}",
                         f"{change.difference:+.2f} ({interval})"])  # fmt: skip
    return markdown_table(["measure", "n", "first and last", "middle", "difference"], rows)


def _share(values: Iterable[float]) -> str:
    some = list(values)
    interval = bootstrap_mean(some)
    return f"{sum(some) / len(some):.2f} ({interval.low:.2f} to {interval.high:.2f})"


def report(rows: Sequence[Row]) -> str:
    found = by_place(rows)
    tables = [place_table(found)] + ([middle_table(found)] if len(found) > 2 else [])
    return "\n\n".join(tables)


def main() -> None:
    args = _arguments()
    if args.score:
        lines = [line for file in args.score for line in file.read_text(encoding="utf-8").splitlines()]
        print(report([Row(**json.loads(line)) for line in lines]))
        return
    if not (args.bioasq / FILE).is_file():
        print(f"skipped: {args.bioasq} has no {FILE}")
        return
    questions = read_questions(args.bioasq, held_out=True)
    random.Random(SEED).shuffle(questions)
    decoder = (Served if args.served else Greedy)(args.base, args.adapter, args.batch)
    items = placed_items(decoder.writer, questions, args.passages, args.limit)
    rows: list[Row] = []
    with args.out.open("a", encoding="utf-8") if args.out else nullcontext() as out:
        for batch in decoder.rows(items):
            rows += batch
            if out is not None:
                out.write("".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in batch))
                out.flush()
            print(f"{len(rows)}/{len(items)}", file=sys.stderr, flush=True)
    print(report(rows) if rows else "no question whose passages fit")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, nargs="?")
    parser.add_argument("--adapter", type=Path)
    parser.add_argument("--bioasq", type=Path, default=Path("../shared/data/qa/bioasq"))
    parser.add_argument("--passages", type=int, default=PASSAGES, choices=range(3, 9), metavar="K", help="3 to 8")
    parser.add_argument("--limit", type=int, default=0, help="so many questions, 0 for all")
    parser.add_argument("--served", action="store_true", help="with the product's engine and its choice of sentences")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--out", type=Path, help="append every question and answer, one JSON line each")
    parser.add_argument("--score", type=Path, nargs="+", help="print the tables of such files, and ask nothing")
    args = parser.parse_args()
    if args.base is None and not args.score:
        parser.error("give the folder of a model, or --score FILE")
    return args


if __name__ == "__main__":
    main()
