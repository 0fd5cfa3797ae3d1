"""Options of a GeneGPT request, calls that come first, lines that show calls, and references under an answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from passage_bench import PassageBench, done, shown

from models.card import ModelCard, Summaries
from models.decoding.types import Call, CallHandler, CallReply, CallStatus, LoopLimits
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, CallReplied, OptionInvalid, TranscriptDelta
from server.methods.genegpt.method import GeneGpt, GeneGptOptions, parse_options
from server.methods.genegpt.questions import QuestionReader
from server.methods.shared.call_lines import call_line, collect, render, summary

ESEARCH = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi"

CARD = ModelCard(name="m", source="x", genegpt_mask="slim", summaries="lead")


def test_defaults_are_the_cards_and_the_servers_limit() -> None:
    """Nothing given: the model card and the settings decide."""
    options = parse_options({}, card=CARD, max_calls=10)

    assert (options.mask, options.max_calls) == ("001001", 10)
    assert (options.grammar, options.references) == ("grounded", True)


def test_every_option_is_taken() -> None:
    """All keys at once, each at another value than its default."""
    given = {"mask": "full", "max_calls": 0, "grammar": "off", "references": False}
    options = parse_options(given, card=CARD, max_calls=10)

    assert options.mask == "111111"
    assert {name: getattr(options, name) for name in given if name != "mask"} == {
        name: value for name, value in given.items() if name != "mask"
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mask", "11111"),
        ("mask", 111111),
        ("max_calls", 11),
        ("max_calls", True),
        ("max_calls", -1),
        ("grammar", "json"),
        ("grammar", ["calls"]),
        ("organism", "mouse"),
        ("summaries", "full"),
        ("masks", "full"),
    ],
)
def test_a_bad_option_is_named(key: str, value: Any) -> None:
    """The key is in param and message."""
    with pytest.raises(OptionInvalid) as refused:
        parse_options({key: value}, card=CARD, max_calls=10)

    assert refused.value.param == f"arrowhead.{key}"
    assert key in refused.value.message


@pytest.mark.parametrize(
    ("status", "record", "text", "phrase"),
    [
        ("ok", {"endpoint": "esearch", "num_records": 3}, "[3 ids: 1,2,3]", "3 ids"),
        ("ok", {"endpoint": "esummary", "num_records": 1}, "[1 gene record …]", "1 record"),
        ("ok", {"endpoint": "blast_put", "num_records": 5}, "[5 blast hits …]", "5 hits"),
        ("empty", {"endpoint": "esearch", "num_records": 0}, "[0 ids]", "0 ids"),
        ("error", {}, "[error: NCBI timed out after 30 s]", "error: NCBI timed out after 30 s"),
        ("duplicate", {"endpoint": "esearch"}, "[same call as before: …]", "same call as before"),
    ],
)
def test_a_reply_is_summed_up_in_a_phrase(status: CallStatus, record: Any, text: str, phrase: str) -> None:
    """What a reader sees behind the arrow."""
    assert summary(CallReply(text, status, record)) == phrase


def test_a_call_is_shown_without_its_format_parameters() -> None:
    """The line of the demo: database and term stay, the rest is an ellipsis."""
    url = f"{ESEARCH}?db=gene&retmax=20&retmode=json&sort=relevance&term=LMP10"

    assert call_line(url, "3 ids") == f"[{ESEARCH}?db=gene&…&term=LMP10]-> 3 ids"


def test_a_long_sequence_is_cut_in_the_line() -> None:
    """A DNA sequence would fill the screen."""
    line = call_line(f"https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi?CMD=Put&QUERY={'ACGT' * 100}&X=1", "5 hits")

    assert len(line) < 150
    assert line.endswith("…&…]-> 5 hits")


def read(endpoint: str, db: str, *records: tuple[str, str, str]) -> dict[str, Any]:
    """The record of a reply; of each record id, title and text."""
    listed = [{"id": uid, "title": title, "text": text, "replaced_by": ""} for uid, title, text in records]
    return {"endpoint": endpoint, "db": db, "records": listed}


GENE = (
    "5699",
    "PSMB10, proteasome 20S subunit beta 10, human",
    "PSMB10 (human) protein-coding; aliases LMP10; id 5699",
)
OTHER = ("8138", "MRPL10P, pseudogene, human", "MRPL10P (human) pseudogene; aliases LMP10; id 8138")
MOUSE = ("19171", "Psmb10, proteasome subunit, mouse", "Psmb10 (mouse) protein-coding; aliases Lmp10; id 19171")


def test_without_an_answer_all_records_are_listed_latest_first() -> None:
    """Searches give ids, not records; a record read twice is listed once; SNPs carry their rs, retractions a mark."""
    records = [
        {"endpoint": "esearch", "db": "gene", "ids": ["1"], "records": []},
        read("esummary", "gene", GENE, OTHER),
        read("efetch", "gene", GENE),
        read("esummary", "snp", ("334", "HBB", "HBB rs334")),
        read("esummary", "pubmed", ("7", "A trial", "RETRACTED: A trial")) | {"retracted": ["7"]},
        {"endpoint": "blast_put", "db": "nt", "ids": []},
    ]

    assert collect(records) == [
        ("A trial, PubMed 7 (RETRACTED)", "https://pubmed.ncbi.nlm.nih.gov/7"),
        ("HBB, dbSNP rs334", "https://www.ncbi.nlm.nih.gov/snp/rs334"),
        ("PSMB10, proteasome 20S subunit beta 10, human, NCBI Gene 5699", "https://www.ncbi.nlm.nih.gov/gene/5699"),
        ("MRPL10P, pseudogene, human, NCBI Gene 8138", "https://www.ncbi.nlm.nih.gov/gene/8138"),
    ]


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        ("PSMB10", ["5699"]),  # the mouse's symbol differs in case
        ("psmb10", ["5699", "19171"]),
        ("PSMB10, MRPL10P", ["5699", "8138"]),
        ("in words that stand nowhere", ["5699"]),  # the first of the latest reply
        ("LMP10", ["5699", "8138"]),
        ("SMB10", ["5699"]),  # a part of a name is not the name
    ],
)
def test_references_are_the_records_in_which_the_answer_stands(answer: str, ids: list[str]) -> None:
    """Of three records that were fetched, those that say it."""
    found = collect([read("esummary", "gene", GENE, OTHER, MOUSE)], answer)

    assert [url.rpartition("/")[2] for _, url in found] == ids


def test_a_replaced_record_is_no_source() -> None:
    """NCBI keeps the old id and names the new one."""
    old = {"id": "99", "title": "OLD1", "text": "OLD1 replaced by id 5699", "replaced_by": "5699"}

    assert collect([{"endpoint": "esummary", "db": "gene", "records": [old]}], "OLD1") == []


def test_reference_places_are_those_of_the_markers() -> None:
    """Counted in characters from the start of the shown answer, whatever its length."""
    answer = "PSMB10 – β"
    text, listed = render([("A", "https://a"), ("B", "https://b")], len(answer))

    assert [(answer + text)[r.start : r.end] for r in listed] == ["[1]", "[2]"]


GENE_CALL = "[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esummary.fcgi?db=gene&id={}]->"


class _Places:
    """Look-ups that find every gene on the chromosome of its number."""

    def check(self, ask: AnswerRequest, options: GeneGptOptions) -> None:
        pass

    def open(self, ask: AnswerRequest, question: str, options: GeneGptOptions, summaries: Summaries) -> CallHandler:
        async def handler(call: Call) -> CallReply:
            number = call.text.rpartition("=")[2]
            text = f"[1 gene record\n1. SOD{number} (human) protein-coding chr{number}; id {number}]"
            record = read("esummary", "gene", (number, f"SOD{number}, human", text)) | {"num_records": 1}
            return CallReply(text, "ok", record)

        return handler


async def test_a_list_of_questions_is_looked_up_one_by_one(tmp_path: Path) -> None:
    """The calls are numbered through, and the option's limit is for all of them."""

    def make(lifecycle: EngineLifecycle, _: Any) -> GeneGpt:
        return GeneGpt(lifecycle, _Places(), QuestionReader.load(), LoopLimits(), 400)

    def write(text: str) -> str:
        number = re.findall(r"SOD(\d)", text)[-1]
        return f" chr{number}\n\n" if text.endswith("]\n") else GENE_CALL.format(number)

    facts = {"trained_for": ("genegpt",)}
    async with PassageBench(make, tmp_path, write, documents=(), facts=facts) as made:
        events = await made.ask("Where are SOD1 and SOD2?", grammar="off")
        limited = await made.ask("Where are SOD1 and SOD2?", grammar="off", max_calls=1)
    assert shown(events).startswith("SOD1: chr1 [1]\nSOD2: chr2 [2]")
    assert [one.ordinal for one in events if isinstance(one, CallReplied)] == [0, 1]
    assert done(events).usage.segments == 4
    assert done(limited).outcome == "partial" and "SOD2: chr2" not in shown(limited)


