"""Check the settings of the model and of the decoding loop."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from server.settings.base import Seconds, SettingsGroup


class ModelSettings(SettingsGroup):
    """Configure the model and its engine."""

    name: str | None = Field(default=None, description="directory or hub id; unset serves the embedded model")
    served_name: str | None = Field(default=None, description="name clients use")
    revision: str | None = Field(default=None, description="hub revision")
    allow_download: bool = Field(default=False, description="fetch a hub id that is not here yet")
    prompt_form: Literal["base", "chat"] | None = Field(
        default=None, description="unset: chat where the model's tokenizer has a chat template"
    )
    engine: Literal["auto", "transformers", "vllm", "scripted"] = "auto"
    script: Path | None = Field(default=None, description="replies of the scripted engine (tests and development)")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    max_model_len: int | None = Field(default=None, ge=16, description="tokens of prompt and answer together")
    max_num_seqs: int = Field(default=32, ge=1, le=4096, description="sequences decoded together")
    max_queue: int = Field(default=256, ge=1, description="sequences that may wait for a place")
    kv_cache_gib: float | None = Field(default=None, gt=0, description="memory for cached prefixes")
    restarts: int = Field(default=3, ge=0, le=100, description="tries to bring a dead engine back, in a window")
    restart_window_s: Seconds = Field(default=600.0, description="tries older than this do not count")
    seed: int = Field(default=0, ge=0)
    tool_call_parser: str | None = Field(default=None, description="vLLM's name for how the model writes tool calls")
    reasoning_parser: str | None = Field(default=None, description="vLLM's name for how the model writes thoughts")
    chat_template: Path | None = Field(default=None, description="Jinja file in place of the model's own (vLLM)")

    @model_validator(mode="after")
    def _script_fits_engine(self) -> Self:
        if (self.engine == "scripted") != (self.script is not None):
            raise ValueError("script: the engine 'scripted' needs a script file, and no other engine takes one")
        return self


class LoopSettings(SettingsGroup):
    """Limit the calls, tokens and time of one answer."""

    max_calls: int = Field(default=10, ge=0, le=100, description="calls of one answer")
    max_reply_tokens: int = Field(default=1500, ge=16, description="tokens of one reply; the rest is cut")
    max_answer_tokens: int = Field(default=2048, ge=1, description="tokens the model may write for one answer")
    call_timeout_s: Seconds = Field(default=300.0, description="one call with all retries and BLAST's waiting")
    total_timeout_s: Seconds = 600.0
