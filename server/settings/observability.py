"""Define whether and where spans of requests are sent to an OpenTelemetry collector."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from server.settings.base import SettingsGroup, web_address


class TracingSettings(SettingsGroup):
    """Configure the export of spans."""

    endpoint: str | None = Field(
        default=None, description="OTLP over HTTP, e.g. http://127.0.0.1:4318; unset: no spans"
    )
    sample_ratio: float = Field(default=1.0, ge=0, le=1, description="share of requests whose client says nothing")
    service_name: str = Field(default="arrowhead", min_length=1, max_length=100)
    max_queue: int = Field(default=2048, ge=1, le=1_000_000, description="spans that wait; more are dropped")

    @field_validator("endpoint")
    @classmethod
    def _with_path(cls, url: str | None) -> str | None:
        if not url:
            return None
        parts = web_address(url)
        return url.rstrip("/") if parts.path.rstrip("/") else f"{url.rstrip('/')}/v1/traces"

    @property
    def host(self) -> str:
        """Return the host that spans are sent to, "" for none."""
        return urlsplit(self.endpoint or "").hostname or ""


class TraceSettings(SettingsGroup):
    """Configure the storage of traces."""

    max_traces: int = Field(default=1000, ge=0, description="answers kept in memory, shared fairly between keys")
    max_bytes: int = Field(default=67_108_864, ge=0, description="memory for them")
    dir: Path | None = Field(default=None, description="also append each trace to a JSONL file here")
    max_file_bytes: int = Field(
        default=268_435_456, ge=65_536, description="size of that file; the oldest traces of the busiest keys go first"
    )


class LogSettings(SettingsGroup):
    """Configure the log."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    format: Literal["text", "json"] = "text"
