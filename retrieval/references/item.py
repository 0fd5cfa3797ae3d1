"""Define a reference as plain data: an item of CSL-JSON, and what is read from it. Pure.

The form: https://docs.citationstyles.org, "CSL-JSON". An item holds only what is known; a missing key is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from retrieval.passages import Document

Item = Mapping[str, Any]
PUBMED: Final = "https://pubmed.ncbi.nlm.nih.gov/"
_PMID: Final = re.compile(r"https?://(?:pubmed\.ncbi\.nlm\.nih\.gov|(?:www\.)?ncbi\.nlm\.nih\.gov/pubmed)/([0-9]+)/?")
_DOI: Final = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(10\.[0-9]{4,9}/\S+)", re.IGNORECASE)
_DOCUMENT_ID: Final = re.compile(r"(PMID|PMC):([0-9]+)")
_LAST_AND_INITIALS: Final = re.compile(r"(.+?) ([A-ZÀ-Þ]{1,4})(?: (Jr|Sr|II|III|IV|2nd|3rd))?")


def item_of_link(title: str, url: str) -> dict[str, Any]:
    """Return the item of a source of which no more than title and address is known."""
    pmid, doi = pmid_of(url), doi_of(url)
    kind = "article-journal" if pmid or doi else "webpage"
    known = {"title": plain_title(title), "URL": url, "PMID": pmid, "DOI": doi}
    identity = f"pmid:{pmid}" if pmid else doi or url or title
    return {"id": identity, "type": kind, **{name: value for name, value in known.items() if value}}


def document_item(document: Document) -> dict[str, Any]:
    """Return the item of a document of a namespace, with what its source told of it.

    Authors are "Last FM"; a name without initials stands as it is.
    """
    found = _DOCUMENT_ID.fullmatch(document.document_id)
    kind, number = (found[1], found[2]) if found else ("", "")
    in_journal = bool(document.journal or kind)
    address = document.url or (f"{PUBMED}{number}/" if kind == "PMID" else "")
    known = {
        "title": plain_title(document.title or document.document_id),
        "author": [_author(name) for name in document.authors],
        "container-title": document.journal,
        "issued": _issued(document.date),
        "PMID": number if kind == "PMID" else pmid_of(address),
        "PMCID": f"PMC{number}" if kind == "PMC" else "",
        "URL": address,
        "note": "Retracted" if document.is_retracted else "",
    }
    told = {name: value for name, value in known.items() if value}
    return {"id": document.document_id, "type": "article-journal" if in_journal else "document", **told}


def _author(name: str) -> dict[str, str]:
    found = _LAST_AND_INITIALS.fullmatch(name.strip())
    if found is None:
        return {"literal": name.strip()}
    return person(found[1], " ".join(found[2]), found[3] or "")


def _issued(date: int) -> dict[str, Any]:
    parts = [date // 10_000, date // 100 % 100, date % 100]
    known = parts[: parts.index(0)] if 0 in parts else parts
    return {"date-parts": [known]} if known else {}


def pmid_of(url: str) -> str:
    """Return the PMID of an address of PubMed, "" for other addresses."""
    found = _PMID.match(url)
    return found[1] if found else ""


def doi_of(text: str) -> str:
    """Return the bare DOI of a DOI or its address, "" for other text."""
    found = _DOI.fullmatch(text.strip())
    return found[1] if found else ""


def plain_title(title: str) -> str:
    """Return a title on one line, without the full stop that PubMed ends it with."""
    shown = " ".join(title.split())
    return shown[:-1] if shown.endswith(".") and not shown.endswith("..") else shown


def person(family: str, given: str = "", suffix: str = "") -> dict[str, str]:
    """Return a CSL name; one in a script without capitals stays as it is written, as it has no initials."""
    if family.lower() == family.upper():
        return {"literal": f"{family} {given}".strip() if given else family}
    parts = {"family": family, "given": given, "suffix": suffix}
    return {name: value for name, value in parts.items() if value}


def year_of(item: Item) -> str:
    return str(date_parts(item)[0]) if date_parts(item) else ""


def date_parts(item: Item) -> Sequence[int]:
    """Return (year, month, day) of its publication as far as they are known; an impossible part ends it."""
    dates = (item.get("issued") or {}).get("date-parts") or [[]]
    parts: list[int] = []
    for part, most in zip(dates[0], (9999, 12, 31), strict=False):
        if not str(part).isascii() or not str(part).isdigit() or not 1 <= int(part) <= most:
            break
        parts.append(int(part))
    return tuple(parts)


def address_of(item: Item) -> str:
    """Return the address of the work: that of its DOI, its PubMed record or its own, "" for none."""
    if doi := str(item.get("DOI", "")):
        return f"https://doi.org/{doi}"
    pmid = str(item.get("PMID", ""))
    return f"{PUBMED}{pmid}/" if pmid else str(item.get("URL", ""))
