"""BLAST Put, SearchInfo and Get over the real ncbi-blast+, its output read by Biopython, and its failures."""

from __future__ import annotations

import asyncio
import io
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from Bio.Blast import NCBIXML

from retrieval.gateway.blast import BlastService
from retrieval.gateway.blast_render import short_bits, short_evalue
from retrieval.gateway.blast_search import BlastSearcher, clean_sequence
from retrieval.gateway.loader import load_corpus
from retrieval.gateway.records import SequenceSegment
from retrieval.gateway.replies import Reply

needs_blast = pytest.mark.skipif(
    shutil.which("blastn") is None or shutil.which("makeblastdb") is None, reason="ncbi-blast+ is not installed"
)
COMPLEMENT = str.maketrans("ACGT", "TGCA")


@pytest.fixture(scope="module")
def segments() -> Sequence[SequenceSegment]:
    return load_corpus().segments


@pytest.fixture
async def service(tmp_path: Path, segments: Sequence[SequenceSegment]) -> AsyncIterator[BlastService]:
    running = BlastService(BlastSearcher(segments, tmp_path))
    yield running
    await running.aclose()


def _segment(segments: Sequence[SequenceSegment], accession: str) -> SequenceSegment:
    return next(s for s in segments if s.accession == accession)


async def _put(service: BlastService, query: str, **more: str) -> str:
    params = {"CMD": "Put", "PROGRAM": "blastn", "MEGABLAST": "on", "DATABASE": "nt", "QUERY": query, **more}
    page = await service.answer(params)
    match = re.search(r"RID = (\S+)\n\s+RTOE = (\d+)", page.body)
    assert match is not None, page.body
    return match[1]


async def _finished(service: BlastService, rid: str) -> str:
    """The final status page, asked for as a client does."""
    for _ in range(3000):
        page = (await service.answer({"CMD": "Get", "FORMAT_OBJECT": "SearchInfo", "RID": rid})).body
        if "Status=WAITING" not in page:
            return page
        await asyncio.sleep(0.02)
    raise AssertionError("the search did not end")


async def _get(service: BlastService, rid: str, format_type: str) -> Reply:
    return await service.answer({"CMD": "Get", "FORMAT_TYPE": format_type, "RID": rid})


@needs_blast
async def test_a_stretch_with_one_changed_letter_is_found_at_its_place_on_the_record(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """Biopython reads the XML: right record, whole-record coordinates, one mismatch; the Text page agrees."""
    segment = _segment(segments, "NG_029218.1")
    query = segment.sequence[10:110]
    changed = query[:50] + ("A" if query[50] != "A" else "C") + query[51:]
    rid = await _put(service, changed)
    status = await _finished(service, rid)
    assert "Status=READY" in status and "ThereAreHits=yes" in status
    record = NCBIXML.read(io.StringIO((await _get(service, rid, "XML")).body))
    best = next(a for a in record.alignments if a.accession == "NG_029218")
    assert (best.length, best.hsps[0].identities, best.hsps[0].align_length) == (segment.record_length, 99, 100)
    assert (best.hsps[0].sbjct_start, best.hsps[0].sbjct_end) == (segment.start + 10, segment.start + 109)
    text = (await _get(service, rid, "Text")).body
    assert f"Sbjct  {segment.start + 10}" in text and "Identities = 99/100 (99%), Gaps = 0/100 (0%)" in text
    assert text.startswith("<p><!--\nQBlastInfoBegin\n\tStatus=READY\nQBlastInfoEnd\n--><p>\n<PRE>\nBLASTN ")
    assert "\nSequences producing significant alignments:                       (Bits)  Value  Ident\n" in text
    assert "\nALIGNMENTS\n>" in text


@needs_blast
async def test_the_other_strand_is_reported_with_falling_coordinates(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """The reverse complement is found on the minus strand, from the stretch's end to its start."""
    segment = _segment(segments, "NG_029218.1")
    rid = await _put(service, segment.sequence.translate(COMPLEMENT)[::-1])
    await _finished(service, rid)
    record = NCBIXML.read(io.StringIO((await _get(service, rid, "XML")).body))
    hsp = next(a for a in record.alignments if a.accession == "NG_029218").hsps[0]
    assert {hsp.sbjct_start, hsp.sbjct_end} == {segment.start, segment.stop}
    text = (await _get(service, rid, "Text")).body
    assert "Strand=Plus/Minus" in text and f"Sbjct  {segment.stop}" in text


@needs_blast
async def test_text_lines_carry_every_letter_in_order(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """Over several lines the subject's letters are the stretch's and the numbers join without gap or overlap."""
    segment = _segment(segments, "NR_003955.1")
    rid = await _put(service, segment.sequence, MEGABLAST="")
    await _finished(service, rid)
    text = (await _get(service, rid, "Text")).body
    block = text.split(f">{segment.accession}", 1)[1].split(" Score =")[1]
    lines = re.findall(r"Sbjct +(\d+) +(\S+) +(\d+)", block)
    assert "".join(letters for _, letters, _ in lines) == segment.sequence
    assert [int(a) for a, _, _ in lines[1:]] == [int(b) + 1 for _, _, b in lines[:-1]]


@needs_blast
async def test_no_hit_is_said_in_both_formats(service: BlastService) -> None:
    """A sequence that is nowhere: ThereAreHits=no, the known sentence, and XML without hits."""
    rid = await _put(service, "ACGT" * 30)
    assert "ThereAreHits=no" in await _finished(service, rid)
    assert "No significant similarity found." in (await _get(service, rid, "Text")).body
    assert NCBIXML.read(io.StringIO((await _get(service, rid, "XML")).body)).alignments == []


@needs_blast
async def test_the_hit_list_is_limited_and_best_first(
    service: BlastService, segments: Sequence[SequenceSegment]
) -> None:
    """HITLIST_SIZE bounds the records and the scores fall."""
    sequence = _segment(segments, "BX276092.9").sequence
    few, many = await _put(service, sequence, HITLIST_SIZE="2"), await _put(service, sequence, HITLIST_SIZE="50")
    records = []
    for rid in (few, many):
        await _finished(service, rid)
        records.append(NCBIXML.read(io.StringIO((await _get(service, rid, "XML")).body)).alignments)
    assert (len(records[0]), len(records[1]) > 2) == (2, True)
    bits = [alignment.hsps[0].bits for alignment in records[1]]
    assert bits == sorted(bits, reverse=True)


async def test_an_unknown_rid_is_unknown(service: BlastService) -> None:
    """A made-up RID is told so, in NCBI's words."""
    page = (await _get(service, "R_1_0", "XML")).body
    assert "Status=UNKNOWN" in page and "Results for RID R_1_0 not found" in page


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"QUERY": ""}, "Sequence contains no data"),
        ({"QUERY": "rs1217074595"}, "not valid"),
        ({"QUERY": "ACGT; rm -rf /"}, "not valid"),
        ({"QUERY": "ACGT"}, "4 letters"),
        ({"QUERY": "A" * 30_000}, "30000 letters"),
        ({"PROGRAM": "blastp"}, "blastp is not available"),
        ({"DATABASE": "../../etc/passwd"}, "was not found"),
        ({"EXPECT": "1e9"}, "EXPECT"),
        ({"EXPECT": "nan"}, "EXPECT"),
    ],
)
async def test_a_put_that_cannot_run_gets_an_error_and_no_rid(
    service: BlastService, changes: dict[str, str], message: str
) -> None:
    """What is wrong is said, and nothing is started."""
    params = {"CMD": "Put", "PROGRAM": "blastn", "DATABASE": "nt", "QUERY": "ACGT" * 10}
    page = (await service.answer(params | changes)).body
    assert message in page
    assert re.search(r"RID = *\n", page)


