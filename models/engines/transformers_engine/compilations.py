"""Compile grammars beside decoding: a few at a time, the others in turn, each within a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from models.engines.transformers_engine.grammar_mask import CompiledGrammar
from models.errors import ENGINE_FULL, GRAMMAR_INVALID, ModelError
from models.types import Grammar

_MAX_SECONDS: Final = 60.0
_MAX_AT_ONCE: Final = 4
_MAX_WAITING: Final = 64


@dataclass(slots=True, eq=False)
class _Compilation:
    """Hold one grammar that is compiled or waits for it, with the number of requests that want it."""

    begun: asyncio.Event
    task: asyncio.Task[CompiledGrammar]
    wanted: int = 0


class BoundedCompilations:
    """Compile grammars on threads, ``most`` at a time, and stop waiting for one that takes too long.

    Others wait for their turn, each at most as long as a compilation may take; the deadline of a request can end its
    wait sooner. A thread cannot be ended: its place stays taken until it is done, and who asks for the same grammar
    waits with it. Belongs to one event loop. ``compile_grammar`` is ``GrammarCompiler.compile``.
    """

    def __init__(
        self,
        compile_grammar: Callable[[Grammar], CompiledGrammar],
        seconds: float = _MAX_SECONDS,
        most: int = _MAX_AT_ONCE,
        waiting: int = _MAX_WAITING,
    ) -> None:
        self._compile = compile_grammar
        self._seconds = seconds
        self._places = asyncio.Semaphore(most)
        self._most = most + waiting
        self._known: dict[Grammar, _Compilation] = {}

    async def compiled(self, grammar: Grammar) -> CompiledGrammar:
        """Return the compiled grammar.

        Raises:
            ModelError: it does not compile, or not in time; too many others wait, or its turn does not come in time.
        """
        compilation = self._known.get(grammar) or self._add(grammar)
        compilation.wanted += 1
        try:
            return await self._waited(compilation, grammar.param)
        finally:
            compilation.wanted -= 1
            if not compilation.wanted and not compilation.begun.is_set():
                compilation.task.cancel()
                self._forget(grammar, compilation)

    def _add(self, grammar: Grammar) -> _Compilation:
        if len(self._known) >= self._most:
            raise ModelError("too many grammars are waiting to be compiled", ENGINE_FULL, param=grammar.param)
        begun = asyncio.Event()
        compilation = _Compilation(begun, asyncio.create_task(self._in_turn(grammar, begun)))
        compilation.task.add_done_callback(lambda _: self._forget(grammar, compilation))
        self._known[grammar] = compilation
        return compilation

    async def _in_turn(self, grammar: Grammar, begun: asyncio.Event) -> CompiledGrammar:
        async with self._places:
            begun.set()
            return await asyncio.to_thread(self._compile, grammar)

    async def _waited(self, compilation: _Compilation, param: str | None) -> CompiledGrammar:
        try:
            async with asyncio.timeout(self._seconds):
                await compilation.begun.wait()
        except TimeoutError:
            raise ModelError("other grammars take all the time to compile", ENGINE_FULL, param=param) from None
        # Not awaited itself, so that a cancelled request does not cancel it for others.
        await asyncio.wait({compilation.task}, timeout=self._seconds)
        if not compilation.task.done():
            raise ModelError(
                f"{param}: takes longer than {self._seconds:g} s to prepare; make it smaller or simpler",
                GRAMMAR_INVALID,
                param=param,
            )
        return compilation.task.result()

    def _forget(self, grammar: Grammar, compilation: _Compilation) -> None:
        if self._known.get(grammar) is compilation:
            del self._known[grammar]
        if compilation.task.done() and not compilation.task.cancelled():
            compilation.task.exception()  # read here, since those who waited may be gone
