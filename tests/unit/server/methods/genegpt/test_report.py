"""What of a GeneGPT answer is shown while it comes, and how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from models.decoding.types import Call, CallFinished, CallReply, LoopDone, LoopFinish, LoopUsage
from server.methods.base import Done, Event, Evidence, Step, TextDelta
from server.methods.genegpt.judging import ReadingLedger
from server.methods.genegpt.questions import ParsedQuestion
from server.methods.genegpt.report import Ledger

READ = "[1 gene record\n1. BRCA1 (human) protein-coding chr17 17q21.31; aliases FANCS; id 672]"
RECORD: dict[str, Any] = {
    "endpoint": "esummary",
    "db": "gene",
    "num_records": 1,
    "records": [{"id": "672", "title": "BRCA1, human", "text": READ, "replaced_by": ""}],
}
URL = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esummary.fcgi?db=gene&id=672"


def reply() -> CallFinished:
    return CallFinished(Call(URL, 0), CallReply(READ, "ok", RECORD), READ, 20, 0.1)


def ended(finish: LoopFinish = "stop") -> LoopDone:
    return LoopDone(finish, None, (), LoopUsage())


def shown(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def ending(ledger: Ledger, answer: str, finish: LoopFinish = "stop") -> tuple[str, Done, list[Event]]:
    events = ledger.ending(ended(finish), answer, {})
    last = events[-1]
    assert isinstance(last, Done)
    return shown(events), last, events


def test_a_long_answer_streams_after_a_record_was_read() -> None:
    """From its first words on: nobody waits for the end."""
    ledger = Ledger("Where is BRCA1?")
    ledger.add(reply())

    assert shown(ledger.shown(TextDelta("It lies"))) == "It lies"
    assert shown(ledger.shown(TextDelta(" on chr17"))) == " on chr17"
    assert shown(ledger.shown(TextDelta("."))) == ""
    text, done, events = ending(ledger, "It lies on chr17.")
    assert text == " [1].\n\nReferences:\n[1] [BRCA1, human, NCBI Gene 672](https://www.ncbi.nlm.nih.gov/gene/672)"
    assert (done.outcome, done.answer) == ("answered", "It lies on chr17.")
    reference = next(event for event in events if isinstance(event, Evidence)).references[0]
    assert ("It lies on chr17" + text)[reference.start : reference.end] == "[1]"


def test_steps_and_reasoning_pass_at_once() -> None:
    """Only the answer is withheld."""
    ledger = ReadingLedger(ParsedQuestion("Where is BRCA1?"))
    events: list[Event] = [Step("x"), TextDelta("thinking", "reasoning")]

    assert [one for event in events for one in ledger.shown(event)] == events


def test_a_yes_or_no_of_a_general_model_is_shown_as_it_is() -> None:
    ledger = Ledger("Is BRCA1 a tumour suppressor?")
    ledger.add(reply())

    assert shown(ledger.shown(TextDelta("No, as far as anybody knows"))) == "No, as far as anybody knows"
    assert ending(ledger, "No, as far as anybody knows")[1].answer == "No, as far as anybody knows"


def test_a_model_that_can_only_copy_is_judged_as_a_whole() -> None:
    """Its first words look like an answer too."""
    ledger = ReadingLedger(ParsedQuestion("Which gene is FANCS?"))
    ledger.add(reply())

    assert ledger.shown(TextDelta("BRCA1, and something else")) == []
    text, done, _ = ending(ledger, "BRCA1, and something else")
    assert done.outcome == "abstained"
    assert "something else" not in text


def test_the_records_are_told_in_which_a_model_that_can_only_copy_found_nothing() -> None:
    """A person can look there; they are no sources of an answer."""
    ledger = ReadingLedger(ParsedQuestion("What is BRCA1?"))
    ledger.add(reply())
    text, done, events = ending(ledger, "not found")
    assert done.outcome == "abstained"
    assert text.endswith("\n\nRecords read:\n- [BRCA1, human, NCBI Gene 672](https://www.ncbi.nlm.nih.gov/gene/672)")
    assert not any(isinstance(event, Evidence) for event in events)


def test_a_yes_cites_the_record_of_a_gene_that_is_named_in_words() -> None:
    read = READ.replace("aliases FANCS", "breast cancer one")
    record = RECORD | {"records": [{**RECORD["records"][0], "text": read}]}
    ledger = ReadingLedger(ParsedQuestion("Is breast cancer one a protein-coding gene?", "coding", "breast cancer one"))
    ledger.add(CallFinished(Call(URL, 0), CallReply(read, "ok", record), read, 20, 0.1))
    ledger.shown(TextDelta("Yes"))
    assert ending(ledger, "Yes")[0].startswith("Yes: protein-coding [1]")


def test_an_answer_without_a_record_is_told_to_come_from_memory() -> None:
    ledger = Ledger("Where is BRCA1?")

    begun = shown(ledger.shown(TextDelta("It lies on chromosome 17.")))
    text, done, _ = ending(ledger, "It lies on chromosome 17.")
    assert done.outcome == "partial"
    note = "(Nothing was looked up for this. What is said above comes from the model's memory.)"
    assert begun + text == f"It lies on chromosome 17.\n\n{note}"


def test_an_answer_to_a_question_that_was_not_read_is_withheld() -> None:
    """A place is no answer to where a gene is expressed; of two questions one is answered."""
    for parsed, outcome in (
        (ParsedQuestion("Where is BRCA1 expressed?", unread=("expressed",)), "abstained"),
        (ParsedQuestion("Where is BRCA1?", num_questions=2), "partial"),
    ):
        ledger = ReadingLedger(parsed)
        ledger.add(reply())
        ledger.shown(TextDelta("chr17"))
        text, done, _ = ending(ledger, "chr17")
        assert done.outcome == outcome
        assert ("chr17" in text) == (outcome == "partial")


@pytest.mark.parametrize(("organism", "outcome"), [("mouse", "abstained"), ("human", "answered"), ("", "answered")])
def test_a_record_of_another_organism_is_no_answer(organism: str, outcome: str) -> None:
    ledger = ReadingLedger(ParsedQuestion("Where is ACTN3?", organism=organism))
    read = "[1 gene record\n1. chr11 11q13 ACTN3 (human) protein-coding; actinin alpha 3; id 89]"
    ledger.add(CallFinished(Call(URL, 0), CallReply(read, "ok", RECORD), read, 20, 0.1))
    ledger.shown(TextDelta("chr11"))
    assert ending(ledger, "chr11")[1].outcome == outcome


@pytest.mark.parametrize("behind", ["", ", no summary"])
@pytest.mark.parametrize(("kind", "outcome"), [("protein-coding", "abstained"), ("ncRNA", "answered")])
def test_that_a_gene_codes_does_not_say_what_it_does(kind: str, outcome: str, behind: str) -> None:
    ledger = ReadingLedger(ParsedQuestion("What does the gene OR4F5 do?", "function", "OR4F5"))
    read = f"[1 gene record, 1 human named OR4F5\n1. {kind}, no summary; OR4F5 (human) chr1; id 79501]"
    ledger.add(CallFinished(Call(URL, 0), CallReply(read, "ok", RECORD), read, 20, 0.1))
    ledger.shown(TextDelta(written := f"{kind}{behind}"))
    text, done, _ = ending(ledger, written)
    assert done.outcome == outcome
    assert ("found no answer" in text) == (outcome == "abstained")


def test_a_copied_answer_is_completed_from_its_record() -> None:
    """With its mark; what the model wrote is in the trace."""
    ledger = ReadingLedger(ParsedQuestion("What is BRCA1?", "aliases", "BRCA1"))
    ledger.add(reply())
    ledger.shown(TextDelta("BRCA1"))
    text, done, _ = ending(ledger, "BRCA1")
    assert text.startswith("FANCS [1]\n\nReferences:")
    assert (done.answer, done.details["written"]) == ("FANCS", "BRCA1")


def test_a_list_that_repeats_itself_is_the_one_of_the_record() -> None:
    """It is whole then: nothing of it is cut."""
    read = "[2 omim entries, 2 on topic\n1. 6q25, 15q26, 14q24\n- no gene at 6q25; type 1 diabetes mellitus 8]"
    ledger = ReadingLedger(ParsedQuestion("List the places of the genes of type 1 diabetes."))
    record = {**RECORD, "records": [{"id": "1", "title": "type 1 diabetes", "text": read, "replaced_by": ""}]}
    ledger.add(CallFinished(Call(URL, 0), CallReply(read, "ok", record), read, 20, 0.1))
    written = "6q25, 15q26, 6q25, 15q26, 6q25, 15q26"
    ledger.shown(TextDelta(written))
    text, done, _ = ending(ledger, written, "length")
    assert text.startswith("6q25, 15q26, 14q24")
    assert (done.answer, done.outcome, done.finish_reason) == ("6q25, 15q26, 14q24", "answered", "stop")


ON_CLONE = (
    "[3 gene records, 0 human named AC018892.8\n1. chr2 2q11.2 GPAT2 (human) protein-coding; id 150763\n"
    "2. chr2 2q11.2 ANKRD36 (human) protein-coding; id 375248\n3. chr1 1 A Gpat2 (mouse) protein-coding; id 215456]"
)


def located(subject: str, read: str, question: str = "Which chromosome is {} gene located on human genome?") -> Done:
    """Return the end of an answer on the place of a gene whose record was not found."""
    ledger = ReadingLedger(ParsedQuestion(question.format(subject), "location", subject))
    record = {**RECORD, "records": [{"id": "150763", "title": "GPAT2, human", "text": read, "replaced_by": ""}]}
    ledger.add(CallFinished(Call(URL, 0), CallReply(read, "ok", record), read, 20, 0.1))
    ledger.shown(TextDelta("not found"))
    return ending(ledger, "not found")[1]


def test_a_gene_named_after_a_clone_is_placed_by_the_genes_beside_it() -> None:
    """With the reason, as it is concluded and stands in no record."""
    done = located("AC018892.8", ON_CLONE)
    assert (done.answer, done.outcome) == ("chr2", "partial")
    assert "after the clone AC018892. The human genes that NCBI finds by it (GPAT2, ANKRD36)" in done.details["reason"]


def test_a_clone_is_placed_by_two_human_genes_on_one_chromosome_at_least() -> None:
    for subject, read, question in (
        ("AC018892.8", ON_CLONE.replace("chr2 2q11.2 ANKRD36", "chr3 3p11 ANKRD36"), ""),
        ("AC018892.8", ON_CLONE.replace("ANKRD36 (human)", "Ankrd36 (mouse)"), ""),
        ("AC018892.8", ON_CLONE.replace("chr2 2q11.2 ANKRD36", "no chromosome ANKRD36"), ""),
        ("RP11-303E16.8", ON_CLONE, ""),
        ("AC018892.9", ON_CLONE, ""),
        ("AC018892.8", ON_CLONE, "Which chromosome is {} gene located in mouse?"),
    ):
        done = located(subject, read, question) if question else located(subject, read)
        assert (done.outcome, "chr" in done.answer) == ("abstained", False)


def test_a_cut_answer_says_so_below() -> None:
    """With the sources of what there is."""
    ledger = Ledger("Where is BRCA1?")
    ledger.add(reply())
    ledger.shown(TextDelta("BRCA1 lies on chr"))
    text, done, _ = ending(ledger, "BRCA1 lies on chr", "length")

    assert text.startswith(" [1]\n\n(The answer is not complete: it reached its limit of length.)")
    assert (done.outcome, done.finish_reason) == ("cut", "length")
