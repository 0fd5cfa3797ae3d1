"""Decode with continuous batching over one transformers model: requests join and leave between steps.

Owns the sequences and the steps; ``scheduling`` decides who takes part. Everything here runs on one thread and knows
nothing of asyncio. A step prefills a bounded number of prompt tokens, then decodes one token for every sequence whose
prompt is done. Behind that token come those that its grammar forces, without being decoded; the next step computes them
together.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from models.engines.base import Tokenizer, block_hashes
from models.engines.text_stream import TextStream
from models.engines.transformers_engine.grammar_mask import GrammarState
from models.engines.transformers_engine.kv_cache import KvCache, KvRow, PrefixCache
from models.engines.transformers_engine.sampling import Draw, choose_tokens, logit_changes, token_logprobs
from models.engines.transformers_engine.scheduling import Claim, Scheduler, prefill_order
from models.errors import ContextTooLong, ModelError
from models.types import Delta, EngineStats, FinishReason, GenerateParams, TokenLogprob


class RunningSequence(Claim):
    """Track one sequence from its prompt to its last token.

    ``tokens`` are prompt and continuation; the keys and values of the first ``num_computed`` exist in ``row``, which it
    has while it runs. The first ``num_to_prefill`` are computed as a prompt: after a sequence was set back, these are
    all that it has. ``max_tokens`` counts the continuation and already respects the context's end. ``seed`` fixes every
    draw.
    """

    def __init__(
        self, request_id: str, prompt_ids: Sequence[int], params: GenerateParams, *, seed: str, max_tokens: int
    ) -> None:
        super().__init__()
        self.request_id = request_id
        self.params = params
        self.tokens = list(prompt_ids)
        self.num_prompt = len(self.tokens)
        self.max_tokens = max_tokens
        self.num_to_prefill = self.num_prompt
        self.num_computed = 0
        self.num_cached: int | None = None  # unknown until the first prefix cache lookup
        self.is_looked_up = False
        self.digests: list[bytes] = []
        self.row: KvRow
        self.grammar: GrammarState | None = None
        self.finished = False
        self._random = random.Random(seed)
        self._changes = logit_changes(self.tokens, params)
        self._stream: TextStream | None = None

    @property
    def is_prefilling(self) -> bool:
        """Return whether tokens of the prompt, or of what was written before a set-back, have to be computed."""
        return self.num_computed < self.num_to_prefill

    @property
    def max_columns(self) -> int:
        return self.num_prompt + self.max_tokens

    @property
    def num_pending(self) -> int:
        """Return the tokens that are not computed: one, and more where the last ones were forced."""
        return len(self.tokens) - self.num_computed

    @property
    def columns_next(self) -> int:
        """Return the columns that all tokens so far and the next one need."""
        return min(len(self.tokens) + 1, self.max_columns)

    def rewind(self) -> None:
        """Forget what was computed, not what was written: the sequence goes on later as if it had not stopped."""
        self.num_to_prefill = len(self.tokens)
        self.num_computed = 0
        self.is_looked_up = False

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

    @property
    def changes_logits(self) -> bool:
        return self._changes is not None

    def changed(self, logits: Tensor) -> Tensor:
        """Return the logits with the request's bias and penalties."""
        return logits if self._changes is None else self._changes.apply(logits)

    def forced(self, most: int) -> Sequence[int]:
        """Return up to ``most`` tokens that the grammar forces next.

        None too where their own numbers count: log-probabilities are reported, or a bias or penalty may prefer another
        way to write the same text.
        """
        if self.finished or self.grammar is None or self.params.logprobs is not None or self.changes_logits:
            return ()
        return self.grammar.forced()[: min(most, self.max_columns - len(self.tokens))]

    def append(self, token_id: int, logprob: TokenLogprob | None, tokenizer: Tokenizer) -> Delta:
        """Append one sampled or forced token and return its delta, which says whether the sequence ends with it."""
        self.tokens.append(token_id)
        if self._changes is not None:
            self._changes.count(token_id)
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
            stop_reason=stream.stop_reason,
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


