"""Greek letters are their names, and hyphens one character, as Entrez has them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ncbi.calls.entrez_spelling import GREEK_LETTERS, entrez_spelling
from retrieval.ncbi.calls.urls import Searched, call_regex, parse_call_url

SEARCH = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene&term="


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("TGF-β1", "TGF-beta1"),
        ("TNF‐α", "TNF-alpha"),
        ("IL‑6", "IL-6"),
        ("IL−6", "IL-6"),
        ("NF-κB", "NF-kappaB"),
        ("Li–Fraumeni", "Li-Fraumeni"),
        ("ΔF508", "DeltaF508"),
        ("µ-opioid, μ-opioid", "mu-opioid, mu-opioid"),
        ("λ ϐ ς", "lambda beta sigma"),
        ("one thing — another", "one thing — another"),
        ("Müller, 10⁻⁶, 5′", "Müller, 10⁻⁶, 5′"),
        ("BRCA1", "BRCA1"),
    ],
)
def test_a_name_is_spelled_as_entrez_spells_it(written: str, spelled: str) -> None:
    """Nothing else of it changes."""
    assert entrez_spelling(written) == spelled
    assert entrez_spelling(spelled) == spelled


@given(st.text(max_size=50))
def test_any_text_can_be_spelled(text: str) -> None:
    """Twice is as once, and no letter of the Greek alphabet is left."""
    spelled = entrez_spelling(text)

    assert entrez_spelling(spelled) == spelled
    assert not set(GREEK_LETTERS.values()) & set(spelled)


@pytest.mark.parametrize("written", ["TGF-β1", "TGF‑β1", "TGF-%CE%B21", "TGF-beta1"])
def test_a_call_is_sent_in_entrezs_spelling(written: str) -> None:
    """All spellings of one search are one call, with one reply in the cache."""
    assert parse_call_url(SEARCH + written).params["term"] == "TGF-beta1"


@pytest.mark.parametrize("whole", [True, False])
def test_the_grammar_lets_a_name_with_greek_letters_be_searched_whole(whole: bool) -> None:
    """Where only words of the question may be searched for, β1 was left to be 1."""
    regex = call_regex(searched=Searched("TGF-β1", "gene", whole=whole))

    assert re.fullmatch(regex, SEARCH + "TGF-beta1")
    assert not re.fullmatch(regex, SEARCH + "TGF+1")
