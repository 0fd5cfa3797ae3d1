"""Collect the current state when Prometheus asks: admission, the engine, jobs and build information."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Protocol, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from models.errors import ArrowheadError
from models.types import EngineStats
from server.admission import Admission
from server.engine_slot import EngineSlot, State
from server.rates import Rates
from server.version import installed_version

_COUNTED: Final = {
    "requests": ("requests_finished", "Sequences that have ended"),
    "prompt_tokens_computed": ("prompt_tokens_computed", "Prompt tokens that were computed"),
    "prompt_tokens_cached": ("prompt_tokens_cached", "Prompt tokens taken from the prefix cache"),
    "generated_tokens": ("tokens_generated", "Tokens written by the model, those of unfinished answers too"),
}


class ServerState(Protocol):
    """Provide the state to collect; ``Services`` implements it."""

    @property
    def draining(self) -> bool: ...

    @property
    def slot(self) -> EngineSlot: ...

    @property
    def running_jobs(self) -> int: ...

    @property
    def admission(self) -> Admission: ...

    @property
    def rates(self) -> Rates: ...


@dataclass(frozen=True, slots=True, eq=False)
class StateCollector(Collector):
    """Collect the state without blocking, as it runs on the event loop."""

    state: ServerState

    def collect(self) -> Iterator[Metric]:
        state = self.state
        yield from self._admission()
        yield _gauge("draining", "1 while the server stops", float(state.draining))
        yield _gauge("jobs_running", "Changes of namespaces under way", state.running_jobs)
        yield from self._engine()
        build = GaugeMetricFamily(
            "arrowhead_build_info", "What runs, always 1", labels=("version", "python", "engine", "model")
        )
        build.add_metric(
            (installed_version(), platform.python_version(), engine_kind(state.slot), state.slot.card.name), 1
        )
        yield build

    def _admission(self) -> Iterator[Metric]:
        admission, limits = self.state.admission, self.state.admission.limits
        yield _gauge("requests_in_flight", "Requests being answered", admission.in_flight)
        yield _gauge("requests_waiting", "Requests that wait for a place", admission.waiting)
        yield _gauge("admission_tokens", "Estimated tokens of all that run and wait", admission.tokens)
        bounds = GaugeMetricFamily("arrowhead_admission_limit", "Bounds that are set", labels=("of",))
        for name in ("running", "running_per_key", "waiting", "tokens"):
            if (bound := getattr(limits, name)) is not None:
                bounds.add_metric((name,), bound)
        yield bounds
        ends = CounterMetricFamily(
            "arrowhead_admissions", "Requests for a place, by what came of it", labels=("result",)
        )
        for name, number in asdict(admission.counts).items():
            ends.add_metric((name,), number)
        yield ends
        told = "Requests that were refused because of their key's rate, by what there was none left of"
        rates = CounterMetricFamily("arrowhead_rate_refusals", told, labels=("unit",))
        for unit, number in self.state.rates.refused.items():
            rates.add_metric((unit,), number)
        yield rates

    def _engine(self) -> Iterator[Metric]:
        slot = self.state.slot
        states = GaugeMetricFamily("arrowhead_engine_state", "1 for the state it is in", labels=("state",))
        for name in get_args(State):
            states.add_metric((name,), float(slot.state == name))
        yield states
        yield CounterMetricFamily("arrowhead_engine_restarts", "Tries to bring a dead engine back", slot.restarts.total)
        stats = _stats(slot)
        sequences = GaugeMetricFamily("arrowhead_engine_sequences", "Sequences in the engine", labels=("state",))
        sequences.add_metric(("running",), stats.running)
        sequences.add_metric(("waiting",), stats.waiting)
        yield sequences
        if stats.kv_cache_used is not None:
            text = "Share of the memory for keys and values that is taken"
            yield _gauge("engine_kv_cache_used_ratio", text, stats.kv_cache_used)
        for name, (field, text) in _COUNTED.items():
            yield CounterMetricFamily(f"arrowhead_engine_{name}", text, value=getattr(stats, field))


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"arrowhead_{name}", text, value=value)


def _stats(slot: EngineSlot) -> EngineStats:
    """Return the statistics of the engine, zeros while there is none.

    The counters then start from zero again, as they do at a restart.
    """
    try:
        return slot.get().stats()
    except ArrowheadError:
        return EngineStats()


def engine_kind(slot: EngineSlot) -> str:
    """Return ``vllm``, ``transformers`` or ``scripted``, "" while there is no engine."""
    try:
        engine = slot.get()
    except ArrowheadError:
        return ""
    return type(getattr(engine, "inner", engine)).__name__.removesuffix("Engine").lower()
