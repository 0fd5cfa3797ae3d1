"""Replies become records, or errors of a named type."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from models.errors import Fault
from retrieval.errors import BLAST_FAILED, NCBI_MALFORMED, NCBI_REPLY_ERROR, NcbiError
from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.parse import parse_reply
from retrieval.ncbi.replies.records import GeneRecord, IdList, OmimRecord, ParsedReply, RecordList, SnpRecord
from retrieval.types import Endpoint, Focus, NcbiCall, RawReply

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[6] / "shared" / "data")) / "ncbi"


def call_of(url: str) -> NcbiCall:
    """The call that a recorded address is."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if "Blast.cgi" in parts.path:
        return NcbiCall("blast_put" if query.get("CMD") == "Put" else "blast_get", "", query)
    name = parts.path.rsplit("/", 1)[-1].removesuffix(".fcgi")
    return NcbiCall(name, query.get("db", ""), query)  # type: ignore[arg-type]  # recorded endpoints are known ones


def _parse(body: str, endpoint: Endpoint = "esummary", db: str = "gene") -> ParsedReply:
    return parse_reply(NcbiCall(endpoint, db, {}), RawReply(200, "", body, len(body)))


def test_a_gene_summary_is_read_alike_from_json_and_xml() -> None:
    """Both forms of the document summary give the same record."""
    from_json = _parse(
        '{"result":{"uids":["7"],"7":{"uid":"7","name":"AB1","description":"alpha 1","currentid":"","chromosome":"8",'
        '"maplocation":"8p21.2","otheraliases":"A, B","summary":"s","organism":{"scientificname":"Homo sapiens",'
        '"commonname":"human"}}}}'
    )
    from_xml = _parse(
        '<?xml version="1.0"?><eSummaryResult><DocumentSummarySet><DocumentSummary uid="7"><Name>AB1</Name>'
        "<Description>alpha 1</Description><CurrentID>0</CurrentID><Chromosome>8</Chromosome>"
        "<MapLocation>8p21.2</MapLocation><OtherAliases>A, B</OtherAliases><Summary>s</Summary><Organism>"
        "<ScientificName>Homo sapiens</ScientificName><CommonName>human</CommonName></Organism></DocumentSummary>"
        "</DocumentSummarySet></eSummaryResult>"
    )

    assert from_json == from_xml
    assert isinstance(from_json, RecordList)
    assert isinstance(from_json.records[0], GeneRecord)
    assert from_json.records[0].aliases == ("A", "B")


@pytest.mark.parametrize(
    ("body", "is_retracted"),
    [
        ('{"result":{"uids":["7"],"7":{"title":"T","pubtype":["Journal Article","Retracted Publication"]}}}', True),
        ('{"result":{"uids":["7"],"7":{"title":"T","references":[{"reftype":"Retraction in","note":""}]}}}', True),
        ('{"result":{"uids":["7"],"7":{"title":"T","pubtype":["Retraction of Publication"]}}}', False),
        ('{"result":{"uids":["7"],"7":{"title":"T","references":[{"reftype":"Retraction of"},"x"]}}}', False),
        ('{"result":{"uids":["7"],"7":{"title":"T","references":"","pubtype":null}}}', False),
        (
            '<eSummaryResult><DocumentSummary uid="7"><Title>T</Title><PubTypeList><PubType>Retracted Publication'
            "</PubType></PubTypeList></DocumentSummary></eSummaryResult>",
            True,
        ),
    ],
)
def test_a_retracted_article_is_marked(body: str, is_retracted: bool) -> None:
    """By its publication types or a notice that refers to it; a notice itself is not retracted."""
    parsed = parse_reply(NcbiCall("esummary", "pubmed", {}), RawReply(200, "", body, len(body)))

    assert isinstance(parsed, RecordList)
    assert [getattr(record, "is_retracted", None) for record in parsed.records] == [is_retracted]
    assert ("1. RETRACTED: T;" in condense(parsed, Focus(), max_chars=500).text) is is_retracted


def test_a_cut_summary_keeps_the_whole_records_before_the_cut() -> None:
    """A body cut in its second record yields the first, and says that it was cut."""
    parsed = _parse('{"header":{},"result":{"uids":["1","2"],"1":{"uid":"1","name":"A"},"2":{"uid":"2","na')

    assert isinstance(parsed, RecordList)
    assert parsed.cut
    assert [r.uid for r in parsed.records if isinstance(r, GeneRecord)] == ["1"]


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", NCBI_MALFORMED),
        ("<!DOCTYPE html><html><body>error</body></html>", NCBI_MALFORMED),
        ('{"esearchresult":{"ERROR":"Invalid db name specified: x"}}', NCBI_REPLY_ERROR),
        ('{"error":"API rate limit exceeded"}', NCBI_REPLY_ERROR),
        ('{"header":{},"result":{"uids":["1"],"1":{"na', NCBI_MALFORMED),
        ('{"header":{},"esummaryresult":["NCBI C++ Exception:\n Error: EUTILSAPP"]}', NCBI_REPLY_ERROR),
        ("<eSearchResult><Count>1", NCBI_MALFORMED),
        ("<eSummaryResult><ERROR>Invalid uid X</ERROR></eSummaryResult>", NCBI_REPLY_ERROR),
        ("Supplied+id+parameter+is+empty.", NCBI_REPLY_ERROR),
    ],
)
def test_what_is_no_reply_is_an_error_of_its_kind(body: str, error: Fault) -> None:
    """NCBI's error texts, cut bodies and web pages are never taken for empty results."""
    with pytest.raises(NcbiError, check=error.is_of):
        _parse(body)


