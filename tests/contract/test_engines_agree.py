"""The two real engines write the same: greedy, float32, same weights, across intercepted calls too."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from models.catalog import EMBEDDED_DIR, ModelRequest, card_from_request
from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.grammar import forced_call_grammar
from models.decoding.types import Call, CallFinished, CallReply, CallSyntax, LoopDone, LoopEvent, LoopLimits
from models.engines.base import Engine
from models.engines.options import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.types import GenerateParams, Grammar

if TYPE_CHECKING:
    from models.engines.vllm_engine.engine import VllmEngine

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="session")]

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
    vllm_engine: VllmEngine, transformers_engine: TransformersEngine, question: str
) -> None:
    """Eighty greedy tokens, end tokens ignored, are the same ids and the same text."""
    params = GenerateParams(max_tokens=80, ignore_eos=True)
    written = []
    for engine in (vllm_engine, transformers_engine):
        ids = engine.tokenizer.encode(question)
        deltas = [delta async for delta in engine.generate(ids, params, "plain")]
        written.append(
            ([token for delta in deltas for token in delta.token_ids], "".join(delta.text for delta in deltas))
        )

    assert written[0] == written[1]
    assert len(written[0][0]) == 80


@pytest.mark.parametrize("question", QUESTIONS)
async def test_transcripts_with_calls_are_the_same(
    vllm_engine: VllmEngine, transformers_engine: TransformersEngine, real_model: Path, question: str
) -> None:
    """The embedded model's own calls, the replies put in and the answers after them agree span for span."""
    if real_model != EMBEDDED_DIR:
        pytest.skip("the embedded model's weights are not in this checkout; a random model makes no calls by itself")
    ours, theirs = [done(await events_of(engine, question)) for engine in (vllm_engine, transformers_engine)]

    assert ours.spans == theirs.spans
    assert (ours.finish_reason, ours.stop_reason) == (theirs.finish_reason, theirs.stop_reason)
    assert any(span.kind == "injected" for span in ours.spans)


async def test_forced_calls_are_the_same(vllm_engine: VllmEngine, transformers_engine: TransformersEngine) -> None:
    """Under a grammar that forces calls, whatever the model knows, all spans over three resumes agree."""
    spans = []
    for engine in (vllm_engine, transformers_engine):
        grammar = forced_call_grammar(CALLS, engine.tokenizer)
        spans.append(done(await events_of(engine, QUESTIONS[0], grammar)).spans)

    assert spans[0] == spans[1]
    assert sum(span.kind == "injected" for span in spans[0]) >= 3


async def test_a_vllm_resume_computes_the_reply_and_at_most_one_block(vllm_engine: VllmEngine) -> None:
    """Counted over a whole answer: each resume recomputes no more than the reply's tokens and a block."""
    before = vllm_engine.stats()
    events = await events_of(
        vllm_engine, f"{QUESTIONS[0]} {'Really? ' * 40}", forced_call_grammar(CALLS, vllm_engine.tokenizer)
    )
    computed = vllm_engine.stats().prompt_tokens_computed - before.prompt_tokens_computed
    replies = [event.num_tokens for event in events if isinstance(event, CallFinished)]
    usage = done(events).usage

    assert len(replies) >= 3
    first = usage.prompt_tokens - usage.cached_tokens
    assert computed - first <= sum(replies) + len(replies) * vllm_engine.block_size
    assert usage.computed_tokens == computed + usage.sampled_tokens
