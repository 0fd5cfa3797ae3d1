"""Refuse requests for which vLLM's sampler has no room.

The newer of vLLM's model runners keeps what a request asks of the sampler in tables with a fixed number of places. It
checks their sizes only in the worker, where the error ends the engine for all requests. Works on vLLM's parameters by
attribute and imports none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from models.errors import UnsupportedParam


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSizes:
    """Hold the places for one request in each table, or what one request fills of them.

    ``stop_token_ids`` counts the model's own end tokens too, and only with ``min_tokens``. ``bad_words`` and
    ``bad_word_tokens`` count each word as vLLM encodes it, with and without a space in front.
    """

    allowed_token_ids: int = 0
    logit_bias: int = 0
    stop_token_ids: int = 0
    bad_words: int = 0
    bad_word_tokens: int = 0


_REMEDIES: Mapping[str, tuple[str, str]] = {
    "allowed_token_ids": ("allowed_token_ids", "constrain the text with structured_outputs (choice, regex) instead"),
    "logit_bias": ("logit_bias", "send fewer entries"),
    "stop_token_ids": ("stop_token_ids", "send fewer, or leave min_tokens out; the model's own end tokens count"),
    "bad_words": ("bad_words", "send fewer words; each counts with and without a space in front"),
    "bad_word_tokens": ("bad_words", "send fewer or shorter words; the tokens of all of them count"),
}


def check_tables(used: TableSizes, places: TableSizes) -> None:
    """Check that a request fits.

    Raises:
        UnsupportedParam: it does not; names the field and what to do.
    """
    for name, (param, remedy) in _REMEDIES.items():
        number, most = getattr(used, name), getattr(places, name)
        if number > most:
            message = f"{param}: {number} {_unit(name)}, and the engine has room for {most}: {remedy}"
            raise UnsupportedParam(message, param=param)


def tables_used(params: Any, complete: Callable[[Any], None]) -> TableSizes:
    """Return what vLLM's sampling parameters fill.

    ``complete`` adds to a copy of them what vLLM adds before they reach the worker: the model's end tokens, and the
    tokens of words.
    """
    allowed, bias = len(params.allowed_token_ids or ()), len(params.logit_bias or ())
    needs_end_tokens = params.min_tokens > 0
    if not needs_end_tokens and not params.bad_words:
        return TableSizes(allowed_token_ids=allowed, logit_bias=bias)
    whole = params.clone()
    complete(whole)
    words = whole.bad_words_token_ids or ()
    return TableSizes(
        allowed_token_ids=allowed,
        logit_bias=bias,
        stop_token_ids=len(whole.all_stop_token_ids) if needs_end_tokens else 0,
        bad_words=len(words),
        bad_word_tokens=sum(map(len, words)),
    )


def _unit(name: str) -> str:
    return {"logit_bias": "entries", "bad_words": "words", "bad_word_tokens": "tokens"}.get(name, "ids")
