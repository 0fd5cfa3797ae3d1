"""The real engines write the same: greedy, float32, same weights, across intercepted calls too.

The remote engine over two replicas behind HAProxy too; starting these takes a minute (``long``).
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from models.catalog import EMBEDDED_DIR, ModelRequest, card_from_request
from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.grammar import call_grammar, forced_call_grammar
from models.decoding.types import Call, CallFinished, CallReply, CallSyntax, LoopDone, LoopEvent, LoopLimits
from models.engines.base import Engine, EngineOptions, RemoteOptions
from models.engines.registry import create_engine
from models.engines.remote_engine.engine import RemoteEngine
from models.engines.transformers_engine.engine import TransformersEngine
from models.types import GenerateParams, Grammar
from scripts.benchmarks.serving.vllm_replica import VllmReplica, launch, router, vllm_replicas, wait_until_healthy

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="session")]

NAME = "served"
QUESTIONS = (
    "What is the official gene symbol of LMP10?",
    "Which gene is SNP rs1217074595 associated with?",
    "Which chromosome is FAM66D gene located on human genome?",
    "What are genes related to Meesmann corneal dystrophy?",
)
CALLS = r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/esearch\.fcgi\?db=(gene|snp)&term=[A-Za-z0-9+]{1,40}"
ANY_CALL = CallSyntax("[https://", "]->", lambda text: re.fullmatch(r"https://[ -Z\\^-~]{3,2000}", text) is not None)
REPLY = "[5699: PSMB10 | proteasome 20S subunit beta 10 | human | 16q22.1]\n"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def transformers_engine(real_model: Path) -> AsyncIterator[TransformersEngine]:
    card = card_from_request(ModelRequest(source=str(real_model)))
    engine = TransformersEngine(card, EngineOptions(dtype="float32", device="cpu", max_num_seqs=8))
    await engine.start()
    yield engine
    await engine.close()


@pytest.fixture(scope="module")
def replicas(real_model: Path) -> Iterator[list[VllmReplica]]:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("the vLLM package is not installed")
    with vllm_replicas(2, real_model, NAME, ("--max-num-seqs", "8")) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def remote_engine(
    real_model: Path, replicas: list[VllmReplica], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RemoteEngine]:
    if shutil.which("haproxy") is None:
        pytest.skip("HAProxy is not installed")
    card = card_from_request(ModelRequest(source=str(real_model), served_name=NAME))
    with router([one.url for one in replicas], tmp_path_factory.mktemp("router")) as url:
        engine = RemoteEngine(card, EngineOptions(remote=RemoteOptions(url=url, start_s=300.0, wait_s=60.0)))
        await engine.start()
        yield engine
        await engine.close()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("vllm_engine", marks=pytest.mark.xdist_group("vllm")),
        pytest.param("remote_engine", marks=pytest.mark.long),
    ],
)
def vllm_based(request: pytest.FixtureRequest) -> Engine:
    """vLLM in this process, or in those of two replicas."""
    engine: Engine = request.getfixturevalue(request.param)
    return engine


async def reply_to(call: Call) -> CallReply:
    return CallReply(REPLY, "ok")


async def events_of(engine: Engine, question: str, grammar: Grammar | None = None) -> list[LoopEvent]:
    request = LoopRequest(
        prompt_ids=tuple(engine.tokenizer.encode(f"Question: {question}\n")),
        params=GenerateParams(max_tokens=400, grammar=grammar, stop=("\n\n",)),
        syntax=ANY_CALL,
        request_id=f"agree-{question}",
        limits=LoopLimits(max_calls=3),
    )
    return [event async for event in run(engine, request, reply_to)]


def done(events: list[LoopEvent]) -> LoopDone:
    last = events[-1]
    assert isinstance(last, LoopDone)
    return last


@pytest.mark.parametrize("question", QUESTIONS)
async def test_plain_text_is_the_same(
    vllm_based: Engine, transformers_engine: TransformersEngine, question: str
) -> None:
    """Eighty greedy tokens, end tokens ignored, are the same ids and the same text."""
    params = GenerateParams(max_tokens=80, ignore_eos=True)
    written = []
    for engine in (vllm_based, transformers_engine):
        ids = engine.tokenizer.encode(question)
        deltas = [delta async for delta in engine.generate(ids, params, "plain")]
        written.append(
            ([token for delta in deltas for token in delta.token_ids], "".join(delta.text for delta in deltas))
        )

    assert written[0] == written[1]
    assert len(written[0][0]) == 80


@pytest.mark.parametrize("question", QUESTIONS)
async def test_transcripts_with_calls_are_the_same(
    vllm_based: Engine, transformers_engine: TransformersEngine, real_model: Path, question: str
) -> None:
    """The embedded model's own calls, the replies put in and the answers after them agree span for span."""
    if real_model != EMBEDDED_DIR:
        pytest.skip("the embedded model's weights are not in this checkout; a random model makes no calls by itself")
    ours, theirs = [done(await events_of(engine, question)) for engine in (vllm_based, transformers_engine)]

    assert ours.spans == theirs.spans
    assert (ours.finish_reason, ours.stop_reason) == (theirs.finish_reason, theirs.stop_reason)
    assert any(span.kind == "injected" for span in ours.spans)


