"""Serve a transformers model with our own batched decode loop, for machines without vLLM.

Owns the asyncio side: one queue per request in front of one worker thread. Decoding is in ``batch_decode``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from models.catalog import ModelCard
from models.engines.base import Tokenizer
from models.engines.batch_decode import BatchDecoder, BatchLimits, Output
from models.engines.decode_worker import DecodeWorker
from models.engines.delta_backlog import DeltaBacklog
from models.engines.kv_slots import KvSlots
from models.engines.model_loading import LoadedModel, load_model
from models.engines.options import EngineOptions
from models.engines.prefix_cache import PrefixCache
from models.engines.request_check import check_request
from models.engines.running import RunningSequence
from models.engines.xgrammar_mask import GrammarCompiler, GrammarState
from models.errors import EngineOverloaded, EngineUnavailable, UnsupportedParam
from models.openmp import in_own_thread
from models.types import Delta, EngineStats, GenerateParams

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Open:
    """Hold one request in progress.

    ``key`` is its id inside the worker: a request id may be reused as soon as its request ends.
    """

    key: str
    results: DeltaBacklog = field(default_factory=DeltaBacklog)
    aborted: bool = False


class TransformersEngine:
    """Implement ``Engine`` with transformers and reproducible sampling.

    A seed fixes the tokens, whatever else is in the batch (up to rounding). ``logprobs`` are taken after a grammar's
    mask and before temperature, top_p and top_k.
    """

    def __init__(self, card: ModelCard, options: EngineOptions) -> None:
        self._card = card
        self._options = options
        self._loaded: LoadedModel | None = None
        self._worker: DecodeWorker | None = None
        self._grammars: GrammarCompiler | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[str, _Open] = {}
        self._by_key: dict[str, _Open] = {}
        self._arrivals = count()

    @property
    def name(self) -> str:
        return self._card.name

    @property
    def tokenizer(self) -> Tokenizer:
        return self._ready_model().tokenizer

    @property
    def max_model_len(self) -> int:
        return self._ready_model().max_model_len

    @property
    def block_size(self) -> int:
        return self._options.block_size

    async def start(self) -> None:
        if self._worker is not None:
            return
        self._loop = asyncio.get_running_loop()
        load = partial(load_model, self._card, self._options)
        loaded = self._loaded = await asyncio.to_thread(in_own_thread, load)
        slots = KvSlots(
            loaded.shape,
            max_bytes=loaded.slot_bytes,
            max_rows=self._options.max_num_seqs,
            max_columns=loaded.max_model_len,
        )
        limits = BatchLimits(max_num_seqs=self._options.max_num_seqs, block_size=self._options.block_size)
        prefixes = PrefixCache(loaded.prefix_bytes)
        decoder = BatchDecoder(loaded.model, loaded.tokenizer, slots, prefixes, limits)
        self._grammars = GrammarCompiler(loaded.tokenizer, loaded.vocab_size)
        self._worker = DecodeWorker(decoder, self._deliver)
        self._worker.start()
        log.info("engine started model=%s device=%s dtype=%s", self.name, loaded.shape.device, loaded.shape.dtype)

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await asyncio.to_thread(worker.stop)
        for request in self._open.values():  # requests that a failed worker did not end
            request.results.put(EngineUnavailable(f"{self.name} was stopped"))
        self._loaded = self._grammars = None

    def is_ready(self) -> bool:
        return self._worker is not None and self._worker.is_alive()

    def stats(self) -> EngineStats:
        return EngineStats() if self._worker is None else self._worker.stats()

    async def abort(self, request_id: str) -> None:
        request = self._open.get(request_id)
        if self._worker is not None and request is not None:
            request.aborted = True
            self._worker.abort(request.key)

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        worker = self._admit(prompt_ids, params, request_id)
        request = _Open(key=str(next(self._arrivals)))
        self._open[request_id] = self._by_key[request.key] = request
        finished = False
        try:
            worker.submit(await self._sequence(prompt_ids, params, request.key))
            if request.aborted:  # while its grammar was being compiled
                worker.abort(request.key)
            while not finished:
                delta = await request.results.get()
                finished = delta.finish_reason is not None
                yield delta
        finally:
            if not finished:
                worker.abort(request.key)
            del self._open[request_id], self._by_key[request.key]

    def _ready_model(self) -> LoadedModel:
        if self._loaded is None:
            raise EngineUnavailable(f"{self.name} is not loaded")
        return self._loaded

    def _admit(self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str) -> DecodeWorker:
        worker, loaded = self._worker, self._ready_model()
        if worker is None or not worker.is_alive():
            raise EngineUnavailable(f"{self.name} is not running")
        check_request(prompt_ids, params, vocab_size=loaded.tokenizer.vocab_size, max_model_len=loaded.max_model_len)
        if request_id in self._open:
            raise UnsupportedParam(f"request {request_id!r} is already running", param="request_id")
        if len(self._open) >= self._options.max_num_seqs + self._options.max_queue:
            raise EngineOverloaded(f"{len(self._open)} requests are open and the queue is full")
        return worker

    async def _sequence(self, prompt_ids: Sequence[int], params: GenerateParams, key: str) -> RunningSequence:
        loaded, grammars = self._ready_model(), self._grammars
        seed = f"unseeded/{self._options.seed}/{key}" if params.seed is None else f"{params.seed}"
        sequence = RunningSequence(
            key,
            prompt_ids,
            params,
            seed=seed,
            max_tokens=min(params.max_tokens, loaded.max_model_len - len(prompt_ids)),
        )
        if params.grammar is not None and grammars is not None:
            compiled = await asyncio.to_thread(grammars.compile, params.grammar)
            sequence.grammar = GrammarState(compiled, loaded.vocab_size)
        return sequence

    def _deliver(self, outputs: list[Output]) -> None:
        """Pass outputs from the worker's thread to the event loop."""
        if self._loop is None or self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._dispatch, outputs)

    def _dispatch(self, outputs: list[Output]) -> None:
        for output in outputs:
            request = self._by_key.get(output.request_id)
            if request is not None:
                request.results.put(output.result)
