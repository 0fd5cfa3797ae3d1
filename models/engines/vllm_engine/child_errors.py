"""Learn why vLLM's processes end: they log the exception, and tell their parent only that they have failed.

vLLM reads a logging config in each of its processes. Ours adds one handler, which writes the last line of each logged
exception to a file; a process that raises first is named before those that fail in consequence.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

# With either of them set, the operator's own logging is kept, and no cause is known.
_CONFIG_PATH: Final = "VLLM_LOGGING_CONFIG_PATH"
_CONFIGURE: Final = "VLLM_CONFIGURE_LOGGING"
_MOST_CHARS: Final = 500
_PREFIX: Final = "arrowhead-vllm-"
# A worker's error makes the engine core fail, whose own exception then says only that a worker failed.
_WORKERS: Final = "vllm.v1.executor"
# What this process logs, too, when the engine core has ended at a step.
_CONSEQUENCE: Final = "EngineDeadError"


class ExceptionFile(logging.Handler):
    """Append the exception of a record to a file, as one line of JSON; a file that is gone is not made again."""

    def __init__(self, filename: str) -> None:
        super().__init__()
        self._filename = filename

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        line = json.dumps({"logger": record.name, "error": error_line(error)}) + "\n"
        with suppress(OSError):
            file = os.open(self._filename, os.O_WRONLY | os.O_APPEND)
            try:
                # Processes that write at once do not cut each other's lines.
                os.write(file, line.encode())
            finally:
                os.close(file)


def error_line(error: BaseException) -> str:
    """Return the type and the text of an error in one line; a group says that of its first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_MOST_CHARS]


class ChildErrors:
    """Own the file that vLLM's processes write their exceptions to."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._folder: Path | None = None
        given = environ.get(_CONFIG_PATH, "")
        # An engine that ran before in this process may have left its own.
        is_free = not given or Path(given).parent.name.startswith(_PREFIX)
        if is_free and environ.get(_CONFIGURE, "1") != "0":
            self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))

    def environment(self, level: str) -> dict[str, str]:
        """Write the logging config, and return the variables that name it; ``level`` is that of vLLM's own log."""
        if self._folder is None:
            return {}
        file, errors = self._folder / "logging.json", self._folder / "errors"
        errors.touch(mode=0o600)
        file.write_text(json.dumps(_config(errors, level)), encoding="utf-8")
        return {_CONFIG_PATH: str(file)}

    def cause(self) -> str:
        """Return the exception with which the processes began to fail, "" where none is known."""
        if self._folder is None:
            return ""
        try:
            lines = (self._folder / "errors").read_text(encoding="utf-8").splitlines()
        except OSError:
            return ""
        found = [one for one in map(json.loads, lines) if not one["error"].startswith(_CONSEQUENCE)]
        workers = [one for one in found if one["logger"].startswith(_WORKERS)]
        return str((workers or found or [{"error": ""}])[-1]["error"])

    def close(self) -> None:
        """Remove the file; vLLM reads no config that is gone."""
        if self._folder is not None:
            if os.environ.get(_CONFIG_PATH, "").startswith(str(self._folder)):
                del os.environ[_CONFIG_PATH]
            shutil.rmtree(self._folder, ignore_errors=True)


def _config(file: Path, level: str) -> dict[str, Any]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"text": {"format": "%(levelname)s %(asctime)s [%(name)s:%(lineno)d] %(message)s"}},
        "handlers": {
            "text": {"class": "logging.StreamHandler", "formatter": "text", "level": level},
            "exception": {"()": f"{__name__}.{ExceptionFile.__name__}", "filename": str(file), "level": "ERROR"},
        },
        "loggers": {"vllm": {"handlers": ["text", "exception"], "level": level, "propagate": False}},
    }
