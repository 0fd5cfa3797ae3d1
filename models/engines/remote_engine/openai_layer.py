"""Pass requests for the plain model on to the OpenAI layer of a replica: tools, JSON schemas, logprobs, n.

Chats become tokens there, by vLLM. The caller chooses the paths and checks the request; only named headers are passed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

import httpx

from models.engines.base import AsgiSend, LayerCall, Tokenizer
from models.engines.remote_engine.replicas import Replica, ReplicaPool
from models.engines.remote_engine.wire import PLACES, SESSION, ReplicaLost
from models.engines.vllm_engine.sampling_fields import TableSizes, check_tables
from models.errors import EngineUnavailable
from models.types import EngineStats

# What identifies a conversation: its turns begin alike and find their prefix on one replica.
_BEGINNING: Final = 512
_MOST_TRIES: Final = 3
_TAKES_STOP_IDS: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
_REPLY_HEADERS: Final = frozenset({b"content-type", b"retry-after"})
# The same figures in OpenAI's and Anthropic's form.
_PROMPT: Final = re.compile(rb'"(?:prompt_tokens|input_tokens)":\s*(\d+)')
_SAMPLED: Final = re.compile(rb'"(?:completion_tokens|output_tokens)":\s*(\d+)')
_CACHED: Final = re.compile(rb'"(?:cached_tokens|cache_read_input_tokens)":\s*(\d+)')
_TAIL_BYTES: Final = 16_384


class RemoteLayer:
    """Implement ``OpenAiLayer`` with the replicas' own.

    A request moves to another replica until the first byte of its reply has come; then its stream ends with an error,
    as the state of its choices is the replica's.
    """

    def __init__(self, pool: ReplicaPool, tokenizer: Tokenizer, model: str, silence_s: float) -> None:
        self._pool = pool
        self._tokenizer = tokenizer
        self._model = model
        self._silence_s = silence_s
        self._running = 0
        self._finished = EngineStats()

    @property
    def counted(self) -> EngineStats:
        return replace(self._finished, running=self._running)

    async def __call__(self, call: LayerCall, send: AsgiSend) -> None:
        """Answer one call.

        Raises:
            EngineUnavailable: no replica answered, or the one that did was lost on the way.
            UnsupportedParam: a field does not fit the sampler's tables.
        """
        self._check_tables(call.body)
        body, session = self._body(call), session_of_body(call.body)
        headers = [*call.headers, (SESSION, session.encode())]
        self._running += 1
        tail: list[bytes] = []
        try:
            avoid: set[str] = set()
            for _ in range(_MOST_TRIES):
                replica = await self._pool.choose(session, avoid)
                try:
                    async with AsyncExitStack() as stack:
                        response = await self._head(replica, stack, call.path, body, headers)
                        await self._forward(replica, response, send, tail)
                        return
                except ReplicaLost as lost:
                    avoid.add(replica.url)
                    self._pool.suspect(replica)
                    if tail:
                        raise EngineUnavailable("the replica was lost in mid-answer; ask again") from lost
            raise EngineUnavailable("no replica answered")
        finally:
            self._running -= 1
            self._count(b"".join(tail[-1:]))

    async def _head(
        self,
        replica: Replica,
        stack: AsyncExitStack,
        path: str,
        body: Mapping[str, Any],
        headers: Sequence[tuple[bytes, bytes]],
    ) -> httpx.Response:
        async with replica.connection.bounded(self._silence_s):
            response = await stack.enter_async_context(replica.connection.open(path, body, _without_type(headers)))
        if response.status_code in (500, 502, 503, 504):
            raise ReplicaLost(f"the replica answered with {response.status_code}")
        return response

    async def _forward(self, replica: Replica, response: httpx.Response, send: AsgiSend, tail: list[bytes]) -> None:
        """Send the reply on; the last of ``tail``, which is empty until the reply begins, is its end with the usage."""
        headers = [(name.lower(), value) for name, value in response.headers.raw if name.lower() in _REPLY_HEADERS]
        tail.append(b"")
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        pieces = aiter(_pieces(response))
        while True:
            async with replica.connection.bounded(self._silence_s):
                piece = await anext(pieces, None)
            if piece is None:
                break
            tail[-1] = (tail[-1] + piece)[-_TAIL_BYTES:]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _body(self, call: LayerCall) -> dict[str, Any]:
        """Return the body with the replicas' name of the model and our end tokens, of which vLLM reads only some."""
        body = dict(call.body) | {"model": self._model}
        if call.path in _TAKES_STOP_IDS and not body.get("ignore_eos"):
            given = body.get("stop_token_ids") or []
            if isinstance(given, list) and all(isinstance(one, int) for one in given):
                body["stop_token_ids"] = sorted({*given, *self._tokenizer.eos_token_ids})
        return body

    def _check_tables(self, body: Mapping[str, Any]) -> None:
        """Count what fills the sampler's tables: an entry too many would end the replica for all."""
        words = [one for one in _listed(body, "bad_words") if isinstance(one, str)]
        encoded = [self._tokenizer.encode(form) for word in words for form in (word, f" {word}")]
        ends = len({*map(str, _listed(body, "stop_token_ids")), *map(str, self._tokenizer.eos_token_ids)})
        bias = body.get("logit_bias")
        used = TableSizes(
            allowed_token_ids=len(_listed(body, "allowed_token_ids")),
            logit_bias=len(bias) if isinstance(bias, Mapping) else 0,
            stop_token_ids=ends if body.get("min_tokens") else 0,
            bad_words=len(encoded),
            bad_word_tokens=sum(map(len, encoded)),
        )
        check_tables(used, PLACES)

    def _count(self, tail: bytes) -> None:
        prompt, sampled, cached = (int((one.findall(tail) or [0])[-1]) for one in (_PROMPT, _SAMPLED, _CACHED))
        total = self._finished
        self._finished = replace(
            total,
            requests_finished=total.requests_finished + 1,
            prompt_tokens_computed=total.prompt_tokens_computed + max(0, prompt - cached),
            prompt_tokens_cached=total.prompt_tokens_cached + cached,
            tokens_generated=total.tokens_generated + sampled,
        )


def session_of_body(body: Mapping[str, Any]) -> str:
    """Return a digest of what the turns of a conversation have in common: the key's salt and how it begins."""
    begins = body.get("messages") or body.get("input") or body.get("prompt") or ""
    if isinstance(begins, list):
        begins = begins[:2] if begins and not isinstance(begins[0], int) else begins[:_BEGINNING]
    text = json.dumps([body.get("cache_salt"), body.get("system"), begins], sort_keys=True)[: 8 * _BEGINNING]
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    async for piece in response.stream:  # type: ignore[union-attr]  # of an asynchronous transport
        yield piece


def _listed(body: Mapping[str, Any], name: str) -> list[Any]:
    found = body.get(name)
    return found if isinstance(found, list) else []


def _without_type(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name != b"content-type"]
