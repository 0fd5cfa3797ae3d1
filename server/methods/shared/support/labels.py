"""Label the sentences of an answer, and say in one line what its sources do not have. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from server.methods.base import AnswerOutcome, SentenceSupport, Source, Support, SupportVerdict
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.sentences import MARK, Sentence, bare, numbers_in, split_sentences
from server.methods.shared.support.correspondence import Evidence
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.verifier import Claim, ClaimVerification
from server.methods.shared.word_overlap import nearest_sentence

_MAX_DETAILS: Final = 3
_MAX_EVIDENCE_CHARS: Final = 8_000
# A citation that stands behind the full stop of its sentence.
_LEADING_MARKS: Final = re.compile(rf"(?:\s*{MARK.pattern})+")
# What stands before it in its line makes a sentence an item of a list or a row of a table.
_IN_LIST: Final = re.compile(r"\s*(?:[-*•|#]|\d{1,3}[.)])(?!\*)")
_NOWHERE: Final = frozenset({"number", "identifier"})
_UNCITED: Final = "It cites none of what was read, and nothing in it could be looked up there."


def sentence_spans(answer: str) -> list[Sentence]:
    """Return the sentences of an answer in order with their citation marks, fragments such as "PSMB10." included."""
    spans: list[Sentence] = []
    for sentence in split_sentences(answer, least_words=0, longest=None):
        start = sentence.start
        if spans and (marks := _LEADING_MARKS.match(answer, spans[-1].end)) is not None:
            end = min(marks.end(), sentence.end)
            spans[-1] = Sentence(answer[spans[-1].start : end], spans[-1].start, end)
            start = max(start, marks.end())
        text = answer[start : sentence.end].lstrip()
        if text:
            spans.append(Sentence(text, sentence.end - len(text), sentence.end))
    return spans


class AnswerLabels:
    """Label the sentences of one answer against its sources.

    ``question`` is all that the user wrote. Where no source has a number, marks in the text are not the model's own
    citations and are left out of account. ``is_strict``: the model's own knowledge is not supported either.
    """

    def __init__(
        self, answer: str, sources: Sequence[Source], question: str, reader: QuantityReader, *, is_strict: bool = False
    ) -> None:
        self._answer = answer
        self._is_strict = is_strict
        self._evidence = Evidence(sources, question, reader)
        self.sources = sources
        self._numbered: Mapping[int, Source] = {one.number: one for one in sources if one.number is not None}
        labelled = [self._labelled(span) for span in sentence_spans(answer)]
        if not is_strict:
            labelled = [self._as_background(place, labelled) for place in range(len(labelled))]
        self.sentences = tuple(labelled)

    def _as_background(self, place: int, labelled: Sequence[SentenceSupport]) -> SentenceSupport:
        """Return a sentence unlabelled where the model gives it as its own knowledge beside what it cites.

        That is where it cites nothing behind a sentence that does, in running text, and its numbers and names stand
        nowhere: nothing that was read speaks against it. They stay beside it as a note.
        """
        one = labelled[place]
        kinds = {mismatch.kind for mismatch in one.mismatches}
        if one.citations or not kinds or not kinds <= _NOWHERE:
            return one
        begin = self._answer.rfind("\n", 0, one.start + 1) + 1
        if _IN_LIST.match(self._answer, begin) or not any(other.citations for other in labelled[:place]):
            return one
        end = self._answer.find("\n", one.end)
        cited = [bool(other.citations) for other in labelled if begin <= other.start and (end < 0 or other.start < end)]
        before = sum(begin <= other.start for other in labelled[:place])
        is_covered = any(cited[before:]) and not any(cited[:before])
        return one if is_covered else replace(one, verdict="unchecked", num_checked=0)

    def _labelled(self, span: Sentence) -> SentenceSupport:
        text = self._text(span.start, span.end)
        checked = self._evidence.check(text, self._answer)
        is_against = bool(checked.mismatches or (self._is_strict and checked.notes))
        cited = tuple(number for number in numbers_in(text) if number in self._numbered)
        return SentenceSupport(
            start=span.start,
            end=span.end,
            verdict="unsupported" if is_against else "unchecked",
            citations=cited,
            quote=next(filter(None, (nearest_sentence(text, self._numbered[number].text) for number in cited)), ""),
            # Without a source there was nothing to look them up in.
            num_checked=checked.num_checked if self.sources else 0,
            mismatches=tuple(sorted((*checked.mismatches, *checked.notes), key=lambda one: (one.start, one.end))),
        )

    def _text(self, start: int, end: int) -> str:
        """Return a sentence; marks that are not the model's become blanks, so that offsets stay."""
        text = self._answer[start:end]
        return text if self._numbered else MARK.sub(lambda found: " " * len(found[0]), text)

    def claims(self) -> list[tuple[int, Claim]]:
        """Return the sentences for a verifier, by their place: those that cite, and that nothing speaks against."""
        found: list[tuple[int, Claim]] = []
        for place, one in enumerate(self.sentences):
            if one.citations and one.verdict == "unchecked":
                share = _MAX_EVIDENCE_CHARS // len(one.citations)
                cited = [self._numbered[number] for number in one.citations]
                text = "\n\n".join(_whole(source)[:share] for source in cited)
                texts = tuple(EvidenceText(source.title, source.text[:share]) for source in cited)
                found.append((place, Claim(bare(self._answer[one.start : one.end]), text, texts, one.num_checked)))
        return found

    def verified(self, places: Sequence[int], verification: ClaimVerification) -> tuple[SentenceSupport, ...]:
        """Return the labels with what a verifier found of the sentences at these places."""
        sentences = list(self.sentences)
        for claim, (place, probability) in enumerate(zip(places, verification.probabilities, strict=True)):
            if probability is not None:
                verdict = _verdict(claim, probability, verification)
                if verdict == "supported" and sentences[place].mismatches:
                    verdict = "unchecked"  # but for what stands beside it as a note
                sentences[place] = replace(sentences[place], probability=probability, verdict=verdict)
        return tuple(sentences)


