"""Turn grammars into logits masks with xgrammar.

Owns compiled grammars and the state of one sequence inside its grammar.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable

import torch
import xgrammar as xgr
from torch import Tensor

from models.engines.text import HfTokenizer
from models.errors import EngineOverloaded, GrammarInvalid, UnsupportedParam
from models.types import Grammar

_CACHE_BYTES = 256 * 2**20
_MAX_SPEC_CHARS = 1_000_000
_BITS = 32
# xgrammar begins its messages with the time and the place in its source.
_SOURCE = re.compile(r"^\[[0-9:]+\] \S+: ")
_MAX_SECONDS = 60.0
_MAX_AT_ONCE = 4


class GrammarCompiler:
    """Compile each grammar once.

    ``compile`` may take a second: call it off the event loop. Thread-safe.
    """

    def __init__(self, tokenizer: HfTokenizer, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._lock = threading.Lock()
        self._compiler: xgr.GrammarCompiler | None = None

    def compile(self, grammar: Grammar) -> xgr.CompiledGrammar:
        """Compile a grammar, or return it from the cache.

        Raises:
            GrammarInvalid: the grammar is too long or does not compile.
            UnsupportedParam: the model has no end token to close a grammar with.
        """
        if len(grammar.spec) > _MAX_SPEC_CHARS:
            raise GrammarInvalid(f"the grammar is longer than {_MAX_SPEC_CHARS} characters", param=grammar.param)
        with self._lock:
            if self._compiler is None:
                self._compiler = self._make_compiler()
        # Outside the lock: a slow grammar must not hold up the others.
        try:
            match grammar.kind:
                case "structural_tag":
                    return self._compiler.compile_structural_tag(grammar.spec)
                case "regex":
                    return self._compiler.compile_regex(grammar.spec)
                case "json_schema":
                    return self._compiler.compile_json_schema(grammar.spec)
        except (ValueError, RuntimeError, TypeError) as error:
            reason = _SOURCE.sub("", (str(error).strip().splitlines() or [type(error).__name__])[-1])
            raise GrammarInvalid(
                f"{grammar.param}: the {grammar.kind} does not compile: {reason}", param=grammar.param
            ) from error

    def _make_compiler(self) -> xgr.GrammarCompiler:
        if not self._tokenizer.eos_token_ids:
            raise UnsupportedParam("a grammar needs a model with an end token", param="grammar")
        info = xgr.TokenizerInfo.from_huggingface(
            self._tokenizer.fast, vocab_size=self._vocab_size, stop_token_ids=sorted(self._tokenizer.eos_token_ids)
        )
        # One thread: compiling happens beside decoding and must not take its cores.
        return xgr.GrammarCompiler(info, max_threads=1, cache_limit_bytes=_CACHE_BYTES)


class BoundedCompilations:
    """Compile grammars on threads, a few at a time, and stop waiting for one that takes too long.

    A thread cannot be ended: its place stays taken until it is done, and who asks for the same grammar waits with it.
    Belongs to one event loop. ``compile`` is ``GrammarCompiler.compile``.
    """

    def __init__(
        self,
        compile_grammar: Callable[[Grammar], xgr.CompiledGrammar],
        seconds: float = _MAX_SECONDS,
        most: int = _MAX_AT_ONCE,
    ) -> None:
        self._compile = compile_grammar
        self._seconds = seconds
        self._most = most
        self._running: dict[Grammar, asyncio.Task[xgr.CompiledGrammar]] = {}

    async def compiled(self, grammar: Grammar) -> xgr.CompiledGrammar:
        """Return the compiled grammar.

        Raises:
            GrammarInvalid: it does not compile, or not in time.
            EngineOverloaded: too many others are being compiled.
        """
        task = self._running.get(grammar)
        if task is None:
            if len(self._running) >= self._most:
                raise EngineOverloaded("too many grammars are being compiled", param=grammar.param)
            task = self._running[grammar] = asyncio.create_task(asyncio.to_thread(self._compile, grammar))
            task.add_done_callback(lambda done: self._forget(grammar, done))
        # Not awaited itself, so that a cancelled request does not cancel it for others.
        await asyncio.wait({task}, timeout=self._seconds)
        if not task.done():
            raise GrammarInvalid(
                f"{grammar.param}: takes longer than {self._seconds:g} s to prepare; make it smaller or simpler",
                param=grammar.param,
            )
        return task.result()

    def _forget(self, grammar: Grammar, done: asyncio.Task[xgr.CompiledGrammar]) -> None:
        del self._running[grammar]
        if not done.cancelled():
            done.exception()  # read here, since those who waited may be gone


class GrammarState:
    """Track the position of one sequence in its grammar."""

    def __init__(self, compiled: xgr.CompiledGrammar, vocab_size: int) -> None:
        self._matcher = xgr.GrammarMatcher(compiled)
        self._bitmask = xgr.allocate_token_bitmask(1, vocab_size)

    @property
    def is_complete(self) -> bool:
        """Return whether the grammar has ended, so that nothing may follow."""
        return bool(self._matcher.is_terminated())

    def mask(self, logits: Tensor) -> None:
        """Set the logits ([vocabulary], in place) of every token that may not come next to -inf.

        Raises:
            GrammarInvalid: no token may come next.
        """
        if not self._matcher.fill_next_token_bitmask(self._bitmask):
            return
        if not self._bitmask.any():
            raise GrammarInvalid("the grammar has reached a point where no token is allowed", param="grammar")
        apply_bitmask(logits, self._bitmask)

    def accept(self, token_id: int) -> None:
        """Advance the grammar by one token.

        Raises:
            GrammarInvalid: the token is not allowed here (it was not drawn under ``mask``).
        """
        if not self._matcher.accept_token(token_id):
            raise GrammarInvalid(f"token {token_id} is not allowed by the grammar here", param="grammar")


def apply_bitmask(logits: Tensor, bitmask: Tensor) -> None:
    """Set the logits ([vocabulary], in place) to -inf whose bits in ``bitmask`` ([1, words]) are 0."""
    size = logits.shape[0]
    # xgrammar's CPU kernel takes every bit of the last word for a logit and writes beyond the end of the row.
    num_words = size // _BITS if logits.device.type == "cpu" else 0
    start = num_words * _BITS
    if start:
        xgr.apply_token_bitmask_inplace(logits[:start].unsqueeze(0), bitmask[:, :num_words])
    if start < size:
        allowed = _unpack(bitmask[0, num_words:].to(logits.device), size - start)
        logits[start:].masked_fill_(~allowed, float("-inf"))


def _unpack(words: Tensor, size: int) -> Tensor:
    """Unpack int32 words, lowest bit first, to bool [size]."""
    bits = (words.unsqueeze(1) >> torch.arange(_BITS, dtype=torch.int32, device=words.device)) & 1
    return bits.flatten()[:size].bool()
