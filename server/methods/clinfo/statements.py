"""Say what articles state: their sentences that are evidence, their design, and a conclusion of claims.

A conclusion is what the synthesis of a review ends in, whichever way it is made.

Left out of what can be quoted is text that addresses whoever reads it, as an abstract that was written to steer a model
does; which of the other sentences answer is the verifier's to say. A design is one of the record's publication types;
the other cells of the table are the model's to fill, each with the sentence that it stands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from server.methods.base import AnswerOutcome
from server.methods.clinfo.literature import Article
from server.methods.shared.evidence_table import Finding
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import JudgedSentence
from server.methods.shared.sentences import addresses_reader, plain_marks, quotation, split_sentences
from server.methods.shared.verdicts import Verdict

_LONGEST: Final = 20_000
# "carnitine translocase Slc25a20" names something and says nothing of it.
_LEAST_WORDS: Final = 4
PUBLICATION_TYPE: Final = "publication type"
# Publication types that tell a design, in the order in which they are looked for.
_TYPES: Final = (
    *("meta-analysis", "network meta-analysis", "systematic review", "practice guideline", "guideline"),
    *("randomized controlled trial", "controlled clinical trial", "clinical trial, phase iii"),
    *("clinical trial, phase ii", "clinical trial, phase i", "clinical trial, phase iv", "clinical trial"),
    *("observational study", "multicenter study", "comparative study", "case reports", "review", "book chapter"),
)


@dataclass(frozen=True, slots=True)
class Readable:
    """Hold the sections of articles as sources to choose from; ``origins`` has the article and label of each."""

    sources: tuple[EvidenceText, ...]
    origins: tuple[tuple[int, str], ...]


def readable(articles: Sequence[Article]) -> Readable:
    """Return the quotable sentences of the articles, one source for each section; each stands on lines of its own."""
    sources: list[EvidenceText] = []
    origins: list[tuple[int, str]] = []
    for number, article in enumerate(articles):
        by_section: dict[str, list[str]] = {}
        for section in article.sections:
            sentences = split_sentences(section.text[:_LONGEST], least_words=_LEAST_WORDS)
            lines = [one.line for one in sentences if not addresses_reader(one.line)]
            by_section.setdefault(section.label, []).extend(lines)
        for label, lines in by_section.items():
            sources.append(EvidenceText(article.title, "\n\n".join(lines)))
            origins.append((number, label))
    return Readable(tuple(sources), tuple(origins))


def is_verbatim(quote: str, article: Article) -> bool:
    """Return whether a quote stands in the title or the text of an article, blanks aside."""
    requested = " ".join(quote.split())
    texts = (article.title, *(one.text for one in article.sections))
    return bool(requested) and any(requested in " ".join(text.split()) for text in texts)


def design_of(article: Article) -> Finding:
    """Return the study design as the record's publication types tell it."""
    kind = next((name for name in _TYPES if name in article.types), "")
    return Finding(kind, kind, PUBLICATION_TYPE) if kind else Finding()


@dataclass(frozen=True, slots=True)
class Claim:
    """Hold one sentence of a review without marks, and the keys of the articles that it cites.

    ``is_quote``: it is a verbatim sentence of the one article, from ``section``. ``score`` is from 0 to 1.
    """

    text: str
    keys: tuple[str, ...]
    is_quote: bool = True
    section: str = ""
    score: float = 0.0

    def shown(self, numbers: Mapping[str, int]) -> str:
        """Return the sentence with its marks; ``numbers`` are those of the articles."""
        mark = f"[{', '.join(map(str, sorted(numbers[key] for key in self.keys)))}]"
        if self.is_quote:
            return f"{quotation(self.text)} {mark}"
        body, end = (self.text[:-1], self.text[-1]) if self.text[-1:] in ".!?" else (self.text, ".")
        return f"{body} {mark}{end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Hold the claims of a review, the TL;DR first; none where the articles do not answer.

    ``results`` is the best sentence of an article and ``cells`` further cells of its row, by key. ``disagreeing``
    are the keys of articles that speak of the same thing, one of which denies it. ``lack`` is why there is no
    claim, ``limit`` the sentence on a limit that ended the text, ``doubt`` that on claims which may not answer.
    ``step`` reports the stage. ``verdict`` is that of the quotes, None where none was sought, and ``quotes`` the
    sentences that it is read from. ``written`` is the text of the model, which cites articles by the numbers of
    ``numbered``.
    """

    claims: tuple[Claim, ...] = ()
    results: Mapping[str, Finding] = field(default_factory=dict)
    cells: Mapping[str, Mapping[str, Finding]] = field(default_factory=dict)
    disagreeing: tuple[tuple[str, str], ...] = ()
    lack: str = ""
    limit: str = ""
    doubt: str = ""
    outcome: AnswerOutcome = "answered"
    step: str = ""
    written: str = ""
    verdict: Verdict | None = None
    quotes: tuple[JudgedSentence, ...] = ()
    numbered: Mapping[str, int] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, int]:
        """Return the number of each cited article by key, in the order of citation."""
        if self.written:
            return dict(self.numbered)
        keys = [key for claim in self.claims for key in claim.keys]
        keys += [key for pair in self.disagreeing for key in pair]
        return {key: number for number, key in enumerate(dict.fromkeys(keys), 1)}

    @property
    def text(self) -> str:
        """Return the answer as it is shown: the TL;DR, then quotes one a line, or a paragraph."""
        numbers = self.numbers
        separator = "\n" if self.claims[0].is_quote else " "
        further = separator.join(claim.shown(numbers) for claim in self.claims[1:])
        return "\n\n".join(filter(None, (f"TL;DR: {self.tldr}", further)))

    @property
    def tldr(self) -> str:
        """Return yes or no, where it was decided, and the first claim with its mark; "" without claims."""
        return f"{self._decided}{self.claims[0].shown(self.numbers)}" if self.claims else ""

    @property
    def plain(self) -> str:
        """Return the claims without marks."""
        return self._decided + " ".join(
            quotation(claim.text) if claim.is_quote else plain_marks(claim.text) for claim in self.claims
        )

    @property
    def _decided(self) -> str:
        return f"{self.verdict.opening}: " if self.verdict and self.verdict.word else ""
