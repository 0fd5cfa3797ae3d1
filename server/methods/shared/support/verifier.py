"""Let the served model tell whether a text states a sentence: one token of yes or no, all sentences at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final, Protocol

from models.decoding.types import LoopUsage
from models.errors import ArrowheadError
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.verdicts import probabilities_of

_AT_ONCE: Final = 16
_ANSWER: Final = "Answer:"
_YES_OR_NO: Final = (" yes", " no")


@dataclass(frozen=True, slots=True)
class Claim:
    """Hold a sentence without marks, and the text that it cites."""

    sentence: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Hold the probability that each claim is stated by its evidence, None where the call failed, and the usage."""

    probabilities: tuple[float | None, ...] = ()
    usage: LoopUsage = field(default_factory=LoopUsage)


class Verifier(Protocol):
    """Tell how probable it is that evidence states a sentence."""

    async def verify(self, ask: AnswerRequest, claims: Sequence[Claim]) -> Verification: ...


class ModelVerifier:
    """Ask the served model."""

    def __init__(self, lifecycle: EngineLifecycle) -> None:
        self._lifecycle = lifecycle
        folder = files("server.methods.shared") / "prompts"
        self._system = (folder / "supported_system.txt").read_text(encoding="utf-8").strip()
        self._asked = (folder / "supported.txt").read_text(encoding="utf-8").strip()

    async def verify(self, ask: AnswerRequest, claims: Sequence[Claim]) -> Verification:
        generations = Generations(self._lifecycle.get(), f"{ask.request_id}.support")
        layout = PromptFormatter(generations.engine, self._lifecycle.card)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def probability(claim: Claim) -> float | None:
            user = f"{self._asked}\n\nText:\n{claim.evidence}\n\nSentence: {claim.sentence}"
            prompt = await asyncio.to_thread(layout.ids, self._system, user, _ANSWER)
            if len(prompt) >= generations.engine.max_model_len:
                return None
            async with slots:
                try:
                    shares = await probabilities_of(generations, prompt, _YES_OR_NO, ask.cache_salt)
                except ArrowheadError:
                    return None
            return shares[0] if shares is not None else None

        found = await asyncio.gather(*map(probability, claims))
        return Verification(tuple(found), generations.usage)
