"""Measure condensing: characters and tokens before and after, and whether the gold answer survives.

    python scripts/benchmarks/retrieval/condensing.py DATA_DIR [--tokenizer DIR]

DATA_DIR contains recorded replies (ncbi_replies.jsonl.gz) and questions (geneturing_dev.jsonl). A question's replies
are those to calls with its subject (a symbol, rs number, disease, sequence) and to the ids such a call returned.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.errors import ArrowheadError
from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.parse import parse_reply
from retrieval.ncbi.replies.records import IdList, ParsedReply
from retrieval.types import Focus, NcbiCall, RawReply
from scripts.embedded.tokenizer import build_tokenizer

_SUBJECTS = {
    "Gene alias": r"symbol of (.*)\?",
    "Gene name conversion": r"Convert (\S+) ",
    "Gene location": r"is (\S+) gene",
    "Protein-coding genes": r"Is (\S+) a",
    "Gene SNP association": r"rs(\d+)",
    "SNP location": r"rs(\d+)",
    "SNP gene function": r"rs(\d+)",
    "Gene disease association": r"related to (.*)\?",
    "Disease gene location": r"related to (.*?)\. Let",
    "Human genome DNA aligment": r":([ACGTN]+)",
    "Multi-species DNA aligment": r":([ACGTN]+)",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    call: NcbiCall
    body: str
    parsed: ParsedReply | None
    error: str


def call_of(url: str) -> NcbiCall:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if "Blast.cgi" in parts.path:
        return NcbiCall("blast_put" if query.get("CMD") == "Put" else "blast_get", "", query)
    name = parts.path.rsplit("/", 1)[-1].removesuffix(".fcgi")
    return NcbiCall(name, query.get("db", ""), query)  # type: ignore[arg-type]  # recorded endpoints are known ones


def load(folder: Path) -> list[Recorded]:
    found = []
    with gzip.open(folder / "ncbi_replies.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            call = call_of(row["url"])
            if (".cgi" not in row["url"] and ".fcgi" not in row["url"]) or call.endpoint == "blast_put":
                continue
            try:
                parsed, error = parse_reply(call, RawReply(200, "", row["body"], len(row["body"]))), ""
            except ArrowheadError as failure:
                parsed, error = None, f"{type(failure).__name__}"
            found.append(Recorded(call, row["body"], parsed, error))
    return found


def replies_about(subject: str, replies: list[Recorded], queries: dict[str, set[str]]) -> Iterator[Recorded]:
    ids: set[str] = {subject}
    for reply in replies:
        if reply.call.params.get("term", "").lower() == subject.lower() and isinstance(reply.parsed, IdList):
            ids |= set(reply.parsed.ids)
    for reply in replies:
        asked = set(reply.call.params.get("id", "").split(","))
        if (asked & ids and asked <= ids) or reply.call.params.get("RID") in queries.get(subject, ()):
            yield reply


def golds(task: str, answer: str | list[str]) -> list[str]:
    if task == "Human genome DNA aligment":
        return [str(answer).split(":")[0]]
    if isinstance(answer, list):
        return answer
    return answer.split(", ") if task == "Gene disease association" else [answer]


def in_raw(task: str, gold: str, body: str) -> bool:
    if task in ("Gene location", "SNP location"):
        number = gold.removeprefix("chr")
        return bool(
            re.search(
                rf'"(?:chromosome|chr)":"{number}"|<(?:Chromosome|CHR)>{number}<|^Chromosome: {number};', body, re.M
            )
        )
    if task == "Human genome DNA aligment":
        return bool(re.search(rf"chromosome {gold[3:]}\b", body))
    if task in ("Protein-coding genes", "Multi-species DNA aligment"):
        return False  # the answer's own word stands in no reply
    return bool(re.search(rf"(?<![\w-]){re.escape(gold)}(?![\w-])", body))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--max-chars", type=int, default=1200)
    parser.add_argument("--tokenizer", type=Path, help="a Hugging Face tokenizer.json; default: the embedded model's")
    args = parser.parse_args()
    replies = load(args.data)
    _print_sizes(replies, args)
    _print_golds(replies, args)


def _print_sizes(replies: list[Recorded], args: argparse.Namespace) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(args.tokenizer)) if args.tokenizer else build_tokenizer()
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for reply in replies:
        row = rows[f"{reply.call.endpoint} {reply.call.db}".strip()]
        if reply.parsed is None:
            row[4] += 1
            continue
        text = condense(reply.parsed, Focus(), max_chars=args.max_chars).text
        row[0] += 1
        row[1] += len(tokenizer.encode(reply.body).ids)
        row[2] += len(tokenizer.encode(text).ids)
        row[3] += len(reply.body)
    print(f"{'reply':24}{'n':>6}{'raw tok':>10}{'condensed':>10}{'ratio':>8}{'errors':>8}")
    for name, (n, raw, short, _, errors) in sorted(rows.items()):
        ratio = f"{raw / short:.1f}" if short else "-"
        print(f"{name:24}{n:>6}{raw // max(n, 1):>10}{short // max(n, 1):>10}{ratio:>8}{errors:>8}")
    total = [sum(row[i] for row in rows.values()) for i in range(5)]
    print(f"{'all':24}{total[0]:>6}{total[1]:>10}{total[2]:>10}{total[1] / total[2]:>8.1f}{total[4]:>8}")


def _print_golds(replies: list[Recorded], args: argparse.Namespace) -> None:
    pairs = json.loads((args.data / "blast_pairs.json").read_text())
    queries: dict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        queries[pair["query"]].add(pair["rid"])
    stood: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for line in (args.data / "geneturing_dev.jsonl").read_text().splitlines():
        question = json.loads(line)
        task = question["task"]
        if task not in _SUBJECTS or not (match := re.search(_SUBJECTS[task], question["question"])):
            continue
        for reply in replies_about(match[1], replies, queries):
            if reply.parsed is None:
                continue
            text = condense(reply.parsed, Focus((match[1],)), max_chars=args.max_chars).text
            for gold in golds(task, question["answer"]):
                if in_raw(task, gold, reply.body):
                    stood[task][0] += 1
                    survived = gold.lower() in text.lower()
                    stood[task][1] += survived
                    if not survived:
                        print(f"lost: {task}: {match[1]}: {gold!r} ({reply.call.endpoint} {reply.call.db})")
    for task, (raw, kept) in sorted(stood.items()):
        print(f"gold kept  {task:30}{kept:>5} of {raw}")


if __name__ == "__main__":
    main()
