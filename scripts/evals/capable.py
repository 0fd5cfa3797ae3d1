"""Play answers of a capable model through every method, and count what the server makes of them.

    python -m scripts.evals.capable --answers FILE [FILE …] [--passages FILE …] [--json OUT] [--show]

Each line of an answers file is one answer: ``id``, ``method``, ``right``, ``kind``, ``question``, ``answer``; for
GeneGPT also ``search_term``, that of its first search. ``{T:Title}`` in an answer stands for the number that the
passage or article of this title has in the prompt (a beginning of the title is enough). Passages are put into a
namespace of a server in this process, with the sample of the gateway and of the graph; a scripted engine writes the
answers. Text between <think> and </think> is left out: engines part it before a method reads a text.

Of the right answers: ``text`` reached the client whole, ``not lowered`` ended as answered without a label against a
sentence. Of the wrong ones: ``labelled`` ended otherwise, or with a label against a sentence.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from models.engines.scripted_engine import ByteTokenizer, ScriptedEngine
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.readers.registry import guess_reader, reader
from server.app import create_app
from server.settings.schema import Settings
from server.wiring.bootstrap import build_services

NAMESPACE: Final = "played"
CONTEXT: Final = 131_072
_EUTILS: Final = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
_TITLE: Final = re.compile(r"\{T:([^}]*)\}")
_CHOICES: Final = re.compile(r"^A[.)] ", re.MULTILINE)
_THINK: Final = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
_IDS: Final = re.compile(r"\[\d+(?: of \d+)? ids?: ([\d, ]+)")
_MARKS: Final = re.compile(r"\s*\[\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*\]")
_OF_NAMESPACES: Final = frozenset({"medrag", "i-medrag", "weiseeule"})
_ENTRY: Final = re.compile(r"^\[(\d+)\] (?:\([^)]*\) )?(.*)$", re.MULTILINE)
# No passage has this number: one that an answer cites and that was not found.
_NOWHERE: Final = 97


@dataclass(frozen=True, slots=True)
class Played:
    """``shown``: the text that a client got, without the server's own ending. ``labels``: clauses against sentences."""

    id: str
    method: str
    right: bool
    kind: str
    is_whole: bool
    outcome: str
    labels: tuple[str, ...]
    shown: str

    @property
    def is_lowered(self) -> bool:
        return self.outcome != "answered" or bool(self.labels)


