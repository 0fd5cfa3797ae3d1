"""``arrowhead serve`` as a process, for tests that need all of it: sockets, signals, files."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import openai
from own_folders import models_folder, own_environment
from shipped_data import give_data

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Served:
    """A server, wherever it runs."""

    url: str

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=120)


@dataclass(frozen=True)
class Running(Served):
    """A server process. ``log`` returns what it wrote so far."""

    process: subprocess.Popen[str]
    log: Callable[[], str]


def own_data_folders(environment: Mapping[str, str], own: str) -> dict[str, str]:
    """Name a folder of namespaces in ``own`` where the settings name none: each has one server, tests start several.

    What a server would build for seconds is put into its home, but not where the data folder is named as such.
    """
    if "XDG_DATA_HOME" in environment:
        return {}
    give_data(Path(environment.get("HOME", own), ".local", "share", "arrowhead"))
    return {"ARROWHEAD_RETRIEVAL__DATA_DIR": environment.get("ARROWHEAD_RETRIEVAL__DATA_DIR", f"{own}/namespaces")}


@contextmanager
def serve(
    environment: Mapping[str, str], *flags: str, port: int = 0, stdout: int = subprocess.DEVNULL, umask: int = -1
) -> Iterator[Running]:
    """``arrowhead serve`` until the block ends, on a free port unless one is given.

    ``stdout``: file descriptor for what it prints there. ``umask``: that of the shell it is run from, -1 for ours.
    """
    with tempfile.TemporaryDirectory(prefix="arrowhead-served-") as own:
        clean = own_environment(Path(own)) | {"ARROWHEAD_MODEL__DATA_DIR": str(models_folder())}
        clean |= {"ARROWHEAD_GATEWAY__HUMAN_GENES": "false"}  # seconds at each start that few tests need
        folder = own_data_folders(environment, own)
        command = [sys.executable, "-m", "server", "serve", "--port", str(port), *flags]
        with _serving(command, clean | dict(environment) | folder, stdout, umask) as running:
            yield running


@contextmanager
def _serving(command: list[str], environment: dict[str, str], stdout: int, umask: int) -> Iterator[Running]:
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, stdout=stdout, text=True, umask=umask
    )
    lines: list[str] = []
    ready = threading.Event()

    def read() -> None:
        for line in process.stderr or ():
            lines.append(line)
            if "ready after" in line:
                ready.set()
        ready.set()

    threading.Thread(target=read, daemon=True).start()
    try:
        assert ready.wait(240), "the server did not become ready:\n" + "".join(lines)
        found = re.search(r"ready after [\d.]+ s: (http://\S+)/v1", "".join(lines))
        assert found, f"the server ended with {process.poll()}:\n" + "".join(lines)
        yield Running(found[1], process, lambda: "".join(lines))
    finally:
        process.terminate()
        try:
            process.wait(20)  # no check: one that still answers is killed
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
