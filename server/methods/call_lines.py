"""Format one call as one line of text. Pure."""

from __future__ import annotations

from urllib.parse import parse_qsl

from models.decoding.types import CallReply

# Parameters that carry the query; the short form omits the others.
_TELLING = ("term", "id", "QUERY", "RID", "linkname")
_MAX_VALUE = 60
_NOUNS = {"esearch": "id", "elink": "id", "blast_put": "hit", "blast_get": "hit", "einfo": "database"}
ELLIPSIS = "…"


def summary(reply: CallReply) -> str:
    """Return a short phrase for a reply: ``3 ids``, ``1 record``, ``0 hits``, or the error."""
    if reply.status == "duplicate":
        return "same call as before"
    if reply.status in ("error", "refused"):
        return reply.text.strip().strip("[]")
    number = int(reply.record.get("num_records") or 0)
    noun = _NOUNS.get(str(reply.record.get("endpoint")), "record")
    if reply.status == "empty" or not number:
        return f"0 {noun}s"
    return f"{number} {noun}{'' if number == 1 else 's'}"


def short_url(url: str) -> str:
    """Return the URL without the parameters that only set formats: ``…?db=gene&…&term=LMP10``."""
    head, question, query = url.partition("?")
    if not question:
        return head
    parts = query.split("&")
    kept: list[str] = []
    for place, part in enumerate(parts):
        name, _, value = part.partition("=")
        if place == 0 or name in _TELLING:
            kept.append(f"{name}={value if len(value) <= _MAX_VALUE else value[:_MAX_VALUE] + ELLIPSIS}")
        elif not kept or kept[-1] != ELLIPSIS:
            kept.append(ELLIPSIS)
    return f"{head}?{'&'.join(kept)}"


def call_query(url: str) -> str:
    """Return what a call asks for, without its URL: ``esearch gene: LMP10``."""
    head, _, query = url.partition("?")
    given = dict(parse_qsl(query))
    endpoint = "BLAST" if head.endswith("Blast.cgi") else head.rsplit("/", 1)[-1].removesuffix(".fcgi")
    where = given.get("db") or given.get("DATABASE") or ""
    asked = next((given[name] for name in _TELLING if given.get(name)), "")
    if len(asked) > _MAX_VALUE:
        asked = asked[:_MAX_VALUE] + ELLIPSIS
    said = f"{endpoint} {where}".rstrip()
    return f"{said}: {asked}" if asked else said


def call_line(url: str, phrase: str) -> str:
    return f"[{short_url(url)}]-> {phrase}"
