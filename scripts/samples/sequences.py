"""Write FASTA: invented nucleotide or protein sequences, in lines of 60 or in one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.samples.packing import write_text
from scripts.samples.world import World, disease

_LETTERS: Final = {"nucleotide": "ACGT", "protein": "ACDEFGHIKLMNPQRSTVWY"}


def write_fasta(path: Path, world: World, sequences: int, molecule: str = "nucleotide", width: int = 60) -> int:
    """``width`` 0 puts each sequence on one line. Returns the number of sequences."""
    write_text(path, _lines(world, sequences, _LETTERS[molecule], width))
    return sequences


def length(index: int) -> int:
    return 50 + index * 37 % 900


def _lines(world: World, sequences: int, letters: str, width: int) -> Iterator[str]:
    rng = world.rng("fasta")
    for index in range(sequences):
        yield f">XX_{900_000 + index}.1 {disease(index)} [Homo fictus]\n"
        text = "".join(rng.choices(letters, k=length(index)))
        step = width or len(text)
        for at in range(0, len(text), step):
            yield text[at : at + step] + "\n"
