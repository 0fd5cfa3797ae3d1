"""The BLAST URL API over the real ncbi-blast+: results, read by Biopython and by the client; refusals."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from Bio import Blast
from Bio.Blast import NCBIXML
from blast_data import GENE, PROTEIN, coding, finished, get, make_site, needs_blast, put, refusal

from retrieval.formats.records import SequenceSegment
from retrieval.gateway.blast.process import RunLimits
from retrieval.gateway.blast.service import BlastOptions, BlastService, open_blast
from retrieval.gateway.store.open import load_corpus
from retrieval.ncbi.replies.parse_blast import parse_blast

COMPLEMENT = str.maketrans("ACGT", "TGCA")
SLOW = RunLimits(wall_s=120.0, cpu_s=120)


@pytest.fixture(scope="module")
def segments() -> Sequence[SequenceSegment]:
    return load_corpus().segments


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with two databases; the sample's is made here by the first search."""
    folder = tmp_path_factory.mktemp("site")
    if not needs_blast.args[0]:
        make_site(folder)
    return folder


@pytest.fixture
async def service(data_dir: Path, segments: Sequence[SequenceSegment]) -> AsyncIterator[BlastService]:
    running = open_blast(segments, data_dir / "sample-store", BlastOptions(limits=SLOW))
    yield running
    await running.aclose()


def _segment(segments: Sequence[SequenceSegment], accession: str) -> SequenceSegment:
    return next(s for s in segments if s.accession == accession)


async def _record(service: BlastService, rid: str) -> NCBIXML.Record:
    return NCBIXML.read(io.StringIO((await get(service, rid, "XML")).body))


