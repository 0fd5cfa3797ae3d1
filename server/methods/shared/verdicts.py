"""Let the model decide yes, no or unclear, from a few sentences alone, and tell how probable each of several texts is.

Passages beside the sentences mislead a small model, and cost ten times the tokens.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Final

from models.errors import EngineUnavailable
from models.types import Delta, GenerateParams, Grammar, TokenLogprob
from models.verdicts import VerdictCalibration, features
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest
from server.methods.shared.generation import Generations, PromptFormatter, prompt_text
from server.methods.shared.reading.gate import ChoiceSupport, JudgedSentence, whether
from server.methods.shared.sentences import quotation, quoted_line, sanitize

YES: Final = "Yes"
NO: Final = "No"
UNCLEAR: Final = "Unclear"
# What the prompt offers; the training writes one of them.
VERDICTS: Final = (YES, NO, UNCLEAR)
# Quotes that yes or no is decided from.
MOST_READ: Final = 3
SMALL_VERDICT: Final = (
    "Yes or no is how a small model reads these sentences; it is wrong more often than a reader would be, so judge by "
    "them."
)
LEANING: Final = (
    "A small model leans to this reading, and is often wrong where it is as little sure: judge by the sentences."
)
UNSETTLED: Final = (
    "The model finds neither yes nor no in these sentences; whether they say it is for the reader to judge."
)
_TOP: Final = 20
_MAX_TOKENS: Final = 4
_MAX_WORDS: Final = 42
_ASKED: Final = "Yes, No or Unclear: "


@dataclass(frozen=True, slots=True)
class NumberedSentence:
    """Hold a sentence of the passage ``number`` that fits the question; ``subject`` is what it is about unsaid."""

    number: int
    text: str
    subject: str = ""

    @property
    def opening(self) -> str:
        return f"[{self.number}] says:"

    @property
    def thought(self) -> str:
        """Return the line in which the model quotes the sentence."""
        return f"{self.opening} {shortened(self.text)}"

    @property
    def prompt_line(self) -> str:
        """Return the line from which yes or no is decided."""
        return f"{self.opening} {self._about}{shortened(self.text)}"

    @property
    def line(self) -> str:
        """Return the sentence as an answer quotes it."""
        about = f"{quotation(self.subject)}: " if self.subject else ""
        return f"{about}{quotation(self.text)} [{self.number}]"

    @property
    def _about(self) -> str:
        return f"{quoted_line(self.subject)}: " if self.subject else ""


def shortened(sentence: str) -> str:
    """Return the first words of a sentence, without what would read as a number of a passage."""
    words = sanitize(sentence).split()
    return " ".join(words) if len(words) <= _MAX_WORDS else " ".join(words[:_MAX_WORDS]) + " …"


@dataclass(frozen=True, slots=True)
class VerdictPrompt:
    """Write the prompt of yes or no; ``system`` is its instruction, read once."""

    system: str

    @classmethod
    def load(cls) -> VerdictPrompt:
        return cls(prompt_text("shared", "verdict_system.txt"))

    def user(self, question: str, sentences: Sequence[NumberedSentence]) -> str:
        return "\n".join([*(one.prompt_line for one in sentences), "", question, "Yes, No or Unclear?"])


@dataclass(frozen=True, slots=True)
class Verdict:
    """Hold yes or no, "" where neither is given, and whether it is probable rather than a leaning."""

    word: str = ""
    is_sure: bool = True

    @property
    def opening(self) -> str:
        """Return the words before the quotes, "" without a verdict."""
        return f"{self.word}, {'probably' if self.is_sure else 'perhaps'}" if self.word else ""

    @property
    def note(self) -> str:
        """Return the sentence that tells how yes or no came about, or why there is none."""
        if not self.word:
            return UNSETTLED
        return SMALL_VERDICT if self.is_sure else LEANING

    @property
    def record(self) -> dict[str, str]:
        """Return the field for an answer's record: the word, or why there is none."""
        return {"verdict": self.word} if self.word else {"undecided": self.note}


