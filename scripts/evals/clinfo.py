"""Evaluate literature reviews: BioASQ, PubMedRS-200, the gateway's own sample, and the paper's recorded runs.

    python scripts/evals/clinfo.py corpus bioasq/corpus.jsonl.gz --xml corpus.xml   # then: arrowhead gateway import
    python scripts/evals/clinfo.py bioasq bioasq/questions_dev.jsonl.gz --corpus bioasq/corpus.jsonl.gz \
        --model NAME:clinfo --options '{"sources": ["gateway"]}' --out runs/clinfo.jsonl --plots runs/figures
    python scripts/evals/clinfo.py bioasq questions.jsonl.gz --without-gold --out runs/without.jsonl
    python scripts/evals/clinfo.py reviews pubmedrs200.jsonl.gz --regime rs --out runs/rs.jsonl
    python scripts/evals/clinfo.py sample --out runs/sample.jsonl
    python scripts/evals/clinfo.py recorded clinfo_recorded_runs.jsonl.gz --reviews pubmedrs200.jsonl.gz --paper-compat

Asking writes each record at once; the same command goes on after a kill. ``recorded`` asks nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import correlation, mean
from typing import Any, Final

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from models.encoders.base import TokenEncoder
from models.encoders.registry import create_encoder
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, execute, plan_of
from scripts.evals.harness.errors import EvalError
from scripts.evals.harness.records import Question, Record, digest_of
from scripts.evals.harness.run_file import last_records
from scripts.evals.harness.tables import markdown_table, print_plain
from scripts.evals.review import recorded
from scripts.evals.review.bertscore import bert_score
from scripts.evals.review.data import (
    REGIMES,
    bioasq,
    reviews,
    rows_of,
    sample_questions,
    spread,
    texts_of,
    write_pubmed_xml,
)
from scripts.evals.review.plots import draw
from scripts.evals.review.scoring import (
    Measure,
    answered,
    measure,
    progress_scorer,
    recall_curve,
    reliability,
    summarise,
)

SAMPLE: Final = Path(__file__).parent / "questions" / "articles.jsonl"
# Who wrote articles that recorded runs cite by an author's name.
KNOWN_AUTHORS: Final = Path(__file__).parent / "questions" / "cited_authors.json"


def ask(args: argparse.Namespace, everything: list[Question], console: Console) -> int:
    """Ask the questions that have no record yet, and score all records. Raises EvalError."""
    chosen = spread(everything, args.limit)
    evaluation = Evaluation(
        name=f"clinfo-{args.what}",
        dataset=digest_of(everything),
        questions=chosen,
        score=progress_scorer(),
        form="without-gold" if getattr(args, "without_gold", False) else "plain",
    )
    code = 0 if args.score_only else execute(plan_of(args, evaluation), console, "questions")
    if code == 2 or not args.out.exists():
        return code
    wanted = {one.id for one in chosen}
    records = [record for record in last_records(args.out) if record.question.id in wanted]
    texts = texts_of(args.corpus) if args.corpus else {}
    measures = summarise(records, texts)
    if args.what == "reviews":
        measures |= _both_ways(records, paper_compat=args.paper_compat)
    if args.bertscore:
        measures |= _bert_measures(records)
    print_plain(console, table_of(measures))
    if len(records) < len(chosen):
        print_plain(console, f"{len(records)} of {len(chosen)} questions have a record", "red")
    failed = sum(record.failed for record in records)
    if failed:
        print_plain(console, f"{failed} requests failed and are in no score", "red")
    if args.plots:
        for path in draw(recall_curve(records), reliability(records), args.plots):
            print_plain(console, str(path))
    if args.json:
        told = {name: [one.value, one.low, one.high, one.total] for name, one in measures.items()}
        args.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return code


def _both_ways(records: Sequence[Record], *, paper_compat: bool) -> dict[str, Measure]:
    found: dict[str, list[float]] = {}
    for one in map(answered, (record for record in records if not record.failed)):
        for name, value in recorded.text_scores(
            one.text, one.record.question.meta["ideal"][0], paper_compat=paper_compat
        ).items():
            found.setdefault(f"{name}{' (swapped, as published)' if paper_compat else ''}", []).append(value)
    return {name: measure(values) for name, values in found.items()}


def _bert_measures(records: Sequence[Record]) -> dict[str, Measure]:
    """Return BERTScore of the answers against the reference that each fits best."""
    encoder = token_encoder()
    told = [one for one in map(answered, (record for record in records if not record.failed)) if one.is_answer]
    best = [
        max((bert_score(encoder, one.text, gold) for gold in one.record.question.meta["ideal"]), key=lambda s: s.f1)
        for one in told
        if one.record.question.meta["ideal"]
    ]
    return {
        "ideal answer: BERTScore with MiniLM, precision": measure([one.precision for one in best]),
        "ideal answer: BERTScore with MiniLM, recall": measure([one.recall for one in best]),
        "ideal answer: BERTScore with MiniLM, F1": measure([one.f1 for one in best]),
    }


def table_of(measures: Mapping[str, Measure]) -> str:
    rows = []
    for name, one in measures.items():
        if one.value is not None:
            interval = f"{one.low:.3f}-{one.high:.3f}" if one.high > one.low else ""
            rows.append((name, f"{one.value:.3f}", interval, str(one.total)))
    return markdown_table(("measure", "value", "95 %", "of"), rows)


def recorded_runs(args: argparse.Namespace, console: Console) -> int:
    """Score the recorded runs again. Raises EvalError."""
    runs, rows = list(rows_of(args.runs)), list(rows_of(args.reviews))
    references = {row["pmid"]: row["reference_pmids"] for row in rows}
    answers = {row["pmid"]: row["answer"] for row in rows}
    items = {**_items(KNOWN_AUTHORS), **_items(args.items)}
    found = recorded.retrieval(runs, references)
    print_plain(console, "Found articles against the references of the review:\n")
    names = ("runs", "precision", "recall", "candidates")
    cells = [(short, *(f"{told[name]:.3f}" if name != "runs" else f"{told[name]:.0f}" for name in names)) for short, told in found.items()]  # fmt: skip  # noqa: E501
    print_plain(console, markdown_table(("regime", "runs", "precision", "recall", "recall of candidates"), cells))
    print_plain(console, "\nCitations of the recorded answers:\n")
    faults = recorded.wrong_citations(runs, items)
    first = next(iter(faults.values()))
    print_plain(
        console,
        markdown_table(("regime", *first), [(short, *told.values()) for short, told in faults.items()]),
    )
    for pmid, regime, one in recorded.foreign_citations(runs, items):
        print_plain(console, f"{pmid} {regime}: {one.name} is named for PMID {one.pmid or '?'}, which others wrote")
    for swapped in (False, True) if args.paper_compat else (False,):
        way = "gold and answer swapped, as published" if swapped else "answer against gold"
        print_plain(console, f"\nTexts, {way}:\n")
        compared = recorded.against_recorded(runs, answers, paper_compat=swapped)
        lines = [
            (name, f"{one.computed:.3f}", f"{one.recorded:.3f}", f"{one.same} of {one.total}")
            for name, one in compared.items()
        ]
        print_plain(console, markdown_table(("measure", "computed", "recorded", "within 0.01"), lines))
        if args.bertscore:
            print_plain(console, _bert_line(runs, answers, paper_compat=swapped))
    return 0


def _bert_line(runs: Sequence[Mapping[str, Any]], answers: Mapping[str, str], *, paper_compat: bool) -> str:
    ours, theirs = recorded.bert_scores(runs, answers, token_encoder(), paper_compat=paper_compat)
    alike = correlation([one.f1 for one in ours], theirs)
    means = (mean(values) for values in zip(*((one.precision, one.recall, one.f1) for one in ours), strict=True))
    return (
        "\nBERTScore with MiniLM: precision {:.3f}, recall {:.3f}, F1 {:.3f}".format(*means)
        + f" of {len(ours)}; recorded F1, by another model, {mean(theirs):.3f}, correlation {alike:.2f}"
    )


def token_encoder() -> TokenEncoder:
    """Return the built-in encoder. Raises EvalError."""
    encoder = create_encoder()
    if not isinstance(encoder, TokenEncoder):
        raise EvalError(f"{encoder.name} has no token vectors")
    return encoder


def _items(path: Path | None) -> dict[str, Mapping[str, Any]]:
    """Return CSL items by PMID, from a CSL-JSON array. Raises EvalError."""
    if path is None:
        return {}
    try:
        return {str(item["PMID"]): item for item in json.loads(path.read_text(encoding="utf-8")) if item.get("PMID")}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise EvalError(f"{path}: no CSL-JSON ({error})") from error


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    corpus = commands.add_parser("corpus", help="write a collection as PubMed's XML")
    corpus.add_argument("collection", type=Path)
    corpus.add_argument("--xml", type=Path, required=True)
    for name in ("bioasq", "reviews", "sample"):
        command = commands.add_parser(name)
        if name != "sample":
            command.add_argument("questions", type=Path)
        command.add_argument("--limit", type=int, help="questions of each type, spread over the file")
        command.add_argument("--corpus", type=Path, help="the collection, to check quotes and snippets")
        command.add_argument("--score-only", action="store_true", help="ask nothing, score the records there are")
        command.add_argument("--bertscore", action="store_true", help="also BERTScore, with the built-in encoder")
        command.add_argument("--plots", type=Path, help="write figures into this folder")
        command.add_argument("--json", type=Path, help="write the measures there")
        add_endpoint_arguments(command, model="arrowhead-small:clinfo", out=Path(f"runs/clinfo-{name}.jsonl"))
        if name == "bioasq":
            command.add_argument("--without-gold", action="store_true", help="exclude the gold articles")
        if name == "reviews":
            command.add_argument("--regime", choices=REGIMES, default="rs")
            command.add_argument("--paper-compat", action="store_true", help="swap answer and gold in chrF")
    runs = commands.add_parser("recorded", help="score the paper's recorded runs again")
    runs.add_argument("runs", type=Path)
    runs.add_argument("--reviews", type=Path, required=True)
    runs.add_argument("--items", type=Path, help="CSL-JSON of further articles, to check the named authors")
    runs.add_argument("--bertscore", action="store_true", help="also BERTScore, with the built-in encoder")
    runs.add_argument("--paper-compat", action="store_true", help="also with answer and gold swapped")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    args, console = parser_of().parse_args(argv), Console()
    questions: Mapping[str, Callable[[], list[Question]]] = {
        "bioasq": lambda: bioasq(args.questions, without_gold=args.without_gold),
        "reviews": lambda: reviews(args.questions, args.regime),
        "sample": lambda: sample_questions(SAMPLE),
    }
    try:
        if args.what == "corpus":
            number = write_pubmed_xml(args.collection, args.xml)
            print_plain(console, f"{number} articles in {args.xml}; arrowhead gateway import takes them in")
            return 0
        if args.what == "recorded":
            return recorded_runs(args, console)
        return ask(args, questions[args.what](), console)
    except EvalError as error:
        print_plain(console, str(error), "red")
        return 2


if __name__ == "__main__":
    sys.exit(main())
