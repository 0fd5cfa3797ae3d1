"""Say what articles state: their sentences that are evidence, the cells of their rows, and a conclusion of claims.

A conclusion is what the synthesis of a review ends in, whichever way it is made; ``extract`` makes it without a model,
of verbatim sentences chosen by their calibrated scores.

Left out of the quotes are aims and methods ("We aimed to determine whether …", "Here we review …"), which repeat a
question without answering it, fragments of a few words, and text that addresses whoever reads it, as an abstract that
was written to steer a model does. In the table, what is not stated stays empty; each value comes with the sentence that
it stands in, and a design that only the record's publication types tell has that type as its quote.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Final

from server.methods.base import AnswerOutcome
from server.methods.clinfo.literature import Article, Literature
from server.methods.clinfo.screening import Screened, level_first, logit
from server.methods.shared.evidence_table import Finding
from server.methods.shared.extractive import (
    ScoredSentence,
    Source,
    candidates_of,
    chosen,
    question_stems,
    rarity,
    scored,
    share_of,
    stems_of,
)
from server.methods.shared.passages import SentenceScores
from server.methods.shared.sentences import Sentence, addresses_reader, plain_marks, quotation, split_sentences
from server.methods.shared.subjects import missing_name

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
    r"(?:we|the authors) (?:aim(?:ed)?|sought|set out|wished|hypothesi[sz]ed|planned|intend(?:ed)?|"
    r"review|discuss|summari[sz]e|describe (?:the|how)) |"
    r"(?:the|our) (?:\w+ )?(?:aim|objective|purpose|goal)s?\b|"
    r"to (?:investigate|evaluate|assess|determine|examine|explore|compare|study|review|describe|test|identify|"
    r"summari[sz]e|analy[sz]e|clarify|establish) |"
    r"this (?:\w+ ){0,3}(?:study|review|trial|article|paper|work) (?:aim(?:s|ed)|was (?:designed|undertaken|conducted|"
    r"performed|carried out) to|investigate[sd]|examine[sd]|evaluate[sd]|assess(?:es|ed)|describes|reviews|"
    r"summari[sz]es|discusses)|"
    r"we (?:searched|included|enrolled|recruited|reviewed|performed|conducted|randomi[sz]ed|randomly))",
    re.IGNORECASE,
)
# "Nine studies were pooled on …" repeats a question too; with a result in it, it is one.
_POOLED: Final = re.compile(
    r"^(?:a total of |in total,? |overall,? )?(?:[\w-]+ ){0,4}(?:studies|trials|articles|reports|publications)\b"
    r"[^.]{0,60}? (?:were|was|have been) "
    r"(?:pooled|included|identified|analy[sz]ed|reviewed|retrieved|selected|eligible)\b",
    re.IGNORECASE,
)
# So does "Subgroup analyses for patients with … were performed"; a treatment that was performed may be an answer.
_PROCEDURE: Final = re.compile(
    r"^[^.;]{0,120}?\b(?:analys[ei]s|searches|search|data|reviews?|measurements?|assessments?|interviews?|"
    r"comparisons?|surveys?)\b[^.;]{0,160}? (?:was|were|have been|has been) (?:also |then |further )?"
    r"(?:performed|conducted|carried out|undertaken|collected|extracted|analy[sz]ed|compared|searched)\b",
    re.IGNORECASE,
)
_HAS_RESULT: Final = re.compile(
    r"\b(?:show|found|reveal|suggest|indicat|report|reduc|increas|decreas|lower|higher|improv|associat|differ|effect|"
    r"significan|benefit|risk|prevent|caus)",
    re.IGNORECASE,
)
# "carnitine translocase Slc25a20" names something and says nothing of it.
_MIN_WORDS: Final = 4
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
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

NO_SENTENCE: Final = "No sentence of the articles that were found is close enough to an answer to be quoted."
# Lower than where passages are not screened first (``shared.extractive``), as screened articles have fewer sentences
# that only sound like an answer: the lowest at which, on half of the questions of docs/clinfo.md, at most 20 % are
# answered with their gold articles excluded.
BAR: Final = 0.48
# So many of the articles that are not kept tell which words of a question are rare.
_MAX_OTHERS: Final = 60
# By how much the logarithm of the odds of a quote may be below the best one's.
_FALL: Final = 1.0
# Sentences of two articles that share so many of their words speak of the same thing.
_SAME_THING: Final = 0.5
_MAX_DISAGREEMENTS: Final = 2
# A sentence with a smaller share of a text's words, by weight, is not what the text was read from.
_NEAR: Final = 0.3
_Origins = Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold one sentence that can be quoted; ``line`` has single blanks."""

    article: int
    section: str
    line: str


