"""Render chat templates in a process of their own, which is ended where one takes too long.

The process starts at the first template and is used again; one that was ended is replaced at the next. Safe from any
thread: templates are rendered one after the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from models.engines import template_child

# Longer than the processor time that a template has, for a busy machine.
_RENDER_S: Final = 10.0
_START_S: Final = 60.0
_BLOCK: Final = 2**18
# Each character as an escape of six, or of twelve beyond the first plane.
_MAX_REPLY: Final = 12 * template_child.MAX_CHARS


class TemplateFailed(Exception):  # an outcome, which ``ChatTemplate`` turns into the refusal of a request
    """Carry why a template gave no text."""


class TemplateProcess:
    """Render templates within ``seconds`` each."""

    def __init__(self, seconds: float = _RENDER_S) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def render(self, source: str, variables: Mapping[str, Any]) -> str:
        """Return the text of a template.

        Raises:
            TemplateFailed: the template refuses the variables, fails, or reaches a limit.
            TypeError, ValueError: the variables cannot be written as JSON.
        """
        request = json.dumps({"source": source, "variables": dict(variables)}).encode() + b"\n"
        with self._lock:
            child = self._running()
            try:
                reply = self._asked(child, request)
            except BaseException:
                self._end()
                raise
        if "error" in reply:
            raise TemplateFailed(str(reply["error"]))
        return str(reply["text"])

    def close(self) -> None:
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._end()
        # It ends by itself when this process does, as its input ends then.
        self._child = child = subprocess.Popen(
            [sys.executable, "-I", str(Path(template_child.__file__))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        _line_of(child, time.monotonic() + _START_S)
        return child

    def _asked(self, child: subprocess.Popen[bytes], request: bytes) -> Mapping[str, Any]:
        assert child.stdin is not None
        until = time.monotonic() + self._seconds
        # Long chats pass the pipe in pieces; the child reads them before it renders.
        try:
            child.stdin.write(request)
            child.stdin.flush()
        except OSError as error:
            raise TemplateFailed("its process ended") from error
        reply: Mapping[str, Any] = json.loads(_line_of(child, until))
        return reply

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not written any more
                    pipe.close()


def _line_of(child: subprocess.Popen[bytes], until: float) -> bytes:
    """Return the next line of the child.

    Raises:
        TemplateFailed: it does not come in time, is too long, or the child ended.
    """
    assert child.stdout is not None
    parts, size = [], 0
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, until - time.monotonic())):
                raise TemplateFailed("it takes too long")
            data = os.read(child.stdout.fileno(), _BLOCK)
            parts.append(data)
            size += len(data)
            if not data:
                raise TemplateFailed("it takes too long, or needs too much memory")
            if data.endswith(b"\n"):
                return b"".join(parts)
            if size > _MAX_REPLY:
                raise TemplateFailed("it writes too much")
