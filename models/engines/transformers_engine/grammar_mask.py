"""Turn grammars into logits masks: JSON, patterns and tools with xgrammar, calls and Lark with llguidance.

Owns compiled grammars and the state of one sequence inside its grammar. llguidance computes masks as they are needed,
where xgrammar computes them all beforehand: a grammar that is used once, as that of calls about one sequence, is ready
in milliseconds whatever the vocabulary. So the grammar of free text with calls is rewritten as Lark.
"""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import torch
import xgrammar as xgr
from numpy.typing import NDArray
from torch import Tensor

from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.call_lark import calls_as_lark
from models.engines.transformers_engine.library_tokenizer import library_tokenizer
from models.errors import GRAMMAR_INVALID, ModelError, UnsupportedParam
from models.types import Grammar

_MOST_CACHED = 32
_CACHE_BYTES = 256 * 2**20
_MAX_SPEC_CHARS = 1_000_000
_BITS = 32
# A mask of free text, of each length of a term, and of the places between the words of a call.
_MOST_KNOWN: Final = 64
# Of so many words of a mask, at most one has bits where few tokens are allowed; of so many tokens, one is not allowed
# where nearly all are.
_WORDS_OF_A_FEW: Final = 64
_TOKENS_OF_ONE_DROPPED: Final = 16
# xgrammar begins its messages with the time and the place in its source.
_SOURCE = re.compile(r"^\[[0-9:]+\] \S+: ")


class Matcher(Protocol):
    """Track the position of one sequence in its grammar; what else a library may know of it is not known at first."""

    @property
    def is_complete(self) -> bool:
        """Return whether an end token has closed the grammar, so that nothing may follow."""
        ...

    def fill(self, bitmask: Tensor) -> bool:
        """Write the tokens that may come next as bits ([1, words], int32, lowest first); return False for all."""
        ...

    def accept(self, token_id: int) -> bool:
        """Advance by one token; return whether it is allowed here."""
        ...

    def forced(self) -> Sequence[int]:
        """Return the tokens that must come next, as far as they are certain: those of the text that must come next."""
        return ()

    @property
    def may_end(self) -> bool:
        """Return whether the text may end here, as free text may, and a call or a quote may not."""
        return True

    def count_allowed(self, token_ids: list[int]) -> int:
        """Return how many of the tokens may follow in turn; 0 where that cannot be said. Does not advance."""
        return 0

    def surely_allows(self, token_id: int) -> bool:
        """Return whether the mask has the token, as far as that is known without the mask. Does not advance."""
        return False


class CompiledGrammar(Protocol):
    """Hold a grammar that any number of sequences can be written under."""

    def start(self) -> Matcher: ...


