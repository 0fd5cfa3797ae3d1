"""Say where stores, logs, keys, namespaces and graphs lie on disk."""

from __future__ import annotations

from pathlib import Path

from server.settings.loading import xdg_dir
from server.settings.schema import Settings


def gateway_dir(settings: Settings) -> Path:
    return settings.gateway.data_dir or xdg_dir("data") / "gateway"


def audit_path(settings: Settings) -> Path:
    return settings.audit.path or xdg_dir("state") / "audit.jsonl"


def graphs_dir(settings: Settings) -> Path:
    return settings.graph.data_dir or xdg_dir("data") / "graphs"


def keys_file(settings: Settings) -> Path:
    return settings.server.keys_file or xdg_dir("data") / "keys.json"


def models_dir(settings: Settings) -> Path:
    return settings.model.data_dir or xdg_dir("data") / "models"


def namespaces_dir(settings: Settings) -> Path:
    return settings.retrieval.data_dir or xdg_dir("data") / "namespaces"


def reviews_dir() -> Path:
    return xdg_dir("data") / "reviews"
