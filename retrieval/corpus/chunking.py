"""Cut a document's text into passages; pure: every passage is an exact slice of the text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from semantic_text_splitter import TextSplitter

from retrieval.corpus.items import ParsedDocument, Span
from retrieval.errors import NamespaceInvalid

MIN_SIZE: Final = 50
MAX_SIZE: Final = 100_000
_WORDS: Final = re.compile(r"\w")
# The splitter's time grows superlinearly where a text has no break points: longer texts are first cut at blanks.
_WINDOW: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking:
    """Configure the size and overlap of passages, in characters.

    ``by_section``: no passage crosses a section boundary.

    Raises:
        NamespaceInvalid: a size or an overlap out of range.
    """

    size: int = 2000
    overlap: int = 0
    by_section: bool = True

    def __post_init__(self) -> None:
        if not MIN_SIZE <= self.size <= MAX_SIZE:
            raise NamespaceInvalid(f"size must be from {MIN_SIZE} to {MAX_SIZE} characters", param="size")
        if not 0 <= self.overlap <= self.size // 2:
            raise NamespaceInvalid("overlap must be from 0 to half the size", param="overlap")


class Chunker:
    """Cut at the highest boundary (paragraph, sentence, word) that lets a passage fit.

    Thread-safe.
    """

    def __init__(self, chunking: Chunking) -> None:
        self.chunking = chunking
        self._splitter = TextSplitter(chunking.size, overlap=chunking.overlap)

    def cut(self, reading: ParsedDocument) -> list[Span]:
        """Return the spans of the passages, ascending; ``text[start:end]`` is the passage.

        Section and page are those at the start of the passage; none goes from one page to the next, so that its page
        is right for all of it. A text that fits, such as most abstracts, is one passage; a text that its source
        already split stays as it is.
        """
        if reading.whole:
            return [self._span(reading, span.start, span.end) for span in reading.spans]
        return [
            self._span(reading, start, end)
            for low, high in self._stretches(reading.spans)
            for start, end in self._pieces(reading.text, low, high)
        ]

    def _stretches(self, spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
        """Yield the ranges to split separately: consecutive parts of one page and, by choice, of one section."""
        for _, group in groupby(spans, key=lambda span: (span.page, span.section if self.chunking.by_section else "")):
            parts = list(group)
            yield parts[0].start, parts[-1].end

    def _pieces(self, text: str, low: int, high: int) -> Iterator[tuple[int, int]]:
        while low < high:
            end = _window_end(text, low, high)
            for offset, piece in self._splitter.chunk_indices(text[low:end]):
                if _WORDS.search(piece):
                    yield low + offset, low + offset + len(piece)
            low = end

    def _span(self, reading: ParsedDocument, start: int, end: int) -> Span:
        first = reading.spans[bisect_right(reading.spans, start, key=lambda span: span.end)]
        return Span(start, end, first.section, first.page)


def _window_end(text: str, low: int, high: int) -> int:
    if high - low <= _WINDOW:
        return high
    limit = low + _WINDOW
    for sign in ("\n\n", "\n", " "):
        found = text.rfind(sign, low + _WINDOW // 2, limit)
        if found > 0:
            return found + len(sign)
    return limit
