"""The interception loop over a real (random) Llama on the transformers engine."""

from __future__ import annotations

import asyncio
import re
import runpy
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from models.card import ModelCard
from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.grammar import forced_call_grammar
from models.decoding.types import Call, CallFinished, CallReply, CallSyntax, LoopDone, LoopEvent, LoopLimits
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.types import GenerateParams

pytestmark = [pytest.mark.weights, pytest.mark.asyncio(loop_scope="module")]

CALLS = (
    r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/"
    r"(esearch\.fcgi\?db=(gene|snp)&retmax=[1-9][0-9]?&term=[A-Za-z0-9+]{1,40}(\[(sym|orgn)\])?"
    r"|esummary\.fcgi\?db=gene&id=[0-9]{1,6}(,[0-9]{1,6}){0,9})"
)
SYNTAX = CallSyntax("[https://", "]->", lambda text: re.fullmatch(CALLS, text) is not None)
REPLY = "[" + "5699: PSMB10 | proteasome 20S subunit beta 10 | human | 16q22.1; " * 3 + "]"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TransformersEngine]:
    build = runpy.run_path(str(Path(__file__).parents[3] / "tiny_models.py"))["build_llama"]
    directory = build(tmp_path_factory.mktemp("llama"), context=4096)
    card = ModelCard(name="random", source=str(directory), context_length=4096)
    engine = TransformersEngine(card, EngineOptions(dtype="float32", device="cpu", max_num_seqs=25))
    await engine.start()
    yield engine
    await engine.close()


def make_request(engine: TransformersEngine, *, max_calls: int, seed: int, temperature: float = 1.0) -> LoopRequest:
    return LoopRequest(
        prompt_ids=tuple(engine.tokenizer.encode("Question: What is the official gene symbol of LMP10?\n" * 4)),
        params=GenerateParams(
            max_tokens=2000, temperature=temperature, seed=seed, grammar=forced_call_grammar(CALLS, engine.tokenizer)
        ),
        syntax=SYNTAX,
        request_id=f"r{seed}",
        limits=LoopLimits(max_calls=max_calls),
    )


async def reply_to(call: Call) -> CallReply:
    return CallReply(REPLY, "ok")


@pytest.mark.long
async def test_a_random_model_writes_only_allowed_calls(engine: TransformersEngine) -> None:
    """200 sampled segments under the forcing grammar are 200 calls that the expression matches, each different."""
    calls: list[str] = []

    async def note(call: Call) -> CallReply:
        calls.append(call.text)
        return CallReply("[no]", "empty")

    texts: list[str] = []
    request = make_request(engine, max_calls=8, seed=11)
    seeded = [
        replace(request, params=replace(request.params, seed=11 + 1000 * n), request_id=f"r{n}") for n in range(25)
    ]

    async def answer(one: LoopRequest) -> None:
        async for event in run(engine, one, note):
            if isinstance(event, LoopDone):
                texts.extend(span.text for span in event.spans if span.kind == "sampled")

    await asyncio.gather(*(answer(one) for one in seeded))

    assert len(calls) == 200
    assert all(re.fullmatch(CALLS, call) for call in calls)
    assert len(set(calls)) > 190
    # Forced, so that a call is all that a segment holds; the two last of each answer are beyond the limit.
    assert len(texts) == 250
    assert all(text.startswith("[https://") and text.endswith("]->") for text in texts)


async def test_a_resume_computes_little_more_than_the_reply(engine: TransformersEngine) -> None:
    """Tokens computed at each resume stay within the reply's tokens and one block of the prefix cache."""
    computed: list[int] = []
    prefilled = engine.stats().prompt_tokens_computed
    events: list[LoopEvent] = []
    async for event in run(engine, make_request(engine, max_calls=4, seed=3), reply_to):
        events.append(event)
        # The reply goes in after this event, so what was computed since the last one belongs to the last resume.
        if isinstance(event, CallFinished | LoopDone):
            now = engine.stats().prompt_tokens_computed
            computed.append(now - prefilled)
            prefilled = now
    replies = [event.num_tokens for event in events if isinstance(event, CallFinished)]
    usage = next(event.usage for event in events if isinstance(event, LoopDone))

    assert len(replies) == 5
    assert len(computed) == 6
    assert all(n <= reply + engine.block_size for n, reply in zip(computed[1:], replies, strict=True))
    assert all(n > 0 for n in computed)
    assert usage.computed_tokens == sum(computed) + usage.sampled_tokens


async def test_a_resumed_answer_is_what_one_prefill_would_give(engine: TransformersEngine) -> None:
    """Greedy text after a resume equals the greedy continuation of the same sequence computed from nothing."""
    events = [e async for e in run(engine, make_request(engine, max_calls=1, seed=5, temperature=0.0), reply_to)]
    done = events[-1]
    assert isinstance(done, LoopDone)
    last = done.spans[-1]
    prompt = make_request(engine, max_calls=1, seed=5).prompt_ids
    before = [token for span in done.spans[:-1] for token in span.token_ids]
    params = GenerateParams(
        max_tokens=2000,
        grammar=forced_call_grammar(CALLS, engine.tokenizer),
        stop=("]->",),
        cache_salt="nothing cached under this",
    )
    deltas = [delta async for delta in engine.generate([*prompt, *before], params, "whole")]

    assert deltas[-1].num_cached_tokens == 0
    assert "".join(delta.text for delta in deltas) + "]->" == last.text
    assert [token for delta in deltas for token in delta.token_ids] == list(last.token_ids)
