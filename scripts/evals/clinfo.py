"""Evaluate literature reviews: BioASQ, PubMedRS-200 and the gateway's own sample.

    python scripts/evals/clinfo.py corpus bioasq/corpus.jsonl.gz --xml corpus.xml   # then: arrowhead gateway import
    python scripts/evals/clinfo.py bioasq bioasq/questions_dev.jsonl.gz --corpus bioasq/corpus.jsonl.gz \
        --model NAME:clinfo --options '{"sources": ["gateway"]}' --out runs/clinfo.jsonl
    python scripts/evals/clinfo.py bioasq questions.jsonl.gz --without-gold --out runs/without.jsonl
    python scripts/evals/clinfo.py reviews pubmedrs200.jsonl.gz --regime rs --out runs/rs.jsonl
    python scripts/evals/clinfo.py sample --out runs/sample.jsonl

Asking writes each record at once; the same command goes on after a kill.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args
from xml.sax.saxutils import escape

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.clinfo_measures import Measure, answered, measure, recall, summarise
from scripts.evals.harness.command import Evaluation, add_endpoint_arguments, execute, plan_of, records_of
from scripts.evals.harness.errors import DatasetInvalid, EvalError
from scripts.evals.harness.records import Question, Record, Row, digest_of, rows_of
from scripts.evals.harness.tables import markdown_table, print_plain

SAMPLE: Final = Path(__file__).parent / "questions" / "articles.jsonl"
# How the paper keeps a review that a question comes from out of the evidence: search up to the day before it (RS), all
# but the review itself (SD), everything (US).
Regime = Literal["rs", "sd", "us"]
REGIMES: Final[tuple[Regime, ...]] = get_args(Regime)


def bioasq(path: Path, *, without_gold: bool = False) -> list[Question]:
    """BioASQ's questions; ``without_gold`` removes their articles, so that the right answer is an abstention.

    Raises:
        DatasetInvalid
    """
    found = []
    for row in rows_of(path):
        try:
            gold = [str(pmid) for pmid in row["gold_pmids"]]
            exact, meta = row.get("exact"), {"ideal": row.get("ideal") or [], "snippets": row.get("snippets") or []}
            limits = {"exclude_pmids": gold} if without_gold and gold else {}
            found.append(_question(row, str(row["type"]), exact, limits, {"gold": gold, **meta}))
        except (KeyError, TypeError) as error:
            raise DatasetInvalid(f"a question without {error}") from error
    return found


def sample_questions(path: Path) -> list[Question]:
    """The questions on the gateway's own sample; those on retracted articles alone have no evidence.

    Raises:
        DatasetInvalid
    """
    return [
        _question(row, row["type"], row["exact"], {}, {"gold": [] if row["type"] == "retracted" else row["pmids"]})
        for row in rows_of(path)
    ]


def reviews(path: Path, regime: Regime) -> list[Question]:
    """The questions of PubMedRS-200, under one regime. Raises DatasetInvalid."""
    found = []
    for row in rows_of(path):
        limits: dict[str, Any] = {"rs": {"date_to": row.get("restrict_until")}, "sd": {"exclude_pmids": [row["pmid"]]}}
        meta = {"gold": row["reference_pmids"], "ideal": [row["answer"]]}
        found.append(_question(row, regime, row["answer"], limits.get(regime, {}), meta))
    return found


def _question(row: Row, group: str, key: Any, limits: Mapping[str, Any], meta: Mapping[str, Any]) -> Question:
    return Question(
        id=str(row["id"] if "id" in row else row["pmid"]),
        group=group,
        text=row["question"],
        key=key,
        messages=({"role": "user", "content": row["question"]},),
        arrowhead=limits,
        meta={"ideal": [], "snippets": [], **meta},
    )


def spread(questions: Sequence[Question], limit: int | None) -> list[Question]:
    """At most ``limit`` of each group, evenly over the file."""
    if not limit:
        return list(questions)
    chosen: list[Question] = []
    for group in dict.fromkeys(one.group for one in questions):
        of_group = [one for one in questions if one.group == group]
        chosen += of_group[:: max(1, len(of_group) // limit)][:limit]
    return chosen


def write_pubmed_xml(path: Path, out: Path) -> int:
    """Write a collection as PubMed's XML, for ``arrowhead gateway import``, and return the number of articles.

    A date is not in the collection, except for reviews. Raises DatasetInvalid.
    """
    number = 0
    with out.open("w", encoding="utf-8") as file:
        file.write("<?xml version='1.0' encoding='utf-8'?>\n<PubmedArticleSet>\n")
        for number, row in enumerate(rows_of(path), 1):  # noqa: B007 - the count of the last one
            file.write(_element(row))
        file.write("</PubmedArticleSet>\n")
    return number


def _element(row: Row) -> str:
    published = str(row.get("published") or "")
    date = f"<PubDate><Year>{published[:4]}</Year></PubDate>" if published else "<PubDate></PubDate>"
    types = "".join(f"<PublicationType>{escape(name)}</PublicationType>" for name in row.get("types") or ())
    return (
        f"<PubmedArticle><MedlineCitation><PMID>{row['pmid']}</PMID><Article><Journal><JournalIssue>{date}"
        f"</JournalIssue></Journal><ArticleTitle>{escape(row['title'])}</ArticleTitle><Abstract><AbstractText>"
        f"{escape(row['abstract'])}</AbstractText></Abstract><PublicationTypeList>{types}</PublicationTypeList>"
        "</Article></MedlineCitation></PubmedArticle>\n"
    )


def ask(args: argparse.Namespace, everything: list[Question], console: Console) -> int:
    """Ask the questions that have no record yet, and score all records. Raises EvalError."""
    chosen = spread(everything, args.limit)
    evaluation = Evaluation(
        name=f"clinfo-{args.what}",
        dataset=digest_of(everything),
        questions=chosen,
        score=lambda record: recall(answered(record).kept, record.question.meta["gold"]),
        form="without-gold" if getattr(args, "without_gold", False) else "plain",
    )
    code = 0 if args.score_only else execute(plan_of(args, evaluation), console)
    if code == 2 or not args.out.exists():
        return code
    records = records_of(args.out, chosen)
    texts = (
        {str(row["pmid"]): f"{row['title']}\n{row['abstract']}" for row in rows_of(args.corpus)} if args.corpus else {}
    )
    measures = summarise(records, texts)
    if args.what == "reviews":
        measures |= _paper_measures(records)
    print_plain(console, table_of(measures))
    if len(records) < len(chosen):
        print_plain(console, f"{len(records)} of {len(chosen)} questions have a record", "red")
    if args.json:
        told = {name: [one.value, one.low, one.high, one.total] for name, one in measures.items()}
        args.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return code


def _paper_measures(records: Sequence[Record]) -> dict[str, Measure]:
    """chrF and ROUGE-L of the answers against the reviews' own, by the libraries that the paper used."""
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu import sentence_chrf

    told = [(answered(record).text, record.question.meta["ideal"][0]) for record in records if not record.failed]
    scorer = RougeScorer(["rougeL"])
    return {
        "chrF": measure([sentence_chrf(text, [gold]).score for text, gold in told]),
        "ROUGE-L": measure([scorer.score(gold, text)["rougeL"].fmeasure for text, gold in told]),
    }


def table_of(measures: Mapping[str, Measure]) -> str:
    rows = []
    for name, one in measures.items():
        if one.value is not None:
            interval = f"{one.low:.3f}-{one.high:.3f}" if one.high > one.low else ""
            rows.append((name, f"{one.value:.3f}", interval, str(one.total)))
    return markdown_table(("measure", "value", "95 %", "of"), rows)


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
        command.add_argument("--json", type=Path, help="write the measures there")
        add_endpoint_arguments(command, model="arrowhead-small:clinfo", out=Path(f"runs/clinfo-{name}.jsonl"))
        if name == "bioasq":
            command.add_argument("--without-gold", action="store_true", help="exclude the gold articles")
        if name == "reviews":
            command.add_argument("--regime", choices=REGIMES, default="rs")
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
        return ask(args, questions[args.what](), console)
    except EvalError as error:
        print_plain(console, str(error), "red")
        return 2


if __name__ == "__main__":
    sys.exit(main())