def _verdict(claim: int, probability: float, verification: ClaimVerification) -> SupportVerdict:
    if claim in verification.contradicted:
        return "contradicted"
    if probability >= verification.bar:
        return "supported"
    floor = verification.bar if verification.floor is None else verification.floor
    return "unsupported" if probability < floor else "unchecked"


def _whole(source: Source) -> str:
    return f"{source.title}\n{source.text}".strip() if source.title else source.text


def rests_on_nothing(sentences: Sequence[SentenceSupport]) -> bool:
    """Return whether no sentence cites a source and nothing of the answer could be looked up."""
    return bool(sentences) and not any(one.citations or one.num_checked or one.probability for one in sentences)


def outcome_of(outcome: AnswerOutcome | None, support: Support, *, is_uncited: bool) -> AnswerOutcome | None:
    """Return what an answer amounts to with its labels."""
    return "partial" if outcome == "answered" and (support.unsupported or is_uncited) else outcome


def line_on(answer: str, support: Support, *, is_uncited: bool) -> str:
    """Return the line behind an answer, without brackets around it; "" where nothing is to be said."""
    details = list(_details(answer, support))
    if not details:
        return _UNCITED if is_uncited else ""
    more = len(details) - _MAX_DETAILS
    listed = "; ".join(details[:_MAX_DETAILS]) + (f"; and {more} more" if more > 0 else "")
    return f"Not supported by what was read: {listed}."


def _details(answer: str, support: Support) -> Iterator[str]:
    """Yield a clause for each mismatch, each once, and for each sentence that its sources do not state."""
    clauses: dict[str, None] = {}
    for one in support.unsupported:
        if one.mismatches:
            clauses |= dict.fromkeys(mismatch.detail for mismatch in one.mismatches)
        else:
            said = "the contrary is" if one.verdict == "contradicted" else "is not"
            clauses[f"“{_short(bare(answer[one.start : one.end]))}” {said} stated there"] = None
    yield from clauses


def _short(text: str, most: int = 80) -> str:
    return text.rstrip(".") if len(text) <= most else f"{text[:most].rsplit(' ', 1)[0]} …"
