"""Builds a graph and kills itself on the way, as a power cut would. Arguments: root, files' folder, step, turn.

``step``: one that the build tells of, or "encode" for the encoder's turn-th batch. Run with this folder and the
checkout's on PYTHONPATH."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from models.encoders.base import Floats, PassageText, Progress
from models.encoders.hashing import HashingEncoder
from retrieval.graph.store.catalog import ImportRequest, build_graph

NAME = "invented"


class CountingEncoder(HashingEncoder):
    """Counts the texts it embeds; falls before the ``falls``-th batch."""

    def __init__(self, falls: int = 0) -> None:
        super().__init__(dim=32)
        self.texts = self.batches = 0
        self._falls = falls

    def encode_passages(self, passages: Sequence[PassageText], *, progress: Progress | None = None) -> Floats:
        self.batches += 1
        if self.batches == self._falls:
            os.kill(os.getpid(), signal.SIGKILL)
        self.texts += len(passages)
        return super().encode_passages(passages, progress=progress)


def order_of(folder: Path) -> ImportRequest:
    return ImportRequest(kind="tsv", files=(folder / "nodes.tsv", folder / "edges.tsv"), name=NAME)


def main(root: Path, folder: Path, step: str, turn: int) -> None:
    left = [turn]

    def told(heard: str, _: int) -> None:
        left[0] -= heard == step
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    build_graph(root, order_of(folder), CountingEncoder(turn if step == "encode" else 0), told)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
