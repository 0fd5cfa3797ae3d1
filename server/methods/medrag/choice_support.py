"""Find the sentence on which a model's choice among several rests, or none. Pure.

A sentence supports a choice that it names, alone among the choices and without a denial, by the share of the question's
words that it has (``covered``, as in ``extractive``), where it supports no other choice better. The bar was set by
``scripts/evals/choice_support.py`` on one half of BioASQ's development questions (docs/evals.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from server.methods.shared.extractive import NEGATED, Candidate, Source, candidates_of, named_stems
from server.methods.shared.sentences import split_sentences

BAR: Final = 0.25
# A case of many sentences is asked about in its last one.
_LONG_STEM: Final = 60
_ASKING: Final = 2


@dataclass(frozen=True, slots=True)
class Support:
    """Hold the best sentence for a choice and its score from 0 to 1; None where no sentence names the choice.

    ``rival`` is the best score of another choice.
    """

    score: float = 0.0
    sentence: Candidate | None = None
    rival: float = 0.0

    @property
    def holds(self) -> bool:
        return self.sentence is not None and self.score >= BAR and self.score >= self.rival


def support_of(stem: str, choices: Sequence[str], place: int, sources: Sequence[Source]) -> Support:
    """Return the support of the choice at ``place``."""
    asked = _asked(stem)
    named = [named_stems(choice, asked) for choice in choices]
    best = [Support() for _ in choices]
    for one in candidates_of(asked, sources, with_titles=True).sentences:
        found = [at for at, words in enumerate(named) if words and words <= one.stems]
        # "Type 2 diabetes" also has all words of the choice "diabetes".
        found = [at for at in found if not any(named[at] < named[other] for other in found)]
        if len(found) == 1 and not NEGATED.search(one.sentence.line) and one.covered > best[found[0]].score:
            best[found[0]] = Support(one.covered, one)
    rivals = (one.score for at, one in enumerate(best) if at != place)
    return replace(best[place], rival=max(rivals, default=0.0))


def _asked(stem: str) -> str:
    """Return the last sentences of a long case, which ask, and a short question as it is."""
    if len(re.findall(r"\S+", stem)) <= _LONG_STEM:
        return stem
    sentences = split_sentences(stem)
    return " ".join(one.line for one in sentences[-_ASKING:]) or stem
