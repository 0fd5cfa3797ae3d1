"""Compare a literature review on this server with the published program's loop: calls, tokens and wall time.

    python scripts/benchmarks/serving/clinfo.py [--engine transformers --shape 8x512 | --engine scripted]
        [--articles 40] [--failing 0] [--repeat 1]

Both variants read the same articles with the same decisions on one engine. With ``transformers`` and ``vllm`` the
model's weights are random, since speed does not depend on skill; the engine computes as many tokens as such a text
usually has, and returns the decision's text. ``scripted`` computes nothing and waits 2 ms for each letter, all calls
side by side: it shows how many calls have to wait for each other.

"published" is the loop of Clinfo.AI (e89f5): three queries, then yes or no to each article and a summary of each
relevant one, eight calls at once, then one synthesis; each of its calls in the published program also sleeps for two
seconds, which is left out here. "one call" is this server's synthesis alone, its longest call. ``--failing`` sentences
of the synthesis are judged unsupported, so that they are written and judged again. Articles come from memory: search is
not timed.

Tokens: queries 120, a row of the table 150, a summary 150, a synthesis 350, a sentence written again 40, yes or no 2.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import ModelCard
from models.engines.base import Engine, EngineOptions
from models.engines.registry import create_engine
from models.engines.scripted_engine import ByteTokenizer, ScriptedBehaviour, ScriptedEngine
from models.types import Delta, GenerateParams
from retrieval.graph.types import Linked
from scripts.benchmarks.decoding.directed_engine import Directed
from scripts.benchmarks.decoding.random_models import build_model
from server.engine.lifecycle import EngineLifecycle
from server.evidence.passages import PassageService
from server.methods.base import AnswerRequest, Done, Message
from server.methods.clinfo.literature import Article, Fetched, Hear, Hits, Link, Section
from server.methods.clinfo.method import Clinfo, Library
from server.methods.clinfo.options import ClinfoOptions
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.passages import SentenceScores
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

QUESTION = "Which statin lowers cholesterol in adults?"
QUERIES = {"searches": [[{"names": ["statin"], "heading": True}, {"names": ["cholesterol"], "heading": False}]]}
TOKENS = {"queries": 120, "table": 150, "summary": 150, "synthesis": 350, "rewrite": 40, "judgement": 2}
_SENTENCES = 8
# Of the articles, this share is relevant, as in the recorded runs.
_RELEVANT = 0.7
_LETTER_S = 0.002


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    calls: int
    prompt: int
    computed: int
    wall: float


def articles_of(number: int) -> dict[str, Article]:
    """Articles of about 190 words, each with numbers of its own; three in ten are of something else."""
    made = {}
    for n in range(1, number + 1):
        said = (
            f"In trial {n}, the statin lowered cholesterol in adults by {20 + n} percent against {n % 7 + 1} percent "
            f"with placebo, and {100 + n} of {1000 + n} adults had pain of muscles, which was as common with placebo."
        )
        other = f"Site {n} also counted visits, costs and days of work, none of which differed between the groups. "
        parts = (Section("METHODS", other * 3), Section("RESULTS", said), Section("CONCLUSIONS", other * 4))
        title = f"Statin and cholesterol in adults: {'' if is_relevant(n) else 'UNLIKE '}trial {n}"
        made[str(n)] = Article(
            key=f"PMID:{n}", pmid=str(n), title=title, sections=parts, item={"title": title}, url=f"x/{n}"
        )
    return made


def is_relevant(number: int) -> bool:
    return number * 7 % 10 < 10 * _RELEVANT


class Memory:
    """Hold articles as a place that is searched, and as the literature that opens it."""

    name = "memory"

    def __init__(self, articles: Mapping[str, Article]) -> None:
        self._articles = articles

    def check(self, ask: AnswerRequest, options: ClinfoOptions) -> None:
        """Any source will do."""

    def open(self, ask: AnswerRequest, options: ClinfoOptions, hear: Hear) -> tuple[Memory, ...]:
        return (self,)

    def namespaces(self, ask: AnswerRequest, options: ClinfoOptions) -> tuple[str, ...]:
        return ()

    async def compare(self, question: str, texts: Sequence[str]) -> SentenceScores:
        return SentenceScores()

    async def compare_articles(self, question: str, articles: Sequence[Article]) -> SentenceScores:
        return SentenceScores()

    async def nearest(self, question: str, options: ClinfoOptions, most: int) -> Hits | None:
        return None

    async def search(self, term: str, most: int) -> Hits:
        return Hits(len(self._articles), tuple(self._articles))

    async def count(self, term: str) -> int:
        return len(self._articles)

    async def spelled(self, words: Sequence[str]) -> Mapping[str, str]:
        return {}

    async def linked(self, pmids: Sequence[str], link: Link) -> tuple[str, ...]:
        return ()

    async def full_texts(self, pmcs: Sequence[str]) -> Mapping[str, tuple[Section, ...]]:
        return {}

    async def fetch(self, pmids: Sequence[str], seconds: float) -> Fetched:
        return Fetched(tuple(self._articles[pmid] for pmid in pmids))


class NoNames:
    async def link(self, question: str) -> Linked:
        return Linked(mentions=())


def synthesis_of(failing: int) -> str:
    """The synthesis: sentences that cite one article each; ``failing`` of them go beyond it at first."""
    lines = [f" The statin lowered cholesterol in adults{' of all ages' if n <= failing else ''} [{n}]." for n in range(1, _SENTENCES + 1)]  # fmt: skip  # noqa: E501
    return f"{lines[0]}\n\n{''.join(lines[1:])}"


@dataclass(slots=True)
class Decisions:
    """Decide what each call writes, and of which kind it is."""

    failing: int = 0

    def of(self, prompt: str) -> tuple[str, str]:
        if prompt.endswith("TL;DR:"):
            return "synthesis", synthesis_of(self.failing)
        if prompt.endswith("JSON: "):
            is_row = "evidence table" in prompt
            return ("table", json.dumps({})) if is_row else ("queries", json.dumps(QUERIES))
        if prompt.endswith("Summary:"):
            return "summary", "The statin lowered cholesterol. " * 4
        if prompt.endswith("Answer:"):
            denied = "UNLIKE" in prompt or "of all ages" in prompt or "state the contrary" in prompt
            return "judgement", " no" if denied else " yes"
        return "rewrite", f"The statin lowered cholesterol in adults [{self._number(prompt)}]."

    @staticmethod
    def _number(prompt: str) -> str:
        return prompt.rpartition("[")[2].partition("]")[0]


class DirectedReview(Directed):
    """Compute what such a text usually costs, and write what was decided."""

    def __init__(self, inner: Engine, decisions: Decisions) -> None:
        super().__init__(inner, 1, 1)
        self._decisions = decisions

    def fresh(self) -> None:
        """Begin with a prefix cache that is empty."""
        self._salt = f"{time.monotonic()}"

    def _decision(self, prompt: str) -> tuple[str, int]:
        kind, text = self._decisions.of(prompt)
        return text, TOKENS[kind]

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        # Probabilities of random weights would decide instead of the decisions.
        async for delta in super().generate(prompt_ids, replace(params, logprobs=None), request_id):
            yield delta


async def ours(method: Clinfo, number: int) -> tuple[Row, Done]:
    ask = AnswerRequest(
        request_id=f"ours-{time.monotonic()}",
        messages=(Message("user", QUESTION),),
        options={"max_articles": number, "synthesis": "generated", "max_seconds": 3600},
    )
    began = time.perf_counter()
    done: Done | None = None
    async with aclosing(method.answer(ask)) as events:
        async for event in events:
            done = event if isinstance(event, Done) else done
    wall = time.perf_counter() - began
    if done is None or done.outcome != "answered" or len(done.details["review"]["sentences"]) != _SENTENCES:
        raise SystemExit(f"the review did not go as it was decided: {done and done.outcome}")
    usage = done.usage
    return Row("ours", usage.segments, usage.prompt_tokens, usage.computed_tokens, wall), done


async def published(engine: Engine, articles: Mapping[str, Article], at_once: int) -> Row:
    """The published loop; the words of its prompts are ours, as long as its own."""
    made = Generations(engine, f"published-{time.monotonic()}")
    layout = PromptFormatter(engine, ModelCard(name="x", source="x", prompt_form="base"))
    slots = asyncio.Semaphore(at_once)
    system = "You help a physician to find out what the articles that are shown say about the question."

    async def call(user: str, begun: str, tokens: int) -> str:
        async with slots:
            return (await made.write(layout.ids(system, user, begun), GenerateParams(max_tokens=tokens))).text

    async def read(article: Article) -> str:
        shown = f"{article.title}\n{article.text}"
        if not (await call(f"Is this relevant? {QUESTION}\n{shown}", "Answer:", 512)).strip().startswith("y"):
            return ""
        return await call(f"Write what this article found. {QUESTION}\n{shown}", "Summary:", 1024)

    began = time.perf_counter()
    for _ in range(3):
        await call(f"Write a query for PubMed. {QUESTION}", "JSON: ", 1024)
    summaries = [one for one in await asyncio.gather(*map(read, articles.values())) if one]
    await call("\n\n".join(f"[{n}] {text}" for n, text in enumerate(summaries, 1)) + QUESTION, "TL;DR:", 1024)
    wall = time.perf_counter() - began
    name = f"published, {at_once} at once"
    return Row(name, made.usage.segments, made.usage.prompt_tokens, made.usage.computed_tokens, wall)


async def one_call(engine: Engine, method: Clinfo, done: Done, articles: Mapping[str, Article]) -> Row:
    """The synthesis of a review alone, on an empty cache."""
    reader = method.reader_for(
        AnswerRequest(request_id=f"one-{time.monotonic()}", messages=(Message("user", QUESTION),))
    )
    read = [articles[key.removeprefix("PMID:")] for key in done.details["articles_read"]]
    text, _ = reader.entries(QUESTION, read)
    judge = reader.judge
    ids = judge.layout.ids(judge.prompts.system, judge.prompts.synthesis(QUESTION, text), "TL;DR:")
    began = time.perf_counter()
    await judge.generations.write(ids, reader.params)
    wall = time.perf_counter() - began
    usage = judge.generations.usage
    return Row("one call", usage.segments, usage.prompt_tokens, usage.computed_tokens, wall)


def engine_of(args: argparse.Namespace, folder: Path) -> tuple[ModelCard, Engine]:
    decisions = Decisions(args.failing)
    if args.engine == "scripted":
        card = ModelCard(name="scripted", source="scripted", prompt_form="base")
        options = EngineOptions(max_model_len=200_000, block_size=16)
        behaviour = ScriptedBehaviour(token_delay_s=_LETTER_S)
        script: Any = lambda prompt: decisions.of(prompt)[1]  # noqa: E731
        return card, ScriptedEngine(card, options, script, tokenizer=ByteTokenizer(()), behaviour=behaviour)
    card = build_model(folder / "model", args.shape)
    inner = create_engine(args.engine, card, EngineOptions(device=args.device, dtype=args.dtype))
    return card, DirectedReview(inner, decisions)


async def measure(args: argparse.Namespace, folder: Path) -> None:
    card, engine = engine_of(args, folder)
    lifecycle = EngineLifecycle(card, lambda: engine)
    await lifecycle.load()
    settings = RetrievalSettings(encoder="hashing")
    retrieval = build_retrieval(settings, folder / "namespaces")
    articles = articles_of(args.articles)
    passages = PassageService(retrieval, settings)
    method = Clinfo(lifecycle, Library(Memory(articles), passages, NoNames()), 1024)
    turns: list[list[Row]] = []
    await published(engine, dict(list(articles.items())[:2]), 1)  # for warming up
    for _ in range(args.repeat):
        rows = []
        for way in ("ours", "one", "published"):
            if isinstance(engine, DirectedReview):
                engine.fresh()
            if way == "ours":
                row, done = await ours(method, args.articles)
            else:
                row = await (
                    one_call(engine, method, done, articles) if way == "one" else published(engine, articles, 8)
                )
            rows.append(row)
        turns.append(rows)
    print("| way | calls | prompt tokens | computed tokens | wall s | of one call |\n" + "| --- " * 6 + "|")
    for at, row in enumerate(turns[0]):
        ratios = [rows[at].wall / rows[1].wall for rows in turns]
        wall, ratio = statistics.median(rows[at].wall for rows in turns), statistics.median(ratios)
        print(f"| {row.name} | {row.calls} | {row.prompt:,} | {row.computed:,} | {wall:.1f} | {ratio:.1f} |")
    await passages.close()
    await retrieval.close()
    await lifecycle.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("transformers", "vllm", "scripted"), default="transformers")
    parser.add_argument("--shape", default="8x512", help="LAYERSxWIDTH of the model")
    parser.add_argument("--articles", type=int, default=40)
    parser.add_argument("--failing", type=int, default=0, help="sentences that have to be written again")
    parser.add_argument("--repeat", type=int, default=1, help="turns of all ways; medians are shown")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(args, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
