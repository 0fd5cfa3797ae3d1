"""Answer with sentences of the passages, with a model that was trained to quote one before it answers.

Such a model reasons in one line, ``[2] says: SENTENCE`` or ``No passage says it.`` The sentence is chosen by its score,
as for extractive answers: this finds the right passage more often than a small model does, and saves the tokens of the
quote. The model decides whether a passage says it, and yes or no. Everything else is answered with the sentence itself,
since a small model's own words are wrong more often than the sentence is (docs/evals.md).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain
from typing import Final

from retrieval.corpus.namespaces.settings import embedded_title
from retrieval.graph.linking.dictionary_lookup.dictionary import drugs_not_in, unusual_words
from server.methods.base import Event, TextDelta, TranscriptDelta
from server.methods.medrag.chain_of_thought import Chain, Chains, PromptInputs, Prompts
from server.methods.medrag.context import Context
from server.methods.medrag.request import MARK
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.extractive import (
    ScoredSentence,
    Source,
    bar_for,
    candidates_of,
    chosen,
    question_stems,
    scored,
    stems_of,
)
from server.methods.shared.identifiers import identifiers_in
from server.methods.shared.passages import SentenceScores
from server.methods.shared.sentences import addresses_reader, numbers_in, quoted_line, sanitize
from server.methods.shared.yes_no import probability_of_first

# Compares sentences with a question.
Compare = Callable[[str, Sequence[str]], Awaitable[SentenceScores]]
# As the training writes them.
SILENT: Final = "No passage says it."
NO_PASSAGE: Final = "The passages do not say."
_MAX_WORDS: Final = 42
# Sentences that yes or no is decided from.
_MOST_READ: Final = 3
# Of the best sentence's score, which those beside it need.
_SHARE_OF_BEST: Final = 0.5
_LONGEST_ABBREVIATION: Final = 6
# Of the question's words, which a passage has that yes or no is decided from (docs/evals.md).
_SHARE_OF_QUESTION: Final = 0.3
# The least probability of quoting the sentence: with less, sentences about other things are quoted (docs/evals.md).
_SAID: Final = 0.5
_YES_OR_NO: Final = ("Yes", "No")
_ASKED: Final = "Yes or No: "
_ALIKE: Final = 0.8
# A title of so few words names what its passage is about.
_NAME_WORDS: Final = 4
_PRONOUN: Final = re.compile(r"(?:It|Its|They|Their)\b")
# The kind of thing that a question asks for need not stand in a passage.
_ASKED_FOR: Final = re.compile(r"\b(?:which|what|who|whose|welche[mnrs]?|wer)\s+\w+", re.IGNORECASE)


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
class ChosenSentences:
    """Hold the sentences that an answer quotes, the best first; ``of_passage``: the best ones of the best's passage.

    The latter are what yes or no is decided from, as a sentence alone often leaves it open. ``missing`` is a name of
    the question that this passage has not, so that it decides nothing; "" for none.
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
    ranked = await asyncio.to_thread(_quotable, scored(candidates, scores), sources, question)
    if not ranked:
        return ChosenSentences((), ())
    best = ranked[0]
    quoted = chosen(ranked, most, min(bar_for(scores), best.score))
    beside = [one for one in ranked if one.candidate.source == best.candidate.source]
    of_passage = chosen(beside, _MOST_READ, _SHARE_OF_BEST * best.score)
    return ChosenSentences(
        tuple(_evidence(one, numbers) for one in quoted),
        tuple(_evidence(one, numbers) for one in of_passage),
        _missing_name(question, sources, best.candidate.source),
    )


def _evidence(one: ScoredSentence, numbers: Sequence[int]) -> EvidenceSentence:
    return EvidenceSentence(numbers[one.candidate.source], one.line, one.candidate.subject)


def _quotable(found: Sequence[ScoredSentence], sources: Sequence[Source], question: str) -> list[ScoredSentence]:
    """Return the sentences that are about what the question names and do not address the reader.

    Passages are compared with the question once, as that takes milliseconds for each.
    """
    passages = [_words_of(source, question) for source in sources]
    kept = []
    for one in found:
        words = passages[one.candidate.source]
        if words.names_asked and not addresses_reader(one.line) and not _is_about_another(one, words, question):
            kept.append(one)
    return kept


