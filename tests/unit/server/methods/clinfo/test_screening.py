"""Every candidate is kept or excluded with a reason; the order is by evidence, then by score."""

from __future__ import annotations

from typing import Any

import pytest

from server.methods.clinfo.literature import Article, Section
from server.methods.clinfo.options import ClinfoOptions, parse_options
from server.methods.clinfo.screening import (
    CALIBRATIONS,
    Reason,
    Screened,
    by_evidence,
    calibration_for,
    excluded,
    features_of,
    level_first,
    screen,
    tell_apart,
    to_compare,
    to_judge,
    with_judgements,
)
from server.methods.clinfo.search import Candidate
from server.methods.shared.passages import SentenceScores

QUESTION = "Which steroid lowers mortality in severe COVID-19?"


def _article(key: str, text: str = "A steroid lowered mortality in severe COVID-19.", **more: Any) -> Article:
    return Article(key=key, title=more.pop("title", ""), sections=(Section("", text),) if text else (), **more)


def _candidates(*articles: Article) -> list[Candidate]:
    return [Candidate(article.key, 1.0, {0: 1}, 0, article) for article in articles]


def test_the_relevant_are_kept_and_the_others_have_a_reason() -> None:
    candidates = _candidates(_article("a"), _article("b", "Heparin is reversed by protamine."), _article("c", ""))
    judged = screen(QUESTION, candidates, SentenceScores(), ClinfoOptions())
    assert [one.reason for one in judged] == ["relevant", "not_relevant", "no_abstract"]
    assert to_compare(candidates, ClinfoOptions()) == [one.article for one in judged[:2]]
    assert judged[0].record["reason"] == "relevant" and judged[0].score > judged[1].score


def test_a_vector_counts_with_the_encoder_that_it_was_fitted_for() -> None:
    """Cosines of other encoders have other scales, so words alone decide."""
    candidates = _candidates(_article("a"), _article("b", "Dexamethasone helps the sickest patients."))
    near = screen(QUESTION, candidates, SentenceScores(encoder="minilm", cosines=(0.8, 0.7)), ClinfoOptions())
    far = screen(QUESTION, candidates, SentenceScores(encoder="minilm", cosines=(0.8, 0.1)), ClinfoOptions())
    assert near[1].score > far[1].score
    other = screen(QUESTION, candidates, SentenceScores(encoder="other", cosines=(0.8, 0.7)), ClinfoOptions())
    assert other == screen(QUESTION, candidates, SentenceScores(), ClinfoOptions())
    assert calibration_for(SentenceScores(encoder="other", late=(1.0,))) is CALIBRATIONS[""]


def test_token_vectors_count_beside_the_vector() -> None:
    """How far an article is below the best one, as they are comparable within one question alone."""
    candidates = _candidates(_article("a"), _article("b"))

    def scores_with(*late: float) -> list[float]:
        compared = SentenceScores(encoder="minilm", cosines=(0.6, 0.6), late=late)
        return [one.score for one in screen(QUESTION, candidates, compared, ClinfoOptions())]

    first, second = scores_with(0.5, 0.4)
    assert first > second and scores_with(0.9, 0.8) == pytest.approx([first, second])


def test_a_cross_encoder_orders_what_is_kept_and_moves_no_bar() -> None:
    candidates = _candidates(_article("a"), _article("b"), _article("c", "Heparin is reversed by protamine."))
    judged = screen(QUESTION, candidates, SentenceScores(cross=(-9.0, 9.0, 9.0)), ClinfoOptions())
    assert [one.reason for one in judged] == ["relevant", "relevant", "not_relevant"]
    assert judged[1].score > judged[0].score


