"""What the routes work with: the settings, the models that can be asked for, the traces. Built in ``bootstrap``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from server.egress import Egress
from server.engine_slot import EngineSlot
from server.errors import ModelUnknown, TooManyRequests
from server.memory_plan import preload
from server.methods.base import Method
from server.observing_setup import Observing, counted
from server.retrieval_setup import Retrieval, uses_card
from server.settings import Settings
from server.traces import TraceStore

DIRECT = "direct"


class Served(NamedTuple):
    """One entry of ``/v1/models``; ``id`` is ``BASE`` or ``BASE:METHOD``."""

    id: str
    method: Method


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """``methods`` by name, the plain model under ``direct``. ``egress`` None: no method makes calls. ``closers`` run at
    the end, last one first."""

    settings: Settings
    slot: EngineSlot
    methods: Mapping[str, Method]
    traces: TraceStore
    retrieval: Retrieval
    egress: Egress | None = None
    closers: Sequence[Callable[[], Awaitable[None]]] = ()
    observing: Observing = field(default_factory=counted)


class Services:
    """The running server without its HTTP."""

    def __init__(self, components: Components) -> None:
        self.settings = components.settings
        self.slot = components.slot
        self.traces = components.traces
        self.egress = components.egress
        self.retrieval = components.retrieval
        self.encoders = components.retrieval.encoders
        self.observing = components.observing
        self.observer = components.observing.observer
        self._methods = components.methods
        self._closers = components.closers
        self.created = int(time.time())
        self._in_flight = 0
        self._draining = False
        self._loading: asyncio.Task[None] | None = None
        self.observing.metrics.watch(self)

    @property
    def models(self) -> list[Served]:
        base = self.slot.card.name
        return [Served(base if name == DIRECT else f"{base}:{name}", m) for name, m in self._methods.items()]

    def find(self, model: str) -> Served:
        """Raises ModelUnknown, with what there is."""
        for served in self.models:
            if served.id == model:
                return served
        known = ", ".join(served.id for served in self.models)
        raise ModelUnknown(f"there is no model {model[:100]!r}; served: {known}", param="model")

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def draining(self) -> bool:
        return self._draining

    @property
    def running_jobs(self) -> int:
        return self.retrieval.jobs.num_running

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """A place for one request. Raises TooManyRequests when all are taken."""
        limit = self.settings.server.max_in_flight
        if self._in_flight >= limit:
            raise TooManyRequests(f"{limit} requests are being answered")
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def start(self) -> None:
        """Begin to load the model; requests get 503 until it is there."""
        self._loading = asyncio.create_task(self._load())

    async def _load(self) -> None:
        """An engine takes what is left of a card, so what shares it with the engine is loaded before."""
        chosen = self.settings.retrieval
        if uses_card(chosen) if chosen.preload is None else chosen.preload:
            await self.retrieval.run(lambda: preload(self.retrieval))
        await self.slot.load()

    async def loaded(self) -> None:
        """Wait for the end of loading, good or bad."""
        if self._loading is not None:
            await asyncio.shield(self._loading)

    async def close(self) -> None:
        self._draining = True
        if self._loading is not None and not self._loading.done():
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        await self.slot.close()
        for closer in reversed(self._closers):
            await closer()
