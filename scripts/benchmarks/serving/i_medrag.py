"""Compare i-MedRAG's answer on this server with the published program's loop: calls, tokens and wall time.

    python scripts/benchmarks/serving/i_medrag.py [--shape 8x512 | --model arrowhead-tiny] [--dtype bfloat16]
        [--repeat 1]

Both variants run on one engine with the same passages and the same decisions. The model's weights are random (a Llama
of LAYERSxWIDTH, since speed does not depend on skill; its tokenizer is trained on the project's pages) or those of a
model of the catalog. The engine computes as many tokens as such a text usually has, and returns the decision's text.
"serial" is the published loop (MedRAG, medrag.py at 7599a72): query generation, a second call that parses it,
sub-answers one after another with a search each, the answer, and a call that converts it to JSON; history before the
question. It is shown without a prefix cache, as published, and with the engine's own.

A text is as long as the tokens that were computed for it, so that histories grow realistically. Tokens: list 100,
answer 400, JSON 10; a plan 300 where its analysis is free, as published, and 140 where it is limited to 240 characters,
as here; a sub-answer 220 where it may reason, as published, and 140 where four sentences are requested, as here (four
sentences of recorded summaries by models have 79 to 104 words on average, and a word has 1.4 tokens). The last row is
this server with the published lengths. Searches are also timed alone: all queries of a round at once, and one by one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import ModelCard, load_catalog
from models.engines.base import EngineOptions
from models.engines.registry import create_engine
from models.types import GenerateParams
from scripts.benchmarks.decoding.directed_engine import OURS, PUBLISHED, Directed, Lengths, queries_of
from scripts.benchmarks.decoding.random_models import build_model
from server.engine.lifecycle import EngineLifecycle
from server.evidence.passages import PassageService
from server.methods.base import AnswerRequest, Done, Message
from server.methods.i_medrag.method import IMedRag
from server.methods.medrag.reading import read_passages
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.passages import PassageQuery
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

QUESTION = (
    "A 58-year-old man with atrial fibrillation takes a drug that is monitored by the INR. After a course of an "
    "antibiotic his INR is 9 and he bleeds from the gums. Which enzyme does his drug inhibit?"
)
CHOICES = ("Cyclooxygenase", "Vitamin K epoxide reductase", "Thrombin", "Factor Xa")
# The published instructions have 22, 19, 73, 39, 29 and 8 words; these have as many.
SERIAL_SYSTEM = (
    "You are an assistant who knows medicine and helps a physician to answer one question, as all the "
    "messages here tell you."
)
SERIAL_SUB_SYSTEM = (
    "You are an assistant who knows medicine, and you answer one medical question from the documents that are given."
)
SERIAL_ASK = (
    "Begin with a section under the heading Analysis and say there what follows from everything that you were given so "
    "far. A second section under the heading Queries lists {queries} short questions for a library. Make each of them "
    "plain, with one thing that it wants to know, and take the terms that matter from the answers that you "
    "have. Then stop, as answers will come in the next message from the user."
)
SERIAL_PARSE = (
    "Take the queries out of this text as one list. Leave each query as it was written, do not put two of them "
    'together and do not divide one. Write JSON of this form: {"output": ["first query", "last query"]}'
)
SERIAL_FINAL = (
    "Begin with a section under the heading Analysis and think there step by step about everything. A second section "
    "under the heading Answer has the letter of your choice."
)
SERIAL_LETTER = "Write the letter of the answer in JSON."


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    calls: int
    prompt: int
    computed: int
    searches: float
    wall: float


async def ours(method: IMedRag, engine: Directed, args: argparse.Namespace, caches: bool, lengths: Lengths) -> Row:
    engine.begin(lengths, caches=caches)
    options = {"rounds": args.rounds, "queries": args.queries, "k": args.k, "stop": "fixed", "choices": list(CHOICES)}
    ask = AnswerRequest(request_id=f"ours-{caches}", messages=(Message("user", QUESTION),), options=options)
    began = time.perf_counter()
    done: Done | None = None
    async for event in method.answer(ask):
        done = event if isinstance(event, Done) else done
    wall = time.perf_counter() - began
    if done is None or done.details["answer_letter"] != "B" or len(done.details["rounds"]) != args.rounds:
        raise SystemExit("the rounds did not go as they were decided")
    searched = sum(entry["retrieval_s"] for entry in done.details["rounds"])
    name = f"ours, cache {'on' if caches else 'off'}{', published lengths' if lengths == PUBLISHED else ''}"
    return Row(name, done.details["calls"], done.usage.prompt_tokens, done.usage.computed_tokens, searched, wall)


async def serial(service: PassageService, engine: Directed, args: argparse.Namespace, caches: bool) -> Row:
    """The published loop, call by call."""
    engine.begin(PUBLISHED, caches=caches)
    made = Generations(engine, f"serial-{caches}")
    layout = PromptFormatter(engine, ModelCard(name="x", source="x", prompt_form="base"))
    passages = service.open(AnswerRequest(request_id="serial"))
    question = QUESTION + "\n" + "\n".join(f"{chr(65 + n)}. {choice}" for n, choice in enumerate(CHOICES))
    context, searched = "", 0.0
    began = time.perf_counter()

    async def call(user: str, begun: str, tokens: int, system: str = SERIAL_SYSTEM) -> str:
        ids = layout.ids(system, user, begun)
        return (await made.write(ids, GenerateParams(max_tokens=tokens))).text

    for _ in range(args.rounds):
        how = SERIAL_ASK.format(queries=args.queries)
        plan = await call(f"{context}\n\nHere is the question:\n{question}\n\n{how}", "JSON:\n", 768)
        listed = await call(f"{SERIAL_PARSE}\n\n{plan}", "List:\n", 768, "")
        for query in json.loads(listed)["output"]:
            at = time.perf_counter()
            found = await passages.find([query], PassageQuery(k=args.k))
            searched += time.perf_counter() - at
            read = await read_passages(engine, found.lists[0], engine.max_model_len - 1500, None)
            user = f"Here are the documents:\n{read.text}\n\nHere is the question:\n{query}"
            answer = await call(user, "Answer:", 256, SERIAL_SUB_SYSTEM)
            context += f"\n\nQuery: {query}\nAnswer: {answer}"
    user = f"{context}\n\nHere is the question:\n{question}\n\n{SERIAL_FINAL}"
    final = await call(user, "Reasoning:", 1024)
    await call(f"{user}\n\n{final}\n\n{SERIAL_LETTER}", "Letter:\n", 64)
    wall = time.perf_counter() - began
    usage = made.usage
    name = f"serial, cache {'on' if caches else 'off'}"
    return Row(name, usage.segments, usage.prompt_tokens, usage.computed_tokens, searched, wall)


async def searches(service: PassageService, args: argparse.Namespace) -> str:
    passages = service.open(AnswerRequest(request_id="searches"))
    queries = queries_of(0, args.queries)
    wanted = PassageQuery(k=args.k)
    await passages.find(queries, wanted)
    batched, single = [], []
    for _ in range(10):
        began = time.perf_counter()
        await passages.find(queries, wanted)
        batched.append(time.perf_counter() - began)
        began = time.perf_counter()
        for query in queries:
            await passages.find([query], wanted)
        single.append(time.perf_counter() - began)
    both = (1000 * statistics.median(times) for times in (batched, single))
    return "search of a round: {:.1f} ms at once, {:.1f} ms one by one (medians of 10)".format(*both)


def row_of(rows: Sequence[Row], ratios: Sequence[float]) -> str:
    """Of one way: medians, and the range of its part of the serial way's time in the same turn."""
    row, wall = rows[0], statistics.median(one.wall for one in rows)
    ratio = f"{statistics.median(ratios):.2f}" + (f" ({min(ratios):.2f}–{max(ratios):.2f})" if len(ratios) > 1 else "")
    searched = statistics.median(one.searches for one in rows)
    return f"| {row.name} | {row.calls} | {row.prompt:,} | {row.computed:,} | {searched:.2f} | {wall:.1f} | {ratio} |"


