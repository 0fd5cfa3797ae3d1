"""Ask GeneGPT over HTTP for one streamed answer, over vLLM with drafts and the grammar of calls."""

from __future__ import annotations

import json
import time

import httpx

from models.catalog import EMBEDDED_NAME
from scripts.gpu.figures import figure, is_dry
from scripts.served import served

_QUESTION = "What is the official gene symbol of LMP10?"
_ANSWER = "PSMB10"


def main(dry: bool) -> int:
    device = "cpu" if dry else "cuda"
    arguments = ["--model", EMBEDDED_NAME, "--engine", "vllm", "--device", device]
    began = time.monotonic()
    with served(
        [*arguments, "--draft-tokens", "4", "--kv-cache-gib", "0.25"], start_s=600.0 if dry else 80.0
    ) as server:
        figure("seconds until ready", f"{time.monotonic() - began:.1f}")
        body = {
            "model": f"{EMBEDDED_NAME}:genegpt",
            "messages": [{"role": "user", "content": _QUESTION}],
            "stream": True,
        }
        asked, text, pieces, first = time.monotonic(), "", 0, 0.0
        url = f"{server.url}/v1/chat/completions"
        with httpx.stream("POST", url, json=body, timeout=120.0, trust_env=False) as reply:
            reply.raise_for_status()
            for line in reply.iter_lines():
                if not line.startswith("data: {"):
                    continue
                choices = json.loads(line.removeprefix("data: "))["choices"]
                piece = choices[0]["delta"].get("content") if choices else None
                if piece:
                    first = first or time.monotonic() - asked
                    text, pieces = text + piece, pieces + 1
        figure("pieces of the stream", pieces)
        figure("seconds to the first piece", f"{first:.2f}")
        figure("seconds of the answer", f"{time.monotonic() - asked:.2f}")
    print(text)
    return 0 if _ANSWER in text and pieces > 1 else 1


if __name__ == "__main__":
    raise SystemExit(main(is_dry(__doc__)))