@dataclass(frozen=True, slots=True)
class VerdictReader:
    """Let the model and the verifier decide yes or no together, as ``calibration`` weighs them."""

    generations: Generations
    layout: PromptFormatter
    prompt: VerdictPrompt
    calibration: VerdictCalibration
    cache_salt: str | None

    async def verdict(self, question: str, quotes: Sequence[JudgedSentence]) -> Verdict | None:
        """Return the verdict of quotes, the most relevant first; None from an engine that writes none.

        The first one decides. It is probable where the mean of all, weighed by relevance, says the same; where the
        first leaves it open, the mean is a leaning.

        Raises:
            ModelError: the engine failed.
        """
        read = quotes[:MOST_READ]
        shares = await asyncio.gather(*(self.shares_of(question, one) for one in read))
        found = [
            (self.calibration.probabilities(features(each, **asdict(one.judgement))), one.relevance)
            for one, each in zip(read, shares, strict=True)
            if each is not None
        ]
        if not found:
            return None
        whole = sum(weight for _, weight in found)
        yes, no = (sum(pair[side] * weight for pair, weight in found) / whole for side in (0, 1))
        first, on_average = self._said(*found[0][0]), self._said(yes, no)
        if not first.word:
            return Verdict(on_average.word, is_sure=False)
        return Verdict(first.word, first.is_sure and on_average.word == first.word)

    async def choice(
        self, stem: str, choices: Sequence[str], rows: Sequence[Sequence[JudgedSentence]]
    ) -> ChoiceSupport | None:
        """Return the choice that is most probably the answer; ``rows`` are the sentences as judged for each.

        None from an engine that writes no verdict.

        Raises:
            ModelError: the engine failed.
        """
        asked = [(whether(choice, stem), one) for choice, row in zip(choices, rows, strict=True) for one in row]
        found = await asyncio.gather(*(self.shares_of(*each) for each in asked))
        if all(one is None for one in found):
            return None
        shares = iter(found)
        best = [max(((self._yes(next(shares), one), one) for one in row), key=itemgetter(0)) for row in rows]
        place = max(range(len(best)), key=lambda at: best[at][0])
        return ChoiceSupport(place, best[place][1], tuple(probability for probability, _ in best))

    def _yes(self, shares: Sequence[float] | None, one: JudgedSentence) -> float:
        if shares is None:
            return 0.0
        return self.calibration.probabilities(features(shares, **asdict(one.judgement)))[0]

    def _said(self, yes: float, no: float) -> Verdict:
        word, probability = (YES, yes) if yes >= no else (NO, no)
        return Verdict(word if probability >= self.calibration.given else "", probability >= self.calibration.sure)

    async def shares_of(self, question: str, best: JudgedSentence) -> tuple[float, ...] | None:
        """Return the model's probabilities of ``VERDICTS`` from one judged sentence, None as ``shares``.

        Raises:
            ModelError: the engine failed.
        """
        lines = best.evidence.parts or (best.evidence.line,)
        sentences = [NumberedSentence(place, line, best.evidence.subject) for place, line in enumerate(lines, 1)]
        return await self.shares(question, sentences)

    async def shares(self, question: str, sentences: Sequence[NumberedSentence]) -> tuple[float, ...] | None:
        """Return the model's probabilities of ``VERDICTS``, None from an engine that writes something else.

        Raises:
            ModelError: the engine failed.
        """
        user = self.prompt.user(question, sentences)
        ids = await self.layout.prompt(self.prompt.system, user, self.layout.opening(_ASKED))
        return await probabilities_of(self.generations, ids, VERDICTS, self.cache_salt)

    async def word(self, question: str, sentences: Sequence[NumberedSentence]) -> str:
        """Return the one of ``VERDICTS`` that the model alone finds most probable, "" as ``shares`` None.

        Raises:
            ModelError: the engine failed.
        """
        shares = await self.shares(question, sentences)
        return "" if shares is None else max(zip(shares, VERDICTS, strict=True))[1]


def verdict_reader(lifecycle: EngineLifecycle, ask: AnswerRequest, prompt: VerdictPrompt) -> VerdictReader | None:
    """Return what decides yes or no from quotes for one request; None without a model that was trained for it.

    Nor is there one while the engine is loading or down: quotes stand without yes or no.
    """
    card = lifecycle.card
    if card.verdicts is None:
        return None
    try:
        engine = lifecycle.get()
    except EngineUnavailable:
        return None
    layout = PromptFormatter(engine, card, ask.instruction)
    return VerdictReader(Generations(engine, ask.request_id), layout, prompt, card.verdicts, ask.cache_salt)


async def probabilities_of(
    generations: Generations, prompt: Sequence[int], texts: Sequence[str], cache_salt: str | None
) -> tuple[float, ...] | None:
    """Return the probability of each text; 0 and 1 where the engine tells none, None where it writes no text of them.

    ``texts`` are as the prompt continues, such as " yes" and " no", and begin differently: their first tokens decide.
    How a request wants its text sampled has no part in it.

    Raises:
        ModelError: the engine failed.
    """
    grammar = Grammar("regex", "|".join(map(_literal, texts)))
    params = GenerateParams(max_tokens=_MAX_TOKENS, grammar=grammar, logprobs=_TOP, cache_salt=cache_salt)
    written, token = "", None
    async for delta in generations.stream(list(prompt), params):
        written += delta.text
        token = token or _first(delta)
    said = written.strip().lower()
    words = [text.strip().lower() for text in texts]
    if not said or not any(said.startswith(word) or word.startswith(said) for word in words):
        return None
    masses = _masses(token, generations, words) if token is not None else []
    whole = sum(masses)
    return tuple(mass / whole for mass in masses) if whole > 0 else tuple(float(said[0] == word[0]) for word in words)


def _literal(text: str) -> str:
    """Return a regex for the text; not by ``re.escape``, since engines differ in the escapes that they read."""
    return re.sub(r"[\[\].]", r"\\\g<0>", text)


def _first(delta: Delta) -> TokenLogprob | None:
    written = delta.logprobs[delta.num_reasoning_tokens :] if delta.logprobs else ()
    return written[0] if written else None


def _masses(token: TokenLogprob, generations: Generations, words: Sequence[str]) -> list[float]:
    """Return the mass of each word's beginning among the alternatives of a token, 0 for all where it is a blank."""
    masses = [0.0] * len(words)
    decode = generations.engine.tokenizer.decode
    for token_id, logprob in {token.token_id: token.logprob, **dict(token.top)}.items():
        piece = decode([token_id]).strip().lower()
        place = next((place for place, word in enumerate(words) if piece and word.startswith(piece)), None)
        if place is not None:
            masses[place] += math.exp(min(0.0, logprob))
    return masses
