"""Which passages an answer names by their numbers, and how they are listed under it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from retrieval.corpus.ranking import Found
from server.methods.base import Reference
from server.methods.references import HEADING, MAX_REFERENCES

READ_HEADING: Final = "\n\nRead, not cited:\n"
_MARK: Final = re.compile(r"\[\s*(\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\s*\]")
_PART: Final = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
# A span of numbers over more than these is no citation.
_MAX_SPAN: Final = 100
_ADDRESS: Final = re.compile(r"https?://[^\s()<>\[\]]+")


@dataclass(frozen=True, slots=True)
class Numbered:
    number: int
    found: Found


def numbers_in(text: str) -> tuple[int, ...]:
    """Of "[2]", "[1, 3]" and "[2-4]", each once, in the order they stand there."""
    numbers: dict[int, None] = {}
    for mark in _MARK.finditer(text):
        for part in _PART.finditer(mark[1]):
            first, last = int(part[1]), int(part[2] or part[1])
            if first <= last <= first + _MAX_SPAN:
                numbers.update(dict.fromkeys(range(first, last + 1)))
    return tuple(numbers)


def renumbered(text: str, numbers: dict[int, int]) -> str:
    """Each mark with the numbers that ``numbers`` gives; those that it does not have are taken out."""

    def mark(found: re.Match[str]) -> str:
        new = [numbers[old] for old in numbers_in(found[0]) if old in numbers]
        return f"[{', '.join(map(str, new))}]" if new else ""

    return re.sub(r" +(?=[.,;:]|$)", "", _MARK.sub(mark, text))


def render(listed: Sequence[Numbered], cited: bool, offset: int) -> tuple[str, tuple[Reference, ...]]:
    """The list to stand under an answer of ``offset`` characters, and the references with the markers' places."""
    if not listed:
        return "", ()
    text, references = HEADING if cited else READ_HEADING, []
    for one in listed[:MAX_REFERENCES]:
        marker = f"[{one.number}]"
        start = offset + len(text)
        title, url = title_of(one.found), url_of(one.found)
        reference = Reference(one.number, title, url, start, start + len(marker), one.found.passage.text)
        references.append(reference)
        text += f"{marker} [{title}]({url})\n" if url else f"{marker} {title}\n"
    return text.rstrip("\n"), tuple(references)


def title_of(found: Found) -> str:
    """Names are data: they cannot end a Markdown link's text."""
    document, section = found.document, found.passage.section
    title = " ".join((document.title or document.document_id).split())
    about = ", ".join(part for part in (section, document.source or found.namespace) if part)
    retracted = "; RETRACTED" if document.retracted_by else ""
    return f"{title} ({' '.join(about.split())}{retracted})".replace("[", "(").replace("]", ")")


def url_of(found: Found) -> str:
    """ "" where the document has no address that can be linked to."""
    return found.document.url if _ADDRESS.fullmatch(found.document.url) else ""


def passage_record(found: Found, **further: Any) -> dict[str, Any]:
    """JSON-able, for the trace: all that a reader needs to find a passage again."""
    return {
        **further,
        "namespace": found.namespace,
        "passage_id": str(found.passage.passage_id),
        "document_id": found.passage.document_id,
        "title": found.document.title,
        "section": found.passage.section,
        "url": found.document.url,
        "score": round(found.hit.score, 6),
        "ranks": dict(found.ranks),
        "retracted": bool(found.document.retracted_by),
    }
