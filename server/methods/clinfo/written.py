"""Stream the synthesis that the model writes, and hold it for the record as claims with the articles that they cite."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from models.errors import ModelError
from models.types import Delta
from server.methods.base import EvidenceRead, Source, SourceStatus, TextDelta, TranscriptDelta
from server.methods.clinfo.generated import NO_ANSWER, Reader
from server.methods.clinfo.literature import Article
from server.methods.clinfo.statements import Claim, Conclusion
from server.methods.shared.outcomes import why_cut
from server.methods.shared.sentences import bare, numbers_in
from server.methods.shared.support.labels import sentence_spans

_NO_ROOM: Final = "The model has no room to read any of the articles."
_NO_TEXT: Final = "The model wrote no answer."
_LATE: Final = "The answer is not complete: it ran out of time."


@dataclass(slots=True)
class WrittenSynthesis:
    """Write one synthesis; ``tell`` takes its events as they come.

    ``text`` is what the model has written so far, also where its time ends.
    """

    reader: Reader
    articles: Sequence[Article]
    tell: Callable[..., None]
    text: str = ""
    limit: str = _LATE
    read: dict[int, Article] = field(default_factory=dict)

    async def write(self, question: str) -> None:
        """Stream the text.

        Raises:
            ModelError: the engine failed before the first word.
        """
        entries, self.read = await asyncio.to_thread(self.reader.entries, question, self.articles)
        if not self.read:
            self.limit = _NO_ROOM
            return
        self.tell(EvidenceRead(tuple(source_of(article, number) for number, article in self.read.items())))
        if self.reader.opening:
            self.tell(TextDelta(f"{self.reader.opening} ", is_ours=True))
        last = Delta(finish_reason="abort")
        try:
            async for delta in self.reader.synthesis(question, entries):
                self._tell_delta(delta)
                last = delta
        except ModelError as error:
            if not self.text:
                raise
            self.limit = f"The answer is not complete: the model failed: {error.message}."
            return
        self.limit = why_cut(last.finish_reason or "stop", last.stop_reason)

    def _tell_delta(self, delta: Delta) -> None:
        if delta.reasoning:
            self.tell(TextDelta(delta.reasoning, "reasoning"))
        text = delta.text if self.text else delta.text.lstrip()
        if text:
            self.text += text
            self.tell(TranscriptDelta(text), TextDelta(text))

    async def conclusion(self) -> Conclusion:
        """Return what was written, with the articles that deny its first sentence."""
        if not self.text.strip():
            lack = self.limit or _NO_TEXT
            return Conclusion(lack=lack, outcome="cut" if lack == _LATE else "abstained")
        claims = self._claims()
        denying = await self.reader.denying(claims[0], list(self.read.values())) if claims else ()
        keys = {key for claim in claims for key in claim.keys} | {other for _, other in denying}
        numbered = {article.key: number for number, article in self.read.items() if article.key in keys}
        is_refusal = NO_ANSWER in self.text
        return Conclusion(
            claims=claims,
            disagreeing=denying,
            limit=self.limit,
            outcome="cut" if self.limit else "abstained" if is_refusal else "answered",
            step=f"{len(self.read)} articles read, {len(numbered)} of them cited",
            written=f"{self.reader.opening} {self.text}".lstrip(),
            numbered=numbered,
            record={"articles_read": [article.key for article in self.read.values()]},
        )

    def _claims(self) -> tuple[Claim, ...]:
        """Return the sentences that cite an article that was read."""
        sentences = [one.text for one in sentence_spans(self.text)]
        cited = [(text, [n for n in numbers_in(text) if n in self.read]) for text in sentences]
        return tuple(
            Claim(bare(text), tuple(self.read[number].key for number in numbers), is_quote=False)
            for text, numbers in cited
            if numbers
        )


def source_of(article: Article, number: int | None = None) -> Source:
    """Return an article as a source of the answer."""
    status: SourceStatus = "retracted" if "retracted" in article.flags else "current"
    return Source(article.text, number, article.title, status=status)


def by_number(numbers: Mapping[str, int], articles: Mapping[str, Article]) -> dict[int, Article]:
    """Return the articles that are cited, by their number in the answer, in order."""
    return {number: articles[key] for key, number in sorted(numbers.items(), key=lambda pair: pair[1])}
