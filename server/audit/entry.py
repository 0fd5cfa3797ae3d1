"""Encode and decode the lines of the audit log, without I/O.

A line is one JSON object. ``hash`` is the SHA-256 of the object's own text without that field, ``prev`` that of the
whole previous line, so that a changed, lost or moved line breaks the chain. The chain proves nothing against an
attacker who can write a new log from its first line on; for that, store the last line's hash elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

FORMAT: Final = 1
# ``prev`` of the very first line.
GENESIS: Final = "0" * 64
# A line holds one call, whose size the table of calls bounds; a longer line is not ours.
MAX_LINE_BYTES: Final = 256 * 1024
_VALUE_DIGITS: Final = 16
_TAIL_CHARS: Final = len(',"hash":""}') + 64

Level = Literal["metadata", "request"]
Decision = Literal["allowed", "refused", "withheld"]
# open: first line of a file; torn: closes off a line that a killed process left unfinished; break: the log before this
# line was not as its head says. send: right before a call goes out, reply: after it, shared: an equal call of another
# answer was under way and its reply was used.
Event = Literal["open", "start", "stop", "send", "reply", "shared", "refused", "withheld", "torn", "break"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """Describe one event for the audit log.

    ``params`` are the call's values: hashed in every line, in clear only at level ``request``.
    """

    event: Event
    request_id: str | None = None
    key_id: str | None = None
    mode: str | None = None
    decision: Decision | None = None
    where: str | None = None
    endpoint: str | None = None
    db: str | None = None
    classes: tuple[str, ...] = ()
    request_bytes: int | None = None
    reply_bytes: int | None = None
    status: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LinePosition:
    """Locate a line in the log by its number, from 1, and the SHA-256 of the previous line."""

    seq: int
    prev: str


START: Final = LinePosition(1, GENESIS)


@dataclass(frozen=True, slots=True)
class Line:
    """Hold one complete line of the log.

    ``digest`` is the SHA-256 of its bytes, which the next line's ``prev`` must equal.
    """

    place: LinePosition
    event: str
    digest: str
    data: Mapping[str, Any]

    @property
    def next(self) -> LinePosition:
        return LinePosition(self.place.seq + 1, self.digest)

    @property
    def broken(self) -> Mapping[str, Any] | None:
        """Return what this line records of a break before it, None where it records none."""
        detail = self.data.get("detail") or {}
        if self.event == "break":
            return dict(detail)
        found = detail.get("break") if self.event == "open" else None
        return dict(found) if isinstance(found, Mapping) else None


def encode(record: AuditRecord, place: LinePosition, now: datetime, *, salt: str, level: Level) -> bytes:
    """Return the bytes of a line without its line end.

    ``salt`` is the file's own: equal values have equal hashes within one file.
    """
    body: dict[str, Any] = {
        "seq": place.seq,
        "time": now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "event": record.event,
        "request_id": record.request_id,
        "key_id": record.key_id,
        "mode": record.mode,
        "decision": record.decision,
        "where": record.where,
        "endpoint": record.endpoint,
        "db": record.db,
        "classes": list(record.classes),
        "request_bytes": record.request_bytes,
        "reply_bytes": record.reply_bytes,
        "status": record.status,
        "values": {name: value_hash(salt, name, value) for name, value in record.params.items()},
    }
    if level == "request" and record.params:
        body["params"] = dict(record.params)
    if record.detail:
        body["detail"] = dict(record.detail)
    text = json.dumps(body | {"prev": place.prev}, separators=(",", ":")).encode("ascii")
    return text[:-1] + f',"hash":"{hashlib.sha256(text).hexdigest()}"}}'.encode("ascii")


def value_hash(salt: str, name: str, value: str) -> str:
    """Return a salted hash that tells equal values from different ones.

    It hides no value from a reader of the file who can guess candidates.
    """
    return hashlib.sha256(f"{salt}\0{name}\0{value}".encode()).hexdigest()[:_VALUE_DIGITS]


def digest_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def decode(line: bytes) -> Line | None:
    """Return the line (given without its line end), or None where ``encode`` did not write it."""
    text, tail = line[:-_TAIL_CHARS] + b"}", line[-_TAIL_CHARS:]
    if tail != f',"hash":"{digest_of(text)}"}}'.encode("ascii"):
        return None
    try:
        data = json.loads(line)
        place = LinePosition(int(data["seq"]), str(data["prev"]))
        return Line(place, str(data["event"]), digest_of(line), data)
    except (ValueError, KeyError, TypeError):
        return None


def closes_off(line: Line, fragment: bytes, before: LinePosition) -> bool:
    """Return whether ``line`` closes off ``fragment``, an unfinished line at the position ``before``."""
    detail = line.data.get("detail") or {}
    number, last = line.place.seq, before.seq
    return (
        (number == last if line.event == "torn" else line.event == "break" and number >= last)
        and line.place.prev == digest_of(fragment)
        and detail.get("before") == before.prev
        and detail.get("torn_bytes") == len(fragment)
    )


def goes_on(line: Line, before: LinePosition) -> bool:
    """Return whether ``line`` belongs at the position ``before``.

    A line that records a break may skip the numbers of lost lines, so that no number is used twice.
    """
    return line.place == before or (
        line.broken is not None and line.place.prev == before.prev and line.place.seq > before.seq
    )
