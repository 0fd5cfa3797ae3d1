"""Keep the samples of a run in one file, so that a machine can train that has neither their texts nor their makers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from scripts.training.packing import Encoded

Step = Sequence[Sequence[Encoded]]


def write_steps(file: Path, steps: Iterable[Step]) -> None:
    """Write steps of groups of samples. What a sample begins with as the one before it does is kept once."""
    tokens: list[np.ndarray] = []
    learned: list[np.ndarray] = []
    samples: list[tuple[int, int, int, int]] = []
    weights: list[float] = []
    for number, step in enumerate(steps):
        for place, group in enumerate(step):
            before: Encoded | None = None
            for one in group:
                same = 0 if before is None else _same(before, one)
                tokens.append(np.asarray(one.ids[same:], np.uint32))
                learned.append(np.asarray(one.learn[same:], np.bool_))
                samples.append((number, place, same, len(one.ids) - same))
                weights.append(one.weight)
                before = one
    with file.open("wb") as out:
        np.savez_compressed(
            out,
            tokens=np.concatenate(tokens),
            learned=np.packbits(np.concatenate(learned)),
            samples=np.asarray(samples, np.int32),
            weights=np.asarray(weights, np.float32),
        )


class PreparedSteps:
    """Read what ``write_steps`` wrote."""

    def __init__(self, file: Path) -> None:
        with np.load(file) as arrays:
            self._tokens = arrays["tokens"]
            self._learned = np.unpackbits(arrays["learned"], count=len(self._tokens)).astype(bool)
            self._samples = arrays["samples"]
            self._weights = arrays["weights"]
        self._starts = np.concatenate(([0], np.cumsum(self._samples[:, 3])))
        self._first = np.searchsorted(self._samples[:, 0], np.arange(self._samples[-1, 0] + 2))

    def __len__(self) -> int:
        return len(self._first) - 1

    def groups(self, step: int) -> list[list[Encoded]]:
        """Return the groups of a step.

        Raises:
            IndexError: the file has no such step.
        """
        if not 0 <= step < len(self):
            raise IndexError(f"the file has {len(self)} steps, and no step {step}")
        found: dict[int, list[Encoded]] = {}
        for at in range(self._first[step], self._first[step + 1]):
            _, place, same, size = (int(value) for value in self._samples[at])
            group = found.setdefault(place, [])
            own = slice(self._starts[at], self._starts[at] + size)
            ids, learn = (group[-1].ids[:same], group[-1].learn[:same]) if group else ((), ())
            ids, learn = (*ids, *self._tokens[own].tolist()), (*learn, *self._learned[own].tolist())
            group.append(Encoded(ids, learn, float(self._weights[at])))
        return list(found.values())


def _same(one: Encoded, other: Encoded) -> int:
    """Return with how many equal tokens, none of them learned, two samples begin."""
    pairs = zip(one.ids, other.ids, one.learn, other.learn, strict=False)
    return next(
        (place for place, (a, b, la, lb) in enumerate(pairs) if a != b or la or lb), min(len(one.ids), len(other.ids))
    )
