"""Fusing rankings and looking again at the best."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.encoders.base import Floats, PassageText
from retrieval.lexical.fusion import (
    MEDRAG_RRF_K,
    ORDERED,
    distinct_texts,
    feedback_seeds,
    hybrid_fusion,
    is_identifier_like,
    late_interaction,
    normalised_fusion,
    reciprocal_rank_fusion,
    rerank,
    share_of_words,
)
from retrieval.passages import Hit, Passage

RANKINGS = st.lists(st.lists(st.integers(1, 30), unique=True, max_size=20), max_size=5)


def ranking(*ids: int) -> list[Hit]:
    return [Hit(number, 100.0 - place) for place, number in enumerate(ids)]


def ids(hits: Sequence[Hit]) -> list[int]:
    return [hit.passage_id for hit in hits]


def passage(number: int, text: str, title: str = "") -> Passage:
    return Passage(passage_id=number, document_id="d", title=title, text=text)


class Scripted:
    """Scores by the number at the end of a passage; keeps what it was asked."""

    name = "scripted"

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[PassageText]]] = []

    def score(self, query: str, passages: Sequence[PassageText]) -> Floats:
        self.asked.append((query, list(passages)))
        return np.array([float(passage.text.split()[-1]) for passage in passages], dtype=np.float32)


def test_ranks_are_fused_by_their_reciprocals() -> None:
    """Worked by hand: 1/(60+1) + 1/(60+2) beats twice third place and one first place."""
    hits = reciprocal_rank_fusion([ranking(1, 2, 3), ranking(2, 4, 3)])
    assert ids(hits) == [2, 3, 1, 4]
    assert [hit.score for hit in hits] == pytest.approx([1 / 62 + 1 / 61, 2 / 63, 1 / 61, 1 / 62])


def test_the_constant_can_be_that_of_the_paper() -> None:
    """100 flattens the ranks."""
    assert reciprocal_rank_fusion([ranking(7)], rank_constant=MEDRAG_RRF_K) == [Hit(7, 1 / 101)]


def test_a_passage_twice_in_one_ranking_counts_once() -> None:
    """At its better place; those after it move up."""
    assert reciprocal_rank_fusion([ranking(1, 1, 2)]) == reciprocal_rank_fusion([ranking(1, 2)])
    assert normalised_fusion([[Hit(1, 4.0), Hit(1, 3.0), Hit(2, 2.0)]], [1]) == [Hit(1, 1.0), Hit(2, -1.0)]


@given(RANKINGS)
def test_equal_rankings_fuse_equally_and_in_one_order(given_ids: list[list[int]]) -> None:
    """Every passage once, scores descending, sums as computed passage by passage."""
    rankings = [ranking(*one) for one in given_ids]
    hits = reciprocal_rank_fusion(rankings)
    assert sorted(ids(hits)) == sorted({number for one in given_ids for number in one})
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        wanted = sum(1 / (61 + one.index(hit.passage_id)) for one in given_ids if hit.passage_id in one)
        assert hit.score == pytest.approx(wanted)
    assert reciprocal_rank_fusion([list(one) for one in rankings]) == hits


def test_ties_go_to_the_better_place_then_the_earlier_ranking() -> None:
    """Never to chance."""
    assert ids(reciprocal_rank_fusion([ranking(9), ranking(4)])) == [9, 4]
    assert ids(reciprocal_rank_fusion([ranking(4), ranking(9)])) == [4, 9]


def test_scores_are_fused_on_one_scale() -> None:
    """Large numbers do not drown others, equal scores say nothing, and what a ranking lacks counts as its lowest."""
    hits = normalised_fusion([[Hit(1, 900.0), Hit(2, 500.0)], [Hit(2, 0.9), Hit(3, 0.1)]], [1, 1])
    assert hits == [Hit(1, 0.0), Hit(2, 0.0), Hit(3, -2.0)]
    assert normalised_fusion([[Hit(1, 3.0), Hit(2, 3.0)]], [2]) == [Hit(1, 0.0), Hit(2, 0.0)]
    assert normalised_fusion([], []) == reciprocal_rank_fusion([]) == normalised_fusion([[], []], [1, 1]) == []


@given(RANKINGS)
def test_a_hybrid_ranking_has_every_passage_once_with_falling_scores(given_ids: list[list[int]]) -> None:
    """One ranking alone stays as it is."""
    words, dense = (ranking(*one) for one in [*given_ids, [], []][:2])
    hits = hybrid_fusion(words, dense)
    assert sorted(ids(hits)) == sorted({*ids(words), *ids(dense)})
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hybrid_fusion(words, []) == words


def test_normalised_scores_order_the_best_and_ranks_the_rest() -> None:
    """A passage far ahead in one ranking beats one that is second in both; the tail keeps the order of ranks."""
    words = [Hit(1, 90.0), Hit(2, 11.0), *(Hit(number, 10.0 - number / 100) for number in range(3, 103))]
    dense = [Hit(500, 0.5), Hit(2, 0.49), *(Hit(number, 0.4 - number / 1000) for number in range(103, 203))]
    hits = hybrid_fusion(words, dense)
    ranks = reciprocal_rank_fusion([words, dense])
    assert ids(ranks)[0] == 2
    assert ids(hits)[0] == 1
    assert ids(hits)[ORDERED:] == ids(ranks)[ORDERED:]


def test_feedback_needs_both_rankings() -> None:
    """Two passages at most."""
    assert feedback_seeds(ranking(1, 2, 3), ranking(2, 1, 4)) == [1, 2]
    assert feedback_seeds(ranking(1, 2), []) == feedback_seeds([], ranking(1)) == []


def test_late_interaction_orders_what_it_knows_ahead_of_the_rest() -> None:
    """Both scores count; what has no token vectors stays behind, with lower scores."""
    hits = late_interaction([Hit(1, 3.0), Hit(2, 2.5), Hit(9, 2.0), Hit(3, 1.0)], {1: 0.2, 2: 0.9, 3: 0.3})
    assert ids(hits) == [2, 1, 3, 9]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert late_interaction(ranking(1, 2), {}) == ranking(1, 2)


def test_a_cross_encoder_puts_the_best_first() -> None:
    """It gets title and text of each passage; equal scores keep the order; k cuts."""
    encoder = Scripted()
    passages = [passage(1, "a 2", "T"), passage(2, "b 7"), passage(3, "c 2"), passage(4, "d nan"), passage(5, "e -3")]
    assert rerank("why?", passages, encoder, 10) == [
        Hit(2, 7.0),
        Hit(1, 2.0),
        Hit(3, 2.0),
        Hit(5, -3.0),
        Hit(4, -math.inf),
    ]
    assert ids(rerank("why?", passages, encoder, 2)) == [2, 1]
    assert encoder.asked[0][0] == "why?" and encoder.asked[0][1][0] == PassageText("T", "a 2")


def test_one_text_is_scored_and_shown_once() -> None:
    """Case, blanks and hyphens make no other text; the first passage stands for all."""
    encoder = Scripted()
    passages = [passage(1, "IL-6  rises 3"), passage(2, "il‑6 rises\n3"), passage(3, "IL-6 falls 3")]
    assert ids(rerank("q", passages, encoder, 5)) == [1, 3]
    assert len(encoder.asked[0][1]) == 2
    assert [one.passage_id for one in distinct_texts(passages)] == [1, 3]


def test_nothing_to_rank_asks_nothing() -> None:
    """No passages, or no place."""
    encoder = Scripted()
    assert rerank("q", [], encoder, 5) == rerank("q", [passage(1, "1")], encoder, 0) == []
    assert encoder.asked == []


@pytest.mark.parametrize(
    "query",
    ["rs429358", "NM_000546.6", "GSK2334470?", "miR-21", "30446595", "BRCA1, BRCA2", "HLA-DRB1*15:01", "V600E p53"],
)
def test_identifiers_lean_on_words(query: str) -> None:
    """One to three of them, with marks around."""
    assert is_identifier_like(query)
    assert share_of_words(query) == 1.0


@pytest.mark.parametrize(
    "query",
    ["", "?", "asthma", "type 2 diabetes", "Which gene is rs429358?", "p53 in cancer", "a b c d", "12", "T4",
     "BRCA1 BRCA2 TP53 EGFR1"],
)  # fmt: skip
def test_other_queries_keep_their_weights(query: str) -> None:
    """A question about an identifier is a question; two letters can be anything."""
    assert not is_identifier_like(query)
    assert share_of_words(query) == 0.5
