"""Record what an answer looks up, and answer its look-ups again from that record.

A look-up is a function that is decorated with ``taped`` or ``taped_now``. Which tape an answer has is known to its task
and all that it starts; without one, look-ups are made as ever. Computations (encoders, the verifier, the model) are
no look-ups: a replay makes them anew.
"""

from __future__ import annotations

import base64
import json
import logging
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, Final, ParamSpec, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from models.errors import ArrowheadError, Fault
from retrieval.errors import NcbiError
from retrieval.types import Route

log = logging.getLogger(__name__)
# Of JSON text, before it is compressed to about a fifth.
MAX_BYTES: Final = 8 * 2**20
_P = ParamSpec("_P")
_T = TypeVar("_T")
_NOT_RECORDED: Final = Fault(502, "not_recorded")
Entry = dict[str, Any]


class RecordingTape:
    """Collect the look-ups of one answer, at most ``max_bytes`` of JSON text."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._left = max_bytes
        self._entries: list[Entry] = []

    def add(self, kind: str, key: str, outcome: Entry) -> None:
        """Take what came of a look-up; beyond the bound, the record as a whole is void."""
        entry = {"kind": kind, "key": key, **outcome}
        self._left -= len(json.dumps(entry, ensure_ascii=False))
        self._entries.append(entry)
        if self._left < 0:
            self.spoil()

    def spoil(self) -> None:
        """Make the record void, as something cannot be recorded."""
        self._left = -1
        self._entries.clear()

    def packed(self) -> str | None:
        """Return the record as text, None where it was longer than the bound."""
        if self._left < 0:
            return None
        text = json.dumps(self._entries, ensure_ascii=False)
        return base64.b64encode(zlib.compress(text.encode())).decode("ascii")


class ReplayingTape:
    """Answer look-ups from a record; ``unrecorded`` are those that it does not have, each once."""

    def __init__(self, entries: list[Entry]) -> None:
        self.unrecorded: list[str] = []
        self._entries: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            self._entries.setdefault((entry["kind"], entry["key"]), []).append(entry)

    @classmethod
    def of(cls, packed: str) -> ReplayingTape:
        """Read what ``RecordingTape.packed`` returned.

        Raises:
            ValueError: the text is damaged.
        """
        unpacker = zlib.decompressobj()
        # A character of JSON has at most four bytes; a longer text is none of ours.
        text = unpacker.decompress(base64.b64decode(packed, validate=True), 4 * MAX_BYTES)
        if unpacker.unconsumed_tail:
            raise ValueError("the recorded evidence is longer than it can be")
        entries = json.loads(text)
        if not isinstance(entries, list) or not all(isinstance(one, dict) and "key" in one for one in entries):
            raise ValueError("the recorded evidence is damaged")
        return cls(entries)

    def find(self, kind: str, key: str, missing: type[ArrowheadError]) -> Entry:
        """Return what came of a look-up.

        Raises:
            ArrowheadError: of the class ``missing``; the record does not have it.
        """
        entries = self._entries.get((kind, key))
        if not entries:
            look_up = f"{kind} {key}"
            if look_up not in self.unrecorded:
                self.unrecorded.append(look_up)
            raise missing("the recorded answer made no such look-up", _NOT_RECORDED)
        # A question that was asked several times (a BLAST search that runs) has its replies in their order.
        return entries.pop(0) if len(entries) > 1 else entries[0]


_tape: ContextVar[RecordingTape | ReplayingTape | None] = ContextVar("tape", default=None)


def use(tape: RecordingTape | ReplayingTape | None) -> None:
    """Let the look-ups of this task and of those that it starts go by ``tape`` from now on."""
    _tape.set(tape)


def is_replaying() -> bool:
    return isinstance(_tape.get(), ReplayingTape)


def taped(
    kind: str, result: Any, key: Callable[..., Any], missing: type[ArrowheadError]
) -> Callable[[Callable[_P, Awaitable[_T]]], Callable[_P, Coroutine[Any, Any, _T]]]:
    """Decorate a look-up whose outcome is of the type ``result``.

    ``key`` returns of its arguments what tells it from others of its ``kind``; a replay raises ``missing`` for one that
    was not recorded. Recorded are results and errors of this project.
    """
    look_up = _LookUp(kind, result, missing)

    def decorated(call: Callable[_P, Awaitable[_T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
        @wraps(call)
        async def through(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            tape = _tape.get()
            if tape is None:
                return await call(*args, **kwargs)
            text = _text_of(key(*args, **kwargs))
            if isinstance(tape, ReplayingTape):
                again: _T = look_up.replayed(tape, text)
                return again
            with look_up.recording(tape, text) as record:
                found = await call(*args, **kwargs)
                record(found)
            return found

        return through

    return decorated


def taped_now(
    kind: str, result: Any, key: Callable[..., Any], missing: type[ArrowheadError]
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Decorate a look-up that waits for nothing; else as ``taped``."""
    look_up = _LookUp(kind, result, missing)

    def decorated(call: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(call)
        def through(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            tape = _tape.get()
            if tape is None:
                return call(*args, **kwargs)
            text = _text_of(key(*args, **kwargs))
            if isinstance(tape, ReplayingTape):
                again: _T = look_up.replayed(tape, text)
                return again
            with look_up.recording(tape, text) as record:
                found = call(*args, **kwargs)
                record(found)
            return found

        return through

    return decorated


@dataclass(frozen=True, slots=True)
class _LookUp:
    """Convert what comes of one kind of look-ups to JSON and back."""

    kind: str
    result: Any
    missing: type[ArrowheadError]

    @contextmanager
    def recording(self, tape: RecordingTape, key: str) -> Iterator[Callable[[Any], None]]:
        """Record what the block passes to the function that it gets, or the error that it raises."""

        def take(found: Any) -> None:
            try:
                tape.add(self.kind, key, {"found": _adapter(self.result).dump_python(found, mode="json")})
            except (TypeError, ValueError) as error:
                # An answer never fails because of its trace.
                log.error("look-up not recorded: kind=%s cause=%s", self.kind, type(error).__name__)
                tape.spoil()

        try:
            yield take
        except ArrowheadError as error:
            tape.add(self.kind, key, {"error": _error_record(error)})
            raise

    def replayed(self, tape: ReplayingTape, key: str) -> Any:
        entry = tape.find(self.kind, key, self.missing)
        if "error" in entry:
            raise _error_of(entry["error"])
        return _adapter(self.result).validate_python(entry["found"])


@cache
def _adapter(result: Any) -> TypeAdapter[Any]:
    return TypeAdapter(result)


def _text_of(key: Any) -> str:
    return json.dumps(to_jsonable_python(key), ensure_ascii=False, sort_keys=True)


def _error_record(error: ArrowheadError) -> Entry:
    record: Entry = {
        "type": type(error).__name__,
        "message": error.message,
        "param": error.param,
        "fault": [*error.fault],
    }
    if isinstance(error, NcbiError):
        record["call"] = {"url": error.url, "attempts": error.attempts, "route": to_jsonable_python(error.route)}
    return record


def _error_of(record: Entry) -> ArrowheadError:
    """Return an error of the recorded class; of an unknown one, the base of all."""
    kind = {one.__name__: one for one in _descendants(ArrowheadError)}.get(record["type"], ArrowheadError)
    error = kind.__new__(kind)
    # Not the class's own constructor, which may want other arguments than those that are recorded.
    ArrowheadError.__init__(error, record["message"], Fault(*record["fault"]), param=record["param"])
    if isinstance(error, NcbiError):
        call = record.get("call") or {}
        error.url, error.attempts = call.get("url", ""), call.get("attempts", 0)
        error.route = _adapter(Route).validate_python(route) if (route := call.get("route")) else None
    return error


def _descendants(kind: type[ArrowheadError]) -> list[type[ArrowheadError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _descendants(child))]
