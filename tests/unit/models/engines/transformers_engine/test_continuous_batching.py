"""The choice of the next token from logits."""

from __future__ import annotations

import math

import pytest
import torch

from models.engines.transformers_engine.continuous_batching import Draw, choose_tokens, token_logprobs

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
