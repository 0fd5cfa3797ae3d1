"""Ask a fresh server one question of each method and print the answers with their sources.

    python scripts/ask_each_method.py [--model MODEL]

The server runs on a free port of this machine, in egress mode off and with the data that come with Arrowhead alone:
what you have imported and set is not touched. It is stopped at the end. Methods are those of its /v1/models; one that
its model cannot serve is named and passed over.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from server.settings.loading import xdg_dir

_ROOT: Final = Path(__file__).resolve().parents[1]
# Answered from the data that come with Arrowhead.
QUESTIONS: Final = {
    "genegpt": "What is the official gene symbol of LMP10?",
    "kg-rag": "Which drugs treat hepatitis B?",
    "medrag": "Which drug reverses heparin?",
    "i-medrag": "Which diuretics inhibit the Na-K-2Cl cotransporter?",
    "clinfo": "Is lasmiditan effective for the acute treatment of migraine?",
    "weiseeule": "#Which drug reverses **heparin**?",
}
_LOAD_S: Final = 300.0
_ANSWER_S: Final = 300.0
_STOP_S: Final = 30.0


class NotServed(Exception):
    """The server did not start; the text ends with what it said."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="as of arrowhead serve; default: its default model")
    model = parser.parse_args(argv).model
    # Ends the server too, as an interrupt does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "server.log").open("w+") as log:
        try:
            with running_server(["--model", model] if model else [], Path(folder), log) as address:
                return ask_each(address)
        except NotServed as error:
            print(error, file=sys.stderr)
            return 1


@contextmanager
def running_server(flags: Sequence[str], folder: Path, log: IO[str]) -> Iterator[str]:
    """Yield the address of a server that is ready and keeps its data in ``folder``, but for converted models.

    Raises:
        NotServed: it ended or was not ready in time.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "server", "serve", "--port", str(port), "--egress", "off", *flags]
    child = subprocess.Popen(command, cwd=_ROOT, stdout=log, stderr=log, env=_environment(folder))
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_until_ready(address, child, log)
        yield address
    finally:
        child.terminate()
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("ARROWHEAD_")}
    models = os.environ.get("ARROWHEAD_MODEL__DATA_DIR") or str(xdg_dir("data") / "models")
    kinds = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE")}
    # In float32 everywhere: bfloat16, the default of some processors, finds a passage more or less.
    return own | kinds | {"ARROWHEAD_MODEL__DATA_DIR": models, "ARROWHEAD_RETRIEVAL__DTYPE": "float32"}


def _wait_until_ready(address: str, child: subprocess.Popen[bytes], log: IO[str]) -> None:
    until = time.monotonic() + _LOAD_S
    while time.monotonic() < until and child.poll() is None:
        try:
            reply = httpx.get(f"{address}/ready", trust_env=False)
            if reply.status_code == 200:
                return
            if reply.json().get("state") == "failed":
                break
        except (httpx.HTTPError, ValueError):
            pass
        time.sleep(0.3)
    log.seek(0)
    raise NotServed("the server did not become ready:\n" + "".join(log.readlines()[-5:]))


def ask_each(address: str) -> int:
    """Print one answer of each method that is served, and return 1 where one of them failed."""
    status = 0
    for model in _models(address):
        # Encoders and re-rankers are listed too, without a method.
        method = model.get("method", "")
        question = QUESTIONS.get(method)
        if question is None:
            continue
        if not model["arrowhead"]["synthesis"]:
            print(f"{model['id']} is not served with this model", file=sys.stderr)
            continue
        print(f"== {method} ({model['arrowhead']['synthesis'][0]})", flush=True)
        status = max(status, _ask(address, model["id"], question))
        print(flush=True)
    return status


def _models(address: str) -> list[dict[str, Any]]:
    reply = httpx.get(f"{address}/v1/models", trust_env=False)
    reply.raise_for_status()
    models: list[dict[str, Any]] = reply.json()["data"]
    return models


def _ask(address: str, model: str, question: str) -> int:
    """Ask with the command line, whose sources follow the answer."""
    command = [sys.executable, "-m", "server", "ask", question, "--url", address, "--model", model]
    done = subprocess.run(command, cwd=_ROOT, stderr=subprocess.STDOUT, timeout=_ANSWER_S, check=False)
    return 1 if done.returncode else 0


if __name__ == "__main__":
    raise SystemExit(main())
