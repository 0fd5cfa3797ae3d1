"""Serve a transformers model with our own batched decode loop, for machines without vLLM.

Owns the asyncio side: one queue per request in front of one worker thread. Decoding is in ``batch_decode``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Final

from models.card import ModelCard
from models.engines.base import EngineOptions, Tokenizer, check_place, check_request
from models.engines.transformers_engine.compilations import BoundedCompilations
from models.engines.transformers_engine.continuous_batching import BatchDecoder, BatchLimits, Output
from models.engines.transformers_engine.grammar_mask import GrammarCompiler, GrammarState, KnownMasks
from models.engines.transformers_engine.kv_cache import KvCache, PrefixCache
from models.engines.transformers_engine.model_loading import LoadedModel, load_model
from models.engines.transformers_engine.sequences import RunningSequence
from models.errors import CONTEXT_TOO_LONG, EngineUnavailable, ModelError
from models.torch_runtime.openmp import run_in_new_thread
from models.types import Delta, EngineStats, GenerateParams, TokenLogprob

log = logging.getLogger(__name__)
# A single failed step can be a request that ran out of memory; several in a row are a failed engine.
_MAX_FAILURES = 3


class DecodeWorker:
    """Run a ``BatchDecoder`` on a thread of its own.

    ``deliver`` is called on that thread with the outputs of each step, in order.
    """

    def __init__(self, decoder: BatchDecoder, deliver: Callable[[list[Output]], None]) -> None:
        self._decoder = decoder
        self._deliver = deliver
        self._inbox: deque[RunningSequence | str] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._closed = False
        self._failures = 0
        self._stats = EngineStats()
        self._thread = threading.Thread(target=self._run, name="arrowhead-decode", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, blocking until the step in progress is over."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._stopping

    def submit(self, sequence: RunningSequence) -> None:
        """Queue a sequence.

        Raises:
            EngineUnavailable: the worker has ended, so the sequence would never finish.
        """
        if not self._post(sequence):
            raise EngineUnavailable("the engine was stopped")

    def abort(self, request_id: str) -> None:
        self._post(request_id)

    def stats(self) -> EngineStats:
        arriving = sum(isinstance(item, RunningSequence) for item in self._inbox.copy())
        return replace(self._stats, waiting=self._stats.waiting + arriving)

    def _post(self, item: RunningSequence | str) -> bool:
        with self._wake:
            if self._closed:
                return False
            self._inbox.append(item)
            self._wake.notify()
            return True

    def _run(self) -> None:
        try:
            self._serve()
        except Exception:  # unexpected outside a step: fail all requests, or they would wait for ever
            log.exception("decode worker died")
        with self._wake:
            self._closed = True
        outputs = self._drain() + self._decoder.fail_all(EngineUnavailable("the engine was stopped"))
        self._stats = self._decoder.stats()
        self._deliver(outputs)

    def _serve(self) -> None:
        while self._wait_for_work():
            outputs = self._drain() + self._step()
            self._stats = self._decoder.stats()
            if outputs:
                self._deliver(outputs)

    def _wait_for_work(self) -> bool:
        with self._wake:
            while not (self._stopping or self._inbox or self._decoder.has_work):
                self._wake.wait()
        return not self._stopping

    def _drain(self) -> list[Output]:
        outputs: list[Output] = []
        with self._wake:
            items = list(self._inbox)
            self._inbox.clear()
        for item in items:
            if isinstance(item, RunningSequence):
                outputs += self._decoder.add(item)
            else:
                outputs += self._decoder.abort(item)
        return outputs

    def _step(self) -> list[Output]:
        if not self._decoder.has_work:
            return []
        try:
            outputs = self._decoder.step()
        except Exception as error:  # whatever torch raises, end the requests and keep the server running
            self._failures += 1
            log.exception("decode step failed failures=%d", self._failures)
            with self._wake:
                self._stopping = self._stopping or self._failures >= _MAX_FAILURES
            return self._decoder.fail_all(EngineUnavailable(f"the decode step failed: {type(error).__name__}"))
        self._failures = 0
        return outputs


_MOST: Final = 64


class OutputQueue:
    """Queue one request's results, in order, and merge deltas when there are more than ``most``.

    The merged delta is what a single step would have given: text, ids and logprobs are the same, and memory grows by
    tokens alone.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._deltas: deque[Delta] = deque()
        self._error: ModelError | None = None
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._deltas)

    def put(self, result: Delta | ModelError) -> None:
        """Append a delta, or an error that follows all deltas put before it; only the first error counts."""
        if isinstance(result, ModelError):
            self._error = self._error or result
        else:
            self._deltas.append(result)
            if len(self._deltas) > self._most:
                self._deltas = deque((joined(self._deltas),))
        self._some.set()

    async def get(self) -> Delta:
        """Wait for the next delta and return it.

        Raises:
            ModelError: the error that was put, after all deltas.
        """
        while not self._deltas:
            if self._error is not None:
                raise self._error
            self._some.clear()
            await self._some.wait()
        return self._deltas.popleft()


def joined(deltas: Sequence[Delta]) -> Delta:
    """Merge consecutive deltas into one, with the end of the last."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    if any(delta.logprobs is not None for delta in deltas):
        logprobs = tuple(logprob for delta in deltas for logprob in delta.logprobs or ())
    return replace(
        deltas[-1],
        text="".join(delta.text for delta in deltas),
        reasoning="".join(delta.reasoning for delta in deltas),
        num_reasoning_tokens=sum(delta.num_reasoning_tokens for delta in deltas),
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        logprobs=logprobs,
    )


@dataclass(eq=False, slots=True)
class _ActiveRequest:
    """Hold one request in progress.

    ``key`` is its id inside the worker: a request id may be reused as soon as its request ends.
    """

    key: str
    results: OutputQueue = field(default_factory=OutputQueue)
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
        self._grammars: BoundedCompilations | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[str, _ActiveRequest] = {}
        self._by_key: dict[str, _ActiveRequest] = {}
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
        loaded = self._loaded = await asyncio.to_thread(run_in_new_thread, load)
        slots = KvCache(
            loaded.shape, max_bytes=loaded.slot_bytes, max_rows=self._options.slots, max_columns=loaded.max_model_len
        )
        limits = BatchLimits(max_num_seqs=self._options.slots, block_size=self._options.block_size)
        if self._options.draft_tokens is not None:
            limits = replace(limits, draft_tokens=self._options.draft_tokens)
        prefixes = PrefixCache(loaded.prefix_bytes)
        decoder = BatchDecoder(loaded.model, loaded.tokenizer, slots, prefixes, limits)
        compiler, self._masks = GrammarCompiler(loaded.tokenizer, loaded.vocab_size), KnownMasks()
        await asyncio.to_thread(compiler.prepare)
        self._grammars = BoundedCompilations(compiler.compile)
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
        request = _ActiveRequest(key=str(next(self._arrivals)))
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
        if loaded.max_model_len <= len(prompt_ids) < loaded.context_length:
            raise ModelError(
                f"the prompt has {len(prompt_ids)} tokens; this machine's memory holds {loaded.max_model_len} of the "
                f"model's context of {loaded.context_length}",
                CONTEXT_TOO_LONG,
                param="prompt",
            )
        check_request(prompt_ids, params, vocab_size=loaded.tokenizer.vocab_size, max_model_len=loaded.max_model_len)
        check_place(request_id, self._open, self._options.slots + self._options.max_queue)
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
            compiled = await grammars.compiled(params.grammar)
            sequence.grammar = GrammarState(compiled, loaded.vocab_size, self._masks)
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