async def measure(args: argparse.Namespace, folder: Path) -> None:
    card = load_catalog()[args.model] if args.model else build_model(folder / "model", args.shape)
    # The texts are decided, so any model will do: a card that names other methods would be answered without it.
    card = replace(card, trained_for=None)
    engine = Directed(
        create_engine(args.engine, card, EngineOptions(device=args.device, dtype=args.dtype)), args.rounds, args.queries
    )
    lifecycle = EngineLifecycle(card, lambda: engine)
    await lifecycle.load()
    settings = RetrievalSettings(encoder=args.encoder, device=args.device)
    retrieval = build_retrieval(settings, folder / "namespaces")
    service = PassageService(retrieval, settings)
    method = IMedRag(lifecycle, service, 1024)
    print(await searches(service, args), flush=True)
    print("| way | calls | prompt tokens | computed tokens | search s | wall s | of serial |\n" + "| --- " * 7 + "|")
    await serial(service, engine, argparse.Namespace(rounds=1, queries=1, k=1), False)
    turns: list[list[Row]] = []
    for _ in range(args.repeat):
        turns.append([])
        for lengths, caches in ((None, False), (None, True), (OURS, False), (OURS, True), (PUBLISHED, True)):
            made = ours(method, engine, args, caches, lengths) if lengths else serial(service, engine, args, caches)
            turns[-1].append(await made)
    for rows in zip(*turns, strict=True):
        print(row_of(rows, [row.wall / turn[0].wall for row, turn in zip(rows, turns, strict=True)]))
    await service.close()
    await retrieval.close()
    await lifecycle.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="8x512", help="LAYERSxWIDTH of the model")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--queries", type=int, default=3)
    parser.add_argument("--k", type=int, default=4, help="passages of each query")
    parser.add_argument("--repeat", type=int, default=1, help="turns of all ways; medians are shown")
    parser.add_argument("--model", help="of the catalog, instead of random weights")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--engine", choices=("transformers", "vllm"), default="transformers")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(args, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
