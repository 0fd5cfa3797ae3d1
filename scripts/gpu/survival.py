"""Send requests at and beyond the places of vLLM's sampler to a running server: refused, answered, never fatal.

    python -m scripts.gpu.survival --model DIR [--answer-only]

``--answer-only`` asks for one answer and measures its speed, for a checkpoint that is only to be loaded.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scripts.gpu.serving import NAME, figure, post, served, vocabulary
from scripts.served import is_ready

Post = Callable[[str, Mapping[str, Any]], tuple[int, dict[str, Any]]]
_PATH = "/v1/completions"
_REFUSED = (400, 422)


class Sent(NamedTuple):
    """One request. ``refused_for`` is the field that the refusal must name, "" for a request that is answered."""

    title: str
    fields: Mapping[str, Any]
    refused_for: str = ""


def requests(ids: int) -> Iterator[Sent]:
    """Beyond each table's places, then with as many as fit; ``ids`` is the size of the vocabulary."""
    some = [number % ids for number in range(1025)]
    # Under vLLM's number of words, with and without a space in front.
    words = [f"w{number:03d}-" + "qzxj" * 24 for number in range(50)]
    yield Sent("1,025 allowed_token_ids", {"allowed_token_ids": some}, "allowed_token_ids")
    yield Sent("129 stop_token_ids with min_tokens", {"stop_token_ids": some[:129], "min_tokens": 2}, "stop_token_ids")
    # The model's own end token is the 129th.
    yield Sent("128 stop_token_ids with min_tokens", {"stop_token_ids": some[5:133], "min_tokens": 2}, "stop_token_ids")
    yield Sent("bad_words of over 1,024 tokens", {"bad_words": words}, "bad_words")
    yield Sent("1,025 entries of logit_bias", {"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias")
    most = min(ids, 1024)
    yield Sent("as many allowed_token_ids as fit", {"allowed_token_ids": some[:1024]})
    yield Sent("as many logit_bias entries as fit", {"logit_bias": {str(i): 1 for i in range(most)}})
    yield Sent("100 stop_token_ids with min_tokens", {"stop_token_ids": some[:100], "min_tokens": 2})
    yield Sent("bad_words that fit", {"bad_words": ["gene", "protein"]})


def failures(send: Post, ids: int) -> list[str]:
    """What went wrong, one line each. After every request a plain one must still be answered."""
    found = []
    for one in requests(ids):
        status, reply = send(_PATH, _body(**one.fields))
        said = reply.get("error") or {}
        print(f"{one.title}: {status} {str(said.get('message', ''))[:160]}", flush=True)
        if one.refused_for and (status not in _REFUSED or one.refused_for not in _param(said)):
            found.append(f"{one.title}: {status}, and not a refusal that names {one.refused_for}")
        if not one.refused_for and status != 200:
            found.append(f"{one.title}: {status}, and not an answer")
        status, _ = send(_PATH, _body())
        if status != 200:
            found.append(f"after {one.title}: a plain request got {status}")
    return found


def _param(error: Mapping[str, Any]) -> str:
    return f"{error.get('param')} {error.get('message')}"


def _body(**fields: Any) -> dict[str, Any]:
    return {"model": NAME, "prompt": "Question: What is LMP10?\n", "max_tokens": 8, "temperature": 0} | fields


def answer_speed(send: Post, tokens: int = 256) -> float:
    """Tokens a second of one answer, the first one apart.

    Raises:
        RuntimeError: there is no answer.
    """
    began = 0.0
    for _ in range(2):
        began = time.monotonic()
        status, reply = send(_PATH, _body(max_tokens=tokens, ignore_eos=True))
        if status != 200 or reply["usage"]["completion_tokens"] != tokens:
            raise RuntimeError(f"no answer: {status} {str(reply)[:300]}")
    return tokens / (time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--answer-only", action="store_true")
    args = parser.parse_args()
    began = time.monotonic()
    with served(args.model) as url:
        figure("seconds until ready", f"{time.monotonic() - began:.1f}")

        def send(path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
            return post(url, path, body)

        found = [] if args.answer_only else failures(send, vocabulary(args.model))
        figure("tokens/s of one answer", f"{answer_speed(send):.1f}")
        if not is_ready(f"{url}/ready"):
            found.append("the server is no longer ready")
        print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
