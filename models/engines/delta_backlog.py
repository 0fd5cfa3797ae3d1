"""Queue an engine's output until it is read, with a bounded length however slow the reader is.

Belongs to one event loop.
"""

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
    """Queue one request's results, in order, and merge deltas when there are more than ``most``.

    The merged delta is what a single step would have given: text, ids and logprobs are the same, and memory grows by
    tokens alone.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._deltas: deque[Delta] = deque()
        self._error: ModelError | None = None
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._deltas)

    def put(self, result: Delta | ModelError) -> None:
        """Append a delta, or an error that follows all deltas put before it; only the first error counts."""
        if isinstance(result, ModelError):
            self._error = self._error or result
        else:
            self._deltas.append(result)
            if len(self._deltas) > self._most:
                self._deltas = deque((joined(self._deltas),))
        self._some.set()

    async def get(self) -> Delta:
        """Wait for the next delta and return it.

        Raises:
            ModelError: the error that was put, after all deltas.
        """
        while not self._deltas:
            if self._error is not None:
                raise self._error
            self._some.clear()
            await self._some.wait()
        return self._deltas.popleft()


def joined(deltas: Sequence[Delta]) -> Delta:
    """Merge consecutive deltas into one, with the end of the last."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    if any(delta.logprobs is not None for delta in deltas):
        logprobs = tuple(logprob for delta in deltas for logprob in delta.logprobs or ())
    return replace(
        deltas[-1],
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        logprobs=logprobs,
    )
