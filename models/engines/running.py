"""Hold the state of one request inside the batch: its tokens, its text, its random numbers, its grammar."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from models.engines.base import Tokenizer
from models.engines.block_hash import block_hashes
from models.engines.detokenize import TextStream
from models.engines.sampling import Draw
from models.engines.xgrammar_mask import GrammarState
from models.types import Delta, FinishReason, GenerateParams, TokenLogprob


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
            token_ids=(token_id,),
            logprobs=None if logprob is None else (logprob,),
            stop_reason=stream.stop_matched,
        )
        return delta if finish is None else self.finish(delta, finish)

    def abort(self, tokenizer: Tokenizer) -> Delta:
        return self.finish(Delta(text=self._text_stream(tokenizer).flush()), "abort")

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
            self._stream = TextStream(tokenizer, self.params.stop)
        return self._stream
