"""The names of all metrics, which dashboards, alerts and autoscalers are held to."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from models.card import ModelCard
from models.engines.base import Engine
from models.types import EngineStats
from retrieval.index.backends.card import CardUse
from server.admission import Admission, AdmissionLimits
from server.auth.rate_limits import LocalRateLimiter
from server.engine.lifecycle import EngineLifecycle
from server.observability.metrics import Metrics, ServerState
from server.observability.observer import AnswerRecord, HttpRequest


class _Engine:
    """Says all that an engine can say."""

    async def start(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    def stats(self) -> EngineStats:
        return EngineStats(kv_cache_used=0.5)


@pytest.fixture(scope="session")
def exported() -> dict[str, set[str]]:
    """Every name with its labels, after one report of each kind."""
    metrics = Metrics()
    card = ModelCard(name="m", source="s", description="", context_length=16, prompt_form="base")
    lifecycle = EngineLifecycle(card, lambda: cast(Engine, _Engine()))
    asyncio.run(lifecycle.load())
    limits = AdmissionLimits(running=2, waiting=1, running_per_key=1, tokens=100)
    state = SimpleNamespace(
        admission=Admission(limits),
        rates=LocalRateLimiter(),
        draining=False,
        lifecycle=lifecycle,
        running_jobs=0,
        egress_refusals={"word": 1},
        card_use=CardUse(),
    )
    metrics.watch(cast(ServerState, state))
    metrics.replied(HttpRequest(route="/x", method="GET", status=404, code="unknown_url", seconds=0.1))
    calls = {("esearch", "ok"): 1}
    ended = AnswerRecord(id="a", model="m", outcome="ok", seconds=1, first_s=0.1, calls=calls)
    metrics.answer_ended(replace(ended, outcomes={"answered": 1}, unsupported=1))
    metrics.ncbi_request("esearch", "", 0.1)
    metrics.ncbi_waited(0.0)
    metrics.ncbi_cache(hit=True)
    metrics.searched("dense", 1, 0.1)
    metrics.encoded("query", 1, 0.1)
    found: dict[str, set[str]] = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found
