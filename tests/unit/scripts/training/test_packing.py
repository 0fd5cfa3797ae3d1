"""Samples with a common beginning in one sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from scripts.training.packing import Encoded, pack, stacked, total_weight
from scripts.training.trainer import token_losses

SHARED = (5, 9, 2, 7, 7, 1)
SAMPLES = [
    Encoded((*SHARED, 11, 12, 13, 14), (False,) * 8 + (True,) * 2),
    Encoded((*SHARED, 21, 22, 23), (False,) * 6 + (True,) * 3),
    Encoded((*SHARED, 11, 31, 32, 33, 34), (False,) * 9 + (True,) * 2, weight=0.5),
]


def test_a_packed_sample_gets_the_losses_that_it_has_alone(tiny_model: Callable[[], Any]) -> None:
    model = tiny_model()
    with torch.no_grad():
        together = token_losses(model, pack(SAMPLES))
        alone = torch.cat([token_losses(model, pack([sample])) for sample in SAMPLES])

    assert torch.allclose(together, alone, atol=1e-4)


def test_sequences_in_one_batch_get_the_losses_that_they_have_alone(tiny_model: Callable[[], Any]) -> None:
    model, sequences = tiny_model(), [pack(SAMPLES), pack(SAMPLES[:1])]
    batch = stacked(sequences)
    with torch.no_grad():
        together = token_losses(model, batch)
        alone = torch.cat([token_losses(model, one) for one in sequences])

    assert batch.ids.shape == (2, 64)
    assert torch.allclose(together, alone, atol=1e-4)
    assert batch.weights.tolist() == torch.cat([one.weights for one in sequences]).tolist()


def test_the_common_beginning_is_computed_once() -> None:
    packed = pack(SAMPLES)

    assert packed.num_tokens == len(SHARED) + 4 + 3 + 5
    assert packed.positions[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 6, 7, 8, 6, 7, 8, 9, 10]


def test_no_sample_sees_another() -> None:
    mask = pack(SAMPLES).mask[0, 0]

    assert mask[12].nonzero().flatten().tolist() == [0, 1, 2, 3, 4, 5, 10, 11, 12]


def test_learned_tokens_are_never_part_of_the_common_beginning() -> None:
    same = Encoded((1, 2, 3, 4), (False, False, True, True))
    packed = pack([same, same])

    assert packed.targets.tolist() == [3, 4, 3, 4]
    assert packed.sources.tolist() == [1, 2, 1, 4]


def test_long_answers_weigh_by_the_root_of_their_length() -> None:
    long = Encoded((1, *range(2, 18)), (False, *(True,) * 16))
    short = Encoded((1, 50), (False, True))

    assert float(pack([long]).weights.sum()) == 4.0
    assert float(pack([long, short]).weights.sum()) == total_weight([long, short]) == 5.0
