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
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from scripts.served import ROOT, NotServed, served
from server.settings.loading import xdg_dir

# Answered from the data that come with Arrowhead.
QUESTIONS: Final = {
    "genegpt": "What is the official gene symbol of LMP10?",
    "kg-rag": "Which drugs treat hepatitis B?",
    "medrag": "Which drug reverses heparin?",
    "i-medrag": "Which diuretics inhibit the Na-K-2Cl cotransporter?",
    "clinfo": "Is lasmiditan effective for the acute treatment of migraine?",
    "weiseeule": "#Which drug reverses **heparin**?",
}
_ANSWER_S: Final = 300.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="as of arrowhead serve; default: its default model")
    model = parser.parse_args(argv).model
    # Ends the server too, as an interrupt does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Converted models stay. In float32 everywhere: bfloat16, the default of some processors, finds a passage more or
    # less.
    models = os.environ.get("ARROWHEAD_MODEL__DATA_DIR") or str(xdg_dir("data") / "models")
    settings = {"MODEL__DATA_DIR": models, "RETRIEVAL__DTYPE": "float32"}
    try:
        with served(["--egress", "off", *(["--model", model] if model else [])], settings) as server:
            return ask_each(server.url)
    except NotServed as error:
        print(error, file=sys.stderr)
        return 1


def ask_each(address: str) -> int:
    """Print one answer of each method that is served, and return 1 where one of them failed."""
    reply = httpx.get(f"{address}/v1/models", trust_env=False)
    reply.raise_for_status()
    status = 0
    for model in reply.json()["data"]:
        # Encoders and re-rankers are listed too, without a method.
        method = model.get("method", "")
        question = QUESTIONS.get(method)
        if question is None:
            continue
        if not model["arrowhead"]["synthesis"]:
            print(f"{model['id']} is not served with this model", file=sys.stderr)
            continue
        print(f"== {method} ({model['arrowhead']['synthesis'][0]})", flush=True)
        # With the command line, whose sources follow the answer.
        command = [sys.executable, "-m", "server", "ask", question, "--url", address, "--model", model["id"]]
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.STDOUT, timeout=_ANSWER_S, check=False)
        status = max(status, int(done.returncode != 0))
        print(flush=True)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
