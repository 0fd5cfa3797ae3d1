"""The dashboard and the alert rules ask only for what the server exports, by labels that it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

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
