"""Reads what ``GET /metrics`` says."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Sample = tuple[str, dict[str, str], float]


def fetch(url: str, *, accept: str = "", key: str = "none") -> tuple[str, str]:
    """Body and content type."""
    headers = {"Authorization": f"Bearer {key}", **({"Accept": accept} if accept else {})}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/metrics", headers=headers), timeout=120) as reply:
        return reply.read().decode(), reply.headers["Content-Type"]


def samples(text: str, *, is_openmetrics: bool = False) -> list[Sample]:
    """Without the times at which series began."""
    families = openmetrics.text_string_to_metric_families if is_openmetrics else text_string_to_metric_families
    found = [(s.name, dict(s.labels), float(s.value)) for family in families(text) for s in family.samples]
    return [sample for sample in found if not sample[0].endswith("_created")]


def scrape(url: str, key: str = "none") -> list[Sample]:
    return samples(fetch(url, key=key)[0])


def total(found: Iterable[Sample], name: str, **labels: str) -> float:
    """Of all series that have these labels."""
    return sum(value for its, has, value in found if its == name and labels.items() <= has.items())