class _Unused:
    """Look-ups for a model whose text has no call."""

    def check(self, ask: AnswerRequest, options: GeneGptOptions) -> None:
        pass

    def open(self, ask: AnswerRequest, question: str, options: GeneGptOptions, summaries: Summaries) -> CallHandler:
        async def handler(call: Call) -> CallReply:
            raise NotImplementedError

        return handler


@pytest.mark.parametrize(
    ("question", "options", "may_align"),
    [
        ("What is 17 times 23?", {}, False),
        (f"Which organism does {'ACGTTGCA' * 4} come from?", {}, True),
        (f"Which organism has the protein {'MKTAYIAKQR' * 2}?", {}, True),
        ("What is 17 times 23?", {"grammar": "calls"}, True),
    ],
)
async def test_a_grounded_call_aligns_nothing_where_the_question_has_no_sequence(
    tmp_path: Path, question: str, options: dict[str, Any], may_align: bool
) -> None:
    """A sequence would be made up."""

    def make(lifecycle: EngineLifecycle, _: Any) -> GeneGpt:
        return GeneGpt(lifecycle, _Unused(), QuestionReader.load(), LoopLimits(), 400)

    async with PassageBench(make, tmp_path, lambda _: "Answer: none", documents=()) as made:
        await made.ask(question, **options)
    grammar = made.engine.requests[0].params.grammar
    assert grammar is not None and ("CMD=Put" in str(grammar.spec)) is may_align


