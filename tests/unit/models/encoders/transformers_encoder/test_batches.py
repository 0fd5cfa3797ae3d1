"""Batches under a token budget."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.encoders.transformers_encoder.encoder import padded_width, plan_batches

LIMIT = 512
LENGTHS = st.lists(st.integers(1, LIMIT), max_size=200)
BUDGETS = st.integers(1, 8192)


@given(LENGTHS, BUDGETS)
def test_every_text_is_in_one_batch_once(lengths: list[int], budget: int) -> None:
    """None lost, none computed twice."""
    rows = Counter(row for batch in plan_batches(lengths, budget, LIMIT) for row in batch.rows)

    assert rows == Counter(range(len(lengths)))


@given(LENGTHS, BUDGETS)
def test_only_a_single_text_may_exceed_the_budget(lengths: list[int], budget: int) -> None:
    """Padding is counted."""
    for batch in plan_batches(lengths, budget, LIMIT):
        assert batch.cost <= budget or len(batch.rows) == 1


@given(LENGTHS, BUDGETS)
def test_every_text_fits_the_width_of_its_batch(lengths: list[int], budget: int) -> None:
    """And no batch is wider than the model takes."""
    for batch in plan_batches(lengths, budget, LIMIT):
        assert max(lengths[row] for row in batch.rows) <= batch.width <= LIMIT


@given(LENGTHS, BUDGETS)
def test_padding_is_never_more_than_text(lengths: list[int], budget: int) -> None:
    """Beyond what rounding up to a bucket adds: rows half as wide as their batch go into another one."""
    for batch in plan_batches(lengths, budget, LIMIT):
        assert all(2 * padded_width(lengths[row], LIMIT) > batch.width for row in batch.rows)


@given(LENGTHS, BUDGETS)
def test_the_shapes_do_not_depend_on_the_order_given(lengths: list[int], budget: int) -> None:
    """The same lengths in another order give the same batches of other numbers."""
    backwards = lengths[::-1]

    def shapes(given_lengths: list[int]) -> list[tuple[int, list[int]]]:
        return [
            (batch.width, [given_lengths[row] for row in batch.rows])
            for batch in plan_batches(given_lengths, budget, LIMIT)
        ]

    assert shapes(lengths) == shapes(backwards)


def test_the_longest_texts_come_first() -> None:
    """What does not fit into memory fails at the start, not after an hour."""
    widths = [batch.width for batch in plan_batches([5, 500, 60, 300], 512, LIMIT)]

    assert widths == [512, 320, 64, 8]


@pytest.mark.parametrize(
    ("length", "limit", "width"),
    [(1, 512, 8), (8, 512, 8), (9, 512, 16), (32, 512, 32), (33, 512, 64), (340, 350, 350)],
)
def test_lengths_are_rounded_up_to_few_widths(length: int, limit: int, width: int) -> None:
    """Multiples of 8 up to 32, of 32 above, cut at the model's limit."""
    assert padded_width(length, limit) == width


def test_a_finer_step_wastes_less_padding() -> None:
    """As the CPU uses it, where a further shape costs little."""
    assert [batch.width for batch in plan_batches([33, 70], 60, LIMIT, step=8)] == [72, 40]


def test_nothing_makes_no_batch() -> None:
    """An empty list needs no forward pass."""
    assert plan_batches([], 2048, LIMIT) == []
