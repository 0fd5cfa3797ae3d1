"""Let the model judge articles, and the sentences of a written synthesis: one token of yes or no each, all at once.

Where sentences are quoted, a model that was trained for it decides yes or no from the quotes.

A sentence is first looked up: it has a mark, its numbers are those of articles that were read, and every identifier and
number of it stands in one of them. Then the model judges: is it stated there? A sentence that fails is written again
once; one that fails again is struck out and counted.

The wording of the prompts is ours, the parts are those of the paper. What many calls share comes first (instruction,
question), so that the engine's prefix cache computes it once; the article of a call comes last.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final, Literal, get_args

from models.errors import ArrowheadError
from models.types import GenerateParams
from server.methods.clinfo.literature import Article
from server.methods.clinfo.stages import finished
from server.methods.clinfo.statements import Claim, Conclusion
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.identifiers import EvidenceIndex, identifiers_in
from server.methods.shared.sentences import MARK, addresses_reader, numbers_in, sanitize, split_sentences
from server.methods.shared.verdicts import UNCLEAR, UNSETTLED, EvidenceSentence, VerdictReader, probabilities_of

Part = Literal["system", "queries", "relevant", "supported", "contradicts", "table", "synthesis", "rewrite"]
_PARTS: Final[tuple[Part, ...]] = get_args(Part)
# A longer text is cut: the one-token judgements read at most so much of an article.
MAX_CHARS: Final = 6000
# So many calls run at once; the engine batches them over their shared prefix.
AT_ONCE: Final = 16
_ANSWER: Final = "Answer:"
_YES_OR_NO: Final = (" yes", " no")
SUPPORTED: Final = 0.5
_MOST_SENTENCES: Final = 16
_REWRITE_TOKENS: Final = 160
_EVIDENCE_CHARS: Final = 8000
_STOP_BEFORE_MARK: Final = re.compile(r"([.?!])\s*(\[\d[\d,;– -]*\])")


@dataclass(frozen=True, slots=True)
class Prompts:
    """Hold all instructions by name, read once."""

    parts: dict[Part, str]

    @classmethod
    def load(cls) -> Prompts:
        folder = files("server.methods.clinfo") / "prompts"
        return cls({name: (folder / f"{name}.txt").read_text(encoding="utf-8").strip() for name in _PARTS})

    @property
    def system(self) -> str:
        return self.parts["system"]

    def queries(self, question: str, most: int) -> str:
        return f"{self.parts['queries'].replace('{most}', str(most))}\n\nQuestion: {question}"

    def about(self, part: Part, question: str, article: Article) -> str:
        """Return the instruction, the question and an article."""
        return f"{self.parts[part]}\n\nQuestion: {question}\n\nArticle:\n{shown(article)}"

    def supported(self, sentence: str, evidence: str) -> str:
        return f"{self.parts['supported']}\n\nArticle text:\n{evidence}\n\nSentence: {sentence}"

    def contradicts(self, sentence: str, article: Article) -> str:
        return f"{self.parts['contradicts']}\n\nSentence: {sentence}\n\nArticle:\n{shown(article)}"

    def rewrite(self, sentence: str, evidence: str) -> str:
        return f"Article text:\n{evidence}\n\n{self.parts['rewrite']}\n\nSentence: {sentence}"

    def synthesis(self, question: str, articles: str) -> str:
        return f"Question: {question}\n\nArticles:\n{articles}\n\nQuestion: {question}\n\n{self.parts['synthesis']}"


def shown(article: Article, most: int = MAX_CHARS) -> str:
    """Return an article as models read it: without marks of its own, and without what addresses a reader."""
    lines = [sanitize(article.title)] if article.title else []
    for section in article.sections:
        kept = [one.line for one in split_sentences(section.text) if not addresses_reader(one.line)]
        text = sanitize(" ".join(kept) or ("" if addresses_reader(section.text) else section.text))
        lines.append(f"{section.label}: {text}" if section.label else text)
    return "\n   ".join(line for line in lines if line)[:most]


@dataclass(frozen=True, slots=True)
class Judged:
    """Hold the probability of yes by an article's key; ``is_late``: the time ended before all were judged."""

    yes: Mapping[str, float]
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Judge:
    """Ask the model for yes or no; safe for concurrent tasks of one event loop.

    A judgement that fails is left out: the score that was there before then decides.
    """

    generations: Generations
    layout: PromptFormatter
    prompts: Prompts
    cache_salt: str | None

    async def relevant(self, question: str, articles: Sequence[Article], seconds: float) -> Judged:
        """Return the judgements that are there in time."""
        slots = asyncio.Semaphore(AT_ONCE)
        asked = [self.prompts.about("relevant", question, article) for article in articles]
        found = await finished([self._tried(user, slots) for user in asked], seconds)
        yes = {a.key: value for a, value in zip(articles, found, strict=True) if isinstance(value, float)}
        return Judged(yes, is_late=None in found)

    async def all(self, users: Sequence[str]) -> list[float | None]:
        """Return the probability of yes to each prompt, None where the call failed."""
        slots = asyncio.Semaphore(AT_ONCE)
        found = await asyncio.gather(*(self._tried(user, slots) for user in users))
        return [value if isinstance(value, float) else None for value in found]

    async def _tried(self, user: str, slots: asyncio.Semaphore) -> float | ArrowheadError:
        async with slots:
            try:
                return await self.probability(user)
            except ArrowheadError as error:
                return error

    async def probability(self, user: str) -> float:
        """Return the probability of yes; 0 or 1 where the engine tells none.

        Raises:
            ModelError: the engine failed.
        """
        prompt = self.layout.ids(self.prompts.system, user, _ANSWER)
        found = await probabilities_of(self.generations, prompt, _YES_OR_NO, self.cache_salt)
        return found[0] if found is not None else 0.0


