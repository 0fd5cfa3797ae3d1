"""Reject requests that no engine can serve, naming the field.

Shared by the engines; holds no state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from models.errors import ContextTooLong, UnsupportedParam
from models.types import GenerateParams

MAX_LOGPROBS = 20


def check_request(prompt_ids: Sequence[int], params: GenerateParams, *, vocab_size: int, max_model_len: int) -> None:
    """Check the prompt and the parameters of a request.

    Raises:
        ContextTooLong: the prompt leaves no room for one token.
        UnsupportedParam: the prompt or a parameter is invalid.
    """
    if not prompt_ids:
        raise UnsupportedParam("the prompt is empty", param="prompt")
    if min(prompt_ids) < 0 or max(prompt_ids) >= vocab_size:
        raise UnsupportedParam(f"prompt token ids must lie in 0..{vocab_size - 1}", param="prompt")
    if len(prompt_ids) >= max_model_len:
        raise ContextTooLong(
            f"the prompt has {len(prompt_ids)} tokens and leaves no room in a context of {max_model_len}",
            param="prompt",
        )
    _check_params(params)


def _check_params(params: GenerateParams) -> None:
    checks = (
        ("max_tokens", params.max_tokens >= 1, "must be at least 1"),
        (
            "temperature",
            math.isfinite(params.temperature) and params.temperature >= 0,
            "must be a number of at least 0",
        ),
        ("top_p", 0 < params.top_p <= 1, "must lie in (0, 1]"),
        ("top_k", params.top_k >= 0, "must be at least 0"),
        ("logprobs", params.logprobs is None or 0 <= params.logprobs <= MAX_LOGPROBS, f"must lie in 0..{MAX_LOGPROBS}"),
        ("stop", all(params.stop), "must not hold an empty string"),
    )
    for name, holds, rule in checks:
        if not holds:
            raise UnsupportedParam(f"{name} {rule}, not {getattr(params, name)!r}", param=name)
