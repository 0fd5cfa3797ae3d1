"""Maintain the token sequence of one answer: the prompt, the sampled text and the replies between.

Pure. Owns which ids are in the sequence and how old replies are shortened when the context is full; decides nothing
about calls, limits or the end of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from models.decoding.types import CallSyntax, Span
from models.engines.base import Tokenizer
from models.types import TokenLogprob

# After an anchor a SentencePiece tokenizer treats text as a continuation: without one it adds a space in front
# when it encodes and drops one when it decodes. The first anchor that does not merge with the text is used.
_ANCHORS = ("\n", ".", "a")
# Bytes that are no UTF-8 decode to one or to several U+FFFD, depending on how the stream was cut.
_REPLACEMENTS = re.compile("\ufffd+")
# An overshoot is a token or two; a mismatch beyond this many is deeper and found by binary search.
_LINEAR_STEPS = 8


class Realigned(NamedTuple):
    """Split a text into ``token_ids``, ids that decode to a prefix of it, and ``rest``, the text after that prefix."""

    token_ids: tuple[int, ...]
    rest: str


def decode_continuation(token_ids: Sequence[int], tokenizer: Tokenizer) -> str:
    """Decode ids that stand in the middle of a sequence: a leading space stays."""
    anchor = tokenizer.encode(_ANCHORS[0])
    lead = tokenizer.decode(anchor)
    text = tokenizer.decode([*anchor, *token_ids])
    return text[len(lead) :] if text.startswith(lead) else tokenizer.decode(token_ids)


def encode_continuation(text: str, tokenizer: Tokenizer) -> list[int]:
    """Encode text that will stand in the middle of a sequence: no space is added in front."""
    plain = tokenizer.encode(text)
    if decode_continuation(plain, tokenizer) == text:
        return plain
    for anchor in _ANCHORS:
        head = tokenizer.encode(anchor)
        whole = tokenizer.encode(anchor + text)
        tail = whole[len(head) :]
        if whole[: len(head)] == head and decode_continuation(tail, tokenizer) == text:
            return tail
    return plain


def realign(token_ids: Sequence[int], text: str, tokenizer: Tokenizer) -> Realigned:
    """Return the longest id prefix that decodes to a prefix of ``text``, and the rest of ``text``.

    Ids at the end that decode to nothing (an EOS after the stop) are not kept.
    """
    target = _fold(text)

    def decoded(count: int) -> str:
        return decode_continuation(token_ids[:count], tokenizer)

    count = _search_start(len(token_ids), target, decoded)
    while count and not target.startswith(_fold(decoded(count))):
        count -= 1
    head = decoded(count)
    while count and decoded(count - 1) == head:
        count -= 1
    return Realigned(tuple(token_ids[:count]), target[len(_fold(head)) :])


def count_covering(token_ids: Sequence[int], text: str, tokenizer: Tokenizer) -> int:
    """Return the smallest number of leading ids that spell all of ``text``; the last of them may spell more."""
    prefix, rest = realign(token_ids, text, tokenizer)
    count = len(prefix)
    target = _fold(text)
    while rest and count < len(token_ids):
        count += 1
        if _fold(decode_continuation(token_ids[:count], tokenizer)).startswith(target):
            break
    return count


def _search_start(total: int, target: str, decoded: Callable[[int], str]) -> int:
    """Return a count not below the answer: all ids, or the last count before a mismatch deep in the text."""

    def fits(count: int) -> bool:
        # A character cut in two is no mismatch: the caller steps back over it.
        return target.startswith(_fold(decoded(count)).rstrip("\ufffd"))

    for count in range(total, max(total - _LINEAR_STEPS, 0), -1):
        if fits(count):
            return count
    low, high = 0, max(total - _LINEAR_STEPS, 0)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _fold(text: str) -> str:
    return _REPLACEMENTS.sub("\ufffd", text)


CUT_MARK = " ...(cut)"
DROPPED_REPLY = "[earlier reply left out]"
LIMIT_REPLY = "[no more calls: answer now]"


def break_up_markers(text: str, syntax: CallSyntax) -> str:
    """Break up openers and closers, so that the model reads no text in a reply as a complete call."""
    for mark in (syntax.closer, syntax.opener):
        text = text.replace(mark, f"{mark[:1]} {mark[1:]}")
    return text


def cut_reply(text: str, suffix: str, max_tokens: int, tokenizer: Tokenizer) -> str:
    """Return ``text + suffix`` in at most ``max_tokens`` tokens.

    A longer text is cut at a token boundary and ends in a mark that says so and, for a bracketed reply, in its closing
    bracket. A budget too small for any text leaves only the mark, which may exceed the budget.
    """
    token_ids = encode_continuation(text + suffix, tokenizer)
    if len(token_ids) <= max_tokens:
        return text + suffix
    bracketed = text.startswith("[")
    tail = CUT_MARK + ("]" if bracketed else "") + suffix
    # Decoded on its own, the head may lose a leading space, so it is cut from the text by its length.
    num_tokens = max_tokens - len(encode_continuation(tail, tokenizer))
    while num_tokens > 0:
        head = tokenizer.decode(token_ids[:num_tokens]).rstrip("\ufffd \n")
        cut = head + tail
        excess = len(encode_continuation(cut, tokenizer)) - max_tokens
        if excess <= 0:
            return cut
        num_tokens -= excess
    return ("[" if bracketed else "") + tail.lstrip()


# The length to which an old reply is cut before it is dropped.
_SHORT_REPLY_TOKENS = 64


@dataclass(slots=True)
class _Sampled:
    """Hold one sampled part of the sequence.

    ``logprobs`` is parallel to ``token_ids``; None for re-tokenised text and where none are reported.
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Thinking:
    """Hold the tokens of thinking, which stay in the sequence but are no part of its text."""

    token_ids: tuple[int, ...]


