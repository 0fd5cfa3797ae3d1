"""Read the files of the page, and give each visitor its words in a language that the page has.

Each language is one file of words (``en.json``) beside the page's code; what a file lacks is taken from the English.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from server.middleware import WEB_FILES

INDEX: Final = "index.html"
# The styles stand in the page itself, since a browser shows nothing before it has them.
STYLES: Final = ("style.css", "screens.css", "answer.css")
TEXTS: Final = "texts.json"
USUAL: Final = "en"
_KINDS: Final = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "json": "application/json",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
    "txt": "text/plain",
}
# Of a script: indentation, and lines of comments, which are a tenth of it.
_UNSENT: Final = re.compile(r"^[ \t]*(?:(?://.*|/\*\*[\s\S]*?\*/)$)?", re.MULTILINE)
_STYLE_PLACE: Final = "<style></style>"
_WORDS: Final = re.compile(r"\{([\w.]+)\}")
_LANGUAGE: Final = re.compile(r"([a-z]{2,3})(?:-[a-z0-9-]{1,30})?(?:;q=([01](?:\.[0-9]{1,3})?))?", re.IGNORECASE)
_MAX_LANGUAGES: Final = 50
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
    """Hold one file of the page; ``further`` are headers that others of its files do not have."""

    content: bytes
    media_type: str
    etag: str
    further: dict[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        return _HEADERS | {"ETag": self.etag} | self.further


class PageFiles:
    """Read the page's files from a folder, each once.

    Thread-safe: two threads may read the same file, which is harmless.
    """

    def __init__(self, folder: Traversable) -> None:
        self._folder = folder
        self._read: dict[tuple[str, str], PageFile] = {}
        words = (one.name.removesuffix(".json") for one in folder.iterdir() if one.name.endswith(".json"))
        self.languages = frozenset(words)

    def get(self, name: str, language: str = USUAL) -> PageFile:
        """Return a file of the page; the language matters for the page itself and its words.

        Raises:
            KeyError: the page has no such file.
        """
        if name != INDEX and name not in WEB_FILES:
            raise KeyError(name)
        key = (name, language if name in (INDEX, TEXTS) else "")
        if key not in self._read:
            self._read[key] = self._made(name, language)
        return self._read[key]

    def texts(self, language: str) -> dict[str, str]:
        """Return the words of a language."""
        usual: dict[str, str] = json.loads(self._bytes(f"{USUAL}.json"))
        own: dict[str, str] = json.loads(self._bytes(f"{language}.json"))
        return usual | own

    def _made(self, name: str, language: str) -> PageFile:
        further = {"Vary": "Accept-Language, Cookie"} if name in (INDEX, TEXTS) else {}
        match name:
            case "index.html":
                content = self._index(self.texts(language) | {"languages": " ".join(sorted(self.languages))})
                further["Content-Security-Policy"] = _policy_of(content.decode())
            case "texts.json":
                content = json.dumps(self.texts(language), ensure_ascii=False, separators=(",", ":")).encode()
            case _ if name.endswith(".js"):
                content = _UNSENT.sub("", self._bytes(name).decode()).encode()
            case _:
                content = self._bytes(name)
        etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        return PageFile(content, _KINDS[name.rsplit(".", 1)[-1]], etag, further)

    def _bytes(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def _index(self, texts: dict[str, str]) -> bytes:
        """Return the page with the words of its header and its styles: one reply is enough for a first sight."""
        page = _WORDS.sub(lambda key: html.escape(texts[key[1]]), self._bytes(INDEX).decode())
        styles = "".join(self._bytes(name).decode() for name in STYLES)
        return page.replace(_STYLE_PLACE, f"<style>{styles}</style>").encode()


@cache
def page_files() -> PageFiles:
    """Return the files that come with the package."""
    return PageFiles(files("server.web") / "static")


def chosen_language(accepted: str, known: Collection[str]) -> str:
    """Return the known language that a browser's Accept-Language header likes best, English where it names none."""
    liked: list[tuple[float, str]] = []
    for part in accepted.split(",")[:_MAX_LANGUAGES]:
        found = _LANGUAGE.fullmatch(part.replace(" ", ""))
        if found and found[1].lower() in known:
            liked.append((float(found[2] or 1), found[1].lower()))
    # Of equals the first, as ``max`` returns it.
    weight, language = max(liked, key=lambda one: one[0], default=(0.0, USUAL))
    return language if weight else USUAL


def language_of(chosen: str, accepted: str, known: Collection[str]) -> str:
    """Return the language that was chosen on the page, else the one that the browser's header likes best."""
    return chosen if chosen in known else chosen_language(accepted, known)


def _policy_of(page: str) -> str:
    """Return the policy that permits what stands in the page by its digest, and no other inline style or script."""
    return _POLICY.format(scripts=_digests(page, "script"), styles=_digests(page, "style"))


def _digests(page: str, tag: str) -> str:
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in found)
