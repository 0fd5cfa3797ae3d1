"""Answer with sentences of the passages, with a model that was trained to quote one before it answers.

Such a model reasons in one line, ``[2] says: SENTENCE`` or ``No passage says it.`` The sentence is chosen by its score,
as for extractive answers: this finds the right passage more often than a small model does, and saves the tokens of the
quote. The model decides whether a passage says it, and yes or no. Everything else is answered with the sentence itself,
since a small model's own words are wrong more often than the sentence is (docs/evals.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from retrieval.corpus.namespaces.settings import embedded_title
from server.methods.base import Event, TextDelta, TranscriptDelta
from server.methods.medrag.chain_of_thought import Chain, Chains, PromptInputs
from server.methods.medrag.closing import NO_PASSAGE
from server.methods.medrag.context import Context
from server.methods.medrag.request import MARK
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.extractive import ScoredSentence, Source, bar_for, candidates_of, chosen, completing, scored
from server.methods.shared.passages import SentenceScores
from server.methods.shared.sentences import numbers_in, quoted_line
from server.methods.shared.subjects import asked_first, completes, missing_name, quotable, with_subjects
from server.methods.shared.verdicts import (
    MOST_READ,
    UNCLEAR,
    UNSETTLED,
    EvidenceSentence,
    Verdict,
    VerdictReader,
    lacking,
    probabilities_of,
)

# Compares sentences with a question.
Compare = Callable[[str, Sequence[str]], Awaitable[SentenceScores]]
# As the training writes them.
SILENT: Final = "No passage says it."
# Of a sentence that is quoted (docs/evals.md). In a question of more words than the training has, such as a case, the
# probability has to be higher: with less, sentences about other things are quoted.
_SAID: Final = 0.05
_SAID_IN_LONG: Final = 0.5
_LONG: Final = 40
# From this probability of "Unclear" on, and for a long question, whether the sentences say it has to be asked.
_LEFT_OPEN: Final = 0.5


@dataclass(frozen=True, slots=True)
class ChosenSentences:
    """Hold the sentences that an answer quotes, the best first.

    ``of_passage`` are the best one and those of its passage that complete it: yes or no is decided from them, as a
    sentence alone often leaves it open. ``missing`` is a name of the question that this passage has not, so that it
    decides nothing; "" for none.
    """

    quoted: tuple[EvidenceSentence, ...]
    of_passage: tuple[EvidenceSentence, ...]
    missing: str = ""


async def best_sentences(question: str, context: Context, compare: Compare, most: int) -> ChosenSentences | None:
    """Return the best sentence of the context, and up to ``most`` in all that are above the calibrated score.

    None of them repeats a better one; retracted articles are left out, and sentences about another subject. None where
    the context has no sentence.
    """
    numbers = [n for n in context.best_first if not context.passages[n - 1].document.is_retracted]
    found = [context.passages[n - 1].passage for n in numbers]
    sources = [Source(embedded_title(one), one.text) for one in found]
    candidates = (await asyncio.to_thread(candidates_of, question, sources)).sentences
    if not candidates:
        return None
    scores = await compare(question, [one.compared for one in candidates])
    ranked = await asyncio.to_thread(quotable, scored(candidates, scores), sources, question)
    if not ranked:
        return ChosenSentences((), ())
    ranked = with_subjects(asked_first(ranked, sources, question), sources, question)
    best = ranked[0]
    quoted = chosen(ranked, most, min(bar_for(scores), best.score))
    beside = [one for one in ranked if one.candidate.source == best.candidate.source]
    beside = [best, *(one for one in beside[1:] if completes(one, question))]
    of_passage = completing(beside, question, MOST_READ)
    return ChosenSentences(
        tuple(_evidence(one, numbers) for one in quoted),
        tuple(_evidence(one, numbers) for one in of_passage),
        missing_name(question, sources, best.candidate.source),
    )


def _evidence(one: ScoredSentence, numbers: Sequence[int]) -> EvidenceSentence:
    return EvidenceSentence(numbers[one.candidate.source], one.line, one.candidate.subject)


@dataclass(frozen=True, slots=True)
class EvidenceChain:
    """Answer one open question with sentences; the model is asked about the best one.

    Yes or no is decided by ``verdicts``, and what decides it also says what was asked, so that the passages need not be
    read; with None a yes-or-no question gets the sentences alone. Where yes and no are the choices of the question, the
    answer is a letter.
    """

    chains: Chains
    sentences: ChosenSentences
    verdicts: VerdictReader | None = None

    async def events(self, inputs: PromptInputs) -> AsyncGenerator[Event | Chain, None]:
        """Yield the text as it is made, then the chain."""
        verdict = await self._verdict()
        is_settled = verdict is not None and verdict.unclear < _LEFT_OPEN and not _is_long(self.chains.question.stem)
        is_said = bool(self.sentences.quoted) and (is_settled or await self._is_said(inputs))
        reasoning = self._best.thought if is_said else SILENT
        yield TranscriptDelta(reasoning, "injected")
        yield TextDelta(f"{reasoning}\n", "reasoning")
        if is_said and verdict is not None and not verdict.word:
            async with aclosing(self._free(inputs, reasoning)) as events:
                async for event in events:
                    yield event
            return
        chain = self._chain(reasoning, verdict, is_said=is_said)
        yield TranscriptDelta(f"\n{MARK} {chain.answer}", "injected")
        if not self.chains.question.verdict_letters:  # else the letter is the answer
            yield TextDelta(chain.answer)
        yield chain

    async def _verdict(self) -> Verdict | None:
        """Return yes, no or unclear; None where it is not asked for, or where what is quoted decides nothing."""
        question, sentences = self.chains.question, self.sentences
        asks = bool(question.verdict_letters) or asks_yes_or_no(question.stem)
        if self.verdicts is None or not asks or not sentences.quoted or sentences.missing:
            return None
        return await self.verdicts.verdict(question.stem, sentences.of_passage)

    def _chain(self, reasoning: str, verdict: Verdict | None, *, is_said: bool) -> Chain:
        if not is_said:
            return Chain(reasoning, NO_PASSAGE, "", "stop", None)
        word = "" if verdict is None or verdict.word == UNCLEAR else verdict.word
        quoted = self.sentences.quoted if verdict is None else self.sentences.of_passage
        undecided = UNSETTLED if verdict is not None and not word else lacking(self.sentences.missing)
        lines = [f"{word}, probably [{self._best.number}]."] if word else []
        answer = "\n".join([*lines, *(one.line for one in quoted)])
        letter = self.chains.question.verdict_letters.get(word.casefold(), "")
        return Chain(reasoning, answer, letter, "stop", None, _quotes(quoted), undecided)

    async def _free(self, inputs: PromptInputs, reasoning: str) -> AsyncGenerator[Event | Chain, None]:
        """Yield what an engine writes that enforces no grammar, with the mark of the sentence where it has none."""
        async with aclosing(self.chains.answered(inputs, reasoning)) as events:
            async for event in events:
                if not isinstance(event, Chain):
                    yield event
                    continue
                mark = f" [{self._best.number}]" if event.answer.strip() and not numbers_in(event.answer) else ""
                if mark:
                    yield TextDelta(mark)
                yield replace(event, answer=event.answer + mark, quotes=_quotes(self.sentences.quoted[:1]))

    @property
    def _best(self) -> EvidenceSentence:
        return self.sentences.quoted[0]

    async def _is_said(self, inputs: PromptInputs) -> bool:
        """Return whether the model would quote the sentence rather than say that no passage says it."""
        layout = self.chains.layout
        prompt = await layout.prompt(inputs.system, inputs.user, self.chains.opening)
        blank = " " if self.chains.opening else ""
        words = (blank + self._best.opening, blank + SILENT)
        found = await probabilities_of(self.chains.generations, prompt, words, self.chains.params.cache_salt)
        return found is not None and found[0] >= least_said(self.chains.question.stem)


def least_said(question: str) -> float:
    """Return the least probability with which the model has to find the sentence that is quoted."""
    return _SAID_IN_LONG if _is_long(question) else _SAID


def _is_long(question: str) -> bool:
    return len(question.split()) > _LONG


def _quotes(sentences: Sequence[EvidenceSentence]) -> dict[int, str]:
    """Return the first sentence of each passage by its number."""
    return {one.number: quoted_line(one.text) for one in reversed(sentences)}
