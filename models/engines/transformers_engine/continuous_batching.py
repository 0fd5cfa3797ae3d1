"""Decode with continuous batching over one transformers model: requests join and leave between steps.

Owns the waiting queue, the rows and the steps. Everything here runs on one thread and knows nothing of asyncio. A
step prefills a bounded number of prompt tokens, then decodes one token for every sequence whose prompt is done.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor

from models.engines.base import Tokenizer, block_hashes
from models.engines.text import TextStream
from models.engines.transformers_engine.grammar_mask import GrammarState
from models.engines.transformers_engine.kv_cache import KvCache, PrefixCache
from models.errors import EngineOverloaded, ModelError
from models.types import Delta, EngineStats, FinishReason, GenerateParams, TokenLogprob


@dataclass(frozen=True, slots=True)
class Draw:
    """Describe how one row is sampled; ``uniform`` lies in [0, 1)."""

    temperature: float
    top_p: float
    top_k: int
    uniform: float

    @classmethod
    def of(cls, params: GenerateParams, uniform: float) -> Draw:
        return cls(params.temperature, params.top_p, params.top_k, uniform)


def choose_tokens(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """Choose one token id per row of ``logits``, float32 [rows, vocabulary]."""
    chosen = logits.argmax(dim=-1)
    rows = [i for i, draw in enumerate(draws) if draw.temperature > 0]
    if rows:
        sampled = _sample(logits[rows], [draws[i] for i in rows])
        chosen[torch.tensor(rows, device=logits.device)] = sampled
    return [int(token) for token in chosen.tolist()]


def token_logprobs(logits: Tensor, tokens: Sequence[int], counts: Sequence[int]) -> list[TokenLogprob]:
    """Return the log-probabilities of the chosen tokens and the ``counts[i]`` best of each row.

    They are those of the logits as given: after a grammar's mask, before temperature, top_p and top_k. Tokens a
    mask forbids are not listed.
    """
    logprobs = torch.log_softmax(logits, dim=-1)
    picked = logprobs.gather(1, torch.tensor(tokens, device=logits.device).unsqueeze(1)).squeeze(1).tolist()
    best = logprobs.topk(min(max(counts), logits.shape[1]), dim=-1)
    values, ids = best.values.tolist(), best.indices.tolist()
    return [
        TokenLogprob(
            token,
            picked[row],
            tuple((i, v) for i, v in zip(ids[row][:count], values[row][:count], strict=True) if v != float("-inf")),
        )
        for row, (token, count) in enumerate(zip(tokens, counts, strict=True))
    ]


def _sample(logits: Tensor, draws: Sequence[Draw]) -> Tensor:
    device = logits.device
    temperature = torch.tensor([d.temperature for d in draws], device=device).unsqueeze(1)
    # The largest logit is subtracted first, so that a tiny temperature cannot overflow.
    scaled = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
    if any(d.top_p < 1 or d.top_k > 0 for d in draws):
        scaled = _keep_likely(scaled, draws)
    cumulative = torch.softmax(scaled.double(), dim=-1).cumsum(dim=-1)
    uniform = torch.tensor([d.uniform for d in draws], dtype=torch.float64, device=device).unsqueeze(1)
    index = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True).squeeze(1)
    # Rounding can move the point to the very end of the interval.
    return torch.where(index < logits.shape[1], index, logits.argmax(dim=-1))


def _keep_likely(scaled: Tensor, draws: Sequence[Draw]) -> Tensor:
    """Set everything below each row's top_k and top_p threshold to -inf; ties at the threshold stay."""
    vocabulary = scaled.shape[1]
    ordered = scaled.sort(dim=-1, descending=True).values
    top_k = torch.tensor([d.top_k or vocabulary for d in draws], device=scaled.device).unsqueeze(1)
    rank = torch.arange(vocabulary, device=scaled.device).unsqueeze(0)
    ordered = ordered.masked_fill(rank >= top_k, float("-inf"))
    top_p = torch.tensor([d.top_p for d in draws], device=scaled.device).unsqueeze(1)
    probability = torch.softmax(ordered, dim=-1)
    before = probability.cumsum(dim=-1) - probability
    counts = ((before < top_p) & (rank < top_k)).sum(dim=-1, keepdim=True).clamp(min=1)
    threshold = ordered.gather(1, counts - 1)
    return scaled.masked_fill(scaled < threshold, float("-inf"))


