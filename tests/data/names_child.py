"""Builds an index of names in a process of its own. Arguments: folder, and "kill" to die in the midst of it.

Prints how many batches it encoded, and a name that it finds again. Run with this folder and the checkout's on
PYTHONPATH."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from graph_names import NamesStore, node

from models.encoders.base import Floats, PassageText, Progress
from models.encoders.hashing import HashingEncoder
from retrieval.graph.linking.vector_lookup import build_nearest

STORE = NamesStore([node("Disease", "DOID:2", "rheumatoid arthritis"), node("Disease", "DOID:3", "psoriasis")])


class SlowEncoder(HashingEncoder):
    """``batches`` of passages; each takes long enough for another process to come."""

    def __init__(self, falls: bool) -> None:
        super().__init__(2_048)
        self.batches = 0
        self._falls = falls

    def encode_passages(self, passages: Sequence[PassageText], *, progress: Progress | None = None) -> Floats:
        self.batches += 1
        if self._falls:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.3)
        return super().encode_passages(passages, progress=progress)


if __name__ == "__main__":
    encoder = SlowEncoder(falls="kill" in sys.argv)
    found = replace(build_nearest(STORE, encoder, Path(sys.argv[1])), floor=0.1)
    (guess,) = found.guess(["psoriasis"])
    sys.stdout.write(f"{encoder.batches} {guess.name.name if guess else ''}\n")
    found.close()
