"""Drafted tokens change no transcript: each engine writes with them what it writes without them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from models.catalog import ModelRequest, card_from_request
from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.grammar import forced_call_grammar
from models.decoding.types import Call, CallReply, CallSyntax, LoopDone, LoopLimits, Span
from models.engines.base import Engine, EngineKind, EngineOptions
from models.engines.registry import create_engine
from models.errors import UnsupportedParam
from models.types import GenerateParams

pytestmark = pytest.mark.asyncio(loop_scope="session")

DRAFTS = 8
CALLS = r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/esearch\.fcgi\?db=(gene|snp)&term=[A-Za-z0-9+]{1,40}"
SYNTAX = CallSyntax("[https://", "]->", lambda text: re.fullmatch(r"https://[ -Z\\^-~]{3,2000}", text) is not None)
REPLY = "[5699: PSMB10 | proteasome 20S subunit beta 10 | human | 16q22.1]\n"
PROMPT = (
    "[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene&term=HER2]->[1 id: 2064]\n"
    "Question: What is the official gene symbol of LMP10?\n"
)


@pytest.fixture(
    scope="module",
    params=[
        "transformers",
        pytest.param("vllm", marks=[pytest.mark.vllm, pytest.mark.timeout(900), pytest.mark.xdist_group("vllm")]),
    ],
)
def shared(request: pytest.FixtureRequest) -> Engine | None:
    """vLLM without drafts, as all tests share it; None where the test starts its own engine."""
    engine: Engine | None = request.getfixturevalue("vllm_engine") if request.param == "vllm" else None
    return engine


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engines(
    shared: Engine | None, real_model: Path, pytestconfig: pytest.Config
) -> AsyncIterator[tuple[Engine, Engine]]:
    """An engine without drafts, and one with."""
    kind: EngineKind = "vllm" if shared else "transformers"
    device = pytestconfig.getoption("--vllm-device") if shared else "cpu"
    options = EngineOptions(dtype="float32", device=device, max_num_seqs=4, kv_cache_bytes=128 * 2**20, draft_tokens=0)
    card = card_from_request(ModelRequest(source=str(real_model)))
    plain = shared or create_engine(kind, card, options)
    drafting = create_engine(kind, card, replace(options, draft_tokens=DRAFTS))
    await plain.start()
    await drafting.start()
    yield plain, drafting
    await drafting.close()
    if not shared:
        await plain.close()


async def spans(engine: Engine, *, is_constrained: bool) -> tuple[Span, ...]:
    async def reply(call: Call) -> CallReply:
        return CallReply(REPLY, "ok")

    grammar = forced_call_grammar(CALLS, engine.tokenizer) if is_constrained else None
    request = LoopRequest(
        prompt_ids=tuple(engine.tokenizer.encode(PROMPT)),
        params=GenerateParams(max_tokens=250, grammar=grammar, stop=("\n\n",)),
        syntax=SYNTAX,
        request_id=f"drafts-{is_constrained}",
        limits=LoopLimits(max_calls=3),
    )
    last = [event async for event in run(engine, request, reply)][-1]
    assert isinstance(last, LoopDone)
    return last.spans


@pytest.mark.parametrize("is_constrained", [True, False])
async def test_transcripts_are_those_without_drafts(engines: tuple[Engine, Engine], *, is_constrained: bool) -> None:
    """Greedy, across intercepted calls: the same spans, token by token."""
    plain, drafting = engines

    assert await spans(drafting, is_constrained=is_constrained) == await spans(plain, is_constrained=is_constrained)


async def test_limits_and_stop_strings_hold_inside_a_draft(engines: tuple[Engine, Engine]) -> None:
    grammar = forced_call_grammar(CALLS, engines[0].tokenizer)
    for params in (
        *(GenerateParams(max_tokens=most, grammar=grammar) for most in (1, 7, 16)),
        GenerateParams(max_tokens=80, grammar=grammar, stop=("&te",)),
    ):
        ids = engines[0].tokenizer.encode(PROMPT)
        plain, drafted = [
            [delta async for delta in engine.generate(ids, params, f"{params.max_tokens}")] for engine in engines
        ]
        assert [token for one in drafted for token in one.token_ids] == [t for one in plain for t in one.token_ids]
        assert "".join(one.text for one in drafted) == "".join(one.text for one in plain)
        assert drafted[-1].finish_reason == plain[-1].finish_reason


async def test_what_vllm_lacks_beside_drafts_is_refused(engines: tuple[Engine, Engine]) -> None:
    _, drafting = engines
    if "vllm" not in type(drafting).__module__:
        pytest.skip("the transformers engine has all fields beside drafts")
    for params in (GenerateParams(max_tokens=1, min_p=0.5), GenerateParams(max_tokens=1, logit_bias=((1, 2.0),))):
        with pytest.raises(UnsupportedParam, match=r"^(min_p|logit_bias): not available"):
            async for _delta in drafting.generate([1, 2], params, "refused"):
                pass
