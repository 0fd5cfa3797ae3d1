"""Traces, the error table, the merging of answers, and what importing the application costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from models.decoding.types import LoopUsage
from models.errors import ArrowheadError, EngineUnavailable
from server.api.answers.rendering import Choice
from server.error_mapping import error_codes, error_reply
from server.methods.base import AnswerRequest, Done, TextDelta, TranscriptDelta
from server.traces import MemoryTraceStore, TraceFile, TraceHead, TraceRecorder


def _head(number: int, owner: str = "") -> TraceHead:
    return TraceHead(f"t{number}", "m", owner, 0)


async def test_a_disk_that_fails_does_not_lose_the_answer(tmp_path: Path) -> None:
    """The folder is a file: the trace is still in memory."""
    (tmp_path / "file").write_text("")
    store = MemoryTraceStore(max_traces=1, max_bytes=1000, file=TraceFile(tmp_path / "file", 65_536))

    await store.put(_head(0), [])

    assert await store.get("t0", "") is not None


def test_an_interrupted_answer_has_a_trace() -> None:
    """What was shown until then, and the code of the error."""
    recorder = TraceRecorder(AnswerRequest(request_id="r", prompt="q"))
    recorder.feed(TextDelta("half"))

    record = recorder.record("model_not_ready")

    assert (record["content"], record["answer"], record["finish_reason"]) == ("half", "", "error")


def _classes(root: type[ArrowheadError]) -> Iterator[type[ArrowheadError]]:
    for child in root.__subclasses__():
        yield child
        yield from _classes(child)


def test_every_error_of_the_tree_has_a_status() -> None:
    """No class of ours ends as an internal error for want of a fault."""
    import server.settings.loading  # noqa: F401

    ours = [c for c in _classes(ArrowheadError) if c.__module__.split(".")[0] in ("models", "retrieval", "server")]
    unmapped = [c.__name__ for c in ours if c.fault.code == "internal_error" or c.fault.code not in error_codes()]

    assert len(ours) > 20
    assert unmapped == []


def test_a_busy_or_loading_server_says_when_to_come_back() -> None:
    """429 and 503 carry Retry-After; the hint is in the message."""
    reply = error_reply(EngineUnavailable("m is loading"))

    assert (reply.status, reply.retry_after_s) == (503, 2)
    assert "GET /ready" in reply.message


def test_a_foreign_exception_tells_nothing() -> None:
    """Its text may hold a path or a question."""
    reply = error_reply(ValueError("/secret"))

    assert reply.status == 500
    assert "/secret" not in json.dumps(reply.body)


def test_tokens_of_an_answer_that_was_given_up_count_too() -> None:
    """About, by its pieces; exactly where it ended."""
    choice = Choice(trace_id="t")
    for origin in ("sampled", "injected", "sampled"):
        choice.feed(TranscriptDelta("x", origin))
    assert choice.sampled == 2
    choice.feed(Done(answer="", finish_reason="stop", stop_reason=None, usage=LoopUsage(sampled_tokens=7)))
    assert choice.sampled == 7
