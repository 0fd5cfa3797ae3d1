"""Start the server on the GPU for a check, and ask it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from scripts.served import served as any_served

NAME = "verified"


@contextmanager
def served(model: Path, start_s: float = 600.0) -> Iterator[str]:
    """Run ``arrowhead serve`` over vLLM on the GPU, and give its address once the model is loaded.

    Raises:
        NotServed: it ended, or was not ready in time.
    """
    arguments = ["--model", str(model), "--served-name", NAME, "--engine", "vllm", "--device", "cuda"]
    os.environ.update({"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"})
    with any_served(arguments, start_s=start_s) as server:
        yield server.url


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
