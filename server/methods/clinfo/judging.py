"""Let the model judge articles: one token of yes or no each, all at once.

Where sentences are quoted, a model that was trained for it decides yes or no from the quotes.

The wording of the prompts is ours, the parts are those of the paper. What many calls share comes first (instruction,
question), so that the engine's prefix cache computes it once; the article of a call comes last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from models.errors import ArrowheadError
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest
from server.methods.clinfo.literature import Article
from server.methods.clinfo.statements import Conclusion
from server.methods.shared.generation import Generations, PromptFormatter, finished, prompt_text
from server.methods.shared.sentences import addresses_reader, sanitize, split_sentences
from server.methods.shared.verdicts import NO, YES, NumberedSentence, VerdictReader, probabilities_of

Part = Literal["system", "queries", "relevant", "contradicts", "table", "cell", "synthesis"]
_PARTS: Final[tuple[Part, ...]] = get_args(Part)
# A longer text is cut: the one-token judgements read at most so much of an article.
MAX_CHARS: Final = 6000
# So many calls run at once; the engine batches them over their shared prefix.
AT_ONCE: Final = 16
_ANSWER: Final = "Answer:"
_YES_OR_NO: Final = (" yes", " no")


@dataclass(frozen=True, slots=True)
class Prompts:
    """Hold all instructions by name, read once."""

    parts: dict[Part, str]

    @classmethod
    def load(cls) -> Prompts:
        return cls({name: prompt_text("clinfo", f"{name}.txt") for name in _PARTS})

    @property
    def system(self) -> str:
        return self.parts["system"]

    def queries(self, question: str, most: int) -> str:
        return f"{self.parts['queries'].replace('{most}', str(most))}\n\nQuestion: {question}"

    def about(self, part: Part, question: str, article: Article) -> str:
        """Return the instruction, the question and an article."""
        return f"{self.parts[part]}\n\nQuestion: {question}\n\nArticle:\n{shown(article)}"

    def contradicts(self, sentence: str, article: Article) -> str:
        return f"{self.parts['contradicts']}\n\nSentence: {sentence}\n\nArticle:\n{shown(article)}"

    def cell(self, column: str, article: Article) -> str:
        return f"{self.parts['cell']}\n\nColumn: {column}\n\nArticle:\n{shown(article)}"

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
        prompt = await self.layout.prompt(self.prompts.system, user, _ANSWER)
        found = await probabilities_of(self.generations, prompt, _YES_OR_NO, self.cache_salt)
        return found[0] if found is not None else 0.0


def judge_of(lifecycle: EngineLifecycle, ask: AnswerRequest, prompts: Prompts) -> Judge:
    """Return what asks the model about articles for one request."""
    engine = lifecycle.get()
    layout = PromptFormatter(engine, lifecycle.card, ask.instruction)
    return Judge(Generations(engine, ask.request_id), layout, prompts, ask.cache_salt)


async def decided(question: str, conclusion: Conclusion, verdicts: VerdictReader) -> Conclusion:
    """Return a conclusion of quotes with yes or no, which model and verifier read from them.

    Articles seem to disagree where the verifier is sure that they say yes and no; they do where the model, which reads
    the quotes of each, says so too. Where they do, yes or no is a leaning.

    Raises:
        ModelError: the engine failed.
    """
    asked = sorted({key for pair in conclusion.disagreeing for key in pair})
    quotes = [[claim.text for claim in conclusion.claims if key in claim.keys] for key in asked]
    words = await asyncio.gather(*(verdicts.word(question, _numbered(texts)) for texts in quotes))
    word_of = dict(zip(asked, words, strict=True))
    apart = [(one, other) for one, other in conclusion.disagreeing if {word_of[one], word_of[other]} == {YES, NO}]
    verdict = await verdicts.verdict(question, conclusion.quotes) or conclusion.verdict
    if verdict is not None and apart:
        verdict = replace(verdict, is_sure=False)
    return replace(conclusion, verdict=verdict, disagreeing=tuple(apart))


def _numbered(texts: Sequence[str]) -> list[NumberedSentence]:
    return [NumberedSentence(number, text) for number, text in enumerate(texts, 1)]
