"""Share what the HTTP clients of model servers have in common: which addresses are safe, certificates and headers.

The clients drive httpx's transports, not its client: no redirects, cookies, proxies of the environment or log lines.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from models.engines.base import is_private
from models.errors import ModelError

# Below the 5 s after which vLLM closes an idle connection: one that it is just closing would look like its death.
KEEP_IDLE_S: Final = 2.0
WRITE_S: Final = 30.0
Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class ServerKind:
    """Name what messages about a kind of server say.

    ``settings`` begins the names of its settings (``urls``, ``allow_http``, ``ca_file``), ``sent`` is what it gets.
    """

    settings: str
    sent: str
    error: type[ModelError]

    def refusal(self, url: str, addresses: Iterable[str]) -> str:
        """Return why an http server with these addresses may not be asked, "" where all are in private networks."""
        public = next((address for address in addresses if not is_private(address)), "")
        return public and (
            f"{self.settings}urls: {url} would send {self.sent} unencrypted to {public}, which is no private address: "
            f"use https, or set {self.settings}allow_http"
        )

    def tls(self, url: str, ca_file: Path | None) -> ssl.SSLContext:
        """Return what the certificate of a server is checked with; one that is not read from a file for http.

        Raises:
            ModelError: the file of certificates cannot be read; of the class ``error``.
        """
        if not url.startswith("https"):
            return ssl.create_default_context()
        try:
            return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
        except (OSError, ssl.SSLError) as error:
            raise self.error(f"{self.settings}ca_file: {ca_file} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Set the limits of one request in seconds; ``read`` None where the reader bounds the silence itself."""

    connect_s: float
    read_s: float | None = None

    def extension(self) -> dict[str, float | None]:
        return {"connect": self.connect_s, "read": self.read_s, "write": WRITE_S, "pool": None}


def build_request(
    url: str, body: Mapping[str, Any] | None, key: str | None, limits: Timeouts, headers: Sequence[Header] = ()
) -> httpx.Request:
    """Build a POST of ``body`` as JSON, or a GET without one; ``key`` is sent as bearer token."""
    sent = [(b"accept-encoding", b"identity"), *headers]
    if body is not None:
        sent.append((b"content-type", b"application/json"))
    if key is not None:
        sent.append((b"authorization", f"Bearer {key}".encode()))
    content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
    method = "GET" if body is None else "POST"
    return httpx.Request(method, url, headers=sent, content=content, extensions={"timeout": limits.extension()})
