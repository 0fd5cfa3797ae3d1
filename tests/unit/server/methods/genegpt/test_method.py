"""Options of a GeneGPT request; the lines that show calls; the references under an answer."""

from __future__ import annotations

from typing import Any

import pytest

from models.catalog import ModelCard
from models.decoding.types import CallReply, CallStatus
from server.methods.base import OptionInvalid
from server.methods.genegpt.method import parse_options
from server.methods.shared.call_lines import call_line, collect, render, summary

ESEARCH = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi"


CARD = ModelCard(name="m", source="x", genegpt_mask="slim", summaries="lead")


def test_defaults_are_the_cards_and_the_servers_limit() -> None:
    """Nothing given: the model card and the settings decide."""
    options = parse_options({}, card=CARD, max_calls=10)

    assert (options.mask, options.summaries, options.max_calls) == ("001001", "lead", 10)
    assert (options.grammar, options.references) == ("grounded", True)


def test_every_option_is_taken() -> None:
    """All keys at once, each at another value than its default."""
    given = {
        "mask": "full",
        "max_calls": 0,
        "grammar": "off",
        "condense": False,
        "organism": "mouse",
        "cot": True,
        "references": False,
        "summaries": "full",
    }
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
        ("organism", ""),
        ("organism", "a\nb"),
        ("condense", "yes"),
        ("cot", 1),
        ("summaries", "none"),
        ("summaries", ["lead"]),
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


def test_references_are_the_records_read_latest_first() -> None:
    """Searches give ids, not records; a record read twice is listed once; SNPs carry their rs, retractions a mark."""
    records: list[dict[str, Any]] = [
        {"endpoint": "esearch", "db": "gene", "ids": ["1"]},
        {"endpoint": "esummary", "db": "gene", "ids": ["5699", "8138"]},
        {"endpoint": "efetch", "db": "gene", "ids": ["5699"]},
        {"endpoint": "esummary", "db": "snp", "ids": ["334"]},
        {"endpoint": "esummary", "db": "pubmed", "ids": ["7", "8"], "retracted": ["7"]},
        {"endpoint": "blast_put", "db": "nt", "ids": []},
    ]

    assert collect(records) == [
        ("PubMed 7 (RETRACTED)", "https://pubmed.ncbi.nlm.nih.gov/7"),
        ("PubMed 8", "https://pubmed.ncbi.nlm.nih.gov/8"),
        ("dbSNP rs334", "https://www.ncbi.nlm.nih.gov/snp/rs334"),
        ("NCBI Gene 5699", "https://www.ncbi.nlm.nih.gov/gene/5699"),
        ("NCBI Gene 8138", "https://www.ncbi.nlm.nih.gov/gene/8138"),
    ]


def test_reference_places_are_those_of_the_markers() -> None:
    """Counted in characters from the start of the shown answer, whatever its length."""
    answer = "PSMB10 – β"
    text, listed = render([("A", "https://a"), ("B", "https://b")], len(answer))

    assert [(answer + text)[r.start : r.end] for r in listed] == ["[1]", "[2]"]
