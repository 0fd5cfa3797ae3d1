"""Generate predetermined texts with real computation, as the engine of ``i_medrag.py``."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from models.engines.base import Engine, Tokenizer
from models.types import Delta, EngineStats, GenerateParams

TOPICS = ("warfarin", "the INR", "vitamin K", "CYP2C9", "heparin", "aspirin", "macrolides", "prothrombin", "statins")
ANALYSIS = "The drug must be named first, then what it inhibits, and why an antibiotic raises its effect in this man."
SUB_ANSWER = (
    "The passages say that it inhibits vitamin K epoxide reductase, so that several factors of coagulation are not "
    "carboxylated [1]. Its effect is followed by the INR, and vitamin K reverses it [2]."
)
FINAL = "The drug that is monitored by the INR is warfarin, and the antibiotic raised its effect."


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of a plan and of a sub-answer."""

    plan: int
    sub: int


PUBLISHED = Lengths(300, 220)
OURS = Lengths(140, 140)


class Directed:
    """An engine that computes what ``inner`` computes and writes what was decided."""

    def __init__(self, inner: Engine, rounds: int, queries: int) -> None:
        self._inner = inner
        self._lengths = PUBLISHED
        self._caches = True
        self._plans = [queries_of(number, queries) for number in range(rounds)]
        self._asked = 0
        self._salt = "before the first"
        self._analysis, self._sub_answer, self._final = ANALYSIS, SUB_ANSWER, FINAL

    def begin(self, lengths: Lengths, *, caches: bool) -> None:
        self._lengths = lengths
        self._caches = caches
        self._asked = 0
        self._salt = f"{time.monotonic()}"
        self._sub_answer = self._long(SUB_ANSWER, lengths.sub)
        self._final = f"{self._long(FINAL, 400)} Answer: B."
        self._analysis = self._long(ANALYSIS, lengths.plan - len(self.tokenizer.encode(json.dumps(self._plans[0]))))

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def tokenizer(self) -> Tokenizer:
        return self._inner.tokenizer

    @property
    def max_model_len(self) -> int:
        return self._inner.max_model_len

    @property
    def block_size(self) -> int:
        return self._inner.block_size

    async def start(self) -> None:
        await self._inner.start()

    async def close(self) -> None:
        await self._inner.close()

    async def abort(self, request_id: str) -> None:
        await self._inner.abort(request_id)

    def is_ready(self) -> bool:
        return self._inner.is_ready()

    def stats(self) -> EngineStats:
        return self._inner.stats()

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        text, usual = self._decision(self.tokenizer.decode(prompt_ids))
        tokens = min(params.max_tokens, usual)
        # A salt of its own is a cache that nobody else has.
        salt = self._salt if self._caches else f"{self._salt}/{request_id}"
        own = replace(params, max_tokens=tokens, ignore_eos=True, stop=(), grammar=None, cache_salt=salt)
        async for delta in self._inner.generate(prompt_ids, own, request_id):
            last = delta.finish_reason is not None
            yield replace(delta, text=text if last else "", finish_reason="stop" if last else None)

    def _decision(self, prompt: str) -> tuple[str, int]:
        """The text, and how many tokens such a one usually has."""
        if prompt.endswith("JSON:\n"):
            self._asked += 1
            queries = self._plans[(self._asked - 1) % len(self._plans)]
            return json.dumps({"analysis": self._analysis, "queries": queries}), self._lengths.plan
        if prompt.endswith("List:\n"):
            return json.dumps({"output": self._plans[self._asked - 1]}), 100
        if prompt.endswith("Letter:\n"):
            return '{"answer": "B"}', 10
        return (self._final, 400) if prompt.endswith("Reasoning:") else (self._sub_answer, self._lengths.sub)

    def _long(self, text: str, tokens: int) -> str:
        """``text`` over and over, to so many tokens."""
        words = text.split()
        count = len(words)
        while len(self.tokenizer.encode(" ".join(words))) < tokens:
            words.append(words[len(words) % count])
        return " ".join(words)


def queries_of(number: int, queries: int) -> list[str]:
    return [
        f"What is known of {TOPICS[(number * queries + n) % len(TOPICS)]} in case {number}?" for n in range(queries)
    ]
