"""The lines of the audit log: from a record to bytes and back. Pure; knows no files.

A line is one JSON object. ``hash`` is the SHA-256 of the object's own text without it, ``prev`` that of the whole line
before, so that a changed, lost or moved line breaks the chain. The chain proves nothing against who can write a new
log from its first line on; for that, the last line's hash has to be kept somewhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

FORMAT: Final = 1
# What the very first line follows.
GENESIS: Final = "0" * 64
# A line holds one call, which the table of calls bounds; whatever is longer is no line of ours.
MAX_LINE_BYTES: Final = 256 * 1024
_VALUE_DIGITS: Final = 16
_TAIL_CHARS: Final = len(',"hash":""}') + 64

Level = Literal["metadata", "request"]
Decision = Literal["allowed", "refused", "withheld"]
# open: first line of a file; torn: closes off a line that a killed process left unfinished. send: right before a call
# goes out, reply: after it, shared: an equal call of another answer was under way and its reply was used.
Event = Literal["open", "start", "stop", "send", "reply", "shared", "refused", "withheld", "torn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """What happened. ``params`` are the call's values: hashed in every line, in clear only at level ``request``."""

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
class Place:
    """Where in the log a line stands: its number from 1, the SHA-256 of the line before."""

    seq: int
    prev: str


@dataclass(frozen=True, slots=True)
class Line:
    """A whole line that was read. ``digest``: SHA-256 of its bytes, what the next line's ``prev`` must be."""

    place: Place
    event: str
    digest: str
    data: Mapping[str, Any]

    @property
    def next(self) -> Place:
        return Place(self.place.seq + 1, self.digest)


def encode(record: AuditRecord, place: Place, now: datetime, *, salt: str, level: Level) -> bytes:
    """The line without its end. ``salt`` is the file's own: equal values have equal hashes within one file."""
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
    """Tells equal values from different ones. Who has the file can try values out; it hides none from a guess."""
    return hashlib.sha256(f"{salt}\0{name}\0{value}".encode()).hexdigest()[:_VALUE_DIGITS]


def digest_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def decode(line: bytes) -> Line | None:
    """The line (without its end), None where it is not one that ``encode`` wrote."""
    text, tail = line[:-_TAIL_CHARS] + b"}", line[-_TAIL_CHARS:]
    if tail != f',"hash":"{digest_of(text)}"}}'.encode("ascii"):
        return None
    try:
        data = json.loads(line)
        place = Place(int(data["seq"]), str(data["prev"]))
        return Line(place, str(data["event"]), digest_of(line), data)
    except (ValueError, KeyError, TypeError):
        return None


def closes_off(line: Line, fragment: bytes, before: Place) -> bool:
    """Whether ``line`` says of ``fragment`` that it was left unfinished behind the line that ``before`` follows."""
    detail = line.data.get("detail") or {}
    return (
        line.event == "torn"
        and line.place == Place(before.seq, digest_of(fragment))
        and detail.get("before") == before.prev
        and detail.get("torn_bytes") == len(fragment)
    )