@dataclass(frozen=True, slots=True)
class _PassageWords:
    """Hold how a passage meets a question.

    ``lacking`` are the question's stems that it has not, slips apart, in the question's order, of ``asked`` in all;
    ``is_last_lacking``: the last one is among them. ``names_asked`` is false where it has none of the question's names.
    """

    title: str
    asked: int
    lacking: tuple[str, ...]
    is_last_lacking: bool
    names_asked: bool


def _words_of(source: Source, question: str) -> _PassageWords:
    text = f"{source.title} {source.text}"
    there = stems_of(text)
    asked = question_stems(_ASKED_FOR.sub(" ", question))
    lacking = tuple(word for word in asked if not _has(there, word))
    is_last = bool(lacking) and lacking[-1] == asked[-1]
    return _PassageWords(source.title, len(asked), lacking, is_last, _names_asked(question, text, there))


def _has(there: Set[str], stem: str) -> bool:
    """Return whether a stem is among others, or a slip of one."""
    return stem in there or bool(get_close_matches(stem, there, 1, _ALIKE))


def _names_asked(question: str, text: str, there: Set[str]) -> bool:
    """Return whether a passage has one of the names in a question, if the question has any.

    Names are the words that are no everyday English. Where they are most of the words, the question is in another
    language than the passage, and nothing follows.
    """
    unusual = [word for word in unusual_words(question) if question_stems(word)]
    if not unusual or 2 * len(unusual) > len(re.findall(r"[^\W\d_]\w*", question)):
        return True
    whole, there = _compact(text), there | stems_of(" ".join(_abbreviated_in(text, question)))
    return any(_compact(word) in whole or any(_has(there, stem) for stem in question_stems(word)) for word in unusual)


def _is_about_another(one: ScoredSentence, words: _PassageWords, question: str) -> bool:
    """Return whether a sentence is about something else than what the question names.

    "It must not be taken in pregnancy", of lisinopril, says nothing about warfarin; it answers which drug that is. Nor
    does a passage on malaria say what causes leprosy: where its title names another thing, half of the words may be
    lacking, but not the last one. What such a passage leaves open of yes or no is said otherwise.
    """
    subject = one.candidate.subject or (words.title if _PRONOUN.match(one.line) else "")
    title = words.title if len(words.title.split()) <= _NAME_WORDS and not asks_yes_or_no(question) else ""
    if not (subject or title) or stems_of(subject or title) & set(question_stems(question)):
        return False
    if subject:
        return bool(words.lacking)
    return words.is_last_lacking and 2 * len(words.lacking) >= words.asked


def _missing_name(question: str, sources: Sequence[Source], place: int) -> str:
    """Return a name of the question that the passage at ``place`` has not, "" for none.

    Such a name is a drug, a symbol with a digit, or what another passage is about: "Protamine reverses heparin" leaves
    open whether it reverses rivaroxaban. Of other words the passage may lack some, as it says things in its own way.
    """
    text = f"{sources[place].title} {sources[place].text}"
    there = stems_of(text)
    titles = (one.title for one in sources if len(one.title.split()) <= _NAME_WORDS)
    missing = set(question_stems(question)) - there
    others = (title for title in titles if missing & stems_of(title))
    names = chain(drugs_not_in(text, question), _symbols_not_in(text, question), others)
    return next(names, "") or _strange_word(question, text)


def _strange_word(question: str, text: str) -> str:
    """Return a word of the question where a passage is on another matter, "" where it is not.

    It is where it lacks most of the words that are no everyday English, or most of all.
    """
    there = stems_of(text) | stems_of(" ".join(_abbreviated_in(text, question)))
    stems = {word: set(question_stems(word)) for word in re.findall(r"\w[\w'-]*", question)}
    unusual = [word for word in unusual_words(question) if stems.get(word)]
    lacking = [word for word in unusual if not stems[word] <= there]
    if 2 * len(lacking) > len(unusual):
        return lacking[0]
    asked = set(question_stems(question))
    if len(asked & there) >= _SHARE_OF_QUESTION * len(asked):
        return ""
    return next((word for word, found in stems.items() if found & (asked - there)), "")


