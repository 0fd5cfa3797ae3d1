"""Measure MedRAG or WeiseEule end to end with a small model: BioASQ questions over a corpus that it searches itself.

    python scripts/evals/corpus_reading.py BASE --adapter FOLDER --bioasq FOLDER --work DIR [--method weiseeule] \
        [--forms yesno] [--limit N] [--out FILE]
    python scripts/evals/default_model.py --score FILE

``FOLDER`` holds ``corpus.jsonl.gz`` ({pmid, title, abstract}) and ``questions_dev.jsonl.gz``. Yes/no and factoid
questions that training holds out are asked, by the method, search and engine of the server; ``--work`` keeps the
namespace. Seconds of the import are printed where it is made.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from models.catalog import ModelCard, context_length, with_adapter
from models.engines.base import EngineOptions
from models.engines.registry import create_engine
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.namespaces.settings import NamespaceSettings
from scripts.evals.default_model import SEED, Row, scores, table
from scripts.evals.extractive import parsed, read_rows
from scripts.evals.weiseeule import NoGenes
from scripts.training.tasks.bioasq import FILE, Question, read_questions
from server.engine.lifecycle import EngineLifecycle
from server.evidence.keywords import KeywordService
from server.evidence.passages import PassageService, Retrieval
from server.methods.base import AnswerRequest, Done, Message
from server.methods.medrag.method import MedRag
from server.methods.weiseeule.method import WeiseEule
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

_NAME: Final = "bioasq"
_CORPUS: Final = "corpus.jsonl.gz"
_MAX_ANSWER: Final = 400
_FORMS: Final = ("yesno", "factoid")
_AT_ONCE: Final = 4


def fill(retrieval: Retrieval, corpus: Path) -> None:
    """Import the corpus into a namespace, where it is not there yet."""
    if _NAME in retrieval.namespaces.names():
        return
    retrieval.namespaces.create(_NAME, NamespaceSettings(encoder="minilm"))
    rows, began = read_rows(corpus), time.monotonic()
    add_items(retrieval.namespaces, _NAME, map(parsed, rows))
    print(f"imported {len(rows)} documents in {time.monotonic() - began:.1f} s", file=sys.stderr)


async def ask(method: MedRag | WeiseEule, question: Question, number: int) -> tuple[Row, float]:
    """Return the answer as a row of ``default_model``, with the seconds that it took."""
    request = AnswerRequest(request_id=f"corpus-{number}", messages=(Message("user", question.text),))
    began = time.monotonic()
    last: Done | None = None
    async for event in method.answer(request):
        last = event if isinstance(event, Done) else last
    assert last is not None
    records = (one for key in ("citations", "passages") for one in last.details.get(key, ()) if "number" in one)
    cited = {one["document_id"].removeprefix("PMID:"): one["number"] for one in records}
    gold = [cited[pmid] for pmid in question.pmids if pmid in cited]
    # A citation of any gold article is right; its number is that of the first one cited, 0 where none was found.
    named = [number for number in last.details.get("cited", ()) if number in gold]
    row = Row(
        group=question.form,
        answer=last.answer,
        question=question.text,
        names=question.items,
        yes_no=question.yes_no,
        gold=(named or gold or [0])[0],
        reasoning=str(last.details.get("reasoning", "")),
    )
    return row, time.monotonic() - began


async def run(args: argparse.Namespace) -> None:
    questions = [one for one in read_questions(args.bioasq, held_out=True) if one.form in args.forms]
    random.Random(SEED).shuffle(questions)
    questions = questions[: args.limit] if args.limit else questions
    card = ModelCard(
        name="small",
        source=str(args.base),
        prompt_form="chat",
        context_length=context_length(args.base),
        context_tokens=args.context_tokens,
    )
    card = with_adapter(card, args.adapter) if args.adapter else card
    engine = create_engine("transformers", card, EngineOptions(max_model_len=4096, max_num_seqs=_AT_ONCE))
    lifecycle = EngineLifecycle(card, lambda: engine)
    settings = RetrievalSettings(encoder="minilm")
    retrieval = build_retrieval(settings, args.work)
    service = PassageService(retrieval, settings)
    try:
        fill(retrieval, args.bioasq / _CORPUS)
        await lifecycle.load()
        keywords = KeywordService(retrieval, service, NoGenes())
        made: dict[str, MedRag | WeiseEule] = {
            "medrag": MedRag(lifecycle, service, _MAX_ANSWER),
            "weiseeule": WeiseEule(lifecycle, keywords, _MAX_ANSWER),
        }
        await _answers(made[args.method], questions, args.out)
    finally:
        await service.close()
        await retrieval.close()
        await engine.close()


async def _answers(method: MedRag | WeiseEule, questions: Sequence[Question], out: Path | None) -> None:
    places, rows, seconds = asyncio.Semaphore(_AT_ONCE), list[Row](), list[float]()

    async def one(number: int, question: Question) -> tuple[Row, float]:
        async with places:
            return await ask(method, question, number)

    with out.open("a", encoding="utf-8") if out else nullcontext() as file:
        for done in asyncio.as_completed([one(number, question) for number, question in enumerate(questions)]):
            row, took = await done
            rows.append(row)
            seconds.append(took)
            if file is not None:
                file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
                file.flush()
            print(f"{len(rows)}/{len(questions)}", file=sys.stderr, flush=True)
    print(table(scores(rows)))
    print(f"seconds of an answer, {_AT_ONCE} at once: median {sorted(seconds)[len(seconds) // 2]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path)
    parser.add_argument("--adapter", type=Path)
    parser.add_argument("--bioasq", type=Path, default=Path("../shared/data/qa/bioasq"))
    parser.add_argument("--work", type=Path, default=Path("runs/corpus"), help="keeps the namespace for the next run")
    parser.add_argument("--method", choices=("medrag", "weiseeule"), default="medrag")
    parser.add_argument("--limit", type=int, default=0, help="so many questions, 0 for all")
    parser.add_argument("--context-tokens", type=int, default=1000, help="of passages; by default as arrowhead-small")
    parser.add_argument(
        "--forms", nargs="+", choices=_FORMS, default=_FORMS, help="yes-or-no questions, factoids or both"
    )
    parser.add_argument("--out", type=Path, help="append every question and answer, one JSON line each")
    args = parser.parse_args()
    if missing := [name for name in (FILE, _CORPUS) if not (args.bioasq / name).is_file()]:
        print(f"skipped: {args.bioasq} has no {' and no '.join(missing)}")
        return
    args.work.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(args))


if __name__ == "__main__":
    main()
