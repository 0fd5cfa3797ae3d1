"""Places, strand and titles of hits, the same from every form of a result."""

from __future__ import annotations

import json

import pytest

from models.errors import Fault
from retrieval.errors import BLAST_FAILED, NCBI_MALFORMED, NcbiError
from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.parse_blast import parse_blast
from retrieval.types import Focus

TITLE = "Homo sapiens chromosome 15, GRCh38.p14 Primary Assembly"
TEXT = f"""BLASTN 2.15.0+
Query= unnamed

Length=30
Sequences producing significant alignments:

>NC_000015.10 {TITLE}
Length=101991189

 Score = 55.4 bits (30),  Expect = 0.001
 Identities = 30/30 (100%), Gaps = 0/30 (0%)
 Strand=Plus/Minus

Query  1         ATGCGTCGAGGGCGTCTGCTGGAGATCGCC  30
Sbjct  48408342  ATGCGTCGAGGGCGTCTGCTGGAGATCGCC  48408313
"""


def xml(start: int, stop: int, frame: int, *, program: str = "blastn", length: int = 30, title: str = TITLE) -> str:
    return (
        f"<?xml version='1.0'?><BlastOutput><BlastOutput_program>{program}</BlastOutput_program>"
        f"<BlastOutput_query-len>{length}</BlastOutput_query-len><BlastOutput_iterations><Iteration><Iteration_hits><Hit>"
        f"<Hit_id>ref|NC_000015.10|</Hit_id><Hit_def>{title}</Hit_def><Hit_accession>NC_000015</Hit_accession><Hit_hsps>"
        f"<Hsp><Hsp_bit-score>55.4</Hsp_bit-score><Hsp_evalue>0.001</Hsp_evalue><Hsp_hit-from>{start}</Hsp_hit-from>"
        f"<Hsp_hit-to>{stop}</Hsp_hit-to><Hsp_hit-frame>{frame}</Hsp_hit-frame><Hsp_identity>30</Hsp_identity>"
        "<Hsp_align-len>30</Hsp_align-len></Hsp></Hit_hsps></Hit></Iteration_hits></Iteration></BlastOutput_iterations>"
        "</BlastOutput>"
    )


def xml2(start: int, stop: int, strand: str) -> str:
    return (
        '<?xml version="1.0"?><BlastOutput2 xmlns="http://www.ncbi.nlm.nih.gov"><report><Report><program>blastn</program>'
        "<results><Results><search><Search><query-len>30</query-len><hits><Hit><description><HitDescr>"
        f"<id>ref|NC_000015.10|</id><accession>NC_000015</accession><title>{TITLE}</title></HitDescr></description><hsps>"
        f"<Hsp><bit-score>55.4</bit-score><evalue>0.001</evalue><identity>30</identity><hit-from>{start}</hit-from>"
        f"<hit-to>{stop}</hit-to><hit-strand>{strand}</hit-strand><align-len>30</align-len></Hsp></hsps></Hit></hits>"
        "</Search></search></Results></results></Report></report></BlastOutput2>"
    )


def json2(start: int, stop: int, strand: str) -> str:
    hsp = {"bit_score": 55.4, "evalue": 0.001, "identity": 30, "hit_from": start, "hit_to": stop, "hit_strand": strand,
           "align_len": 30}  # fmt: skip
    described = [{"id": "ref|NC_000015.10|", "accession": "NC_000015", "title": TITLE}]
    search = {"query_len": 30, "hits": [{"description": described, "hsps": [hsp]}]}
    return json.dumps({"BlastOutput2": [{"report": {"program": "blastn", "results": {"search": search}}}]})


def test_a_hit_on_the_minus_strand_is_the_same_in_every_form() -> None:
    """Its first position is the greater one, its accession has the version."""
    forms = (TEXT, xml(48408342, 48408313, -1), xml2(48408342, 48408313, "Minus"), json2(48408342, 48408313, "Minus"))
    results = {parse_blast(form) for form in forms}

    assert len(results) == 1
    (hit,) = results.pop().hits
    assert (hit.accession, hit.title) == ("NC_000015.10", TITLE)
    assert (hit.subject_start, hit.subject_stop) == (48408342, 48408313)


