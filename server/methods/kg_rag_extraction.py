"""Extract the names of a question with the served model, as Soman et al. 2024 do, in one bounded call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final

from models.catalog import ModelCard
from models.decoding.types import LoopUsage
from models.engines.base import Engine
from models.types import Delta, GenerateParams, Grammar
from server.methods.base import Ask, MethodError
from server.methods.direct import plain_ids, usage_of, uses_chat_template

# About twice the tokens of sixteen names with their kinds.
MAX_TOKENS: Final = 512


class NamesUnfinished(MethodError):
    """Signal that the model reached its token limit before the list of names ended."""


class EngineExtractor:
    """Extract names for one answer.

    ``usage`` is the token usage so far, also after a failure or a cancellation.
    """

    def __init__(self, engine: Engine, card: ModelCard, ask: Ask) -> None:
        self._engine = engine
        self._card = card
        self._request_id = f"{ask.request_id}-names"
        self._cache_salt = ask.cache_salt
        self.usage = LoopUsage()

    async def extract(self, system: str, user: str, schema: Mapping[str, Any]) -> str:
        """Generate text under the schema as a grammar, at most 512 tokens.

        Raises:
            NamesUnfinished: the text does not end within the limit.
            ArrowheadError: the engine failed.
        """
        prompt_ids = self._prompt_ids(system, user)
        grammar = Grammar("json_schema", json.dumps(schema))
        params = GenerateParams(max_tokens=MAX_TOKENS, grammar=grammar, cache_salt=self._cache_salt)
        text, sampled, last = "", 0, Delta()
        async with aclosing(self._engine.generate(prompt_ids, params, self._request_id)) as deltas:  # type: ignore[type-var]
            async for last in deltas:
                text += last.text
                sampled += len(last.token_ids)
                self.usage = usage_of(len(prompt_ids), sampled, last)
        if last.finish_reason != "stop":
            raise NamesUnfinished(f"its list of names was cut off after {sampled} tokens ({last.finish_reason})")
        return text

    def _prompt_ids(self, system: str, user: str) -> list[int]:
        if uses_chat_template(self._engine, self._card):
            messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
            return self._engine.tokenizer.encode_chat(messages)
        return plain_ids(self._engine, f"{system}\n\nQuestion: {user}\nNames as JSON:")


def both(one: LoopUsage, other: LoopUsage) -> LoopUsage:
    """Return the sum of the usages of two calls for one answer."""
    return LoopUsage(
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        sampled_tokens=one.sampled_tokens + other.sampled_tokens,
        injected_tokens=one.injected_tokens + other.injected_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        computed_tokens=one.computed_tokens + other.computed_tokens,
        segments=one.segments + other.segments,
    )