class Player:
    """A script for the engine: what a capable model writes to each prompt of a method, to end in ``answer``."""

    def __init__(self) -> None:
        self.row: Mapping[str, Any] = {}
        self._cited: list[str] = []

    def play(self, row: Mapping[str, Any]) -> None:
        self.row, self._cited = row, []

    def __call__(self, prompt: str) -> str:
        if not self.row:
            return "."  # the grammar is warmed up
        method = self.row["method"]
        if method == "genegpt":
            return self._genegpt(prompt)
        if "Write JSON:" in prompt[-1500:] and "queries" in prompt[-1500:]:
            return json.dumps({"analysis": "The passages have to be read.", "queries": [self.row["question"]]})
        if method == "i-medrag" and "You ask short questions of your own" not in prompt:
            return self._sub_answer(prompt)
        if method in _OF_NAMESPACES and "First think step by step" in prompt and not prompt.endswith("Answer:"):
            return self.answer(prompt) if self._letter else "I read the passages."
        if prompt.endswith("Answer:") and self._letter:
            return f" {self._letter}"
        if method == "clinfo":
            return self._clinfo(prompt)
        return self.answer(prompt)

    @property
    def _letter(self) -> str:
        """The letter in which an answer to a question with choices ends, "" for another answer."""
        letters = re.findall(r"\b[A-E]\b", self.row["answer"]) if _CHOICES.search(self.row["question"]) else []
        return letters[-1] if letters else ""

    def answer(self, prompt: str) -> str:
        text = _THINK.sub("", self.row["answer"])
        return _TITLE.sub(lambda found: f"[{self._number(found[1], prompt)}]", text)

    def _number(self, title: str, prompt: str) -> int:
        if self.row["method"] == "i-medrag":
            return self._cited.index(title) + 1 if title in self._cited else _NOWHERE
        return number_of(title, prompt)

    def _sub_answer(self, prompt: str) -> str:
        """Cite the passages that the answer cites, in its order, so that the run's numbers are theirs.

        Where it names none, the passage with most of its words.
        """
        titles = dict.fromkeys(_TITLE.findall(self.row["answer"]))
        self._cited = [title for title in titles if number_of(title, prompt) != _NOWHERE]
        numbers = [number_of(title, prompt) for title in self._cited] or [self._nearest(prompt)]
        return f"The passages answer this {''.join(f'[{number}]' for number in numbers)}."

    def _nearest(self, prompt: str) -> int:
        words = set(re.findall(r"\w+", self.row["answer"].casefold()))
        passages = re.split(r"^(?=\[\d+\] )", prompt, flags=re.MULTILINE)[1:]
        best = max(passages, key=lambda one: len(words & set(re.findall(r"\w+", one.casefold()))), default="[1] ")
        return int(best[1 : best.index("]")])

    def _clinfo(self, prompt: str) -> str:
        if "different searches" in prompt or "evidence table" in prompt:
            return "{}"
        if prompt.endswith("Answer:"):
            return " no" if "state the contrary" in prompt else " yes"
        return self.answer(prompt)

    def _genegpt(self, prompt: str) -> str:
        turn = prompt.rsplit(f"Question: {self.row['question']}", 1)[-1]
        if "esummary.fcgi" in turn or ("esearch.fcgi" in turn and not _IDS.search(turn)):
            return f"Answer: {self.answer(prompt)}\n\n"
        if ids := _IDS.search(turn):
            listed = ids[1].replace(" ", "").strip(",")
            return f"[{_EUTILS}/esummary.fcgi?db=gene&retmax=5&retmode=json&id={listed}]->"
        term = self.row.get("search_term", "").replace(" ", "+")
        return f"[{_EUTILS}/esearch.fcgi?db=gene&retmax=5&retmode=json&sort=relevance&term={term}]->"


def number_of(title: str, prompt: str) -> int:
    numbers = (int(found[1]) for found in _ENTRY.finditer(prompt) if found[2].startswith(title))
    return next(numbers, _NOWHERE)


@asynccontextmanager
async def client(passages: Sequence[Path], player: Callable[[str], str]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server in this process, over the scripted engine and the data that ship."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate(_fields(Path(folder)))
        services = build_services(
            settings, engine=lambda card, options: ScriptedEngine(card, options, player, tokenizer=ByteTokenizer())
        )
        services.start()
        await services.loaded()
        if passages:
            await asyncio.to_thread(fill, services.retrieval.namespaces, passages)
        transport = httpx.ASGITransport(create_app(services))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=600) as http:
            yield http
        await services.close()


def _fields(folder: Path) -> dict[str, Any]:
    script = folder / "script.json"
    script.write_text("[]")
    return {
        "model": {
            "engine": "scripted",
            "script": str(script),
            "served_name": "capable",
            "prompt_form": "chat",
            "max_model_len": CONTEXT,
        },
        "verifier": {"served_model": "off"},
        "retrieval": {"data_dir": str(folder / "namespaces")},
        "graph": {"data_dir": str(folder / "graphs")},
        "ncbi": {"cache_path": str(folder / "cache.sqlite")},
        "audit": {"path": str(folder / "audit.jsonl")},
        "egress": {"mode": "off"},
    }


def fill(namespaces: Namespaces, files: Sequence[Path]) -> None:
    namespaces.create(NAMESPACE, NamespaceSettings(encoder="minilm"))
    for path in files:
        add_items(namespaces, NAMESPACE, reader(guess_reader(path))(path))


