"""Answer in the background: a task for each response, which its client reads again by its id, or cancels."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from server.errors import KEY_FULL, RequestError

MAX_OF_KEY: Final = 16


class BackgroundAnswers:
    """Hold the running answers by the digest of their key and their id."""

    def __init__(self) -> None:
        # Held from the check for room until the answer has begun.
        self.admission = asyncio.Lock()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def check_room(self, owner: str) -> None:
        """Check that a key may have one more.

        Raises:
            QUEUE_FULL: as many run, or wait, as may.
        """
        if sum(key == owner for key, _ in self._tasks) >= MAX_OF_KEY:
            raise RequestError(f"{MAX_OF_KEY} responses of this key run in the background already", KEY_FULL)

    def begin(self, owner: str, response_id: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="background-answer")
        self._tasks[owner, response_id] = task
        task.add_done_callback(lambda _: self._tasks.pop((owner, response_id), None))

    def is_running(self, owner: str, response_id: str) -> bool:
        return (owner, response_id) in self._tasks

    async def cancel(self, owner: str, response_id: str) -> None:
        """Stop an answer, and return when it has stopped."""
        task = self._tasks.get((owner, response_id))
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """Stop all answers."""
        for owner, response_id in list(self._tasks):
            await self.cancel(owner, response_id)
