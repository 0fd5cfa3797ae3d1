"""What the remote engine promises beyond the contract: sessions, bounds, counts and its life."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from replica_server import Replica
from waiting import until

from models.card import ModelCard
from models.engines.base import EngineOptions, RemoteOptions
from models.engines.registry import create_engine
from models.engines.remote_engine.engine import served_name, session_of
from models.errors import ENGINE_FULL, EngineUnavailable, ModelError, UnsupportedParam
from models.types import GenerateParams

from .conftest import Connect, Start

pytestmark = pytest.mark.asyncio(loop_scope="module")


def real(replica: Replica) -> list[str]:
    """The sessions of its requests, without those of the checks at the start."""
    return [one for one in replica.sessions if one]


async def test_all_requests_of_an_answer_have_one_session(start: Start, connect: Connect) -> None:
    """Ten answers with three resumes each; a router keeps those of an answer together by it."""
    replica = await start()
    engine = await connect(replica)
    prompt = engine.tokenizer.encode("Question")
    for answer in range(10):
        for segment in range(4):
            params = GenerateParams(max_tokens=1)
            assert [d async for d in engine.generate(prompt, params, f"chatcmpl-{answer}-0-s{segment}")]

    sessions = real(replica)
    assert [sessions.count(session) for session in dict.fromkeys(sessions)] == [4] * 10


async def test_a_session_is_a_digest_of_the_answer() -> None:
    """The same for all generations of an answer, another for another, and no word of a client's id in it."""
    same = {
        session_of(name) for name in ("my-question-0", "my-question-0-s3", "my-question-0.1", "my-question-0.again.2")
    }
    assert len(same) == 1
    assert session_of("my-question-1") not in same
    assert "question" not in same.pop()


async def test_more_requests_than_the_bound_are_refused(start: Start, connect: Connect) -> None:
    """Four sequences and four that wait; what runs is not touched."""
    replica = await start()
    engine = await connect(replica)
    prompt, params = engine.tokenizer.encode("Question"), GenerateParams(max_tokens=200, ignore_eos=True)
    streams = [engine.generate(prompt, params, f"r{i}") for i in range(8)]
    tasks = [asyncio.ensure_future(anext(one)) for one in streams]
    await asyncio.sleep(0)
    with pytest.raises(ModelError, check=ENGINE_FULL.is_of):
        await anext(engine.generate(prompt, params, "r8"))
    await asyncio.gather(*tasks)
    for one in streams:
        await one.aclose()  # type: ignore[attr-defined]  # engines return async generators
    assert engine.stats().running == engine.stats().waiting == 0


async def test_a_dead_replica_comes_back_after_it_was_checked(start: Start, connect: Connect) -> None:
    """The engine is not ready without any for longer than a request waits, and ready when one is back."""
    replica = await start()
    engine = await connect(replica, wait_s=0.3)
    await replica.stop()
    await until(lambda: not engine.is_ready())
    with pytest.raises(EngineUnavailable, match="no replica answered"):
        await anext(engine.generate([5], GenerateParams(max_tokens=1), "r"))
    await replica.start()
    await until(lambda: engine.is_ready())
    assert [d async for d in engine.generate([5], GenerateParams(max_tokens=1), "r")][-1].finish_reason == "length"


async def test_a_server_that_comes_back_with_another_model_is_not_used(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """It would answer, and wrongly."""
    replica = await start()
    engine = await connect(replica, wait_s=0.3)
    await replica.stop()
    await until(lambda: not engine.is_ready())
    replica.behaviour.token_shift = 1
    await replica.start()
    await until(lambda: "its tokenizer is another one" in caplog.text)
    with pytest.raises(EngineUnavailable, match="no replica answered"):
        await anext(engine.generate([5], GenerateParams(max_tokens=1), "r"))
    assert real(replica) == []


async def test_the_question_and_the_key_are_in_no_log(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    replica = await start(key="sesame-open")
    engine = await connect(replica, api_key="sesame-open", wait_s=0.3)
    prompt = engine.tokenizer.encode("Has Ms Miller a mutation of BRCA1?")
    assert [d async for d in engine.generate(prompt, GenerateParams(max_tokens=3), "r")]
    await replica.stop()
    with pytest.raises(EngineUnavailable):
        await anext(engine.generate(prompt, GenerateParams(max_tokens=3), "r"))
    assert "Miller" not in caplog.text
    assert "sesame" not in caplog.text
    assert str(prompt)[1:-1] not in caplog.text


async def test_the_name_at_the_replicas_has_the_adapter() -> None:
    card = ModelCard(name="m", source="owner/m")
    assert served_name(card) == "m"
    assert served_name(ModelCard(name="m", source="owner/m", adapter=Path("/x/lora"))) == "m+lora"


async def test_what_belongs_to_the_replicas_is_refused_here() -> None:
    """Served as if it were not there, it would be wrong without a word."""
    card, remote = ModelCard(name="m", source="owner/m"), RemoteOptions(url="http://127.0.0.1:1")
    with pytest.raises(UnsupportedParam, match="quantization is a setting of the replicas"):
        create_engine("remote", card, EngineOptions(quantization="fp8", remote=remote))
    with pytest.raises(EngineUnavailable, match=r"model\.url"):
        create_engine("remote", card, EngineOptions())
