"""Hold the files of the page: read once, each with its media type and the headers it is sent with."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from server.middleware import WEB_FILES

_KINDS: Final = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "json": "application/json",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
    "txt": "text/plain",
}
INDEX: Final = "index.html"
# The styles stand in the page itself, since a browser shows nothing before it has them.
STYLES: Final = ("style.css", "screens.css")
_TEXTS: Final = "en.json"
_STYLE_PLACE: Final = "<style></style>"
_WORDS: Final = re.compile(r"\{([\w.]+)\}")
# All is this server's own; HTML is inserted at one place only, which the browser enforces (Trusted Types).
_POLICY: Final = (
    "default-src 'none'; script-src 'self' {scripts}; style-src {styles}; font-src 'self'; connect-src 'self'; "
    "img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types rendered"
)
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Kept by the browser and asked for again each time, which costs 304 and no body.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """Hold one file of the page; ``policy`` is its Content-Security-Policy, "" for none."""

    content: bytes
    media_type: str
    etag: str
    policy: str = ""

    def headers(self) -> dict[str, str]:
        own = {"Content-Security-Policy": self.policy} if self.policy else {}
        return _HEADERS | {"ETag": self.etag} | own


@cache
def page_file(name: str) -> PageFile:
    """Return a file of the page.

    Raises:
        KeyError: the page has no such file.
    """
    if name != INDEX and name not in WEB_FILES:
        raise KeyError(name)
    content = _index() if name == INDEX else _read(name)
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    policy = _policy_of(content.decode()) if name == INDEX else ""
    return PageFile(content, _KINDS[name.rsplit(".", 1)[-1]], etag, policy)


def _read(name: str) -> bytes:
    return (files("server.web") / "static" / name).read_bytes()


def _index() -> bytes:
    """Return the page with the words of its header and its styles, so that one reply is enough for a first sight."""
    texts: dict[str, str] = json.loads(_read(_TEXTS))
    page = _WORDS.sub(lambda key: texts[key[1]], _read(INDEX).decode())
    styles = "".join(_read(name).decode() for name in STYLES)
    return page.replace(_STYLE_PLACE, f"<style>{styles}</style>").encode()


def _policy_of(page: str) -> str:
    """Return the policy that permits what stands in the page by its digest, and no other inline style or script."""
    return _POLICY.format(scripts=_digests(page, "script"), styles=_digests(page, "style"))


def _digests(page: str, tag: str) -> str:
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in found)
