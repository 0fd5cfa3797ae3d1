"""What an engine wrote and nobody has read yet: short however slow the reader is. Belongs to one event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from models.errors import ModelError
from models.types import Delta, TokenLogprob

_MOST: Final = 64


class DeltaBacklog:
    """One request's results, in order. Beyond ``most`` deltas they become one, as if they had been one step: the text,
    ids and logprobs are the same, and what is held grows by tokens alone."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._deltas: deque[Delta] = deque()
        self._error: ModelError | None = None
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._deltas)

    def put(self, result: Delta | ModelError) -> None:
        """An error comes after all deltas that were put before; the first one counts."""
        if isinstance(result, ModelError):
            self._error = self._error or result
        else:
            self._deltas.append(result)
            if len(self._deltas) > self._most:
                self._deltas = deque((joined(self._deltas),))
        self._some.set()

    async def get(self) -> Delta:
        """Waits for the next. Raises the error that was put."""
        while not self._deltas:
            if self._error is not None:
                raise self._error
            self._some.clear()
            await self._some.wait()
        return self._deltas.popleft()


def joined(deltas: Sequence[Delta]) -> Delta:
    """Neighbours as one; the last one says how it ended."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    if any(delta.logprobs is not None for delta in deltas):
        logprobs = tuple(logprob for delta in deltas for logprob in delta.logprobs or ())
    return replace(
        deltas[-1],
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        logprobs=logprobs,
    )
