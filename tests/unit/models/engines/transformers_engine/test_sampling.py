"""The choice of the next token from logits."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from models.engines.transformers_engine.sampling import (
    Draw,
    choose_tokens,
    least_weights,
    token_logprobs,
    token_weights,
)

PROBABILITIES = (0.5, 0.3, 0.15, 0.05)
LOGITS = torch.tensor([[math.log(p) for p in PROBABILITIES]])


def share(temperature: float = 1.0, top_p: float = 1.0, top_k: int = 0) -> list[float]:
    """How much of the unit interval each token of LOGITS gets, on a fine grid."""
    steps = 2000
    draws = [Draw(temperature, top_p, top_k, (i + 0.5) / steps) for i in range(steps)]
    chosen = choose_tokens(LOGITS.repeat(steps, 1), draws)
    return [chosen.count(token) / steps for token in range(len(PROBABILITIES))]


def test_temperature_zero_takes_the_best() -> None:
    """Greedy ignores the draw."""
    assert choose_tokens(LOGITS.repeat(2, 1), [Draw(0.0, 1.0, 0, 0.0), Draw(0.0, 1.0, 0, 0.999)]) == [0, 0]


def test_shares_are_the_probabilities() -> None:
    """At temperature 1 each token is drawn as often as its probability says."""
    assert share() == pytest.approx(PROBABILITIES, abs=1e-3)


def test_temperature_sharpens() -> None:
    """At temperature 0.5 the probabilities are squared and normalised."""
    squared = [p * p for p in PROBABILITIES]

    assert share(temperature=0.5) == pytest.approx([p / sum(squared) for p in squared], abs=1e-3)


def test_top_k_keeps_the_k_best() -> None:
    """With top_k 2 the two best share everything."""
    assert share(top_k=2) == pytest.approx([0.625, 0.375, 0, 0], abs=1e-3)


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, 1), (0.6, 2), (0.8, 2), (0.81, 3), (0.99, 4)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(top_p: float, kept: int) -> None:
    """The token that crosses the threshold is kept, the next one is not."""
    assert sum(p > 0 for p in share(top_p=top_p)) == kept


def test_top_p_counts_after_top_k() -> None:
    """top_p works on what top_k left: of 0.625 and 0.375, 0.6 keeps one."""
    assert share(top_k=2, top_p=0.6) == pytest.approx([1, 0, 0, 0])


def test_a_masked_token_is_never_drawn() -> None:
    """-inf means no share, for the ends of the unit interval too."""
    logits = torch.tensor([[float("-inf"), 0.0, float("-inf"), 1.0, float("-inf")]])
    draws = [Draw(5.0, 1.0, 0, u) for u in (0.0, 0.3, 0.6, 1 - 2**-53)]

    assert set(choose_tokens(logits.repeat(len(draws), 1), draws)) <= {1, 3}


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    """The same row and draw give the same token in a batch of one and of many with other settings."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(16, 500, generator=generator)
    draws = [Draw(0.5 + i / 10, 1.0 if i % 2 else 0.9, 0 if i % 3 else 40, i / 16) for i in range(16)]
    alone = [choose_tokens(logits[i : i + 1], [draws[i]])[0] for i in range(16)]

    assert choose_tokens(logits, draws) == alone


def least_by_sorting(weights: Tensor, draw: Draw) -> float:
    """The least weight that a row keeps, by its definition: sort everything, walk until the mass is reached."""
    ordered = sorted(weights.tolist(), reverse=True)
    if draw.top_k:
        ordered = ordered[: draw.top_k]
    target, reached = draw.top_p * math.fsum(ordered), 0.0
    for weight in ordered:
        reached += weight
        if draw.top_p < 1 and reached >= target:
            return float(weight)
    return float(ordered[-1])


