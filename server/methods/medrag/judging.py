"""Judge what a model that cannot write chose or read, by the passages. Pure.

A choice among several rests on a sentence that names it, alone among the choices and without a denial, by the share of
the question's words that it has (``covered``, as in ``shared.extractive``), where it supports no other choice better.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from retrieval.corpus.namespaces.settings import embedded_title
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.medrag.chain_of_thought import Chain
from server.methods.medrag.closing import NO_CHOICE, NO_PASSAGE, NO_TEXT, Closing, Verdict, is_cut
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.extractive import (
    NEGATED,
    Candidate,
    Source,
    candidates_of,
    named_stems,
    question_stems,
    stems_of,
)
from server.methods.shared.outcomes import YES_NO, why_cut
from server.methods.shared.sentences import numbers_in, quoted_line, split_sentences
from server.methods.shared.verdicts import SMALL_VERDICT

NO_VERDICT: Final = (
    "These sentences are quoted from the passages; whether they mean yes or no is for the reader to judge."
)
# Set on one half of BioASQ's development questions.
CHOICE_BAR: Final = 0.25
# Where numbers alone tell the choices apart, or words of the question.
_BAR_OF_NUMBERS: Final = 0.5
# Words of the question that a cited passage has beside the choice.
_SHARED: Final = 2
# A case of many sentences is asked about in its last one.
_LONG_STEM: Final = 60
_ASKING: Final = 2


def judged(closing: Closing, chain: Chain) -> Verdict:
    """Return what the answer amounts to."""
    if is_cut(closing, chain):
        return Verdict("cut", why_cut(chain.finish_reason, chain.stop_reason))
    if closing.question.choices:
        return _judged_choice(closing, chain)
    if not chain.answer.strip():
        return Verdict("abstained", NO_TEXT)
    if chain.answer == NO_PASSAGE:
        return Verdict("abstained", closing.without or _read_in_vain(closing))
    if closing.without:
        return Verdict("partial", f"Answered without passages. {closing.without}")
    if chain.quotes and asks_yes_or_no(closing.question.stem):
        reason = chain.undecided or (SMALL_VERDICT if YES_NO.match(chain.answer) else NO_VERDICT)
        return Verdict("partial", reason)
    return Verdict("answered")


def _judged_choice(closing: Closing, chain: Chain) -> Verdict:
    if not chain.letter:
        in_vain = _read_in_vain(closing) if chain.answer == NO_PASSAGE else NO_CHOICE
        return Verdict("abstained", chain.undecided or in_vain)
    basis = _basis(closing, chain)
    if closing.without:
        return Verdict("partial", f"Answered without passages. {closing.without}", basis)
    if closing.passages and not basis:
        if closing.question.verdict_letters:
            return Verdict("partial", "The model cites no passage for this.")
        if closing.abstains:
            chosen = closing.question.shown(chain.letter)
            reason = f"No choice is given: nothing that was read supports “{chosen}”, which the model chose."
            return Verdict("abstained", reason, withholds=True)
        return Verdict("partial", "Nothing that was read supports this choice.")
    if chain.quotes:
        reason = chain.undecided or (SMALL_VERDICT if YES_NO.match(chain.answer) else NO_VERDICT)
        return Verdict("partial", reason, basis)
    return Verdict("answered", basis=basis)


def _read_in_vain(closing: Closing) -> str:
    """Return what was read for an answer that says that nothing in it tells, "" for nothing."""
    names = closing.details.get("namespaces") or ()
    where = f" of {', '.join(names[:5])}" if names else ""
    number = len(closing.passages)
    return f"Read: {number} passage{'' if number == 1 else 's'}{where}." if number else ""


def _basis(closing: Closing, chain: Chain) -> dict[int, str]:
    """Return the passages on which a letter rests, with the sentence that supports it, {} for none.

    Either a sentence supports it, or a passage that the model or a sub-answer cites names it: cases need more than one
    sentence.
    """
    question = closing.question
    if not chain.letter:
        return {}
    place = question.letters.index(chain.letter)
    if chain.quotes:
        return dict(chain.quotes)
    cited = [n for n in (*numbers_in(chain.reasoning), *closing.relied) if n in closing.passages]
    if question.verdict_letters:
        return dict.fromkeys(cited, "")
    numbers = [*closing.passages]
    sources = [Source(embedded_title(one.passage), one.passage.text) for one in closing.passages.values()]
    support = support_of(question.stem, question.choices, place, sources)
    if support.holds and support.sentence is not None:
        return {numbers[support.sentence.source]: quoted_line(support.sentence.sentence.text)}
    named = [named_stems(choice, question.stem) for choice in question.choices]
    if not _is_telling(named, place, question.stem):
        return {}
    asked = set(question_stems(asking_part(question.stem)))
    read = {n: stems_of(_whole(closing.passages[n])) for n in cited}
    return {
        n: "" for n, stems in read.items() if named[place] <= stems and len(asked & stems) >= min(_SHARED, len(asked))
    }


def _whole(found: RankedPassage) -> str:
    return f"{embedded_title(found.passage)} {found.passage.text}"


@dataclass(frozen=True, slots=True)
class Support:
    """Hold the best sentence for a choice and its score from 0 to 1; None where no sentence names the choice.

    ``rival`` is the best score of another choice, ``bar`` the score that is needed.
    """

    score: float = 0.0
    sentence: Candidate | None = None
    rival: float = 0.0
    bar: float = CHOICE_BAR

    @property
    def holds(self) -> bool:
        return self.sentence is not None and self.score >= self.bar and self.score >= self.rival


def support_of(stem: str, choices: Sequence[str], place: int, sources: Sequence[Source]) -> Support:
    """Return the support of the choice at ``place``."""
    asked = asking_part(stem)
    named = [named_stems(choice, asked) for choice in choices]
    best = [Support() for _ in choices]
    for one in candidates_of(asked, sources, with_titles=True).sentences:
        found = [at for at, words in enumerate(named) if words and words <= one.stems]
        # "Type 2 diabetes" also has all words of the choice "diabetes".
        found = [at for at in found if not any(named[at] < named[other] for other in found)]
        if len(found) == 1 and not NEGATED.search(one.sentence.line) and one.covered > best[found[0]].score:
            best[found[0]] = Support(one.covered, one)
    rivals = (one.score for at, one in enumerate(best) if at != place)
    bar = CHOICE_BAR if _is_telling(named, place, asked) else _BAR_OF_NUMBERS
    return replace(best[place], rival=max(rivals, default=0.0), bar=bar)


def _is_telling(named: Sequence[frozenset[str]], place: int, asked: str) -> bool:
    """Return whether a choice has a word of its own: none that all choices have, or the question, and no number.

    Numbers stand in many passages, as "5 years" does.
    """
    words = named[place] - frozenset.intersection(*named) - frozenset(question_stems(asked))
    return any(re.search(r"[^\W\d_]", word) for word in words)


def asking_part(stem: str) -> str:
    """Return the last sentences of a long case, which ask, and a short question as it is."""
    if len(re.findall(r"\S+", stem)) <= _LONG_STEM:
        return stem
    sentences = split_sentences(stem)
    return " ".join(one.line for one in sentences[-_ASKING:]) or stem
