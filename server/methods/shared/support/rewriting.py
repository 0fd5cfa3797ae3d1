"""Write the unsupported sentences of an answer again, from what was read, and leave out those that stay so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from models.decoding.types import LoopUsage
from server.methods.base import AnswerRequest, SentenceSupport, Source, Support, add_usage
from server.methods.shared.generation import FirstAnswer, Rewriter
from server.methods.shared.sentences import MARK
from server.methods.shared.support.labels import AnswerLabels, bare

__all__ = ["Rewriter", "Rewritten", "rewritten"]
# Further unsupported sentences are left out at once.
_MOST_AGAIN: Final = 8
_NONE_LEFT: Final = (
    "The answer is withheld, as the request wants it strictly grounded: none of its sentences stands in what was read."
)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Hold the text of an answer whose unsupported sentences were written again (``count``) or ``dropped``."""

    text: str
    count: int = 0
    dropped: tuple[str, ...] = ()
    support: Support = field(default_factory=Support)
    usage: LoopUsage = field(default_factory=LoopUsage)

    @property
    def plain(self) -> str:
        return " ".join(MARK.sub("", self.text).split())

    @property
    def reason(self) -> str:
        """Return why nothing is shown, "" where something is."""
        return "" if self.text else _NONE_LEFT

    @property
    def line(self) -> str:
        """Return what was done to the answer, as one line."""
        done = [f"{self.count} written again"] if self.count else []
        done += [f"{len(self.dropped)} left out"] if self.dropped else []
        return f"Sentences that nothing which was read supports: {', '.join(done)}."


async def rewritten(
    ask: AnswerRequest, text: str, support: Support, rewriter: Rewriter, label: Callable[[str], AnswerLabels]
) -> Rewritten:
    """Return the answer without its unsupported sentences; ``label`` labels a text by the same sources."""
    sources, usage, count, dropped = label("").sources, LoopUsage(), 0, list[str]()
    parts, last = list[str](), 0
    for place, one in enumerate(support.unsupported):
        sentence = text[one.start : one.end]
        second = ""
        if place < _MOST_AGAIN:
            written = await rewriter.rewritten(ask, _first(sentence, one, sources))
            usage = add_usage(usage, written.usage)
            is_good = written.text and not any(again.mismatches for again in label(written.text).sentences)
            second = written.text if is_good else ""
        count += bool(second)
        dropped += [] if second else [sentence]
        parts += [text[last : one.start], second]
        last = one.end
    whole = "".join([*parts, text[last:]]).strip()
    left = whole if bare(whole) and len(dropped) < len(support.sentences) else ""
    labels = Support(label(left).sentences) if left else Support()
    return Rewritten(left, count, tuple(dropped), labels, usage)


def _first(sentence: str, label: SentenceSupport, sources: Sequence[Source]) -> FirstAnswer:
    names = tuple(mismatch.text for mismatch in label.mismatches) or (bare(sentence),)
    cited = [one for one in sources if one.number in label.citations] or sources
    return FirstAnswer(sentence, names, [one.text for one in cited])
