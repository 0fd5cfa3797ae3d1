"""Define the settings of knowledge graphs."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, field_validator

from server.addresses import web_address
from server.settings_group import SettingsGroup


class GraphSettings(SettingsGroup):
    """Hold the settings of the graph that answers and of SPOKE."""

    name: str = Field(default="sample", pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="graph that answers")
    data_dir: Path | None = Field(default=None, description="folder of the graphs; unset: XDG data folder")
    encoder: str | None = Field(default=None, description="of new graphs; unset: retrieval.encoder")
    spoke_url: str | None = Field(default=None, description="SPOKE's address, as https://spoke.rbvi.ucsf.edu")
    timeout_s: float = Field(default=30.0, gt=0, le=600, description="one request to SPOKE with all it waits for")
    connect_timeout_s: float = Field(default=5.0, gt=0, le=600)
    retries: int = Field(default=1, ge=0, le=5, description="of a request to SPOKE that may yet succeed")
    max_reply_bytes: int = Field(default=33_554_432, ge=1024, description="longer replies of SPOKE are refused")
    vector_cache_bytes: int = Field(default=67_108_864, ge=0, description="vectors kept of SPOKE's statements")
    types_age_s: float = Field(default=86_400.0, ge=0, description="SPOKE's list of types is asked for again then")
    unknown_age_s: float = Field(default=3600.0, ge=0, description="a node SPOKE does not have: not asked for before")

    @field_validator("spoke_url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        """Remove the path of the service, which is the same everywhere."""
        if not url:
            return None
        parts = web_address(url)
        path = parts.path.rstrip("/").removesuffix("/api/v1")
        return urlunsplit((parts.scheme, parts.netloc, path, "", ""))

    @property
    def spoke_host(self) -> str | None:
        return urlsplit(self.spoke_url).hostname if self.spoke_url else None
