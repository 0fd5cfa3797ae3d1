"""PES2: the paper's order of passages by keyword counts, its marks, and the original's way of counting."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from retrieval.lexical.keyword_frequency.pes2 import KeywordTable, count_by_pattern, rank_by_keywords
from retrieval.lexical.question_keywords import Keyword, distinct_keywords, parse_marked
from retrieval.passages import Passage

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[6] / "shared" / "data"))
GOLDEN = DATA / "qa" / "weise_pes2_golden.json"
# Figure 6 of the paper: counts of k1, k2, k3 in four chunks.
FIGURE_6 = {"A": (1, 10, 0), "B": (1, 0, 1), "C": (1, 9, 1), "D": (0, 0, 5)}
ORDERS = {(): "CABD", ("k3",): "CBDA", ("k1", "k3"): "CBAD"}


def table(rows: Sequence[Sequence[int]], keywords: Sequence[str] = ("k1", "k2", "k3")) -> KeywordTable:
    counts = np.array(rows, dtype=np.int64).reshape(len(rows), len(keywords))
    return KeywordTable(tuple(keywords), np.arange(1, len(rows) + 1, dtype=np.int64), counts)


def order(counts: KeywordTable, fixed: Sequence[str], k: int = 10, only_fixed: bool = False) -> list[int]:
    ranking = rank_by_keywords(counts, [keyword in fixed for keyword in counts.keywords], k, only_fixed)
    return [int(number) for number in ranking.ids]


def passage(number: int, text: str) -> Passage:
    return Passage(passage_id=number, document_id="d", title="", text=text)


@pytest.mark.parametrize("fixed", ORDERS)
def test_the_orders_of_the_papers_figure_come_out(fixed: tuple[str, ...]) -> None:
    """None, one and two fixed keywords."""
    names = "".join("ABCD"[number - 1] for number in order(table(list(FIGURE_6.values())), fixed))
    assert names == ORDERS[fixed]


@pytest.mark.shared_data
@pytest.mark.skipif(not GOLDEN.exists(), reason="the evaluation data is not beside this checkout")
def test_the_recorded_orders_come_out() -> None:
    """Those that the original's own function gave."""
    golden = json.loads(GOLDEN.read_text())
    counts = table([[row[key] for key in ("k1", "k2", "k3")] for row in golden["chunks"].values()])
    for fixed, expected in golden["expected_order"].items():
        ids = order(counts, [] if fixed == "none" else fixed.split(","))
        assert [list(golden["chunks"])[number - 1] for number in ids] == expected


def test_equal_passages_keep_their_order_and_zeros_are_left_out() -> None:
    """Within both groups; k cuts, and the counts stay beside their passages."""
    counts = table([(0, 0, 0), (1, 2, 0), (2, 1, 0), (3, 0, 0), (0, 0, 9), (0, 3, 0)])
    assert order(counts, ()) == [2, 3, 5, 4, 6]
    assert order(counts, ("k2",)) == [2, 3, 6, 5, 4]
    ranking = rank_by_keywords(counts, [False, True, False], k=4)
    assert ranking.ids.tolist() == [2, 3, 6, 5]
    assert ranking.counts.tolist() == [[1, 2, 0], [2, 1, 0], [0, 3, 0], [0, 0, 9]]
    assert ranking.has_fixed.tolist() == [True, True, True, False]
    assert (ranking.num_found, ranking.num_with_fixed) == (5, 3)
    assert ranking.distinct.tolist() == [2, 2, 1, 1] and ranking.totals.tolist() == [3, 3, 3, 9]


def test_scores_tell_the_order() -> None:
    """They descend, and are equal for equal passages."""
    hits = rank_by_keywords(table([(9, 9, 0), (1, 1, 1), (0, 0, 2), (0, 0, 2)]), [False, False, True]).hits()
    assert [hit.passage_id for hit in hits] == [2, 3, 4, 1]
    assert hits[0].score > hits[1].score == hits[2].score > hits[3].score


