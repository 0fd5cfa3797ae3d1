"""Serve the page (``/``, ``/web/…``) and what it alone needs: rendered Markdown, what its key may do, the status.

The page's files contain no data of the server and need no key, since a browser cannot send one for them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import nh3
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from pydantic import ConfigDict, Field
from starlette.exceptions import HTTPException

from retrieval.corpus.search.ranking import MAX_K
from retrieval.errors import RetrievalError
from retrieval.formats.records import DATABASES
from retrieval.gateway.importing.tables import tables_of
from retrieval.gateway.store.open import open_store
from server.api.declarations import Reads, Reply, Responses, errors
from server.api.http_io import Body, cancel_on_disconnect, read_body
from server.api.retrieval.namespaces import changes_allowed
from server.egress.policy import EgressPolicy
from server.errors import RequestError
from server.middleware import host_name
from server.settings.loading import audit_path, gateway_dir
from server.settings.schema import Settings
from server.web.files import INDEX, language_of, page_files
from server.wiring.services import Services

router = APIRouter(tags=["Page"])
# Rendering 100,000 unfavourable characters takes about 2 s of a thread.
MAX_RENDERED: Final = 100_000
MAX_TEXTS: Final = 64
_FILE: Final[Responses] = {200: {"content": {"*/*": {"schema": {"type": "string"}}}}}
_TAG_NAMES: Final = (
    "a blockquote br code dd del dl dt em h1 h2 h3 h4 h5 h6 hr li ol p pre s strong sub sup table tbody td th thead "
    "tr ul"
)
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = frozenset({"http", "https"})
# Characters that change the direction of the text around them. Each element is isolated by its ``dir="auto"``; these
# could still reorder a line inside it, e.g. show a number backwards.
_BIDI_CONTROLS: Final = dict.fromkeys(map(ord, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"), "\ufffd")

# Where references of answers lead, these and their subdomains; another address is shown and leads nowhere.
LINKED_HOSTS: Final = (
    "nih.gov", "doi.org", "omim.org", "uniprot.org", "ensembl.org", "clinicaltrials.gov", "europepmc.org",
    "identifiers.org", "purl.obolibrary.org",
)  # fmt: skip


class RenderBody(Body):
    """Name the Markdown texts to render, at most 100,000 characters together.

    ``hosts`` may be linked beside those of the public databases, such as those of an answer's own references.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"texts": ["**bold**"]}]})
    texts: Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS)]
    hosts: Annotated[list[Annotated[str, Field(max_length=253)]], Field(max_length=MAX_TEXTS, default_factory=list)]


class Rendered(Reply):
    """Hold one text as HTML."""

    html: str


class RenderedList(Reply):
    """List the texts as HTML, in the order of the request."""

    object: Literal["list"]
    data: list[Rendered]


class Permissions(Reply):
    """Say what the key of this request may do."""

    object: Literal["permissions"]
    key_id: str = Field(description="of the key, as in logs; empty without keys")
    needs_key: bool
    methods: list[str]
    egress: str
    may_change_namespaces: bool
    may_administer: bool
    max_upload_bytes: int
    max_k: int
    max_rendered: int


class AuditState(Reply):
    """Tell whether what leaves is logged; ``last`` is the Unix time of the last line, None where there is none."""

    recording: bool
    bytes: int
    last: int | None


class GatewayTable(Reply):
    """Describe what one file gave the built-in gateway's store."""

    name: str
    source: str
    date: str
    entries: int
    licence: str


class Status(Reply):
    """Describe what ``/ready`` does not tell: the audit log, and the records and tables of the built-in gateway."""

    object: Literal["status"]
    audit: AuditState
    gateway: dict[str, int]
    gateway_tables: list[GatewayTable]


@router.get("/", summary="Return the page for people", response_class=Response, responses=_FILE)
async def index(request: Request) -> Response:
    return _reply(request, INDEX)


@router.get(
    "/web/{name}", summary="Return a script, style, text or font of the page", response_class=Response, responses=_FILE
)
async def web_file(request: Request, name: str) -> Response:
    return _reply(request, name)


@router.post(
    "/v1/render",
    summary="Turn Markdown into HTML that is safe to show",
    openapi_extra=Reads(RenderBody),
    responses={200: {"model": RenderedList}, **errors(413, 422, 429)},
)
async def render(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_body(request, RenderBody)
    if sum(map(len, body.texts)) > MAX_RENDERED:
        raise RequestError(f"texts: at most {MAX_RENDERED} characters together", param="texts")
    hosts = (*body.hosts, host_name(request.headers.get("host", "")))
    async with cancel_on_disconnect(request.receive):
        data = await services.compute(request.state.owner, lambda: _rendered(body.texts, hosts))
    return JSONResponse({"object": "list", "data": data}, headers={"Cache-Control": "no-store"})


@router.get("/v1/permissions", summary="Say what this key may do", responses={200: {"model": Permissions}})
async def permissions(request: Request) -> Response:
    """Return the scopes of the key, as far as a page shows or hides something by them."""
    services: Services = request.app.state.services
    principal = request.state.principal
    policy = services.egress.policy if services.egress else EgressPolicy.of(services.settings.egress)
    fields: dict[str, Any] = {
        "object": "permissions",
        "key_id": principal.key_id,
        "needs_key": services.key_lookup.requires_key,
        "methods": list(dict.fromkeys(served.name for served in services.models(principal))),
        "egress": policy.ceiling(principal.key_id),
        "may_change_namespaces": changes_allowed(services) and principal.may_change,
        "may_administer": principal.may_administer,
        "max_upload_bytes": services.settings.retrieval.max_upload_bytes,
        "max_k": MAX_K,
        "max_rendered": MAX_RENDERED,
    }
    return JSONResponse(fields, headers={"Cache-Control": "no-store"})


@router.get("/v1/status", summary="Describe audit log and gateway", responses={200: {"model": Status}, **errors(429)})
async def status(request: Request) -> Response:
    """Return the state of the audit log, and how many records answer look-ups on this machine."""
    services: Services = request.app.state.services
    fields = await services.compute(request.state.owner, lambda: status_of(services.settings))
    return JSONResponse({"object": "status", **fields}, headers={"Cache-Control": "no-store"})


@cache
def _renderer() -> MarkdownRenderer:
    return MarkdownRenderer()


def _rendered(texts: Sequence[str], hosts: Collection[str]) -> list[dict[str, str]]:
    return [{"html": _renderer().render(text, hosts)} for text in texts]


def _reply(request: Request, name: str) -> Response:
    pages = page_files()
    accepted = request.headers.get("accept-language", "")
    language = language_of(request.cookies.get("arrowhead_language", ""), accepted, pages.languages)
    try:
        file = pages.get(name, language)
    except KeyError:
        raise HTTPException(404) from None
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=file.headers())
    return Response(file.content, media_type=file.media_type, headers=file.headers())


