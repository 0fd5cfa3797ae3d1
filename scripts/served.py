"""Run ``arrowhead serve`` in a process of its own, for checks and benchmarks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

ROOT: Final = Path(__file__).resolve().parents[1]
_STOP_S: Final = 60.0


class NotServed(RuntimeError):
    """The server ended or was not ready in time; the text ends with what it said."""


@dataclass(frozen=True, slots=True)
class Served:
    url: str
    pid: int
    log: Path

    @property
    def is_ready(self) -> bool:
        return is_ready(f"{self.url}/ready")


def environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Nothing of the user's own settings and data: those of the server stand in ``folder``.

    ``settings`` are named as in the environment, without the prefix.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("ARROWHEAD_")}
    kinds = ("CONFIG", "DATA", "STATE", "CACHE")
    folders = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in kinds}
    return own | folders | {f"ARROWHEAD_{name}": value for name, value in settings.items()}


@contextmanager
def served(
    arguments: Sequence[str] = (), settings: Mapping[str, str] | None = None, start_s: float = 300.0
) -> Iterator[Served]:
    """Start it on a free port of this machine, with data of its own, and end it with the block.

    Raises:
        NotServed: it ended or was not ready in time.
    """
    with tempfile.TemporaryDirectory(prefix="arrowhead-served-", ignore_cleanup_errors=True) as name:
        port, folder = free_port(), Path(name)
        command = ["-m", "server", "serve", "--port", str(port), *arguments]
        log = folder / "server.log"
        with running(command, environment(folder, settings or {}), log) as child:
            made = Served(f"http://127.0.0.1:{port}", child.pid, log)
            key = (settings or {}).get("SERVER__API_KEYS", "").partition(",")[0]
            wait_until_ready(child, f"{made.url}/ready", start_s, log, key)
            yield made


@contextmanager
def running(command: Sequence[str], environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python with these arguments in the checkout, and end it with the block."""
    with log.open("wb") as output:
        child = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=dict(environ), stdout=output, stderr=output)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def wait_until_ready(child: subprocess.Popen[bytes], url: str, start_s: float, log: Path, key: str = "") -> None:
    """Raises NotServed."""
    until = time.monotonic() + start_s
    while not is_ready(url, key):
        if child.poll() is not None or time.monotonic() > until or _has_failed(url):
            said = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise NotServed(f"the server was not ready within {start_s:.0f} s:\n{said}")
        time.sleep(0.2)


def is_ready(url: str, key: str = "") -> bool:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        return httpx.get(url, headers=headers, timeout=5, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _has_failed(url: str) -> bool:
    """Whether the server says that its model could not be loaded."""
    try:
        return bool(httpx.get(url, timeout=5, trust_env=False).json().get("state") == "failed")
    except (httpx.HTTPError, ValueError, AttributeError):
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
