"""Adds documents to a namespace and kills itself on the way, as a power cut would. Arguments: root, moment, turn.

Run with this folder and the checkout's on PYTHONPATH."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from corpus_doubles import FolderVectors, WordEncoder, backends
from corpus_files import reading

from models.encoders.base import Encoder
from retrieval.corpus.ingest.add import ChangeHooks, Progress, add_items
from retrieval.corpus.items import Item
from retrieval.corpus.namespaces.registry import Namespaces

DOCUMENTS = 600


def documents(word: str = "first") -> list[Item]:
    """Two passages each."""
    return [
        reading(f"PMID:{n}", f"The {word} words of {n}.", f"More of number {n}.", title=f"T{n}")
        for n in range(DOCUMENTS)
    ]


def main(root: Path, moment: str, turn: int) -> None:
    left = [turn]

    def fall() -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(_: Progress) -> None:
        if moment == "written":
            fall()

    class Falling(FolderVectors):
        def commit(self) -> int:
            if moment == "before commit":
                fall()
            number = super().commit()
            if moment == "after commit":
                fall()
            return number

    encoder = WordEncoder()
    if moment == "encoding":
        encoder.before = fall

    def opened(folder: Path, made: Encoder, write: bool) -> FolderVectors:
        return Falling(folder, made.dim, write)

    namespaces = Namespaces(root, replace(backends(encoder), vectors=opened))
    add_items(namespaces, "ns", documents("second" if moment == "update" else "first"), ChangeHooks(progress=heard))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
