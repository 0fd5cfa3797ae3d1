"""Judge what a GeneGPT answer is worth, from its look-ups and what was read in them. Pure.

``not_found`` is said only where the thing that the question names was searched for and nothing is there. A failed call,
a search for other words, or records that hold no answer are other outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from models.decoding.types import CallFinished, CallStatus, LoopFinish
from server.methods.base import AnswerOutcome
from server.methods.shared.abstentions import says_nothing
from server.methods.shared.call_lines import summary
from server.methods.shared.identifiers import identifiers_in
from server.methods.shared.outcomes import YES_NO, why_cut

_NOT_FOUND: Final = re.compile(
    r"(?:(?:not|none|nothing|no \w+) found\b[^.;]{0,40}|none|unknown|n/?a)\W*", re.IGNORECASE
)
_CODING: Final = re.compile(r"protein[- ]?coding|(?:en)?codes? (?:for )?(?:an? )?protein", re.IGNORECASE)
_GENE_TYPE: Final = re.compile(r"\((?P<organism>[^()]*)\) (?P<type>protein-coding|pseudogene|ncRNA)\b")
_SUBJECT: Final = re.compile(
    r"\b(?:genes?|genetic\w*|genom\w*|snps?|rs\d+|variants?|mutations?|alleles?|diseases?|disorders?|syndromes?|cancers?|"
    r"tumou?rs?|chromosom\w*|loc(?:us|i)|proteins?|enzymes?|receptors?|sequences?|dna|rna|organisms?|species|symbols?|"
    r"alias(?:es)?|ortholog\w*|transcripts?|exons?|pathways?|drugs?|pubmed|articles?|[ACGTN]{20,})\b",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[^\W_][\w'./*+-]*")
_TAG: Final = re.compile(r"\[[^\]]*\]|\b(?:AND|OR|NOT)\b")
_STOP_WORDS_TEXT: Final = (
    "a an and are as at be by can could did do does for from give had has have how i in into is it its "
    "list me named name of on or related show tell that the their them there these this to was were what "
    "when where which who whose why will with you official called known"
)
_STOP_WORDS: Final = frozenset(_STOP_WORDS_TEXT.split())
_OUT_OF_SCOPE: Final = "This method looks up genes, variants, diseases and sequences at NCBI; the question names none."
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Lookup:
    """Hold one call: what it asked for, in which database, and how it went."""

    endpoint: str
    db: str
    term: str
    status: CallStatus
    num_records: int
    told: str

    @classmethod
    def of(cls, step: CallFinished) -> Lookup:
        record = step.reply.record
        params = dict(parse_qsl(step.call.text.partition("?")[2]))
        return cls(
            endpoint=str(record.get("endpoint") or ""),
            db=str(record.get("db") or params.get("db") or ""),
            term=_TAG.sub(" ", params.get("term") or params.get("id") or "").replace('"', " ").strip(),
            status=step.reply.status,
            # Records that NCBI could not give count as records of the reply.
            num_records=int(record.get("num_records") or 0) if step.reply.status in ("ok", "duplicate") else 0,
            told=summary(step.reply),
        )

    @property
    def has_failed(self) -> bool:
        return self.status in ("error", "refused")


@dataclass(frozen=True, slots=True)
class Verdict:
    """State an outcome and its reason, "" for ``answered``; without ``is_shown`` the reason replaces the answer."""

    outcome: AnswerOutcome
    reason: str = ""
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class Transcript:
    """Hold what an answer was made from.

    ``read`` is the text of all replies. With ``only_reads``, the model can do no more than look up and copy.
    """

    question: str
    lookups: Sequence[Lookup]
    read: str
    only_reads: bool = False


def judge(answer: str, finish: LoopFinish, made_from: Transcript, *, stop_reason: str | int | None = None) -> Verdict:
    """Return the outcome of an answer."""
    if finish != "stop":
        return Verdict("cut", why_cut(finish, stop_reason), is_shown=not made_from.only_reads)
    if not answer.strip():
        return Verdict("abstained", f"The model wrote no answer. {_looked_up(made_from.lookups)}")
    if _NOT_FOUND.fullmatch(answer.strip()) or says_nothing(answer) == "whole":
        return _nothing(made_from)
    if not any(one.num_records for one in made_from.lookups):
        return _without_records(made_from)
    if made_from.only_reads and _strayed(made_from):
        return Verdict("abstained", _strayed_text(made_from.lookups), is_shown=False)
    if YES_NO.match(answer) and not _states(answer, made_from):
        return Verdict(
            "abstained",
            f"The records that were read do not state this, so no yes or no is given. {_looked_up(made_from.lookups)}",
            is_shown=False,
        )
    if made_from.only_reads and not _is_copied(answer, made_from.read):
        told = f"The model read {_counted(made_from.lookups)}, but wrote no answer that stands in them."
        return Verdict("abstained", told, is_shown=False)
    return Verdict("answered")


def _nothing(made_from: Transcript) -> Verdict:
    lookups = made_from.lookups
    failed = [one for one in lookups if one.has_failed]
    if failed and not any(one.num_records for one in lookups):
        return _failed(failed)
    if not is_in_scope(made_from.question):
        return Verdict("out_of_scope", _OUT_OF_SCOPE, is_shown=False)
    if not lookups:
        return Verdict("abstained", "Nothing was looked up for this question, so nothing can be said.", is_shown=False)
    if any(one.num_records and one.endpoint != "esearch" for one in lookups):
        told = f"The model read {_counted(lookups)} and found no answer in them. {_looked_up(lookups)}"
        return Verdict("abstained", told, is_shown=False)
    stray = [one for one in lookups if not is_searched_rightly(one, made_from.question)]
    if any(one.num_records for one in lookups) and not any(one.endpoint == "esearch" for one in stray):
        told = f"Records were found, but none could be read: there may be an answer. {_looked_up(lookups)}"
        return Verdict("call_failed", told, is_shown=False)
    if stray:
        return Verdict("abstained", _strayed_text(lookups), is_shown=False)
    return Verdict("not_found", f"Not found. {_looked_up(lookups)}", is_shown=False)


def _without_records(made_from: Transcript) -> Verdict:
    """Judge an answer for which no record was read: it comes from the model alone."""
    failed = [one for one in made_from.lookups if one.has_failed]
    in_scope = is_in_scope(made_from.question)
    if made_from.only_reads:
        if failed:
            return _failed(failed)
        if not in_scope:
            return Verdict("out_of_scope", _OUT_OF_SCOPE, is_shown=False)
        told = "This model answers only from records that it looks up, and it read none for this question."
        return Verdict("abstained", f"{told} {_looked_up(made_from.lookups)}".strip(), is_shown=False)
    own = "this is what the model says from memory."
    if failed:
        return Verdict("call_failed", f"The look-up failed ({failed[-1].told}); {own}")
    if not in_scope:
        return Verdict("out_of_scope", f"{_OUT_OF_SCOPE} Nothing was looked up; {own}")
    return Verdict("partial", f"No record was read for this; {own}")


def _failed(failed: Sequence[Lookup]) -> Verdict:
    last = failed[-1]
    what = f" of “{last.term}”" if last.term else ""
    return Verdict(
        "call_failed", f"The look-up{what} failed: {last.told}. This does not mean that there is nothing.", False
    )


def is_in_scope(question: str) -> bool:
    """Return whether a question names anything that NCBI's databases hold."""
    return _SUBJECT.search(question) is not None or any(one.kind != "number" for one in identifiers_in(question))


