"""Identifiers of texts, and where they stand."""

from __future__ import annotations

import pytest

from server.methods.shared.identifiers import IdentifierIndex, identifiers_in

EVIDENCE = (
    "PSMB10 (human) protein-coding chr16 16q22.1; aliases LMP10, MECL1; id 5699. HLA-DRB1*15:01, rs429358. "
    "NM_002801.4; PMID: 12345678. DOI 10.1000/xyz123. NCT01234567, V600E, c.35G>A, DOID:1234, https://example.org/a "
    "Mcm2 binds Ctf4"
)


@pytest.mark.parametrize(
    "answer",
    [
        "PSMB10", "psmb10 (PSMB10)", "MECL-1", "id 5699", "Gene ID: 5699", "chr16", "chromosome 16",
        "Chromosom 16", "16q22.1",
        "16q22", "chr16q22.1", "NM_002801", "NM_002801.4", "HLA-DRB1", "rs429358", "PMID 12345678", "10.1000/xyz123.",
        "NCT01234567", "V600E", "c.35G>A", "DOID:1234", "https://example.org/a", "Mcm2-Ctf4",
    ],
)  # fmt: skip
def test_what_was_read_is_there_in_other_spellings(answer: str) -> None:
    """Case, hyphens, versions and prefixes do not make another identifier."""
    index = IdentifierIndex(EVIDENCE)

    assert [one.text for one in identifiers_in(answer) if not index.has(one)] == []


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("TP53", "TP53"), ("rs429359", "rs429359"), ("chr17", "chr17"), ("17q21", "17q21"),
        ("PMID 12345679", "PMID 12345679"),
        ("PMID 1234567", "PMID 1234567"), ("V600K", "V600K"), ("id 5698", "5698"),
        ("https://example.org/b", "https://example.org/b"),
        ("doi 10.1016/j.joms.2019.01.001", "10.1016/j.joms.2019.01.001"), ("16q22.2", "16q22.2"),
    ],
)  # fmt: skip
def test_a_neighbour_of_an_identifier_is_another(answer: str, missing: str) -> None:
    """One digit makes another record."""
    index = IdentifierIndex(EVIDENCE)

    assert [one.text for one in identifiers_in(answer) if not index.has(one)] == [missing]


def test_markup_and_parentheses_are_no_part_of_a_variant() -> None:
    """Signs around a variant are left out, those of a stop or of a prediction stay."""
    texts = ["**m.3243A>G**", "(m.3243A>G)", "p.Arg97*", "p.(Arg97Gly)"]

    assert [[one.text for one in identifiers_in(text)] for text in texts] == [
        ["m.3243A>G"],
        ["m.3243A>G"],
        ["p.Arg97*"],
        ["p.(Arg97Gly)"],
    ]
