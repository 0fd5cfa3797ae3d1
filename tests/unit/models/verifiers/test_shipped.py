"""The verifier that ships is whole and small, and reads plain sentences right most of the time."""

from __future__ import annotations

import pytest

from models.encoders.base import EncoderOptions
from models.verifiers.base import Pair, Verifier
from models.verifiers.cross_encoder import VERIFIER_DIR, WEIGHTS, load_verifier, read_card

# Written for this test: the sentence says yes to the first question and no to the second.
SIDES = (
    ("Liquorice can raise blood pressure.", "Can liquorice raise blood pressure?",
     "Does liquorice lower blood pressure?"),
    ("Ampicillin does not cure mumps.", "Is ampicillin useless in mumps?", "Does ampicillin cure mumps?"),
    ("Cats cannot taste sugar.", "Are cats unable to taste sugar?", "Can cats taste sugar?"),
    ("Mortality was lower with enalapril than with placebo.", "Does enalapril lower mortality?",
     "Does enalapril raise mortality?"),
    ("Folic acid prevents neural tube defects.", "Does folic acid prevent neural tube defects?",
     "Does folic acid cause neural tube defects?"),
    ("Tetracyclines are contraindicated in children.", "Are tetracyclines contraindicated in children?",
     "Are tetracyclines safe in children?"),
    ("The drug had no effect on pain compared with placebo.", "Did pain stay the same?", "Did the drug relieve pain?"),
)  # fmt: skip
ANSWERED = (
    ("How is pellagra treated?", "Pellagra. It is treated with niacin.", "Pellagra. Its signs are dermatitis."),
    ("Which gene is mutated in cystic fibrosis?", "Cystic fibrosis is caused by variants of CFTR.",
     "Cystic fibrosis is treated with ivacaftor."),
    ("What are the symptoms of tetanus?", "Tetanus causes spasms and lockjaw.", "Rabies causes fear of water."),
    ("What is the dose of colchicine?", "Colchicine is given at 0.5 mg twice a day.", "Colchicine is an alkaloid."),
    ("Wie wird Pellagra behandelt?", "Pellagra. It is treated with niacin.", "Rickets is lack of vitamin D."),
)  # fmt: skip
CLAIMS = (
    ("The dose is 2.5 mg/kg.", "The maximum dose is 2.5 mg/kg.", "The maximum dose is 25 mg/kg."),
    ("Saline is a suitable medium.", "Saline is suitable as a medium.", "Saline is not suitable as a medium."),
    ("Survival was longer with drug A.", "Drug A prolonged survival.", "Drug A shortened survival."),
)


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return load_verifier(options=EncoderOptions(device="cpu", threads=2))


def test_it_is_small_and_its_points_are_probabilities() -> None:
    card = read_card(VERIFIER_DIR)
    assert (VERIFIER_DIR / WEIGHTS).stat().st_size < 25_000_000
    assert all(0 < point["bar"] < 1 and point["chosen"] for point in card["points"].values())
    assert card["points"]["screen"]["bar"] <= card["points"]["answer"]["bar"]


@pytest.mark.weights
def test_it_tells_yes_from_no(verifier: Verifier) -> None:
    pairs = [Pair(question, said) for said, yes, no in SIDES for question in (yes, no)]
    found = verifier.judge(pairs)
    right = sum((one.supports > one.contradicts) == (place % 2 == 0) for place, one in enumerate(found))
    assert right >= 0.75 * len(pairs)


@pytest.mark.weights
def test_it_finds_the_sentence_that_answers(verifier: Verifier) -> None:
    found = verifier.judge([Pair(question, said) for question, *both in ANSWERED for said in both])
    right = sum(found[place].relevance > found[place + 1].relevance for place in range(0, len(found), 2))
    assert right >= 4


@pytest.mark.weights
def test_a_claim_that_is_so_is_supported_more_than_its_contrary(verifier: Verifier) -> None:
    found = verifier.judge([Pair(claim, said) for said, *both in CLAIMS for claim in both])
    right = sum(found[place].supports > found[place + 1].supports for place in range(0, len(found), 2))
    assert right >= 2


@pytest.mark.weights
def test_order_and_range_are_those_of_the_seam(verifier: Verifier) -> None:
    pairs = [Pair(question, said) for question, *both in ANSWERED for said in both]
    found, reversed_ = verifier.judge(pairs), verifier.judge(pairs[::-1])[::-1]
    assert [one.relevance for one in found] == pytest.approx([one.relevance for one in reversed_], abs=0.02)
    assert all(0 <= p <= 1 for one in found for p in (one.relevance, one.supports, one.contradicts, one.neither))
