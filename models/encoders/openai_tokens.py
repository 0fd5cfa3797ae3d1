"""Decode the token ids that clients of OpenAI's embedding models send in place of text.

Such clients cut long texts by the tokens of those models, ``cl100k_base``, before they send them; an encoder of another
vocabulary would take the ids for other words. ``data/cl100k_base.txt.xz`` has the tokens of tiktoken (OpenAI, MIT
licence) in the order of their ids, in base64; the special tokens behind them stand for no text.
"""

from __future__ import annotations

import base64
import lzma
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Final

MAX_TOKEN: Final = 100_255


def text_of(token_ids: Sequence[int]) -> str:
    """Return the text of tokens; half a character at an end, where a client cut it, becomes U+FFFD.

    Raises:
        ValueError: an id is none of a token of text.
    """
    tokens = _tokens()
    if any(not 0 <= number <= MAX_TOKEN for number in token_ids):
        raise ValueError(f"a token id of cl100k_base is from 0 to {MAX_TOKEN}")
    return b"".join(tokens[number] for number in token_ids).decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _tokens() -> tuple[bytes, ...]:
    packed = files("models.encoders").joinpath("data", "cl100k_base.txt.xz").read_bytes()
    return tuple(map(base64.b64decode, lzma.decompress(packed).split()))
