"""Select the passages for a model's context and format them for its prompt. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import PurePath
from typing import Any, Final

from retrieval.corpus.search.ranking import RankedPassage
from retrieval.lexical.tokens import normalise
from server.methods.base import Reference, Source, SourceStatus
from server.methods.shared.call_lines import HEADING, MAX_REFERENCES
from server.methods.shared.sentences import numbers_in, quotation, sanitize, split_sentences
from server.methods.shared.word_overlap import nearest_sentence

READ_HEADING: Final = "\n\nRead, not cited:\n"
_ADDRESS: Final = re.compile(r"https?://[^\s()<>\[\]]+")


@dataclass(frozen=True, slots=True)
class Numbered:
    """Pair a passage with its number."""

    number: int
    found: RankedPassage


def supporting_sentence(answer: str, number: int, found: RankedPassage) -> str:
    """Return the passage's sentence nearest in words to what the answer says before its mark ``[number]``.

    "" where no sentence has half of these words.
    """
    claims = [one.text for one in split_sentences(answer) if number in numbers_in(one.text)] or [answer]
    return nearest_sentence(" ".join(claims), found.passage.text)


def render(
    listed: Sequence[Numbered], cited: bool, offset: int, support: Mapping[int, str] | None = None
) -> tuple[str, tuple[Reference, ...]]:
    """Return the reference list for an answer of ``offset`` characters, and the references with marker offsets.

    ``support`` has sentences to quote, by number.
    """
    if not listed:
        return "", ()
    text, references = HEADING if cited else READ_HEADING, []
    for one in listed[:MAX_REFERENCES]:
        marker = f"[{one.number}]"
        start = offset + len(text)
        title, url = title_of(one.found), url_of(one.found)
        reference = Reference(one.number, title, url, start, start + len(marker), one.found.passage.text)
        references.append(reference)
        quote = (support or {}).get(one.number, "")
        linked = f"[{title}]({url})" if url else title
        text += f"{marker} {linked}{f': {quotation(quote)}' if quote else ''}\n"
    return text.rstrip("\n"), tuple(references)


def title_of(found: RankedPassage) -> str:
    """Return title, section, page, file and source, without brackets, which could end the text of a Markdown link.

    The file is named where the document has no web page of its own.
    """
    document, passage = found.document, found.passage
    title = " ".join((document.title or document.document_id).split())
    file = "" if _ADDRESS.fullmatch(document.url) else PurePath(document.provenance).name
    parts = (
        passage.section,
        f"page {passage.page}" if passage.page else "",
        "" if file == title else file,
        document.source or found.namespace,
    )
    about = ", ".join(dict.fromkeys(part for part in parts if part))
    retracted = "; RETRACTED" if document.is_retracted else ""
    return f"{title} ({' '.join(about.split())}{retracted})".replace("[", "(").replace("]", ")")


def url_of(found: RankedPassage) -> str:
    """Return the document's URL, else the passage's own path on this server; "" of a tool's text, which is not kept."""
    if _ADDRESS.fullmatch(found.document.url):
        return found.document.url
    if found.namespace.startswith("mcp:"):
        return ""
    return f"/v1/passages/{found.namespace}/{found.passage.passage_id}"


def passage_record(found: RankedPassage, **further: Any) -> dict[str, Any]:
    """Return a JSON-able record for the trace, with all that is needed to find the passage again."""
    return {
        **further,
        "namespace": found.namespace,
        "passage_id": str(found.passage.passage_id),
        "document_id": found.passage.document_id,
        "title": found.document.title,
        "section": found.passage.section,
        "page": found.passage.page,
        "file": found.document.provenance,
        "url": url_of(found),
        "score": round(found.hit.score, 6),
        "ranks": dict(found.ranks),
        "retracted": found.document.is_retracted,
    }


_SEPARATOR: Final = "\n"


@dataclass(frozen=True, slots=True)
class Context:
    """Hold the passages of a prompt.

    ``passages`` are numbered from 1 in this order; ``ranks`` are their ranks in the search, from 1. ``too_long`` counts
    passages that exceed the budget alone, ``left_out`` those after the budget was used up.
    """

    passages: tuple[RankedPassage, ...] = ()
    ranks: tuple[int, ...] = ()
    text: str = ""
    tokens: int = 0
    left_out: int = 0
    too_long: int = 0
    repeated: int = 0

    @property
    def numbered(self) -> dict[int, RankedPassage]:
        return dict(enumerate(self.passages, 1))

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return the passages for the trace."""
        pairs = zip(self.ranks, self.passages, strict=True)
        return [passage_record(one, number=n, rank=rank) for n, (rank, one) in enumerate(pairs, 1)]

    @property
    def best_first(self) -> list[int]:
        """Return the numbers of the passages, best rank first."""
        return sorted(range(1, len(self.passages) + 1), key=lambda number: self.ranks[number - 1])


def build_context(found: Sequence[RankedPassage], count: Callable[[str], int], budget: int) -> Context:
    """Select the best passages, whole and without duplicate texts, within ``budget`` tokens.

    No passage is skipped in favour of a worse one, unless it alone exceeds the budget. In the library's order the same
    set gives the same text, which an engine's prefix cache reuses.
    """
    ranked = distinct(found)
    chosen: list[tuple[int, RankedPassage]] = []
    used = too_long = passed = 0
    for rank, one in ranked:
        passed += 1
        # The number is not known yet; it has at most three digits.
        cost = count(_entry(888, one) + _SEPARATOR)
        if cost > budget:
            too_long += 1
            continue
        if used + cost > budget:
            passed -= 1
            break
        used += cost
        chosen.append((rank, one))
    chosen.sort(key=lambda entry: _library_order(entry[1]))
    text = _SEPARATOR.join(_entry(number, one) for number, (_, one) in enumerate(chosen, 1))
    return Context(
        passages=tuple(one for _, one in chosen),
        ranks=tuple(rank for rank, _ in chosen),
        text=text,
        tokens=count(text) if text else 0,
        left_out=len(ranked) - passed,
        too_long=too_long,
        repeated=len(found) - len(ranked),
    )


def evidence_of(passages: Iterable[RankedPassage], numbers: Iterable[int] | None = None) -> tuple[Source, ...]:
    """Return the sources that an answer from these passages may rest on, with the numbers that the model cites."""
    return tuple(map(_source, passages, repeat(None) if numbers is None else numbers))


def _source(found: RankedPassage, number: int | None) -> Source:
    status: SourceStatus = "retracted" if found.document.is_retracted else "current"
    return Source(found.passage.text, number, found.passage.heading, status=status)


def distinct(found: Iterable[RankedPassage]) -> list[tuple[int, RankedPassage]]:
    """Return the passages with their ranks from 1, the best of those with the same text."""
    seen: set[str] = set()
    distinct: list[tuple[int, RankedPassage]] = []
    for rank, one in enumerate(found, 1):
        text = " ".join(normalise(one.passage.text).text.split())
        if text not in seen:
            seen.add(text)
            distinct.append((rank, one))
    return distinct


def _entry(number: int, found: RankedPassage) -> str:
    title = sanitize(" ".join(found.passage.heading.split()))
    if found.document.is_retracted:
        title = f"{title} (RETRACTED)".strip()
    text = sanitize(found.passage.text)
    return f"[{number}] {title}\n   {text}" if title else f"[{number}] {text}"


def _library_order(found: RankedPassage) -> tuple[str, str, int, int]:
    passage = found.passage
    return found.namespace, passage.document_id, passage.start, passage.passage_id