@pytest.mark.parametrize(
    ("question", "trained_for", "options", "is_asked_again"),
    [
        ("What is the function of VKORC1?", ("genegpt",), {}, True),
        ("What is the function of VKORC1?", None, {}, False),
        ("What is the function of VKORC1?", ("genegpt",), {"grammar": "off"}, False),
        ("What is the function of VKORC1?", ("genegpt",), {"max_calls": 0}, False),
        ("Is gene therapy expensive?", ("genegpt",), {}, False),
    ],
)
async def test_a_model_for_look_ups_that_makes_none_is_asked_again_where_a_name_is_asked_about(
    tmp_path: Path, question: str, trained_for: tuple[str, ...] | None, options: dict[str, Any], is_asked_again: bool
) -> None:
    """What it says of a name without a call cannot be shown; the second time a grammar demands the call."""

    def make(lifecycle: EngineLifecycle, _: Any) -> GeneGpt:
        return GeneGpt(lifecycle, _Unused(), QuestionReader.load(), LoopLimits(), 400)

    facts = {"trained_for": trained_for}
    async with PassageBench(make, tmp_path, lambda _: "Answer: a kinase", documents=(), facts=facts) as made:
        events = await made.ask(question, **options)
    grammars = [str(request.params.grammar and request.params.grammar.spec) for request in made.engine.requests]
    assert ['"sequence"' in grammar for grammar in grammars] == ([False, True] if is_asked_again else [False])
    assert "".join(one.text for one in events if isinstance(one, TranscriptDelta)) == "Answer: a kinase"
    assert done(events).usage.segments == len(grammars)
