"""Make a call's reply safe to insert into the sequence, and fit it to its token budget.

Pure text and tokens. Knows nothing of the content of replies: the caller condenses them to whole records first.
"""

from __future__ import annotations

from models.decoding.realign import encode_continuation
from models.decoding.types import CallSyntax
from models.engines.base import Tokenizer

CUT_MARK = " ...(cut)"
DROPPED_REPLY = "[earlier reply left out]"
LIMIT_REPLY = "[no more calls: answer now]"


def defuse(text: str, syntax: CallSyntax) -> str:
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
    kept = max_tokens - len(encode_continuation(tail, tokenizer))
    while kept > 0:
        head = tokenizer.decode(token_ids[:kept]).rstrip("\ufffd \n")
        cut = head + tail
        excess = len(encode_continuation(cut, tokenizer)) - max_tokens
        if excess <= 0:
            return cut
        kept -= excess
    return ("[" if bracketed else "") + tail.lstrip()
