"""Track one sequence of the transformers engine from its prompt to its last token."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from models.engines.base import Tokenizer, block_hashes
from models.engines.text_stream import TextStream
from models.engines.transformers_engine.drafts import PromptLookup
from models.engines.transformers_engine.grammar_mask import GrammarState
from models.engines.transformers_engine.kv_cache import KvRow
from models.engines.transformers_engine.sampling import Draw, logit_changes
from models.engines.transformers_engine.scheduling import Claim
from models.types import Delta, FinishReason, GenerateParams, TokenLogprob

# Where anything may be written, a draft needs more in common with an earlier place than inside of a call or quote.
_MATCH_IN_FREE_TEXT = 3


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
            delta,
            finish_reason=reason,
            num_prompt_tokens=self.num_prompt,
            num_cached_tokens=self.num_cached or 0,
        )

    def _text_stream(self, tokenizer: Tokenizer) -> TextStream:
        if self._stream is None:
            self._stream = TextStream(tokenizer, self.params, self.tokens[: self.num_prompt])
        return self._stream
