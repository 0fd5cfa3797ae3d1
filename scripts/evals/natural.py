"""Ask a served model questions as people put them, over every method, and tell what each answer amounts to.

    python -m scripts.evals.natural --base-url http://127.0.0.1:8000/v1 [--questions FILE --passages FILE] [--json OUT]

Without files, the 138 questions and 38 passages of scripts/evals/questions. Each line is one question: ``id``,
``method``, ``data`` (``passages`` or ``shipped``), ``kind``, ``question`` (a text, or pairs of role and text), and what
is right: ``must`` and ``must_not`` (patterns), ``yes_no``, ``letter``, ``not_in_data``. The passages are put into a
namespace that is made for the run and removed after it.

An answer is *right*; *refused* where its outcome is abstained, not_found or out_of_scope, rightly if ``not_in_data``;
*undecided* where a yes or no is wanted and none is given; else wrong: *hedged* with the outcome partial, or *sure*.

``--auto`` asks Auto in place of the methods; ``--both`` asks both in turn and tells how many times as long Auto takes.
It *chose right* where it took a method that reads the source of the question's own one: a namespace has several. What
the data do not have is no method's: refusing it is right.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import httpx

from retrieval.corpus.items import ParsedDocument
from retrieval.corpus.readers.registry import guess_reader, reader
from scripts.evals.harness.client import Asker, Target, http_client
from scripts.evals.harness.records import Question, Reply

_SHIPPED: Final = Path(__file__).parent / "questions"
QUESTIONS: Final = _SHIPPED / "natural.jsonl"
PASSAGES: Final = _SHIPPED / "natural_passages.jsonl"
OF_NAMESPACES: Final = frozenset({"medrag", "i-medrag", "weiseeule", "clinfo"})
# Clinfo.ai reads no shipped notes.
OF_NOTES: Final = OF_NAMESPACES - {"clinfo"}
REFUSED: Final = frozenset({"abstained", "not_found", "out_of_scope"})
_JOB_S: Final = 60
_TIMEOUT_S: Final = 60.0
_YES_NO: Final = re.compile(r"(?:TL;DR:)?\W*(yes|no|true|false)\b", re.IGNORECASE)
_SAME: Final = {"true": "yes", "false": "no"}
_LETTER: Final = re.compile(r"\W*([A-H])[.):]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Judged:
    """Hold one answer with what it amounts to."""

    id: str
    method: str
    kind: str
    question: str
    verdict: str
    outcome: str
    text: str
    seconds: float
    answered_by: str = ""
    chose_right: bool = True


def chose_right(row: Mapping[str, Any], answered_by: str, verdict: str) -> bool:
    """Return whether Auto took a method that reads the source of the question's own one."""
    if row["data"] == "passages" or row["method"] in OF_NOTES:
        wanted = OF_NAMESPACES if row["data"] == "passages" else OF_NOTES
    else:
        wanted = frozenset({row["method"]})
    return answered_by in wanted or verdict == "rightly refused"


def verdict_of(row: Mapping[str, Any], outcome: str, text: str) -> str:
    """Return what an answer amounts to; ``text`` without its references."""
    refused = outcome in REFUSED
    if row["not_in_data"]:
        return "rightly refused" if refused else "hedged" if outcome == "partial" and not _said(text) else "sure"
    if refused:
        return "refused"
    wrong = any(re.search(pattern, text) for pattern in row["must_not"])
    if row["yes_no"]:
        said = _said(text)
        if not said:
            return "undecided"
        wrong = wrong or said != row["yes_no"]
    elif row["letter"]:
        letter = _LETTER.match(text)
        wrong = wrong or letter is None or letter[1] != row["letter"]
    wrong = wrong or not all(re.search(pattern, text) for pattern in row["must"])
    return "right" if not wrong else "hedged" if outcome == "partial" else "sure"


def _said(text: str) -> str:
    match = _YES_NO.match(text)
    return _SAME.get(match[1].lower(), match[1].lower()) if match else ""


def question_of(row: Mapping[str, Any], namespace: str, *, is_auto: bool = False) -> Question:
    asked = row["question"]
    turns = [("user", asked)] if isinstance(asked, str) else asked
    options: dict[str, Any] = {"namespaces": [namespace]} if namespace else {}
    if namespace and not is_auto and row["method"] == "clinfo":
        options["sources"] = ["namespaces"]
    messages = tuple({"role": str(role), "content": str(text)} for role, text in turns)
    return Question(
        id=str(row["id"]), group=row["method"], text=turns[-1][1], key=None, messages=messages, arrowhead=options
    )


def documents_of(file: Path) -> list[dict[str, str]]:
    """Return the documents of a file as the API takes them: lines of JSON, or any form that the server reads."""
    if file.suffix == ".jsonl":
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [{"id": row["id"], "title": row["title"], "text": row["content"]} for row in rows]
    parsed = [one for one in reader(guess_reader(file))(file) if isinstance(one, ParsedDocument)]
    return [{"id": one.document.document_id, "title": one.document.title, "text": one.text} for one in parsed]


