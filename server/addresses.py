"""Web addresses as settings name them. Pure."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def web_address(url: str) -> SplitResult:
    """Raises ValueError with what an address must be; a name or key in it would stand in logs."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// address")
    if parts.username or parts.query or parts.fragment:
        raise ValueError("must hold no user name, query or fragment")
    return parts
