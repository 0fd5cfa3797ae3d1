"""Chromium without a window, driven through its own pipe by the DevTools protocol: no port, no driver, no package."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE_S: Final = 60.0
# What it would look for by itself (updates) is not looked for, and not found: no name but this machine's is known.
_FLAGS: Final = (
    *("--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)


def installed() -> str | None:
    """The program's path, None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


@dataclass(slots=True)
class Page:
    """One tab. ``events``: what it reported, in order."""

    reads: int
    writes: int
    session: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    _last: int = 0
    _rest: bytes = b""

    def call(self, method: str, **params: Any) -> Any:
        """The result of a command of the protocol; AssertionError where it fails."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        while (reply := self._next()).get("id") != self._last:
            self.events.append(reply)
        assert "error" not in reply, (method, reply["error"])
        return reply["result"]

    def value(self, expression: str) -> Any:
        """What a script's expression, or its promise, comes to."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until it is true."""
        end = time.monotonic() + _PATIENCE_S
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never true: {expression}; {self.complaints()}"
            time.sleep(0.05)

    def press(self, *keys: str) -> None:
        """Keys by their names, and characters."""
        for key in keys:
            text, code = {"Enter": ("\r", 13), "Tab": ("", 9)}.get(key, (key, 0))
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def complaints(self) -> list[str]:
        """Errors and warnings of the console: of scripts, of the security policy, of requests that failed."""
        bad = {"error", "warning", "assert"}
        told = [one["exceptionDetails"] for one in self._reported("Runtime.exceptionThrown")]
        told += [one["args"] for one in self._reported("Runtime.consoleAPICalled") if one["type"] in bad]
        told += [one["entry"] for one in self._reported("Log.entryAdded") if one["entry"]["level"] in bad]
        return [json.dumps(one) for one in told]

    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        return [one["request"]["url"] for one in self._reported("Network.requestWillBeSent")]

    def _reported(self, event: str) -> list[Any]:
        return [one["params"] for one in self.events if one["method"] == event]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self.reads], [], [], _PATIENCE_S)[0], "the browser says nothing"
            more = os.read(self.reads, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def opened(program: str, profile: Path) -> Iterator[Page]:
    """An empty page of a browser of its own, which ends with the block."""
    flags = [*_FLAGS, f"--user-data-dir={profile}", *(["--no-sandbox"] if os.geteuid() == 0 else ())]
    (its_reads, writes), (reads, its_writes) = os.pipe(), os.pipe()
    # It reads commands from descriptor 3 and writes to 4.
    command = ["bash", "-c", f'exec "$@" 3<&{its_reads} 4>&{its_writes}', "bash", program, *flags, "about:blank"]
    process = subprocess.Popen(command, pass_fds=(its_reads, its_writes), stderr=subprocess.DEVNULL)
    os.close(its_reads)
    os.close(its_writes)
    page = Page(reads, writes)
    try:
        target = page.call("Target.createTarget", url="about:blank")["targetId"]
        page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        yield page
    finally:
        process.terminate()
        process.wait(120)
        os.close(reads)
        os.close(writes)