def _abbreviated_in(text: str, question: str) -> Iterator[str]:
    """Yield the words of the question for whose initials a text has an abbreviation: muscular dystrophy for MD."""
    there = frozenset(re.findall(r"\b[A-Z]{2,6}\b", text))
    words = re.findall(r"[^\W\d_]+", question)
    for first in range(len(words)):
        for last in range(first + 2, min(first + _LONGEST_ABBREVIATION, len(words)) + 1):
            if "".join(word[0] for word in words[first:last]).upper() in there:
                yield from words[first:last]


def _symbols_not_in(text: str, question: str) -> Iterator[str]:
    """Yield the symbols with a digit that are missing, whatever stands between their characters.

    One of letters alone is often an abbreviation, which a passage may write out.
    """
    there = _compact(text)
    symbols = (one.text for one in identifiers_in(question) if one.kind == "symbol" and re.search(r"\d", one.text))
    return (symbol for symbol in symbols if _compact(symbol) not in there)


def _compact(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Hold how yes or no is asked for; ``yes_bar`` is the least probability of a yes.

    Sentences in favour are common and easily said, so yes may have to be surer than no.
    """

    prompts: Prompts
    yes_bar: float


@dataclass(frozen=True, slots=True)
class EvidenceChain:
    """Answer one open question with sentences; the model is asked about the best one.

    Yes or no is decided by ``verdicts``; with None a yes-or-no question gets the sentences alone. Where yes and no are
    the choices of the question, the answer is a letter.
    """

    chains: Chains
    sentences: ChosenSentences
    verdicts: Verdicts | None = None

    async def events(self, inputs: PromptInputs) -> AsyncGenerator[Event | Chain, None]:
        """Yield the text as it is made, then the chain."""
        is_said = bool(self.sentences.quoted) and await self._is_said(inputs)
        reasoning = self._best.thought if is_said else SILENT
        yield TranscriptDelta(reasoning, "injected")
        yield TextDelta(f"{reasoning}\n", "reasoning")
        quoted = self.sentences.quoted if is_said else ()
        verdict = ""
        missing = self.sentences.missing if is_said else ""
        verdicts = self.verdicts if not missing else None
        letters = self.chains.question.verdict_letters
        if is_said and verdicts is not None and (letters or asks_yes_or_no(self.chains.question.stem)):
            verdict = await self._verdict(verdicts)
            if not verdict:
                async with aclosing(self._free(inputs, reasoning)) as events:
                    async for event in events:
                        yield event
                return
            quoted = self.sentences.of_passage
        lines = [f"{verdict}, probably [{self._best.number}]."] if verdict else []
        answer = "\n".join([*lines, *(one.line for one in quoted)]) or NO_PASSAGE
        yield TranscriptDelta(f"\n{MARK} {answer}", "injected")
        if not letters:  # else the letter is the answer
            yield TextDelta(answer)
        yield Chain(reasoning, answer, letters.get(verdict.casefold(), ""), "stop", None, _quotes(quoted), missing)

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
        prompt = layout.ids(inputs.system, inputs.user, self.chains.opening)
        blank = " " if self.chains.opening else ""
        words = (blank + self._best.opening, blank + SILENT)
        found = await probability_of_first(self.chains.generations, prompt, words, self.chains.params.cache_salt)
        return found is not None and found >= _SAID

    async def _verdict(self, verdicts: Verdicts) -> str:
        """Return "Yes" or "No", "" from an engine that enforces no grammar and writes something else.

        Sentences alone are read: passages beside them mislead a small model, and cost ten times the tokens.
        """
        read = [one.thought for one in self.sentences.of_passage]
        inputs = verdicts.prompts.verdict(self.chains.question.stem, read)
        layout = self.chains.layout
        prompt = layout.ids(inputs.system, inputs.user, layout.opening(_ASKED))
        salt = self.chains.params.cache_salt
        found = await probability_of_first(self.chains.generations, prompt, _YES_OR_NO, salt)
        return "" if found is None else _YES_OR_NO[found < verdicts.yes_bar]


def _quotes(sentences: Sequence[EvidenceSentence]) -> dict[int, str]:
    """Return the first sentence of each passage by its number."""
    return {one.number: quoted_line(one.text) for one in reversed(sentences)}
