"""Ask the model for one of two texts, such as yes or no, and return how probable the first is."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from models.types import Delta, GenerateParams, Grammar, TokenLogprob
from server.methods.shared.generation import Generations

_TOP: Final = 20
_MAX_TOKENS: Final = 4


async def probability_of_first(
    generations: Generations, prompt: Sequence[int], texts: tuple[str, str], cache_salt: str | None
) -> float | None:
    """Return the probability of the first text; 0 or 1 where the engine tells none, None where it writes neither.

    ``texts`` are as the prompt continues, such as " yes" and " no", and begin differently: their first tokens decide.
    How a request wants its text sampled has no part in it.

    Raises:
        ModelError: the engine failed.
    """
    grammar = Grammar("regex", "|".join(map(_literal, texts)))
    params = GenerateParams(max_tokens=_MAX_TOKENS, grammar=grammar, logprobs=_TOP, cache_salt=cache_salt)
    written, token = "", None
    async for delta in generations.stream(list(prompt), params):
        written += delta.text
        token = token or _first(delta)
    said = written.strip().lower()
    first, second = (text.strip().lower() for text in texts)
    if not said or not any(said.startswith(text) or text.startswith(said) for text in (first, second)):
        return None
    mass, other = _masses(token, generations, (first, second)) if token is not None else (0.0, 0.0)
    return mass / (mass + other) if mass + other > 0 else float(said[0] == first[0])


def _literal(text: str) -> str:
    """Return a regex for the text; not by ``re.escape``, since engines differ in the escapes that they read."""
    return re.sub(r"[\[\].]", r"\\\g<0>", text)


def _first(delta: Delta) -> TokenLogprob | None:
    written = delta.logprobs[delta.num_reasoning_tokens :] if delta.logprobs else ()
    return written[0] if written else None


def _masses(token: TokenLogprob, generations: Generations, texts: tuple[str, str]) -> tuple[float, float]:
    """Return the mass of either text's beginning among the alternatives of a token, 0 for both where it is a blank."""
    first = second = 0.0
    decode = generations.engine.tokenizer.decode
    for token_id, logprob in {token.token_id: token.logprob, **dict(token.top)}.items():
        piece = decode([token_id]).strip().lower()
        mass = math.exp(min(0.0, logprob))
        if piece and texts[0].startswith(piece):
            first += mass
        elif piece and texts[1].startswith(piece):
            second += mass
    return first, second
