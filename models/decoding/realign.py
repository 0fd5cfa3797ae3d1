"""Joins token ids and text where one ends inside the other. Pure; knows nothing of calls or engines.

A stop string is cut from the *text*, while the last sampled token may spell more than the stop (``->{``) and two
texts that meet may share one token (``]->[``). The model's own ids are kept as far as they spell the kept text;
only the tail behind them is tokenised again, together with what follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from models.engines.base import Tokenizer

# Behind an anchor a SentencePiece tokenizer treats text as a continuation: without one it adds a space in front
# when it encodes and eats one when it decodes. The first anchor that does not melt into the text is used.
_ANCHORS = ("\n", ".", "a")

# Bytes that are no UTF-8 show as one or as several U+FFFD, depending on how the stream was cut.
_REPLACEMENTS = re.compile("\ufffd+")

# An overshoot is a token or two; beyond this many the mismatch lies deeper and is searched by halving.
_LINEAR_STEPS = 8


class Realigned(NamedTuple):
    """``kept`` decodes to a prefix of the text, ``rest`` is the text behind it."""

    kept: tuple[int, ...]
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
    """Split ``text`` into the longest id prefix that decodes to a prefix of it, and the text behind that.

    Ids at the end that decode to nothing (an EOS behind the stop) are not kept.
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
    """The fewest leading ids that spell all of ``text``; the last of them may spell more."""
    kept, rest = realign(token_ids, text, tokenizer)
    count = len(kept)
    target = _fold(text)
    while rest and count < len(token_ids):
        count += 1
        if _fold(decode_continuation(token_ids[:count], tokenizer)).startswith(target):
            break
    return count


def _search_start(total: int, target: str, decoded: Callable[[int], str]) -> int:
    """A count not below the answer: the whole, or the last before a mismatch that lies deep in the text."""

    def fits(count: int) -> bool:
        # A character cut in two is no mismatch: the caller walks back over it.
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
