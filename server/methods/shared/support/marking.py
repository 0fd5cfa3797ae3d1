"""Mark in an answer's text what its sources do not have, for clients that show nothing else. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from server.methods.base import Source
from server.methods.shared.support.labels import AnswerLabels, sentence_spans
from server.methods.shared.support.quantities import QuantityReader

MARK: Final = " [unverified]"


class MarkedText:
    """Mark an answer that comes in pieces, a sentence at a time; the last one is held back until it is complete."""

    def __init__(self, question: str, reader: QuantityReader) -> None:
        self._question = question
        self._reader = reader
        self._sources: Sequence[Source] = ()
        self._pending = ""
        self._num_released = 0
        self._inserted: list[int] = []

    def set_sources(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def feed(self, text: str) -> str:
        """Return the text that can be shown now, with its marks."""
        self._pending += text
        spans = sentence_spans(self._pending)
        return self._release(spans[-1].start) if len(spans) > 1 else ""

    def flush(self) -> str:
        return self._release(len(self._pending))

    def num_inserted(self, offset: int) -> int:
        """Return how many characters of marks stand before an offset of the text as it was fed."""
        return len(MARK) * sum(place <= offset for place in self._inserted)

    def _release(self, end: int) -> str:
        text, self._pending = self._pending[:end], self._pending[end:]
        parts, last = list[str](), 0
        for one in AnswerLabels(text, self._sources, self._question, self._reader).sentences if text.strip() else ():
            for mismatch in one.mismatches:
                place = one.start + mismatch.end
                # Within the brackets of a Markdown link a mark would become part of its address.
                place += text[place : place + 1] == ")" and "](" in text[max(0, one.start) : place]
                parts += [text[last:place], MARK]
                self._inserted.append(self._num_released + place)
                last = place
        self._num_released += len(text)
        return "".join([*parts, text[last:]])