@dataclass(frozen=True, slots=True)
class Verified:
    """Hold the sentences that the articles support, and the others as they were written last."""

    claims: tuple[Claim, ...]
    struck: tuple[str, ...]
    rewritten: int = 0


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a synthesis, each with its marks before its full stop."""
    moved = _STOP_BEFORE_MARK.sub(r" \2\1", " ".join(text.split()))
    # A bare "Yes [1]." is no sentence to the splitter.
    return [one.line for one in split_sentences(moved)][:_MOST_SENTENCES] or ([moved] if moved else [])


def fault_of(sentence: str, articles: Mapping[int, Article]) -> str:
    """Return what a lookup finds wrong with a sentence, "" for nothing."""
    numbers = numbers_in(sentence)
    if not numbers:
        return "it cites no article"
    if unknown := [number for number in numbers if number not in articles]:
        return f"it cites {', '.join(f'[{number}]' for number in unknown)}, which was not read"
    index = EvidenceIndex()
    for number in numbers:
        index.add(f"{articles[number].title}\n{articles[number].text}")
    missing = [one.text for one in identifiers_in(MARK.sub(" ", sentence)) if not index.has(one)]
    return f"{', '.join(missing)} stands in no article that it cites" if missing else ""


async def verified(sentences: Sequence[str], articles: Mapping[int, Article], judge: Judge) -> Verified:
    """Check all sentences at once; ``articles`` are those that were read, by number."""
    supported = await _supported(sentences, articles, judge)
    failed = [place for place, is_good in enumerate(supported) if not is_good]
    again = await _rewritten([sentences[place] for place in failed], articles, judge)
    second = await _supported(again, articles, judge)
    final = list(sentences)
    for place, text, is_good in zip(failed, again, second, strict=True):
        final[place], supported[place] = text, is_good
    claims = [_claim(text, articles) for text, is_good in zip(final, supported, strict=True) if is_good]
    struck = tuple(text for text, is_good in zip(final, supported, strict=True) if not is_good)
    return Verified(tuple(claims), struck, sum(second))


async def _supported(sentences: Sequence[str], articles: Mapping[int, Article], judge: Judge) -> list[bool]:
    good = [not fault_of(one, articles) for one in sentences]
    asked = [place for place, is_good in enumerate(good) if is_good]
    prompts = [judge.prompts.supported(_bare(sentences[at]), _evidence(sentences[at], articles)) for at in asked]
    for place, probability in zip(asked, await judge.all(prompts), strict=True):
        # A judgement that failed supports nothing.
        good[place] = probability is not None and probability >= SUPPORTED
    return good


async def _rewritten(sentences: Sequence[str], articles: Mapping[int, Article], judge: Judge) -> list[str]:
    """Return the sentences written again, all at once; one that cites nothing that was read stays as it is."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(sentence: str) -> str:
        evidence = _evidence(sentence, articles)
        if not evidence:
            return sentence
        async with slots:
            return await _rewrite(sentence, evidence, judge)

    return list(await asyncio.gather(*map(one, sentences)))


async def _rewrite(sentence: str, evidence: str, judge: Judge) -> str:
    user = judge.prompts.rewrite(sentence, evidence)
    params = GenerateParams(max_tokens=_REWRITE_TOKENS, cache_salt=judge.cache_salt, stop_on_repetition=True)
    try:
        found = await judge.generations.write(judge.layout.ids(judge.prompts.system, user), params)
    except ArrowheadError:
        return sentence
    lines = sentences_of(found.text)
    return lines[0] if lines else sentence


def _evidence(sentence: str, articles: Mapping[int, Article]) -> str:
    cited = [articles[number] for number in numbers_in(sentence) if number in articles]
    return "\n\n".join(shown(article, _EVIDENCE_CHARS // max(1, len(cited))) for article in cited)


async def decided(question: str, conclusion: Conclusion, verdicts: VerdictReader) -> Conclusion:
    """Return a conclusion of quotes with yes or no, which the model decides from all of them.

    Articles seem to disagree where one denies what another says, by their words; where the quotes of both decide the
    question alike, they do not.

    Raises:
        ModelError: the engine failed.
    """
    asked = sorted({key for pair in conclusion.disagreeing for key in pair})
    quotes = [[claim.text for claim in conclusion.claims if key in claim.keys] for key in asked]
    every = [claim.text for claim in conclusion.claims]
    works = (verdicts.verdict(question, _numbered(texts)) for texts in (every, *quotes))
    verdict, *words = [one.word for one in await asyncio.gather(*works)]
    word_of = dict(zip(asked, words, strict=True))
    apart = [
        (one, other) for one, other in conclusion.disagreeing if not word_of[one] or word_of[one] != word_of[other]
    ]
    is_open = verdict == UNCLEAR
    return replace(
        conclusion,
        verdict="" if is_open else verdict,
        undecided=UNSETTLED if is_open else "",
        disagreeing=tuple(apart),
    )


def _numbered(texts: Sequence[str]) -> list[EvidenceSentence]:
    return [EvidenceSentence(number, text) for number, text in enumerate(texts, 1)]


def _bare(sentence: str) -> str:
    return " ".join(re.sub(r" +(?=[.,;:?!])", "", MARK.sub("", sentence)).split())


def _claim(sentence: str, articles: Mapping[int, Article]) -> Claim:
    return Claim(_bare(sentence), tuple(articles[number].key for number in numbers_in(sentence)), is_quote=False)