@pytest.mark.parametrize(
    ("start", "stop", "frame", "places"),
    [(48408313, 48408342, 1, (48408313, 48408342)), (48408313, 48408342, -2, (48408342, 48408313))],
)
def test_a_translated_subject_has_the_places_of_its_nucleotides(
    start: int, stop: int, frame: int, places: tuple[int, int]
) -> None:
    """tblastn's XML has the low position first on both strands; the frame tells the strand."""
    (hit,) = parse_blast(xml(start, stop, frame, program="tblastn", length=10)).hits

    assert (hit.subject_start, hit.subject_stop) == places


@pytest.mark.parametrize("form", [TEXT, xml(48408342, 48408313, -1), xml(48408313, 48408342, 1)])
def test_the_place_on_the_genome_is_shown_from_text_and_xml(form: str) -> None:
    """Only the accession with its version says which assembly a position is of."""
    text = condense(parse_blast(form), Focus(places=True)).text

    assert text.startswith("[1 blast hit\n1. chr15:48408313-48408342 human\n- NC_000015.10 ")


@pytest.mark.parametrize(("program", "length"), [("blastx", 30), ("tblastx", 30), ("tblastn", 90), ("blastp", 90)])
def test_the_length_of_a_translated_query_is_in_amino_acids(program: str, length: int) -> None:
    """As the identities of its alignments are: 30 of 30, not 30 of 90."""
    assert parse_blast(xml(1, 90, 1, program=program, length=90)).query_length == length


def test_further_records_of_a_sequence_keep_their_titles() -> None:
    """A gene's symbol may stand in the title of the second record alone, in XML and in Text."""
    first, second = "Homo sapiens clone A", "Homo sapiens fibrillin 1 (FBN1), mRNA"
    in_xml = xml(1, 30, 1, title=f"{first} &gt;gi|5|ref|NM_000138.5| {second}")
    in_text = TEXT.replace(TITLE, f"{first}\n NM_000138.5 {second}")

    for body in (in_xml, in_text):
        result = parse_blast(body)
        assert (result.hits[0].title, result.hits[0].other_titles) == (first, (second,))
        assert " gene FBN1\n- " in condense(result, Focus()).text


@pytest.mark.parametrize(
    ("identifier", "title", "accession"),
    [
        ("gi|568815583|ref|NC_000015.10|", "T", "NC_000015.10"),
        ("gb|CP034493.1|", "T", "CP034493.1"),
        ("pdb|4HHB|A", "T", "4HHB_A"),
        ("sp|P68871.2|HBB_HUMAN", "T", "P68871.2"),
        ("pir||A27217", "T", "A27217"),
        ("NC_000015.10", "T", "NC_000015.10"),
        ("gnl|BL_ORD_ID|0", "NC_000015.10 T", "NC_000015.10"),
        ("gnl|CDD|238404", "T", "CDD:238404"),
    ],
)
def test_the_accession_is_read_from_the_identifier(identifier: str, title: str, accession: str) -> None:
    """Of a sequence that its database has no identifier for, it is the first word of the title."""
    body = xml(1, 30, 1, title=title).replace("ref|NC_000015.10|", identifier)

    (hit,) = parse_blast(body).hits
    assert (hit.accession, hit.title) == (accession, "T")


def test_a_reply_that_is_cut_off_keeps_its_whole_hits() -> None:
    """In XML; without a whole hit it is malformed."""
    whole = xml(1, 30, 1)

    cut = whole[: whole.index("</Hit>") + len("</Hit>")] + "<Hit><Hit_id>ref|X.1|</Hit_id><Hit_de"
    assert parse_blast(cut) == parse_blast(whole)
    with pytest.raises(NcbiError, check=NCBI_MALFORMED.is_of):
        parse_blast(whole[: whole.index("</Hit>")])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("Status=WAITING", BLAST_FAILED),
        ("nothing", NCBI_MALFORMED),
        ("<?xml version='1.0'?><eSearchResult/>", NCBI_MALFORMED),
        ('{"BlastOutput2":', NCBI_MALFORMED),
        ('{"result":{}}', NCBI_MALFORMED),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><BlastOutput/>", NCBI_MALFORMED),
    ],
)
def test_what_is_no_result_is_an_error(body: str, error: Fault) -> None:
    """Never an empty result."""
    with pytest.raises(NcbiError, check=error.is_of):
        parse_blast(body)
