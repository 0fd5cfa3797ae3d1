"""Answers of an engine's own OpenAI layer, here a stand-in: what is counted, logged and said of them."""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from models.engines.base import LayerCall
from server.admission import Admission, AdmissionLimits, Ticket
from server.api.vllm_passthrough.dispatch import PassthroughCall, PassthroughResponse, num_chars, plain_body
from server.auth.authentication import Principal
from server.observability.observer import (
    AnswerRecord,
    HttpRequest,
    NullServerObserver,
    Observer,
    TokenCounts,
    request_id,
)
from server.wiring.services import Services

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}}
TEXT = 'It says "completion_tokens": 99, "prompt_tokens": 99.'


class _Told(NullServerObserver):
    def __init__(self) -> None:
        self.began: list[tuple[str, str]] = []
        self.ended: list[AnswerRecord] = []
        self.request_ids: list[str] = []

    def answer_began(self, answer_id: str, model: str) -> None:
        self.request_ids.append(request_id.get())
        self.began.append((answer_id, model))

    def answer_ended(self, record: AnswerRecord) -> None:
        self.ended.append(record)


class _Site:
    """Sends one request through, to a layer that replies with ``pieces``."""

    def __init__(self, *pieces: bytes, status: int = 200, kind: bytes = b"text/event-stream") -> None:
        self.told = _Told()
        self.observer: Observer = self.told
        self.spent: list[int] = []
        self.sent: list[Any] = []
        self.scope: dict[str, Any] = {"type": "http", "state": {}}
        self.admission = Admission(AdmissionLimits(running=1))
        self.fails = False
        self.hangs = False
        self.lingers_s = 0.0
        self.let_go = 0
        self.gone = asyncio.Event()
        self.begun = asyncio.Event()
        self._start = {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}
        self._pieces = pieces

    async def layer(self, call: LayerCall, send: Any) -> None:
        await send(self._start)
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if self.fails:
            raise RuntimeError("the engine has died")
        if self.hangs:
            await self._hang()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self.gone.set()
        await asyncio.sleep(self.lingers_s)

    async def _hang(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.let_go += 1

    async def hanging(self) -> asyncio.Task[None]:
        """A request whose layer has begun its reply and goes on without end."""
        self.hangs = True
        asking = asyncio.create_task(self.ask())
        await self.begun.wait()
        return asking

    async def ask(self, choices: int = 1) -> None:
        services = SimpleNamespace(
            observer=self.observer,
            lifecycle=SimpleNamespace(card=SimpleNamespace(name="big")),
            admission=self.admission,
            spend=lambda owner, tokens: self.spent.append(tokens),
        )
        deadline = asyncio.get_running_loop().time() + 30
        passage = PassthroughCall(
            layer=self.layer,
            call=LayerCall("/v1/chat/completions", {}),
            principal=Principal(owner="me"),
            ticket=Ticket("k"),
            deadline=deadline,
            choices=choices,
        )

        async def receive() -> Any:
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            self.sent.append(message)

        await PassthroughResponse(cast(Services, services), passage)(self.scope, receive, send)


def _chunk(**members: Any) -> bytes:
    return b"data: " + json.dumps({"id": "chatcmpl-7"} | members).encode() + b"\n\n"


async def test_a_whole_reply_is_told_with_its_usage(caplog: pytest.LogCaptureFixture) -> None:
    """The numbers of ``usage``, not what a text says; no time to the first text, which nobody saw."""
    caplog.set_level(logging.INFO)
    reply = {"id": "chatcmpl-7", "choices": [{"message": {"content": TEXT}}], "usage": USAGE}
    site = _Site(json.dumps(reply).encode(), kind=b"application/json")
    await site.ask(choices=2)
    (record,) = site.told.ended

    assert site.told.began == [(record.id, "big")]
    assert (record.outcome, record.choices, record.first_s) == ("ok", 2, None)
    assert record.tokens == TokenCounts(prompt=7, sampled=3, cached=4, computed=6)
    assert site.spent == [3] and "error_code" not in site.scope["state"]
    (line,) = [one.getMessage() for one in caplog.records if one.getMessage().startswith("answer:")]
    assert f"id={record.id} " in line and "model=big" in line and "outcome=ok" in line and "reply=chatcmpl-7" in line


async def test_a_streams_first_piece_is_its_first_text() -> None:
    """Without usage the events count as tokens, and nothing is known of the prompt."""
    site = _Site(_chunk(choices=[{"delta": {"content": TEXT}}]), _chunk(choices=[]), b"data: [DONE]\n\n")
    await site.ask()
    (record,) = site.told.ended

    assert record.first_s is not None and record.first_s <= record.seconds
    assert record.tokens == TokenCounts(sampled=2)


async def test_a_response_begins_with_its_text() -> None:
    """What stands before it is sent before the model has written anything."""
    site = _Site(b'event: response.created\ndata: {"type": "response.created"}\n\n')
    await site.ask()

    assert site.told.ended[0].first_s is None


@pytest.mark.parametrize("piece", [b'data: {"error": {"message": "x"}}\n\n', b'data: {"type":"response.failed"}\n\n'])
async def test_a_stream_that_fails_in_its_middle_is_not_ok(piece: bytes) -> None:
    """Its status was sent long before; it is no error reply of HTTP."""
    site = _Site(_chunk(choices=[]), piece)
    await site.ask()

    assert site.told.ended[0].outcome == "model_error"
    assert "error_code" not in site.scope["state"]


@pytest.mark.parametrize(("status", "code"), [(400, "invalid_value"), (404, "model_not_found"), (500, "model_error")])
async def test_refusals_of_the_layer_are_counted_as_ours(status: int, code: str) -> None:
    """As an answer's outcome and as an error reply."""
    site = _Site(b'{"error": {}}', status=status, kind=b"application/json")
    await site.ask()
    (record,) = site.told.ended

    assert (record.outcome, record.tokens) == (code, TokenCounts())
    assert site.scope["state"]["error_code"] == code


async def test_a_layer_that_breaks_ends_the_answer() -> None:
    """After the first byte: an error event, and the answer's end is told all the same."""
    site = _Site(_chunk(choices=[]))
    site.fails = True
    await site.ask()

    assert site.told.ended[0].outcome == "internal_error"
    assert b'"code":"internal_error"' in site.sent[-1]["body"] and site.sent[-1]["body"].endswith(b"[DONE]\n\n")


async def test_a_client_that_leaves_ends_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    """What runs for it is cancelled, its place is free, and nothing more is sent."""
    caplog.set_level(logging.INFO)
    site = _Site(_chunk(choices=[]))
    asking = await site.hanging()
    site.gone.set()
    await asking

    assert (site.let_go, site.admission.in_flight) == (1, 0)
    assert site.told.ended[0].outcome == "cancelled" and site.sent[-1]["body"] == _chunk(choices=[])
    assert "error_code" not in site.scope["state"]
    assert any("went away" in one.getMessage() for one in caplog.records)


async def test_a_client_that_leaves_the_queue_leaves_no_place_behind() -> None:
    """It had no answer yet, so none has ended."""
    site = _Site()
    site.admission = Admission(AdmissionLimits(running=1, waiting=1))
    async with site.admission.place(Ticket("other")):
        asking = asyncio.create_task(site.ask())
        for _ in range(5):
            await asyncio.sleep(0)
        assert site.admission.waiting == 1
        site.gone.set()
        await asking
        assert (site.admission.waiting, site.admission.counts.left) == (0, 1)

    assert not site.told.began and not site.told.ended and not site.sent


async def test_a_reply_that_was_whole_is_ok_though_its_client_left() -> None:
    """A server says so to the listener as soon as the last byte is sent."""
    site = _Site(_chunk(choices=[]))
    site.lingers_s = 0.02
    await site.ask()

    assert site.told.ended[0].outcome == "ok"


async def test_a_stranger_who_cancels_is_not_a_client_that_left() -> None:
    """The end of the server's loop goes on as what it is."""
    site = _Site(_chunk(choices=[]))
    asking = await site.hanging()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert site.told.ended[0].outcome == "cancelled" and site.admission.in_flight == 0


async def test_an_answer_that_is_late_ends_with_its_error() -> None:
    """In the stream, as its status was sent; the layer is let go."""
    site = _Site(_chunk(choices=[]))
    asking = await site.hanging()
    site.admission.end_all()
    await asking

    assert site.let_go == 1 and b'"code":"server_stopping"' in site.sent[-1]["body"].replace(b": ", b":")


@pytest.mark.parametrize(
    ("body", "chars"),
    [
        ({"prompt": "abc", "max_tokens": 5}, 3),
        ({"prompt": [1, 2, 3]}, 12),
        ({"prompt": [[1, 2], [3]]}, 12),
        ({"prompt": ["ab", "cd"]}, 4),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]}, 13),
        ({"prompt": [], "stop": None}, 0),
    ],
    ids=str,
)
def test_texts_and_tokens_of_a_request_are_counted(body: dict[str, Any], chars: int) -> None:
    """Wherever they stand; a token is as many characters as one usually has."""
    assert num_chars(body) == chars