async def test_without_blast_installed_the_search_fails_and_says_what_to_install(
    tmp_path: Path, segments: Sequence[SequenceSegment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without ncbi-blast+ a Put ends as FAILED, with the package's name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    service = BlastService(BlastSearcher(segments, tmp_path))
    page = await _finished(service, await _put(service, "ACGT" * 10))
    assert "Status=FAILED" in page and "install ncbi-blast+" in page


def _script(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("blastn", "message"),
    [
        ("exec /bin/sleep 60", "ran longer than 0.5 s"),
        ("echo boom >&2; exit 3", "blastn failed: boom"),
        ("/bin/cat >/dev/null; echo '<broken'", "cannot be read"),
    ],
)
async def test_a_hanging_failing_or_babbling_program_ends_as_failed(
    tmp_path: Path, segments: Sequence[SequenceSegment], monkeypatch: pytest.MonkeyPatch, blastn: str, message: str
) -> None:
    """The time limit, the exit status and the output are all checked, and each failure is told apart."""
    _script(tmp_path, "blastn", blastn)
    _script(tmp_path, "makeblastdb", '/bin/cat >/dev/null; /bin/mkdir -p "$8"; exit 0')
    (tmp_path / "data" / "blast-nt").mkdir(parents=True)
    (tmp_path / "data" / "blast-nt" / "complete").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    service = BlastService(BlastSearcher(segments, tmp_path / "data", timeout_s=0.5))
    page = await _finished(service, await _put(service, "ACGT" * 10))
    assert "Status=FAILED" in page and message in page


async def test_the_queue_is_bounded_and_old_results_are_forgotten(
    tmp_path: Path, segments: Sequence[SequenceSegment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third waiting search is turned away with 429; after its time a RID is unknown."""
    _script(tmp_path, "blastn", "exec /bin/sleep 60")
    _script(tmp_path, "makeblastdb", "exec /bin/sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path))
    now = [0.0]
    service = BlastService(BlastSearcher(segments, tmp_path / "data"), max_waiting=2, ttl_s=100.0, clock=lambda: now[0])
    rids = [await _put(service, "ACGT" * 10) for _ in range(2)]
    refused = await service.answer({"CMD": "Put", "QUERY": "ACGT" * 10})
    assert (refused.status, "too many searches" in refused.body) == (429, True)
    assert "Status=WAITING" in (await _get(service, rids[0], "Text")).body
    now[0] = 101.0
    assert "Status=UNKNOWN" in (await _get(service, rids[0], "Text")).body
    await service.aclose()


def test_fasta_headers_blanks_and_uracil_are_cleaned() -> None:
    """A pasted FASTA entry becomes its letters."""
    assert clean_sequence(">mine\nacgu acgt\n1 acgtn\n") == "ACGTACGTACGTN"


@pytest.mark.parametrize(
    ("evalue", "bits", "shown"),
    [
        ("2.5e-58", "237.49", ("2e-58", "237")),
        ("0", "12000", ("0.0", "1.200e+04")),
        ("0.0312", "44.1", ("0.031", "44.1")),
    ],
)
def test_numbers_are_printed_as_blast_prints_them(evalue: str, bits: str, shown: tuple[str, str]) -> None:
    """Small E values in exponent form, large scores without decimals."""
    assert (short_evalue(evalue), short_bits(bits)) == shown
