"""A stream goes on when its replica is lost, or ends with an error that says why; never with other text."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from replica_server import Replica

from models.engines.base import Engine
from models.engines.remote_engine.engine import RemoteEngine
from models.errors import ENGINE_FULL, EngineUnavailable, ModelError
from models.types import Delta, GenerateParams, Grammar

from .conftest import Connect, Start

pytestmark = pytest.mark.asyncio(loop_scope="module")
# Longer than a block of the prefix cache.
PROMPT = "Question: What is the official gene symbol of LMP10? Please look it up, as the name is old.\n"


async def sampled(engine: Engine, request_id: str = "a", **params: Any) -> list[Delta]:
    wanted = GenerateParams(**{"max_tokens": 40, "ignore_eos": True, **params})
    return [delta async for delta in engine.generate(engine.tokenizer.encode(PROMPT), wanted, request_id)]


def ids(deltas: list[Delta]) -> list[int]:
    return [token for delta in deltas for token in delta.token_ids]


def text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


async def lost_after(tokens: int, engine: RemoteEngine, replica: Replica, **params: Any) -> list[Delta]:
    """Sample with the replica dying after so many tokens, which is there again at once, as another behind a router."""
    replica.seen.clear()
    replica.behaviour.cut_once = replica._sent + tokens
    return await sampled(engine, **params)


async def test_a_lost_stream_goes_on(start: Start, connect: Connect) -> None:
    """Ids, text and logprobs are those of an undisturbed run; the second request has the ids so far as prompt."""
    replica = await start()
    engine = await connect(replica)
    whole = await sampled(engine, logprobs=2)
    got = await lost_after(12, engine, replica, logprobs=2)

    assert (ids(got), text(got)) == (ids(whole), text(whole))
    assert [one.token_id for delta in got for one in delta.logprobs or ()] == ids(whole)
    assert (got[-1].finish_reason, got[-1].num_prompt_tokens) == ("length", len(engine.tokenizer.encode(PROMPT)))
    _, second = [body for body in replica.seen if len(body["token_ids"]) > 5]
    done = len(second["token_ids"]) - len(engine.tokenizer.encode(PROMPT))
    assert 0 < done < 40
    assert second["token_ids"][-done:] == ids(whole)[:done]
    assert second["sampling_params"]["max_tokens"] == 40 - done


async def test_a_stop_string_is_found_across_the_loss(start: Start, connect: Connect) -> None:
    """Its first half came before the loss and its second half after it."""
    replica = await start()
    engine = await connect(replica)
    free = await sampled(engine)
    beginning = engine.tokenizer.decode(ids(free)[:11])
    stop = text(free)[len(beginning) - 3 : len(beginning) + 9]
    whole = await sampled(engine, stop=(stop,))
    got = await lost_after(12, engine, replica, stop=(stop,))

    assert (text(got), got[-1].stop_reason) == (text(whole), stop)


async def test_a_grammar_of_the_whole_output_restarts(start: Start, connect: Connect) -> None:
    """Greedy: sampled again from the beginning, which must be the same, and what has been sent is not sent again."""
    replica = await start()
    engine = await connect(replica)
    grammar = Grammar("regex", "[a-z]{30}", param="response_format")
    whole = await sampled(engine, grammar=grammar, ignore_eos=False)
    got = await lost_after(8, engine, replica, grammar=grammar, ignore_eos=False)

    assert (ids(got), text(got)) == (ids(whole), text(whole))
    assert replica.seen[-1]["token_ids"] == engine.tokenizer.encode(PROMPT)


async def test_a_sampled_grammar_of_the_whole_output_fails_by_name(start: Start, connect: Connect) -> None:
    """Another beginning would be sampled, and a rest alone would match nothing."""
    replica = await start()
    engine = await connect(replica)
    grammar = Grammar("regex", "[a-z]{30}", param="response_format")
    with pytest.raises(EngineUnavailable, match="response_format holds for the whole of it"):
        await lost_after(8, engine, replica, grammar=grammar, temperature=1.0)


async def test_a_seeded_stream_goes_on(start: Start, connect: Connect) -> None:
    """What came before the loss stays; the rest is sampled anew."""
    replica = await start()
    engine = await connect(replica)
    whole = await sampled(engine, temperature=1.0, seed=5)
    got = await lost_after(12, engine, replica, temperature=1.0, seed=5)

    assert (ids(got)[:8], len(ids(got))) == (ids(whole)[:8], 40)


async def test_free_text_around_calls_goes_on(start: Start, connect: Connect) -> None:
    """Outside of a call the grammar allows all text, so the ids so far are a prompt."""
    replica = await start()
    engine = await connect(replica)
    tag = {"type": "tag", "begin": "[https://", "content": {"type": "regex", "pattern": "[a-z]{3}"}, "end": "]"}
    form = {"type": "triggered_tags", "triggers": ["[https://"], "tags": [tag]}
    grammar = Grammar("structural_tag", json.dumps({"type": "structural_tag", "format": form}))
    got = await lost_after(12, engine, replica, grammar=grammar)

    assert len(ids(got)) == 40
    assert len(replica.seen[-1]["token_ids"]) > len(engine.tokenizer.encode(PROMPT))


async def test_a_silent_replica_is_given_up(start: Start, connect: Connect) -> None:
    """Where its health is not reported either, the request ends with an error in bounded time."""
    replica = await start()
    engine = await connect(replica, silence_s=0.3, probe_timeout_s=30.0, wait_s=0.5)
    replica.behaviour.hangs = True
    async with asyncio.timeout(120):
        with pytest.raises(EngineUnavailable):
            await sampled(engine)


async def test_one_request_does_not_end_all_replicas(start: Start, connect: Connect) -> None:
    """A request that fails wherever it goes is given up after three repetitions."""
    replica = await start(longest=5)
    engine = await connect(replica)
    replica.seen.clear()
    with pytest.raises(EngineUnavailable, match="the request failed 4 times"):
        await sampled(engine)
    assert sum(len(body["token_ids"]) > 5 for body in replica.seen) == 4


async def test_a_full_queue_is_told(start: Start, connect: Connect) -> None:
    replica = await start()
    engine = await connect(replica)
    replica.behaviour.status = 429
    with pytest.raises(ModelError, check=ENGINE_FULL.is_of):
        await sampled(engine)


async def test_a_stop_string_that_only_the_replica_sees_ends_nothing(start: Start, connect: Connect) -> None:
    """Text and stop strings are decided here; the stream goes on."""
    replica = await start()
    engine = await connect(replica)
    whole = await sampled(engine)
    replica.behaviour.stops_at = text(whole)[10:14]
    got = await sampled(engine, stop=("\x00never",), max_tokens=20)

    assert ids(got) == ids(whole)[:20]


async def test_an_abort_ends_a_request_that_waits_for_a_replica(start: Start, connect: Connect) -> None:
    """Also where no replica has answered yet."""
    replica = await start()
    engine = await connect(replica)
    replica.behaviour.hangs = True
    running = asyncio.create_task(sampled(engine, "waits"))
    await asyncio.sleep(0.1)
    await engine.abort("waits")
    async with asyncio.timeout(120):
        assert [delta.finish_reason for delta in await running] == ["abort"]


async def test_a_stop_found_here_ends_the_request(start: Start, connect: Connect) -> None:
    """Where the replica does not look for it; how many tokens were cached is then not known."""
    replica = await start()
    engine = await connect(replica)
    whole = await sampled(engine, max_tokens=200)
    stop = text(whole)[60:66]
    replica.behaviour.is_deaf = True
    got = await sampled(engine, stop=(stop,), max_tokens=200)

    assert text(got) == text(whole)[: text(whole).index(stop)]
    assert got[-1].num_cached_tokens == 0
