"""Leave out of an answer the sentences that nothing which was read supports. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from server.methods.base import Done, Event, Evidence, SentenceSupport, Support, TextDelta
from server.methods.shared.outcomes import notice
from server.methods.shared.sentences import MARK, bare

_NONE_LEFT: Final = (
    "The answer is withheld, as the request wants it strictly grounded: none of its sentences stands in what was read."
)


@dataclass(frozen=True, slots=True)
class StrictAnswer:
    """Hold an answer without its unsupported sentences, "" where none is left, and the labels of the others."""

    text: str
    support: Support = field(default_factory=Support)

    @property
    def line(self) -> str:
        """Return how many sentences were left out, as one line, "" for none."""
        number = len(self.support.dropped)
        return f"Sentences that nothing which was read supports: {number} left out." if number else ""

    def replacing(self, held: Sequence[Event], shift: int) -> Iterator[Event]:
        """Yield the events of an answer with this text; ``shift`` is how much longer it is than the one before."""
        note = notice(self.line, self.text) if self.text and self.line else None
        shift += len(note.text) if note else 0
        is_told = False
        for event in held:
            match event:
                case TextDelta(is_ours=False):
                    if not is_told:
                        yield TextDelta(self.text or _NONE_LEFT, is_ours=not self.text)
                        yield from [note] if note else ()
                    is_told = True
                case Evidence(references=references) if self.text:
                    yield Evidence(tuple(one.moved(shift) for one in references))
                case Done():
                    yield self._done(event)
                case _ if self.text or not is_told:
                    yield event

    def _done(self, done: Done) -> Done:
        if not self.support.dropped:
            return replace(done, support=self.support)
        details = {**done.details, "first_answer": done.answer}
        if not self.text:
            details |= {"abstained": True, "reason": _NONE_LEFT}
            return replace(done, answer=_NONE_LEFT, outcome="abstained", support=self.support, details=details)
        answer = " ".join(MARK.sub("", self.text).split())
        return replace(done, answer=answer, support=self.support, details=details)


def without_unsupported(text: str, support: Support) -> StrictAnswer:
    """Return the answer without its unsupported sentences, the places of the others as they then are."""
    parts, kept, dropped = list[str](), list[SentenceSupport](), list[str]()
    last = removed = 0
    for one in support.sentences:
        if one in support.unsupported:
            parts.append(text[last : one.start])
            dropped.append(text[one.start : one.end])
            removed, last = removed + one.end - one.start, one.end
        else:
            kept.append(replace(one, start=one.start - removed, end=one.end - removed))
    left = "".join([*parts, text[last:]])
    if not kept or not bare(left):
        return StrictAnswer("", Support(dropped=tuple(dropped)))
    if not dropped:
        return StrictAnswer(text, support)
    begin = len(left) - len(left.lstrip())
    placed = tuple(replace(one, start=one.start - begin, end=one.end - begin) for one in kept)
    return StrictAnswer(left.strip(), Support(placed, tuple(dropped)))
