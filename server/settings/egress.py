"""Define the settings of egress and of the audit log.

Knows nothing of how they are enforced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from retrieval.ncbi.calls.parameter_classes import ParamClass
from server.settings.base import SettingsGroup
from server.types import _KEY_ID_CHARS, EGRESS_MODES, EgressMode, EgressProfile

_KEY_ID: Final = re.compile(rf"[0-9a-f]{{{_KEY_ID_CHARS}}}")


class EgressSettings(SettingsGroup):
    """Hold the settings of what may leave the machine."""

    mode: EgressMode = Field(
        default="off",
        description="off: nothing leaves the machine; local-first: the gateway, then NCBI for what it lacks; ncbi",
    )
    profile: EgressProfile | None = Field(
        default=None, description="what may leave: hospital or open; unset: open with mode ncbi, else hospital"
    )
    allow: Annotated[tuple[ParamClass, ...] | None, NoDecode] = Field(
        default=None, description="what may leave, class by class, in place of a profile"
    )
    max_chars_per_answer: int = Field(
        default=600, ge=1, description="characters of names and ids that may leave for one answer; not with open"
    )
    max_chars_per_hour: int = Field(default=10_000, ge=1, description="the same for one key in an hour")
    max_chars_per_day: int = Field(default=50_000, ge=1, description="the same for one key in a day")
    key_modes: Annotated[dict[str, EgressMode], NoDecode] = Field(
        default_factory=dict, description="lower mode of single keys, by key id: 1a2b3c4d=off"
    )

    @field_validator("allow", mode="before")
    @classmethod
    def _comma_list(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("key_modes", mode="before")
    @classmethod
    def _pairs(cls, value: object) -> object:
        """Parse ``1a2b3c4d=off,5e6f7a8b=local-first`` from the environment; the file may have a table."""
        if isinstance(value, str):
            pairs = [part.partition("=") for part in value.split(",") if part.strip()]
            value = {name.strip(): mode.strip() for name, _, mode in pairs}
        if isinstance(value, Mapping) and not all(_KEY_ID.fullmatch(str(name)) for name in value):
            # The message omits the name: a key entered in place of its id must not appear in a log.
            raise ValueError("a key id has 8 hex digits; `arrowhead doctor` shows the ids of server.api_keys")
        return value

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.profile is not None and self.allow is not None:
            raise ValueError("allow: egress.profile is set as well; set one of them")
        for key, mode in self.key_modes.items():
            if EGRESS_MODES.index(mode) > EGRESS_MODES.index(self.mode):
                raise ValueError(f"key_modes: {key} has {mode}, above egress.mode {self.mode}; a key can only lower it")
        return self


class AuditSettings(SettingsGroup):
    """Hold the settings of the audit log."""

    path: Path | None = Field(
        default=None, description="audit log; unset: in the XDG state folder unless egress.mode is off"
    )
    level: Literal["metadata", "request"] = Field(default="metadata", description="request: with the values in clear")
    max_bytes: int = Field(default=67_108_864, ge=4096, description="a file this long is put aside under a number")
    on_failure: Literal["refuse", "continue"] = Field(
        default="refuse", description="refuse: a call that cannot be recorded is not sent"
    )