class GrammarCompiler:
    """Compile each grammar once.

    ``compile`` may take a second: call it off the event loop. Thread-safe.
    """

    def __init__(self, tokenizer: HfTokenizer, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._lock = threading.Lock()
        self._compiler: xgr.GrammarCompiler | None = None
        self._lark = LarkCompiler(tokenizer, vocab_size)

    def prepare(self) -> None:
        """Do beforehand what the first grammar of calls would wait for; a tenth of a second or more."""
        self._lark.prepare()

    def compile(self, grammar: Grammar) -> CompiledGrammar:
        """Compile a grammar, or return it from the cache.

        Raises:
            ModelError: the grammar is too long or does not compile.
            UnsupportedParam: the model has no end token to close a grammar with.
        """
        if len(grammar.spec) > _MAX_SPEC_CHARS:
            raise ModelError(
                f"the grammar is longer than {_MAX_SPEC_CHARS} characters", GRAMMAR_INVALID, param=grammar.param
            )
        if not self._tokenizer.eos_token_ids:
            raise UnsupportedParam("a grammar needs a model with an end token", param="grammar")
        lark = grammar if grammar.kind == "lark" else self._calls_as_lark(grammar)
        if lark is not None:
            return self._lark.compile(lark)
        with self._lock:
            if self._compiler is None:
                self._compiler = self._make_compiler()
        # Outside the lock: a slow grammar must not hold up the others.
        compiler = self._compiler
        try:
            return _CompiledXgrammar(getattr(compiler, f"compile_{grammar.kind}")(grammar.spec))
        except (ValueError, RuntimeError, TypeError) as error:
            reason = _SOURCE.sub("", (str(error).strip().splitlines() or [type(error).__name__])[-1])
            raise ModelError(
                f"{grammar.param}: the {grammar.kind} does not compile: {reason}", GRAMMAR_INVALID, param=grammar.param
            ) from error

    def _calls_as_lark(self, grammar: Grammar) -> Grammar | None:
        """Return the grammar of calls for llguidance, None for any other and for a model that thinks."""
        # The marks of thinking, which free text may hold, are control tokens to llguidance.
        if grammar.kind != "structural_tag" or self._tokenizer.thinking is not None:
            return None
        lark = calls_as_lark(grammar.spec)
        return None if lark is None else Grammar("lark", lark, param=grammar.param)

    def _make_compiler(self) -> xgr.GrammarCompiler:
        info = xgr.TokenizerInfo.from_huggingface(
            self._tokenizer.fast, vocab_size=self._vocab_size, stop_token_ids=sorted(self._tokenizer.eos_token_ids)
        )
        # One thread: compiling happens beside decoding and must not take its cores.
        return xgr.GrammarCompiler(info, max_threads=1, cache_limit_bytes=_CACHE_BYTES)


class KnownMasks:
    """Remember how masks are written to logits, as most recur: in free text, in terms, at the same place of each call.

    Unpacking the bits of one takes several times what writing it takes. Belongs to one vocabulary and one thread.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _Writing] = OrderedDict()

    def write(self, logits: NDArray[np.float32], words: NDArray[np.int32]) -> None:
        """Set the logits ([vocabulary], in place) to -inf whose bits in ``words`` are 0, lowest first.

        Raises:
            ModelError: no bit is 1.
        """
        key = words.tobytes()
        writing = self._known.pop(key, None) or _Writing.of(words, len(logits))
        self._known[key] = writing
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        writing.to(logits)


class GrammarState:
    """Track the position of one sequence in its grammar; ``masks`` are those of the whole engine."""

    def __init__(self, compiled: CompiledGrammar, vocab_size: int, masks: KnownMasks | None = None) -> None:
        self._matcher = compiled.start()
        self._bitmask = xgr.allocate_token_bitmask(1, vocab_size)
        self._words: NDArray[np.int32] = self._bitmask[0].numpy()
        self._masks = masks or KnownMasks()

    @property
    def is_complete(self) -> bool:
        """Return whether the grammar has ended, so that nothing may follow."""
        return self._matcher.is_complete

    def fill(self) -> bool:
        """Compute which tokens may come next; return False where all may."""
        return self._matcher.fill(self._bitmask)

    def mask(self, logits: Tensor, *, only_best: bool = False) -> None:
        """Set the logits ([vocabulary], in place) of every token that may not come next to -inf.

        ``only_best``: the best token alone is asked for, so where it may come next the others may stay as they are.
        That spares a walk over the vocabulary at each token of a term.

        Raises:
            ModelError: no token may come next.
        """
        if only_best and logits.device.type == "cpu" and self._matcher.surely_allows(int(logits.numpy().argmax())):
            return
        if self.fill():
            self.apply(logits)

    def apply(self, logits: Tensor) -> None:
        """Mask the logits by what ``fill`` has computed, as ``mask`` does."""
        if logits.device.type == "cpu":
            self._masks.write(logits.numpy(), self._words)
            return
        if not self._words.any():
            raise _nothing_allowed()
        allowed = _unpack(self._bitmask[0].to(logits.device), logits.shape[0])
        logits.masked_fill_(~allowed, -math.inf)

    def forced(self) -> Sequence[int]:
        """Return the tokens that must come next, as the model would write them; none where that is not certain."""
        return self._matcher.forced()

    @property
    def may_end(self) -> bool:
        """Return whether the text may end here, as free text may, and a call or a quote may not."""
        return self._matcher.may_end

    def count_allowed(self, token_ids: list[int]) -> int:
        """Return how many of the tokens may follow in turn; 0 where that cannot be said."""
        return self._matcher.count_allowed(token_ids)

    def accept(self, token_id: int) -> None:
        """Advance the grammar by one token.

        Raises:
            ModelError: the token is not allowed here (it was not drawn under ``mask``).
        """
        if not self._matcher.accept(token_id):
            raise ModelError(f"token {token_id} is not allowed by the grammar here", GRAMMAR_INVALID, param="grammar")


@dataclass(frozen=True, slots=True)
class _CompiledXgrammar:
    grammar: xgr.CompiledGrammar

    def start(self) -> Matcher:
        return _XgrammarMatcher(xgr.GrammarMatcher(self.grammar))


@dataclass(frozen=True, slots=True)
class _XgrammarMatcher(Matcher):
    matcher: xgr.GrammarMatcher

    @property
    def is_complete(self) -> bool:
        return bool(self.matcher.is_terminated())

    def fill(self, bitmask: Tensor) -> bool:
        return bool(self.matcher.fill_next_token_bitmask(bitmask))

    def accept(self, token_id: int) -> bool:
        return bool(self.matcher.accept_token(token_id))


class LarkCompiler:
    """Compile each Lark grammar once, as long as it is among those used last. Thread-safe."""

    def __init__(self, tokenizer: HfTokenizer, vocab_size: int) -> None:
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._lock = threading.Lock()
        self._control = tokenizer.control_ids | tokenizer.eos_token_ids
        self._library_tokenizer: Any = None
        self._compiled: OrderedDict[str, CompiledLark] = OrderedDict()

    def prepare(self) -> None:
        """Read the vocabulary, which is most of the first grammar's time, if the model can close a grammar."""
        if self._tokenizer.eos_token_ids:
            self._shared_tokenizer()
            self._tokenizer.token_id("]->")  # reads the text of every token, once, where this is none

    def compile(self, grammar: Grammar) -> CompiledLark:
        """Compile a grammar, or return it from the cache.

        Raises:
            ModelError: the grammar does not compile.
        """
        from llguidance import LLMatcher

        with self._lock:
            if grammar.spec in self._compiled:
                self._compiled.move_to_end(grammar.spec)
                return self._compiled[grammar.spec]
        # Outside the lock: a slow grammar must not hold up the others.
        matcher = LLMatcher(self._shared_tokenizer(), LLMatcher.grammar_from_lark(grammar.spec), log_level=0)
        if matcher.is_error():
            reason = (matcher.get_error().strip().splitlines() or ["it cannot be read"])[0]
            raise ModelError(
                f"{grammar.param}: the lark does not compile: {reason}", GRAMMAR_INVALID, param=grammar.param
            )
        # Each sequence takes a copy, with this first mask in it: in free text it walks over the whole vocabulary.
        matcher.compute_bitmask()
        compiled = CompiledLark(matcher, self._tokenizer.eos_token_ids, self._control)
        with self._lock:
            self._compiled[grammar.spec] = compiled
            while len(self._compiled) > _MOST_CACHED:
                self._compiled.popitem(last=False)
        return compiled

    def _shared_tokenizer(self) -> Any:
        with self._lock:
            if self._library_tokenizer is None:
                self._library_tokenizer = library_tokenizer(self._tokenizer, self._vocab_size)
            return self._library_tokenizer


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

    @property
    def may_end(self) -> bool:
        return bool(self._matcher.is_accepting())

    def count_allowed(self, token_ids: list[int]) -> int:
        return 0 if self._matcher.is_stopped() else int(self._matcher.validate_tokens(token_ids))

    def surely_allows(self, token_id: int) -> bool:
        # Of text that must come, the mask has the tokens alone that the tokenizer makes of it.
        return self.count_allowed([token_id]) == 1 and not self._matcher.compute_ff_tokens()

    def accept(self, token_id: int) -> bool:
        self.is_complete = token_id in self._ends
        if self._matcher.is_stopped():
            return self.is_complete
        return bool(self._matcher.consume_token(token_id))


@dataclass(frozen=True, slots=True)
class _Writing:
    """Hold the few tokens that a mask keeps or drops, or bounds of all where neither are few."""

    tokens: NDArray[np.intp]
    are_kept: bool = False
    bounds: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, words: NDArray[np.int32], size: int) -> _Writing:
        """Return how the first ``size`` bits of a mask are written."""
        some = np.flatnonzero(words)
        if not len(some):
            raise _nothing_allowed()
        if len(some) <= len(words) // _WORDS_OF_A_FEW:
            at, bits = np.unpackbits(words[some].view(np.uint8), bitorder="little").reshape(-1, _BITS).nonzero()
            kept = _BITS * some[at] + bits
            return cls(kept[kept < size], are_kept=True)
        is_dropped = np.unpackbits(~words.view(np.uint8), bitorder="little")[:size].view(np.bool_)
        dropped = np.flatnonzero(is_dropped)
        if len(dropped) <= size // _TOKENS_OF_ONE_DROPPED:
            return cls(dropped)
        return cls(dropped[:0], bounds=np.where(is_dropped, np.float32(-np.inf), np.float32(np.inf)))

    def to(self, logits: NDArray[np.float32]) -> None:
        if self.bounds is not None:
            np.minimum(logits, self.bounds, out=logits)
        elif self.are_kept:
            values = logits[self.tokens]
            logits.fill(-np.inf)
            logits[self.tokens] = values
        else:
            logits[self.tokens] = -np.inf


def _nothing_allowed() -> ModelError:
    return ModelError("the grammar has reached a point where no token is allowed", GRAMMAR_INVALID, param="grammar")


def _unpack(words: Tensor, size: int) -> Tensor:
    """Unpack int32 words, lowest bit first, to bool [size]."""
    bits = (words.unsqueeze(1) >> torch.arange(_BITS, dtype=torch.int32, device=words.device)) & 1
    return bits.flatten()[:size].bool()
