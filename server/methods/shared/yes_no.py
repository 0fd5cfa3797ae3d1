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


async def probability_of_yes(
    generations: Generations, prompt: Sequence[int], words: tuple[str, str], cache_salt: str | None
) -> float | None:
    """Return the probability of yes; 0 or 1 where the engine tells none, None where it writes neither.

    ``words`` are yes and no as the prompt continues, such as " yes" and " no", or any two texts that begin differently;
    their first tokens decide. How a request wants its text sampled has no part in it.

    Raises:
        ModelError: the engine failed.
    """
    grammar = Grammar("regex", "|".join(map(_literal, words)))
    params = GenerateParams(max_tokens=_MAX_TOKENS, grammar=grammar, logprobs=_TOP, cache_salt=cache_salt)
    text, first = "", None
    async for delta in generations.stream(list(prompt), params):
        text += delta.text
        first = first or _first(delta)
    said = text.strip().lower()
    yes_word, no_word = (word.strip().lower() for word in words)
    if not said or not any(said.startswith(word) or word.startswith(said) for word in (yes_word, no_word)):
        return None
    yes, no = _masses(first, generations, (yes_word, no_word)) if first is not None else (0.0, 0.0)
    return yes / (yes + no) if yes + no > 0 else float(said[0] == yes_word[0])


def _literal(text: str) -> str:
    """Return a regex for the text; not by ``re.escape``, since engines differ in the escapes that they read."""
    return re.sub(r"[\[\].]", r"\\\g<0>", text)


def _first(delta: Delta) -> TokenLogprob | None:
    written = delta.logprobs[delta.num_reasoning_tokens :] if delta.logprobs else ()
    return written[0] if written else None


def _masses(token: TokenLogprob, generations: Generations, words: tuple[str, str]) -> tuple[float, float]:
    """Return the mass of yes and of no among the alternatives of a token, 0 for both where it is a blank."""
    yes = no = 0.0
    decode = generations.engine.tokenizer.decode
    for token_id, logprob in {token.token_id: token.logprob, **dict(token.top)}.items():
        piece = decode([token_id]).strip().lower()
        mass = math.exp(min(0.0, logprob))
        if piece and words[0].startswith(piece):
            yes += mass
        elif piece and words[1].startswith(piece):
            no += mass
    return yes, no
