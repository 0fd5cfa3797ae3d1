"""Convert what vLLM reports for one request into our deltas.

Owns the text: vLLM is asked for ids only, and the detokeniser and the stop scanner that all engines share make the
text, so an answer does not depend on which engine wrote it. Reads vLLM's outputs by attribute and imports none of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from models.engines.base import Tokenizer
from models.engines.text_stream import TextStream
from models.errors import GRAMMAR_INVALID, EngineUnavailable, ModelError
from models.types import Delta, EngineStats, FinishReason, GenerateParams, TokenLogprob


@dataclass(frozen=True, slots=True)
class StepStats:
    """Hold the scheduler's statistics after one step.

    ``waiting`` counts requests that are not admitted, for lack of memory or of a slot, or because their grammar is
    still being compiled. ``kv_cache_used`` is the share of the blocks in use by sequences; a prefix that no sequence
    uses counts as free.
    """

    waiting: int
    kv_cache_used: float


class LatestSchedulerStats:
    """Store the statistics of the last step alone.

    Written and read on one event loop. The engine's process, which makes the numbers, reports steps only while it runs
    any.
    """

    def __init__(self) -> None:
        self._last: StepStats | None = None

    def record(self, stats: Any) -> None:
        """Store vLLM's ``SchedulerStats`` of a step."""
        waiting = stats.num_waiting_reqs + stats.num_skipped_waiting_reqs
        self._last = StepStats(waiting=int(waiting), kv_cache_used=float(stats.kv_cache_usage))

    def forget(self) -> None:
        """Clear the statistics, when the engine has ended."""
        self._last = None

    def over(self, counted: EngineStats) -> EngineStats:
        """Combine ``counted``, of all open requests, with the scheduler's own count of waiting requests and memory.

        A request that has not reached the scheduler yet counts as running.
        """
        last, num_open = self._last, counted.running + counted.waiting
        if last is None:
            return counted
        if not num_open:
            # Aborted requests leave without a step that would report the freed memory.
            return replace(counted, kv_cache_used=0.0)
        waiting = min(last.waiting, num_open)
        return replace(counted, running=num_open - waiting, waiting=waiting, kv_cache_used=last.kv_cache_used)


@dataclass(slots=True)
class _Read:
    """Hold what one output adds; ``num_tokens`` of its ids belong to the reply, the first of them to its thinking."""

    text: str = ""
    reasoning: str = ""
    num_tokens: int = 0
    num_reasoning_tokens: int = 0
    finish: FinishReason | None = None

    def add(self, text: str, stream: TextStream) -> None:
        self.text += text
        self.reasoning += stream.thought
        self.num_tokens += 1
        self.num_reasoning_tokens += stream.was_thought


class VllmStream:
    """Convert one request's outputs, in order.

    ``started``: the first output has arrived, so the prompt is computed.
    """

    def __init__(self, prompt_ids: Sequence[int], params: GenerateParams, tokenizer: Tokenizer) -> None:
        self._params = params
        self._vocab_size = tokenizer.vocab_size
        self._stream = TextStream(tokenizer, params, prompt_ids)
        self._num_prompt_tokens = len(prompt_ids)
        self.num_cached_tokens = 0
        self.num_sampled_tokens = 0
        self.started = False
        self.aborted = False  # from outside; the next output is the last
        self.finished = False

    @property
    def stop_reason(self) -> str | None:
        return self._stream.stop_reason

    def advance(self, output: Any) -> Delta:
        """Return the delta of one output.

        Its ids end with the token that completes a stop string; what the engine sampled beyond it is dropped.

        Raises:
            ModelError, EngineUnavailable: the engine failed this request.
        """
        completion = output.outputs[0]
        self.started = True
        self.num_cached_tokens = output.num_cached_tokens or 0
        reason = completion.finish_reason
        if reason == "error":
            raise self._failure()
        ids = list(completion.token_ids)
        read = self._read(ids, reason)
        used = read.num_tokens
        logprobs = None
        if self._params.logprobs is not None:
            logprobs = self._logprobs(ids[:used], completion.logprobs or [], self._params.logprobs)
        self.num_sampled_tokens += used
        return self._delta(read, tuple(ids[:used]), logprobs)

    def abort(self) -> Delta:
        """Return the last delta of a request that was aborted from outside."""
        read = _Read(self._stream.flush(), self._stream.thought, finish="abort")
        return self._delta(read, (), None)

    def _read(self, ids: Sequence[int], reason: str | None) -> _Read:
        read = _Read()
        for position, token_id in enumerate(ids, start=1):
            is_last = position == len(ids)
            # vLLM itself stops at end tokens only: stop strings are detected here.
            piece, read.finish = self._stream.advance(
                token_id, is_eos=is_last and reason == "stop", is_last=is_last and reason == "length"
            )
            read.add(piece, self._stream)
            if read.finish is not None:
                return read
        if reason is not None:
            read.text += self._stream.flush()
            read.reasoning += self._stream.thought
        read.finish = _finish_reason(reason)
        return read

    def _delta(self, read: _Read, ids: tuple[int, ...], logprobs: tuple[TokenLogprob, ...] | None) -> Delta:
        delta = Delta(
            text=read.text,
            reasoning=read.reasoning,
            token_ids=ids,
            num_reasoning_tokens=read.num_reasoning_tokens,
            logprobs=logprobs,
        )
        if read.finish is None:
            return delta
        self.finished = True
        return replace(
            delta,
            finish_reason=read.finish,
            stop_reason=self._stream.stop_reason,
            num_prompt_tokens=self._num_prompt_tokens,
            num_cached_tokens=self.num_cached_tokens,
        )

    def _logprobs(
        self, ids: Sequence[int], entries: Sequence[Mapping[int, Any]], num_logprobs: int
    ) -> tuple[TokenLogprob, ...]:
        """Return the log-probabilities of ``ids``, each with its ``num_logprobs`` likeliest alternatives.

        ``entries`` hold the sampled token and the likeliest, at least one entry for each id; tokens that could not be
        sampled are left out.
        """
        logprobs = []
        for token_id, entry in zip(ids, entries, strict=False):
            values = ((i, float(e.logprob)) for i, e in entry.items() if i < self._vocab_size)
            ranked = sorted((pair for pair in values if math.isfinite(pair[1])), key=lambda pair: -pair[1])
            logprobs.append(TokenLogprob(token_id, float(entry[token_id].logprob), tuple(ranked[:num_logprobs])))
        return tuple(logprobs)

    def _failure(self) -> ModelError:
        if self._params.grammar is not None and self.num_sampled_tokens == 0:
            return ModelError(
                "the grammar does not compile for this model's vocabulary",
                GRAMMAR_INVALID,
                param=self._params.grammar.param,
            )
        return EngineUnavailable("the engine gave this request up; its log says why")


def _finish_reason(reason: str | None) -> FinishReason | None:
    match reason:
        case None | "stop" | "length" | "abort":
            return reason
        case _:
            # "repetition" is the only other one; this engine never asks for its detection.
            return "stop"
