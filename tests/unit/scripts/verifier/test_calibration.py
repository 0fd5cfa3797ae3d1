"""Temperatures undo what made logits too sure, and each bar keeps the error rate that it is chosen for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from models.verifiers.base import Judgement, Pair
from scripts.verifier.calibration import (
    expected_error,
    fitted,
    label_bar,
    relevance_bar,
    reliability_plot,
    screen_bar,
    verdict_bar,
)
from scripts.verifier.dev_sets import Group
from scripts.verifier.scoring import Judged, best_right, claims_right, given, left_open, verdicts_right

PAIR = Pair("q", "e")


def test_the_temperature_is_found_by_which_logits_were_too_sure() -> None:
    generator = np.random.default_rng(4)
    true = generator.normal(0, 2, 4000)
    relevance = (generator.random(4000) < 1 / (1 + np.exp(-true))).astype(int)
    three = generator.normal(0, 1.5, (4000, 3))
    shares = np.exp(three) / np.exp(three).sum(axis=1, keepdims=True)
    verdicts = [int(generator.choice(3, p=row)) for row in shares]
    groups = [Group((PAIR,), (int(one),), (verdict,)) for one, verdict in zip(relevance, verdicts, strict=True)]
    logits = np.concatenate([2.0 * true[:, None], 1.6 * three], axis=1).astype(np.float32)
    found = fitted(logits, groups)
    assert found.relevance == pytest.approx(2.0, rel=0.12)
    assert found.verdict == pytest.approx(1.6, rel=0.12)
    assert found.told[0] > 0


def of(relevance: list[tuple[float, int]]) -> list[Judged]:
    return [Judged(Group((PAIR,), (known,), (-1,)), (Judgement(one, 0.0, 0.0),)) for one, known in relevance]


def sided(rows: list[tuple[float, float, int]]) -> list[Judged]:
    return [
        Judged(Group((PAIR,), (1,), (verdict,)), (Judgement(1.0, supports, contradicts),))
        for supports, contradicts, verdict in rows
    ]


class Nothing:
    """Judges no pair, as there is none."""

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        assert not pairs
        return []


def test_a_bar_of_relevance_is_reached_by_a_share_of_what_does_not_answer() -> None:
    groups = of([(0.9, 0)] * 10 + [(0.4, 0)] * 30 + [(0.1, 0)] * 60)
    assert 0.4 < relevance_bar([], groups, Nothing(), 0.15) <= 0.9
    assert 0.1 < relevance_bar([], groups, Nothing(), 0.4) <= 0.4
    assert screen_bar(of([(0.3, 1)] * 96 + [(0.05, 1)] * 4)) == pytest.approx(0.3)


def test_a_verdict_bar_keeps_the_share_of_wrong_ones() -> None:
    groups = sided([(0.95, 0.0, 0)] * 19 + [(0.95, 0.0, 1)] + [(0.6, 0.1, 1)] * 5 + [(0.1, 0.8, 1)] * 5)
    bar = verdict_bar(groups)
    share, right, yes, no = given(groups, bar)
    assert bar > 0.6
    assert right >= 0.92
    assert [share, yes, no] == pytest.approx([25 / 30, 1.0, 5 / 6])


def test_a_label_bar_spares_claims_that_are_supported() -> None:
    assert label_bar(sided([(0.7, 0.1, 0)] * 9 + [(0.1, 0.1, 0)])) == pytest.approx(0.1)


def test_groups_are_scored_by_what_is_chosen() -> None:
    trial = Judged(
        Group((PAIR,) * 3, (1, 1, 1), (1, 0, 1)),
        (Judgement(0.9, 0.2, 0.7), Judgement(0.9, 0.8, 0.1), Judgement(0.9, 0.1, 0.1)),
    )
    assert claims_right([trial]) == 1.0
    assert verdicts_right([trial]) == pytest.approx(2 / 3)
    assert best_right(of([(0.9, 1), (0.9, 0)])) == 0.5
    assert left_open(sided([(0.2, 0.2, 2), (0.9, 0.0, 2)]), 0.5) == 0.5


def test_the_error_of_sure_and_right_is_none_and_of_sure_and_wrong_is_all(tmp_path: Path) -> None:
    sure = np.full(100, 0.999)
    assert expected_error(sure, np.ones(100, bool)) < 0.01
    assert expected_error(sure, np.zeros(100, bool)) > 0.99
    reliability_plot({"relevance": (sure, np.ones(100, bool))}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
