"""Subheadings by name and code, with those below them, as PubMed's search takes them."""

from __future__ import annotations

import pytest

from retrieval.gateway.query.subheadings import subheadings_of


@pytest.mark.parametrize("written", ["dt", "DT", " drug therapy ", "Drug Therapy"])
def test_a_code_is_its_name(written: str) -> None:
    assert subheadings_of(written) == ("drug therapy",)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("tu", {"therapeutic use", "administration & dosage", "adverse effects", "poisoning", "toxicity"}),
        ("prevention and control", {"prevention & control"}),
        ("cytology", {"cytology", "ultrastructure"}),
    ],
)
def test_those_below_are_found_too(written: str, names: set[str]) -> None:
    """At any depth, and each once; a name may have "and" in place of the sign."""
    found = subheadings_of(written)
    assert set(found) == names and len(found) == len(names)


def test_each_is_told_apart_where_only_itself_is_meant() -> None:
    assert subheadings_of("tu", exploded=False) == ("therapeutic use",)


def test_what_is_no_subheading_stays_as_it_is() -> None:
    assert subheadings_of("xq") == ("xq",) and subheadings_of("diet*") == ("diet*",)
