"""Hold the sequences of the transformers engine: each from its prompt to its last token, and which of them run.

*Scheduling.* A request holds columns of KV memory for the tokens it has, not for those it may still generate, so memory
can run out while all run. Requests stand in one order, by priority and then by arrival, and only later ones are ever
set back for an earlier one: the first of all always goes on, which is why nothing can wait for itself.

*Drafts.* The next tokens are drafted from what stood behind the last ones before: prompt lookup. A draft only says
which tokens to compute together. The model then chooses each token as without a draft, and the rest is dropped where
it chooses another one. Calls repeat the parts of earlier calls and demonstrations, and take their values from the
question and from replies.
"""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Generic, TypeVar

from torch import Tensor

from models.engines.base import Tokenizer, block_hashes
from models.engines.text_stream import TextStream
from models.engines.transformers_engine.grammar_mask import GrammarState
from models.engines.transformers_engine.kv_cache import KvRow
from models.engines.transformers_engine.sampling import Draw, logit_changes
from models.types import Delta, FinishReason, GenerateParams, TokenLogprob

# Occurrences of the last token that are compared, and those of them whose continuation is tried.
_MOST_COMPARED: Final = 64
_MOST_TRIED: Final = 6
_LONGEST_MATCH: Final = 8
# Where anything may be written, a draft needs more in common with an earlier place than inside of a call or quote.
_MATCH_IN_FREE_TEXT: Final = 3


class Claim:
    """Hold what the scheduler knows of one request.

    ``columns`` are those it holds while it runs, and those it needs to run while it waits. ``waited`` counts the steps
    for which it was too large for the free memory. ``num_to_prefill`` tokens, of which ``num_computed`` are done, are
    computed before it writes.
    """

    def __init__(self) -> None:
        self.order = (0, 0)
        self.columns = 0
        self.waited = 0
        self.num_to_prefill = 0
        self.num_computed = 0


ClaimT = TypeVar("ClaimT", bound=Claim)


@dataclass(frozen=True, slots=True)
class Plan(Generic[ClaimT]):
    """Hold who is set back and then who is let in, before a step."""

    preempted: list[ClaimT]
    admitted: list[ClaimT]


class Scheduler(Generic[ClaimT]):
    """Keep the order of all requests, at most ``max_running`` of which run.

    A request that is too large for the free memory lets smaller ones behind it pass. After ``patience`` steps those are
    set back for it as soon as that makes enough room.
    """

    def __init__(self, *, max_running: int, patience: int) -> None:
        self._max_running = max_running
        self._patience = patience
        self._arrivals = count()
        self.running: list[ClaimT] = []
        self.waiting: list[ClaimT] = []

    def add(self, claim: ClaimT, *, priority: int, columns: int) -> None:
        claim.order = (-priority, next(self._arrivals))
        claim.columns = columns
        insort(self.waiting, claim, key=_order)

    def remove(self, claim: ClaimT) -> None:
        """Forget a request that has ended, wherever it stands."""
        (self.running if claim in self.running else self.waiting).remove(claim)

    def clear(self) -> list[ClaimT]:
        """Forget all requests and return them."""
        claims = [*self.running, *self.waiting]
        self.running, self.waiting = [], []
        return claims

    def admit(self, claim: ClaimT) -> None:
        self.waiting.remove(claim)
        self.running.append(claim)
        claim.waited = 0

    def set_back(self, claim: ClaimT, *, columns: int) -> None:
        """Put a running request back to its place among the waiting; ``columns`` are what it needs to go on."""
        self.running.remove(claim)
        claim.columns = columns
        insort(self.waiting, claim, key=_order)

    def plan(self, free: int) -> Plan[ClaimT]:
        """Choose who starts with ``free`` columns; ``admit`` and ``set_back`` carry it out.

        Called once a step, since it counts the steps that requests have waited for memory.
        """
        plan: Plan[ClaimT] = Plan([], [])
        rows = self._max_running - len(self.running)
        for claim in self.waiting:
            victims: list[ClaimT] | None = None
            if rows > 0 and claim.columns <= free:
                victims = []
            elif claim.waited >= self._patience:
                staying = [sequence for sequence in self.running if sequence not in plan.preempted]
                victims = self._youngest(staying, claim, claim.columns - free, int(rows < 1))
            if victims is None:
                # Waiting for a row is no reason to set anyone back; waiting for memory is, even if the rows are taken
                # meanwhile.
                claim.waited += rows > 0 or claim.waited > 0
                continue
            free += sum(victim.columns for victim in victims) - claim.columns
            rows += len(victims) - 1
            plan.preempted.extend(victims)
            plan.admitted.append(claim)
        return plan

    def make_room(self, claim: ClaimT, missing: int) -> list[ClaimT]:
        """Return whom to set back so that a running request gets ``missing`` more columns; it may be itself."""
        victims = self._youngest(self.running, claim, missing, 0)
        return [claim] if victims is None else victims

    def _youngest(self, running: Sequence[ClaimT], claim: ClaimT, columns: int, rows: int) -> list[ClaimT] | None:
        """Return the last requests behind ``claim`` that hold this much, or None if all of them hold less."""
        victims: list[ClaimT] = []
        for sequence in sorted(running, key=_order, reverse=True):
            if columns <= 0 and len(victims) >= rows:
                break
            if sequence.order <= claim.order:
                return None
            victims.append(sequence)
            columns -= sequence.columns
        return victims if columns <= 0 and len(victims) >= rows else None


