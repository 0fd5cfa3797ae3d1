"""Format one call as one line of text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from models.decoding.types import CallReply
from server.methods.base import Reference
from server.methods.shared.identifiers import numbers_and_identifiers

# Parameters that carry the query; the short form omits the others.
_QUERY_PARAMETERS = ("term", "id", "QUERY", "RID", "linkname")
_MAX_VALUE = 60
_NOUNS = {
    "esearch": "id",
    "elink": "id",
    "epost": "id",
    "blast_put": "hit",
    "blast_get": "hit",
    "einfo": "database",
    "espell": "spelling",
}
ELLIPSIS = "…"


def summary(reply: CallReply) -> str:
    """Return a short phrase for a reply: ``3 ids``, ``1 record``, ``0 hits``, or the error.

    With the words that a search ignored, which its records are not of: ``3 ids, not of XYZQQQ``.
    """
    if reply.status == "duplicate":
        return "same call as before"
    if reply.status in ("error", "refused"):
        return reply.text.strip().strip("[]")
    number = int(reply.record.get("num_records") or 0)
    noun = _NOUNS.get(str(reply.record.get("endpoint")), "record")
    if reply.status == "empty" or not number:
        return f"0 {noun}s"
    ignored = ", ".join(map(str, reply.record.get("ignored_words") or ()))[:_MAX_VALUE]
    return f"{number} {noun}{'' if number == 1 else 's'}{f', not of {ignored}' if ignored else ''}"


def short_url(url: str) -> str:
    """Return the URL without the parameters that only set formats: ``…?db=gene&…&term=LMP10``."""
    head, question, query = url.partition("?")
    if not question:
        return head
    parts = query.split("&")
    params: list[str] = []
    for place, part in enumerate(parts):
        name, _, value = part.partition("=")
        if place == 0 or name in _QUERY_PARAMETERS:
            params.append(f"{name}={value if len(value) <= _MAX_VALUE else value[:_MAX_VALUE] + ELLIPSIS}")
        elif not params or params[-1] != ELLIPSIS:
            params.append(ELLIPSIS)
    return f"{head}?{'&'.join(params)}"


def call_query(url: str) -> str:
    """Return what a call asks for, without its URL: ``esearch gene: LMP10``."""
    head, _, query = url.partition("?")
    params = dict(parse_qsl(query))
    endpoint = "BLAST" if head.endswith("Blast.cgi") else head.rsplit("/", 1)[-1].removesuffix(".fcgi")
    where = params.get("db") or params.get("DATABASE") or ""
    term = next((params[name] for name in _QUERY_PARAMETERS if params.get(name)), "")
    if len(term) > _MAX_VALUE:
        term = term[:_MAX_VALUE] + ELLIPSIS
    label = f"{endpoint} {where}".rstrip()
    return f"{label}: {term}" if term else label


def call_line(url: str, phrase: str) -> str:
    return f"[{short_url(url)}]-> {phrase}"


MAX_REFERENCES = 8
HEADING = "\n\nReferences:\n"
# Web pages of records, for databases whose page addresses contain the record id.
_PAGES = {
    "gene": ("NCBI Gene", "https://www.ncbi.nlm.nih.gov/gene/{}"),
    "snp": ("dbSNP", "https://www.ncbi.nlm.nih.gov/snp/rs{}"),
    "omim": ("OMIM", "https://www.omim.org/entry/{}"),
    "clinvar": ("ClinVar", "https://www.ncbi.nlm.nih.gov/clinvar/variation/{}"),
    "pubmed": ("PubMed", "https://pubmed.ncbi.nlm.nih.gov/{}"),
    "nuccore": ("NCBI Nucleotide", "https://www.ncbi.nlm.nih.gov/nuccore/{}"),
    "nucleotide": ("NCBI Nucleotide", "https://www.ncbi.nlm.nih.gov/nuccore/{}"),
    "protein": ("NCBI Protein", "https://www.ncbi.nlm.nih.gov/protein/{}"),
    "taxonomy": ("NCBI Taxonomy", "https://www.ncbi.nlm.nih.gov/taxonomy/{}"),
    "medgen": ("MedGen", "https://www.ncbi.nlm.nih.gov/medgen/{}"),
}
_RECORD_ENDPOINTS = frozenset({"esummary", "efetch"})


def collect(records: Sequence[Mapping[str, Any]], answer: str | None = None) -> list[tuple[str, str]]:
    """Return (title, address) of the records in which a part of the answer stands, those of the latest call first.

    Where it stands in none, as in an answer in the model's own words, the first record of the latest call. Without an
    answer, all records.
    """
    read = [one for record in reversed(records) for one in _pages_of(record)]
    if answer is None:
        return [*dict.fromkeys((one.title, one.url) for one in read)][:MAX_REFERENCES]
    return standing(records, answer) or [(one.title, one.url) for one in read[:1]]


def standing(records: Sequence[Mapping[str, Any]], text: str, question: str = "") -> list[tuple[str, str]]:
    """Return (title, address) of the records in which a part of a text stands, those of the latest call first.

    Of several, those that also name an identifier of the question, where there are any.
    """
    read = [one for record in reversed(records) for one in _pages_of(record)]
    spans = [part.strip() for part in re.split(r"[,;\n]", text) if part.strip()]
    spans += numbers_and_identifiers(text)
    found = [one for one in read if any(_stands(span, one.text) for span in spans)]
    if not found:
        found = [one for one in read if any(_stands(span.casefold(), one.text.casefold()) for span in spans)]
    asked = [one.casefold() for one in numbers_and_identifiers(question)]
    named = [one for one in found if any(_stands(name, one.text.casefold()) for name in asked)]
    return [*dict.fromkeys((one.title, one.url) for one in named or found)][:MAX_REFERENCES]


def records_read(found: Sequence[tuple[str, str]]) -> str:
    """Return the list of records in which nothing was found that answers, for people to look themselves."""
    return "\n\nRecords read:\n" + "\n".join(f"- [{title}]({url})" for title, url in found)


class _ReadRecord(NamedTuple):
    """Hold a record that was read: its text, and its title and page for people."""

    text: str
    title: str
    url: str


def _pages_of(record: Mapping[str, Any]) -> Iterator[_ReadRecord]:
    """Yield each record of a reply that is still current and has a page."""
    if record.get("endpoint") not in _RECORD_ENDPOINTS or record.get("db") not in _PAGES:
        return
    name, page = _PAGES[record["db"]]
    for one in record.get("records") or ():
        uid = str(one["id"]).removeprefix("rs")
        if uid and not one["replaced_by"]:
            mark = " (RETRACTED)" if uid in (record.get("retracted") or ()) else ""
            label = f"{name} {'rs' if record['db'] == 'snp' else ''}{uid}{mark}"
            yield _ReadRecord(one["text"], ", ".join(filter(None, (one["title"], label))), page.format(uid))


def _stands(span: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(span)}(?!\w)", text) is not None


def render(found: Sequence[tuple[str, str]], offset: int) -> tuple[str, tuple[Reference, ...]]:
    """Return the reference list for an answer of ``offset`` characters, and the references with marker offsets."""
    if not found:
        return "", ()
    text, references = HEADING, []
    for number, (title, url) in enumerate(found, 1):
        marker = f"[{number}]"
        start = offset + len(text)
        references.append(Reference(number, title, url, start, start + len(marker)))
        text += f"{marker} [{title}]({url})\n"
    return text.rstrip("\n"), tuple(references)
