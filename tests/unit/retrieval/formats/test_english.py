"""Words that a line end breaks are put together, compounds with their hyphen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.formats.english import is_ordinary, join_broken_words, printed_text, words_of
from retrieval.lexical.tokens import index_terms, query_terms


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("interac-\ntions of", "interactions\nof"),
        ("ami-\nodarone", "amiodarone"),
        ("Litera-\nture", "Literature"),
        ("under-\nstanding", "understanding"),
        ("well-\nknown and", "well-known\nand"),
        ("dose-\ndependent", "dose-dependent"),
        ("anti-\nIL-5 too", "anti-IL-5\ntoo"),
        ("COVID-\n19", "COVID-19"),
        ("IFN-γ-\ndependent", "IFN-γ-dependent"),
        ("interferon-\nγ", "interferon-γ"),
        ("p53-\nmediated", "p53-mediated"),
        ("10-\n20 mg", "10-\n20 mg"),
        ("a list -\nof things", "a list -\nof things"),
        ("inter-\nfer-\nence", "interference"),
    ],
)
def test_a_broken_word_is_one_and_a_compound_keeps_its_hyphen(broken: str, whole: str) -> None:
    """A number is never joined to another one."""
    lines = broken.split("\n")
    assert join_broken_words(lines, words_of(lines)) == whole.split("\n")


@pytest.mark.parametrize(
    ("elsewhere", "whole"), [("cutpoint", "cutpoint"), ("cut-point", "cut-point"), ("nothing", "cut-point")]
)
def test_the_document_itself_tells_how_it_writes_a_word(elsewhere: str, whole: str) -> None:
    """Its spelling elsewhere counts before the list of words."""
    lines = [f"The {elsewhere} is it: a cut-", "point."]
    assert join_broken_words(lines, words_of(lines))[0].endswith(f"{whole}.")


def test_the_words_of_a_question_find_what_a_line_end_broke() -> None:
    """Both spellings of a compound too."""
    lines = ["relevant interac-", "tions of warfarin and ami-", "odarone are well-", "known, cardio-", "vascular"]
    terms = set(index_terms("\n".join(join_broken_words(lines, words_of(lines)))))
    assert {*query_terms("interactions warfarin amiodarone cardiovascular wellknown")} <= terms


@given(st.lists(st.text("ab1 -γ", max_size=8), max_size=6))
def test_joining_loses_no_character_but_hyphens_at_line_ends(lines: list[str]) -> None:
    """Digits and letters stay in their order, whatever the lines are."""
    kept = "".join("".join(lines).split()).replace("-", "")
    assert "".join("".join(join_broken_words(lines)).split()).replace("-", "") == kept


def test_the_list_has_words_in_their_forms() -> None:
    """Plurals are listed as singulars."""
    assert is_ordinary("dependent") and is_ordinary("doses")
    assert not is_ordinary("odarone")


def test_printed_text_has_the_letters_of_its_ligatures() -> None:
    """As programs leave them that take text from pages."""
    assert printed_text("scienti\ufb01c litera-\nture of 10-\n20 e\ufb00ects") == (
        "scientific literature\nof 10-\n20 effects"
    )
