"""Withdraw candidates that are another word, or only part of a longer name, and say so.

A graph that lacks "pulmonary arterial hypertension" has no node for it; that of "hypertension" is broader and brings
other facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.graph.linking.dictionary_lookup.ambiguity import (
    TokenSpan,
    is_abbreviation_meant,
    is_false_friend,
    is_generic,
)
from retrieval.graph.linking.dictionary_lookup.matching import Candidate, Matcher
from retrieval.graph.linking.dictionary_lookup.names import SYMBOL
from retrieval.graph.linking.dictionary_lookup.normalize import Token, gap_before, words_as_folded

# Degree, course, age and state of treatment: severe asthma is asthma.
_HARMLESS: Final = words_as_folded(
    """
    severe mild moderate serious chronic acute subacute early late advanced active inactive stable unstable progressive
    persistent recurrent relapsing refractory resistant uncontrolled untreated treated suspected clinical subclinical
    classical classic typical common comorbid underlying human maternal paternal symptomatic asymptomatic sporadic
    familial hereditary genetic inherited metastatic pediatric paediatric geriatric childhood adult adolescent elderly
    medical chemical original real general normal usual global initial final annual typical potential actual critical
    historical biological pharmacological statistical additional several particular similar other different multiple
    specific new onset old young male female major typical ongoing lifelong fatal terminal total local regional national
    viral bacterial epidemic seasonal pandemic metastatic invasive existing previous prior possible definite probable
    idiopathic treatable incurable curable therapeutic diagnostic public economic social political academic topical oral
    systemic experimental empiric empirical basic plastic traumatic automatic electronic intrinsic unique positive
    negative effective sensitive aggressive extensive inoperable mine thine online magic dynamic arctic atlantic pacific
    """
)
# Organs and their like, which make a name narrower.
_PLACES: Final = words_as_folded(
    """
    heart lung kidney liver brain skin bone eye ear nose throat stomach bowel bladder breast prostate uterus ovary
    artery vein nerve muscle joint tendon blood marrow pancreas thyroid spleen colon rectum esophagus larynx heat sun
    alcohol drug radiation pregnancy exercise cold altitude steroid virus plant animal neonatal juvenile gestational
    white coat rebound borderline atypical
    """
)
_SUBSTANCES: Final = ("compound", "drug", "chemical", "molecule")


@dataclass(frozen=True, slots=True)
class CandidateFilter:
    """Judge candidates of one text by the words beside them."""

    matcher: Matcher

    def is_another_word(self, candidate: Candidate) -> bool:
        """Return True for a false friend, and for an abbreviation of a disease that the context does not support."""
        stretch, posting, _ = candidate
        if is_false_friend(stretch):
            return True
        if not posting.flags & SYMBOL or not self.matcher.is_clinical(posting):
            return False
        raw = stretch.raw
        return raw.isalpha() and not stretch.all_caps and not is_abbreviation_meant(stretch)

    def whole_names(self, candidates: Iterable[Candidate]) -> tuple[list[Candidate], list[str]]:
        """Return the candidates that stand for themselves, and notes on the others."""
        whole: list[Candidate] = []
        notes: list[str] = []
        candidates = list(candidates)
        for one in candidates:
            longer = self._longer(one) or self._compound(one, candidates)
            if longer:
                name = one.stretch.raw
                notes.append(f'"{name}" was not taken: "{longer}" is another name, which the graph does not have')
            else:
                whole.append(one)
        return whole, notes

    def _compound(self, candidate: Candidate, others: Iterable[Candidate]) -> str:
        """Return the words of two substances that are another one: silver diamine fluoride."""
        if not self._is_substance(candidate):
            return ""
        stretch = candidate.stretch
        for other in filter(self._is_substance, others):
            first, last = sorted((stretch, other.stretch), key=lambda span: span.start)
            if first.last == last.first and stretch.text[first.end : last.start] == " ":
                return stretch.text[first.start : last.end]
        return ""

    def _is_substance(self, candidate: Candidate) -> bool:
        kind = self.matcher.table.kind_names[candidate.posting.kind].casefold()
        return any(name in kind for name in _SUBSTANCES) and not candidate.posting.flags & SYMBOL

    def _longer(self, candidate: Candidate) -> str:
        stretch, posting, _ = candidate
        if not self.matcher.is_clinical(posting) or posting.flags & SYMBOL or is_generic(stretch.folded):
            return ""
        return enclosing_name(stretch)


def is_degree(tokens: Sequence[Token]) -> bool:
    """Return whether words say of which degree, course or age a disease is, not which one."""
    return all(token.text in _HARMLESS for token in tokens)


def enclosing_name(stretch: TokenSpan) -> str:
    """Return the longer name that the span is only a part of, as written, or "" if it stands for itself."""
    if not stretch.first or stretch.before() not in _PLACES:
        return ""
    gap = gap_before(stretch.text, stretch.tokens, stretch.first)
    return "" if gap.strip(" -‐‑–") else stretch.text[stretch.tokens[stretch.first - 1].start : stretch.end]
