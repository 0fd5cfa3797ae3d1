"""Translate our parameters to the fields of vLLM's sampling parameters, and refuse what its sampler has no room for.

The fields are the same for its Python interface and on its wire. The newer of vLLM's model runners keeps what a request
asks of the sampler in tables with a fixed number of places. It checks their sizes only in the worker, where the error
ends the engine for all requests. Works on vLLM's parameters by attribute and imports none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from models.errors import UnsupportedParam
from models.types import GenerateParams, Grammar

# vLLM's names for kinds of grammars. It takes the text of ``grammar`` for Lark unless "::=" stands in it.
_STRUCTURED = {"json_schema": "json", "lark": "grammar"}

_REMEDIES: Mapping[str, tuple[str, str]] = {
    "allowed_token_ids": ("allowed_token_ids", "constrain the text with structured_outputs (choice, regex) instead"),
    "logit_bias": ("logit_bias", "send fewer entries"),
    "stop_token_ids": ("stop_token_ids", "send fewer, or leave min_tokens out; the model's own end tokens count"),
    "bad_words": ("bad_words", "send fewer words; each counts with and without a space in front"),
    "bad_word_tokens": ("bad_words", "send fewer or shorter words; the tokens of all of them count"),
}


def structured_field(grammar: Grammar) -> dict[str, str]:
    """Return the one field of vLLM's structured outputs that holds the grammar."""
    return {_STRUCTURED.get(grammar.kind, grammar.kind): grammar.spec}


def sampling_fields(params: GenerateParams, max_tokens: int, eos_token_ids: Collection[int]) -> dict[str, Any]:
    """Return the fields but for the grammar and stop strings; ``max_tokens`` is what the context has room for."""
    # vLLM lifts the mask of a complete grammar: with its end token ignored, free text would follow.
    ignores_eos = params.ignore_eos and params.grammar is None
    return {
        "max_tokens": min(params.max_tokens, max_tokens),
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
        "min_p": params.min_p,
        "frequency_penalty": params.frequency_penalty,
        "presence_penalty": params.presence_penalty,
        "repetition_penalty": params.repetition_penalty,
        "seed": params.seed,
        "logprobs": params.logprobs,
        "logit_bias": dict(params.logit_bias) or None,
        "ignore_eos": ignores_eos,
        # vLLM itself takes those of the generation config alone.
        "stop_token_ids": [] if ignores_eos else sorted(eos_token_ids),
    }


def check_penalties(params: GenerateParams) -> None:
    """Refuse penalties that vLLM would compute wrongly: it takes earlier text of an answer for the prompt's.

    Raises:
        UnsupportedParam: names the penalty.
    """
    for name in ("frequency_penalty", "presence_penalty"):
        if params.written is not None and getattr(params, name):
            raise UnsupportedParam(
                f"{name}: vLLM cannot count over the inserted replies of an answer; leave it out for a method, or "
                "serve the model with the transformers engine",
                param=name,
            )


def check_beside_drafts(params: GenerateParams) -> None:
    """Refuse what vLLM does not have while it drafts tokens.

    Raises:
        UnsupportedParam: names the field.
    """
    for name in ("min_p", "logit_bias"):
        if getattr(params, name):
            raise UnsupportedParam(f"{name}: not available where the server drafts tokens on vLLM", param=name)


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