def distribution(kind: str, size: int, seed: int) -> Tensor:
    """Logits of a shape: ``ties`` has three values only."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(size, generator=generator)
    match kind:
        case "flat":
            return torch.zeros(size)
        case "nearly flat":
            return noise * 0.01
        case "peaked":
            return noise * 8
        case "ties":
            return noise.sign() * (noise.abs() > 1)
        case _:
            return noise.masked_fill(noise < 0.5, float("-inf"))


KINDS = ("flat", "nearly flat", "peaked", "ties", "masked")


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.sampled_from((0.2, 1.0, 3.0)),
            st.sampled_from((0.01, 0.3, 0.5, 0.9, 0.999, 1.0)),
            st.sampled_from((0, 1, 2, 7, 15, 16, 17, 40, 299, 300, 5000)),
            st.floats(0, 1, exclude_max=True),
        ),
        min_size=1,
        max_size=6,
    ),
    seed=st.integers(0, 1000),
)
def test_limits_are_those_of_the_sorted_row(rows: list[tuple[str, float, float, int, float]], seed: int) -> None:
    """Looked for among 16 of 300 tokens, whatever the shape and the neighbours, the limit is that of the whole row."""
    logits = torch.stack([distribution(row[0], 300, seed + i) for i, row in enumerate(rows)])
    draws = [Draw(temperature, top_p, top_k, uniform) for _, temperature, top_p, top_k, uniform in rows]
    weights = token_weights(logits, draws)

    found = least_weights(weights, draws, likely=16)
    expected = [least_by_sorting(row, draw) for row, draw in zip(weights, draws, strict=True)]

    counts = [(row >= least).sum().item() for row, least in zip(weights, found, strict=True)]
    assert counts == [(row >= least).sum().item() for row, least in zip(weights, expected, strict=True)]
    assert torch.equal(found, least_weights(weights, draws, likely=300))


def test_a_large_vocabulary_gives_the_tokens_of_the_sorted_row() -> None:
    """Above the size of the first look, in one batch: peaked and flat rows, with and without limits."""
    generator, uniforms = torch.Generator().manual_seed(3), random.Random(3)
    logits = torch.randn(24, 5000, generator=generator) * torch.tensor([[0.0], [0.1], [1.0], [6.0]]).repeat(6, 1)
    limits = [(top_p, top_k) for top_p in (0.3, 0.95, 1.0) for top_k in (0, 50, 3000) for _ in range(3)][:24]
    draws = [Draw(0.7, top_p, top_k, uniforms.random()) for top_p, top_k in limits]
    weights = token_weights(logits, draws)
    least = torch.tensor([least_by_sorting(row, draw) for row, draw in zip(weights, draws, strict=True)])
    kept = weights.masked_fill(weights < least.unsqueeze(1), 0.0)
    masked = logits.masked_fill(kept == 0, float("-inf"))

    assert choose_tokens(logits, draws) == choose_tokens(masked, [Draw(0.7, 1.0, 0, d.uniform) for d in draws])


def test_min_p_leaves_out_what_is_far_below_the_best() -> None:
    """Of 0.5, 0.3, 0.15 and 0.05, a fifth of the best keeps three."""
    steps = 2000
    draws = [Draw(1.0, 1.0, 0, (i + 0.5) / steps, min_p=0.2) for i in range(steps)]

    assert set(choose_tokens(LOGITS.repeat(steps, 1), draws)) == {0, 1, 2}


def test_tiny_temperature_is_greedy() -> None:
    """Nothing overflows next to zero."""
    assert choose_tokens(LOGITS * 1000, [Draw(1e-6, 1.0, 0, 0.999999)]) == [0]


def test_logprobs_are_of_the_logits_given() -> None:
    """Natural logarithms of the probabilities, best first, without the tokens a mask forbids."""
    masked = torch.cat([LOGITS, torch.tensor([[float("-inf")]])], dim=1)
    (entry,) = token_logprobs(masked, [2], [5])

    assert entry.logprob == pytest.approx(math.log(0.15))
    assert [token for token, _ in entry.top] == [0, 1, 2, 3]
    assert [math.exp(value) for _, value in entry.top] == pytest.approx(PROBABILITIES)


def test_logprobs_zero_lists_no_alternatives() -> None:
    """Rows of one batch may want different numbers of alternatives."""
    entries = token_logprobs(LOGITS.repeat(2, 1), [0, 1], [0, 2])

    assert [len(entry.top) for entry in entries] == [0, 2]
