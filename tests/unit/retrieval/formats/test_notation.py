"""Powers, indices and fractions as plain text: no number is changed by reading it."""

from __future__ import annotations

import re
import string
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.formats.notation import plain, text_of, without_marks
from retrieval.formats.pmc_jats import plain_text
from retrieval.formats.pubmed_xml import article_of
from retrieval.gateway.citations.pubmed_citation import citation_of

PIECES = st.text("0123456789 ab.,+-−(e", min_size=1, max_size=5)
FRAGMENTS = st.lists(st.tuples(st.sampled_from(("", "sup", "sub", "i")), PIECES), min_size=1, max_size=6)
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", string.digits)
LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", string.digits)


def _text(fragment: str) -> str:
    return text_of(ElementTree.fromstring(f"<a>{fragment}</a>"))


def _numbers_marked_up(fragment: list[tuple[str, str]]) -> list[str]:
    """Return the runs of digits, which end where something raised or lowered begins or ends."""
    text = "".join(f"|{inner}|" if tag.startswith("s") else inner for tag, inner in fragment)
    return re.findall("[0-9]+", text)


def _numbers_read(text: str) -> list[str]:
    for group, table in (("[⁰¹²³⁴⁵⁶⁷⁸⁹]+", RAISED), ("[₀₁₂₃₄₅₆₇₈₉]+", LOWERED)):
        text = re.sub(group, lambda found, table=table: f" {found[0].translate(table)} ", text)  # type: ignore[misc]
    return re.findall("[0-9]+", text)


@given(FRAGMENTS)
def test_no_number_is_changed_by_reading(fragment: list[tuple[str, str]]) -> None:
    """Digits that markup keeps apart never meet, none is lost, none changes its place; in every reader of XML."""
    xml = "".join(f"<{tag}>{inner}</{tag}>" if tag else inner for tag, inner in fragment)
    record = (
        "<PubmedArticle><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>T</ArticleTitle>"
        f"<Abstract><AbstractText>{xml}</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>"
    )
    sections = citation_of(ElementTree.fromstring(record)).abstract
    for text in (
        _text(xml),
        plain_text(ElementTree.fromstring(f"<p>{xml}</p>")),
        article_of(record).abstract,
        " ".join(words for _, words in sections),
    ):
        assert _numbers_read(text) == _numbers_marked_up(fragment)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("5 × 10<sup>6</sup> cells", "5 × 10⁶ cells"),
        ("10<sup>-3</sup> M, 10<sup>−8</sup>, 10<sup>–9</sup>", "10⁻³ M, 10⁻⁸, 10⁻⁹"),
        ("10<sup>−</sup><sup>3</sup>", "10⁻³"),
        ("10<sup>6 </sup>cells", "10⁶ cells"),
        ("10<sup><i>x</i></sup>, 10<sup>6.5</sup>", "10^(x), 10^(6.5)"),
        ("10<sup>2<sup>3</sup></sup>", "10^(2³)"),
        ("m<sup>2</sup>, mL<sup>-1</sup>, R<sup>2</sup>", "m², mL⁻¹, R²"),
        ("CO<sub>2</sub>, H<sub>2</sub>O, V<sub>max</sub>, HbA<sub>1c</sub>", "CO2, H2O, Vmax, HbA1c"),
        ("t<sub>1/2</sub>, AUC<sub>0–24</sub>, x<sub>i+1</sub>", "t1/2, AUC0–24, x_(i+1)"),
        ("Ca<sup>2+</sup>, Cl<sup>−</sup>, CD4<sup>+</sup>", "Ca2+, Cl−, CD4+"),
        ("<sup>131</sup>I, [<sup>18</sup>F]FDG, <sup>99m</sup>Tc", "131I, [18F]FDG, 99mTc"),
        ("dose of 5.<sup>18</sup>F", "dose of 5.¹⁸F"),
        ("SO<sub>4</sub><sup>2−</sup>", "SO4²⁻"),
        ("log<sub>2</sub>5", "log₂5"),
        ("2e<sub>5</sub>", "2e₅"),
        ("4<sup>th</sup>, 37<sup>°</sup>C, p53<sup>−/−</sup>", "4th, 37°C, p53−/−"),
        ("Kras<sup>G12D</sup>, mice<sup>1,2</sup>", "Kras^(G12D), mice^(1,2)"),
        ('<hi rend="superscript">18</hi>F', "18F"),
    ],
)
def test_what_is_raised_or_lowered_has_one_form(markup: str, text: str) -> None:
    """Unicode's characters, else brackets; isotopes, charges and formulas as chemists write them on one line."""
    assert _text(markup) == text


@pytest.mark.parametrize("text", ["no mark", "", "10^6"])
def test_a_text_without_marks_is_unchanged(text: str) -> None:
    assert plain(text) == text


def test_marks_that_a_text_brings_with_it_mean_nothing() -> None:
    """Control characters of a text from elsewhere raise nothing."""
    assert without_marks("10\x016\x03") == "106"
    assert plain("10\x016") == "106"
