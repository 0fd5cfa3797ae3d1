"""Values that prose binds to names."""

from __future__ import annotations

import pytest

from server.methods.base import Source
from server.methods.shared.support.correspondence import Evidence
from server.methods.shared.support.quantities import QuantityReader
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
GENES = Source("In Orla disease the transporter ABX7A is defective, in Wenn disease ABX7B.", 3)
STEPS = Source("Mild signs begin at about 20 mg/kg of theobromine, seizures at about 60 mg/kg.", 4)
UNLIKE = Source(
    "Prophylaxis is 2 g of oral amoxicillin. People allergic to it take azithromycin 500 mg; others are not advised.", 5
)
FIRST = Source("Articaine is an anaesthetic. Its maximum dose is 7 mg/kg.", 6, "Articaine")
SECOND = Source("Lidocaine is an anaesthetic. Its maximum dose is 4.4 mg/kg.", 7, "Lidocaine in dentistry")

BRAND = Source("The pill MAVYRE holds two drugs. Chronic hepatitis C virus (HCV) infection is treated with it.", 8)


def kinds(sentence: str, *sources: Source) -> list[str]:
    return [one.kind for one in Evidence(sources, "", READER).check(sentence).mismatches]


@pytest.mark.parametrize(
    ("sentence", "sources"),
    [
        ("Tarvase alfa is infused at 1 mg/kg every two weeks [1].", [ENZYMES]),
        ("Varnish arrested 76 percent and silver fluoride 28 percent [2].", [ARMS]),
        ("Wenn disease is due to ABX7A [3].", [GENES]),
        ("Seizures begin at about 20 mg/kg [4].", [STEPS]),
        ("Azithromycin 2 g is given to people allergic to penicillin [5].", [UNLIKE]),
        ("The maximum dose of articaine is 4.4 mg/kg.", [FIRST, SECOND]),
        ("Articaine is given up to 4.4 mg/kg [6, 7].", [FIRST, SECOND]),
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
        ("Orla disease involves ABX7A, whereas Wenn disease involves ABX7B [3].", [GENES]),
        ("Mild signs are seen from 20 mg/kg, while seizures appear near 60 mg/kg [4].", [STEPS]),
        ("Those allergic to penicillin get 500 mg of azithromycin, others 2 g of amoxicillin [5].", [UNLIKE]),
        ("MAVYRE pills treat hepatitis C virus infection [8].", [BRAND]),
        ("Articaine may be given up to 7 mg/kg and lidocaine up to 4.4 mg/kg [6, 7].", [FIRST, SECOND]),
    ],
)
def test_values_of_their_own_names_pass(sentence: str, sources: list[Source]) -> None:
    """Other words, other orders and other languages for the same."""
    assert kinds(sentence, *sources) == []