def prefill_order(prefilling: Sequence[ClaimT], tokens: int) -> list[tuple[ClaimT, int]]:
    """Return who computes a step's ``tokens`` of prompts, in this order, and how many of them each may take at most.

    The first takes what it needs. If that is more than a step has, it takes half where some behind it need less than a
    step, and those take the rest, the shortest first: a long prompt takes at most twice as long, and short ones do not
    wait for its end. Other long ones do wait, since they may find its prefix in the cache then.
    """
    short = sorted((claim for claim in prefilling[1:] if _remaining(claim) <= tokens), key=_remaining)
    if not short or _remaining(prefilling[0]) <= tokens:
        return [(claim, tokens) for claim in prefilling]
    return [(prefilling[0], tokens // 2), *((claim, tokens) for claim in short)]


def _remaining(claim: Claim) -> int:
    return claim.num_to_prefill - claim.num_computed


def _order(claim: Claim) -> tuple[int, int]:
    return claim.order


class PromptLookup:
    """Find earlier occurrences of the last tokens of one growing sequence."""

    def __init__(self) -> None:
        self._places: dict[int, list[int]] = {}
        self._num_indexed = 0

    def draft(
        self, tokens: Sequence[int], most: int, *, shortest: int, count_allowed: Callable[[list[int]], int]
    ) -> list[int]:
        """Return up to ``most`` tokens that may follow ``tokens``, none where nothing is found.

        Of the places where at least ``shortest`` of the last tokens stood before, the one with the longest match comes
        first, and of equal ones the latest. ``count_allowed`` returns how many of the given tokens may follow; a place
        after which none may is passed over.
        """
        self._index(tokens)
        if most < 1:
            return []
        for place in self._matches(tokens, shortest):
            following = list(tokens[place + 1 : place + 1 + most])
            allowed = count_allowed(following)
            if allowed:
                return following[:allowed]
        return []

    def _index(self, tokens: Sequence[int]) -> None:
        # All but the last token, behind which nothing stands yet.
        for place in range(self._num_indexed, len(tokens) - 1):
            self._places.setdefault(tokens[place], []).append(place)
        self._num_indexed = max(self._num_indexed, len(tokens) - 1)

    def _matches(self, tokens: Sequence[int], shortest: int) -> list[int]:
        places = self._places.get(tokens[-1], [])[-_MOST_COMPARED:]
        matches = [(length, place) for place in places if (length := _match(tokens, place)) >= shortest]
        return [place for _, place in sorted(matches, reverse=True)[:_MOST_TRIED]]


def _match(tokens: Sequence[int], place: int) -> int:
    """Return how many tokens up to ``place`` equal the last ones."""
    last, length = len(tokens) - 1, 1
    while length < _LONGEST_MATCH and length <= place and tokens[place - length] == tokens[last - length]:
        length += 1
    return length


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
        self._lookup = PromptLookup()

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
        """Set the logits of tokens that the grammar does not allow next to -inf, in place, as far as they count."""
        if self.grammar is not None:
            self.grammar.mask(logits, only_best=self.params.temperature == 0 and self._may_jump)

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
        if self.grammar is None or not self._may_jump:
            return ()
        return self.grammar.forced()[: min(most, self.max_columns - len(self.tokens))]

    def draft(self, most: int) -> list[int]:
        """Return up to ``most`` tokens that the model may choose next; none where nothing may be forced either."""
        if self.grammar is None or not self._may_jump:
            return []
        # The last token of an answer needs no state, and the row has no more columns than these.
        room = min(self.max_columns - 1, self.columns) - len(self.tokens)
        shortest = _MATCH_IN_FREE_TEXT if self.grammar.may_end else 1
        count = self.grammar.count_allowed
        return self._lookup.draft(self.tokens, min(most, room), shortest=shortest, count_allowed=count)

    @property
    def _may_jump(self) -> bool:
        return not self.finished and self.params.logprobs is None and not self.changes_logits

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
            delta, finish_reason=reason, num_prompt_tokens=self.num_prompt, num_cached_tokens=self.num_cached or 0
        )

    def _text_stream(self, tokenizer: Tokenizer) -> TextStream:
        if self._stream is None:
            self._stream = TextStream(tokenizer, self.params, self.tokens[: self.num_prompt])
        return self._stream
