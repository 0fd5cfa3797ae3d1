"""The dashboard and the alert rules ask only for what the server exports, by labels that it has."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from models.catalog import ModelCard
from models.engines.base import Engine
from models.types import EngineStats
from server.admission import Admission, AdmissionLimits
from server.auth.rate_limits import LocalRateLimiter
from server.engine.lifecycle import EngineLifecycle
from server.observability.metrics import Metrics, ServerState
from server.observability.observer import AnswerRecord, HttpRequest

DEPLOY = Path(__file__).parents[3] / "deploy"
NAME = re.compile(r"\b(?:arrowhead|process|python)_[a-z0-9_]+\b")
LABELS = re.compile(r"((?:arrowhead|process)_[a-z0-9_]+)\{([^}]*)\}")
# What Prometheus adds to each series.
ADDED = {"job", "instance", "le"}


def _expressions(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in {"expr", "query", "definition"} and isinstance(inner, str):
                yield inner
            else:
                yield from _expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)


class _Engine:
    """Says all that an engine can say."""

    async def start(self) -> None: ...

    def is_ready(self) -> bool:
        return True

    def stats(self) -> EngineStats:
        return EngineStats(kv_cache_used=0.5)


@pytest.fixture(scope="module")
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


def _sources() -> dict[str, list[str]]:
    dashboard = json.loads((DEPLOY / "grafana" / "arrowhead.json").read_text())
    rules = yaml.safe_load((DEPLOY / "prometheus" / "arrowhead.rules.yml").read_text())
    return {"dashboard": list(_expressions(dashboard)), "rules": list(_expressions(rules))}


@pytest.mark.parametrize("source", ["dashboard", "rules"])
def test_every_name_is_exported(source: str, exported: dict[str, set[str]]) -> None:
    """In each expression, and with the labels that it selects and sums by."""
    expressions = _sources()[source]
    assert len(expressions) > 8
    for expression in expressions:
        names = set(NAME.findall(expression))
        assert names <= set(exported), (expression, names - set(exported))
        for name, inside in LABELS.findall(expression):
            labels = set(re.findall(r"(\w+)\s*[=!]~?", inside))
            assert labels <= exported[name] | ADDED, expression
        known = ADDED.union(*(exported[name] for name in names))
        for group in re.findall(r"by \(([^)]*)\)", expression):
            assert {label.strip() for label in group.split(",")} <= known, expression


def test_every_metric_of_ours_has_a_panel(exported: dict[str, set[str]]) -> None:
    """What is counted and never shown is forgotten."""
    shown = {name for expression in _sources()["dashboard"] for name in NAME.findall(expression)}
    families = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in exported if name.startswith("arrowhead")}
    families -= {name for name in families if name + "_total" in exported}

    assert {re.sub(r"_bucket$", "", name) for name in shown} >= families


def test_panels_do_not_overlap() -> None:
    """Grafana would move them."""
    dashboard = json.loads((DEPLOY / "grafana" / "arrowhead.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


def test_the_scrape_example_sends_a_key() -> None:
    """From a file of its own, and by the path that the server has."""
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]

    assert job["metrics_path"] == "/metrics"
    assert job["authorization"]["type"] == "Bearer" and "credentials_file" in job["authorization"]
