"""Yes and no of a model and a verifier are weighed to one probability."""

from __future__ import annotations

import pytest

from models.verdicts import FORM, VerdictCalibration, features

STATED = {"yes": [1, -1, 0.5, 0.5, 0], "no": [-1, -1, -0.5, 0.5, 0], "given": 0.4, "sure": 0.8}
SURE_OF_YES = features((0.9, 0.05, 0.05), supports=0.8, contradicts=0.1, relevance=0.9)
SURE_OF_NO = features((0.05, 0.9, 0.05), supports=0.1, contradicts=0.8, relevance=0.9)
OPEN = features((0.05, 0.05, 0.9), supports=0.1, contradicts=0.1, relevance=0.1)


def test_both_readers_count_and_what_is_open_has_neither() -> None:
    weighed = VerdictCalibration.from_json(STATED)
    yes, no = weighed.probabilities(SURE_OF_YES)
    assert yes > 0.95 and no < 0.01
    assert weighed.probabilities(SURE_OF_NO) == pytest.approx((no, yes))
    apart = features((0.9, 0.05, 0.05), supports=0.1, contradicts=0.8, relevance=0.9)
    assert no < weighed.probabilities(apart)[1] < weighed.probabilities(apart)[0] < yes
    assert sum(weighed.probabilities(OPEN)) < 0.1


def test_probabilities_of_zero_and_one_are_bounded() -> None:
    weighed = VerdictCalibration.from_json(STATED)
    yes, no = weighed.probabilities(features((1, 0, 0), supports=0, contradicts=0, relevance=1))
    assert 0.99 < yes < 1 and 0 < no < 0.01


def test_a_card_states_them_whole() -> None:
    assert VerdictCalibration.from_json(VerdictCalibration.from_json(STATED).to_json()).to_json() == STATED
    for wrong in (
        True,
        None,
        {},
        {**STATED, "yes": [1]},
        {**STATED, "given": 0.9},
        {**STATED, "no": [float("nan")] * 5},
    ):
        with pytest.raises(ValueError, match="5 numbers"):
            VerdictCalibration.from_json(wrong)
    assert FORM.count("5 numbers") == 2
