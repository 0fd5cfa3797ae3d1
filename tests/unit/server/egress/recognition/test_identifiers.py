"""Which numbers and accessions are identifiers, of which database, and how many a call may have."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

from server.egress.recognition.terms import MAX_IDS, NUMBERS, NotRecognized, in_range, is_identifier, recognize_ids

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[6] / "shared" / "data"))
RECORDED = {
    "snp": ("ncbi/ncbi_replies.jsonl.gz", r"\brs([1-9][0-9]{2,9})\b"),
    "pubmed": ("qa/bioasq/corpus.jsonl.gz", r'"pmid": *"?([0-9]+)'),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("db", RECORDED)
def test_all_recorded_numbers_are_in_range(db: str) -> None:
    """NCBI publishes no table of its highest numbers: those seen are what the estimates can be held against."""
    name, pattern = RECORDED[db]
    if not (DATA / name).is_file():
        pytest.skip(f"no {DATA / name}")
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        found = {number for line in lines for number in re.findall(pattern, line)}

    assert len(found) > 20
    assert [number for number in found if not in_range(db, number)] == []


@pytest.mark.parametrize("db", NUMBERS)
def test_a_range_ends_at_its_bounds(db: str) -> None:
    """The first and last number of each span are in it, their neighbours outside are not."""
    for first, last in NUMBERS[db]:
        assert in_range(db, str(first)) and in_range(db, str(last))
        outside = [number for number in (first - 1, last + 1) if number > 0]
        assert not [number for number in outside if in_range(db, str(number))]


@pytest.mark.parametrize(
    "text", ["0", "007", "+7", "-7", "7.0", " 7", "7 ", "", "٧", "７", "1e3", "0x7", "7_0", "99999999999"]
)
def test_only_canonical_decimals_are_numbers(text: str) -> None:
    """Anything else carries something in its form."""
    assert not in_range("gene", text)


@pytest.mark.parametrize(
    ("db", "ids"),
    [
        ("gene", "672"),
        ("gene", "672,675,7157"),
        ("snp", "334,429358"),
        ("omim", "154700,134797"),
        ("pubmed", "7545954"),
        ("nuccore", "NM_000059.4"),
        ("nuccore", "NC_000017.11,NM_001407571.1"),
        ("protein", "NP_000050.3"),
        ("clinvar", "17661"),
        ("clinvar", "VCV000017661"),
        ("taxonomy", "9606"),
        ("medgen", "44287"),
        ("pmc", "13901"),
    ],
)
def test_ids_of_a_database_are_recognized(db: str, ids: str) -> None:
    """As they are, of the class id."""
    found = recognize_ids(db, ids)

    assert found.text == ids and found.classes == {"id"}


@pytest.mark.parametrize(
    ("db", "ids", "what"),
    [
        ("gene", ",".join(str(one) for one in range(1, MAX_IDS + 2)), "more than 10 ids"),
        ("gene", "672,672", "occurs twice"),
        ("gene", "672,JOHN", "none that gene has"),
        ("gene", "NM_000059.4", "none that gene has"),
        ("nuccore", "672", "none that nuccore has"),
        ("nuccore", "NP_000050.3", "none that nuccore has"),
        ("john", "672", "none that john has"),
    ],
)
def test_a_list_is_judged_as_a_whole(db: str, ids: str, what: str) -> None:
    """One item that is none, a repetition or one too many keep all of it; the ids are not repeated."""
    with pytest.raises(NotRecognized) as caught:
        recognize_ids(db, ids)

    assert what in caught.value.refused.text and "JOHN" not in caught.value.refused.text


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("rs334", ""),
        ("rs334", "snp"),
        ("334", "snp"),
        ("ENSG00000012048", ""),
        ("ENSMUSG00000017146", ""),
        ("NM_000059.4", ""),
        ("NM_000059.4", "accession"),
        ("txid9606", "taxonomy"),
        ("PMC7095418", "pmc"),
        ("VCV000017661.2", ""),
        ("154700", "omim"),
    ],
)
def test_words_of_a_search_can_be_identifiers(word: str, kind: str) -> None:
    """With the prefix of their kind, or bare in the field of their kind."""
    assert is_identifier(word, kind)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("334", ""),
        ("rs0334", ""),
        ("RS334", ""),
        ("rs9999999999", ""),
        ("ENSG99999999999", ""),
        ("ENSG000000120481", ""),
        ("NM_000059", ""),
        ("txid09606", "taxonomy"),
        ("JS120354.1", ""),
        ("rs334", "gene"),
        ("", ""),
        ("HGNC:1100", ""),
    ],
)
def test_what_only_resembles_an_identifier_is_none(word: str, kind: str) -> None:
    """A bare number without a field, another prefix, too many digits, no version."""
    assert not is_identifier(word, kind)