def statements_of(article: Article, number: int = 0) -> Iterator[Statement]:
    """Yield the sentences of an article that state something, in order."""
    for section in article.sections:
        if _NO_RESULT.search(section.label) and not _RESULT.search(section.label):
            continue
        for one in split_sentences(section.text[:_LONGEST]):
            if _states(one.line):
                yield Statement(number, section.label, one.line)


def _states(line: str) -> bool:
    """Return whether a sentence states something: no aim, no fragment as of a title, no order to its reader."""
    is_whole = sum(1 for _ in islice(_WORD.finditer(line), _MIN_WORDS)) == _MIN_WORDS
    is_work = any(pattern.match(line) for pattern in (_POOLED, _PROCEDURE)) and not _HAS_RESULT.search(line)
    return is_whole and not is_work and not _AIM.match(line) and not addresses_reader(line)


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
    requested = " ".join(quote.split())
    texts = (article.title, *(one.text for one in article.sections))
    return bool(requested) and any(requested in " ".join(text.split()) for text in texts)


def nearest_sentence(text: str, article: Article, *, may_deny: bool = False) -> str:
    """Return the article's own sentence that has most of a text's words, by their rarity in it; "" where none is near.

    A sentence that denies supports none that does not, nor the reverse, unless it ``may_deny``.
    """
    lines = [one.line for _, one in _sentences(article) if may_deny or is_negated(one.line) == is_negated(text)]
    stems = [stems_of(line) for line in lines]
    asked = question_stems(text)
    weights = rarity(asked, stems)
    shares = [share_of(asked, words, weights) for words in stems]
    best = max(shares, default=0.0)
    return lines[shares.index(best)] if best >= _NEAR else ""


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

    ``results`` is the best sentence of an article and ``cells`` further cells of its row, by key. ``disagreeing`` are
    the keys of articles that speak of the same thing, one of which denies it. ``lack`` is why there is no claim,
    ``limit`` the sentence on a limit that ended the text. ``step`` reports the stage. ``verdict`` is yes or no as the
    model reads the quotes, "" where that is open; ``undecided`` says why it is. ``written`` is the text of the model,
    which cites articles by the numbers of ``numbered``.
    """

    claims: tuple[Claim, ...] = ()
    results: Mapping[str, Finding] = field(default_factory=dict)
    cells: Mapping[str, Mapping[str, Finding]] = field(default_factory=dict)
    disagreeing: tuple[tuple[str, str], ...] = ()
    lack: str = ""
    limit: str = ""
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


def missing_in(question: str, conclusion: Conclusion, articles: Sequence[Article]) -> str:
    """Return a name of the question that no article cited has, so that their quotes decide nothing; "" for none."""
    cited = [one for one in articles if one.key in conclusion.numbers]
    others = [Source(one.title, one.text) for one in articles if one.key not in conclusion.numbers]
    read = Source(" ".join(one.title for one in cited), " ".join(one.text for one in cited))
    return missing_name(question, [read, *others], 0)


async def extract(
    question: str, kept: Sequence[Screened], screened: Sequence[Screened], literature: Literature, most: int
) -> Conclusion:
    """Choose at most ``most`` sentences of the articles that are kept, which come best first, above ``BAR``."""
    articles = [one.article for one in kept]
    text, others = readable(articles), _not_kept(screened)
    candidates = await asyncio.to_thread(
        candidates_of, question, text.sources, with_titles=True, is_screened=True, others=others
    )
    lines = [one.sentence.line for one in candidates.sentences]
    scores = await literature.compare(question, lines) if lines else SentenceScores()
    ranked = scored(candidates.sentences, scores)
    usable = [one for one in ranked if is_verbatim(one.line, articles[text.origins[one.candidate.source][0]])]
    above = [one for one in usable if one.score >= BAR]
    picked = chosen(nearly_best(above, kept, text.origins), most, BAR)
    pairs = _disagreeing(picked, above, text.origins)
    key = partial(_key, articles=articles, origins=text.origins)
    shown = {one.candidate for one in picked}
    denied = [other for _, other in pairs if other.candidate not in shown]
    best = max((one.score for one in usable), default=0.0)
    return Conclusion(
        claims=tuple(_claim(one, articles, text.origins) for one in [*picked, *denied]),
        results=_results(usable, articles, text.origins),
        disagreeing=tuple((key(one), key(other)) for one, other in pairs),
        lack="" if picked else NO_SENTENCE,
        outcome="answered" if picked else "abstained",
        step=f"{candidates.num_found} sentences, best score {best:.2f}, {BAR:.2f} is needed; {len(picked)} quoted",
        record={"bar": BAR, "best": round(best, 4), "num_sentences": candidates.num_found},
    )


def _not_kept(screened: Sequence[Screened]) -> list[Source]:
    """Return the best of the articles that were screened by what they say and are not kept."""
    rest = [one for one in screened if one.reason in ("not_relevant", "judged_irrelevant")]
    best = sorted(rest, key=lambda one: -one.score)[:_MAX_OTHERS]
    return [Source(one.article.title, one.article.text) for one in best]


def nearly_best(above: Sequence[ScoredSentence], kept: Sequence[Screened], origins: _Origins) -> list[ScoredSentence]:
    """Return the sentences whose odds, times those of their article, are not far below the best one's, best first.

    Of nearly equal ones, that of the better level of evidence goes first.
    """

    def source(one: ScoredSentence) -> Screened:
        return kept[origins[one.candidate.source][0]]

    joined = [replace(one, order=one.order + logit(source(one).score)) for one in above]
    top = max((one.order for one in joined), default=0.0)
    ranked = sorted((one for one in joined if one.order >= top - _FALL), key=lambda one: -one.order)
    return level_first(ranked, lambda one: one.order, lambda one: source(one).article.level)


def _key(one: ScoredSentence, articles: Sequence[Article], origins: _Origins) -> str:
    return articles[origins[one.candidate.source][0]].key


def _claim(one: ScoredSentence, articles: Sequence[Article], origins: _Origins) -> Claim:
    section = origins[one.candidate.source][1]
    return Claim(one.line, (_key(one, articles, origins),), section=section, score=one.score)


def _results(usable: Sequence[ScoredSentence], articles: Sequence[Article], origins: _Origins) -> dict[str, Finding]:
    """Return the best sentence of each article."""
    results: dict[str, Finding] = {}
    for one in usable:
        section = origins[one.candidate.source][1]
        results.setdefault(_key(one, articles, origins), Finding(one.line, one.line, section))
    return results


def _disagreeing(
    picked: Sequence[ScoredSentence], above: Sequence[ScoredSentence], origins: _Origins
) -> list[tuple[ScoredSentence, ScoredSentence]]:
    """Return the chosen sentences with those of other articles that deny the same thing, or the reverse."""
    pairs: list[tuple[ScoredSentence, ScoredSentence]] = []
    for one in picked:
        for other in above:
            first, second = one.candidate.stems, other.candidate.stems
            is_same = len(first & second) > _SAME_THING * min(len(first), len(second))
            apart = origins[one.candidate.source][0] != origins[other.candidate.source][0]
            if apart and is_same and is_negated(one.line) != is_negated(other.line):
                pairs.append((one, other))
                break
    return pairs[:_MAX_DISAGREEMENTS]
