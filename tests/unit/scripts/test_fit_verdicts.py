"""The weights of yes and no are those that make the answers probable."""

from __future__ import annotations

import numpy as np

from models.verdicts import features
from scripts.fit_verdicts import fitted, table

YES = features((0.9, 0.05, 0.05), supports=0.8, contradicts=0.1, relevance=0.9)
NO = features((0.05, 0.9, 0.05), supports=0.1, contradicts=0.8, relevance=0.9)
OPEN = features((0.1, 0.1, 0.8), supports=0.1, contradicts=0.1, relevance=0.2)


def test_what_was_read_alike_is_answered_alike() -> None:
    values, answers = np.array([YES, NO, OPEN] * 40), np.array([0, 1, 2] * 40)
    weighed = fitted(values, answers)
    assert weighed.probabilities(YES)[0] > 0.9 and weighed.probabilities(NO)[1] > 0.9
    assert sum(weighed.probabilities(OPEN)) < 0.1


def test_the_table_counts_what_is_given_and_what_of_it_is_right() -> None:
    probabilities = np.array([[0.95, 0.03, 0.02], [0.75, 0.2, 0.05], [0.1, 0.85, 0.05], [0.2, 0.3, 0.5]])
    rows = [line.split(" | ") for line in table(probabilities, np.array([0, 1, 1, 2])).splitlines()[2:]]
    assert rows[0][0].strip("| ") == "0.330" and rows[0][1:3] == ["1.000", "0.667"]
    assert rows[4][0].strip("| ") == "0.800" and rows[4][1:3] == ["0.667", "1.000"]
    assert all(row[-1].strip("| ") == "1.000" for row in rows)
