"""Decide whether a request is admitted, on its headers alone, before any of the body is read."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from server.auth.api_keys import Keyring
from server.auth.rate_limits import RateLimiter
from server.auth.scopes import OPERATOR, Principal
from server.errors import ForbiddenHost, ForbiddenOrigin, Unauthorized
from server.settings.server import DEFAULT_PORTS, ServerSettings, is_loopback, origin_of

_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


def host_name(host: str) -> str:
    """Return the name in a Host header, in lower case, without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() and port.isascii() else host).lower()


def is_same_origin(origin: str, host: str) -> bool:
    """Return whether the page is one of this server.

    The scheme is ignored, since a proxy may have terminated TLS.
    """
    try:
        page = urlsplit(origin_of(origin))
        own_origin = urlsplit(origin_of(f"{page.scheme}://{host}"))
    except ValueError:
        return False
    return page.scheme in DEFAULT_PORTS and page.netloc == own_origin.netloc


def is_subresource(site: str, mode: str, destination: str) -> bool:
    """Return whether a page of another origin loads this as a subresource, by the Sec-Fetch headers.

    Following a link to it does not count. False if the headers are missing, as from clients other than browsers.
    """
    return site in _OTHER_SITES and (mode, destination) != ("navigate", "document")


def is_local_name(name: str, further: Collection[str]) -> bool:
    return name in LOCAL_NAMES or name in further


_WEB_NAMES: Final = (
    "app.js answer.js api.js articles.js chat.js composer.js details.js dom.js export.js fetching.js graph.js keys.js "
    "library.js literature.js reader.js run.js search.js sources.js status.js store.js texts.js theme.js en.json "
    "icon.svg inter-latin.woff2 inter-greek.woff2 inter-LICENSE.txt"
)
WEB_FILES: Final = frozenset(_WEB_NAMES.split())
# All but /health are pages without data, for which a browser cannot send a key; the data that they show needs one.
OPEN_PATHS: Final = frozenset(
    {"/", "/health", "/docs", "/docs/page.js", "/docs/page.css", "/docs/page.svg"}
    | {f"/web/{name}" for name in WEB_FILES}
)
# Anthropic's clients send their key in a header of its own.
_ANTHROPIC_PATHS: Final = frozenset({"/v1/messages", "/v1/messages/count_tokens"})
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_TOKENS: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2000}", re.ASCII)
_EXPOSED_HEADERS: Final = "x-request-id, retry-after, location, " + ", ".join(
    f"x-ratelimit-{what}-{unit}" for unit in ("requests", "tokens") for what in ("limit", "remaining", "reset")
)


class AccessControl:
    """Check hosts, origins, API keys and rates.

    One instance per process, used from its event loop.
    """

    def __init__(self, settings: ServerSettings, keyring: Keyring, rates: RateLimiter) -> None:
        self._keyring = keyring
        self._rates = rates
        self._is_local = is_loopback(settings.host)
        self._hosts = frozenset(name.lower() for name in (*settings.allowed_hosts, settings.host))
        self._pages = frozenset(settings.cors_origins)

    def check_page(self, method: str, headers: Headers) -> None:
        """Check the Host and Origin headers of a request.

        On a loopback address, no page of another, unlisted origin is answered at all: the server may be without keys,
        and then every site opened on this machine could use it.

        Raises:
            ForbiddenHost: a loopback address was requested under another name.
            ForbiddenOrigin: a page of this origin may not use the server.
        """
        host = headers.get("host", "")
        if self._is_local and not is_local_name(host_name(host), self._hosts):
            raise ForbiddenHost("this server answers to its own address only")
        origins = headers.getlist("origin")
        if not origins:
            if self._is_local and is_subresource(
                *(headers.get(f"sec-fetch-{n}", "") for n in ("site", "mode", "dest"))
            ):
                raise ForbiddenOrigin("a page of another origin may not load this as a part of itself")
            return
        if len(origins) == 1 and (self._listed(origins[0]) or is_same_origin(origins[0], host)):
            return
        if self._is_local or method not in _READING:
            raise ForbiddenOrigin("a page of this origin may not use the server")

    def cors_headers(self, method: str, headers: Headers) -> dict[str, str]:
        """Return the CORS headers of a reply to a listed page; at most ``vary`` for others.

        Keys travel in a header and cookies are not used, so credentials are never allowed.
        """
        origin = headers.get("origin", "")
        if not self._pages or not self._listed(origin):
            return {"vary": "Origin"} if self._pages else {}
        cors = {
            "vary": "Origin",
            "access-control-allow-origin": origin,
            "access-control-expose-headers": _EXPOSED_HEADERS,
        }
        if self.is_preflight(method, headers):
            requested_headers = headers.get("access-control-request-headers", "")
            cors["access-control-allow-methods"] = "GET, HEAD, POST, PUT, DELETE"
            cors["access-control-allow-headers"] = (
                requested_headers if _TOKENS.fullmatch(requested_headers) else "authorization"
            )
            cors["access-control-max-age"] = "600"
            if headers.get("access-control-request-private-network") == "true":
                cors["access-control-allow-private-network"] = "true"
        return cors

    def is_preflight(self, method: str, headers: Headers) -> bool:
        """Return whether the request is a listed page's CORS preflight, which carries no key."""
        asks = method == "OPTIONS" and "access-control-request-method" in headers
        return asks and len(headers.getlist("origin")) == 1 and self._listed(headers["origin"])

    def admit(self, path: str, headers: Headers) -> Principal:
        """Return the permissions of the request.

        A public path gets permissions too, but only for itself.

        Raises:
            Unauthorized: there is no valid key.
            KeyStoreError: the file of keys cannot be read.
        """
        if path in OPEN_PATHS or (self._is_local and not self._keyring.requires_key):
            return OPERATOR
        key = _key_of(path, headers)
        if not key:
            raise Unauthorized("a valid API key is required")
        return self._keyring.find(key)

    async def take(self, principal: Principal) -> None:
        """Charge the request to its key's rate limit.

        Raises:
            RateExceeded: the limit is reached.
        """
        if not principal.is_operator:
            await self._rates.take(principal)

    def rate_headers(self, principal: Principal) -> dict[str, str]:
        return {} if principal.is_operator else self._rates.headers(principal)

    def _listed(self, origin: str) -> bool:
        try:
            return origin_of(origin) in self._pages
        except ValueError:
            return False


def _key_of(path: str, headers: Headers) -> str:
    """Return the request's API key, "" where it has none or more than one."""
    authorizations = headers.getlist("authorization")
    api_keys = headers.getlist("x-api-key") if path in _ANTHROPIC_PATHS else []
    if len(authorizations) + len(api_keys) != 1:
        return ""
    if api_keys:
        return api_keys[0].strip()
    scheme, _, key = authorizations[0].partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
