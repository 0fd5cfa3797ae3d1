"""Configure log format and levels so that no log holds question text, replies, URLs or keys.

This applies at every level: libraries that would log them are limited to warnings, and exceptions and warnings are
printed without their messages, which may quote any of them. What a message holds all the same is escaped and cut, so
that no text can forge a line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, TextIO

from server.printable import for_log
from server.settings.server import LogSettings

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

request_id: ContextVar[str] = ContextVar("request_id", default="-")

# They log whole URLs with the query (httpx at INFO), or one line per request with path and query.
_VERBOSE_LOGGERS = ("httpx", "httpcore", "httpx2", "httpcore2", "uvicorn.access", "asyncio", "urllib3", "filelock")


_MAX_MESSAGE: Final = 2000
_MAX_FIELD: Final = 200
# Place and category of a Python warning, without its text.
_WARNING: Final = re.compile(r".*?:[0-9]+: \w+(?=:)")


class _RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        if record.name == "asyncio":
            # The lines after the first show the task and its exception with their contents.
            record.msg, record.args = record.getMessage().partition("\n")[0], ()
        elif record.name == "py.warnings":
            found = _WARNING.match(record.getMessage())
            record.msg, record.args = found[0] if found else "a warning", ()
        return True


class _PlainFormatter(logging.Formatter):
    """Format a message as one line of visible characters, and an exception as its type and place without its text."""

    def format(self, record: logging.LogRecord) -> str:
        line = logging.makeLogRecord(record.__dict__)
        line.msg, line.args = for_log(record.getMessage(), _MAX_MESSAGE), ()
        line.exc_text = line.stack_info = None
        return super().format(line)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802
        return "\n".join(_outline(ei[1]))


def _outline(error: BaseException | None) -> list[str]:
    lines: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
        lines += [type(error).__name__, *([frames] if frames else [])]
        error = error.__cause__ or error.__context__
    return lines


class _JsonFormatter(_PlainFormatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "message": for_log(record.getMessage(), _MAX_MESSAGE),
        }
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        line |= {
            name: for_log(value, _MAX_FIELD) if isinstance(value, str) else value for name, value in fields.items()
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_event(logger: logging.Logger, level: int, event: str, fields: Mapping[str, str | int | float]) -> None:
    """Log one line ``event: name=value …``, in JSON with each field as a member, too.

    ``fields`` must not hold text of users.
    """
    if logger.isEnabledFor(level):
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        logger.log(level, "%s: %s", event, text, extra={"fields": {"event": event, **fields}})


class _Handler(logging.StreamHandler[TextIO]):
    """Say nothing of a record that cannot be formatted, which Python would print with its arguments."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        with suppress(OSError, ValueError):
            self.stream.write(f"a log record of {record.module} line {record.lineno} could not be written\n")


def setup_logging(settings: LogSettings) -> None:
    """Log to stderr; called once, by the command line."""
    handler = _Handler(sys.stderr)
    handler.addFilter(_RequestIdFilter())
    text = _PlainFormatter("%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s")
    handler.setFormatter(_JsonFormatter() if settings.format == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level)
    logging.captureWarnings(True)
    for name in _VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