class RunningSequence:
    """Track one sequence from its prompt to its last token.

    ``tokens`` are prompt and continuation; the keys and values of the first ``num_computed`` exist in ``row``.
    ``max_tokens`` counts the continuation and already respects the context's end. ``seed`` fixes every draw.
    """

    def __init__(
        self, request_id: str, prompt_ids: Sequence[int], params: GenerateParams, *, seed: str, max_tokens: int
    ) -> None:
        self.request_id = request_id
        self.params = params
        self.tokens = list(prompt_ids)
        self.num_prompt = len(self.tokens)
        self.max_tokens = max_tokens
        self.num_computed = 0
        self.num_cached: int | None = None  # unknown until the prefix cache lookup
        self.digests: list[bytes] = []
        self.row = -1
        self.grammar: GrammarState | None = None
        self.finished = False
        self._random = random.Random(seed)
        self._stream: TextStream | None = None

    @property
    def is_prefilling(self) -> bool:
        """Return whether tokens of the prompt still have to be computed."""
        return self.num_computed < self.num_prompt

    @property
    def max_columns(self) -> int:
        return self.num_prompt + self.max_tokens

    def update_digests(self, block_size: int, num_tokens: int) -> list[bytes]:
        """Return the digests of the full blocks among the first ``num_tokens`` tokens, and store them."""
        self.digests = block_hashes(self.tokens[:num_tokens], block_size, self.params.cache_salt, self.digests)
        return self.digests

    def next_draw(self) -> Draw:
        return Draw.of(self.params, self._random.random())

    def mask(self, logits: Tensor) -> None:
        """Set the logits of tokens that the grammar does not allow next to -inf, in place."""
        if self.grammar is not None:
            self.grammar.mask(logits)

    def append(self, token_id: int, logprob: TokenLogprob | None, tokenizer: Tokenizer) -> Delta:
        """Append one sampled token and return its delta, which says whether the sequence ends with it."""
        self.tokens.append(token_id)
        if self.grammar is not None:
            self.grammar.accept(token_id)
        is_eos = token_id in tokenizer.eos_token_ids and not self.params.ignore_eos
        # A grammar that has ended allows nothing more, whatever ignore_eos says.
        is_eos = is_eos or (self.grammar is not None and self.grammar.is_complete)
        is_last = len(self.tokens) - self.num_prompt >= self.max_tokens
        stream = self._text_stream(tokenizer)
        text, finish = stream.advance(token_id, is_eos=is_eos, is_last=is_last)
        delta = Delta(
            text=text,
            reasoning=stream.thought,
            token_ids=(token_id,),
            num_reasoning_tokens=int(stream.was_thought),
            logprobs=None if logprob is None else (logprob,),
            stop_reason=stream.stop_matched,
        )
        return delta if finish is None else self.finish(delta, finish)

    def abort(self, tokenizer: Tokenizer) -> Delta:
        stream = self._text_stream(tokenizer)
        return self.finish(Delta(text=stream.flush(), reasoning=stream.thought), "abort")

    def finish(self, delta: Delta, reason: FinishReason) -> Delta:
        """Mark the sequence as finished and return the last delta, with the counts."""
        self.finished = True
        return replace(
            delta,
            finish_reason=reason,
            num_prompt_tokens=self.num_prompt,
            num_cached_tokens=self.num_cached or 0,
        )

    def _text_stream(self, tokenizer: Tokenizer) -> TextStream:
        if self._stream is None:
            self._stream = TextStream(tokenizer, self.params, self.tokens[: self.num_prompt])
        return self._stream


