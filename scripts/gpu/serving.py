"""Start the server on the GPU for a check, and ask it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
NAME = "verified"
_STOP_S = 60.0


@contextmanager
def served(model: Path, start_s: float = 600.0) -> Iterator[str]:
    """Run ``arrowhead serve`` over vLLM on the GPU, and give its address once the model is loaded.

    Raises:
        RuntimeError: it ended, or was not ready in time; its output is on ours.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "server", "serve", "--model", str(model), "--served-name", NAME]
    command += ["--engine", "vllm", "--device", "cuda", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="verify-gpu-home-") as home:
        child = subprocess.Popen(command, cwd=ROOT, env=_environment(home))
        try:
            _wait(child, url, start_s)
            yield url
        finally:
            _end(child)


def _environment(home: str) -> dict[str, str]:
    """Without the settings, namespaces and keys of whoever runs the check."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ARROWHEAD_")}
    folders = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), home)
    return own | folders | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def _wait(child: subprocess.Popen[bytes], url: str, start_s: float) -> None:
    deadline = time.monotonic() + start_s
    while not is_ready(url):
        if child.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server was not ready within {start_s:.0f} s; it ended: {child.poll()}")
        time.sleep(0.5)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/ready", timeout=5, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def post(url: str, path: str, body: Mapping[str, Any], timeout: float = 120.0) -> tuple[int, dict[str, Any]]:
    """The status and body of a reply; status 0 where there was none."""
    try:
        reply = httpx.post(url + path, json=dict(body), timeout=timeout, trust_env=False)
        parsed = reply.json()
    except (httpx.HTTPError, ValueError) as error:
        return 0, {"error": {"message": f"{type(error).__name__}: {error}"}}
    return reply.status_code, parsed if isinstance(parsed, dict) else {}


def figure(name: str, value: object) -> None:
    """Print a figure for the report."""
    print(f"FIGURE {name}={value}", flush=True)


def vocabulary(model: Path) -> int:
    """The number of ids of a model, from its config.json."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return int(config.get("vocab_size") or config["text_config"]["vocab_size"])
