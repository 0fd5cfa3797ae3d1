"""Decide from the Host, Origin and Sec-Fetch headers which web pages may use the server.

A browser sends the requests of any page to any address, including loopback. It identifies the page: by Origin if the
request changes something or the page reads the reply, by Sec-Fetch-Site in every case. A page that reaches this machine
under a name of its own (DNS rebinding) cannot avoid sending that name as Host. All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})
LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


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
    said = "" if port is None or port == _PORTS.get(parts.scheme) else f":{port}"
    return f"{parts.scheme}://{host}{said}"


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
        here = urlsplit(origin_of(f"{page.scheme}://{host}"))
    except ValueError:
        return False
    return page.scheme in _PORTS and page.netloc == here.netloc


def is_subresource(site: str, mode: str, destination: str) -> bool:
    """Return whether a page of another origin loads this as a subresource, by the Sec-Fetch headers.

    Following a link to it does not count. False if the headers are missing, as from clients other than browsers.
    """
    return site in _OTHER_SITES and (mode, destination) != ("navigate", "document")


def is_local_name(name: str, further: Collection[str]) -> bool:
    return name in LOCAL_NAMES or name in further
