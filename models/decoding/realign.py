"""Align token ids and text where one ends inside the other.

Pure; knows nothing of calls or engines. A stop string is cut from the *text*, while the last sampled token may spell
more than the stop (``->{``), and two adjacent texts may share one token (``]->[``). The model's own ids are kept as far
as they spell the kept text; only the text after them is tokenised again, together with what follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from models.engines.base import Tokenizer

# After an anchor a SentencePiece tokenizer treats text as a continuation: without one it adds a space in front
# when it encodes and drops one when it decodes. The first anchor that does not merge with the text is used.
_ANCHORS = ("\n", ".", "a")

# Bytes that are no UTF-8 decode to one or to several U+FFFD, depending on how the stream was cut.
_REPLACEMENTS = re.compile("\ufffd+")

# An overshoot is a token or two; a mismatch beyond this many is deeper and found by binary search.
_LINEAR_STEPS = 8


class Realigned(NamedTuple):
    """Split a text into ``kept``, ids that decode to a prefix of it, and ``rest``, the text after that prefix."""

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
    kept, rest = realign(token_ids, text, tokenizer)
    count = len(kept)
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
