"""References are printed as the styles of journals want them, from the item alone."""

from __future__ import annotations

import concurrent.futures
import random
import warnings
from typing import Any

import pytest

from retrieval.references.csl import (
    STYLES,
    ReferenceStyles,
    address_of,
    date_parts,
    doi_of,
    item_of_link,
    person,
    plain_title,
    pmid_of,
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
EXPECTED = {
    "ieee": "RECOVERY Collaborative Group, P. Horby, and W. S. Lim, “Dexamethasone in Hospitalized Patients with "
    "Covid-19,” N Engl J Med, vol. 384, no. 8, pp. 693–704, Feb. 2021, doi: 10.1056/NEJMoa2021436.",
    "nlm": "RECOVERY Collaborative Group, Horby P, Lim WS. Dexamethasone in Hospitalized Patients with Covid-19. "
    "N Engl J Med. 2021 Feb 25;384(8):693–704. doi:10.1056/NEJMoa2021436 PubMed PMID: 32678530; "
    "PubMed Central PMCID: PMC7383595.",
    "vancouver": "RECOVERY Collaborative Group, Horby P, Lim WS. Dexamethasone in Hospitalized Patients with Covid-19. "
    "N Engl J Med. 2021;384:693–704. doi:10.1056/NEJMoa2021436 PubMed PMID: 32678530; "
    "PubMed Central PMCID: PMC7383595.",
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


@pytest.fixture(scope="module")
def styles() -> ReferenceStyles:
    return ReferenceStyles()


@pytest.mark.parametrize("style", STYLES)
def test_an_article_in_each_style(styles: ReferenceStyles, style: Any) -> None:
    assert styles.text(DEXAMETHASONE, style) == EXPECTED[style]


def test_a_chapter_names_its_book_and_its_editors_once(styles: ReferenceStyles) -> None:
    assert styles.text(CHAPTER, "nlm") == (
        "Petrucelli N. BRCA1- and BRCA2-Associated Cancer. In: Adam MP, Bick S, editors. GeneReviews. "
        "Seattle (WA): University of Washington; 1998. PubMed PMID: 20301425."
    )
    assert styles.text({**CHAPTER, "author": []}, "ieee").count("Adam") == 1


@pytest.mark.parametrize("style", STYLES)
def test_nothing_is_made_up_for_what_is_unknown(styles: ReferenceStyles, style: Any) -> None:
    text = styles.text({"type": "article-journal", "title": "Sleep", "container-title": "J X"}, style)
    assert text in ("“Sleep,” J X.", "Sleep. J X.")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("item", [{}, {"title": ""}, {"type": "article-journal", "author": [], "issued": {}}])
def test_an_item_without_title_is_said_to_have_none(styles: ReferenceStyles, style: Any, item: Any) -> None:
    assert "[Untitled]" in styles.text(item, style)


@pytest.mark.parametrize(
    ("name", "ieee", "nlm"),
    [
        (person("Müller", "Jean-Pierre"), "J.-P. Müller", "Müller JP"),
        (person("Wu", "Yu-chen"), "Y.-C. Wu", "Wu YC"),
        (person("de la Cruz", "María José"), "M. J. de la Cruz", "de la Cruz MJ"),
        (person("King", "Martin L", "Jr"), "M. L. King Jr", "King ML Jr"),
        (person("王", "小明"), "王 小明", "王 小明"),
        (person("Иванов", "Пётр"), "П. Иванов", "Иванов П"),
        (person("Voltaire"), "Voltaire", "Voltaire"),
    ],
)
def test_names_have_the_initials_of_their_style(styles: ReferenceStyles, name: Any, ieee: str, nlm: str) -> None:
    item = {"title": "T", "author": [name], "container-title": "J"}
    assert styles.text(item, "ieee").startswith(f"{ieee}, “T,”")
    assert styles.text(item, "nlm").startswith(f"{nlm}. T.")


def test_a_question_mark_ends_a_title(styles: ReferenceStyles) -> None:
    item = {"title": "Does it work?", "container-title": "J"}
    assert styles.text(item, "ieee") == "“Does it work?” J."
    assert styles.text(item, "nlm") == "Does it work? J."


def test_markup_is_shown_in_text_and_escaped_for_pages(styles: ReferenceStyles) -> None:
    item = {"title": "<script>alert('x')</script> & p<0.05", "container-title": "J <b>"}
    assert "<script>" in styles.text(item, "nlm")
    page = styles.html(item, "nlm")
    assert "<" not in page
    assert "&lt;script&gt;" in page
    assert "p&lt;0.05" in page


def test_thousands_of_authors_end_in_et_al(styles: ReferenceStyles) -> None:
    many = {"title": "T", "author": [person(f"A{at}", "B") for at in range(5_000)]}
    assert styles.text(many, "nlm") == "A0 B, A1 B, A2 B, A3 B, A4 B, A5 B, et al. T."


def test_an_address_is_printed_where_nothing_else_identifies(styles: ReferenceStyles) -> None:
    page = {"type": "webpage", "title": "Guideline", "URL": "https://example.org/g"}
    assert all("https://example.org/g" in styles.text(page, style) for style in STYLES)
    assert "pubmed.ncbi" not in styles.text(DEXAMETHASONE, "nlm")


def test_an_unknown_style_is_refused_with_the_choices(styles: ReferenceStyles) -> None:
    with pytest.raises(ValueError, match="ieee, nlm, vancouver"):
        styles.text(DEXAMETHASONE, "apa")  # type: ignore[arg-type]


def test_no_warning_and_nothing_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for style in STYLES:
            ReferenceStyles().text(DEXAMETHASONE, style)
    assert capfd.readouterr() == ("", "")


def test_styles_are_written_from_many_threads_alike(styles: ReferenceStyles) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda at: styles.text(DEXAMETHASONE, STYLES[at % 3]), range(48)))
    assert texts == [EXPECTED[STYLES[at % 3]] for at in range(48)]


_ODD = [
    "",
    "1-",
    "e1–e5",
    "Suppl 1",
    "10(2)",
    "‘’“”",
    "İ",
    "\u200b",
    "a\nb",
    "²",
    "Ⅳ",
    "１２",
    "-5",
    "12&13",
    "{}",
    "\\",
    "<i>",
]
_DATES: list[list[int]] = [[], [0], [2020, 0], [2020, 13], [2020, 12, 99], [99999], [2020, 5, 31]]


def test_no_odd_field_of_a_record_makes_a_style_fail(styles: ReferenceStyles) -> None:
    chance = random.Random(1)
    fields = ("title", "container-title", "volume", "issue", "page", "number", "publisher", "edition", "DOI", "PMID")
    for _ in range(80):
        item: dict[str, Any] = {name: chance.choice(_ODD) for name in fields if chance.random() < 0.7}
        item["type"] = chance.choice(["article-journal", "chapter", "book", "webpage", "unheard-of"])
        item["author"] = [
            {"family": chance.choice(_ODD), "given": chance.choice(_ODD)},
            {"literal": chance.choice(_ODD)},
            {},
        ]
        item["issued"] = {"date-parts": [chance.choice(_DATES)]}
        for style in STYLES:
            assert styles.text(item, style)


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
