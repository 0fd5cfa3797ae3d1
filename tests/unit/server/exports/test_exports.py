"""A trace becomes files that other programs read, whatever its articles and its model wrote."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from dataclasses import replace
from typing import Any

import bibtexparser
import docx
import pytest
import rispy
from refusals import refused_for

from server.errors import FORMAT_UNKNOWN, NO_REFERENCES
from server.exports.formats import FORMATS, check_export, export
from server.exports.report import report_of
from server.methods.shared.evidence_table import EvidenceRow, Exclusion, Finding, Query, Review, Sentence

ITEM = {
    "id": "pmid:32678530",
    "type": "article-journal",
    "title": "Dexamethasone in Covid-19",
    "author": [{"family": "Horby", "given": "Peter"}],
    "container-title": "N Engl J Med",
    "issued": {"date-parts": [[2021]]},
    "PMID": "32678530",
    "DOI": "10.1056/NEJMoa2021436",
}
ROWS = (
    EvidenceRow(
        number=1,
        uid="32678530",
        title="Dexamethasone in Covid-19",
        url="https://pubmed.ncbi.nlm.nih.gov/32678530/",
        item=ITEM,
        level="trial",
        score=-0.5,
        result=Finding("lower mortality", '=HYPERLINK("http://evil")', "RESULTS"),
        sample_size=Finding("6425", "2104 were assigned"),
    ),
    EvidenceRow(
        number=0,
        uid="7",
        title="| A [table](http://evil) <img src=x>",
        url="https://pubmed.ncbi.nlm.nih.gov/7/",
        notices=("retracted",),
    ),
)
REVIEW = Review(
    question="Does dexamethasone lower mortality?",
    queries=(Query("dexamethasone[tiab]", "gateway", 3), Query("((", "gateway", None, "does not parse")),
    counts={"found": 3, "excluded": 1, "included": 2, "cited": 1},
    excluded=(Exclusion("9", "Another", "screening", "another drug"),),
    rows=ROWS,
    tldr="It does [1].",
    sentences=(Sentence("It does.", (1,), True),),
)
SHOWN = "**TL;DR** It does [1].\n\n![x](http://evil/p.png) <script>x</script>"


def trace(details: dict[str, Any] | None = None, **choice: Any) -> str:
    listed = f"{SHOWN}\n\nReferences:\n[1] something"
    told: dict[str, Any] = {
        "question": "Does *it* work? <b>",
        "content": listed,
        "answer": "It does.",
        "egress": "nothing",
        "outcome": "answered",
        "references": [
            {"number": 1, "title": "Dex", "url": "https://pubmed.ncbi.nlm.nih.gov/32678530/",
             "start": listed.index("[1] something"), "end": 0, "text": "what was read"},
        ],
        "details": REVIEW.details if details is None else details,
        **choice,
    }  # fmt: skip
    head = {"id": "req/1", "object": "arrowhead.trace", "model": "m:clinfo", "created": 1_700_000_000}
    return json.dumps({**head, "choices": [told]})


def text(form: Any, told: str | None = None) -> str:
    return export(told or trace(), form).data.decode()


def test_ris_has_each_work_once() -> None:
    records = rispy.loads(text("ris"))
    assert [record["accession_number"] for record in records] == ["32678530", "7"]
    assert records[1]["notes"] == ["Retracted"]


def test_bibtex_and_csl_json_have_the_same_works() -> None:
    entries = bibtexparser.parse_string(text("bibtex")).entries
    assert [entry.fields_dict["pmid"].value for entry in entries] == ["32678530", "7"]
    assert [item["PMID"] for item in json.loads(text("csl-json"))] == ["32678530", "7"]


def test_csv_has_findings_with_their_quotes_and_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(text("csv").removeprefix("\ufeff"))))
    assert rows[0]["sample_size"] == "6425"
    assert rows[0]["result_quote"] == '\'=HYPERLINK("http://evil")'
    assert rows[0]["score"] == "-0.5"
    assert rows[0]["passage"] == "what was read"
    assert (rows[1]["number"], rows[1]["notices"]) == ("", "Retracted")
    assert "Horby" in rows[0]["reference"]


def test_columns_of_a_reader_and_exclusions_by_hand_are_in_every_export() -> None:
    """A cited article that is excluded stays a reference, as the answer cites it, and leaves the evidence."""
    dose = {"dose": Finding("6 mg", "6 mg once daily"), "year": Finding("2020", "=2020")}
    rows = (replace(ROWS[0], columns=dose), replace(ROWS[1], excluded="an animal study"))
    cited = (replace(ROWS[0], excluded="other drug"), replace(ROWS[1], columns=dose))
    told, out = (trace(replace(REVIEW, rows=one).details) for one in (rows, cited))

    (row,) = csv.DictReader(io.StringIO(text("csv", told).removeprefix("\ufeff")))
    assert (row["dose"], row["year (column)"], row["year"]) == ("6 mg", "2020", "2021")
    assert row["year (column)_quote"] == "'=2020"
    assert "| dose | year |" in text("markdown", told) and "dose: “6 mg once daily”" in text("markdown", told)
    assert [cell.text for cell in docx.Document(io.BytesIO(export(told, "docx").data)).tables[0].rows[0].cells][
        -2:
    ] == ["dose", "year"]
    assert [record["accession_number"] for record in rispy.loads(text("ris", told))] == ["32678530"]

    first, second = csv.DictReader(io.StringIO(text("csv", out).removeprefix("\ufeff")))
    assert (first["number"], first["notices"], first["result"]) == ("1", "Excluded by hand: other drug", "")
    assert second["dose"] == "6 mg"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", " =", "\n=", "＝", "\u00a0="])
def test_no_cell_of_a_csv_is_a_formula(start: str) -> None:
    told = trace({}, references=[{"number": 1, "title": f"{start}1+1", "url": "", "text": f"{start}cmd|' /C calc'!A0"}])
    (row,) = csv.DictReader(io.StringIO(text("csv", told).removeprefix("\ufeff")))
    assert row["passage"].startswith("'")
    assert not row["title"].startswith(("=", "+", "-", "@", "\t", "\r", " "))


HIDDEN = [
    "\u200b",
    "\u00ad",
    "\u2060",
    "\u202e",
    "\ufeff\u200d",
    "\u3164",
    "\u2800",
    "\u0301",
    "\ufe0f",
    "\x01",
    "\u2003",
    '"',
]


@pytest.mark.parametrize("before", ["", *HIDDEN, " ; ", "a;", "a; ", "a\t", "a;\u200b", 'a;"', "a\r\n", "a;b;\u00a0"])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "＝", "﹦"])
def test_no_formula_hides_behind_a_separator_or_an_invisible_sign(before: str, sign: str) -> None:
    """A spreadsheet that separates by semicolons or tabs begins a cell there; it leaves out what cannot be seen."""
    told = trace({}, references=[{"number": 1, "title": "t", "url": "", "text": f"{before}{sign}cmd|' /C calc'!A0"}])
    (row,) = csv.DictReader(io.StringIO(text("csv", told).removeprefix("\ufeff")))

    for cell in re.split(r"[;\t\r\n]", row["passage"]):
        seen = "".join(c for c in cell if unicodedata.category(c)[0] not in "CZM" and c not in '\u3164\u2800"')
        assert not seen.startswith((sign, "=")), cell
    assert "a; b" in text("csv", trace({}, references=[{"number": 1, "title": "t", "url": "", "text": "a; b = c"}]))


def test_markdown_shows_the_report_and_loads_nothing() -> None:
    shown = text("markdown")
    assert shown.startswith("# Does \\*it\\* work? \\<b\\>\n")
    assert "**TL;DR** It does [1]." in shown
    assert shown.count("something") == 0
    assert not re.search(r"(?<!\\)<(?!https?://)", shown)
    assert "![" not in shown
    assert "\\| A \\[table\\](http://evil) \\<img src=x\\>" in shown
    assert "Horby P. Dexamethasone in Covid-19. N Engl J Med. 2021." in shown
    assert "Articles: 3 found, 1 excluded, 2 included, 1 cited." in shown
    assert "not used: does not parse" in shown
    assert "**Retracted**" in shown


def test_docx_opens_with_text_table_and_references() -> None:
    told = trace(content="Fine\x00 \x0btext [1].\n\n- point **strong**\n## Head")
    document = docx.Document(io.BytesIO(export(told, "docx").data))
    paragraphs = "\n".join(paragraph.text for paragraph in document.paragraphs)
    assert "Fine text [1]." in paragraphs
    assert "point strong" in paragraphs
    assert "Horby P." in paragraphs
    assert "screening, another drug" in paragraphs
    (table,) = document.tables
    assert [cell.text for cell in table.rows[1].cells][:4] == ["1", "Dexamethasone in Covid-19", "trial", ""]
    assert document.core_properties.title == "Does *it* work? <b>"


def test_an_answer_of_another_method_gives_its_references() -> None:
    references = [
        {"number": 1, "title": "PSMB10 (Gene)", "url": "https://www.ncbi.nlm.nih.gov/gene/5699", "start": 0},
        {"number": 2, "title": "Long title (notes)", "url": "/v1/passages/ns/3", "text": "read"},
    ]
    cited = [{"number": 2, "title": "Long title", "document_id": "PMID:123", "retracted": True}]
    told = trace({"citations": cited}, references=references)
    first, second = json.loads(text("csl-json", told))
    assert (first["type"], first["URL"]) == ("webpage", "https://www.ncbi.nlm.nih.gov/gene/5699")
    assert (second["title"], second["PMID"]) == ("Long title", "123")
    assert second["note"] == "Retracted; passage of this server: /v1/passages/ns/3"
    assert "URL" not in second


def test_a_work_cited_under_two_numbers_is_listed_once() -> None:
    url = "https://pubmed.ncbi.nlm.nih.gov/5/"
    references = [{"number": at, "title": "T", "url": url, "text": f"passage {at}"} for at in (2, 1)]
    (source,) = report_of(trace({}, references=references)).answers[0].sources
    assert (source.number, source.passage) == (1, "passage 1\n\npassage 2")


@pytest.mark.parametrize("form", ["ris", "bibtex", "csl-json", "csv"])
def test_an_answer_without_sources_is_no_empty_file(form: Any) -> None:
    with refused_for(NO_REFERENCES, match="names no source"):
        export(trace({}, references=[]), form)


@pytest.mark.parametrize("form", ["docx", "markdown"])
def test_an_answer_without_sources_is_still_a_report(form: Any) -> None:
    told = trace({}, references=[], content="Not found.", outcome="not_found")
    assert export(told, form).data
    assert "Outcome: not found" in text("markdown", told)


def test_a_trace_of_an_error_or_without_choices_is_a_report_too() -> None:
    assert "Outcome" not in text("markdown", json.dumps({"id": "x", "choices": []}))
    broken = {"id": "x", "choices": [{"question": None, "details": None, "references": None, "content": None}]}
    assert text("markdown", json.dumps(broken))


def test_the_file_has_a_name_that_no_header_can_break() -> None:
    assert export(trace(), "ris").name == "arrowhead-req-1.ris"


@pytest.mark.parametrize("form", ["pdf", None, "x" * 5000])
def test_an_unknown_choice_is_refused_with_those_there_are(form: Any) -> None:
    with refused_for(FORMAT_UNKNOWN) as refused:
        check_export(form)
    assert refused.value.param == "format"
    assert ", ".join(FORMATS) in str(refused.value)
    assert len(str(refused.value)) < 300
