"""Add the state of the egress service to its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from server.observability.metrics import Metrics
from server.version import installed_version


class EgressServiceState(Protocol):
    """Provide the state to collect; ``server.serving.egress_app.ServiceState`` implements it."""

    @property
    def kept(self) -> Mapping[str, int]: ...

    @property
    def in_flight(self) -> int: ...

    @property
    def refused(self) -> Mapping[str, int]: ...


def watch_service(metrics: Metrics, state: EgressServiceState) -> None:
    """Add the state of the service to what is exposed; call once."""
    metrics.registry.register(_ServiceCollector(state))


@dataclass(frozen=True, slots=True, eq=False)
class _ServiceCollector(Collector):
    """Collect the state without blocking, as it runs on the event loop."""

    state: EgressServiceState

    def collect(self) -> Iterator[Metric]:
        text = "Calls of servers that the egress service answers"
        yield GaugeMetricFamily("arrowhead_egress_service_calls_in_flight", text, value=self.state.in_flight)
        text = "Requests that the egress service refused, by what was wrong"
        refused = CounterMetricFamily("arrowhead_egress_service_refusals", text, labels=("cause",))
        for cause, number in self.state.refused.items():
            refused.add_metric((cause,), number)
        yield refused
        text = "Calls that were kept on this machine, by what kept them"
        kept = CounterMetricFamily("arrowhead_egress_refusals", text, labels=("reason",))
        for reason, number in self.state.kept.items():
            kept.add_metric((reason,), number)
        yield kept
        version = GaugeMetricFamily("arrowhead_egress_service_info", "What runs, always 1", labels=("version",))
        version.add_metric((installed_version(),), 1)
        yield version
