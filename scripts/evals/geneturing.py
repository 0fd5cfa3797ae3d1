"""GeneTuring and GeneHop through an OpenAI-compatible endpoint.

    python scripts/evals/geneturing.py QUESTIONS.jsonl --base-url http://127.0.0.1:8000/v1 --model NAME:genegpt

Each line of the questions file: {"set", "task", "question", "answer"}. Prints a table per task with the normalised and
the strict score, and writes every question, answer and trace to --out (one JSON line each; a run that was stopped goes
on where it was).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
from openai import AsyncOpenAI
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from scripts.evals.scoring import normalised_score, strict_score

Row = dict[str, Any]


def answer_of(message: Any) -> str:
    """The bare answer the server marks; else the text after the last "Answer:"; else the content."""
    marked = (getattr(message, "model_extra", None) or {}).get("arrowhead") or {}
    if isinstance(marked, dict) and marked.get("answer") is not None:
        return str(marked["answer"])
    content = (message.content or "").rsplit("Answer:", 1)[-1]
    return content.strip().split("\n\n")[0].strip()


async def ask(client: AsyncOpenAI, model: str, question: str, options: Row) -> Row:
    begun = time.monotonic()
    try:
        completion = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": question}],
            temperature=0,
            extra_body={"arrowhead": options} if options else None,
        )
    except Exception as error:  # one failed question must not end the run: it is shown as an error and scored 0
        return {"reply": "", "error": f"{type(error).__name__}: {error}", "seconds": time.monotonic() - begun}
    usage = completion.usage.model_dump() if completion.usage else {}
    return {
        "reply": answer_of(completion.choices[0].message),
        "id": completion.id,
        "finish_reason": completion.choices[0].finish_reason,
        "usage": usage,
        "seconds": time.monotonic() - begun,
    }


async def fetch_trace(http: httpx.AsyncClient, base_url: str, ident: str) -> Any:
    try:
        response = await http.get(f"{base_url.rstrip('/')}/traces/{ident}")
        return response.json() if response.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None  # other servers keep no traces


class Evaluation:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.options: Row = json.loads(args.options)
        self.client = AsyncOpenAI(base_url=args.base_url, api_key=args.api_key, timeout=args.timeout, max_retries=1)
        self.gate = asyncio.Semaphore(args.concurrency)

    def questions(self) -> list[Row]:
        rows = [json.loads(line) for line in self.args.questions.read_text().splitlines() if line.strip()]
        wanted = set(self.args.task or ())
        return [row for row in rows if not wanted or row["task"] in wanted]

    def finished(self) -> dict[str, Row]:
        if not self.args.out.exists():
            return {}
        rows = [json.loads(line) for line in self.args.out.read_text().splitlines() if line.strip()]
        return {row["question"]: row for row in rows if not row.get("error")}

    async def one(self, http: httpx.AsyncClient, row: Row) -> Row:
        async with self.gate:
            result = await ask(self.client, self.args.model, row["question"], self.options)
            trace = await fetch_trace(http, self.args.base_url, result["id"]) if "id" in result else None
        normalised = normalised_score(row["task"], row["answer"], result["reply"])
        strict = strict_score(row["task"], row["answer"], result["reply"])
        return {**row, **result, "normalised": normalised, "strict": strict, "trace": trace}

    async def run(self) -> list[Row]:
        done = self.finished()
        rows = self.questions()
        todo = [row for row in rows if row["question"] not in done]
        results = [done[row["question"]] for row in rows if row["question"] in done]
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        headers = {"Authorization": f"Bearer {self.args.api_key}"}
        self.args.out.parent.mkdir(parents=True, exist_ok=True)
        with Progress(*columns) as progress, self.args.out.open("a") as out:
            bar = progress.add_task("questions", total=len(rows), completed=len(results))
            async with httpx.AsyncClient(timeout=30, headers=headers, trust_env=False) as http:
                for next_done in asyncio.as_completed([self.one(http, row) for row in todo]):
                    result = await next_done
                    results.append(result)
                    out.write(json.dumps(result, ensure_ascii=False) + "\n")
                    out.flush()
                    progress.advance(bar)
        return results


def summarise(rows: list[Row]) -> dict[str, dict[str, tuple[int, float, float]]]:
    """Per set and task: number of questions, mean normalised score, mean strict score."""
    grouped: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        grouped[row["set"]][row["task"]].append(row)
    return {
        name: {
            task: (len(g), sum(r["normalised"] for r in g) / len(g), sum(r["strict"] for r in g) / len(g))
            for task, g in sorted(tasks.items())
        }
        for name, tasks in sorted(grouped.items())
    }


def print_table(summary: dict[str, dict[str, tuple[int, float, float]]], rows: list[Row]) -> None:
    console = Console()
    for name, tasks in summary.items():
        table = Table("task", "n", "normalised", "strict", title=name)
        for task, (number, normalised, strict) in tasks.items():
            table.add_row(task, str(number), f"{normalised:.3f}", f"{strict:.3f}")
        means = [sum(t[i] for t in tasks.values()) / len(tasks) for i in (1, 2)]
        table.add_row(
            "macro mean", str(sum(t[0] for t in tasks.values())), f"{means[0]:.3f}", f"{means[1]:.3f}", style="bold"
        )
        console.print(table)
    failed = sum(bool(row.get("error")) for row in rows)
    seconds = sorted(row["seconds"] for row in rows)
    console.print(f"{len(rows)} questions, {failed} failed requests, median {seconds[len(seconds) // 2]:.2f} s each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--base-url", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="arrowhead-tiny:genegpt")
    parser.add_argument("--api-key", default=os.environ.get("OPENAI_API_KEY", "none"))
    parser.add_argument("--task", action="append", help="only this task (may be given several times)")
    parser.add_argument("--options", default="{}", help='JSON of method options, e.g. \'{"mask": "slim"}\'')
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--out", type=Path, default=Path("runs/geneturing.jsonl"))
    args = parser.parse_args()
    rows = asyncio.run(Evaluation(args).run())
    if not rows:
        raise SystemExit("no question matches")
    print_table(summarise(rows), rows)


if __name__ == "__main__":
    main()
