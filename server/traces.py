"""Record recent answers with their questions, transcripts and calls, in bounded memory; knows no HTTP.

A trace holds the question and the whole transcript. It is returned only to the key that made the request, and written
to disk only if the operator has set a folder.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from server.egress.policy import NOTHING_LEFT
from server.methods.base import (
    AnswerRequest,
    CallMade,
    CallReplied,
    Done,
    Event,
    Evidence,
    EvidenceRead,
    Retrieved,
    Step,
    TextDelta,
    ToolCalled,
    TranscriptDelta,
)
from server.trace_file import TraceFile
from server.types import id_of_digest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TraceHead:
    """Identify one traced request.

    ``owner`` is a digest of the key, "" without keys; ``created`` is Unix time.
    """

    id: str
    model: str
    owner: str
    created: int


class TraceRecorder:
    """Collect the events of one answer into one JSON-serializable record."""

    def __init__(self, ask: AnswerRequest) -> None:
        self._ask = ask
        self._spans: list[list[str]] = []
        self._calls: list[dict[str, Any]] = []
        self._answer_parts: list[str] = []
        self._steps: list[str] = []
        self._searches: list[dict[str, Any]] = []
        self._references: list[dict[str, Any]] = []
        self._done: Done | None = None

    def feed(self, event: Event) -> None:
        match event:
            case TranscriptDelta(text=text, origin=origin):
                self._span(origin, text)
            case TextDelta(text=text, channel="answer"):
                self._answer_parts.append(text)
            case CallReplied():
                self._calls.append(asdict(event))
            case Evidence(references=references):
                self._references = [asdict(reference) for reference in references]
            case Step(text=text):
                self._steps.append(text)
            case Done():
                self._done = event
            case Retrieved():
                self._searches.append(asdict(event))
            case CallMade() | TextDelta() | ToolCalled() | EvidenceRead():
                pass

    def _span(self, origin: str, text: str) -> None:
        if self._spans and self._spans[-1][0] == origin:
            self._spans[-1][1] += text
        elif text:
            self._spans.append([origin, text])

    def record(self, error: str | None = None, left: str = NOTHING_LEFT) -> dict[str, Any]:
        """Return the record of the answer.

        ``error``: the code of the error that ended the answer. ``left``: what it sent to other machines.
        """
        done = self._done
        return {
            "question": self._ask.question,
            "options": dict(self._ask.options),
            "answer": done.answer if done else "",
            "content": "".join(self._answer_parts),
            "finish_reason": done.finish_reason if done else ("error" if error else "abort"),
            "stop_reason": done.stop_reason if done else None,
            "error": error,
            "transcript": "".join(text for _, text in self._spans),
            "spans": [{"kind": origin, "text": text} for origin, text in self._spans],
            "calls": self._calls,
            "egress": left,
            "steps": self._steps,
            "searches": self._searches,
            "references": self._references,
            "usage": asdict(done.usage) if done else None,
            "outcome": done.outcome if done else None,
            "grounding": asdict(done.grounding) if done and done.grounding else None,
            "details": dict(done.details) if done else {},
        }


class TraceStore(Protocol):
    """Store the newest traces within bounds; older ones are dropped first, of the key that holds the most.

    Called by the tasks of one event loop, concurrently. What ``put`` has stored, the next ``get`` returns, unless the
    bounds have dropped it since. Ids are unique among all requests.
    """

    async def put(self, head: TraceHead, choices: Sequence[Mapping[str, Any]]) -> None:
        """Store the trace of one request.

        Raises nothing: an answer never fails because of its trace, so an error is logged.
        """

    async def get(self, trace_id: str, owner: str) -> str | None:
        """Return the JSON text, None if there is no such trace or it belongs to another key."""


def trace_text(head: TraceHead, choices: Sequence[Mapping[str, Any]]) -> str:
    """Return the JSON text of a trace."""
    body = {"id": head.id, "object": "arrowhead.trace", "model": head.model, "created": head.created}
    return json.dumps(body | {"choices": list(choices)}, ensure_ascii=False)


async def append_to_file(file: TraceFile, head: TraceHead, text: str) -> None:
    """Append a trace to the file; an error is logged."""
    try:
        if not await asyncio.to_thread(file.append, id_of_digest(head.owner), text):
            log.warning("trace not written: id=%s cause=it is longer than the file may be", head.id)
    except OSError as error:
        log.error("trace not written: id=%s cause=%s", head.id, error.strerror)


class _Share:
    """Hold the traces of one key, oldest first, with the bytes of each."""

    def __init__(self) -> None:
        self.sizes: OrderedDict[str, int] = OrderedDict()
        self.bytes = 0


class MemoryTraceStore:
    """Store traces in the memory of this process, at most ``max_traces`` and ``max_bytes`` of JSON text.

    At a bound, the key that holds the most gives up its oldest trace, so that no key pushes out what another has within
    its fair share. With ``file``, each trace is also appended there, which is never read here.
    """

    def __init__(self, *, max_traces: int, max_bytes: int, file: TraceFile | None = None) -> None:
        self._max_traces = max_traces
        self._max_bytes = max_bytes
        self._file = file
        self._texts: dict[str, tuple[str, str]] = {}
        self._shares: dict[str, _Share] = {}
        self._bytes = 0

    async def put(self, head: TraceHead, choices: Sequence[Mapping[str, Any]]) -> None:
        text = trace_text(head, choices)
        self._keep(head, text)
        if self._file is not None:
            await append_to_file(self._file, head, text)

    async def get(self, trace_id: str, owner: str) -> str | None:
        found = self._texts.get(trace_id)
        return found[1] if found and found[0] == owner else None

    def _keep(self, head: TraceHead, text: str) -> None:
        size = len(text.encode())
        if size > self._max_bytes or self._max_traces == 0:
            return
        share = self._shares.setdefault(head.owner, _Share())
        self._texts[head.id] = (head.owner, text)
        share.sizes[head.id] = size
        share.bytes += size
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._drop_oldest(max(self._shares, key=lambda owner: self._shares[owner].bytes))
        while len(self._texts) > self._max_traces:
            self._drop_oldest(max(self._shares, key=lambda owner: len(self._shares[owner].sizes)))

    def _drop_oldest(self, owner: str) -> None:
        share = self._shares[owner]
        trace_id, size = share.sizes.popitem(last=False)
        del self._texts[trace_id]
        share.bytes -= size
        self._bytes -= size
        if not share.sizes:
            del self._shares[owner]