async def test_forced_calls_are_the_same(vllm_based: Engine, transformers_engine: TransformersEngine) -> None:
    """Under a grammar that forces calls, whatever the model knows, all spans over three resumes agree in their texts.

    Their tokens may differ: what the grammar forces, the transformers engine tokenizes as a text.
    """
    spans = []
    for engine in (vllm_based, transformers_engine):
        grammar = forced_call_grammar(CALLS, engine.tokenizer)
        spans.append(done(await events_of(engine, QUESTIONS[0], grammar)).spans)

    assert [(span.kind, span.text) for span in spans[0]] == [(span.kind, span.text) for span in spans[1]]
    assert sum(span.kind == "injected" for span in spans[0]) >= 3


async def test_a_resume_computes_the_reply_and_at_most_one_block(vllm_based: Engine) -> None:
    """Counted over a whole answer: each resume recomputes no more than the reply's tokens and a block."""
    before = vllm_based.stats()
    grammar = forced_call_grammar(CALLS, vllm_based.tokenizer)
    events = await events_of(vllm_based, f"{QUESTIONS[0]} {'Really? ' * 40}", grammar)
    computed = vllm_based.stats().prompt_tokens_computed - before.prompt_tokens_computed
    replies = [event.num_tokens for event in events if isinstance(event, CallFinished)]
    usage = done(events).usage

    assert len(replies) >= 3
    first = usage.prompt_tokens - usage.cached_tokens
    assert computed - first <= sum(replies) + len(replies) * vllm_based.block_size
    assert usage.computed_tokens == computed + usage.sampled_tokens


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def holding_engine(real_model: Path) -> AsyncIterator[Engine]:
    """vLLM that keeps a sequence while its call is answered."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("the vLLM package is not installed")
    options = EngineOptions(
        dtype="float32", device="cpu", max_num_seqs=4, kv_cache_bytes=128 * 2**20, hold_during_calls_s=60.0
    )
    engine = create_engine("vllm", card_from_request(ModelRequest(source=str(real_model))), options)
    await engine.start()
    yield engine
    await engine.close()


@pytest.mark.parametrize("constrained", [pytest.param(False, marks=pytest.mark.long), True])
async def test_a_kept_sequence_writes_what_a_resumed_one_does(
    holding_engine: Engine, vllm_engine: Engine, constrained: bool
) -> None:
    """Also under the grammar of calls, whose state vLLM keeps; each resume computes its reply and one token."""
    for question in QUESTIONS:
        ours, theirs = [
            done(await events_of(engine, question, call_grammar(CALLS, engine.tokenizer) if constrained else None))
            for engine in (holding_engine, vllm_engine)
        ]
        usage = ours.usage

        assert ours.spans == theirs.spans
        assert (ours.finish_reason, ours.stop_reason) == (theirs.finish_reason, theirs.stop_reason)
        resumed = usage.computed_tokens - usage.sampled_tokens - usage.prompt_tokens + usage.cached_tokens
        assert resumed == usage.injected_tokens + usage.segments - 1


@pytest.mark.long
async def test_a_killed_replica_loses_no_stream(
    remote_engine: RemoteEngine, replicas: list[VllmReplica], real_model: Path
) -> None:
    """Twelve streams, `kill -9` in the middle: all complete, with the ids of an undisturbed run.

    The replica then starts again and is used again.
    """
    params = GenerateParams(max_tokens=120, ignore_eos=True)
    prompts = [remote_engine.tokenizer.encode(f"{QUESTIONS[i % 4]} {i}") for i in range(12)]
    undisturbed = [await ids_of(remote_engine, prompt, params, f"calm-{i}") for i, prompt in enumerate(prompts)]
    half = asyncio.Event()
    running = [
        asyncio.create_task(ids_of(remote_engine, prompt, params, f"killed-{i}", half))
        for i, prompt in enumerate(prompts)
    ]
    await half.wait()
    replicas[0].kill()
    results = await asyncio.gather(*running)

    assert [ids for ids, _ in results] == [ids for ids, _ in undisturbed]
    assert remote_engine.is_ready()
    assert max(silence for _, silence in results) < 20

    port = int(replicas[0].url.rpartition(":")[2])
    replicas[0] = launch(real_model, NAME, ("--max-num-seqs", "8"), port)
    await asyncio.to_thread(wait_until_healthy, replicas[0])
    again = [await ids_of(remote_engine, prompts[0], GenerateParams(max_tokens=1), f"again-{i}") for i in range(8)]
    assert len(again) == 8


async def ids_of(
    engine: Engine, prompt: list[int], params: GenerateParams, request_id: str, half: asyncio.Event | None = None
) -> tuple[list[int], float]:
    """The sampled ids, and the longest time without any; ``half`` is set when half of the ids are here."""
    ids: list[int] = []
    silence, last = 0.0, time.monotonic()
    async for delta in engine.generate(prompt, params, request_id):
        silence, last = max(silence, time.monotonic() - last), time.monotonic()
        ids += delta.token_ids
        if half is not None and len(ids) > params.max_tokens // 2:
            half.set()
    return ids, silence
