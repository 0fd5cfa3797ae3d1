"""Identifiers and numbers of an answer, found and looked up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.methods.shared.evidence_index import EvidenceIndex, identifiers_in

EVIDENCE = (
    "PSMB10 (human) protein-coding chr16 16q22.1; aliases LMP10, MECL1; id 5699. HLA-DRB1*15:01, rs429358. "
    "NM_002801.4; doses of 10-20 mg/day, 5 µg and 1,234 patients (12.5 %); p = 3 × 10-8. PMID: 12345678. "
    "DOI 10.1000/xyz123. [3 ids: 672,121,99] NCT01234567, V600E, c.35G>A, DOID:1234, https://example.org/a"
)


def found(text: str) -> list[str]:
    return [one.text for one in identifiers_in(text)]


@pytest.mark.parametrize(
    "answer",
    [
        "PSMB10", "psmb10 (PSMB10)", "MECL-1", "id 5699", "chr16", "chromosome 16", "16q22.1", "chr16q22.1",
        "NM_002801", "NM_002801.4", "HLA-DRB1", "rs429358",
        "10 mg/day", "20 mg/day", "5 mcg", "5µg", "1234 patients", "12.5%",
        "12.5 percent", "p=3e-8", "PMID 12345678", "PMID:12345678", "10.1000/xyz123.", "672", "121", "NCT01234567",
        "V600E", "c.35G>A", "DOID:1234", "https://example.org/a",
    ],
)  # fmt: skip
def test_what_was_read_is_supported_in_other_spellings(answer: str) -> None:
    """Case, hyphens, separators and units written otherwise are the same fact."""
    evidence = EvidenceIndex()
    evidence.add(EVIDENCE)

    assert [one.text for one in identifiers_in(answer) if not evidence.has(one)] == []


@pytest.mark.parametrize(
    ("answer", "unsupported"),
    [
        ("TP53", ["TP53"]),
        ("rs429359", ["rs429359"]),
        ("chr17", ["chr17"]),
        ("17q21", ["17q21"]),
        ("5 mg", ["5 mg"]),  # micrograms were read
        ("15 mg/day", ["15 mg/day"]),
        ("p = 0.05", ["p = 0.05"]),
        ("PMID 12345679", ["PMID 12345679"]),
        ("PMID 1234567", ["PMID 1234567"]),  # the beginning of another number
        ("V600K", ["V600K"]),
        ("https://example.org/b", ["https://example.org/b"]),
        ("12,345 patients", ["12,345 patients"]),
    ],
)
def test_what_stands_nowhere_is_not_supported(answer: str, unsupported: list[str]) -> None:
    """A neighbour of a right value is not right."""
    evidence = EvidenceIndex()
    evidence.add(EVIDENCE)

    assert [one.text for one in identifiers_in(answer) if not evidence.has(one)] == unsupported


@pytest.mark.parametrize(
    "text",
    ["three of 10 people", "1. first\n2. second", "as shown [12], [3, 14]", "type III and type IV",
     "DNA and RNA by PCR", "YES", "no identifiers in plain words", ""],
)  # fmt: skip
def test_ordinary_text_has_none(text: str) -> None:
    """Small counts, list markers, citation markers and everyday abbreviations."""
    assert found(text) == []


@given(st.text(alphabet="0123456789,.-–×^eExXp=<> %mgµACGTrs[]()chr:/½²٣\n", max_size=60))
def test_any_text_supports_itself_without_an_error(text: str) -> None:
    """What stands in the evidence word for word is never marked."""
    evidence = EvidenceIndex()
    evidence.add(text)

    for one in identifiers_in(text):
        if one.kind != "position":
            assert evidence.has(one), one


def test_a_long_row_of_one_sign_takes_no_time_of_its_own() -> None:
    """Patterns match in linear time: each of these would take hours otherwise."""
    for text in ("A" * 100_000, "1," * 50_000, "[1," * 30_000, "p" + " " * 50_000, "1" * 50_000, "A-" * 50_000):
        list(identifiers_in(text))


@pytest.mark.parametrize("answer", ["5 × 10^6 cells", "p = 3 × 10^-8"])
def test_a_power_in_the_evidence_supports_the_power(answer: str) -> None:
    """Raised, as readers write it, or typed."""
    evidence = EvidenceIndex()
    evidence.add("They gave 5 × 10⁶ cells (p = 3 × 10⁻⁸).")
    assert all(evidence.has(one) for one in identifiers_in(answer))


def test_a_power_does_not_support_the_number_of_its_digits() -> None:
    """10⁶ is no 106."""
    evidence = EvidenceIndex()
    evidence.add("They gave 10⁶ cells.")
    assert [one.text for one in identifiers_in("They gave 106 cells.") if not evidence.has(one)] == ["106"]
