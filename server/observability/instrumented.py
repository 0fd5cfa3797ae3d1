"""Wrap encoders and engines to report how long their calls take; pass everything else through unchanged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from models.encoders.base import (
    Codes,
    CrossEncoder,
    Encoder,
    EncoderFingerprint,
    Floats,
    Metric,
    PassageText,
    RemoteVectors,
    TokenEncoder,
)
from models.engines.base import Engine, OpenAiLayer, ServesOpenAi, Tokenizer
from models.errors import kind_of
from models.types import Delta, EngineStats, GenerateParams
from retrieval.observer import RetrievalObserver
from server.observability.observer import Generation, Observer


class InstrumentedEncoder:
    """Report the duration of each encoding; implements ``Encoder``."""

    def __init__(self, inner: Encoder, observer: RetrievalObserver) -> None:
        self._inner = inner
        self._observer = observer

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dim(self) -> int:
        return self._inner.dim

    @property
    def metric(self) -> Metric:
        return self._inner.metric

    @property
    def fingerprint(self) -> EncoderFingerprint:
        return self._inner.fingerprint

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        began = time.monotonic()
        vectors = self._inner.encode_queries(texts)
        self._observer.encoded("query", len(texts), time.monotonic() - began)
        return vectors

    def encode_passages(self, passages: Sequence[PassageText]) -> Floats:
        began = time.monotonic()
        vectors = self._inner.encode_passages(passages)
        self._observer.encoded("passage", len(passages), time.monotonic() - began)
        return vectors

    def count_query_tokens(self, text: str) -> int:
        return self._inner.count_query_tokens(text)


class InstrumentedTokenEncoder(InstrumentedEncoder):
    """Report the duration of encodings with tokens, too; implements ``TokenEncoder``."""

    def __init__(self, inner: TokenEncoder, observer: RetrievalObserver) -> None:
        super().__init__(inner, observer)
        self._with_tokens = inner

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[Floats]]:
        began = time.monotonic()
        found = self._with_tokens.encode_queries_with_tokens(texts)
        self._observer.encoded("query", len(texts), time.monotonic() - began)
        return found

    def encode_passages_with_tokens(self, passages: Sequence[PassageText]) -> tuple[Floats, list[Codes]]:
        began = time.monotonic()
        found = self._with_tokens.encode_passages_with_tokens(passages)
        self._observer.encoded("passage", len(passages), time.monotonic() - began)
        return found


class InstrumentedRemoteEncoder(InstrumentedEncoder):
    """Report the duration of encodings at a server; implements ``RemoteVectors``."""

    def __init__(self, inner: RemoteVectors, observer: RetrievalObserver) -> None:
        super().__init__(inner, observer)
        self.url = inner.url
        self.check = inner.check
        self.close = inner.close


def instrumented(encoder: Encoder, observer: RetrievalObserver) -> Encoder:
    """Wrap an encoder; what is wrapped offers tokens, or has an address, where the encoder does."""
    if isinstance(encoder, TokenEncoder):
        return InstrumentedTokenEncoder(encoder, observer)
    if isinstance(encoder, RemoteVectors):
        return InstrumentedRemoteEncoder(encoder, observer)
    return InstrumentedEncoder(encoder, observer)


class InstrumentedCrossEncoder:
    """Report the duration of each scoring; implements ``CrossEncoder``."""

    def __init__(self, inner: CrossEncoder, observer: RetrievalObserver) -> None:
        self._inner = inner
        self._observer = observer

    @property
    def name(self) -> str:
        return self._inner.name

    def score(self, query: str, passages: Sequence[PassageText]) -> Floats:
        began = time.monotonic()
        scores = self._inner.score(query, passages)
        self._observer.encoded("pair", len(passages), time.monotonic() - began)
        return scores


class InstrumentedEngine:
    """Report each continuation when it ends, for tracing; implements ``Engine``.

    A continuation that fails or is cancelled is reported, too.
    """

    def __init__(self, inner: Engine, observer: Observer) -> None:
        self.inner = inner
        self._observer = observer

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def tokenizer(self) -> Tokenizer:
        return self.inner.tokenizer

    @property
    def max_model_len(self) -> int:
        return self.inner.max_model_len

    @property
    def block_size(self) -> int:
        return self.inner.block_size

    async def start(self) -> None:
        await self.inner.start()

    async def close(self) -> None:
        await self.inner.close()

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        began, sampled, last, failure = time.monotonic(), 0, Delta(), ""
        first: float | None = None
        try:
            deltas = self.inner.generate(prompt_ids, params, request_id)
            async with aclosing(deltas) as rest:  # type: ignore[type-var]
                async for delta in rest:
                    first = first or time.monotonic()
                    sampled += len(delta.token_ids)
                    last = delta
                    yield delta
        except (GeneratorExit, asyncio.CancelledError):
            failure = "" if last.finish_reason else "cancelled"
            raise
        except Exception as error:
            failure = kind_of(error)
            raise
        finally:
            generation = Generation(
                model=self.name,
                max_tokens=params.max_tokens,
                prompt_tokens=len(prompt_ids),
                sampled_tokens=sampled,
                cached_tokens=last.num_cached_tokens,
                finish_reason=last.finish_reason or "abort",
                seconds=time.monotonic() - began,
                failure=failure,
                first_s=None if first is None else first - began,
            )
            self._observer.generated(generation)

    async def abort(self, request_id: str) -> None:
        await self.inner.abort(request_id)

    def is_ready(self) -> bool:
        return self.inner.is_ready()

    def stats(self) -> EngineStats:
        return self.inner.stats()


class InstrumentedServingEngine(InstrumentedEngine, ServesOpenAi):
    """Observe an engine that has an OpenAI layer of its own.

    What that layer generates is covered by the span of the answer alone.
    """

    @property
    def slots(self) -> int:
        return self._serving.slots

    async def openai_layer(self) -> OpenAiLayer:
        return await self._serving.openai_layer()

    @property
    def _serving(self) -> ServesOpenAi:
        if not isinstance(self.inner, ServesOpenAi):
            raise TypeError(f"{type(self.inner).__name__} has no OpenAI layer")
        return self.inner
