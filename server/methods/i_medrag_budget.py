"""Track the tokens and the time that an i-MedRAG answer may still use, over all its prompts and generated text."""

from __future__ import annotations

import time
from collections.abc import Callable

from server.methods.generation import Generations

# Share of the time limit that is available to rounds; the rest is for the final answer.
_FOR_ROUNDS = 0.75


class Budget:
    """Track the remaining tokens and time of one answer.

    ``reserve`` sets tokens aside for a generation; ``give_back`` ends the reservation, after which only the tokens used
    count. Times are in seconds.
    """

    def __init__(
        self,
        generations: Generations,
        max_tokens: int,
        max_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._generations = generations
        self._max_tokens = max_tokens
        self._max_seconds = max_seconds
        self._clock = clock
        self._began = clock()
        self._held = 0

    @property
    def tokens_left(self) -> int:
        usage = self._generations.usage
        return self._max_tokens - usage.prompt_tokens - usage.sampled_tokens - self._held

    def reserve(self, tokens: int) -> bool:
        """Reserve tokens for a generation; return False where fewer are left."""
        if tokens > self.tokens_left:
            return False
        self._held += tokens
        return True

    def give_back(self, tokens: int) -> None:
        self._held -= tokens

    @property
    def seconds_for_rounds(self) -> float:
        return max(0.0, self._began + _FOR_ROUNDS * self._max_seconds - self._clock())

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._began + self._max_seconds - self._clock())
