"""Implement ``arrowhead audit verify`` and ``arrowhead audit show``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from server.cli.options import ConfigFile, verbs

# Suffix of a request id: the numbers of the prompt and of the choice.
_ANSWERS = r"(-[0-9]{1,3}){0,2}"

app = verbs("the log of what left this machine")
Files = Annotated[
    list[Path] | None, typer.Argument(metavar="FILE", help="default: the server's log with its older files")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFilter:
    """Select the lines to show.

    ``since`` is in UTC; ``request_id`` also matches the request's single answers.
    """

    since: datetime | None = None
    request_id: str | None = None
    as_json: bool = False


@app.command("verify", help="check that no line was changed, moved or lost")
def verify_files(file: Files = None, config: ConfigFile = None) -> int:
    return verify_log(_files(file, config), is_default=not file)


@app.command("show", help="print the lines")
def show_files(
    file: Files = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="2026-01-31 or 2026-01-31T08:00:00Z")] = None,
    request_id: Annotated[str | None, typer.Option(metavar="ID", help="an answer's id, e.g. chatcmpl-…")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="the lines as they stand in the file")] = False,
    config: ConfigFile = None,
) -> int:
    line_filter = LineFilter(since=parse_since(since) if since else None, request_id=request_id, as_json=as_json)
    return show_log(_files(file, config), line_filter, is_default=not file)


def _files(files: list[Path] | None, config: Path | None) -> list[Path]:
    if files:
        return files
    from server.settings.loading import audit_path, load_settings

    return [audit_path(load_settings(None, config))]


def verify_log(paths: Sequence[Path], *, is_default: bool) -> int:
    """Print the result of the verification and return the exit status, 1 with the first problem or a recorded break.

    Raises:
        AuditFailed: a file cannot be read.
    """
    from server.audit.verification import snapshot, verify

    log = snapshot(paths)
    if log.is_absent:
        return _say_absent(paths[0], is_default=is_default)
    report = verify(log)
    for note in report.notes:
        _print(f"note: {note}")
    for problem in (*report.breaks, report.problem):
        if problem:
            _print(f"broken: {problem}")
    if not report.is_whole:
        return 1
    last = report.next.seq - 1
    _print(f"whole: {report.num_lines} lines, numbers {report.first.seq} to {last}, last hash {report.next.prev}")
    return 0


def _say_absent(path: Path, *, is_default: bool) -> int:
    """Say that there is no log, which is right for the server's own and an error for one that was named."""
    if not is_default:
        from server.audit.chain import AuditFailed

        raise AuditFailed(f"{path}: there is no such file")
    _print(f"no log: {path} does not exist, so nothing was recorded here under these settings")
    return 0


def show_log(paths: Sequence[Path], line_filter: LineFilter, *, is_default: bool) -> int:
    """Print the selected lines and return the exit status, 1 where lines could not be decoded.

    Raises:
        AuditFailed: a file cannot be read.
    """
    from server.audit.verification import decoded_lines, snapshot

    log = snapshot(paths)
    if log.is_absent:
        return _say_absent(paths[0], is_default=is_default)
    status = 0
    for raw, line in decoded_lines(log):
        if line is None:
            sys.stderr.write(f"arrowhead: {raw.where} is not as it was written\n")
            status = 1
        elif _matches(line.data, line_filter):
            _print(raw.text.decode("ascii", "replace") if line_filter.as_json else _readable(line.data))
    return status


def parse_since(text: str) -> datetime:
    """Return the time of an ISO date or time, in UTC where it names no zone.

    Raises:
        SettingsInvalid: the text is no ISO date or time.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        from server.settings.loading import SettingsInvalid

        raise SettingsInvalid(f"--since {text}: write a date or time like 2026-01-31 or 2026-01-31T08:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _matches(data: Mapping[str, Any], line_filter: LineFilter) -> bool:
    if line_filter.since is not None and datetime.fromisoformat(str(data["time"])) < line_filter.since:
        return False
    request_id, logged_id = line_filter.request_id, str(data.get("request_id") or "")
    return request_id is None or re.fullmatch(re.escape(request_id) + _ANSWERS, logged_id) is not None


def _readable(data: Mapping[str, Any]) -> str:
    columns = [str(data["time"]), f"{data['seq']:>6}", f"{data['event']:<8}"]
    columns += [str(data[name]) for name in ("decision", "mode", "where", "endpoint", "db") if data.get(name)]
    columns += [",".join(data["classes"])] if data.get("classes") else []
    fields = (("sent", "request_bytes"), ("got", "reply_bytes"), ("status", "status"), ("key", "key_id"))
    columns += [f"{word}={data[name]}" for word, name in fields if data.get(name) is not None]
    columns += [f"request={data['request_id']}"] if data.get("request_id") else []
    for name in ("params", "detail"):
        columns += [json.dumps(data[name], ensure_ascii=False)] if data.get(name) else []
    return " ".join(columns)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
