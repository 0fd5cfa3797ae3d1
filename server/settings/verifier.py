"""Define the settings of what judges evidence."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from server.settings.base import SettingsGroup


class VerifierSettings(SettingsGroup):
    """Choose the model that tells what evidence says of a question or a claim."""

    model: str | None = Field(
        default=None, description="hub id or directory of a sequence classifier (an NLI); unset: the one that ships"
    )
    bar: float | None = Field(
        default=None, gt=0, le=1, description="probability from which evidence counts for verifier.model; unset: 0.5"
    )
    served_model: Literal["auto", "off"] = Field(
        default="auto",
        description="the served model also judges whether sources state its sentences, where a check finds it able",
    )

    @model_validator(mode="after")
    def _fits_model(self) -> Self:
        if self.model is None and self.bar is not None:
            raise ValueError("bar: is of verifier.model; the model that ships has its own: unset it, or name a model")
        return self
