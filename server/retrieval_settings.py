"""What an operator chooses of encoders, indices and namespaces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from server.settings_group import SettingsGroup


class RetrievalSettings(SettingsGroup):
    encoder: str = Field(default="minilm", description="encoder of new namespaces; a name, hub id or directory")
    encoders: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="further encoders that may be used; a,b"
    )
    cross_encoder: str | None = Field(default=None, description="re-ranks hits and answers /v1/rerank")
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$", description="of the encoders")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch_tokens: int | None = Field(default=None, ge=64, description="tokens of one batch, padding counted")
    allow_download: bool = Field(default=False, description="fetch hub ids that are not here yet")
    data_dir: Path | None = Field(default=None, description="folder of the namespaces; unset: XDG data folder")
    backend: Literal["auto", "faiss", "faiss-gpu", "torch"] = Field(default="auto", description="of vector indices")
    max_inputs: int = Field(default=2048, ge=1, le=65_536, description="texts of one request")
    max_k: int = Field(default=1000, ge=1, le=10_000, description="hits of one search")

    @field_validator("encoders", mode="before")
    @classmethod
    def _comma_list(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @property
    def encoder_names(self) -> tuple[str, ...]:
        """All that may be used, the default first."""
        return tuple(dict.fromkeys((self.encoder, *self.encoders)))
