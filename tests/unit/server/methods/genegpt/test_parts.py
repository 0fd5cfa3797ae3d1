"""The answer of a question that is a list of questions."""

from __future__ import annotations

from models.decoding.types import Call, CallFinished, CallReply, CallStarted, LoopDone, LoopUsage
from server.methods.base import Done, Evidence, TextDelta
from server.methods.genegpt.judging import ReadingLedger
from server.methods.genegpt.lookups import Verdict
from server.methods.genegpt.parts import PartsLedger, numbered
from server.methods.genegpt.questions import ParsedQuestion

URL = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esummary.fcgi?db=gene&id="
CHR16 = "chr16 16p13.3"
PLACES = {"SOD1": "chr21 21q22.11", "SOD2": "chr6 6q25.3", "HBA1": CHR16, "A1": CHR16}
NUMBERS = {"SOD1": "661", "SOD2": "662", "HBA1": "3039", "A1": "9"}


def part(symbol: str, chromosome: str = "") -> ParsedQuestion:
    return ParsedQuestion(f"Where is {symbol}?", "location", symbol, chromosome=chromosome)


def reply(symbol: str) -> CallFinished:
    uid = NUMBERS[symbol]
    text = f"[1 gene record\n1. {symbol} (human) protein-coding {PLACES[symbol]}; id {uid}]"
    listed = [{"id": uid, "title": f"{symbol}, human", "text": text, "replaced_by": ""}]
    record = {"endpoint": "esummary", "db": "gene", "num_records": 1, "records": listed}
    return CallFinished(Call(URL + uid, 0), CallReply(text, "ok", record), text, 20, 0.1)


def whole(*said: tuple[ParsedQuestion, str, Verdict], chromosome: str = "") -> tuple[str, Done, list[str]]:
    parts = tuple(one for one, _, _ in said)
    ledger = PartsLedger(ParsedQuestion("Where are SOD1 and SOD2?", parts=parts, chromosome=chromosome))
    for one, answer, verdict in said:
        own = ReadingLedger(one, with_references=False)
        for kept in (own, ledger):
            kept.add(reply(one.subject))
        ledger.take(own, answer, verdict)
    events = ledger.joined(LoopDone("stop", None, (), LoopUsage()), {})
    last = events[-1]
    assert isinstance(last, Done)
    titles = [one.title for event in events if isinstance(event, Evidence) for one in event.references]
    return "".join(one.text for one in events if isinstance(one, TextDelta)), last, titles


ANSWERED = Verdict("answered")
MISSING = Verdict("not_found", "Not found.", is_shown=False)


def test_each_answer_stands_with_its_subject_and_its_record() -> None:
    text, done, titles = whole((part("SOD1"), "chr21", ANSWERED), (part("SOD2"), "chr6", ANSWERED))
    assert text.startswith("SOD1: chr21 [1]\nSOD2: chr6 [2]\n\nReferences:")
    assert titles == ["SOD1, human, NCBI Gene 661", "SOD2, human, NCBI Gene 662"]
    assert (done.outcome, done.answer) == ("answered", "SOD1: chr21\nSOD2: chr6")


def test_what_is_on_the_chromosome_that_is_asked_for_stands_first() -> None:
    text, _, titles = whole((part("SOD1"), "chr21", ANSWERED), (part("SOD2"), "chr6", ANSWERED), chromosome="6")
    assert text.startswith("SOD2: chr6 [1]\nSOD1: chr21 [2]") and titles[0].startswith("SOD2")


def test_a_symbol_that_ends_another_cites_its_own_record() -> None:
    _, _, titles = whole((part("HBA1"), "chr16", ANSWERED), (part("A1"), "chr16", ANSWERED))
    assert titles == ["HBA1, human, NCBI Gene 3039", "A1, human, NCBI Gene 9"]


def test_a_part_without_an_answer_is_told() -> None:
    """The others are an answer in part; where there are none, the outcome is theirs."""
    text, done, _ = whole((part("SOD1"), "chr21", ANSWERED), (part("SOD2"), "", MISSING))
    assert "SOD1: chr21 [1]\n\n(SOD2: Not found.)" in text and done.outcome == "partial"
    text, done, titles = whole((part("SOD1"), "", MISSING), (part("SOD2"), "", MISSING))
    assert (text, done.outcome, titles) == ("SOD1: Not found.\nSOD2: Not found.", "not_found", [])


def test_calls_of_all_parts_are_numbered_through() -> None:
    started = numbered(CallStarted(Call(URL, 1)), 2)
    assert isinstance(started, CallStarted) and started.call.ordinal == 3
    ended = LoopDone("stop", None, (), LoopUsage())
    assert numbered(ended, 2) is ended
