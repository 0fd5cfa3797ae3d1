"""Translate our parameters to the fields of vLLM's sampling parameters.

They are the same for its Python interface and on its wire. Imports no vLLM.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from models.errors import UnsupportedParam
from models.types import GenerateParams, Grammar

# vLLM's names for kinds of grammars. It takes the text of ``grammar`` for Lark unless "::=" stands in it.
_STRUCTURED = {"json_schema": "json", "lark": "grammar"}


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
