"""Check the settings of the model and of the decoding loop."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from server.settings.base import COMMA_LIST, SettingsGroup, is_unencrypted_to_public, web_address


class ModelSettings(SettingsGroup):
    """Configure the model and its engine."""

    name: str | None = Field(default=None, description="directory, GGUF file, hub id or shipped model; unset: default")
    data_dir: Path | None = Field(
        default=None, description="fetched and converted models; unset: below the user's data"
    )
    served_name: str | None = Field(default=None, description="name clients use")
    revision: str | None = Field(default=None, description="hub revision")
    allow_download: bool = Field(default=False, description="fetch a hub id that is not here yet")
    hub_url: str = Field(
        default="https://huggingface.co", pattern=r"^https?://[^\s/]+$", description="hub of `arrowhead models pull`"
    )
    prompt_form: Literal["base", "chat"] | None = Field(
        default=None, description="unset: chat where the model's tokenizer has a chat template"
    )
    engine: Literal["auto", "transformers", "vllm", "remote", "scripted"] = "auto"
    url: str | None = Field(
        default=None, description="vLLM server of the remote engine, or a router before several; http://host:8000"
    )
    api_key: SecretStr | None = Field(default=None, description="key of that server (vllm serve --api-key)")
    script: Path | None = Field(default=None, description="replies of the scripted engine (tests and development)")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?)$")
    max_model_len: int | None = Field(default=None, ge=16, description="tokens of prompt and answer together")
    max_num_seqs: int | None = Field(
        default=None, ge=1, le=4096, description="sequences decoded together; unset: vLLM's choice on a GPU, else 32"
    )
    kv_cache_gib: float | None = Field(default=None, gt=0, description="memory for cached prefixes")
    gpu_memory_utilization: float | None = Field(
        default=None, gt=0, le=1, description="share of each GPU for vLLM; unset: what is free beside indices, encoders"
    )
    tensor_parallel_size: int = Field(default=1, ge=1, le=64, description="GPUs that share each layer (vLLM)")
    quantization: str | None = Field(
        default=None, pattern=r"^[a-z0-9_]+$", description="vLLM's name of a format; unset reads it from the checkpoint"
    )
    lora_adapters: Annotated[tuple[str, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="adapters by name, on vLLM served beside the model; name=folder,name=folder"
    )
    adapter: str | None = Field(
        default=None,
        description="LoRA adapter with which the model answers: folder, name of lora_adapters, shipped one or none",
    )
    draft_tokens: int | None = Field(
        default=None, ge=0, le=64, description="tokens drafted from earlier text; unset: 12, and none with vLLM"
    )
    hold_during_calls_s: float = Field(
        default=0.0, ge=0, le=600, description="vLLM, hybrids: how long a sequence is kept while its call is answered"
    )
    batch_invariant: bool = Field(
        default=False, description="on vLLM: answers that do not depend on what runs beside them, slower; needs a GPU"
    )
    tool_call_parser: str | None = Field(default=None, description="vLLM's name for how the model writes tool calls")
    reasoning_parser: str | None = Field(default=None, description="vLLM's name for how the model writes thoughts")
    chat_template: Path | None = Field(default=None, description="Jinja file in place of the model's own (vLLM)")

    @field_validator("lora_adapters")
    @classmethod
    def _named_folders(cls, adapters: tuple[str, ...]) -> tuple[str, ...]:
        names = [one.partition("=")[0] for one in adapters]
        for one, name in zip(adapters, names, strict=True):
            # A colon separates the model from the method in a request.
            if not re.fullmatch(r"[A-Za-z0-9][\w./-]{0,127}", name) or not one.partition("=")[2]:
                raise ValueError(f"{one!r} is not name=folder, with a name of letters, digits, '.', '_', '-' and '/'")
            if names.count(name) > 1:
                raise ValueError(f"two adapters are called {name!r}")
        return adapters

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if "," in url:
            raise ValueError("one address; put a router (vllm-router, HAProxy) before several servers and name it")
        if web_address(url).path not in ("", "/"):
            raise ValueError("an address without a path, as https://router:8000")
        return url.rstrip("/")

    @property
    def lora_folders(self) -> dict[str, Path]:
        """Return the folder of each LoRA adapter by its name."""
        pairs = (one.partition("=") for one in self.lora_adapters)
        return {name: Path(folder).expanduser() for name, _, folder in pairs}

    @model_validator(mode="after")
    def _url_fits_engine(self) -> Self:
        if (self.engine == "remote") != (self.url is not None):
            raise ValueError("url: the engine 'remote' needs the address of its server, and no other takes one")
        if self.url is not None and is_unencrypted_to_public(self.url):
            raise ValueError(
                f"url: {self.url} would send prompts unencrypted to an address that is not private: use https"
            )
        return self

    @model_validator(mode="after")
    def _script_fits_engine(self) -> Self:
        if (self.engine == "scripted") != (self.script is not None):
            raise ValueError("script: the engine 'scripted' needs a script file, and no other engine takes one")
        return self


class LoopSettings(SettingsGroup):
    """Limit the calls, tokens and time of one answer."""

    max_calls: int = Field(default=10, ge=0, le=100, description="calls of one answer")
    max_answer_tokens: int = Field(default=2048, ge=1, description="tokens the model may write for one answer")
