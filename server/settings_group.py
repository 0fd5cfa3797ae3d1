"""Define the common base of all groups of settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """Refuse unknown fields and changes of values."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
