"""Say what articles state: their sentences that are evidence, the cells of their rows, and a conclusion of claims.

A conclusion is what the synthesis of a review ends in, whichever way it is made.

Left out of what can be quoted are fragments of a few words, and text that addresses whoever reads it, as an abstract
that was written to steer a model does. In the table, what is not stated stays empty; each value comes with the
sentence that it stands in, and a design that only the record's publication types tell has that type as its quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from retrieval.lexical.tokens import index_terms
from server.methods.base import AnswerOutcome
from server.methods.clinfo.literature import Article
from server.methods.shared.evidence_table import Finding
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.sentences import Sentence, addresses_reader, plain_marks, quotation, split_sentences

_LONGEST: Final = 20_000
# "carnitine translocase Slc25a20" names something and says nothing of it.
_MIN_WORDS: Final = 4
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
PUBLICATION_TYPE: Final = "publication type"
_NUMBER: Final = r"\d{1,3}(?:[, ]\d{3})+|\d+"
_PEOPLE: Final = (
    "patients|participants|subjects|women|men|children|adults|individuals|infants|neonates|newborns|adolescents|"
    "volunteers|people|persons|cases|students|pregnancies|twins|families|controls|mice|rats|animals"
)
_STUDIES: Final = (
    "(?:randomi[sz]ed |controlled |clinical |eligible |cohort |observational |relevant )*"
    "(?:studies|trials|RCTs|articles)"
)
_SIZES: Final = (
    re.compile(
        rf"(?<![\w.,-])({_NUMBER})\s+((?:(?!\d)[\w-]+\s){{0,4}}?(?:{_PEOPLE}))\b",
        re.IGNORECASE,
    ),
    re.compile(rf"\b[nN]\s?=\s?({_NUMBER})()"),
)
_SIZES_OF_STUDIES: Final = re.compile(rf"\b({_NUMBER}|[a-z]+(?:-[a-z]+)?)\s+({_STUDIES})\b", re.IGNORECASE)
_WRITTEN: Final = frozenset(
    re.findall(
        r"\w+",
        "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen twenty thirty forty fifty",
    )
)
_POPULATION: Final = re.compile(
    rf"\b((?:[\w-]+\s){{0,3}}?(?:{_PEOPLE})\s(?:with|who|aged|undergoing|having|at (?:high |low )?risk|receiving|"
    r"treated|diagnosed|admitted|hospitali[sz]ed|from|suffering)\b[^.;:()]{3,120})",
    re.IGNORECASE,
)
_BIAS: Final = re.compile(
    r"\b(?:risk of bias|publication bias|selection bias|recall bias|(?:very )?low[- ](?:quality|certainty)|"
    r"(?:moderate|high)[- ](?:quality|certainty) evidence|heterogene\w+|small sample size|limitations?|"
    r"open[- ]label|double[- ]blind\w*|single[- ]blind\w*|confounding|not randomi[sz]ed|unblinded)\b",
    re.IGNORECASE,
)
_DESIGNS: Final = (
    "network meta-analysis", "meta-analysis", "systematic review", "randomized controlled trial",
    "randomised controlled trial", "controlled clinical trial", "clinical trial", "cohort study", "case-control study",
    "cross-sectional study", "observational study", "case series", "case report", "practice guideline", "guideline",
    "narrative review", "review",
)  # fmt: skip
_DESIGN: Final = re.compile(
    r"\b(?:(?:network )?meta-analys[ei]s|systematic review|(?:cluster[- ])?randomi[sz]ed(?:[, -]+[\w-]+){0,4} trial|"
    r"(?:retrospective|prospective|population-based|nationwide|longitudinal)(?:[, -]+[\w-]+){0,3} (?:study|cohort|"
    r"analysis)|cohort study|case-control study|cross-sectional (?:study|survey)|case report|case series|pilot study|"
    r"open-label (?:study|trial)|Mendelian randomi[sz]ation)\b",
    re.IGNORECASE,
)
# Publication types that tell a design, in the order in which they are looked for.
_TYPES: Final = (
    *("meta-analysis", "network meta-analysis", "systematic review", "practice guideline", "guideline"),
    *("randomized controlled trial", "controlled clinical trial", "clinical trial, phase iii"),
    *("clinical trial, phase ii", "clinical trial, phase i", "clinical trial, phase iv", "clinical trial"),
    *("observational study", "multicenter study", "comparative study", "case reports", "review", "book chapter"),
)

# A sentence with a smaller share of a text's terms is not what the text was read from.
_NEAR: Final = 0.3


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold one sentence that can be quoted; ``line`` has single blanks."""

    article: int
    section: str
    line: str