@pytest.mark.parametrize(
    ("article", "options", "reason"),
    [
        (_article("a", types=("retracted publication",)), {}, "retracted"),
        (_article("a", notices=frozenset({"RetractionIn"})), {}, "retracted"),
        (_article("a", types=("retraction of publication",)), {}, "retracted"),
        (_article("a", notices=frozenset({"ErratumIn"})), {}, None),
        (_article("a", date=20180000), {"date_from": "2019"}, "date"),
        (_article("a", date=20190000), {"date_from": "2019-05"}, None),
        (_article("a", date=20190400), {"date_from": "2019-05"}, "date"),
        (_article("a", date=20190531), {"date_to": "2019-05"}, None),
        (_article("a", date=20190601), {"date_to": "2019-05"}, "date"),
        (_article("a"), {"date_to": "2019"}, "date"),
        (_article("a", types=("review",)), {"publication_types": ["Review"]}, None),
        (_article("a", types=("letter",)), {"publication_types": ["Review"]}, "publication_type"),
        (_article("a", ""), {}, "no_abstract"),
    ],
)
def test_rules_come_before_relevance(article: Article, options: dict[str, Any], reason: Reason | None) -> None:
    assert excluded(article, parse_options(options)) == reason


def test_the_model_decides_about_what_may_be_relevant() -> None:
    """Its yes is averaged with the score; articles that it was not asked about stay as they are."""
    a, b, c = (
        Screened(one, one.article, "not_relevant", 0.05) for one in _candidates(*map(_article, "abc")) if one.article
    )
    a = Screened(a.candidate, a.article, "relevant", 0.6)
    assert to_judge([a, b], 0.1) == [a, b] and to_judge([b], 0.5) == []
    judged = with_judgements([a, b, c], {"a": 0.2, "b": 0.9})
    assert [one.reason for one in judged] == ["judged_irrelevant", "relevant", "not_relevant"]
    assert judged[1].score == pytest.approx(0.475) and judged[1].record["probability"] == 0.9


def test_stronger_evidence_comes_first() -> None:
    case = _article("1", types=("case reports",))
    trial = _article("2", types=("randomized controlled trial",))
    pooled = _article("3", title="Steroids: a meta-analysis of trials.")
    weaker = _article("4", types=("clinical trial",))
    kept = [
        Screened(c, c.article, "relevant", s)
        for c, s in zip(_candidates(case, trial, pooled, weaker), (0.9, 0.8, 0.2, 0.3), strict=True)
        if c.article
    ]
    assert [one.article.key for one in by_evidence(kept)] == ["3", "2", "4", "1"]


def test_of_nearly_equal_articles_the_stronger_evidence_is_read_first() -> None:
    """In runs that begin with the best one; what is clearly better stays before."""
    case, trial, pooled = (
        _article("case", types=("case reports",)),
        _article("trial", types=("clinical trial",)),
        _article("pooled", title="A meta-analysis."),
    )
    odds = {"case": 2.0, "trial": 1.9, "pooled": 1.7}
    ordered = level_first([case, trial, pooled], lambda one: odds[one.key], lambda one: one.level)
    assert [one.key for one in ordered] == ["trial", "case", "pooled"]
    assert level_first([], lambda one: 0.0, lambda one: "case") == []


def test_features_of_nothing_are_nothing() -> None:
    assert features_of(QUESTION, [], SentenceScores()) == []
    (alone,) = features_of("the of", ["a text"], SentenceScores())
    assert alone.weight == 0.0


@pytest.mark.parametrize(
    ("probabilities", "told"),
    [
        ((0.16, 0.15, 0.08, 0.2), False),
        ((0.55, 0.6, 0.52), False),
        ((0.16, 0.15, 0.01, 0.2), True),
        ((0.1, 0.5, 0.4, 0.3), True),
        ((0.99, 0.9, 0.95), True),
        ((0.1, 0.12), True),
        ((), True),
    ],
)
def test_judgements_that_are_all_alike_and_unsure_tell_nothing(probabilities: tuple[float, ...], told: bool) -> None:
    """A leaning to one word is no judgement; of one or two it cannot be told from one."""
    assert tell_apart(probabilities) is told
