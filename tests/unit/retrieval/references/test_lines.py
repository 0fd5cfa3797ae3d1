"""A reference is printed on a plain line from its item alone."""

from __future__ import annotations

from typing import Any

import pytest

from retrieval.references.csl import (
    address_of,
    date_parts,
    doi_of,
    item_of_link,
    person,
    plain_title,
    pmid_of,
    reference_line,
)

DEXAMETHASONE: dict[str, Any] = {
    "id": "pmid:32678530",
    "type": "article-journal",
    "title": "Dexamethasone in Hospitalized Patients with Covid-19",
    "author": [{"literal": "RECOVERY Collaborative Group"}, person("Horby", "Peter"), person("Lim", "Wei Shen")],
    "container-title": "The New England journal of medicine",
    "container-title-short": "N Engl J Med",
    "volume": "384",
    "issue": "8",
    "page": "693-704",
    "issued": {"date-parts": [[2021, 2, 25]]},
    "DOI": "10.1056/NEJMoa2021436",
    "PMID": "32678530",
    "PMCID": "PMC7383595",
    "URL": "https://pubmed.ncbi.nlm.nih.gov/32678530/",
    "note": "a note",
    "ISSN": "0028-4793",
    "language": "eng",
}
CHAPTER: dict[str, Any] = {
    "type": "chapter",
    "title": "BRCA1- and BRCA2-Associated Cancer",
    "author": [person("Petrucelli", "Nancy")],
    "editor": [person("Adam", "Margaret P"), person("Bick", "S")],
    "container-title": "GeneReviews",
    "publisher": "University of Washington",
    "publisher-place": "Seattle (WA)",
    "issued": {"date-parts": [[1998, 9, 4]]},
    "PMID": "20301425",
}


def test_an_article_is_written_as_icmje_has_it() -> None:
    assert reference_line(DEXAMETHASONE) == (
        "RECOVERY Collaborative Group, Horby P, Lim WS. Dexamethasone in Hospitalized Patients with Covid-19. "
        "N Engl J Med. 2021;384(8):693-704. doi:10.1056/NEJMoa2021436. PMID: 32678530. PMCID: PMC7383595."
    )


def test_a_chapter_names_its_book_and_its_editors() -> None:
    assert reference_line(CHAPTER) == (
        "Petrucelli N. BRCA1- and BRCA2-Associated Cancer. In: Adam MP, Bick S, editors. GeneReviews. "
        "Seattle (WA): University of Washington; 1998. PMID: 20301425."
    )


def test_nothing_is_made_up_for_what_is_unknown() -> None:
    assert reference_line({"type": "article-journal", "title": "Sleep", "container-title": "J X"}) == "Sleep. J X."
    assert reference_line({"type": "article-journal", "author": [], "issued": {}}) == "[Untitled]."


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (person("Müller", "Jean-Pierre"), "Müller JP"),
        (person("de la Cruz", "María José"), "de la Cruz MJ"),
        (person("King", "Martin L", "Jr"), "King ML Jr"),
        (person("王", "小明"), "王 小明"),
        (person("Voltaire"), "Voltaire"),
    ],
)
def test_given_names_are_initials(name: Any, shown: str) -> None:
    assert reference_line({"title": "T", "author": [name]}) == f"{shown}. T."


def test_a_question_mark_ends_a_title() -> None:
    assert reference_line({"title": "Does it work?", "container-title": "J"}) == "Does it work? J."


def test_many_authors_end_in_et_al() -> None:
    many = {"title": "T", "author": [person(f"A{at}", "B") for at in range(5_000)]}
    assert reference_line(many) == "A0 B, A1 B, A2 B, A3 B, A4 B, A5 B, et al. T."


def test_an_address_is_printed_where_nothing_else_identifies() -> None:
    page = {"type": "webpage", "title": "Guideline", "URL": "https://example.org/g"}
    assert reference_line(page) == "Guideline. https://example.org/g"
    assert "pubmed.ncbi" not in reference_line(DEXAMETHASONE)


def test_no_field_of_a_record_breaks_the_line() -> None:
    odd = {
        "title": "a\n\u2028b",
        "author": [{}, {"literal": ""}, {"family": "A\nB"}],
        "volume": "\n",
        "DOI": "10.1\n/x",
    }
    assert reference_line(odd) == "A B. a b. doi:10.1 /x."


@pytest.mark.parametrize(
    ("parts", "known"),
    [([2020, 13], (2020,)), ([0], ()), ([], ()), (["2020", "5"], (2020, 5)), ([2020, 5, 32], (2020, 5))],
)
def test_an_impossible_part_of_a_date_ends_it(parts: list[Any], known: tuple[int, ...]) -> None:
    assert date_parts({"issued": {"date-parts": [parts]}}) == known
    assert date_parts({"issued": {}}) == ()


def test_a_link_is_an_item_with_what_its_address_says() -> None:
    linked = item_of_link("Dexamethasone in Covid-19.", "https://pubmed.ncbi.nlm.nih.gov/32678530/")
    assert linked == {
        "id": "pmid:32678530",
        "type": "article-journal",
        "title": "Dexamethasone in Covid-19",
        "URL": "https://pubmed.ncbi.nlm.nih.gov/32678530/",
        "PMID": "32678530",
    }
    assert item_of_link("A gene", "https://www.ncbi.nlm.nih.gov/gene/7157")["type"] == "webpage"
    assert item_of_link("", "") == {"id": "", "type": "webpage"}


def test_identifiers_are_read_from_addresses() -> None:
    assert pmid_of("https://www.ncbi.nlm.nih.gov/pubmed/123") == "123"
    assert pmid_of("https://www.ncbi.nlm.nih.gov/gene/123") == ""
    assert doi_of("https://doi.org/10.1056/NEJMoa2021436") == "10.1056/NEJMoa2021436"
    assert doi_of("doi: 10.1/x") == ""
    assert address_of({"DOI": "10.1056/x", "PMID": "1"}) == "https://doi.org/10.1056/x"
    assert address_of({"PMID": "1"}) == "https://pubmed.ncbi.nlm.nih.gov/1/"
    assert address_of({}) == ""


def test_a_title_loses_its_full_stop_and_no_more() -> None:
    assert plain_title("  A  title. ") == "A title"
    assert plain_title("And so on...") == "And so on..."
