"""Pack token sequences with a common beginning into one, so that the beginning is computed once.

Several questions about the same passages share the instruction and the passages. The packed sequence is the common
beginning followed by the rests; a mask lets each rest see the beginning and itself alone, and positions go on from the
beginning in each, so that every rest gets the result that it has in a sequence of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import torch

_ALIGNED: Final = 64


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
    """Hold b packed sequences of length n.

    ``ids``, ``positions``, ``blocks``: int64 [b, n]; a token's block is 0 in the common beginning, the number of its
    rest behind it, and -1 where a sequence is filled up. ``rows``, ``sources``: int64 [m], the sequences and the places
    in them whose outputs predict ``targets``, int64 [m], with ``weights``, float32 [m].
    """

    ids: torch.Tensor
    positions: torch.Tensor
    blocks: torch.Tensor
    rows: torch.Tensor
    sources: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor

    @property
    def num_tokens(self) -> int:
        return int(self.ids.shape[1])

    @property
    def mask(self) -> torch.Tensor:
        """Return which row attends to which column: bool [b, 1, n, n]."""
        rows, columns = self.blocks[:, None, :, None], self.blocks[:, None, None, :]
        return torch.tril((rows == columns) | (columns == 0))

    def to(self, device: str) -> Packed:
        return Packed(*(getattr(self, one.name).to(device, non_blocking=True) for one in fields(self)))


def stacked(sequences: Sequence[Packed]) -> Packed:
    """Return the sequences as one batch, each filled up behind its end; the length is a multiple of 64.

    Attention kernels want aligned rows.
    """
    length = -(-max(one.num_tokens for one in sequences) // _ALIGNED) * _ALIGNED
    ids, positions = torch.zeros((2, len(sequences), length), dtype=torch.int64)
    blocks = torch.full_like(ids, -1)
    for row, one in enumerate(sequences):
        for whole, own in ((ids, one.ids), (positions, one.positions), (blocks, one.blocks)):
            whole[row, : one.num_tokens] = own[0]
    rows = [torch.full_like(one.sources, row) for row, one in enumerate(sequences)]
    joined = (torch.cat([getattr(one, name) for one in sequences]) for name in ("sources", "targets", "weights"))
    return Packed(ids, positions, blocks, torch.cat(rows), *joined)


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
        blocks=torch.tensor([blocks]),
        rows=torch.zeros(len(sources), dtype=torch.int64),
        sources=torch.tensor(sources),
        targets=torch.tensor(targets),
        weights=torch.tensor(weights),
    )


def total_weight(samples: Sequence[Encoded]) -> float:
    """Return the sum of the weights of all learned tokens."""
    return sum(one.weight * math.sqrt(one.num_learned) for one in samples)


def _shared_length(samples: Sequence[Encoded]) -> int:
    """Return how many first tokens all samples share; none of them is learned, and each sample has more."""
    first = samples[0].ids
    most = min(min(len(one.ids) - 1, one.learn.index(True)) for one in samples)
    for place in range(most):
        if any(one.ids[place] != first[place] for one in samples):
            return place
    return most