@dataclass(frozen=True, slots=True)
class Output:
    """Hold the result of one step for one request: a delta, or the error that ended it."""

    request_id: str
    result: Delta | ModelError


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """Set the limits of one step.

    ``prefill_tokens`` is the number of prompt tokens that a step computes before it decodes the running sequences;
    ``patience`` the number of steps that a sequence too large for the free memory lets later ones pass. Forced tokens
    are computed together, apart from the other sequences, if there is at least one for each ``running_per_forced`` that
    decode, and else one in a step with the others.
    """

    max_num_seqs: int
    block_size: int
    prefill_tokens: int = 512
    patience: int = 256
    running_per_forced: int = 4


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
        self._schedule: Scheduler[RunningSequence] = Scheduler(
            max_running=limits.max_num_seqs, patience=limits.patience
        )
        self._splits_attention = True
        self._finished = 0
        self._prompt_computed = 0
        self._prompt_cached = 0
        self._generated = 0
        self._forced = 0

    @property
    def has_work(self) -> bool:
        return bool(self._schedule.running or self._schedule.waiting)

    def stats(self) -> EngineStats:
        return EngineStats(
            running=len(self._schedule.running),
            waiting=len(self._schedule.waiting),
            requests_finished=self._finished,
            prompt_tokens_computed=self._prompt_computed,
            prompt_tokens_cached=self._prompt_cached,
            tokens_generated=self._generated,
            tokens_forced=self._forced,
            kv_cache_used=self._prefixes.used,
        )

    def add(self, sequence: RunningSequence) -> list[Output]:
        """Queue a sequence; one that memory could not hold even alone ends with the error."""
        if sequence.max_columns > self._slots.max_columns:
            self._finished += 1
            return [Output(sequence.request_id, _too_long(sequence, self._slots.max_columns))]
        columns = self._slots.capacity_for(sequence.columns_next)
        self._schedule.add(sequence, priority=sequence.params.priority, columns=columns)
        return []

    @torch.inference_mode()
    def abort(self, request_id: str) -> list[Output]:
        """Drop a running or waiting request; ignore unknown ids."""
        for sequence in self._schedule.running:
            if sequence.request_id == request_id:
                output = Output(request_id, sequence.abort(self._tokenizer))
                self._leave(sequence)
                return [output]
        for sequence in self._schedule.waiting:
            if sequence.request_id == request_id:
                self._schedule.remove(sequence)
                self._finished += 1
                return [Output(request_id, sequence.abort(self._tokenizer))]
        return []

    @torch.inference_mode()
    def fail_all(self, error: ModelError) -> list[Output]:
        """End every request with the same error after a failed step, and release all rows."""
        sequences = self._schedule.clear()
        self._finished += len(sequences)
        self._slots.release()
        return [Output(sequence.request_id, error) for sequence in sequences]

    @torch.inference_mode()
    def step(self) -> list[Output]:
        """Run one prefill and decode step; outputs are in order for each request."""
        self._admit()
        ready, logits = self._prefill()
        outputs = self._sample(ready, logits)
        decoding = self._with_room([s for s in self._schedule.running if not s.is_prefilling and s not in ready])
        if decoding:
            outputs += self._sample(*self._decode(decoding))
        return outputs

    # Joining and leaving

    def _admit(self) -> None:
        plan = self._schedule.plan(self._slots.free_columns)
        for sequence in plan.preempted:
            self._set_back(sequence)
        for sequence in plan.admitted:
            self._schedule.admit(sequence)
            sequence.row = self._slots.open(sequence.columns)

    def _with_room(self, sequences: Sequence[RunningSequence]) -> list[RunningSequence]:
        """Make room for one more token of each sequence, first come first served; return those that still run."""
        for sequence in sorted(sequences, key=lambda one: one.order):
            columns = self._slots.capacity_for(sequence.columns_next)
            if columns <= sequence.columns or sequence.is_prefilling:
                continue
            missing = columns - sequence.columns - self._slots.free_columns
            for victim in self._schedule.make_room(sequence, missing):
                self._set_back(victim)
            if not sequence.is_prefilling:
                self._slots.grow(sequence.row, columns)
                sequence.columns = columns
        # In the order of their memory, so that rows of one capacity stand together.
        return sorted(
            (one for one in sequences if not one.is_prefilling), key=lambda one: (one.row.capacity, one.row.index)
        )

    def _set_back(self, sequence: RunningSequence) -> None:
        """Take a running sequence's memory; it waits, and computes again what the prefix cache has not kept."""
        self._store(sequence)
        self._slots.close(sequence.row)
        sequence.rewind()
        self._schedule.set_back(sequence, columns=self._slots.capacity_for(sequence.columns_next))

    def _leave(self, sequence: RunningSequence) -> None:
        self._store(sequence)
        self._finished += 1
        self._schedule.remove(sequence)
        self._slots.close(sequence.row)

    # Prefix cache

    def _load_prefix(self, sequence: RunningSequence) -> None:
        # One token is always computed, for its logits.
        most = sequence.num_to_prefill - 1
        digests = sequence.update_digests(self._limits.block_size, most)[: most // self._limits.block_size]
        for block in self._prefixes.longest_prefix(digests):
            self._slots.write(sequence.row, sequence.num_computed, block)
            sequence.num_computed += self._limits.block_size
        sequence.is_looked_up = True
        if sequence.num_cached is None:  # not counted again when a sequence goes on after a set-back
            sequence.num_cached = sequence.num_computed
            self._prompt_cached += sequence.num_computed

    def _store(self, sequence: RunningSequence) -> None:
        size = self._limits.block_size
        # What the cache could not hold at once would only drive its own beginning out.
        full_blocks = min(
            sequence.num_computed // size, self._prefixes.room_for(size * self._slots.shape.bytes_per_token)
        )
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
        for sequence, share in prefill_order([s for s in self._schedule.running if s.is_prefilling], budget):
            if budget <= 0:
                break
            if not sequence.is_looked_up:
                self._load_prefix(sequence)
            start = sequence.num_computed
            end = min(sequence.num_to_prefill, start + min(budget, share))
            last = self._forward([sequence.row], [start], [sequence.tokens[start:end]])
            sequence.num_computed = end
            budget -= end - start
            self._prompt_computed += end - start
            if end == sequence.num_to_prefill:
                # Stored at once, so that the next request with the same prefix finds it.
                self._store(sequence)
                ready.append(sequence)
                logits.append(last)
        return ready, torch.cat(logits) if logits else torch.empty(0)

    def _decode(self, sequences: Sequence[RunningSequence]) -> tuple[list[RunningSequence], Tensor]:
        """Compute one token of each sequence, or all of its pending ones; rows of one capacity stand together.

        Returns the sequences of which none is pending any more, and the logits after them.
        """
        fewest = len(sequences) / self._limits.running_per_forced
        one_each = [s for s in sequences if s.num_pending == 1 or s.num_pending < fewest]
        several = [s for s in sequences if s.num_pending > 1 and s.num_pending >= fewest]
        logits = [self._forward_decoding(one_each)] if one_each else []
        for sequence in one_each:
            sequence.num_computed += 1
        for sequence in several:
            pending = sequence.tokens[sequence.num_computed :]
            logits.append(self._forward([sequence.row], [sequence.num_computed], [pending]))
            sequence.num_computed += len(pending)
        rows = [*one_each, *several]
        done = [index for index, sequence in enumerate(rows) if not sequence.num_pending]
        return [rows[index] for index in done], torch.cat(logits)[done]

    def _forward_decoding(self, sequences: Sequence[RunningSequence]) -> Tensor:
        rows, positions = [s.row for s in sequences], [s.num_computed for s in sequences]
        tokens = [s.tokens[s.num_computed : s.num_computed + 1] for s in sequences]
        if self._splits_attention:
            logits = self._forward(rows, positions, tokens)
            if not self._slots.is_split or self._slots.was_attended:
                return logits
            # This model does not hand its arguments on to the attention: one pass for each capacity, from now on.
            self._splits_attention = False
        parts, first = [], 0
        for _, same in groupby(rows, key=lambda row: row.capacity):
            end = first + len(list(same))
            parts.append(self._forward(rows[first:end], positions[first:end], tokens[first:end]))
            first = end
        return torch.cat(parts)

    def _forward(self, rows: Sequence[KvRow], positions: Sequence[int], tokens: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits after the last token of each row, float32 [rows, vocabulary of the tokenizer]."""
        self._slots.set_write_positions(rows, positions, len(tokens[0]))
        split = {"row_batches": self._slots.row_batches} if self._slots.is_split else {}
        output = self._model(
            input_ids=torch.tensor(tokens, device=self._slots.shape.device),
            position_ids=self._slots.position_ids(),
            attention_mask=self._slots.attention_mask(),
            past_key_values=self._slots.cache,
            use_cache=True,
            logits_to_keep=1,
            **split,
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
        live = [sequence for _, sequence in alive]
        tokens = choose_tokens(_changed(live, live_logits), [sequence.next_draw() for sequence in live])
        logprobs = _logprobs(live, live_logits, tokens)
        for (_, sequence), token, logprob in zip(alive, tokens, logprobs, strict=True):
            outputs.append(self._append(sequence, token, logprob))
            outputs += self._append_forced(sequence)
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

    def _append_forced(self, sequence: RunningSequence) -> list[Output]:
        """Append the tokens that must follow; whatever else runs, so that a seed gives the same tokens."""
        outputs: list[Output] = []
        for token in sequence.forced(self._limits.prefill_tokens):
            # The random number that the token would have been drawn with, so that those of later tokens stay.
            sequence.next_draw()
            outputs.append(self._append(sequence, token, None))
            self._forced += 1
            if sequence.finished:
                break
        return outputs

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


def _changed(sequences: Sequence[RunningSequence], logits: Tensor) -> Tensor:
    if not any(sequence.changes_logits for sequence in sequences):
        return logits
    return torch.stack([sequence.changed(row) for sequence, row in zip(sequences, logits, strict=True)])


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


def _too_long(sequence: RunningSequence, most: int) -> ContextTooLong:
    return ContextTooLong(
        f"prompt and max_tokens together are {sequence.max_columns} tokens; this machine's memory holds {most}",
        param="max_tokens",
    )
