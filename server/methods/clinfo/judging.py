"""Let the model judge: one token of yes or no for each article or sentence, all at once, with its probability."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from models.errors import ArrowheadError
from models.types import Delta, GenerateParams, Grammar, TokenLogprob
from server.methods.clinfo.literature import Article
from server.methods.clinfo.prompts import Prompts
from server.methods.shared.generation import Generations, PromptFormatter

# So many calls run at once; the engine batches them over their shared prefix.
AT_ONCE: Final = 16
_ANSWER: Final = "Answer:"
_GRAMMAR: Final = Grammar("regex", " (yes|no)")
_TOP: Final = 20


@dataclass(frozen=True, slots=True)
class Judge:
    """Ask the model for yes or no; safe for concurrent tasks of one event loop.

    A judgement that fails is left out: the score that was there before then decides.
    """

    generations: Generations
    layout: PromptFormatter
    prompts: Prompts
    cache_salt: str | None

    async def relevant(self, question: str, articles: Sequence[Article]) -> dict[str, float]:
        """Return the probability of yes by key."""
        asked = [self.prompts.about("relevant", question, article) for article in articles]
        found = await self.all(asked)
        return {a.key: value for a, value in zip(articles, found, strict=True) if value is not None}

    async def all(self, users: Sequence[str]) -> list[float | None]:
        """Return the probability of yes to each prompt, None where the call failed."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(user: str) -> float | None:
            async with slots:
                try:
                    return await self.probability(user)
                except ArrowheadError:
                    return None

        return list(await asyncio.gather(*map(one, users)))

    async def probability(self, user: str) -> float:
        """Return the probability of yes; 0 or 1 where the engine tells none.

        Raises:
            ModelError: the engine failed.
        """
        params = GenerateParams(max_tokens=4, grammar=_GRAMMAR, logprobs=_TOP, cache_salt=self.cache_salt)
        text, first = "", None
        async for delta in self.generations.stream(self.layout.ids(self.prompts.system, user, _ANSWER), params):
            text += delta.text
            first = first or _first(delta)
        found = self._shares(first) if first is not None else None
        if found is not None and sum(found) > 0:
            return found[0] / sum(found)
        return 1.0 if text.strip().lower().startswith("y") else 0.0

    def _shares(self, token: TokenLogprob) -> tuple[float, float] | None:
        """Return the mass of yes and of no among the alternatives of the first token, None where it is a blank."""
        yes = no = 0.0
        decode = self.generations.engine.tokenizer.decode
        for token_id, logprob in {token.token_id: token.logprob, **dict(token.top)}.items():
            word = decode([token_id]).strip().lower()
            mass = math.exp(min(0.0, logprob))
            if word and "yes".startswith(word):
                yes += mass
            elif word and "no".startswith(word):
                no += mass
        return (yes, no) if yes + no > 0 else None


def _first(delta: Delta) -> TokenLogprob | None:
    written = delta.logprobs[delta.num_reasoning_tokens :] if delta.logprobs else ()
    return written[0] if written else None