async def play(rows: Sequence[Mapping[str, Any]], http: httpx.AsyncClient, player: Player) -> list[Played]:
    played = []
    for row in rows:
        player.play(row)
        searches = row["method"] == "clinfo" or row["method"] in _OF_NAMESPACES
        options: dict[str, Any] = {"namespaces": [NAMESPACE]} if searches else {}
        options |= {"rounds": 1} if row["method"] == "i-medrag" else {}
        body = {
            "model": f"capable:{row['method']}",
            "messages": [{"role": "user", "content": row["question"]}],
            "arrowhead": options,
        }
        reply = await http.post("/v1/chat/completions", json=body)
        played.append(_read(row, reply.json(), reply.status_code))
        print(".", end="", flush=True, file=sys.stderr)
    return played


def _read(row: Mapping[str, Any], reply: Mapping[str, Any], status: int) -> Played:
    facts = (row["id"], row["method"], row["right"], row["kind"])
    if status != 200:
        return Played(*facts, False, f"error {status}", (), json.dumps(reply)[:300])
    content, told = reply["choices"][0]["message"]["content"], reply["choices"][0]["message"]["arrowhead"]
    sentences = told.get("support", {}).get("sentences", [])
    against = [one for one in sentences if one["verdict"] in ("unsupported", "contradicted")]
    labels = tuple(
        found["detail"] for one in against for found in one["mismatches"] or [{"detail": "not stated by its source"}]
    )
    # The reasoning about choices comes on a channel of its own.
    written = f"{reply['choices'][0]['message'].get('reasoning_content') or ''}\n{content}"
    is_whole = plain(content).startswith(plain(row["answer"])) or (
        _CHOICES.search(row["question"]) is not None and plain(row["answer"]) in plain(written)
    )
    return Played(*facts, is_whole, told.get("outcome", ""), labels, content)


def plain(text: str) -> str:
    """Without marks, markup of choices and white space, which rendering may set."""
    text = _MARKS.sub("", _TITLE.sub("", _THINK.sub("", text)))
    return re.sub(r"\s+([.,;:])", r"\1", " ".join(text.split()))


def table(played: Iterable[Played]) -> str:
    groups: dict[str, list[Played]] = defaultdict(list)
    for one in played:
        groups[one.method].append(one)
        groups["all"].append(one)
    lines = ["| method | right: text whole | not lowered | wrong: labelled |", "| --- | --- | --- | --- |"]
    for name in sorted(groups, key=lambda name: (name == "all", name)):
        right = [one for one in groups[name] if one.right]
        wrong = [one for one in groups[name] if not one.right]
        lines.append(
            f"| {name} | {_share(one.is_whole for one in right)} | {_share(not one.is_lowered for one in right)} | "
            f"{_share(one.is_lowered for one in wrong)} |"
        )
    lines += ["", "| kind of fault | labelled |", "| --- | --- |"]
    kinds: dict[str, list[Played]] = defaultdict(list)
    for one in groups["all"]:
        if not one.right:
            kinds[one.kind].append(one)
    lines += [f"| {kind} | {_share(one.is_lowered for one in found)} |" for kind, found in sorted(kinds.items())]
    return "\n".join(lines)


def _share(values: Iterable[bool]) -> str:
    every = list(values)
    return f"{sum(every)} of {len(every)}" + (f" ({sum(every) / len(every):.0%})" if every else "")


async def run(answers: Sequence[Path], passages: Sequence[Path]) -> list[Played]:
    rows = [row for path in answers for row in _lines(path)]
    player = Player()
    async with client(passages, player) as http:
        return await play(rows, http, player)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, nargs="+", required=True)
    parser.add_argument("--passages", type=Path, nargs="+", default=[], help="files of any form that a namespace takes")
    parser.add_argument("--json", type=Path, help="write every answer with its labels here")
    parser.add_argument("--show", action="store_true", help="print the right answers that were lowered and the rest")
    args = parser.parse_args(argv)
    played = asyncio.run(run(args.answers, args.passages))
    print(table(played))
    if args.show:
        for one in played:
            if one.right == one.is_lowered or not one.is_whole:
                print(f"\n{one.id} {one.method} {'right' if one.right else 'wrong'} ({one.kind}): {one.outcome}")
                print(f"  {'; '.join(one.labels)}\n  {one.shown[:600]}")
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in played], ensure_ascii=False, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