@needs_blast
async def test_a_stretch_with_one_changed_letter_is_found_at_its_place_on_the_record(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """Biopython reads the XML: right record, whole-record coordinates, one mismatch; Text, table and client agree."""
    segment = _segment(segments, "NG_029218.1")
    query = segment.sequence[10:110]
    changed = query[:50] + ("A" if query[50] != "A" else "C") + query[51:]
    rid = await put(service, changed, MEGABLAST="on")
    status = await finished(service, rid)
    assert "Status=READY" in status and "ThereAreHits=yes" in status
    record = await _record(service, rid)
    best = next(a for a in record.alignments if a.accession == "NG_029218")
    assert (best.length, best.hsps[0].identities, best.hsps[0].align_length) == (segment.record_length, 99, 100)
    assert (best.hsps[0].sbjct_start, best.hsps[0].sbjct_end) == (segment.start + 10, segment.start + 109)
    text = (await get(service, rid, "Text")).body
    assert f"Sbjct  {segment.start + 10}" in text and "Identities = 99/100 (99%), Gaps = 0/100 (0%)" in text
    assert text.startswith("<p><!--\nQBlastInfoBegin\n\tStatus=READY\nQBlastInfoEnd\n--><p>\n<PRE>\nBLASTN ")
    listed = next(line for line in text.splitlines() if line.startswith("NG_029218.1 "))
    assert listed[67:70] == ".  " and listed[70:].split()[0].isdigit()
    lines = [line for line in text.splitlines() if line.startswith(("Query  ", "Sbjct  "))]
    columns = [line.index(line.split()[2]) for line in lines]
    assert columns[::2] == columns[1::2]
    table = (await get(service, rid, "Tabular")).body
    assert f"NG_029218.1\t99.000\t100\t1\t0\t1\t100\t{segment.start + 10}\t{segment.start + 109}\t" in table
    assert {hit.accession for hit in parse_blast(text).hits} >= {"NG_029218.1"}


@needs_blast
async def test_the_sample_says_that_it_is_the_sample(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """Every form names what was searched, and the two structured ones agree."""
    query = _segment(segments, "NG_029218.1").sequence
    rid = await put(service, f">a <b> title\n{query}\n>other\n{'ACGT' * 30}", MEGABLAST="on")
    await finished(service, rid)
    assert "<BlastOutput_db>sample</BlastOutput_db>" in (await get(service, rid, "XML")).body
    assert "Database: Arrowhead sample of nucleotide records" in (await get(service, rid, "Text")).body
    assert "# Database: sample\n" in (await get(service, rid, "Tabular")).body
    reports = json.loads((await get(service, rid, "JSON2_S")).body)["BlastOutput2"]
    searches = [report["report"]["results"]["search"] for report in reports]
    assert [search.get("query_title") for search in searches] == ["a <b> title", "other"]
    assert reports[0]["report"]["search_target"] == {"db": "sample"} and searches[1]["hits"] == []
    (record, empty) = list(Blast.parse(io.BytesIO((await get(service, rid, "XML")).content)))
    assert [hit.target.name for hit in record] == [hit["description"][0]["accession"] for hit in searches[0]["hits"]]
    assert record.query.description == "a <b> title" and not len(empty)


@needs_blast
async def test_the_samples_xml2_is_read_by_biopython(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """Same hits as in XML."""
    rid = await put(service, _segment(segments, "NG_029218.1").sequence, MEGABLAST="on")
    await finished(service, rid)
    old, new = [Blast.read(io.BytesIO((await get(service, rid, form)).content)) for form in ("XML", "XML2_S")]
    assert [hit.target.name for hit in new] == [hit.target.name for hit in old] and len(new) == 3
    assert (new[0][0].coordinates == old[0][0].coordinates).all()


@needs_blast
async def test_the_other_strand_is_reported_with_falling_coordinates(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """The reverse complement is found on the minus strand, from the stretch's end to its start."""
    segment = _segment(segments, "NG_029218.1")
    rid = await put(service, segment.sequence.translate(COMPLEMENT)[::-1], MEGABLAST="on")
    await finished(service, rid)
    hsp = next(a for a in (await _record(service, rid)).alignments if a.accession == "NG_029218").hsps[0]
    assert {hsp.sbjct_start, hsp.sbjct_end} == {segment.start, segment.stop}
    text = (await get(service, rid, "Text")).body
    assert "Strand=Plus/Minus" in text and f"Sbjct  {segment.stop}" in text


@needs_blast
async def test_text_lines_carry_every_letter_in_order(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """Over several lines the subject's letters are the stretch's and the numbers join without gap or overlap."""
    segment = _segment(segments, "NR_003955.1")
    rid = await put(service, segment.sequence)
    await finished(service, rid)
    text = (await get(service, rid, "Text")).body
    block = text.split(f">{segment.accession}", 1)[1].split(" Score =")[1]
    lines = re.findall(r"Sbjct +(\d+) +(\S+) +(\d+)", block)
    assert "".join(letters for _, letters, _ in lines) == segment.sequence
    assert [int(a) for a, _, _ in lines[1:]] == [int(b) + 1 for _, _, b in lines[:-1]]


@needs_blast
async def test_the_hit_list_is_limited_and_best_first(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """HITLIST_SIZE bounds the records, at the Put and at the Get, and the scores fall."""
    sequence = _segment(segments, "BX276092.9").sequence
    few, many = await put(service, sequence, HITLIST_SIZE="2"), await put(service, sequence)
    for rid in (few, many):
        await finished(service, rid)
    alignments = (await _record(service, many)).alignments
    assert len((await _record(service, few)).alignments) == 2 < len(alignments)
    bits = [alignment.hsps[0].bits for alignment in alignments]
    assert bits == sorted(bits, reverse=True)
    shorter = await get(service, many, "XML", HITLIST_SIZE="3")
    assert len(NCBIXML.read(io.StringIO(shorter.body)).alignments) == 3


@needs_blast
@pytest.mark.parametrize("database", ["sample", "genes"])
async def test_no_hit_is_said_in_both_formats(service: BlastService, database: str) -> None:
    """A sequence that is nowhere: ThereAreHits=no, NCBI's sentence, and XML without hits."""
    rid = await put(service, "ACGT" * 30, MEGABLAST="on", DATABASE=database)
    assert "ThereAreHits=no" in await finished(service, rid)
    text = (await get(service, rid, "Text")).body
    assert "No significant similarity found." in text and parse_blast(text).hits == ()
    assert (await _record(service, rid)).alignments == []


@needs_blast
async def test_every_form_of_a_site_database_is_blasts_own(service: BlastService) -> None:
    """All of them tell of one hit at one place."""
    rid = await put(service, f">patient <7>\n{GENE[100:300]}", DATABASE="genes", MEGABLAST="on")
    assert "ThereAreHits=yes" in await finished(service, rid)
    pages = {form: await get(service, rid, form) for form in ("XML", "XML2_S", "JSON2_S", "Text", "Tabular", "HTML")}
    old, new = (Blast.read(io.BytesIO(pages[form].content)) for form in ("XML", "XML2_S"))
    assert [record[0].target.name for record in (old, new)] == ["NM_000001"] * 2
    assert old.query.description == "patient <7>" and list(old[0][0].coordinates[0]) == [100, 300]
    assert "<BlastOutput_db>genes</BlastOutput_db>" in pages["XML"].body
    (found,) = json.loads(pages["JSON2_S"].body)["BlastOutput2"][0]["report"]["results"]["search"]["hits"]
    assert found["description"][0]["accession"] == "NM_000001"
    (hit,) = parse_blast(pages["Text"].body).hits
    assert (hit.accession, hit.identities, hit.subject_start, hit.subject_stop) == ("NM_000001.1", 200, 101, 300)
    assert hit.title.startswith("Homo sapiens gene one (ONE)") and f"\nRID: {rid}\n" in pages["Text"].body
    assert "\tNM_000001.1\t100.000\t200\t0\t0\t1\t200\t101\t300\t" in pages["Tabular"].body
    assert "patient &lt;7&gt;" in pages["HTML"].body and pages["HTML"].body.startswith("<!DOCTYPE html>")


@needs_blast
@pytest.mark.parametrize(
    ("program", "database", "query", "accession"),
    [
        ("blastp", "nr", PROTEIN[20:120], "P00001"),
        ("blastp", "proteins", PROTEIN[20:29], "P00001"),
        ("blastx", "swissprot", coding(PROTEIN[:100]), "P00001"),
        ("tblastn", "genes", PROTEIN[10:110], "NM_000003"),
        ("tblastx", "genes", GENE[:300], "NM_000001"),
        ("blastn", "genes", GENE[40:60], "NM_000001"),
        ("megablast", "genes", GENE[40:52], "NM_000001"),
    ],
)
async def test_each_program_finds_what_is_there(
    service: BlastService, program: str, database: str, query: str, accession: str
) -> None:
    """Proteins, translations and short queries: the right record comes first, in XML and for the client."""
    rid = await put(service, query, PROGRAM=program, DATABASE=database)
    assert "ThereAreHits=yes" in await finished(service, rid)
    xml = (await get(service, rid, "XML")).body
    assert NCBIXML.read(io.StringIO(xml)).alignments[0].accession == accession
    forms = [xml, *[(await get(service, rid, form)).body for form in ("Text", "XML2_S", "JSON2_S")]]
    best = [parse_blast(form).hits[0] for form in forms]
    assert best[0].accession.split(".")[0] == accession
    # Every form of a search says the same of it; Text rounds the score.
    assert len({(hit.accession, hit.title, hit.identities, hit.subject_start, hit.subject_stop) for hit in best}) == 1


@needs_blast
async def test_organisms_restrict_the_hits(service: BlastService) -> None:
    """ENTREZ_QUERY by number, by name and with NOT; an organism that is not there is said to be missing."""
    found = {}
    for restriction in ("(none)", "txid9606[ORGN]", "NOT human[orgn]", "all[filter] NOT txid4932[orgn]"):
        rid = await put(service, GENE[:100], DATABASE="genes", ENTREZ_QUERY=restriction)
        found[restriction] = "ThereAreHits=yes" in await finished(service, rid)
    assert list(found.values()) == [True, True, False, True]
    rid = await put(service, GENE[:100], DATABASE="genes", ENTREZ_QUERY="txid4932[ORGN]")
    status = await finished(service, rid)
    assert "Status=FAILED" in status and "no sequence of the organism that ENTREZ_QUERY names" in status


@needs_blast
async def test_a_name_is_looked_up_where_the_service_is_told_to(
    data_dir: Path, segments: Sequence[SequenceSegment]
) -> None:
    """An organism that only the site's taxonomy knows restricts a search; without it the name is refused."""
    names = {"people of the valley": 9606}
    told = open_blast(segments, data_dir / "sample-store", BlastOptions(limits=SLOW), names.get)
    restriction = "people of the valley[orgn]"
    rid = await put(told, GENE[:100], DATABASE="genes", ENTREZ_QUERY=restriction)
    assert "ThereAreHits=yes" in await finished(told, rid)
    await told.aclose()
    untold = open_blast(segments, data_dir / "sample-store", BlastOptions(limits=SLOW))
    call = {"CMD": "Put", "PROGRAM": "blastn", "QUERY": GENE[:100], "DATABASE": "genes", "ENTREZ_QUERY": restriction}
    assert "txid9606[ORGN]" in (await untold.answer(call)).body
    await untold.aclose()


@needs_blast
async def test_two_databases_are_searched_at_once(data_dir: Path, segments: Sequence[SequenceSegment]) -> None:
    """With two workers, each search gets the result of its own database."""
    service = open_blast(segments, data_dir / "sample-store", BlastOptions(workers=2, limits=SLOW))
    rids = [
        await put(service, GENE[:200], DATABASE="genes"),
        await put(service, PROTEIN[:100], PROGRAM="blastp", DATABASE="proteins"),
    ]
    for rid in rids:
        assert "ThereAreHits=yes" in await finished(service, rid)
    assert [(await _record(service, rid)).alignments[0].accession for rid in rids] == ["NM_000001", "P00001"]
    await service.aclose()


@needs_blast
@pytest.mark.parametrize(
    "query", ["N" * 60, "RYKMSWBDHV" * 6, GENE[:60].lower(), f">Query_1 {'x' * 500}\n{GENE[:60]}", "A" * 5000]
)
async def test_odd_but_valid_queries_end_well(service: BlastService, query: str) -> None:
    """Runs of N, IUPAC codes, lower case, long titles and one letter alone: READY, and XML that can be read."""
    rid = await put(service, query, DATABASE="genes")
    assert "Status=READY" in await finished(service, rid)
    await _record(service, rid)


async def test_an_unknown_rid_is_unknown(service: BlastService) -> None:
    """A made-up RID is told so, in NCBI's words."""
    page = (await get(service, "R_1_0", "XML")).body
    assert "Status=UNKNOWN" in page and "Results for RID R_1_0 not found" in page


@needs_blast
async def test_a_deleted_result_is_unknown(service: BlastService) -> None:
    """CMD=Delete forgets it at once."""
    rid = await put(service, GENE[:100], DATABASE="genes")
    await finished(service, rid)
    await service.answer({"CMD": "Delete", "RID": rid})
    assert "Status=UNKNOWN" in (await get(service, rid, "XML")).body


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"QUERY": ""}, "Sequence contains no data"),
        ({"QUERY": PROTEIN}, "Protein FASTA provided for nucleotide sequence"),
        ({"QUERY": "A" * 100_001}, "100001 letters"),
        ({"PROGRAM": "psiblast"}, "psiblast is not one of"),
        ({"PROGRAM": "tblastn", "QUERY": PROTEIN}, "is searched with blastn and megablast alone"),
        ({"DATABASE": "../../etc/passwd"}, "was not found; available here: "),
        ({"DATABASE": "<b>x</b>"}, "&lt;b&gt;x&lt;/b&gt;"),
        ({"EXPECT": "1e9"}, "EXPECT"),
        ({"CMD": "Stop"}, "CMD must be"),
    ],
)
async def test_a_put_that_cannot_run_gets_an_error_and_no_rid(
    service: BlastService, changes: dict[str, str], message: str
) -> None:
    """What is wrong is said, and nothing is started."""
    assert message in await refusal(service, **{"query": "ACGT" * 10} | changes)
