"""Define the settings of the HTTP server, of the state that servers share, and of spans, traces and logs."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import parse_qs, urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from server.settings.base import COMMA_LIST, Seconds, SettingsGroup, web_address

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def origin_of(text: str) -> str:
    """Return an origin as browsers write it: in lower case, without the default port of its scheme.

    Raises:
        ValueError: the text is not an origin.
    """
    try:
        parts = urlsplit(text.strip().lower())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    bare = not (parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc)
    if not (bare and _SCHEME.fullmatch(parts.scheme) and parts.hostname and "*" not in parts.netloc):
        raise ValueError(f"{text[:100]!r} is no origin: write https://lab.example or http://localhost:3000, never *")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port_suffix = "" if port is None or port == DEFAULT_PORTS.get(parts.scheme) else f":{port}"
    return f"{parts.scheme}://{host}{port_suffix}"


def is_loopback(host: str) -> bool:
    """Return whether a host is localhost or a loopback address; a name is never resolved."""
    if host.lower() in {"localhost", "localhost."}:
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


# Whose emergency numbers are named; each has a row in server/methods/shared/conversation/emergency_numbers.toml.
Region = Literal["eu", "at", "au", "be", "ca", "ch", "de", "es", "fr", "gb", "ie", "it", "nl", "nz", "pt", "us"]


class ServerSettings(SettingsGroup):
    """Configure the HTTP server: address, keys, limits and timeouts."""

    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8000, ge=0, le=65_535, description="0 takes a free port")
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="clients must send one of them as a bearer token"
    )
    keys_file: Path | None = Field(default=None, description="keys of `arrowhead key`; unset: XDG data folder")
    cache_salt: str = Field(
        default="key",
        pattern=r"^(key|none|organisation:.{1,100})$",
        description="who shares a prefix cache: key, organisation:NAME or none; but for key, times reveal questions",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="further Host header names to accept on a loopback bind"
    )
    cors_origins: Annotated[tuple[str, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="web pages that may ask, as https://lab.example; a,b"
    )
    max_body_bytes: int = Field(default=1_048_576, ge=1024, description="largest request body")
    slow_client_s: Seconds = Field(
        default=30.0,
        description="a request must be here after so long, and a second for each 16 KiB of its body; a client that "
        "takes nothing for so long is cut off",
    )
    max_in_flight: int | None = Field(
        default=None, ge=1, description="requests answered at once; unset: twice the engine's sequences"
    )
    max_in_flight_per_key: int | None = Field(default=None, ge=1, description="of one API key; unset: no bound")
    max_waiting: int = Field(default=192, ge=0, description="requests that wait for a place; more get 429")
    request_timeout_s: Seconds = Field(default=1800.0, description="one answer with its wait; then 504")
    region: Region | Literal["off"] = Field(
        default="eu", description="whose emergency numbers; eu: 112 or the local number; off: none are told"
    )
    drain_notice_s: float = Field(
        default=3.0, ge=0, le=3600, description="after SIGTERM, new requests still get a 503 for so long"
    )
    shutdown_grace_s: Seconds = Field(default=10.0, description="streams in flight may finish for so long")

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

    @property
    def shared_salt(self) -> str | None:
        """Return the salt of the prefix cache that all keys share, "" for no salt, None where each key has its own.

        With a shared cache, the time to first token reveals how earlier prompts of other keys began.
        """
        return {"key": None, "none": ""}.get(self.cache_salt, self.cache_salt)


class StateSettings(SettingsGroup):
    """Configure where the state lies that several servers can share: keys, rate limits, traces, jobs."""

    url: SecretStr | None = Field(
        default=None, description="postgresql://USER:PASSWORD@HOST/DATABASE; unset: files and memory of this machine"
    )
    responses_key_file: Path | None = Field(
        default=None, description="keys (Fernet, one a line, newest first) that seal stored responses; unset: none are"
    )
    max_trace_age_s: float = Field(default=604_800.0, gt=0, description="traces of the database are deleted after that")

    @field_validator("url")
    @classmethod
    def _is_protected(cls, url: SecretStr | None) -> SecretStr | None:
        if url is None or not url.get_secret_value():
            return None
        parts = urlsplit(url.get_secret_value())
        if parts.scheme not in {"postgresql", "postgres"}:
            raise ValueError("must be a postgresql:// address")
        options = parse_qs(parts.query)
        hosts = options.get("host") or [parts.hostname or ""]
        stays = all(host == "" or host.startswith("/") or is_loopback(host) for host in hosts)
        if not stays and options.get("sslmode", [""])[-1] not in {"require", "verify-ca", "verify-full"}:
            raise ValueError("keys and questions would pass the network unencrypted: add ?sslmode=verify-full")
        return url


class TracingSettings(SettingsGroup):
    """Configure the export of spans."""

    endpoint: str | None = Field(
        default=None, description="OTLP over HTTP, e.g. http://127.0.0.1:4318; unset: no spans"
    )

    @field_validator("endpoint")
    @classmethod
    def _with_path(cls, url: str | None) -> str | None:
        if not url:
            return None
        parts = web_address(url)
        return url.rstrip("/") if parts.path.rstrip("/") else f"{url.rstrip('/')}/v1/traces"

    @property
    def host(self) -> str:
        """Return the host that spans are sent to, "" for none."""
        return urlsplit(self.endpoint or "").hostname or ""


class TraceSettings(SettingsGroup):
    """Configure the storage of traces."""

    max_traces: int = Field(default=1000, ge=0, description="answers kept in memory, shared fairly between keys")
    dir: Path | None = Field(default=None, description="also append each trace to a JSONL file here")


class LogSettings(SettingsGroup):
    """Configure the log."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    format: Literal["text", "json"] = "text"
