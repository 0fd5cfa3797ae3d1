"""Pack token sequences with a common beginning into one, so that the beginning is computed once.

Several questions about the same passages share the instruction and the passages. The packed sequence is the common
beginning followed by the rests; a mask lets each rest see the beginning and itself alone, and positions go on from the
beginning in each, so that every rest gets the result that it has in a sequence of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Encoded:
    """Hold one sample: token ids, which of them the model writes, and the sample's weight."""

    ids: tuple[int, ...]
    learn: tuple[bool, ...]
    weight: float = 1.0

    @property
    def num_learned(self) -> int:
        return sum(self.learn)


@dataclass(frozen=True, slots=True)
class Packed:
    """Hold a packed sequence of length n.

    ``ids``, ``positions``: int64 [1, n]. ``mask``: bool [1, 1, n, n], row attends to column. ``sources``: int64 [m],
    the places whose outputs predict ``targets``, int64 [m], with ``weights``, float32 [m].
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    sources: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor

    @property
    def num_tokens(self) -> int:
        return int(self.ids.shape[1])


def pack(samples: Sequence[Encoded]) -> Packed:
    """Pack samples; each token that is learned has its sample's weight over the root of the sample's learned tokens.

    The root keeps long answers from outweighing a decision of one token.
    """
    shared = _shared_length(samples)
    ids, positions, blocks = list(samples[0].ids[:shared]), list(range(shared)), [0] * shared
    sources: list[int] = []
    targets: list[int] = []
    weights: list[float] = []
    for number, sample in enumerate(samples, 1):
        offset = len(ids) - shared
        ids += sample.ids[shared:]
        positions += range(shared, len(sample.ids))
        blocks += [number] * (len(sample.ids) - shared)
        weight = sample.weight / max(1, sample.num_learned) ** 0.5
        for place in range(shared, len(sample.ids)):
            if sample.learn[place]:
                sources.append(place - 1 + offset if place > shared else shared - 1)
                targets.append(sample.ids[place])
                weights.append(weight)
    return Packed(
        ids=torch.tensor([ids]),
        positions=torch.tensor([positions]),
        mask=_mask(torch.tensor(blocks)),
        sources=torch.tensor(sources),
        targets=torch.tensor(targets),
        weights=torch.tensor(weights),
    )


def total_weight(samples: Sequence[Encoded]) -> float:
    """Return the sum of the weights of all learned tokens."""
    return sum(one.weight * math.sqrt(one.num_learned) for one in samples)


def _mask(blocks: torch.Tensor) -> torch.Tensor:
    same = (blocks[:, None] == blocks[None, :]) | (blocks[None, :] == 0)
    return torch.tril(same)[None, None]


def _shared_length(samples: Sequence[Encoded]) -> int:
    """Return how many first tokens all samples share; none of them is learned, and each sample has more."""
    first = samples[0].ids
    most = min(min(len(one.ids) - 1, one.learn.index(True)) for one in samples)
    for place in range(most):
        if any(one.ids[place] != first[place] for one in samples):
            return place
    return most
