"""Judge the answer of a model that can do no more than look up and copy, by its look-ups. Pure.

``not_found`` is said only where the thing that the question names was searched for and nothing is there. A failed call,
a search for other words, or records that hold no answer are other outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from models.decoding.types import LoopDone, LoopFinish
from server.methods.base import Event, TextDelta
from server.methods.genegpt.fields import GENE_TYPE, HUMAN_GENE, chosen_of, field_of, place_of_clone, said_of_claim
from server.methods.genegpt.lookups import Lookup, Transcript, Verdict, looked_up
from server.methods.genegpt.questions import ParsedQuestion
from server.methods.genegpt.report import Ended, Ledger
from server.methods.shared.call_lines import collect, records_read
from server.methods.shared.identifiers import identifiers_in
from server.methods.shared.outcomes import YES_NO, why_cut

_NOT_FOUND: Final = re.compile(
    r"(?:(?:not|none|nothing|no \w+) found\b[^.;]{0,40}|none|unknown|n/?a)\W*", re.IGNORECASE
)
_CODING: Final = re.compile(r"protein[- ]?coding|(?:en)?codes? (?:for )?(?:an? )?protein", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_][\w'./*+-]*")
_OUT_OF_SCOPE: Final = (
    "This method looks up genes, variants, diseases and sequences at NCBI; the question asks for nothing of them."
)
_NO_CHOICE: Final = "None of the choices, or more than one, is what the records state."
_OF_CLONE: Final = (
    "No record is named “{}”, which is a name after the clone {}. The human genes that NCBI finds by it ({}) are on "
    "{}, and so is the clone."
)
# What full names of genes have and people leave out.
_NAME_FILLING: Final = frozenset(("subunit", "chain", "protein", "molecule", "signaling", "gene"))
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
_RECORD: Final = re.compile(r"\d+\. ")
# How many genes of a reply, of the organism that is asked for, have the name that was searched for.
_NAMED: Final = re.compile(r"records?, ([1-9]\d*) (\w[\w ]*?) named (.+)$", re.MULTILINE)
_ACCESSION: Final = re.compile(r"(?:ENS[A-Z]*\d|[A-Z]{2}_\d|\d+$)", re.IGNORECASE)
_ORGANISMS: Final = frozenset(("human", "homo", "sapiens", "mouse", "mus", "musculus", "rat", "rattus", "norvegicus"))


class ReadingLedger(Ledger):
    """Keep the ledger of a model for look-ups: its text is withheld to the end, and shown where its records bear it."""

    def __init__(self, parsed: ParsedQuestion, *, with_references: bool = True) -> None:
        super().__init__(parsed.text, with_references=with_references)
        self._parsed = parsed
        self._withheld: list[TextDelta] = []

    @property
    def subject(self) -> str:
        return self._parsed.subject

    def shown(self, event: Event) -> list[Event]:
        if isinstance(event, TextDelta) and event.channel == "answer":
            self._withheld.append(event)
            return []
        return [event]

    def stated(self, step: LoopDone, written: str) -> tuple[str, Verdict, LoopDone]:
        """Return what the records that were read bear of what the model wrote, and how that ended."""
        answer = field_of(self._parsed, written, self._read)
        if answer != written:
            # A field of a record is whole, wherever the model stopped copying it.
            step = replace(step, finish_reason="stop", stop_reason=None)
        answer, verdict = self._placed(answer, self._verdict(answer, step.finish_reason, step.stop_reason))
        if verdict.outcome != "answered":
            return answer, verdict, step
        if not self._parsed.choices:
            return said_of_claim(self._parsed, answer, self._read), verdict, step
        chosen = chosen_of(self._parsed.choices, answer)
        return chosen or answer, verdict if chosen else Verdict("partial", _NO_CHOICE), step

    def ending(self, step: LoopDone, answer: str, options: Mapping[str, Any]) -> list[Event]:
        written = answer
        answer, verdict, step = self.stated(step, written)
        released = self._withheld if written == answer else [TextDelta(answer)]
        before = self._cited(released) if verdict.is_shown else []
        ended = Ended(answer if verdict.is_shown else "", verdict, step, options)
        if not verdict.is_shown:
            ended = replace(ended, more={"withheld": written})
        elif written != answer:
            ended = replace(ended, more={"written": written})
        if verdict.outcome == "abstained" and self._with_references:
            read = collect(self._records)
            ended = replace(ended, list_of_records=records_read(read) if read else "")
        return [*before, *self._ended(ended)]

    def _verdict(self, answer: str, finish: LoopFinish, stop_reason: str | int | None) -> Verdict:
        parsed = self._parsed
        made_from = replace(self._transcript, asking=parsed.asking, is_in_scope=parsed.is_in_scope)
        verdict = judge(answer, finish, made_from, stop_reason=stop_reason)
        if verdict.outcome != "answered":
            return verdict
        if parsed.organism and not _is_copied(answer, _of_organism(parsed.organism, self._read)):
            reason = f"The records that were read do not state this of the {parsed.organism}."
            return Verdict("abstained", f"{reason} {looked_up(made_from.lookups)}", is_shown=False)
        return _unless_misread(verdict, parsed)

    def _placed(self, answer: str, verdict: Verdict) -> tuple[str, Verdict]:
        """Return answer and outcome, others where a gene without a record is named after a clone that has a place."""
        place = place_of_clone(self._parsed, self._read) if verdict.outcome == "abstained" else None
        if place is None:
            return answer, verdict
        reason = _OF_CLONE.format(self._parsed.subject, place.clone, ", ".join(place.symbols), place.chromosome)
        return place.chromosome, Verdict("partial", reason)

    def _about(self, sentence: str) -> str:
        # A yes or no says what the question asks.
        return f"{sentence}, {self._parsed.subject}, {self._question}" if YES_NO.match(sentence) else sentence


def _unless_misread(verdict: Verdict, parsed: ParsedQuestion) -> Verdict:
    """Return the verdict on an answer, another where a model for look-ups cannot have read the whole question."""
    if parsed.unread:
        words = ", ".join(f"“{word}”" for word in parsed.unread[:3])
        reason = (
            "This model was trained to look up symbols, aliases, places, functions and types of genes and variants; it "
            f"does not read {words}, so what it wrote may answer another question and is not shown."
        )
        return Verdict("abstained", reason, is_shown=False)
    if parsed.num_questions > 1:
        return Verdict("partial", f"One of {parsed.num_questions} questions is answered; ask them one by one.")
    return verdict


def judge(answer: str, finish: LoopFinish, made_from: Transcript, *, stop_reason: str | int | None = None) -> Verdict:
    """Return the outcome of what a model wrote that can do no more than look up and copy."""
    if finish != "stop":
        return Verdict("cut", why_cut(finish, stop_reason), is_shown=False)
    if not answer.strip():
        return Verdict("abstained", f"The model wrote no answer. {looked_up(made_from.lookups)}")
    if _NOT_FOUND.fullmatch(answer.strip()):
        return _nothing(made_from)
    if not any(one.num_records for one in made_from.lookups):
        return _without_records(made_from)
    if _strayed(made_from):
        return Verdict("abstained", _strayed_text(made_from.lookups), is_shown=False)
    if name := _unnamed(made_from):
        reason = f"No answer: none of the records that were read is named “{name}”. {looked_up(made_from.lookups)}"
        return Verdict("abstained", reason, is_shown=False)
    if YES_NO.match(answer) and not _states(answer, made_from):
        return Verdict(
            "abstained",
            f"The records that were read do not state this, so no yes or no is given. {looked_up(made_from.lookups)}",
            is_shown=False,
        )
    if not _is_copied(answer, made_from.read):
        reason = f"The model read {_counted(made_from.lookups)}, but wrote no answer that stands in them."
        return Verdict("abstained", reason, is_shown=False)
    if reason := _namesakes(made_from):
        return Verdict("partial", reason)
    return Verdict("answered")


def _nothing(made_from: Transcript) -> Verdict:
    lookups = made_from.lookups
    failed = [one for one in lookups if one.has_failed]
    if failed and not any(one.num_records for one in lookups):
        return _failed(failed)
    if not made_from.is_in_scope:
        return Verdict("out_of_scope", _OUT_OF_SCOPE, is_shown=False)
    if not lookups:
        return Verdict("abstained", "Nothing was looked up for this question, so nothing can be said.", is_shown=False)
    if any(one.num_records and one.endpoint != "esearch" for one in lookups):
        reason = f"The model read {_counted(lookups)} and found no answer in them. {looked_up(lookups)}"
        return Verdict("abstained", reason, is_shown=False)
    stray = _stray(made_from)
    if any(one.has_ignored for one in lookups):
        reason = f"Not found: no record that was searched has one of the words. {looked_up(lookups)}"
        return Verdict("not_found", reason, is_shown=False)
    if any(one.num_records for one in lookups) and not any(one.endpoint == "esearch" for one in stray):
        reason = f"Records were found, but none could be read: there may be an answer. {looked_up(lookups)}"
        return Verdict("call_failed", reason, is_shown=False)
    if stray:
        return Verdict("abstained", _strayed_text(lookups), is_shown=False)
    return Verdict("not_found", f"Not found. {looked_up(lookups)}", is_shown=False)


def _without_records(made_from: Transcript) -> Verdict:
    """Judge an answer for which no record was read: it comes from the model alone."""
    failed = [one for one in made_from.lookups if one.has_failed]
    if failed:
        return _failed(failed)
    if not made_from.is_in_scope:
        return Verdict("out_of_scope", _OUT_OF_SCOPE, is_shown=False)
    reason = "This model answers only from records that it looks up, and it read none for this question."
    return Verdict("abstained", f"{reason} {looked_up(made_from.lookups)}".strip(), is_shown=False)


def _failed(failed: Sequence[Lookup]) -> Verdict:
    last = failed[-1]
    what = f" of “{last.term}”" if last.term else ""
    return Verdict(
        "call_failed", f"The look-up{what} failed: {last.result}. This does not mean that there is nothing.", False
    )


def is_searched_rightly(lookup: Lookup, question: str, asking: Set[str] = frozenset()) -> bool:
    """Return whether a call searched for something that the question names, in a database for it.

    Words of ``asking`` name nothing.
    """
    named = " ".join(_words(question))
    words = _words(lookup.term)
    if lookup.endpoint == "esearch":
        rs = re.search(r"\brs\d+\b", question.casefold())
        in_place = rs is None or lookup.db == "snp" or rs[0] not in words
        names = set(words) - asking
        return in_place and bool(names) and f" {' '.join(words)} " in f" {named} "
    numbers = re.findall(r"\d+", lookup.term)
    return not numbers or all(number in question for number in numbers)


def _strayed(made_from: Transcript) -> bool:
    """Return whether there were searches, and none for what the question names: what they found is something else."""
    searches = [one for one in made_from.lookups if one.endpoint == "esearch"]
    stray = _stray(made_from)
    return bool(searches) and all(one in stray for one in searches)


def _stray(made_from: Transcript) -> list[Lookup]:
    """Return the calls for what neither the question names nor the reply to an earlier call that is none of them."""
    stray: list[Lookup] = []
    for place, one in enumerate(made_from.lookups):
        follows = one.is_of_reply and len(stray) < place
        if not follows and not is_searched_rightly(one, made_from.question, made_from.asking):
            stray.append(one)
    return stray


def _strayed_text(lookups: Sequence[Lookup]) -> str:
    return f"No answer: the search was not for what the question names. {looked_up(lookups)}"


def _unnamed(made_from: Transcript) -> str:
    """Return the gene's name that was searched for and that no record read has, "" where there is none.

    NCBI searches for the parts of a name, such as RP11-303E16.8 or "growth hormone", and finds other genes. Accession
    numbers stand in no record that is read.
    """
    records = [line for line in made_from.read.splitlines() if _RECORD.match(line)]
    for lookup in made_from.lookups:
        first, *others = lookup.term.split() or [""]
        name = " ".join([first, *(one for one in others if one.casefold() not in _ORGANISMS)])
        if lookup.endpoint != "esearch" or lookup.db != "gene" or _ACCESSION.match(name) or not records:
            continue
        named = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\d)", re.IGNORECASE)
        counted = any(count[3].casefold() == name.casefold() for count in _NAMED.finditer(made_from.read))
        # A name in words is a part of others: "leptin" of "leptin receptor"; one with a digit, as daf-16, is whole.
        has_digit = " " not in name and any(sign.isdigit() for sign in name)
        is_symbol = has_digit or any(one.text == name for one in identifiers_in(name))
        found = any(named.search(line) for line in records) if is_symbol else _is_only_one_of(name, records)
        if not counted and not found:
            return name
    return ""


def _is_only_one_of(name: str, records: Sequence[str]) -> bool:
    """Return whether one record was read, a human one of this name but for words such as "subunit".

    "Hemoglobin beta" is HBB, hemoglobin subunit beta; leptin is not LEPR, leptin receptor.
    """
    if len(records) != 1 or " (human) " not in records[0] or "; replaced by id " in records[0]:
        return False
    wanted = set(_words(name))
    called = [set(_words(part)) for part in records[0].split("; ")]
    return bool(wanted) and any(wanted <= words and words - wanted <= _NAME_FILLING for words in called)


def _namesakes(made_from: Transcript) -> str:
    """Return the sentence on a name that several human genes have and none as its symbol, "" where there is none."""
    symbols = list(dict.fromkeys(HUMAN_GENE.findall(made_from.read)))
    for count in _NAMED.finditer(made_from.read):
        number, organism, name = count.groups()
        if int(number) > 1 and organism == "human" and name.casefold() not in {one.casefold() for one in symbols}:
            listed = f": {', '.join(symbols)}" if len(symbols) == int(number) else ""
            return f"“{name}” is a name of {number} human genes{listed}; another one may be meant."
    return ""


def _words(text: str) -> list[str]:
    return [word.casefold().rstrip(".'") for word in _WORD.findall(text)]


def _states(answer: str, made_from: Transcript) -> bool:
    """Return whether what was read states what a yes or no says; of that kind, records state if genes code."""
    found = GENE_TYPE.search(_lines_naming(made_from)) if _CODING.search(made_from.question) else None
    says_yes = answer.strip().casefold().startswith("yes")
    return found is not None and (found["type"] == "protein-coding") == says_yes


def _lines_naming(made_from: Transcript) -> str:
    """Return the lines of what was read that name an identifier of the question; all of them where it has none."""
    names = [re.escape(one.text) for one in identifiers_in(made_from.question)]
    if not names:
        return made_from.read
    named = re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", re.IGNORECASE)
    return "\n".join(line for line in made_from.read.splitlines() if named.search(line))


def _of_organism(organism: str, read: str) -> str:
    """Return the records of an organism's genes of what was read, and those that are of no gene."""
    records = read.split("\n")
    genes = {place: found["organism"] for place, one in enumerate(records) if (found := GENE_TYPE.search(one))}
    return "\n".join(one for place, one in enumerate(records) if genes.get(place, organism) == organism)


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
    copied = all(part and YES_NO.sub("", part).strip(" :") in text for part in parts)
    return not opened and copied and any(sign.isalnum() for sign in answer)


def _counted(lookups: Sequence[Lookup]) -> str:
    number = sum(one.num_records for one in lookups if one.endpoint != "esearch")
    return f"{number} record{'' if number == 1 else 's'}"
