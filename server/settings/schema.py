"""Define all settings of the server, read once at start-up; how they are applied is decided elsewhere.

Flags override environment variables, which override the TOML file, which overrides the defaults. Apart from
``server.settings.loading``, nothing else in ``server`` reads the environment.
"""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pydantic import model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from server.settings.egress import (
    NCBI_HOME,
    AuditSettings,
    EgressServiceSettings,
    EgressSettings,
    GatewaySettings,
    NcbiSettings,
)
from server.settings.mcp import McpSettings
from server.settings.model import LoopSettings, ModelSettings
from server.settings.retrieval import GraphSettings, RetrievalSettings
from server.settings.server import (
    LogSettings,
    ServerSettings,
    StateSettings,
    TraceSettings,
    TracingSettings,
    is_loopback,
)
from server.settings.verifier import VerifierSettings
from server.types import key_id


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
    state: StateSettings = StateSettings()
    model: ModelSettings = ModelSettings()
    ncbi: NcbiSettings = NcbiSettings()
    egress: EgressSettings = EgressSettings()
    egress_service: EgressServiceSettings = EgressServiceSettings()
    audit: AuditSettings = AuditSettings()
    loop: LoopSettings = LoopSettings()
    gateway: GatewaySettings = GatewaySettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    verifier: VerifierSettings = VerifierSettings()
    graph: GraphSettings = GraphSettings()
    mcp: McpSettings = McpSettings()
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
        for name, host in self.mcp.hosts.items():
            if not is_loopback(host) and (self.egress.mode == "off" or self.egress.service_url):
                raise ValueError(
                    f"mcp.servers: {name} is on {host}, another machine, and egress.mode is off or the egress service "
                    "sends all calls: allow it, or use a server on this machine"
                )
        if self.egress.mode == "off" and self.tracing.host and not is_loopback(self.tracing.host):
            raise ValueError(
                f"tracing.endpoint: {self.tracing.host} is another machine and egress.mode is off: "
                "set egress.mode to ncbi to allow it, or use a collector on a loopback address"
            )
        known = {key_id(key.get_secret_value()) for key in self.server.api_keys}
        if unknown := sorted(set(self.egress.key_modes) - known):
            ids = ", ".join(sorted(known)) or "none, as server.api_keys is not set"
            raise ValueError(f"egress.key_modes: no key has the id {unknown[0]}; ids: {ids}")
        remote = not self.egress.service_url and any(
            not is_loopback(urlsplit(url or NCBI_HOME).hostname or "") for url in self.ncbi_urls
        )
        if self.egress.mode != "off" and remote and not self.ncbi.email:
            raise ValueError("ncbi.email: NCBI asks for a contact address with every request: set ncbi.email")
        return self

    @model_validator(mode="after")
    def _service_sends_all(self) -> Self:
        if not self.egress.service_url:
            return self
        for name in ("eutils_url", "blast_url"):
            if getattr(self.ncbi, name):
                raise ValueError(f"ncbi.{name}: is for the egress service: unset it, or egress.service_url")
        if self.graph.spoke_host and not is_loopback(self.graph.spoke_host):
            raise ValueError(
                "graph.spoke_url: the egress service sends calls to NCBI alone, and nothing else may leave a server "
                "that uses it: unset one of them"
            )
        return self

    @model_validator(mode="after")
    def _storage_is_named(self) -> Self:
        if self.retrieval.storage == "postgresql" and self.state.url is None:
            raise ValueError("retrieval.storage: postgresql needs the database's address: set state.url")
        return self

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