class MarkdownRenderer:
    """Turn Markdown of models and documents into HTML that is safe to insert into the page; used from any thread.

    Two libraries stand one behind the other: markdown-it-py escapes all HTML of the text, and nh3 lets through only the
    elements and attributes listed above. No image, style, script, event handler or address other than http and https
    passes. What a text may copy from a hostile document is no part of the page either: its headings are strong text,
    and its links to other hosts show their address and lead nowhere.
    """

    def __init__(self) -> None:
        parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
        self._parser = parser.enable(["table", "strikethrough"]).disable(["image", "reference"])
        self._parser.core.ruler.push("plain", _without_headings_and_foreign_links)
        self._cleaner = nh3.Cleaner(
            tags=set(_TAG_NAMES.split()),
            attributes=_ATTRIBUTES,
            url_schemes=set(_SCHEMES),
            link_rel="noopener noreferrer nofollow",
            set_tag_attribute_values={"a": {"target": "_blank"}},
        )

    def render(self, text: str, hosts: Collection[str] = ()) -> str:
        """Return the HTML of one text, with links to ``LINKED_HOSTS`` and ``hosts`` alone.

        Linear in its length: 60,000 characters of unfavourable text take up to about 1.5 s.
        """
        env = {"hosts": frozenset(map(str.lower, hosts))}
        return self._cleaner.clean(self._parser.render(text.translate(_BIDI_CONTROLS), env))


def _without_headings_and_foreign_links(state: StateCore) -> None:
    is_heading = False
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag, is_heading = "p", token.type == "heading_open"
        elif token.type == "inline" and token.children is not None:
            token.children = _unlinked(token.children, state.env["hosts"])
            if is_heading:
                token.children = [
                    Token("strong_open", "strong", 1),
                    *token.children,
                    Token("strong_close", "strong", -1),
                ]


def _unlinked(tokens: Sequence[Token], hosts: Collection[str]) -> list[Token]:
    """Return inline tokens in which a link to another host is its text with the address behind it."""
    kept: list[Token] = []
    address: str | None = None
    begin = 0
    for token in tokens:
        if token.type == "link_open" and not _is_linked(str(token.attrGet("href") or ""), hosts):
            address, begin = str(token.attrGet("href") or ""), len(kept)
        elif token.type == "link_close" and address is not None:
            shown = "".join(one.content for one in kept[begin:])
            if shown != address:
                kept.append(Token("text", "", 0, content=f" ({address})"))
            address = None
        else:
            kept.append(token)
    return kept


def _is_linked(href: str, hosts: Collection[str]) -> bool:
    """Return whether an address is of this server or of a host that may be linked."""
    try:
        parts = urlsplit(href)
        host = parts.hostname or ""
    except ValueError:
        return False
    if not parts.scheme and not parts.netloc:
        return href.startswith(("/", "#")) and not href.startswith("//")
    known = any(host == one or host.endswith(f".{one}") for one in LINKED_HOSTS)
    return parts.scheme in _SCHEMES and "@" not in parts.netloc and (known or host in hosts)


def status_of(settings: Settings) -> dict[str, Any]:
    """Return the state of the audit log and of the gateway's store, read from their files."""
    return {"audit": _audit(settings), **_gateway(settings)}


def _audit(settings: Settings) -> dict[str, Any]:
    recording = settings.egress.mode != "off" or settings.audit.path is not None
    try:
        found = audit_path(settings).stat() if recording else None
    except OSError:
        found = None
    return {
        "recording": recording,
        "bytes": found.st_size if found else 0,
        "last": int(found.st_mtime) if found else None,
    }


def _gateway(settings: Settings) -> dict[str, Any]:
    """Return the number of records by database and the tables they are from, empty where the store cannot be read."""
    try:
        store = open_store(gateway_dir(settings))
    except (RetrievalError, OSError):
        return {"gateway": {}, "gateway_tables": []}
    try:
        shown = ("name", "source", "date", "entries", "licence")
        tables = [{name: getattr(table, name) for name in shown} for table in tables_of(store)]
        return {"gateway": {name: store.count(name) for name in DATABASES}, "gateway_tables": tables}
    finally:
        store.close()