def test_a_search_that_waits_or_failed_is_no_blast_result() -> None:
    """A status page is an error that names the status."""
    with pytest.raises(NcbiError, match="WAITING", check=BLAST_FAILED.is_of):
        _parse("<p><!--\nQBlastInfoBegin\n\tStatus=WAITING\nQBlastInfoEnd\n-->", "blast_get", "")


def test_searches_links_and_snps_are_read() -> None:
    """One body of each remaining kind."""
    found = _parse('{"esearchresult":{"count":"47","idlist":["246","9"]}}', "esearch")
    linked = _parse('{"linksets":[{"linksetdbs":[{"links":["1","2"]},{"links":["2"]}]}]}', "elink", "omim")
    snp = _parse('<DocumentSummary uid="5"><CHR>9</CHR><CHRPOS>9:12</CHRPOS></DocumentSummary>', "efetch", "snp")

    assert found == IdList(47, ("246", "9"))
    assert linked == IdList(2, ("1", "2"))
    assert snp == RecordList("snp", (SnpRecord(uid="5", chromosome="9", position="9:12"),))


def test_the_older_xml_summary_is_read_too() -> None:
    """OMIM's XML names its items in an attribute."""
    body = (
        "<eSummaryResult><DocSum><Id>601687</Id><Item Name='Oid' Type='String'>*601687</Item>"
        "<Item Name='Title' Type='String'>KERATIN 12; KRT12</Item><Item Name='Locus' Type='String'>17q21.2</Item>"
        "</DocSum></eSummaryResult>"
    )

    assert _parse(body, db="omim") == RecordList(
        "omim", (OmimRecord(uid="601687", prefix="*", title="KERATIN 12", symbol="KRT12", loci=("17q21.2",)),)
    )


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.exists(), reason="the evaluation data is not beside this checkout")
def test_every_recorded_reply_is_condensed_or_reported_as_its_error() -> None:
    """Of the recorded replies, the web pages, ASN.1 bodies and NCBI's own errors are errors; all others condense."""
    outcomes: Counter[str] = Counter()
    with gzip.open(DATA / "ncbi_replies.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            if "cgi" not in row["url"] or "CMD=Put" in row["url"]:
                continue
            call = call_of(row["url"])
            try:
                parsed = parse_reply(call, RawReply(200, "", row["body"], len(row["body"])))
            except NcbiError as error:
                outcomes[error.fault.kind] += 1
                continue
            condensed = condense(parsed, Focus())
            assert condensed.text.startswith("[")
            assert condensed.text.endswith("]")
            # A single record is whole whatever its length: a gene's summary can be the answer.
            assert len(condensed.text) <= 1250 or condensed.num_records - condensed.num_left_out == 1
            outcomes["condensed"] += 1

    assert outcomes["condensed"] == 1772
    assert outcomes["NcbiMalformed"] == 58


_LONG = 400_000
_HOSTILE = {
    "summaries that do not end": "<eSummaryResult>" + "<DocumentSummary " * (_LONG // 17),
    "nested elements": "<a>" * (_LONG // 7) + "</a>" * (_LONG // 7),
    "nested lists": "[" * (_LONG // 2) + "]" * (_LONG // 2),
    "nested objects": '{"result":' * (_LONG // 12),
    "empty lines": "1. " + "\n" * _LONG,
    "alleles that do not end": json.dumps({"result": {"uids": ["1"], "1": {"docsum": "SEQ=[" * (_LONG // 5)}}}),
    "brackets": "1. A\n" + "[" * _LONG + "\nID: 7",
    "ids": json.dumps({"esearchresult": {"count": "9", "idlist": ["12345"] * (_LONG // 8)}}),
}


@pytest.mark.parametrize("name", sorted(_HOSTILE))
@pytest.mark.parametrize(
    ("endpoint", "db"), [("esummary", "gene"), ("esearch", "gene"), ("efetch", "gene"), ("elink", "snp")]
)
def test_long_replies_of_any_kind_are_read_or_refused_in_little_time(endpoint: Endpoint, db: str, name: str) -> None:
    """Reading takes time in proportion to the length: 0.4 MB took minutes where it grew with its square."""
    began = time.process_time()
    try:
        read = condense(_parse(_HOSTILE[name], endpoint, db), Focus(terms=("BRCA1",)))
        assert len(read.text) <= 1300
    except NcbiError as error:
        assert len(error.message) <= 300

    # A hundred times what it takes: a bound on growth, not a measurement.
    assert time.process_time() - began < 10
