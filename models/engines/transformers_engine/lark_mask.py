"""Compile Lark grammars with llguidance.

It computes masks as they are needed, where xgrammar computes them all beforehand: a grammar that is used once, as that
of quotes from one question's passages or of calls about one sequence, is ready in milliseconds.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from models.engines.text import HfTokenizer
from models.errors import GrammarInvalid, UnsupportedParam
from models.types import Grammar

_MOST_CACHED = 32


class LarkCompiler:
    """Compile each Lark grammar once, as long as it is among those used last. Thread-safe."""

    def __init__(self, tokenizer: HfTokenizer, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._lock = threading.Lock()
        self._control = tokenizer.control_ids | tokenizer.eos_token_ids
        self._library_tokenizer: Any = None
        self._compiled: OrderedDict[str, CompiledLark] = OrderedDict()

    def compile(self, grammar: Grammar) -> CompiledLark:
        """Compile a grammar, or return it from the cache.

        Raises:
            GrammarInvalid: the grammar does not compile.
            UnsupportedParam: the model has no end token to close a grammar with.
        """
        from llguidance import LLMatcher

        with self._lock:
            if grammar.spec in self._compiled:
                self._compiled.move_to_end(grammar.spec)
                return self._compiled[grammar.spec]
            if self._library_tokenizer is None:
                self._library_tokenizer = self._make_tokenizer()
        # Outside the lock: a slow grammar must not hold up the others.
        matcher = LLMatcher(self._library_tokenizer, LLMatcher.grammar_from_lark(grammar.spec), log_level=0)
        if matcher.is_error():
            reason = (matcher.get_error().strip().splitlines() or ["it cannot be read"])[0]
            raise GrammarInvalid(f"{grammar.param}: the lark does not compile: {reason}", param=grammar.param)
        compiled = CompiledLark(matcher, self._tokenizer.eos_token_ids, self._control)
        with self._lock:
            self._compiled[grammar.spec] = compiled
            while len(self._compiled) > _MOST_CACHED:
                self._compiled.popitem(last=False)
        return compiled

    def _make_tokenizer(self) -> Any:
        from llguidance.hf import from_tokenizer

        if not self._tokenizer.eos_token_ids:
            raise UnsupportedParam("a grammar needs a model with an end token", param="grammar")
        return from_tokenizer(
            self._tokenizer.fast, n_vocab=self._vocab_size, eos_token=sorted(self._tokenizer.eos_token_ids)
        )


@dataclass(frozen=True, slots=True)
class CompiledLark:
    """Hold a grammar at its start, from which each sequence takes a copy, and the model's end and control tokens."""

    matcher: Any
    ends: frozenset[int]
    control: frozenset[int]

    def start(self) -> LarkMatcher:
        return LarkMatcher(self.matcher.deep_copy(), self.ends, self.control)


class LarkMatcher:
    """Track the position of one sequence; as with xgrammar, an end token completes the grammar."""

    def __init__(self, matcher: Any, ends: frozenset[int], control: frozenset[int]) -> None:
        self._matcher = matcher
        self._ends = ends
        self._control = control
        self.is_complete = False

    def fill(self, bitmask: Tensor) -> bool:
        # Not by ``llguidance.torch``, whose import compiles a kernel. Once nothing more can be written, the library
        # allows the end tokens.
        self._matcher.unsafe_compute_mask_ptr(bitmask.data_ptr(), bitmask.numel() * bitmask.element_size())
        return True

    def forced(self) -> list[int]:
        # The library tokenizes what must come together with the last token, and leaves out the tokens at the end that
        # could have been written as one with what may follow.
        tokens: list[int] = self._matcher.compute_ff_tokens()
        # Text that spells a control token becomes that token there. As ordinary text, its beginning may belong to the
        # token before it.
        control = next((at for at, token in enumerate(tokens) if token in self._control), None)
        sure = tokens if control is None else tokens[: max(control - 1, 0)]
        # A token that begins with a space of its own, as some tokenizers write it, is not what the grammar takes.
        return sure[: self._matcher.validate_tokens(sure)] if sure else sure

    def accept(self, token_id: int) -> bool:
        self.is_complete = token_id in self._ends
        if self._matcher.is_stopped():
            return self.is_complete
        return bool(self._matcher.consume_token(token_id))
