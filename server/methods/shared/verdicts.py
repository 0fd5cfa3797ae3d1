"""Let the model decide yes or no, from a few sentences alone, and tell how probable one of two texts is.

Passages beside the sentences mislead a small model, and cost ten times the tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from models.errors import EngineUnavailable
from models.types import Delta, GenerateParams, Grammar, TokenLogprob
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.sentences import quoted_line, sanitize

_YES_OR_NO: Final = ("Yes", "No")
# Sentences that yes or no is decided from.
MOST_READ: Final = 3
# Of the best sentence's score, which those beside it need.
SHARE_OF_BEST: Final = 0.5
SMALL_VERDICT: Final = (
    "Yes or no is how a small model reads these sentences; it is wrong more often than a reader would be, so judge by "
    "them."
)
UNDECIDED: Final = "What is quoted does not name “{}”, so it decides neither yes nor no."
_TOP: Final = 20
_MAX_TOKENS: Final = 4
_MAX_WORDS: Final = 42
_ASKED: Final = "Yes or No: "


@dataclass(frozen=True, slots=True)
class EvidenceSentence:
    """Hold a sentence of the passage ``number`` that fits the question; ``subject`` is what a pronoun in it means."""

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
    def line(self) -> str:
        """Return the sentence as an answer quotes it."""
        about = f"{quoted_line(self.subject)}: " if self.subject else ""
        return f"{about}“{quoted_line(self.text)}” [{self.number}]"


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
        path = files("server.methods.shared") / "prompts" / "verdict_system.txt"
        return cls(path.read_text(encoding="utf-8").strip())

    def user(self, question: str, sentences: Sequence[EvidenceSentence]) -> str:
        return "\n".join([*(one.thought for one in sentences), "", question, "Yes or No?"])


@dataclass(frozen=True, slots=True)
class VerdictReader:
    """Let the model decide yes or no from sentences.

    ``yes_bar`` is the least probability of a yes: sentences in favour are common and easily said, so yes may have to be
    surer than no.
    """

    generations: Generations
    layout: PromptFormatter
    prompt: VerdictPrompt
    yes_bar: float
    cache_salt: str | None

    async def verdict(self, question: str, sentences: Sequence[EvidenceSentence]) -> str:
        """Return "Yes" or "No", "" from an engine that enforces no grammar and writes something else.

        Raises:
            ModelError: the engine failed.
        """
        user = self.prompt.user(question, sentences)
        ids = self.layout.ids(self.prompt.system, user, self.layout.opening(_ASKED))
        found = await probability_of_first(self.generations, ids, _YES_OR_NO, self.cache_salt)
        return "" if found is None else _YES_OR_NO[found < self.yes_bar]


def verdict_reader(lifecycle: EngineLifecycle, ask: AnswerRequest, prompt: VerdictPrompt) -> VerdictReader | None:
    """Return what decides yes or no from quotes for one request; None without a model that was trained for it.

    Nor is there one while the engine is loading or down: quotes stand without yes or no.
    """
    card = lifecycle.card
    if not (card.evidence_reasoning and card.verdicts):
        return None
    try:
        engine = lifecycle.get()
    except EngineUnavailable:
        return None
    layout = PromptFormatter(engine, card, ask.instruction)
    return VerdictReader(Generations(engine, ask.request_id), layout, prompt, card.yes_bar, ask.cache_salt)


async def probability_of_first(
    generations: Generations, prompt: Sequence[int], texts: tuple[str, str], cache_salt: str | None
) -> float | None:
    """Return the probability of the first text; 0 or 1 where the engine tells none, None where it writes neither.

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
    first, second = (text.strip().lower() for text in texts)
    if not said or not any(said.startswith(text) or text.startswith(said) for text in (first, second)):
        return None
    mass, other = _masses(token, generations, (first, second)) if token is not None else (0.0, 0.0)
    return mass / (mass + other) if mass + other > 0 else float(said[0] == first[0])


def _literal(text: str) -> str:
    """Return a regex for the text; not by ``re.escape``, since engines differ in the escapes that they read."""
    return re.sub(r"[\[\].]", r"\\\g<0>", text)


def _first(delta: Delta) -> TokenLogprob | None:
    written = delta.logprobs[delta.num_reasoning_tokens :] if delta.logprobs else ()
    return written[0] if written else None


def _masses(token: TokenLogprob, generations: Generations, texts: tuple[str, str]) -> tuple[float, float]:
    """Return the mass of either text's beginning among the alternatives of a token, 0 for both where it is a blank."""
    first = second = 0.0
    decode = generations.engine.tokenizer.decode
    for token_id, logprob in {token.token_id: token.logprob, **dict(token.top)}.items():
        piece = decode([token_id]).strip().lower()
        mass = math.exp(min(0.0, logprob))
        if piece and texts[0].startswith(piece):
            first += mass
        elif piece and texts[1].startswith(piece):
            second += mass
    return first, second
