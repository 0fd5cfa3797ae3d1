"""Define the settings of NCBI, of the built-in gateway in its place, of egress and of the audit log.

Knows nothing of how they are enforced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from retrieval.ncbi.calls.parameter_classes import ParamClass
from server.settings.base import COMMA_LIST, Seconds, SettingsGroup, web_address
from server.settings.server import is_loopback
from server.types import _KEY_ID_CHARS, EGRESS_MODES, EgressMode, EgressProfile

_LEAST_SERVICE_KEY: Final = 32
_KEY_ID: Final = re.compile(rf"[0-9a-f]{{{_KEY_ID_CHARS}}}")

NCBI_HOME = "https://www.ncbi.nlm.nih.gov"


def _with_path(url: str, default_path: str) -> str:
    parts = web_address(url)
    path = parts.path.rstrip("/") or default_path
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


class NcbiSettings(SettingsGroup):
    """Configure the access to NCBI or to a service in its place."""

    eutils_url: str | None = Field(
        default=None, description="stands for NCBI; with egress.mode off, unset is the built-in gateway"
    )
    blast_url: str | None = Field(default=None, description="unset: as eutils_url")
    api_key: SecretStr | None = Field(default=None, description="NCBI API key: 10 requests/s instead of 3")
    email: str = Field(default="", description="contact NCBI asks for; required unless egress.mode is off")
    rate_per_s: float | None = Field(
        default=None, gt=0, le=10_000, description="unset: NCBI's rule; no limit on loopback"
    )
    total_timeout_s: Seconds = Field(default=85.0, description="one E-utilities call with its retries, three at most")
    cache_path: Path | None = Field(default=None, description="SQLite file; unset: XDG cache folder")

    @field_validator("eutils_url")
    @classmethod
    def _eutils_path(cls, url: str | None) -> str | None:
        return _with_path(url, "/entrez/eutils") if url else None

    @field_validator("blast_url")
    @classmethod
    def _blast_path(cls, url: str | None) -> str | None:
        return _with_path(url, "/blast/Blast.cgi") if url else None


class GatewaySettings(SettingsGroup):
    """Configure the built-in gateway and its BLAST searches."""

    data_dir: Path | None = Field(default=None, description="store of the built-in gateway; unset: XDG data folder")
    human_genes: bool = Field(
        default=True, description="add HGNC's table of all human genes to the store at the first start"
    )
    blastdb_dirs: Annotated[tuple[Path, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="further folders with BLAST databases, as NCBI's preformatted ones; a,b"
    )


class EgressSettings(SettingsGroup):
    """Hold the settings of what may leave the machine."""

    mode: EgressMode = Field(
        default="off",
        description="off: nothing leaves the machine; local-first: the gateway, then NCBI for what it lacks; ncbi",
    )
    profile: EgressProfile | None = Field(
        default=None, description="what may leave: hospital or open; unset: open with mode ncbi, else hospital"
    )
    allow: Annotated[tuple[ParamClass, ...] | None, NoDecode, COMMA_LIST] = Field(
        default=None, description="what may leave, class by class, in place of a profile"
    )
    max_chars_per_answer: int = Field(
        default=600, ge=1, description="characters of names and ids that may leave for one answer; not with open"
    )
    max_bits_per_answer: int = Field(
        default=256, ge=1, description="bits that the choice of names and ids may say for one answer; not with open"
    )
    max_chars_per_hour: int = Field(default=10_000, ge=1, description="the same for one key in an hour")
    max_chars_per_day: int = Field(default=50_000, ge=1, description="the same for one key in a day")
    key_modes: Annotated[dict[str, EgressMode], NoDecode] = Field(
        default_factory=dict, description="lower mode of single keys, by key id: 1a2b3c4d=off"
    )

    service_url: str | None = Field(
        default=None, description="egress service that sends all calls: https://HOST:PORT, or unix:/PATH of its socket"
    )
    service_key: SecretStr | None = Field(
        default=None, description="key that servers and the egress service share, 32 characters or more"
    )
    service_ca_file: Path | None = Field(
        default=None, description="authority of the service's certificate, PEM; unset: those of the system"
    )
    service_certificate: Path | None = Field(
        default=None, description="certificate that this server shows to the service, PEM"
    )
    service_certificate_key: Path | None = Field(default=None, description="private key of that certificate, PEM")

    @field_validator("service_url")
    @classmethod
    def _is_protected(cls, url: str | None) -> str | None:
        if not url:
            return None
        if url.startswith("unix:"):
            if not url.removeprefix("unix:").startswith("/"):
                raise ValueError("a Unix socket is written as unix:/PATH")
            return url
        parts = web_address(url)
        if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError("calls and the key would pass the network unencrypted: use https")
        if parts.path.rstrip("/"):
            raise ValueError("must be an address without a path")
        return url.rstrip("/")

    @field_validator("service_key")
    @classmethod
    def _is_long(cls, key: SecretStr | None) -> SecretStr | None:
        text = key.get_secret_value() if key is not None else ""
        if text and (len(text) < _LEAST_SERVICE_KEY or not text.isascii() or not text.isprintable() or " " in text):
            raise ValueError(f"needs at least {_LEAST_SERVICE_KEY} printable characters: openssl rand -hex 24")
        return key if text else None

    @property
    def service_host(self) -> str:
        """Return the host of the egress service, or its socket's path; "" where there is no service."""
        url = self.service_url or ""
        return url.removeprefix("unix:") if url.startswith("unix:") else urlsplit(url).netloc

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
        if (self.service_certificate is None) != (self.service_certificate_key is None):
            raise ValueError("service_certificate: set egress.service_certificate_key too, or neither")
        return self


class EgressServiceSettings(SettingsGroup):
    """Configure ``arrowhead egress serve``; servers read ``egress.service_url`` and what follows it."""

    host: str = Field(default="127.0.0.1", description="address to listen on; not loopback: with certificates alone")
    port: int = Field(default=8770, ge=0, le=65_535, description="0 takes a free port")
    socket: Path | None = Field(
        default=None, description="Unix socket in place of the address; who may open it decides who may use the service"
    )
    certificate: Path | None = Field(default=None, description="certificate of the service, PEM, with its chain")
    certificate_key: Path | None = Field(default=None, description="private key of the certificate, PEM")
    client_ca_file: Path | None = Field(
        default=None, description="authority whose certificates servers must show, PEM; unset: egress.service_key alone"
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("certificate: egress_service.certificate and certificate_key belong together")
        if self.client_ca_file is not None and self.certificate is None:
            raise ValueError("client_ca_file: certificates of servers need TLS: set egress_service.certificate")
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
