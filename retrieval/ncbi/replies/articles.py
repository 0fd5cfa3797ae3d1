"""Read efetch's forms of PubMed: XML, MEDLINE, the abstract as text, the summary as text.

Pure. XML is read by the reader of PubMed's files, MEDLINE by Biopython.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from Bio import Medline

from retrieval.errors import NCBI_MALFORMED, NcbiError
from retrieval.formats.items import MalformedRecord
from retrieval.formats.pubmed_xml import article_of
from retrieval.ncbi.replies.records import DocRecord, FailedRecord, Record

_ELEMENTS: Final = ("<PubmedArticle>", "<PubmedBookArticle>")
_RETRACTED: Final = "Retracted Publication"
_SHOWN_AUTHORS: Final = 3
_NUMBERED: Final = re.compile(r"^(?:\d{1,6}\. |\n?\d{1,6}: )", re.MULTILINE)
_PMID: Final = re.compile(r"^PMID: (\d+)", re.MULTILINE)
_SUMMARY_PMID: Final = re.compile(r"PMID: (\d+)")
_BLANK_LINE: Final = re.compile(r"\n[ \t]*\n")
# What the paragraphs of the text form begin with that are not the abstract.
_ASIDE: Final = re.compile(
    r"Author information:|Collaborators:|(?:Comment|Erratum|Update|Republished|Summary for patients|Original report) "
    r"(?:in|of|on|for)\b|(?:Partial )?Retraction (?:in|of)\b|Expression of concern|Update (?:in|of)|Associated |"
    r"(?:Copyright )?(?:©|Copyright|\(c\) )|DOI: |PMCID: |PMID: |Conflict of interest statement:|\[Article in |"
    r"(?:ClinicalTrials|Dataset)\b|Publisher:",
    re.IGNORECASE,
)
# "Kuca B(1), Silberstein SD Jr(2)(3).": initials end the first name.
_NAMES: Final = re.compile(r"[^,;:.()]{1,80} [A-Z]{1,4}(?: (?:Jr|Sr|2nd|3rd|4th))?(?:\(\d+\))*(?:[,;.]|$)")
_IN_BOOK: Final = "In: "
_RETRACTION: Final = re.compile(r"^Retraction in\b", re.MULTILINE | re.IGNORECASE)


def articles_from_xml(body: str) -> tuple[list[Record], bool]:
    """Return the articles and chapters of a PubmedArticleSet, and whether the last one is cut off.

    Raises:
        NCBI_MALFORMED: there are some, of which none can be read.
    """
    records: list[Record] = []
    starts = [(at, name) for name in _ELEMENTS for at in _places(body, name)]
    for at, name in sorted(starts):
        end = body.find(f"</{name[1:]}", at)
        if end < 0:
            break
        records.append(_from_element(body[at : end + len(name) + 1]))
    if records and all(isinstance(record, FailedRecord) for record in records):
        raise NcbiError("NCBI's articles cannot be read", NCBI_MALFORMED)
    return records, len(records) < len(starts)


def _places(body: str, name: str) -> Iterator[int]:
    at = body.find(name)
    while at >= 0:
        yield at
        at = body.find(name, at + 1)


def _from_element(xml: str) -> Record:
    try:
        article = article_of(xml)
    except MalformedRecord as error:
        return FailedRecord("", str(error))
    fields = {
        "source": article.journal[0] if article.journal else "",
        "pubdate": article.date,
        "authors": _authors(article.authors),
        "doi": article.doi,
        "abstract": " ".join(article.abstract.split()),
    }
    is_retracted = bool(article.retracted_by) or _RETRACTED in article.types
    return _record(str(article.pmid), article.title, fields, is_retracted=is_retracted)


def _record(uid: str, title: str, fields: Mapping[str, str], *, is_retracted: bool) -> DocRecord:
    return DocRecord(uid, title, {name: text for name, text in fields.items() if text}, is_retracted=is_retracted)


def _authors(names: Sequence[str]) -> str:
    if len(names) <= _SHOWN_AUTHORS + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_SHOWN_AUTHORS])}, ..., {names[-1]}"


def articles_from_medline(body: str) -> list[Record]:
    """Return the articles of MEDLINE's tagged text.

    Raises:
        NCBI_MALFORMED: the text is not in this form.
    """
    try:
        return [_from_tags(tags) for tags in Medline.parse(io.StringIO(body)) if tags]
    except (KeyError, ValueError) as error:
        raise NcbiError("NCBI's MEDLINE text cannot be read", NCBI_MALFORMED) from error


def _from_tags(tags: Mapping[str, Any]) -> Record:
    doi = next((one for one in (*tags.get("AID", ()), *_listed(tags.get("LID"))) if one.endswith("[doi]")), "")
    fields = {
        "source": tags.get("JT") or tags.get("TA") or tags.get("BTI") or "",
        "pubdate": tags.get("DP") or "",
        "authors": _authors([*tags.get("AU", ()), *tags.get("CN", ())]),
        "doi": doi.removesuffix("[doi]").strip(),
        "abstract": tags.get("AB") or "",
    }
    is_retracted = _RETRACTED in tags.get("PT", ()) or "RIN" in tags
    return _record(
        str(tags.get("PMID", "")), tags.get("TI") or tags.get("BTI") or "", fields, is_retracted=is_retracted
    )


def _listed(value: Any) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value or ()


def articles_from_abstracts(body: str) -> list[Record]:
    """Return the articles of the numbered text form, each of which ends with its PMID."""
    records: list[Record] = []
    start = 0
    for found in _PMID.finditer(body):
        records.append(_from_paragraphs(body[start : found.start()], found[1]))
        end = body.find("\n", found.end())
        start = len(body) if end < 0 else end
    return records


def _from_paragraphs(block: str, uid: str) -> Record:
    numbered = _NUMBERED.search(block)
    text = block[numbered.end() :] if numbered else block
    parts = [" ".join(part.split()) for part in _BLANK_LINE.split(text)]
    source, *rest = [part for part in parts if part and not _ASIDE.match(part)] or [""]
    book = next((part for part in rest if part.startswith(_IN_BOOK)), "")
    if book:
        # Of a chapter, the title stands first and the book behind the authors.
        source, rest = book, [source, *(part for part in rest if part != book)]
    title, *rest = rest or [""]
    # The authors stand before the abstract, where both are known.
    people = rest[:1] if rest and _NAMES.match(rest[0]) else []
    fields = {"source": source, "authors": "".join(people).rstrip("."), "abstract": " ".join(rest[len(people) :])}
    return _record(uid, title, fields, is_retracted=_RETRACTION.search(block) is not None)


def articles_from_summaries(body: str) -> list[Record]:
    """Return the articles of the summaries as text, one paragraph each: authors, title and source in one."""
    records: list[Record] = []
    for part in _BLANK_LINE.split(body):
        text = " ".join(part.split())
        found = _SUMMARY_PMID.search(text)
        if found:
            title = _NUMBERED.sub("", text, count=1)
            records.append(DocRecord(found[1], title, is_retracted="Retraction in:" in title))
    return records
