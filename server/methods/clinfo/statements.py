"""Say what an article states: which sentences can be quoted as evidence, and the cells of its row of the table. Pure.

Left out of the quotes are aims and methods ("We aimed to determine whether …"), which repeat a question without
answering it, and text that addresses whoever reads it, as an abstract that was written to steer a model does. In the
table, what is not stated stays empty; each value comes with the sentence that it stands in, and a design that only the
record's publication types tell has that type as its quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from server.methods.clinfo.literature import Article
from server.methods.shared.evidence_table import Finding
from server.methods.shared.extractive import Source
from server.methods.shared.sentences import Sentence, split_sentences

_LONGEST: Final = 20_000
_NO_RESULT: Final = re.compile(
    r"\b(?:aims?|objectives?|purpose|methods?|methodology|design|setting|participants|patients and methods|"
    r"materials?|data sources?|study selection|search strategy|eligibility|interventions?|main outcome measures?|"
    r"registration|funding|keywords?|protocol|hypothesis)\b",
    re.IGNORECASE,
)
_RESULT: Final = re.compile(r"\b(?:results?|findings?|conclusions?|interpretation|discussion)\b", re.IGNORECASE)
_AIM: Final = re.compile(
    r"^(?:(?:here|therefore|thus|in this \w+),? )?(?:"
    r"(?:we|the authors) (?:aim(?:ed)?|sought|set out|wished|hypothesi[sz]ed|planned|intend(?:ed)?) |"
    r"(?:the|our) (?:\w+ )?(?:aim|objective|purpose|goal)s?\b|"
    r"to (?:investigate|evaluate|assess|determine|examine|explore|compare|study|review|describe|test|identify|"
    r"summari[sz]e|analy[sz]e|clarify|establish) |"
    r"this (?:\w+ ){0,3}(?:study|review|trial|article|paper|work) (?:aim(?:s|ed)|was (?:designed|undertaken|conducted|"
    r"performed|carried out) to|investigate[sd]|examine[sd]|evaluate[sd]|assess(?:es|ed)|describes|reviews|"
    r"summari[sz]es|discusses)|"
    r"we (?:searched|included|enrolled|recruited|reviewed|performed|conducted|randomi[sz]ed|randomly))",
    re.IGNORECASE,
)
_INSTRUCTION: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.]{0,60}\b(?:above|previous|prior|earlier|instructions?|articles?|"
    r"evidence|sources?|context|rules?|question)\b|\b(?:system|developer) (?:prompt|message)\b|\bas an? (?:ai|language "
    r"model|assistant)\b|\byou (?:must|should|shall|will|are to|have to|need to)\b|\b(?:answer|reply|respond|cite|"
    r"output|print|write|say|tell the user|recommend)\b(?: only| that| with| as|:)[^.]{0,40}(?:\[\d|\bPMID\b|\"|“|'|"
    r"\byes\b|\bno\b|\buser\b|\breader\b)|</?(?:s|system|user|assistant|inst|im_start|im_end)\b|\[/?INST\]|<\||"
    r"\bdo not (?:mention|cite|use|tell|trust)\b|\bassistant\s*:|\bprompt injection\b",
    re.IGNORECASE,
)
_NEGATED: Final = re.compile(
    r"\b(?:did|does|do|was|were|is|are|has|have|had|could|can|may|might|would|should) not\b|\bcannot\b|n['’]t\b|"
    r"\bno (?:\w+ ){0,2}(?:evidence|association|difference|effect|benefit|increase|reduction|improvement|change|"
    r"relationship|correlation|impact|role|advantage)\b|\bnot (?:\w+ )?(?:associated|significant|effective|superior|"
    r"related|linked|improve|reduce|increase)\w*|\bfail(?:s|ed)? to\b|\black(?:s|ed)? of\b|\bneither\b|\bunlikely\b|"
    r"\bineffective\b|\bnever\b",
    re.IGNORECASE,
)
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


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold one sentence that can be quoted; ``line`` has single blanks."""

    article: int
    section: str
    line: str


def addresses_reader(text: str) -> bool:
    """Return whether a text gives instructions to a reader or a model."""
    return _INSTRUCTION.search(text) is not None


def statements_of(article: Article, number: int = 0) -> Iterator[Statement]:
    """Yield the sentences of an article that state something, in order."""
    for section in article.sections:
        if _NO_RESULT.search(section.label) and not _RESULT.search(section.label):
            continue
        for one in split_sentences(section.text[:_LONGEST]):
            if not _AIM.match(one.line) and not addresses_reader(one.line):
                yield Statement(number, section.label, one.line)


@dataclass(frozen=True, slots=True)
class Readable:
    """Hold the sections of articles as sources to choose from; ``origins`` has the article and label of each."""

    sources: tuple[Source, ...]
    origins: tuple[tuple[int, str], ...]


def readable(articles: Sequence[Article]) -> Readable:
    """Return the quotable sentences of the articles, one source for each section; each stands on lines of its own."""
    sources: list[Source] = []
    origins: list[tuple[int, str]] = []
    for number, article in enumerate(articles):
        by_section: dict[str, list[str]] = {}
        for one in statements_of(article, number):
            by_section.setdefault(one.section, []).append(one.line)
        for label, lines in by_section.items():
            sources.append(Source(article.title, "\n\n".join(lines)))
            origins.append((number, label))
    return Readable(tuple(sources), tuple(origins))


def is_verbatim(quote: str, article: Article) -> bool:
    """Return whether a quote stands in the title or the text of an article, blanks aside."""
    wanted = " ".join(quote.split())
    texts = (article.title, *(one.text for one in article.sections))
    return bool(wanted) and any(wanted in " ".join(text.split()) for text in texts)


def is_negated(line: str) -> bool:
    """Return whether a sentence denies what it speaks of."""
    return _NEGATED.search(line) is not None


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
