"""Run vLLM's AsyncLLM in this process and its workers in others, for GPUs.

Owns the life of those processes and the translation of requests. Where vLLM's names are is in ``vllm_compat``, how it
is started in ``vllm_launch``, how its outputs become deltas in ``vllm_stream``. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from threading import Thread
from typing import Any

from models.card import ModelCard
from models.catalog import prepare
from models.engines.base import (
    EngineOptions,
    ExplainsFailure,
    OpenAiLayer,
    ServesOpenAi,
    Tokenizer,
    check_place,
    check_request,
)
from models.engines.tokenizer import HfTokenizer
from models.engines.vllm_engine import compat as vllm_compat
from models.engines.vllm_engine import launch as vllm_launch
from models.engines.vllm_engine.child_errors import ChildErrors
from models.engines.vllm_engine.child_reaper import ProcessReaper
from models.engines.vllm_engine.launch import DeviceQuery, query_devices
from models.engines.vllm_engine.openai_layer import InstrumentedClient, build_layer
from models.engines.vllm_engine.sampling_fields import check_beside_drafts, check_penalties, sampling_fields
from models.engines.vllm_engine.sessions import Part, Sessions, pausing_ids
from models.engines.vllm_engine.stream import LatestSchedulerStats, VllmStream
from models.errors import EngineUnavailable, ModelError, ModelNotFound
from models.files import first_line
from models.types import Delta, EngineStats, GenerateParams, Grammar

log = logging.getLogger(__name__)

_SHUTDOWN_S = 20.0
_WATCH_INTERVAL_S = 0.25


class VllmEngine(ServesOpenAi, ExplainsFailure):
    """Implement ``Engine`` with vLLM.

    ``logprobs`` are taken after a grammar's mask and before temperature, top_p and top_k. Requests without a seed are
    not reproducible here. ``ignore_eos`` does not outlast a grammar: a complete one allows the end token alone. Belongs
    to the event loop that it was started on.
    """

    def __init__(self, card: ModelCard, options: EngineOptions, query: DeviceQuery = query_devices) -> None:
        self._card = card
        self._options = vllm_launch.with_adapter(options, card)
        self._query = query
        self._slots = options.slots
        self._check_tables: Callable[[Any], None] = lambda _: None
        self._tokenizer: HfTokenizer | None = None
        # vLLM's request for the adapter with which all requests for the model itself are answered.
        self._adapter: Any = None
        self._client: Any = None
        self._reaper: ProcessReaper | None = None
        self._errors: ChildErrors | None = None
        self._open: dict[str, VllmStream] = {}
        self._finished = EngineStats()
        self._scheduler = LatestSchedulerStats()
        self._instrumented_client: InstrumentedClient | None = None
        self._layer: OpenAiLayer | None = None
        self._starting = asyncio.Lock()
        self._sessions: Sessions | None = None
        self._pauses: dict[str, frozenset[int]] = {}

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
        return int(self._running_client().vllm_config.model_config.max_model_len)

    @property
    def block_size(self) -> int:
        """Return the block size, before the start the requested one; on CUDA vLLM then takes its own."""
        if self._client is None:
            return self._options.block_size
        return int(self._client.vllm_config.cache_config.block_size)

    @property
    def slots(self) -> int:
        return self._slots

    def is_ready(self) -> bool:
        return self._client is not None and not self._client.errored

    async def start(self) -> None:
        async with self._starting:
            if self._client is None:
                await self._start()

    async def close(self) -> None:
        client, self._client = self._client, None
        self._tokenizer = self._layer = self._instrumented_client = None
        self._scheduler.forget()
        if self._sessions is not None:
            await self._sessions.close()
        if client is not None:
            if not client.errored:
                await client.abort(list(self._open))
            # It would report the end of the process, which is wanted, as an error.
            if client.output_handler is not None:
                client.output_handler.cancel()
            await asyncio.to_thread(client.shutdown, timeout=_SHUTDOWN_S)
            # Its objects form reference cycles; those left at interpreter exit print errors on stderr.
            del client
            gc.collect()
        reaper, self._reaper = self._reaper, None
        if reaper is not None:
            await asyncio.to_thread(reaper.release)
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def failure_cause(self) -> str:
        return "" if self._errors is None else self._errors.cause()

    def stats(self) -> EngineStats:
        """Return the counters of all requests.

        ``waiting`` is the scheduler's; before its first report, it counts all requests without a first token.
        """
        started = [stream.started for stream in self._open.values()]
        totals = replace(self._finished, running=sum(started), waiting=len(started) - sum(started))
        return self._scheduler.over(
            totals if self._instrumented_client is None else totals.plus(self._instrumented_client.counted)
        )

    async def openai_layer(self) -> OpenAiLayer:
        """Return vLLM's own layer, built at the first call."""
        async with self._starting:
            if self._layer is None:
                client, tokenizer = self._running_client(), self._tokenizer
                if tokenizer is None:
                    raise EngineUnavailable(f"{self.name} is not loaded")
                watched = InstrumentedClient(client, tokenizer.eos_token_ids, self._check_tables, self._adapter)
                try:
                    self._layer = await build_layer(watched, self._card, self._options, tokenizer)
                except ModelError:
                    raise
                except Exception as error:  # a chat template or a parser that vLLM refuses, among others
                    raise EngineUnavailable(f"vLLM's OpenAI layer cannot be built: {_reason(error)}") from error
                self._instrumented_client = watched
            return self._layer

    async def abort(self, request_id: str) -> None:
        client = self._client
        if self._sessions is not None:
            await self._sessions.release(request_id)
        if client is None or request_id not in self._open:
            return
        self._open[request_id].aborted = True
        if not client.errored:
            await client.abort(request_id)

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        stream = self._admit(prompt_ids, params, request_id)
        try:
            async with aclosing(await self._submit(list(prompt_ids), params, request_id)) as outputs:
                async for output in outputs:
                    delta = stream.abort() if stream.aborted else stream.advance(output)
                    if stream.finished and not output.finished:
                        # Free the slot before the last delta: the reader may never resume this generator.
                        await outputs.aclose()
                    if delta.finish_reason == "abort" and self._client is None:
                        raise EngineUnavailable(f"{self.name} was stopped")
                    yield delta
                    if stream.finished:
                        return
        except ModelError:
            raise
        except Exception as error:  # every error of vLLM becomes one of ours
            has_grammar = params.grammar is not None
            raise vllm_compat.translate(error, has_grammar=has_grammar, cause=self.failure_cause()) from error
        finally:
            del self._open[request_id]
            self._count(stream, len(prompt_ids))

    async def _start(self) -> None:
        vllm_compat.check_version(vllm_compat.installed_version())
        vllm_launch.reject_unsupported(os.environ)
        vllm_launch.check_adapters(self._options)
        await asyncio.to_thread(prepare, self._card)
        os.environ.update(vllm_launch.environment(self._card, self._options, os.environ))
        self._errors = ChildErrors(os.environ)
        os.environ.update(self._errors.environment(os.environ["VLLM_LOGGING_LEVEL"]))
        tokenizer = await asyncio.to_thread(HfTokenizer.of_card, self._card, self._options.chat_template)
        self._options = vllm_launch.with_reasoning_parser(self._options, tokenizer)
        reaper = self._reaper = await asyncio.to_thread(ProcessReaper)
        # Returned in a list: a thread pool keeps the last result alive, and the client ends only when it is freed.
        built: list[Any] = []
        building = asyncio.create_task(asyncio.to_thread(self._build_client, built, tokenizer.vocab_size))
        try:
            await _wait_watching(building, reaper)
            loaded = await vllm_compat.load_adapters(built[0], self._options.lora_adapters)
            self._adapter = loaded[-1] if self._card.adapter is not None else None
            await _warm_up(built[0])
        except BaseException as error:
            cause = self.failure_cause()
            # A thread cannot be cancelled: shut down what it still builds when it is done.
            building.add_done_callback(lambda _: _discard(built))
            await self.close()
            if isinstance(error, ModelError) or not isinstance(error, Exception):
                raise
            raise EngineUnavailable(f"vLLM cannot run {self._card.source}: {cause or _reason(error)}") from error
        client = built.pop()
        self._client, self._tokenizer = client, tokenizer
        self._slots = int(client.vllm_config.scheduler_config.max_num_seqs)
        self._check_tables = vllm_compat.table_check(client)
        if self._options.hold_during_calls_s:
            # Those that are held take places of those that run.
            self._sessions = Sessions(self._options.hold_during_calls_s, max(self._slots // 2, 1))
        self._log_start()

    def _log_start(self) -> None:
        """Log the length that vLLM has chosen, as a warning where it is less than the model's own."""
        found, own = self.max_model_len, self._card.context_length
        is_fitted = self._options.max_model_len is None and self._card.is_local and found < own
        log.log(
            logging.WARNING if is_fitted else logging.INFO,
            "engine started model=%s vllm=%s max_model_len=%d%s",
            self.name,
            vllm_compat.installed_version(),
            found,
            f" of {own}: the memory for keys and values holds no longer sequence" if is_fitted else "",
        )

    def _build_client(self, built: list[Any], vocabulary: int) -> None:
        try:
            built.append(vllm_compat.build_client(self._arguments(vocabulary), self._scheduler.record))
        except ModelError:
            raise
        except OSError as error:
            raise ModelNotFound(f"cannot load {self._card.source}: {first_line(error)}") from error
        except Exception as error:  # whatever stops vLLM from starting, there is no engine
            reason = self.failure_cause() or _reason(error)
            raise EngineUnavailable(f"vLLM cannot run {self._card.source}: {reason}") from error

    def _arguments(self, vocabulary: int) -> dict[str, Any]:
        device_type = vllm_compat.device_type()
        if device_type == "cpu":
            os.environ.update(vllm_launch.CPU_ENVIRONMENT)
        arguments = vllm_launch.engine_arguments(self._card, self._options, device_type, self._query)
        if self._options.draft_tokens:
            return arguments | vllm_launch.draft_arguments(self._card, self._options.draft_tokens, vocabulary)
        # Vocabularies are padded to round sizes. An id without a token has no text: it must not be sampled.
        return arguments | vllm_launch.padding_arguments(vocabulary)

    def _running_client(self) -> Any:
        if self._client is None or self._client.errored:
            cause = self.failure_cause()
            raise EngineUnavailable(f"{self.name} is not running{cause and f': {cause}'}")
        return self._client

    def _admit(self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str) -> VllmStream:
        self._running_client()
        check_request(prompt_ids, params, vocab_size=self.tokenizer.vocab_size, max_model_len=self.max_model_len)
        check_penalties(params)
        if self._options.draft_tokens:
            check_beside_drafts(params)
        check_place(request_id, self._open, self._slots + self._options.max_queue)
        stream = self._open[request_id] = VllmStream(prompt_ids, params, self.tokenizer)
        return stream

    async def _submit(
        self, prompt_ids: list[int], params: GenerateParams, request_id: str
    ) -> AsyncGenerator[Any, None]:
        if self._sessions is not None and self._can_be_held(params):
            part = await self._part(prompt_ids, params, request_id)
            return self._sessions.outputs(part, self._open[request_id])
        sampling = self._sampling(params, self.max_model_len - len(prompt_ids))
        prompt = vllm_compat.tokens_input(prompt_ids, params.cache_salt)
        return self._begin(prompt, sampling, params, request_id)

    def _begin(self, prompt: Any, sampling: Any, params: GenerateParams, request_id: str) -> AsyncGenerator[Any, None]:
        """Begin a request of one prompt, or of a generator of a session's inputs."""
        outputs: AsyncGenerator[Any, None] = self._running_client().generate(
            prompt,
            sampling,
            request_id,
            # vLLM serves the smallest number first.
            priority=-params.priority,
            lora_request=self._adapter,
            # A grammar applies from the first token on, also to a reasoning model. Sessions cannot be told so.
            reasoning_ended=True if self._options.reasoning_parser and params.grammar is not None else None,
        )
        return outputs

    def _sampling(self, params: GenerateParams, room: int, pauses: Collection[int] = ()) -> Any:
        fields = sampling_fields(params, room, self.tokenizer.eos_token_ids)
        fields["stop_token_ids"] = sorted({*fields["stop_token_ids"], *pauses})
        sampling = vllm_compat.sampling_params(params.grammar, fields)
        self._check_tables(sampling)
        return sampling

    def _can_be_held(self, params: GenerateParams) -> bool:
        grammar = params.grammar
        # vLLM keeps a grammar's state over a reply, where a resume begins it anew: in free text both are the same.
        is_free = grammar is None or (bool(grammar.triggers) and not self._options.reasoning_parser)
        return params.pause_at is not None and is_free

    async def _part(self, prompt_ids: list[int], params: GenerateParams, request_id: str) -> Part:
        stop = params.pause_at or ""
        if stop not in self._pauses:
            self._pauses[stop] = await asyncio.to_thread(pausing_ids, self.tokenizer, stop)
        pauses, room = self._pauses[stop], self.max_model_len - len(prompt_ids)

        def make_input(ids: list[int], most: int, stops: frozenset[int]) -> Any:
            sampling = self._sampling(replace(params, max_tokens=most), room, stops)
            return vllm_compat.streaming_input(vllm_compat.tokens_input(ids, params.cache_salt), sampling)

        def start(inputs: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
            return self._begin(inputs, self._sampling(params, room, pauses), params, request_id)

        answer, _, ordinal = request_id.rpartition("-s")
        return Part(prompt_ids, params, answer if ordinal.isdigit() else request_id, pauses, make_input, start)

    def _count(self, stream: VllmStream, num_prompt_tokens: int) -> None:
        computed = num_prompt_tokens if stream.started else 0
        self._finished = self._finished.with_request(computed, stream.num_cached_tokens, stream.num_sampled_tokens)


async def _wait_watching(building: asyncio.Task[None], reaper: ProcessReaper) -> None:
    """Wait for the engine, registering each of its processes with the reaper as it appears."""
    done = False
    while not done:
        done = bool((await asyncio.wait((building,), timeout=_WATCH_INTERVAL_S))[0])
        reaper.watch()
    building.result()


async def _warm_up(client: Any) -> None:
    """Generate one constrained token, since preparing the vocabulary for the first grammar can take seconds."""
    fields = {"max_tokens": 1, "temperature": 0.0, "logprobs": 1}
    prompt = vllm_compat.tokens_input([0], None)
    async for _ in client.generate(prompt, vllm_compat.sampling_params(Grammar("regex", "."), fields), "warm-up"):
        pass


def _discard(built: list[Any]) -> None:
    """Shut down a client that is no longer needed, without blocking the event loop."""
    if built:
        Thread(target=built.pop().shutdown, kwargs={"timeout": _SHUTDOWN_S}, name="vllm-discard").start()


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
