"""Log format and levels. Question text, replies, URLs and keys never stand in a log above DEBUG; this file keeps the
libraries that would write them quiet."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar

from server.settings import LogSettings

request_id: ContextVar[str] = ContextVar("request_id", default="-")

# These write whole URLs with query (httpx at INFO), or one line a request that holds the path and query.
_TALKATIVE = ("httpx", "httpcore", "httpx2", "httpcore2", "uvicorn.access", "asyncio", "urllib3", "filelock")


class _RequestIdFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        return True


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "request_id": getattr(record, "request_id", "-"),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def setup_logging(settings: LogSettings) -> None:
    """Log to stderr; called once, by the command line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_RequestIdFilter())
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s [%(request_id)s] %(message)s")
    handler.setFormatter(_JsonFormatter() if settings.format == "json" else text)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