async def test_after_an_answer_the_lines_are_the_requests_again() -> None:
    """The request's own line comes last and has the id that the reply named."""
    request_id.set("7f3e")
    site = _Site(_chunk(choices=[]))
    await site.ask()

    assert site.told.request_ids == [site.told.ended[0].id] and request_id.get() == "7f3e"


async def test_who_gets_no_place_begins_no_answer() -> None:
    """A refusal by admission is an error reply alone."""
    site = _Site(b"{}")
    async with site.admission.place(Ticket("other")):
        await site.ask()

    assert not site.told.began and not site.told.ended
    assert (site.sent[0]["status"], site.scope["state"]["error_code"]) == (429, "server_overloaded")


async def test_counting_tokens_is_no_answer() -> None:
    """It takes a place and nothing more."""
    site = _Site(b'{"input_tokens": 5}', kind=b"application/json")
    await site.ask(choices=0)

    assert not site.told.began and not site.told.ended and not site.spent
    assert site.admission.counts.admitted == 1 and site.admission.in_flight == 0


async def test_an_answer_of_the_layer_has_a_span() -> None:
    """Below its request's, with its tokens."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from server.observability.tracing import Tracing
    from server.settings.server import TracingSettings

    exporter, site = InMemorySpanExporter(), _Site(json.dumps({"usage": USAGE}).encode(), kind=b"application/json")
    site.observer = tracing = Tracing(site.told, TracingSettings(endpoint="http://127.0.0.1:4318"), exporter)
    span = tracing.begin_request("", "")
    await site.ask()
    tracing.end_request(span, HttpRequest(route="/x", method="POST", status=200, code="", seconds=0.1))
    await tracing.close()
    answer, request = exporter.get_finished_spans()

    assert answer.name == "answer" and answer.parent is not None and request.context is not None
    assert answer.parent.span_id == request.context.span_id
    assert dict(answer.attributes or {})["gen_ai.usage.output_tokens"] == 3


@pytest.mark.parametrize(
    ("salt", "sent", "expected"),
    [
        ("0a1b2c3d", {}, {"cache_salt": "0a1b2c3d"}),
        ("0a1b2c3d", {"cache_salt": "mine"}, {"cache_salt": "0a1b2c3d:mine"}),
        ("", {"arrowhead": {}}, {}),
        ("", {"cache_salt": "mine"}, {"cache_salt": ":mine"}),
    ],
)
def test_a_clients_salt_never_takes_the_place_of_the_servers(
    salt: str, sent: dict[str, Any], expected: dict[str, Any]
) -> None:
    """It makes the cache smaller; no client reaches the cache of another key with it."""
    assert plain_body({"model": "base"} | sent, salt) == {"model": "base"} | expected
