"""Generate with a vLLM server that runs elsewhere: the interception loop stays here, tokens are made there.

Owns the tokenizer, the bounds and the counts, and passes requests for the plain model on to the server's OpenAI layer:
tools, JSON schemas, logprobs, n. Chats become tokens there, by vLLM; the caller chooses the paths and checks the
request, and only named headers are passed. Whether the server answers is in ``model_server``, one generation's way in
``generation``. Imports neither torch nor vLLM.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any, Final

import httpx

from models.card import ModelCard
from models.catalog import prepare, vocabulary_size
from models.engines.base import (
    AsgiSend,
    EngineOptions,
    LayerCall,
    OpenAiLayer,
    RemoteOptions,
    ServesOpenAi,
    Tokenizer,
    check_place,
    check_request,
)
from models.engines.remote_engine.connection import Connection
from models.engines.remote_engine.generation import Ask, Generation
from models.engines.remote_engine.handshake import Expected, agree
from models.engines.remote_engine.model_server import ModelServer
from models.engines.remote_engine.wire import PLACES, SESSION, ReplicaLost, check_room
from models.engines.tokenizer import HfTokenizer
from models.engines.vllm_engine.sampling_fields import TableSizes, check_penalties, check_tables
from models.errors import EngineUnavailable
from models.types import Delta, EngineStats, GenerateParams

log = logging.getLogger(__name__)
# What ``driver`` and ``Generations`` append to an answer's id for each of its generations.
_OF_GENERATION: Final = re.compile(r"(?:\..*|-s\d+)$")
# vLLM's smallest default on a GPU.
_SLOTS_OF_REPLICA: Final = 256
# What identifies a conversation: its turns begin alike, so a router sends them to the replica that has their prefix.
_BEGINNING: Final = 512
_TAKES_STOP_IDS: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
_REPLY_HEADERS: Final = frozenset({b"content-type", b"retry-after"})
# The same figures in OpenAI's and Anthropic's form.
_PROMPT: Final = re.compile(rb'"(?:prompt_tokens|input_tokens)":\s*(\d+)')
_SAMPLED: Final = re.compile(rb'"(?:completion_tokens|output_tokens)":\s*(\d+)')
_CACHED: Final = re.compile(rb'"(?:cached_tokens|cache_read_input_tokens)":\s*(\d+)')
_TAIL_BYTES: Final = 16_384


class RemoteEngine(ServesOpenAi):
    """Implement ``Engine`` with a vLLM server.

    As with the vLLM engine, ``logprobs`` are taken after a grammar's mask and before temperature, top_p and top_k, and
    requests without a seed are not reproducible. Belongs to the event loop that it was started on.
    """

    def __init__(self, card: ModelCard, options: EngineOptions) -> None:
        if options.remote is None:
            raise EngineUnavailable("model.url: the remote engine needs the address of its server")
        self._card = card
        self._options = options
        self._remote: RemoteOptions = options.remote
        self._tokenizer: HfTokenizer | None = None
        self._server: ModelServer | None = None
        self._layer: RemoteLayer | None = None
        self._max_model_len = 0
        self._open: dict[str, Generation] = {}
        self._finished = EngineStats()
        self._starting = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._card.name

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise EngineUnavailable(f"{self.name} is not loaded")
        return self._tokenizer

    @property
    def max_model_len(self) -> int:
        self._running_server()
        return self._max_model_len

    @property
    def block_size(self) -> int:
        return self._options.block_size

    @property
    def slots(self) -> int:
        """Return how many sequences decode together there: as set, or what one replica does by default."""
        return self._options.max_num_seqs or _SLOTS_OF_REPLICA

    def is_ready(self) -> bool:
        return self._server is not None and self._server.seconds_without <= self._remote.wait_s

    async def start(self) -> None:
        async with self._starting:
            if self._server is None:
                await self._start()

    async def close(self) -> None:
        server, self._server = self._server, None
        self._tokenizer = self._layer = None
        for generation in list(self._open.values()):
            generation.abort()
        if server is not None:
            await server.close()

    def stats(self) -> EngineStats:
        """Return the counters of this server's requests; ``waiting`` are those without a first token."""
        started = [generation.stream.started for generation in self._open.values()]
        totals = replace(self._finished, running=sum(started), waiting=len(started) - sum(started))
        return totals if self._layer is None else totals.plus(self._layer.counted)

    async def openai_layer(self) -> OpenAiLayer:
        """Return the server's own layer, reached over HTTP."""
        self._running_server()
        if self._layer is None:
            raise EngineUnavailable(f"{self.name} is not loaded")
        return self._layer

    async def abort(self, request_id: str) -> None:
        if request_id in self._open:
            self._open[request_id].abort()

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        generation = self._admit(prompt_ids, params, request_id)
        try:
            async with aclosing(generation.deltas()) as deltas:
                async for delta in deltas:
                    if delta.finish_reason == "abort" and self._server is None:
                        raise EngineUnavailable(f"{self.name} was stopped")
                    num_cached = delta.num_cached_tokens
                    if delta.finish_reason is not None:
                        generation.stream.num_cached_tokens = num_cached
                    yield delta
        finally:
            del self._open[request_id]
            self._count(generation, len(prompt_ids))

    async def _start(self) -> None:
        self._tokenizer = tokenizer = await self._load_tokenizer()
        vocabulary = await asyncio.to_thread(vocabulary_size, self._card.source)
        expected = Expected(
            model=served_name(self._card),
            tokenizer=tokenizer,
            model_vocabulary=vocabulary,
            max_model_len=self._options.max_model_len,
        )

        server = ModelServer(Connection(self._remote), self._remote, lambda connection: agree(connection, expected))
        try:
            await server.start()
            dialect = await server.ready()
        except BaseException:
            await server.close()
            raise
        self._max_model_len, self._server = dialect.max_model_len, server
        self._layer = RemoteLayer(server, tokenizer, expected.model, self._remote.silence_s)
        log.info("engine started model=%s url=%s", self.name, self._remote.url)

    async def _load_tokenizer(self) -> HfTokenizer:
        if self._card.gguf is not None:
            await asyncio.to_thread(prepare, self._card)
        return await asyncio.to_thread(HfTokenizer.of_card, self._card, self._options.chat_template)

    def _running_server(self) -> ModelServer:
        if self._server is None:
            raise EngineUnavailable(f"{self.name} is not running")
        return self._server

    def _admit(self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str) -> Generation:
        server = self._running_server()
        check_request(prompt_ids, params, vocab_size=self.tokenizer.vocab_size, max_model_len=self.max_model_len)
        check_penalties(params)
        if server.dialect is not None:
            check_room(params, server.dialect)
        check_place(request_id, self._open, self.slots + self._options.max_queue)
        ask = Ask(prompt_ids, params, session_of(request_id), request_id)
        generation = self._open[request_id] = Generation(ask, server, self.tokenizer, self._remote.silence_s)
        return generation

    def _count(self, generation: Generation, num_prompt_tokens: int) -> None:
        stream = generation.stream
        computed = num_prompt_tokens if stream.started else 0
        self._finished = self._finished.with_request(computed, stream.num_cached_tokens, stream.num_sampled_tokens)


