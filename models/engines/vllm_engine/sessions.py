"""Keep a sequence in vLLM while a call of its answer is made, so that the next part continues it in place.

For hybrids: their linear-attention and state-space layers have no prefix cache of small blocks, and a resume by prefix
computes up to the whole prompt again. vLLM's streaming-input session keeps the state of the layers and the keys and
values. It ends a part at a stop token alone, drops the last token of a part, which the next one gives again, holds the
first part's grammar for all of them, and changes the lists of ids that it is given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from models.engines.base import Tokenizer
from models.engines.vllm_engine.stream import VllmStream
from models.types import GenerateParams

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """Describe one generation of an answer, which may go on behind the stop string ``params.pause_at``.

    ``pauses`` are the tokens that may complete it. ``make_input`` builds vLLM's input from ids, the most tokens to
    sample and the tokens to stop at, ``start`` begins a session of such inputs.
    """

    prompt_ids: Sequence[int]
    params: GenerateParams
    answer: str
    pauses: frozenset[int]
    make_input: Callable[[list[int], int, frozenset[int]], Any]
    start: Callable[[AsyncGenerator[Any, None]], AsyncGenerator[Any, None]]


@dataclass(slots=True)
class _Session:
    """Hold one sequence: vLLM's outputs, the queue of its inputs, and all its tokens, of which vLLM drops the last."""

    outputs: AsyncGenerator[Any, None]
    inputs: asyncio.Queue[Any]
    token_ids: list[int]
    first: GenerateParams
    expiry: asyncio.TimerHandle | None = None

    def is_continued_by(self, part: Part) -> bool:
        known = self.token_ids[:-1]
        is_alike = (part.params.grammar, part.params.cache_salt) == (self.first.grammar, self.first.cache_salt)
        return is_alike and len(part.prompt_ids) > len(known) and list(part.prompt_ids[: len(known)]) == known


class Sessions:
    """Hold at most ``most`` sequences, each for ``seconds`` at most; belongs to one event loop."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._held: dict[str, _Session] = {}
        self._releases: set[asyncio.Task[None]] = set()

    @property
    def held(self) -> frozenset[str]:
        """Return the answers whose sequences are held."""
        return frozenset(self._held)

    async def outputs(self, part: Part, stream: VllmStream) -> AsyncGenerator[Any, None]:
        """Yield vLLM's outputs of one part, by the answer's held sequence where the prompt continues it.

        A pause that completes no ``pause_at`` goes on by itself. Closed behind one, the sequence is held.
        """
        session, num_cached = await self._session(part)
        left, is_paused = part.params.max_tokens, False
        try:
            async for output in session.outputs:
                completion = output.outputs[0]
                session.token_ids += completion.token_ids
                left -= len(completion.token_ids)
                # Behind the end token vLLM still gives the stop token of an earlier part as the reason.
                is_paused = completion.finish_reason == "length" or (
                    completion.finish_reason == "stop" and session.token_ids[-1] in part.pauses
                )
                if is_paused:
                    completion.finish_reason = None if left > 0 else "length"
                if num_cached is not None:
                    output.num_cached_tokens = num_cached
                yield output
                if completion.finish_reason is not None:
                    return
                if is_paused:
                    session.inputs.put_nowait(part.make_input(session.token_ids[-1:], left, part.pauses))
                    is_paused = False
        finally:
            is_call = is_paused and not stream.aborted and stream.stop_reason == part.params.pause_at
            if is_call and len(self._held) < self._most:
                self._hold(part.answer, session)
            else:
                await session.outputs.aclose()

    async def release(self, answer: str) -> None:
        """Free the sequence of an answer, if one is held."""
        session = self._held.pop(answer, None)
        if session is None:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        # An engine that has ended has freed it.
        with suppress(Exception):
            await session.outputs.aclose()

    async def close(self) -> None:
        for answer in list(self._held):
            await self.release(answer)

    async def _session(self, part: Part) -> tuple[_Session, int | None]:
        """Return the session with the part as its last input, and how many tokens it has, None for a new one."""
        session = self._held.get(part.answer)
        if session is not None and session.is_continued_by(part):
            del self._held[part.answer]
            if session.expiry is not None:
                session.expiry.cancel()
            num_known = len(session.token_ids) - 1
            session.token_ids = list(part.prompt_ids)
            new, most = session.token_ids[num_known:], part.params.max_tokens
            session.inputs.put_nowait(part.make_input(new, most, part.pauses))
            return session, num_known
        await self.release(part.answer)
        inputs: asyncio.Queue[Any] = asyncio.Queue()
        # vLLM takes the first input's stop tokens for the grammar's end: a call could have none of them inside.
        most, pauses = (part.params.max_tokens, part.pauses) if part.params.grammar is None else (1, frozenset[int]())
        inputs.put_nowait(part.make_input(list(part.prompt_ids), most, pauses))
        return _Session(part.start(_drain(inputs)), inputs, list(part.prompt_ids), part.params), None

    def _hold(self, answer: str, session: _Session) -> None:
        session.expiry = asyncio.get_running_loop().call_later(self._seconds, self._expire, answer)
        self._held[answer] = session

    def _expire(self, answer: str) -> None:
        log.info("a sequence was held for %.0f s and is freed request_id=%s", self._seconds, answer)
        task = asyncio.ensure_future(self.release(answer))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)


async def _drain(inputs: asyncio.Queue[Any]) -> AsyncGenerator[Any, None]:
    while True:
        yield await inputs.get()


def pausing_ids(tokenizer: Tokenizer, stop: str) -> frozenset[int]:
    """Return the tokens that may complete ``stop``: those that hold it, or begin with an ending of it."""
    endings = tuple(stop[at:] for at in range(len(stop)))
    texts = ((token_id, tokenizer.decode([token_id])) for token_id in range(tokenizer.vocab_size))
    found = {token_id for token_id, text in texts if stop in text or text.startswith(endings)}
    return frozenset(found - tokenizer.eos_token_ids)