@dataclass(slots=True)
class _Injected:
    """Hold one reply in the sequence.

    ``rest`` is the end of the model's text that no id of its own spells; it is tokenised with the reply.
    """

    span: Span
    rest: str
    in_context: list[int]


class Transcript:
    """Append sampled text and replies to a prompt; only replies other than the latest ever change."""

    def __init__(self, prompt_ids: Sequence[int], tokenizer: Tokenizer, *, reply_suffix: str) -> None:
        self._prompt_ids = tuple(prompt_ids)
        self._tokenizer = tokenizer
        self._reply_suffix = reply_suffix
        self._parts: list[_Sampled | _Injected | _Thinking] = []
        self._rest = ""

    def token_ids(self) -> tuple[int, ...]:
        """Return all ids that the engine has to continue."""
        ids = list(self._prompt_ids)
        for part in self._parts:
            ids += part.in_context if isinstance(part, _Injected) else part.token_ids
        return tuple(ids)

    def sampled_ids(self) -> tuple[int, ...]:
        """Return the ids that spell what the model wrote, without the prompt and the replies."""
        return tuple(token for part in self._parts if isinstance(part, _Sampled) for token in part.token_ids)

    def num_tokens(self) -> int:
        sizes = (len(p.in_context if isinstance(p, _Injected) else p.token_ids) for p in self._parts)
        return len(self._prompt_ids) + sum(sizes)

    def add_thinking(self, token_ids: Sequence[int]) -> None:
        """Append the tokens of thinking, if any; text sampled before them is not changed any more."""
        if token_ids:
            self._parts.append(_Thinking(tuple(token_ids)))

    def add_sampled(
        self, text: str, token_ids: Sequence[int], logprobs: Sequence[TokenLogprob] | None, *, then_reply: bool
    ) -> None:
        """Append sampled text; ids beyond ``text`` are left out.

        Text at the end that the kept ids do not spell is tokenised again: at once, or together with the reply that
        follows (``then_reply``), since the two may share a token.
        """
        prefix, rest = realign(token_ids, text, self._tokenizer)
        part = self._open_sampled()
        part.text += text
        part.token_ids += prefix
        part.logprobs += _parallel(logprobs, len(prefix))
        if then_reply:
            self._rest = rest
        elif rest:
            fresh = encode_continuation(rest, self._tokenizer)
            part.token_ids += fresh
            part.logprobs += [None] * len(fresh)

    def add_last(self, text: str, token_ids: Sequence[int], logprobs: Sequence[TokenLogprob] | None) -> None:
        """Append the end of the answer: the ids that spell ``text``, none that spells only a stop string or EOS."""
        count = count_covering(token_ids, text, self._tokenizer)
        part = self._open_sampled()
        part.text += text
        part.token_ids += token_ids[:count]
        part.logprobs += _parallel(logprobs, count)

    def retract(self, num_chars: int) -> None:
        """Remove the last ``num_chars`` sampled characters, which turned out to begin a stop string."""
        part = self._open_sampled()
        part.text = part.text[: len(part.text) - num_chars]
        count = count_covering(part.token_ids, part.text, self._tokenizer)
        del part.token_ids[count:], part.logprobs[count:]

    def add_reply(self, text: str) -> int:
        """Append a reply (its suffix included) and return the number of tokens it took."""
        token_ids = encode_continuation(self._rest + text, self._tokenizer)
        self._parts.append(_Injected(Span("injected", text, tuple(token_ids)), self._rest, token_ids))
        self._rest = ""
        return len(token_ids)

    def available_reply_tokens(self, max_model_len: int) -> int:
        """Return the number of tokens left for a new reply if every earlier reply were dropped."""
        dropped = len(self._dropped_ids(""))
        shortest = sum(min(len(p.in_context), dropped) - len(p.in_context) for p in self._replies())
        return max_model_len - self.num_tokens() - shortest

    def free_tokens(self, required_tokens: int, max_model_len: int) -> int:
        """Shorten, then drop, replies before the latest, oldest first, until ``required_tokens`` tokens fit.

        Returns the number of free tokens. The prompt, the model's own text and the latest reply stay as they are.
        """
        for shorten in (self._shorten, self._drop):
            for part in self._replies()[:-1]:
                if max_model_len - self.num_tokens() >= required_tokens:
                    break
                shorten(part)
        return max_model_len - self.num_tokens()

    def spans(self) -> tuple[Span, ...]:
        """Return the sampled and injected spans in order, replies as they were first injected."""
        texts = (part for part in self._parts if not isinstance(part, _Thinking))
        spans = [_sampled_span(p) if isinstance(p, _Sampled) else p.span for p in texts]
        return tuple(span for span in spans if span.text)

    def _open_sampled(self) -> _Sampled:
        if self._parts and isinstance(self._parts[-1], _Sampled):
            return self._parts[-1]
        part = _Sampled()
        self._parts.append(part)
        return part

    def _replies(self) -> list[_Injected]:
        return [part for part in self._parts if isinstance(part, _Injected)]

    def _shorten(self, part: _Injected) -> None:
        text = part.span.text.removesuffix(self._reply_suffix)
        short = cut_reply(text, self._reply_suffix, _SHORT_REPLY_TOKENS, self._tokenizer)
        self._put(part, encode_continuation(part.rest + short, self._tokenizer))

    def _drop(self, part: _Injected) -> None:
        self._put(part, self._dropped_ids(part.rest))

    def _put(self, part: _Injected, token_ids: list[int]) -> None:
        if len(token_ids) < len(part.in_context):
            part.in_context = token_ids

    def _dropped_ids(self, rest: str) -> list[int]:
        return encode_continuation(rest + DROPPED_REPLY + self._reply_suffix, self._tokenizer)


def _parallel(logprobs: Sequence[TokenLogprob] | None, count: int) -> list[TokenLogprob | None]:
    known = (logprobs or ())[:count]
    return [*known, *[None] * (count - len(known))]


def _sampled_span(part: _Sampled) -> Span:
    known = tuple(logprob for logprob in part.logprobs if logprob is not None)
    return Span("sampled", part.text, tuple(part.token_ids), known or None)
