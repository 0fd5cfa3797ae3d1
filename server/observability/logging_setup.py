"""Configure log format and levels so that no log holds question text, replies, URLs or keys.

This applies at every level: libraries that would log them are limited to warnings, and exceptions are printed without
their messages, which may quote any of them.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from server.settings.observability import LogSettings

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

request_id: ContextVar[str] = ContextVar("request_id", default="-")

# They log whole URLs with the query (httpx at INFO), or one line per request with path and query.
_VERBOSE_LOGGERS = ("httpx", "httpcore", "httpx2", "httpcore2", "uvicorn.access", "asyncio", "urllib3", "filelock")


class _RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        if record.name == "asyncio":
            # The lines after the first show the task and its exception with their contents.
            record.msg, record.args = record.getMessage().partition("\n")[0], ()
        return True


class _PlainFormatter(logging.Formatter):
    """Format an exception as its type and location, without its message."""

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
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
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


def setup_logging(settings: LogSettings) -> None:
    """Log to stderr; called once, by the command line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_RequestIdFilter())
    text = _PlainFormatter("%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s")
    handler.setFormatter(_JsonFormatter() if settings.format == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level)
    for name in _VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