def statements_of(article: Article, number: int = 0) -> Iterator[Statement]:
    """Yield the sentences of an article that state something, in order."""
    for section in article.sections:
        for one in split_sentences(section.text[:_LONGEST]):
            if _states(one.line):
                yield Statement(number, section.label, one.line)


def _states(line: str) -> bool:
    """Return whether a sentence states something: no fragment as of a title, no order to its reader."""
    is_whole = sum(1 for _ in islice(_WORD.finditer(line), _MIN_WORDS)) == _MIN_WORDS
    return is_whole and not addresses_reader(line)


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
        for one in statements_of(article, number):
            by_section.setdefault(one.section, []).append(one.line)
        for label, lines in by_section.items():
            sources.append(EvidenceText(article.title, "\n\n".join(lines)))
            origins.append((number, label))
    return Readable(tuple(sources), tuple(origins))


def is_verbatim(quote: str, article: Article) -> bool:
    """Return whether a quote stands in the title or the text of an article, blanks aside."""
    requested = " ".join(quote.split())
    texts = (article.title, *(one.text for one in article.sections))
    return bool(requested) and any(requested in " ".join(text.split()) for text in texts)


def nearest_sentence(text: str, article: Article) -> str:
    """Return the article's own sentence that shares most terms with a text, "" where none shares enough."""
    asked = set(index_terms(text))
    lines = [one.line for _, one in _sentences(article)]
    shares = [len(asked & set(index_terms(line))) / len(asked) if asked else 0.0 for line in lines]
    best = max(shares, default=0.0)
    return lines[shares.index(best)] if best >= _NEAR else ""


def design_of(article: Article) -> Finding:
    """Return the study design as the record's types tell it, else as the title or abstract does."""
    stated = next((one for one in _sentences(article) if _DESIGN.search(one[1].line)), None)
    kind = next((name for name in _TYPES if name in article.types), "")
    if kind:
        return Finding(kind, kind, PUBLICATION_TYPE)
    if (found := _DESIGN.search(article.title)) is not None:
        return Finding(_one_line(found[0]).lower(), article.title, "title")
    if stated is None:
        return Finding()
    label, sentence = stated
    named = _DESIGN.search(sentence.line)
    return Finding(_one_line(named[0]).lower(), sentence.line, label) if named else Finding()


def sample_size_of(article: Article) -> Finding:
    """Return the first number of people that the abstract states; of a review, that of studies."""
    if article.level == "synthesis":
        for label, one in _sentences(article):
            found = _SIZES_OF_STUDIES.search(one.line)
            if found and (found[1][0].isdigit() or found[1].lower().split("-")[0] in _WRITTEN):
                return Finding(_one_line(found[0]), one.line, label)
    for pattern in _SIZES:
        for label, one in _sentences(article):
            if (found := pattern.search(one.line)) and not _is_year_or_age(found, one.line):
                return Finding(_one_line(f"{found[1]} {found[2]}"), one.line, label)
    return Finding()


def _is_year_or_age(found: re.Match[str], line: str) -> bool:
    before = line[max(0, found.start(1) - 6) : found.start(1)].lower()
    if re.fullmatch(r"(?:19|20)\d\d", found[1]) or found[1] in ("0", "1"):
        return True
    return before.rstrip().endswith(("type", "grade", "stage", "aged", "age", "phase", "age of"))


def population_of(article: Article) -> Finding:
    for label, one in _sentences(article):
        if (found := _POPULATION.search(one.line)) is not None:
            return Finding(_one_line(found[1]).rstrip(",. "), one.line, label)
    return Finding()


def risk_of_bias_of(article: Article) -> Finding:
    """Return what the abstract itself says of bias, certainty or blinding."""
    for label, one in _sentences(article):
        if (found := _BIAS.search(one.line)) is not None:
            return Finding(_one_line(found[0]).lower(), one.line, label)
    return Finding()


def _sentences(article: Article) -> Iterator[tuple[str, Sentence]]:
    for section in article.sections:
        for one in split_sentences(section.text[:20_000]):
            if not addresses_reader(one.line):
                yield section.label, one


def _one_line(text: str) -> str:
    return " ".join(text.split())


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
    ``step`` reports the stage. ``verdict`` is yes or no as the model reads the quotes, "" where that is open;
    ``undecided`` says why it is. ``written`` is the text of the model, which cites articles by the numbers of
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
    verdict: str = ""
    undecided: str = ""
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
        return f"{self.verdict}, probably: " if self.verdict else ""
