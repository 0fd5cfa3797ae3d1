"""Record recent answers with their questions, transcripts and calls, in bounded memory and a bounded file.

Knows no HTTP. A trace holds the question and the whole transcript. It is returned only to the key that made the
request, and written to disk only if the operator has set a folder. In the file, no key can push out the traces of
another: at its bound it is compacted to half of it; of the keys that hold the most, the oldest traces go first. Several
processes may share the file; a lock file beside it separates their lines and compactions.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import re
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from retrieval.storage.files import FILE_MODE, make_folder
from server.egress.policy import NOTHING_LEFT
from server.methods.base import (
    AnswerRequest,
    CallMade,
    CallReplied,
    Done,
    Event,
    Evidence,
    EvidenceRead,
    Message,
    Retrieved,
    Sampling,
    Step,
    TextDelta,
    ToolCalled,
    ToolsListed,
    TranscriptDelta,
)
from server.tape import RecordingTape
from server.types import id_of_digest

log = logging.getLogger(__name__)
FILE_NAME: Final = "traces.jsonl"
# Of JSON text in memory, and of the file, whose oldest traces of the busiest keys go first.
MAX_TRACE_BYTES: Final = 64 * 2**20
_MAX_FILE_BYTES: Final = 256 * 2**20


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
    """Collect the events of one answer into one JSON-serializable record, and its look-ups on ``tape``."""

    def __init__(self, ask: AnswerRequest) -> None:
        self.tape = RecordingTape()
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
            case Retrieved(queries=queries, sources=sources):
                self._searches.append({"queries": queries, "sources": sources})
            case CallMade() | TextDelta() | ToolCalled() | ToolsListed() | EvidenceRead():
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
            "support": done.support.record if done and done.support else None,
            "details": dict(done.details) if done else {},
            "request": _request_record(self._ask),
            "evidence": self.tape.packed(),
        }


_FIELDS: Final[Mapping[str, Any]] = {
    "messages": tuple[Message, ...],
    "prompt": str | None,
    "sampling": Sampling,
    "options": dict[str, Any],
    "namespaces": frozenset[str] | None,
    "methods": frozenset[str] | None,
    "documents": frozenset[str] | None,
    "site_tools": tuple[str, ...],
}


def _request_record(ask: AnswerRequest) -> dict[str, Any] | None:
    """Return what ``request_of`` makes a request of again, None for one with a client's own grammar or tools."""
    if ask.grammar is not None or ask.tools is not None:
        return None
    return {name: to_jsonable_python(getattr(ask, name)) for name in _FIELDS}


def request_of(record: Mapping[str, Any], request_id: str) -> AnswerRequest:
    """Return the recorded request under a new id.

    Raises:
        ValueError: the record is damaged.
    """
    known = {name: TypeAdapter(kind).validate_python(record.get(name)) for name, kind in _FIELDS.items()}
    return AnswerRequest(request_id=request_id, **known)


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

    def __init__(self, *, max_traces: int, max_bytes: int = MAX_TRACE_BYTES, file: TraceFile | None = None) -> None:
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


_KEY: Final = re.compile(rb'\{"key_id": "([0-9a-f]*)", ')
_HEAD: Final = 64


class TraceFile:
    """Append lines to ``traces.jsonl`` in a folder, at most ``max_bytes``; safe between threads and processes."""

    def __init__(self, folder: Path, max_bytes: int = _MAX_FILE_BYTES) -> None:
        self._folder = folder
        self._path = folder / FILE_NAME
        self._max_bytes = max_bytes

    def append(self, key_id: str, json_object: str) -> bool:
        """Append one trace, and return False if it alone exceeds the bound and was left out.

        Raises:
            OSError: the line is not in the file.
        """
        line = f'{{"key_id": "{key_id}", {json_object[1:]}\n'.encode()
        if len(line) > self._max_bytes:
            return False
        make_folder(self._folder)
        with self._locked():
            if self._size() + len(line) > self._max_bytes:
                self._compact(max(0, min(self._max_bytes // 2, self._max_bytes - len(line))))
            self._write(line)
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self._path.with_name(f".{FILE_NAME}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _write(self, line: bytes) -> None:
        """Append the whole line or nothing, as a full disk can take a part."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
        try:
            before = os.fstat(descriptor).st_size
            if os.write(descriptor, line) != len(line):
                os.ftruncate(descriptor, before)
                raise OSError(28, "No space left on device")
        finally:
            os.close(descriptor)

    def _compact(self, target: int) -> None:
        """Keep at most ``target`` bytes; a kill leaves the old or the new file."""
        with self._path.open("rb") as old:
            owners = [(_key_of(line), len(line)) for line in old]
        kept = _fair(owners, target)
        draft = self._path.with_name(f".{FILE_NAME}.draft")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with self._path.open("rb") as old, os.fdopen(descriptor, "wb") as new:
            new.writelines(line for at, line in enumerate(old) if at in kept)
            new.flush()
            os.fsync(new.fileno())
        draft.replace(self._path)


def _key_of(line: bytes) -> bytes:
    found = _KEY.match(line[:_HEAD])
    return found[1] if found else b""


def _fair(owners: list[tuple[bytes, int]], target: int) -> set[int]:
    """Return the indices of the lines to keep: of each owner the newest, as many as fit its fair share of ``target``.

    What owners do not use of their shares is divided among the others.
    """
    totals: defaultdict[bytes, int] = defaultdict(int)
    for owner, size in owners:
        totals[owner] += size
    share = _level(totals.values(), target)
    kept: set[int] = set()
    used: defaultdict[bytes, int] = defaultdict(int)
    for at in range(len(owners) - 1, -1, -1):
        owner, size = owners[at]
        used[owner] += size
        if used[owner] <= share:
            kept.add(at)
    return kept


def _level(totals: Iterable[int], target: int) -> int:
    """Return the greatest share so that all totals, each cut to it, come to at most ``target``."""
    waiting = sorted(totals)
    left = target
    for at, total in enumerate(waiting):
        share = left // (len(waiting) - at)
        if total > share:
            return share
        left -= total
    return target