def served_name(card: ModelCard) -> str:
    """Return the name under which the server has the model of a card, with its adapter where it has one."""
    return card.name if card.adapter is None else f"{card.name}+{card.adapter.name}"


def session_of(request_id: str) -> str:
    """Return what all generations of one answer have in common, as a header may hold it.

    A digest: a router writes it to its log, and an id may be a client's own text.
    """
    return hashlib.blake2b(_OF_GENERATION.sub("", request_id).encode(), digest_size=16).hexdigest()


class RemoteLayer:
    """Implement ``OpenAiLayer`` with the server's own.

    A request is sent once: a router repeats one whose reply has not begun, and later the state of its choices is lost
    with the replica.
    """

    def __init__(self, server: ModelServer, tokenizer: Tokenizer, model: str, silence_s: float) -> None:
        self._server = server
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
            EngineUnavailable: the server did not answer, or not to the end.
            UnsupportedParam: a field does not fit the sampler's tables.
        """
        self._check_tables(call.body)
        headers = [(name, value) for name, value in call.headers if name != b"content-type"]
        headers.append((SESSION, session_of_body(call.body).encode()))
        self._running += 1
        tail: list[bytes] = []
        try:
            await self._server.ready()
            async with AsyncExitStack() as stack:
                connection = self._server.connection
                async with connection.bounded(self._silence_s):
                    sent = connection.open(call.path, self._body(call), headers)
                    response = await stack.enter_async_context(sent)
                if response.status_code in (500, 502, 503, 504):
                    raise ReplicaLost(f"the replica answered with {response.status_code}")
                await self._forward(connection, response, send, tail)
        except ReplicaLost as lost:
            self._server.suspect()
            when = "in mid-answer" if tail else "before it answered"
            raise EngineUnavailable(f"the replica was lost {when}; ask again") from lost
        finally:
            self._running -= 1
            self._count(b"".join(tail))

    async def _forward(
        self, connection: Connection, response: httpx.Response, send: AsgiSend, tail: list[bytes]
    ) -> None:
        """Send the reply on; the last of ``tail``, which is empty until the reply begins, is its end with the usage."""
        headers = [(name.lower(), value) for name, value in response.headers.raw if name.lower() in _REPLY_HEADERS]
        tail.append(b"")
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        pieces = aiter(_pieces(response))
        while True:
            async with connection.bounded(self._silence_s):
                piece = await anext(pieces, None)
            if piece is None:
                break
            tail[-1] = (tail[-1] + piece)[-_TAIL_BYTES:]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _body(self, call: LayerCall) -> dict[str, Any]:
        """Return the body with the server's name of the model and our end tokens, of which vLLM reads only some."""
        body = dict(call.body) | {"model": self._model}
        if call.path in _TAKES_STOP_IDS and not body.get("ignore_eos"):
            given = body.get("stop_token_ids") or []
            if isinstance(given, list) and all(isinstance(token_id, int) for token_id in given):
                body["stop_token_ids"] = sorted({*given, *self._tokenizer.eos_token_ids})
        return body

    def _check_tables(self, body: Mapping[str, Any]) -> None:
        """Count what fills the sampler's tables: an entry too many would end the replica for all."""
        words = [word for word in _listed(body, "bad_words") if isinstance(word, str)]
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
        prompt, sampled, cached = (int((count.findall(tail) or [0])[-1]) for count in (_PROMPT, _SAMPLED, _CACHED))
        self._finished = self._finished.with_request(prompt, cached, sampled)


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
    value = body.get(name)
    return value if isinstance(value, list) else []
