"""The plain model's requests reach a replica's own layer, and its replies come back as they are."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
from replica_server import Replica
from starlette.responses import JSONResponse, Response, StreamingResponse

from models.engines.base import LayerCall
from models.engines.remote_engine.engine import RemoteEngine, session_of_body
from models.errors import EngineUnavailable, UnsupportedParam

from .conftest import Connect, Start

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHAT = "/v1/chat/completions"
QUESTION = {"model": "tiny", "messages": [{"role": "user", "content": "Which gene?"}], "cache_salt": "key"}


async def asked(engine: RemoteEngine, body: dict[str, Any], path: str = CHAT) -> list[MutableMapping[str, Any]]:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    layer = await engine.openai_layer()
    await layer(LayerCall(path=path, body=body, headers=((b"content-type", b"application/json"),)), send)
    return sent


def whole(sent: list[MutableMapping[str, Any]]) -> bytes:
    return b"".join(message.get("body", b"") for message in sent[1:])


def streamed(_: Any) -> Response:
    async def events() -> Any:
        yield 'data: {"choices": []}\n\n'
        yield 'data: {"usage": {"prompt_tokens": 9, "completion_tokens": 4, "details": {"cached_tokens": 5}}}\n\n'
        yield "data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def test_a_reply_comes_back_as_it_is_and_is_counted(start: Start, connect: Connect) -> None:
    """Status, type and body; the tokens of its usage are among the engine's."""
    replica = await start(plain=streamed)
    engine = await connect(replica)
    sent = await asked(engine, QUESTION | {"stream": True})

    assert sent[0]["status"] == 200
    assert dict(sent[0]["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert whole(sent).endswith(b"data: [DONE]\n\n")
    assert not sent[-1].get("more_body")
    stats = engine.stats()
    assert (stats.prompt_tokens_computed, stats.prompt_tokens_cached, stats.tokens_generated) == (4, 5, 4)


async def test_the_body_has_our_end_tokens_and_the_replicas_name(start: Start, connect: Connect) -> None:
    """vLLM reads the end tokens of the generation config alone. Salt and the rest stay."""
    replica = await start(plain=lambda _: JSONResponse({"id": "x"}))
    engine = await connect(replica)
    await asked(engine, QUESTION | {"model": "an-alias", "stop_token_ids": [3]})
    body = replica.plain_bodies[-1]

    assert body["stop_token_ids"] == sorted({3, *engine.tokenizer.eos_token_ids})
    assert (body["model"], body["cache_salt"], body["messages"]) == ("tiny", "key", QUESTION["messages"])
    await asked(engine, QUESTION | {"ignore_eos": True})
    assert "stop_token_ids" not in replica.plain_bodies[-1]


async def test_an_error_of_the_request_comes_back_and_one_of_the_replica_is_ours(
    start: Start, connect: Connect
) -> None:
    """400 is the client's; a replica's 503 is ours, which says that another try may help."""
    refusing = await start(plain=lambda _: JSONResponse({"error": {"message": "no"}}, status_code=400))
    engine = await connect(refusing)
    assert [(await asked(engine, QUESTION))[0]["status"], len(refusing.plain_bodies)] == [400, 1]
    engine = await connect(await start(plain=lambda _: Response(status_code=503)))
    with pytest.raises(EngineUnavailable, match="lost before it answered; ask again"):
        await asked(engine, QUESTION)


async def test_a_stream_that_breaks_ends_with_an_error(start: Start, connect: Connect) -> None:
    """What has been sent cannot be taken back, nor continued elsewhere."""

    def broken(_: Any) -> Response:
        async def events() -> Any:
            yield 'data: {"choices": []}\n\n'
            raise OSError

        return StreamingResponse(events(), media_type="text/event-stream")

    engine = await connect(await start(plain=broken))
    with pytest.raises(EngineUnavailable, match="lost in mid-answer"):
        await asked(engine, QUESTION)


async def test_turns_of_a_conversation_have_one_session(start: Start, connect: Connect) -> None:
    """A later turn begins as the earlier one did, and a router keeps them together; another key's is another."""
    replica = await start(plain=lambda _: JSONResponse({}))
    engine = await connect(replica)
    replica.sessions.clear()
    turns: list[dict[str, str]] = [{"role": "system", "content": "s"}, {"role": "user", "content": "Which gene?"}]
    for number in range(3):
        await asked(engine, QUESTION | {"messages": turns})
        turns = [*turns, {"role": "assistant", "content": f"{number}"}, {"role": "user", "content": "And?"}]

    assert len(replica.sessions) == 3
    assert len(set(replica.sessions)) == 1
    assert session_of_body(QUESTION) != session_of_body(QUESTION | {"cache_salt": "another"})


@pytest.mark.parametrize(
    "field",
    [
        {"bad_words": [f"word{i}" for i in range(100)]},
        {"allowed_token_ids": list(range(1025))},
        {"logit_bias": {str(i): 1 for i in range(1025)}},
        {"min_tokens": 1, "stop_token_ids": list(range(10, 138))},
    ],
)
async def test_what_would_end_a_replica_is_refused(start: Start, connect: Connect, field: dict[str, Any]) -> None:
    """Its sampler has so many places, and checks them where an error ends it for all."""
    replica: Replica = await start(plain=lambda _: JSONResponse({}))
    engine = await connect(replica)
    with pytest.raises(UnsupportedParam) as caught:
        await asked(engine, QUESTION | field)
    assert caught.value.param in field
    assert not replica.plain_bodies
