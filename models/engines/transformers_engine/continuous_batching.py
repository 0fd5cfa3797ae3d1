"""Decode with continuous batching over one transformers model: requests join and leave between steps.

Owns the steps; ``sequences.Scheduler`` decides who takes part. Everything here runs on one thread and knows nothing
of asyncio. A step prefills a bounded number of prompt tokens, then decodes one token for every sequence whose prompt is
done. Behind that token come those that its grammar forces, without being decoded; the next step computes them together.
While few sequences run, it also computes a draft of what may follow, and decodes as many tokens as agree with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from models.engines.base import Tokenizer
from models.engines.transformers_engine.kv_cache import KvCache, KvRow, PrefixCache
from models.engines.transformers_engine.model_loading import cache_argument
from models.engines.transformers_engine.sampling import choose_tokens, token_logprobs
from models.engines.transformers_engine.sequences import RunningSequence, Scheduler, prefill_order
from models.errors import CONTEXT_TOO_LONG, ModelError
from models.types import Delta, EngineStats, TokenLogprob


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
    decode, and else one in a step with the others. With at most ``running_per_forced`` sequences, up to
    ``draft_tokens`` are drafted behind each.
    """

    max_num_seqs: int
    block_size: int
    prefill_tokens: int = 512
    patience: int = 256
    running_per_forced: int = 4
    draft_tokens: int = 12


@dataclass(frozen=True, slots=True)
class _Draft:
    """Hold a sequence, the tokens drafted behind it, and the logits after each of them, [tokens, vocabulary]."""

    sequence: RunningSequence
    tokens: list[int]
    logits: Tensor


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
        self._cache_argument = cache_argument(model)
        self._splits_attention = True
        self._finished = 0
        self._prompt_computed = 0
        self._prompt_cached = 0
        self._generated = 0
        self._forced = 0
        self._drafted = 0

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
            tokens_drafted=self._drafted,
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
            rows, logits, drafts = self._decode(decoding)
            outputs += self._sample(rows, logits)
            for draft in drafts:
                outputs += self._follow(draft)
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
        for sequence in sorted(sequences, key=lambda sequence: sequence.order):
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
        decoding = [sequence for sequence in sequences if not sequence.is_prefilling]
        return sorted(decoding, key=lambda sequence: (sequence.row.capacity, sequence.row.index))

    def _set_back(self, sequence: RunningSequence) -> None:
        """Take a running sequence's memory; it waits, and computes again what the prefix cache has not kept."""
        self._store(sequence)
        self._slots.close(sequence.row)
        sequence.rewind()
        self._schedule.set_back(sequence, columns=self._slots.capacity_for(sequence.columns_next))

    def _leave(self, sequence: RunningSequence) -> None:
        sequence.finished = True
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

    def _decode(self, sequences: Sequence[RunningSequence]) -> tuple[list[RunningSequence], Tensor, list[_Draft]]:
        """Compute one token of each sequence, or all of its pending ones; rows of one capacity stand together.

        Returns the sequences of which none is pending any more, the logits after them, and what was drafted behind.
        """
        fewest = len(sequences) / self._limits.running_per_forced
        drafted = [sequence.draft(self._limits.draft_tokens) if fewest <= 1 else [] for sequence in sequences]
        several = [
            (sequence, draft)
            for sequence, draft in zip(sequences, drafted, strict=True)
            if draft or (sequence.num_pending > 1 and sequence.num_pending >= fewest)
        ]
        apart = {sequence.request_id for sequence, _ in several}
        one_each = [sequence for sequence in sequences if sequence.request_id not in apart]
        logits = [self._forward_decoding(one_each)] if one_each else []
        for sequence in one_each:
            sequence.num_computed += 1
        drafts: list[_Draft] = []
        for sequence, draft in several:
            pending = sequence.tokens[sequence.num_computed :]
            rows = self._forward([sequence.row], [sequence.num_computed], [[*pending, *draft]], 1 + len(draft))
            sequence.num_computed += len(pending)
            logits.append(rows[:1])
            drafts.append(_Draft(sequence, draft, rows[1:]))
        rows_of = [*one_each, *(sequence for sequence, _ in several)]
        done = [index for index, sequence in enumerate(rows_of) if not sequence.num_pending]
        return [rows_of[index] for index in done], torch.cat(logits)[done], drafts

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

    def _forward(
        self, rows: Sequence[KvRow], positions: Sequence[int], tokens: Sequence[Sequence[int]], last: int = 1
    ) -> Tensor:
        """Return the logits after the last tokens of each row, float32 [rows × last, vocabulary of the tokenizer]."""
        self._slots.set_write_positions(rows, positions, len(tokens[0]))
        split = {"row_batches": self._slots.row_batches} if self._slots.is_split else {}
        output = self._model(
            input_ids=torch.tensor(tokens, device=self._slots.shape.device),
            position_ids=self._slots.position_ids(),
            attention_mask=self._slots.attention_mask(),
            use_cache=True,
            logits_to_keep=last,
            **{self._cache_argument: self._slots.cache},
            **split,
        )
        # Models pad their vocabulary; ids beyond the tokenizer's have no token.
        logits: Tensor = output.logits[:, -last:, : self._tokenizer.vocab_size]
        return logits.flatten(0, 1).float()

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

    def _follow(self, draft: _Draft) -> list[Output]:
        """Choose the tokens behind those of a draft, as long as the tokens before are the draft's.

        The states of the others, computed in vain, are written over by the next step.
        """
        sequence, outputs, at = draft.sequence, list[Output](), 0
        while not sequence.finished:
            chosen = sequence.tokens[sequence.num_computed :]
            same = _num_equal(chosen, draft.tokens[at:])
            sequence.num_computed += same
            at += same
            if same < len(chosen):
                break
            outputs += self._sample([sequence], draft.logits[at - 1 : at])
            self._drafted += 1
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


def _num_equal(some: Sequence[int], others: Sequence[int]) -> int:
    """Return how many tokens two sequences have in common before they differ."""
    for at, (own, other) in enumerate(zip(some, others, strict=False)):
        if own != other:
            return at
    return min(len(some), len(others))


def _changed(sequences: Sequence[RunningSequence], logits: Tensor) -> Tensor:
    if not any(sequence.changes_logits for sequence in sequences):
        return logits
    return torch.stack([sequence.changed(row) for sequence, row in zip(sequences, logits, strict=True)])


def _logprobs(sequences: Sequence[RunningSequence], logits: Tensor, tokens: Sequence[int]) -> list[TokenLogprob | None]:
    wanting = [i for i, sequence in enumerate(sequences) if sequence.params.logprobs is not None]
    logprobs: list[TokenLogprob | None] = [None] * len(sequences)
    if wanting:
        counts = [sequences[i].params.logprobs or 0 for i in wanting]
        for i, logprob in zip(
            wanting, token_logprobs(logits[wanting], [tokens[i] for i in wanting], counts), strict=True
        ):
            logprobs[i] = logprob
    return logprobs


def _too_long(sequence: RunningSequence, most: int) -> ModelError:
    return ModelError(
        f"prompt and max_tokens together are {sequence.max_columns} tokens; this machine's memory holds {most}",
        CONTEXT_TOO_LONG,
        param="max_tokens",
    )