@asynccontextmanager
async def namespace_of(http: httpx.AsyncClient, address: str, files: Sequence[Path]) -> AsyncIterator[str]:
    """Yield the name of a namespace with the passages of the files; it is removed afterwards."""
    name = f"natural-eval-{secrets.token_hex(4)}"
    documents = [document for file in files for document in documents_of(file)]
    (await http.post(f"{address}/namespaces", json={"name": name})).raise_for_status()
    try:
        path = f"{address}/namespaces/{name}/documents?wait={_JOB_S}"
        job = await http.post(path, json={"documents": documents}, timeout=_JOB_S + 10)
        if job.raise_for_status().json()["state"] != "done":
            raise RuntimeError(f"the passages were not indexed within {_JOB_S} s: {job.text[:300]}")
        yield name
    finally:
        await http.delete(f"{address}/namespaces/{name}")


async def asked(args: argparse.Namespace, rows: Sequence[Mapping[str, Any]]) -> list[list[Judged]]:
    """Return the answers of the method, of Auto, or of both."""
    target = Target(base_url=args.base_url, model=args.model, timeout_s=_TIMEOUT_S, retries=1, traces=False)
    ways = [False, True] if args.both else [args.auto]
    judged: list[list[Judged]] = [[] for _ in ways]

    async def ask(place: int, row: Mapping[str, Any], namespace: str) -> None:
        for is_auto, found in sorted(zip(ways, judged, strict=True), key=lambda one: one[0] != place % 2):
            method = "auto" if is_auto else row["method"]
            own = Target(**{**asdict(target), "model": f"{args.model}:{method}"})
            asking = question_of(row, namespace if method in ("auto", *OF_NAMESPACES) else "", is_auto=is_auto)
            found.append(judged_of(row, await Asker(own, http).ask(asking)))
            if args.show:
                one = found[-1]
                line = f"{one.verdict:16}{one.method:10}{one.answered_by:10}{one.question[:70]!r} {one.text[:110]!r}"
                print(line, flush=True)

    async with http_client(target, 2) as http:
        # A namespace of one's own hides the shipped notes.
        for place, row in enumerate(row for row in rows if row["data"] == "shipped"):
            await ask(place, row, "")
        if of_passages := [row for row in rows if row["data"] != "shipped"]:
            async with namespace_of(http, args.base_url.rstrip("/"), args.passages) as name:
                for place, row in enumerate(of_passages):
                    await ask(place, row, name)
    return judged


def judged_of(row: Mapping[str, Any], reply: Reply) -> Judged:
    outcome = str((reply.arrowhead or {}).get("outcome") or "failed")
    text = reply.text.partition("\nReferences:")[0].strip()
    asked_last = row["question"] if isinstance(row["question"], str) else row["question"][-1][1]
    verdict = "failed" if reply.error else verdict_of(row, outcome, text)
    answered_by = str((reply.arrowhead or {}).get("answered_by") or row["method"])
    is_right = chose_right(row, answered_by, verdict)
    made = (verdict, outcome, text, reply.seconds, answered_by, is_right)
    return Judged(str(row["id"]), row["method"], row["kind"], asked_last, *made)


def summary_of(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return the share that is right or rightly refused, and the counts of each verdict, by method."""
    by_method = {name: [one for one in judged if one.method == name] for name in sorted({o.method for o in judged})}
    return {name: _counts(rows) for name, rows in {"all": list(judged), **by_method}.items()}


def _counts(rows: Sequence[Judged]) -> dict[str, Any]:
    counts = Counter(one.verdict for one in rows)
    return {
        "questions": len(rows),
        "good": round((counts["right"] + counts["rightly refused"]) / len(rows), 3),
        "chose_right": round(sum(one.chose_right for one in rows) / len(rows), 3),
        "median_s": round(median(one.seconds for one in rows), 2),
        **dict(sorted(counts.items())),
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="arrowhead-small")
    parser.add_argument("--questions", type=Path, default=[QUESTIONS], nargs="+")
    parser.add_argument("--passages", type=Path, default=[PASSAGES], nargs="+", help="what questions on passages read")
    parser.add_argument("--method", action="append", help="by default all")
    parser.add_argument("--auto", action="store_true", help="ask Auto, which is not told the method")
    parser.add_argument("--both", action="store_true", help="ask the method and Auto")
    parser.add_argument("--json", type=Path, help="also write the counts and every answer here")
    parser.add_argument("--show", action="store_true", help="print each answer as it comes")
    args = parser.parse_args(argv)
    rows = [json.loads(line) for file in args.questions for line in file.read_text(encoding="utf-8").splitlines()]
    of_ways = asyncio.run(asked(args, [row for row in rows if not args.method or row["method"] in args.method]))
    for name, counts in (pair for judged in of_ways for pair in summary_of(judged).items()):
        print(f"{name:10} " + "  ".join(f"{key} {value}" for key, value in counts.items()))
    if args.both and len(of_ways[0]) > 1:
        times = [auto.seconds / named.seconds for named, auto in zip(*of_ways, strict=True)]
        print("Auto's time against the method's, deciles: " + "  ".join(f"{n:.2f}" for n in quantiles(times, n=10)))
    if args.json:
        told = {"summary": summary_of(of_ways[-1]), "answers": [asdict(one) for one in of_ways[-1]]}
        args.json.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