# Idle rows above this size are freed instead of kept for the next request.
_IDLE_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Output:
    """Hold the result of one step for one request: a delta, or the error that ended it."""

    request_id: str
    result: Delta | ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Set the limits of one step.

    ``prefill_tokens`` is the number of prompt tokens that a step computes before it decodes the running sequences.
    """

    max_num_seqs: int
    block_size: int
    prefill_tokens: int = 512


class BatchDecoder:
    """Decode all admitted sequences together, one step at a time.

    ``model`` is a transformers causal LM in eval mode on the slots' device.
    """

    def __init__(
        self, model: Any, tokenizer: Tokenizer, slots: KvCache, prefixes: PrefixCache, limits: BatchLimits
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._slots = slots
        self._prefixes = prefixes
        self._limits = limits
        self._rows: list[RunningSequence] = []
        self._waiting: list[tuple[int, int, RunningSequence]] = []
        self._arrivals = count()
        self._finished = 0
        self._prompt_computed = 0
        self._prompt_cached = 0
        self._generated = 0

    @property
    def has_work(self) -> bool:
        return bool(self._rows or self._waiting)

    def stats(self) -> EngineStats:
        return EngineStats(
            running=len(self._rows),
            waiting=len(self._waiting),
            requests_finished=self._finished,
            prompt_tokens_computed=self._prompt_computed,
            prompt_tokens_cached=self._prompt_cached,
            tokens_generated=self._generated,
            kv_cache_used=self._prefixes.used,
        )

    def add(self, sequence: RunningSequence) -> None:
        heapq.heappush(self._waiting, (-sequence.params.priority, next(self._arrivals), sequence))

    @torch.inference_mode()
    def abort(self, request_id: str) -> list[Output]:
        """Drop a running or waiting request; ignore unknown ids."""
        for sequence in self._rows:
            if sequence.request_id == request_id:
                output = Output(request_id, sequence.abort(self._tokenizer))
                self._leave(sequence)
                return [output]
        for entry in self._waiting:
            if entry[2].request_id == request_id:
                self._waiting.remove(entry)
                heapq.heapify(self._waiting)
                self._finished += 1
                return [Output(request_id, entry[2].abort(self._tokenizer))]
        return []

    @torch.inference_mode()
    def fail_all(self, error: ModelError) -> list[Output]:
        """End every request with the same error after a failed step, and release all rows."""
        sequences = [*self._rows, *(entry[2] for entry in self._waiting)]
        self._rows, self._waiting = [], []
        self._finished += len(sequences)
        self._slots.release()
        return [Output(sequence.request_id, error) for sequence in sequences]

    @torch.inference_mode()
    def step(self) -> list[Output]:
        """Run one prefill and decode step; outputs are in order for each request."""
        outputs = self._admit()
        ready, logits = self._prefill()
        outputs += self._sample(ready, logits)
        decoding = [s for s in self._rows if not s.is_prefilling and s not in ready]
        if decoding:
            outputs += self._sample(decoding, self._decode(decoding))
        return outputs

    # Joining and leaving

    def _admit(self) -> list[Output]:
        while self._waiting and len(self._rows) < self._limits.max_num_seqs:
            sequence = self._waiting[0][2]
            rows = len(self._rows) + 1
            if not self._slots.fits(rows, sequence.max_columns):
                if self._rows:
                    break
                # Alone and still too large: waiting longer cannot help.
                heapq.heappop(self._waiting)
                self._finished += 1
                return [Output(sequence.request_id, _too_large(sequence))]
            heapq.heappop(self._waiting)
            self._slots.reserve(rows, sequence.max_columns)
            sequence.row = len(self._rows)
            self._rows.append(sequence)
        return []

    def _leave(self, sequence: RunningSequence) -> None:
        self._store(sequence)
        self._finished += 1
        last = self._rows.pop()
        if last is not sequence:
            self._slots.move(last.row, sequence.row, last.num_computed)
            last.row = sequence.row
            self._rows[last.row] = last
        if not self._rows and self._slots.num_bytes > _IDLE_BYTES:
            self._slots.release()

    # Prefix cache

    def _load_prefix(self, sequence: RunningSequence) -> None:
        # One prompt token is always computed, for its logits.
        digests = sequence.update_digests(self._limits.block_size, sequence.num_prompt - 1)
        for block in self._prefixes.longest_prefix(digests):
            self._slots.write(sequence.row, sequence.num_computed, block)
            sequence.num_computed += self._limits.block_size
        sequence.num_cached = sequence.num_computed
        self._prompt_cached += sequence.num_computed

    def _store(self, sequence: RunningSequence) -> None:
        size = self._limits.block_size
        full_blocks = sequence.num_computed // size
        digests = sequence.update_digests(size, sequence.num_computed)[:full_blocks]
        for index, digest in enumerate(digests):
            if digest not in self._prefixes:
                self._prefixes.put(digest, self._slots.read(sequence.row, index * size, (index + 1) * size))
        self._prefixes.touch(digests)

    # Computing

    def _prefill(self) -> tuple[list[RunningSequence], Tensor]:
        """Return the sequences whose prompts are now done, and the logits after them, [sequences, vocabulary]."""
        budget = self._limits.prefill_tokens
        ready: list[RunningSequence] = []
        logits: list[Tensor] = []
        for sequence in [s for s in self._rows if s.is_prefilling]:
            if budget <= 0:
                break
            if sequence.num_cached is None:
                self._load_prefix(sequence)
            start = sequence.num_computed
            end = min(sequence.num_prompt, start + budget)
            last = self._forward([sequence.row], [start], [sequence.tokens[start:end]])
            sequence.num_computed = end
            budget -= end - start
            self._prompt_computed += end - start
            if end == sequence.num_prompt:
                # Stored at once, so that the next request with the same prefix finds it.
                self._store(sequence)
                ready.append(sequence)
                logits.append(last)
        return ready, torch.cat(logits) if logits else torch.empty(0)

    def _decode(self, sequences: Sequence[RunningSequence]) -> Tensor:
        logits = self._forward(
            [s.row for s in sequences], [s.num_computed for s in sequences], [s.tokens[-1:] for s in sequences]
        )
        for sequence in sequences:
            sequence.num_computed += 1
        return logits

    def _forward(self, rows: Sequence[int], positions: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits after the last token of each row, float32 [rows, vocabulary of the tokenizer]."""
        self._slots.set_write_positions(rows, positions, len(tokens[0]))
        output = self._model(
            input_ids=torch.tensor(tokens, device=self._slots.shape.device),
            position_ids=self._slots.position_ids(),
            attention_mask=self._slots.attention_mask(),
            past_key_values=self._slots.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        # Models pad their vocabulary; ids beyond the tokenizer's have no token.
        logits: Tensor = output.logits[:, -1, : self._tokenizer.vocab_size]
        return logits.float()

    # Sampling

    def _sample(self, sequences: Sequence[RunningSequence], logits: Tensor) -> list[Output]:
        alive, outputs = self._masked(sequences, logits)
        if not alive:
            return outputs
        live_logits = logits if len(alive) == len(sequences) else logits[[i for i, _ in alive]]
        tokens = choose_tokens(live_logits, [sequence.next_draw() for _, sequence in alive])
        logprobs = _logprobs([sequence for _, sequence in alive], live_logits, tokens)
        for (_, sequence), token, logprob in zip(alive, tokens, logprobs, strict=True):
            outputs.append(self._append(sequence, token, logprob))
        return outputs

    def _masked(
        self, sequences: Sequence[RunningSequence], logits: Tensor
    ) -> tuple[list[tuple[int, RunningSequence]], list[Output]]:
        """Apply the grammars in place; sequences whose grammar allows no token leave with the error."""
        alive: list[tuple[int, RunningSequence]] = []
        outputs: list[Output] = []
        for index, sequence in enumerate(sequences):
            try:
                sequence.mask(logits[index])
                alive.append((index, sequence))
            except ModelError as error:
                self._leave(sequence)
                outputs.append(Output(sequence.request_id, error))
        return alive, outputs

    def _append(self, sequence: RunningSequence, token: int, logprob: TokenLogprob | None) -> Output:
        self._generated += 1
        try:
            delta = sequence.append(token, logprob, self._tokenizer)
        except ModelError as error:
            self._leave(sequence)
            return Output(sequence.request_id, error)
        if sequence.finished:
            self._leave(sequence)
        return Output(sequence.request_id, delta)


def _logprobs(sequences: Sequence[RunningSequence], logits: Tensor, tokens: Sequence[int]) -> list[TokenLogprob | None]:
    wanting = [i for i, sequence in enumerate(sequences) if sequence.params.logprobs is not None]
    found: list[TokenLogprob | None] = [None] * len(sequences)
    if wanting:
        counts = [sequences[i].params.logprobs or 0 for i in wanting]
        for i, logprob in zip(
            wanting, token_logprobs(logits[wanting], [tokens[i] for i in wanting], counts), strict=True
        ):
            found[i] = logprob
    return found


def _too_large(sequence: RunningSequence) -> EngineOverloaded:
    return EngineOverloaded(
        f"prompt and max_tokens together are {sequence.max_columns} tokens, more than this machine's memory can hold",
        param="max_tokens",
    )
