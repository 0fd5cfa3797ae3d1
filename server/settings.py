"""Define all settings of the server, read once at start-up; how they are applied is decided elsewhere.

Flags override environment variables, which override the TOML file, which overrides the defaults. Apart from
``server.settings_loading``, nothing else in ``server`` reads the environment.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from server.addresses import web_address
from server.egress_settings import AuditSettings, EgressSettings, key_id
from server.graph_settings import GraphSettings
from server.origins import origin_of
from server.retrieval_settings import RetrievalSettings
from server.settings_group import SettingsGroup
from server.tracing_settings import TracingSettings

Seconds = Annotated[float, Field(gt=0, le=86_400)]
NCBI_HOME = "https://www.ncbi.nlm.nih.gov"


def is_loopback(host: str) -> bool:
    """Return whether a host is localhost or a loopback address; a name is never resolved."""
    if host.lower() in {"localhost", "localhost."}:
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _with_path(url: str, default_path: str) -> str:
    parts = web_address(url)
    path = parts.path.rstrip("/") or default_path
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


class ServerSettings(SettingsGroup):
    """Configure the HTTP server: address, keys, limits and timeouts."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65_535, description="0 takes a free port")
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        default=(), description="clients must send one of them as a bearer token"
    )
    keys_file: Path | None = Field(default=None, description="keys of `arrowhead key`; unset: XDG data folder")
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="further Host header names to accept on a loopback bind"
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="web pages that may ask, as https://lab.example; a,b"
    )
    max_body_bytes: int = Field(default=1_048_576, ge=1024, description="largest request body")
    body_timeout_s: Seconds = Field(
        default=30.0, description="a request must be here after so long, and a second for each 16 KiB of its body"
    )
    max_in_flight: int | None = Field(
        default=None, ge=1, description="requests answered at once; unset: twice model.max_num_seqs"
    )
    max_in_flight_per_key: int | None = Field(default=None, ge=1, description="of one API key; unset: no bound")
    max_waiting: int = Field(default=192, ge=0, description="requests that wait for a place; more get 429")
    max_wait_s: Seconds = Field(default=30.0, description="a request that waited so long gets 429")
    max_tokens_held: int = Field(
        default=2_000_000, ge=1, description="estimated tokens of all requests answered and waiting; more get 429"
    )
    request_timeout_s: Seconds = Field(default=1800.0, description="one answer with its wait; then 504")
    slow_reader_s: Seconds = Field(default=30.0, description="a client that takes nothing for so long is cut off")
    answer_images: Literal["off", "on"] = Field(
        default="off", description="images and other than web links in methods' answers, which clients may fetch"
    )
    max_n: int = Field(default=8, ge=1, le=128, description="most choices of one request")
    keepalive_s: Seconds = Field(default=10.0, description="a silent stream carries a comment this often")
    drain_notice_s: float = Field(
        default=3.0, ge=0, le=3600, description="after SIGTERM, new requests still get a 503 for so long"
    )
    shutdown_grace_s: Seconds = Field(default=10.0, description="streams in flight may finish for so long")

    @field_validator("api_keys", "allowed_hosts", "cors_origins", mode="before")
    @classmethod
    def _comma_list(cls, value: object) -> object:
        """Split ``a,b``, the form of lists in the environment and in flags."""
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("api_keys")
    @classmethod
    def _keys_are_long(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(key.get_secret_value()) < 8 for key in keys):
            raise ValueError("each key needs at least 8 characters")
        return keys

    @field_validator("cors_origins")
    @classmethod
    def _origins_are_named(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(origin_of(text) for text in origins)


class ModelSettings(SettingsGroup):
    """Configure the model and its engine."""

    name: str | None = Field(default=None, description="directory or hub id; unset serves the embedded model")
    served_name: str | None = Field(default=None, description="name clients use")
    revision: str | None = Field(default=None, description="hub revision")
    allow_download: bool = Field(default=False, description="fetch a hub id that is not here yet")
    prompt_form: Literal["base", "chat"] | None = Field(default=None, description="unset takes the model card's")
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


class NcbiSettings(SettingsGroup):
    """Configure the access to NCBI or to a service in its place."""

    eutils_url: str | None = Field(
        default=None, description="stands for NCBI; with egress.mode off, unset is the built-in gateway"
    )
    blast_url: str | None = Field(default=None, description="unset: as eutils_url")
    api_key: SecretStr | None = Field(default=None, description="NCBI API key: 10 requests/s instead of 3")
    email: str = Field(default="", description="contact NCBI asks for; required unless egress.mode is off")
    tool: str = Field(default="arrowhead", pattern=r"^[\w.-]{1,64}$")
    rate_per_s: float | None = Field(
        default=None, gt=0, le=10_000, description="unset: NCBI's rule; no limit on loopback"
    )
    timeout_s: Seconds = Field(default=30.0, description="one HTTP request with all it waits for")
    connect_timeout_s: Seconds = 5.0
    total_timeout_s: Seconds = Field(default=85.0, description="one E-utilities call with its retries")
    retries: int = Field(default=3, ge=0, le=10)
    max_reply_bytes: int = Field(default=8_388_608, ge=1024, description="longer replies are refused")
    cache_path: Path | None = Field(default=None, description="SQLite file; unset: XDG cache folder")
    cache: bool | None = Field(default=None, description="unset: on for NCBI, off for this machine's services")
    blast_put_interval_s: float | None = Field(default=None, ge=0, description="unset: 10 s at NCBI, 0 on loopback")
    blast_poll_interval_s: float | None = Field(
        default=None, ge=0, description="unset: 60 s at NCBI, 0.2 s on loopback"
    )
    max_reply_chars: int = Field(default=1200, ge=100, le=200_000, description="length of a condensed reply")

    @field_validator("eutils_url")
    @classmethod
    def _eutils_path(cls, url: str | None) -> str | None:
        return _with_path(url, "/entrez/eutils") if url else None

    @field_validator("blast_url")
    @classmethod
    def _blast_path(cls, url: str | None) -> str | None:
        return _with_path(url, "/blast/Blast.cgi") if url else None


class LoopSettings(SettingsGroup):
    """Limit the calls, tokens and time of one answer."""

    max_calls: int = Field(default=10, ge=0, le=100, description="calls of one answer")
    max_reply_tokens: int = Field(default=1500, ge=16, description="tokens of one reply; the rest is cut")
    max_answer_tokens: int = Field(default=2048, ge=1, description="tokens the model may write for one answer")
    call_timeout_s: Seconds = Field(default=300.0, description="one call with all retries and BLAST's waiting")
    total_timeout_s: Seconds = 600.0


class GatewaySettings(SettingsGroup):
    """Configure the built-in gateway and its BLAST searches."""

    data_dir: Path | None = Field(default=None, description="store of the built-in gateway; unset: XDG data folder")
    blastdb_dirs: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(), description="further folders with BLAST databases, as NCBI's preformatted ones; a,b"
    )
    blast_workers: int = Field(default=1, ge=1, le=64, description="BLAST searches at once")
    blast_threads: int = Field(default=1, ge=1, le=64, description="threads of one search")
    blast_timeout_s: Seconds = Field(default=60.0, description="wall-clock time of one search")
    blast_cpu_s: int = Field(default=60, ge=1, description="processor time of one search, over all its threads")

    @field_validator("blastdb_dirs", mode="before")
    @classmethod
    def _comma_list(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


class TraceSettings(SettingsGroup):
    """Configure the storage of traces."""

    max_traces: int = Field(default=1000, ge=0, description="answers kept in memory")
    max_bytes: int = Field(default=67_108_864, ge=0, description="memory for them")
    dir: Path | None = Field(default=None, description="also append each trace to a JSONL file here")


class LogSettings(SettingsGroup):
    """Configure the log."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    format: Literal["text", "json"] = "text"


class Settings(BaseSettings):
    """Hold all groups of settings.

    Environment: ``ARROWHEAD_`` + group + ``__`` + field, e.g. ``ARROWHEAD_NCBI__EMAIL``.
    """

    model_config = SettingsConfigDict(
        env_prefix="ARROWHEAD_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    server: ServerSettings = ServerSettings()
    model: ModelSettings = ModelSettings()
    ncbi: NcbiSettings = NcbiSettings()
    egress: EgressSettings = EgressSettings()
    audit: AuditSettings = AuditSettings()
    loop: LoopSettings = LoopSettings()
    gateway: GatewaySettings = GatewaySettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    graph: GraphSettings = GraphSettings()
    traces: TraceSettings = TraceSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()

    @model_validator(mode="after")
    def _egress_is_allowed(self) -> Self:
        for name in ("eutils_url", "blast_url"):
            url = getattr(self.ncbi, name)
            if self.egress.mode == "off" and url and not is_loopback(urlsplit(url).hostname or ""):
                raise ValueError(
                    f"ncbi.{name}: {urlsplit(url).hostname} is another machine and egress.mode is off: "
                    "set egress.mode to ncbi to allow it, or use a loopback address"
                )
        if self.egress.mode == "off" and self.graph.spoke_host and not is_loopback(self.graph.spoke_host):
            raise ValueError(
                f"graph.spoke_url: {self.graph.spoke_host} is another machine and egress.mode is off: "
                "set egress.mode to ncbi to allow it, or use a loopback address"
            )
        if self.egress.mode == "off" and self.tracing.host and not is_loopback(self.tracing.host):
            raise ValueError(
                f"tracing.endpoint: {self.tracing.host} is another machine and egress.mode is off: "
                "set egress.mode to ncbi to allow it, or use a collector on a loopback address"
            )
        known = {key_id(key.get_secret_value()) for key in self.server.api_keys}
        if strangers := sorted(set(self.egress.key_modes) - known):
            ids = ", ".join(sorted(known)) or "none, as server.api_keys is not set"
            raise ValueError(f"egress.key_modes: no key has the id {strangers[0]}; ids: {ids}")
        remote = any(not is_loopback(urlsplit(url or NCBI_HOME).hostname or "") for url in self.ncbi_urls)
        if self.egress.mode != "off" and remote and not self.ncbi.email:
            raise ValueError("ncbi.email: NCBI asks for a contact address with every request: set ncbi.email")
        return self

    @property
    def max_in_flight(self) -> int:
        return self.server.max_in_flight or 2 * self.model.max_num_seqs

    @property
    def ncbi_urls(self) -> tuple[str | None, str | None]:
        """Return the configured URLs of E-utilities and BLAST, None where the egress mode decides."""
        return self.ncbi.eutils_url, self.ncbi.blast_url

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        toml = TomlConfigSettingsSource(settings_cls, toml_file=settings_cls.model_config.get("toml_file"))
        return init_settings, env_settings, toml
