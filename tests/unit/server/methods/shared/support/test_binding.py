"""Values that prose binds to names."""

from __future__ import annotations

import pytest

from server.methods.base import Source
from server.methods.shared.support.binding import Value, cut_at
from server.methods.shared.support.correspondence import Evidence
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.sources import stems_of
from server.methods.shared.support.units import Units

READER = QuantityReader(Units())
ENZYMES = Source(
    "Tarvase beta is infused at 1 mg/kg every two weeks, tarvase alfa at 0.2 mg/kg every two weeks.", 1, "Tarvase"
)
ARMS = Source(
    "Caries was arrested in 67 percent with fluoride silver once a year, 76 percent with it twice a year and "
    "28 percent with varnish.",
    2,
)
GENES = Source("Orla disease is due to a transporter of 1q3, Wenn disease to one of 2p21.", 3)
STEPS = Source("Mild signs begin at about 20 mg/kg of theobromine, seizures at about 60 mg/kg.", 4)
UNLIKE = Source(
    "Prophylaxis is 2 g of oral amoxicillin. People allergic to it take azithromycin 500 mg; others are not advised.", 5
)
FIRST = Source("Articaine is an anaesthetic. Its maximum dose is 7 mg/kg.", 6, "Articaine")
SECOND = Source("Lidocaine is an anaesthetic. Its maximum dose is 4.4 mg/kg.", 7, "Lidocaine in dentistry")

BRAND = Source("The pill MAVYRE holds two drugs. Chronic hepatitis C virus (HCV) infection is treated with it.", 8)


def kinds(sentence: str, *sources: Source, question: str = "") -> list[str]:
    return [one.kind for one in Evidence(sources, question, READER).check(sentence).mismatches]


@pytest.mark.parametrize(
    ("sentence", "sources"),
    [
        ("Tarvase alfa is infused at 1 mg/kg every two weeks [1].", [ENZYMES]),
        ("Varnish arrested 76 percent and silver fluoride 28 percent [2].", [ARMS]),
        ("Orla disease lies at 2p21 and Wenn disease at 1q3 [3].", [GENES]),
        ("Seizures begin at about 20 mg/kg [4].", [STEPS]),
        ("Azithromycin 2 g is given to people allergic to penicillin [5].", [UNLIKE]),
    ],
)
def test_the_value_of_another_name_is_noticed(sentence: str, sources: list[Source]) -> None:
    """Both names and the value are there, but the sources put the value beside the other name."""
    assert set(kinds(sentence, *sources)) == {"record"}


@pytest.mark.parametrize(
    ("sentence", "sources"),
    [
        ("Tarvase alfa wird mit 0,2 mg/kg alle 14 Tage infundiert [1].", [ENZYMES]),
        ("The dose of tarvase beta is 1 mg/kg every two weeks [1].", [ENZYMES]),
        ("67% were arrested with yearly and 76% with twice-yearly use, versus 28% with varnish [2].", [ARMS]),
        ("It arrested 48 percentage points more than varnish (76% vs 28%) [2].", [ARMS]),
        ("Orla disease (1q3) is not Wenn disease (2p21) [3].", [GENES]),
        ("Mild signs are seen from 20 mg/kg, while seizures appear near 60 mg/kg [4].", [STEPS]),
        ("Those allergic to penicillin get 500 mg of azithromycin, others 2 g of amoxicillin [5].", [UNLIKE]),
        ("MAVYRE pills treat hepatitis C virus infection [8].", [BRAND]),
        ("Articaine may be given up to 7 mg/kg and lidocaine up to 4.4 mg/kg [6, 7].", [FIRST, SECOND]),
    ],
)
def test_values_of_their_own_names_pass(sentence: str, sources: list[Source]) -> None:
    """Other words, other orders and other languages for the same."""
    assert kinds(sentence, *sources) == []


def test_a_bare_value_belongs_to_what_was_asked() -> None:
    """An answer of a value alone is about the question's name."""
    question = "What is the dose of tarvase alfa?"

    assert kinds("1 mg/kg every two weeks [1].", ENZYMES, question=question) == ["record"]
    assert kinds("0.2 mg/kg every two weeks [1].", ENZYMES, question=question) == []
    assert kinds("1 mg/kg is for tarvase beta [1].", ENZYMES, question=question) == []


def test_what_is_computed_from_a_value_does_not_bind_it() -> None:
    """The dose of one name covers so many units of the other: both values belong there."""
    source = Source("At least 500 IU are given after birth. 125 IU cover 1 mL of red cells.", 10)

    assert kinds("500 IU cover 4 mL of red cells, at 125 IU per mL [10].", source) == []


def clauses(text: str) -> list[frozenset[str]]:
    values: list[Value] = [one for one in READER.read(text) if one.dimension]
    return [stems_of(text[clause.start : clause.end]) for clause in cut_at(text, (0, len(text)), values)]


def test_a_sentence_is_cut_between_its_values() -> None:
    """The sign between two values ends the first one's clause."""
    assert clauses("Beta is infused at 1 mg/kg, alfa at 0.2 mg/kg") == [
        stems_of("Beta is infused at 1 mg/kg"),
        stems_of("alfa at 0.2 mg/kg"),
    ]


def test_values_side_by_side_share_their_words() -> None:
    """A pair has no words between its values that could tell them apart."""
    assert len(clauses("fewer recurrences (4.2% vs 26.6%)")) == 1


def test_semicolons_end_the_outer_clauses() -> None:
    """What stands behind a semicolon belongs to no value before it."""
    assert clauses("take azithromycin 500 mg; clindamycin is not recommended") == [stems_of("take azithromycin 500 mg")]


def test_the_name_before_a_value_in_parentheses_belongs_to_it() -> None:
    """Of several signs between two values, the last one with words behind it parts them."""
    assert clauses("beta (1 mg), alfa (2 mg)") == [stems_of("beta 1 mg"), stems_of("alfa 2 mg")]


def test_a_word_of_both_sources_does_not_tell_them_apart() -> None:
    """The title of the other source is about children, but the cited one speaks of them too."""
    sources = (
        Source("Children below 20 kg receive 3 mg/kg.", 1, "Orla fever"),
        Source("A dose of 80 mg/kg is given, at most 4 kg. Children receive it twice.", 2, "Wennamine in children"),
    )
    assert Evidence(sources, "", READER).check("Children < 20 kg get 3 mg/kg [1].").mismatches == ()
