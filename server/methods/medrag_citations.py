"""Find the passages that an answer cites by number, and format their list. Pure."""

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
# A longer range of numbers is not a citation.
_MAX_SPAN: Final = 100
_ADDRESS: Final = re.compile(r"https?://[^\s()<>\[\]]+")


@dataclass(frozen=True, slots=True)
class Numbered:
    """Pair a passage with its number."""

    number: int
    found: Found


def numbers_in(text: str) -> tuple[int, ...]:
    """Return the numbers in "[2]", "[1, 3]" and "[2-4]", each once, in order of appearance."""
    numbers: dict[int, None] = {}
    for mark in _MARK.finditer(text):
        for part in _PART.finditer(mark[1]):
            first, last = int(part[1]), int(part[2] or part[1])
            if first <= last <= first + _MAX_SPAN:
                numbers.update(dict.fromkeys(range(first, last + 1)))
    return tuple(numbers)


def renumbered(text: str, numbers: dict[int, int]) -> str:
    """Replace the numbers of each mark by those of ``numbers``; remove numbers without an entry."""

    def mark(found: re.Match[str]) -> str:
        new = [numbers[old] for old in numbers_in(found[0]) if old in numbers]
        return f"[{', '.join(map(str, new))}]" if new else ""

    return re.sub(r" +(?=[.,;:]|$)", "", _MARK.sub(mark, text))


def render(listed: Sequence[Numbered], cited: bool, offset: int) -> tuple[str, tuple[Reference, ...]]:
    """Return the reference list for an answer of ``offset`` characters, and the references with marker offsets."""
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
    """Return the passage's title without brackets, which could end the text of a Markdown link."""
    document, section = found.document, found.passage.section
    title = " ".join((document.title or document.document_id).split())
    about = ", ".join(part for part in (section, document.source or found.namespace) if part)
    retracted = "; RETRACTED" if document.retracted_by else ""
    return f"{title} ({' '.join(about.split())}{retracted})".replace("[", "(").replace("]", ")")


def url_of(found: Found) -> str:
    """Return the document's URL, "" where it has none that can be linked to."""
    return found.document.url if _ADDRESS.fullmatch(found.document.url) else ""


def passage_record(found: Found, **further: Any) -> dict[str, Any]:
    """Return a JSON-able record for the trace, with all that is needed to find the passage again."""
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
