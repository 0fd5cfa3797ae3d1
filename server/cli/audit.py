"""Implement ``arrowhead audit verify`` and ``arrowhead audit show``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from server.audit.verification import decoded_lines, snapshot, verify
from server.settings.loading import SettingsInvalid

# Suffix of a request id: the numbers of the prompt and of the choice.
_ANSWERS = r"(-[0-9]{1,3}){0,2}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """Select the lines to show.

    ``since`` is in UTC; ``request_id`` also matches the request's single answers.
    """

    since: datetime | None = None
    request_id: str | None = None
    as_json: bool = False


def verify_log(paths: Sequence[Path]) -> int:
    """Print the result of the verification and return the exit status, 1 with the first problem.

    Raises:
        AuditFailed: a file cannot be read.
    """
    report = verify(snapshot(paths))
    for note in report.notes:
        _print(f"note: {note}")
    if report.problem:
        _print(f"broken: {report.problem}")
        return 1
    last = report.next.seq - 1
    _print(f"whole: {report.num_lines} lines, numbers {report.first.seq} to {last}, last hash {report.next.prev}")
    return 0


def show_log(paths: Sequence[Path], wanted: LineFilter) -> int:
    """Print the selected lines and return the exit status, 1 where lines could not be decoded.

    Raises:
        AuditFailed: a file cannot be read.
    """
    status = 0
    for raw, line in decoded_lines(snapshot(paths)):
        if line is None:
            sys.stderr.write(f"arrowhead: {raw.where} is not as it was written\n")
            status = 1
        elif _matches(line.data, wanted):
            _print(raw.text.decode("ascii", "replace") if wanted.as_json else _readable(line.data))
    return status


def parse_since(text: str) -> datetime:
    """Return the time of an ISO date or time, in UTC where it names no zone.

    Raises:
        SettingsInvalid: the text is no ISO date or time.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsInvalid(f"--since {text}: write a date or time like 2026-01-31 or 2026-01-31T08:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _matches(data: Mapping[str, Any], wanted: LineFilter) -> bool:
    if wanted.since is not None and datetime.fromisoformat(str(data["time"])) < wanted.since:
        return False
    asked, own = wanted.request_id, str(data.get("request_id") or "")
    return asked is None or re.fullmatch(re.escape(asked) + _ANSWERS, own) is not None


def _readable(data: Mapping[str, Any]) -> str:
    words = [str(data["time"]), f"{data['seq']:>6}", f"{data['event']:<8}"]
    words += [str(data[name]) for name in ("decision", "mode", "where", "endpoint", "db") if data.get(name)]
    words += [",".join(data["classes"])] if data.get("classes") else []
    named = (("sent", "request_bytes"), ("got", "reply_bytes"), ("status", "status"), ("key", "key_id"))
    words += [f"{word}={data[name]}" for word, name in named if data.get(name) is not None]
    words += [f"request={data['request_id']}"] if data.get("request_id") else []
    for name in ("params", "detail"):
        words += [json.dumps(data[name], ensure_ascii=False)] if data.get(name) else []
    return " ".join(words)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