def test_only_passages_with_all_fixed_keywords_can_be_kept() -> None:
    """Without a fixed keyword that leaves out none, as in the original."""
    rows = [(1, 0, 0), (1, 1, 0), (0, 0, 4)]
    assert order(table(rows), ("k1", "k2"), only_fixed=True) == [2]
    assert order(table(rows), (), only_fixed=True) == [2, 3, 1]


@pytest.mark.parametrize("k", [0, -3])
def test_no_place_gives_no_passage(k: int) -> None:
    """Nor does a table without rows or columns."""
    assert order(table([(1, 1, 1)]), (), k=k) == []
    assert order(table([]), ()) == []
    assert order(KeywordTable((), np.zeros(0, dtype=np.int64), np.zeros((0, 0), dtype=np.int64)), ()) == []


def test_the_order_is_that_of_a_plain_sort() -> None:
    """Checked against the rule written down as a sort key, over all tables of small counts."""
    rows = list(itertools.product((0, 1, 3), repeat=3))
    for fixed in ((), ("k1",), ("k2", "k3"), ("k1", "k2", "k3")):
        columns = [int(name[1]) - 1 for name in fixed]
        plain = sorted(
            (number for number, row in enumerate(rows, 1) if any(row)),
            key=lambda number: (
                not all(rows[number - 1][column] for column in columns),
                -sum(map(bool, rows[number - 1])),
                -sum(rows[number - 1]),
            ),
        )
        assert order(table(rows), fixed, k=100) == plain


@pytest.mark.parametrize(
    ("query", "keywords", "question"),
    [
        ("#Do **NuA4** and *meiosis* meet?", [("NuA4", True), ("meiosis", False)], "Do NuA4 and meiosis meet?"),
        ("# **heterochromatin protein 1**", [("heterochromatin protein 1", True)], "heterochromatin protein 1"),
        ("#**a1**b1**", [("a1", True)], "a1b1**"),
        ("#**HLA-DRB1*15:01** risk", [("HLA-DRB1*15:01", True)], "HLA-DRB1*15:01 risk"),
        ("#DRB1*15:01 and DQB1*06:02", [], "DRB1*15:01 and DQB1*06:02"),
        ("#**AROM+** mice, **AROM+**", [("AROM+", True)], "AROM+ mice, AROM+"),
        ("#*IL-6* or **il6**", [("IL-6", True)], "IL-6 or il6"),
        ("#**** ** ** *", [], "**** ** ** *"),
        ("#", [], ""),
    ],
)
def test_keywords_are_marked_by_hand(query: str, keywords: list[tuple[str, bool]], question: str) -> None:
    """Two asterisks fix, one only searches; the question comes without marks; each keyword once, none empty."""
    parsed = parse_marked(query)
    assert parsed is not None
    assert [(keyword.text, keyword.fixed) for keyword in parsed.keywords] == keywords
    assert parsed.question == question and not parsed.only_fixed


def test_a_second_hash_keeps_only_passages_with_all_fixed_keywords() -> None:
    """A question without any is no marked one."""
    parsed = parse_marked(" ## Does **NuA4** bind?")
    assert parsed is not None and parsed.only_fixed and parsed.question == "Does NuA4 bind?"
    assert parse_marked("Does **NuA4** bind?") is None


def test_keywords_of_one_name_are_one() -> None:
    """As first written; those without a letter, digit or sign of a name go."""
    given = [Keyword("TNF-α"), Keyword("tnf alpha", True), Keyword(" "), Keyword("?"), Keyword("TNF")]
    assert distinct_keywords(given) == (Keyword("TNF-α", True), Keyword("TNF"))


def test_the_originals_way_of_counting_can_be_had() -> None:
    """With what it misses: signs at the end, digits apart, and with a keyword counted twice that is given twice."""
    passages = [
        passage(1, "AROM+ mice; IL-10, il10, IL-1-0; IL-6"),
        passage(2, "nothing"),
        passage(3, "NuA4 NUA-4 nua4s (nua4)"),
    ]
    keywords = ["AROM+", "il10", "IL-6", "il6", "NuA4", "NuA4"]
    counted = count_by_pattern(passages, keywords)
    assert counted.ids.tolist() == [1, 3]
    assert counted.counts.tolist() == [[0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 3, 3]]
