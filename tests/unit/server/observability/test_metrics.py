"""What is counted: failures each by a name of their own, tokens once for each prompt, unknown values as other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from refusals import refused_for

from models.card import ModelCard
from models.decoding.types import LoopUsage
from models.engines.base import Engine
from retrieval.errors import NcbiError
from retrieval.index.backends.card import CardUse
from server.admission import Admission, AdmissionLimits, Ticket
from server.auth.authentication import Principal
from server.auth.keys import Scopes
from server.auth.rate_limits import LocalRateLimiter
from server.engine.lifecycle import EngineLifecycle
from server.errors import KEY_FULL, SERVER_FULL, RequestError
from server.methods.base import CallReplied, TextDelta, TranscriptDelta
from server.middleware import request_id_for
from server.observability.metrics import FAILURES, Metrics, ServerState
from server.observability.observer import (
    AnswerMetrics,
    AnswerRecord,
    HttpRequest,
    NullServerObserver,
    TokenCounts,
    token_counts,
)


def test_every_failure_of_ncbi_has_a_name() -> None:
    """A new kind of error would be counted as other until it is named there."""
    kinds, found = [NcbiError], set()
    while kinds:
        below = kinds.pop().__subclasses__()
        found |= {kind.__name__ for kind in below if kind.__module__ in {"retrieval.errors", "retrieval.ncbi"}}
        kinds += below

    assert found <= set(FAILURES)


def test_unknown_values_make_no_series_of_their_own() -> None:
    """Whoever sends them."""
    metrics = Metrics()
    metrics.replied(HttpRequest(route="", method="BREW", status=400, code="canary", seconds=0.1))
    metrics.answer_ended(
        AnswerRecord(id="x", model="m", outcome="canary", seconds=1.0, calls={("canary", "canary"): 2})
    )
    metrics.searched("canary", 7, 0.1)
    text = metrics.expose("")[0].decode()

    assert "canary" not in text and "BREW" not in text
    assert 'arrowhead_calls_total{endpoint="other",status="other"} 2.0' in text


def test_choices_of_one_prompt_share_its_tokens() -> None:
    """Two prompts with two choices each, one of which did not end; as their usage object counts."""
    watch = AnswerMetrics(NullServerObserver(), "cmpl-1", "m", 4)
    watch.begin()
    long = LoopUsage(prompt_tokens=10, sampled_tokens=3, injected_tokens=2, cached_tokens=4, computed_tokens=9)
    short = LoopUsage(prompt_tokens=7, sampled_tokens=1, computed_tokens=8)
    record = watch.end("cancelled", token_counts(["p0", "p0", "p1", "p1"], [long, long, short, None]))

    assert record.tokens == TokenCounts(prompt=17, sampled=7, injected=4, cached=4, computed=26)
    assert record.outcome == "cancelled" and record.first_s is None


def test_the_first_text_counts_whatever_it_is() -> None:
    """A call's own text too; an empty piece does not."""
    watch = AnswerMetrics(NullServerObserver(), "a", "m", 1)
    watch.begin()
    watch.feed(TextDelta(""))
    assert watch.end("ok", TokenCounts()).first_s is None
    watch.feed(TranscriptDelta("["))
    watch.feed(CallReplied("u", 1, "ok", "", 0.1, 1, {"endpoint": "esearch"}))
    record = watch.end("ok", TokenCounts())

    assert record.first_s is not None
    assert record.calls == {("esearch", "ok"): 1}


async def test_places_rates_and_restarts_are_exposed() -> None:
    """What came of each request for a place, what a key's rate refused, how often the engine was brought back."""
    card = ModelCard(name="m", source="s", description="", context_length=16, prompt_form="base")
    lifecycle = EngineLifecycle(card, lambda: cast(Engine, None))
    lifecycle.restarts.next_delay(0.0)
    rates, admission = LocalRateLimiter(), Admission(AdmissionLimits(running=1, waiting=0, tokens=500))
    principal = Principal(owner="k", scopes=Scopes(requests_per_minute=1))
    await rates.take(principal)
    for _ in range(2):
        with pytest.raises(RequestError, check=KEY_FULL.is_of):
            await rates.take(principal)
    metrics = Metrics()
    state = SimpleNamespace(
        admission=admission,
        rates=rates,
        lifecycle=lifecycle,
        draining=False,
        running_jobs=0,
        egress_refusals={"word": 3, "day_budget": 0},
        card_use=CardUse(segments=3, bytes=7, segments_off=1, bytes_off=5, searches_off=4),
    )
    metrics.watch(cast(ServerState, state))
    async with admission.place(Ticket("k", 7)):
        with refused_for(SERVER_FULL):
            await admission.place(Ticket("k")).__aenter__()
        text = metrics.expose("")[0].decode()

    for line in (
        'arrowhead_admissions_total{result="admitted"} 1.0',
        'arrowhead_admissions_total{result="refused"} 1.0',
        'arrowhead_admission_limit{of="running"} 1.0',
        'arrowhead_admission_limit{of="tokens"} 500.0',
        "arrowhead_admission_tokens 7.0",
        "arrowhead_requests_in_flight 1.0",
        "arrowhead_requests_waiting 0.0",
        'arrowhead_rate_refusals_total{unit="requests"} 2.0',
        'arrowhead_egress_refusals_total{reason="word"} 3.0',
        'arrowhead_egress_refusals_total{reason="day_budget"} 0.0',
        'arrowhead_rate_refusals_total{unit="tokens"} 0.0',
        'arrowhead_vector_segments{place="card"} 3.0',
        'arrowhead_vector_bytes{place="processor"} 5.0',
        "arrowhead_vector_searches_off_card_total 4.0",
        "arrowhead_engine_restarts_total 1.0",
        'arrowhead_engine_state{state="restarting"} 0.0',
    ):
        assert line in text.splitlines(), line
    assert "running_per_key" not in text


def test_request_ids_of_clients_are_hexadecimal() -> None:
    """Nothing that could be a word is taken."""
    for safe in ("0af7651916cd43dd8448eb211c80319c", "7f3e0b1a-2c4d-4e5f-8a9b-0c1d2e3f4a5b"):
        assert request_id_for(safe) == safe
    for unsafe in ("", "-", "a" * 15, "a" * 65, "dead-beef--0123456789", "patient-4711-cafe", "0" * 20 + "\n"):
        assert request_id_for(unsafe) != unsafe and len(request_id_for(unsafe)) == 32