def is_searched_rightly(lookup: Lookup, question: str) -> bool:
    """Return whether a call searched for something that the question names, in a database for it."""
    asked = " ".join(_words(question))
    words = _words(lookup.term)
    if lookup.endpoint == "esearch":
        rs = re.search(r"\brs\d+\b", question.casefold())
        in_place = rs is None or lookup.db == "snp" or rs[0] not in words
        generic = {word for word in words if _SUBJECT.fullmatch(word) and word.isalpha()}
        names = set(words) - _STOP_WORDS - generic
        return in_place and bool(names) and f" {' '.join(words)} " in f" {asked} "
    numbers = re.findall(r"\d+", lookup.term)
    return not numbers or all(number in question for number in numbers)


def _strayed(made_from: Transcript) -> bool:
    """Return whether there were searches, and none for what the question names: what they found is something else."""
    searches = [one for one in made_from.lookups if one.endpoint == "esearch"]
    return bool(searches) and not any(is_searched_rightly(one, made_from.question) for one in searches)


def _strayed_text(lookups: Sequence[Lookup]) -> str:
    return f"No answer: the search was not for what the question names. {_looked_up(lookups)}"


def _words(text: str) -> list[str]:
    return [word.casefold().rstrip(".'") for word in _WORD.findall(text)]


def _states(answer: str, made_from: Transcript) -> bool:
    """Return whether what was read states what a yes or no says."""
    if _CODING.search(made_from.question):
        found = _GENE_TYPE.search(_lines_naming(made_from))
        says_yes = answer.strip().casefold().startswith("yes")
        return found is not None and (found["type"] == "protein-coding") == says_yes
    if not answer.strip().casefold().startswith("yes"):
        return False  # records do not state what is not so
    names = {one.text.casefold() for one in identifiers_in(made_from.question)}
    asked = {word for word in _words(made_from.question) if word not in _STOP_WORDS and word not in names}
    read = set(_words(_lines_naming(made_from)))
    return bool(asked) and asked <= read


def _lines_naming(made_from: Transcript) -> str:
    """Return the lines of what was read that name an identifier of the question; all of them where it has none."""
    names = [re.escape(one.text) for one in identifiers_in(made_from.question)]
    if not names:
        return made_from.read
    named = re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", re.IGNORECASE)
    return "\n".join(line for line in made_from.read.splitlines() if named.search(line))


def _is_copied(answer: str, read: str) -> bool:
    """Return whether each part of a list stands in what was read, or is a yes or no; brackets must be paired."""
    opened: list[str] = []
    for sign in answer:
        if sign in "([{":
            opened.append(sign)
        elif sign in _PAIRS and (not opened or opened.pop() != _PAIRS[sign]):
            return False
    text = " ".join(read.split()).casefold()
    parts = [" ".join(part.split()).casefold().strip(" .;") for part in answer.split(",")]
    copied = all(part and (part in text or YES_NO.fullmatch(part)) for part in parts)
    return not opened and copied and any(sign.isalnum() for sign in answer)


def _counted(lookups: Sequence[Lookup]) -> str:
    number = sum(one.num_records for one in lookups if one.endpoint != "esearch")
    return f"{number} record{'' if number == 1 else 's'}"


def _looked_up(lookups: Sequence[Lookup]) -> str:
    """Return a sentence on what was looked up, "" for nothing."""
    told = [f"{one.db or one.endpoint} for “{one.term[:60]}” ({one.told})" for one in lookups if one.term]
    return f"Searched: {'; '.join(dict.fromkeys(told))}." if told else ""
