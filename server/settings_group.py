"""What every group of settings has in common: unknown fields are refused, values do not change."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
