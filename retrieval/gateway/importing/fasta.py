"""Validate a FASTA file before a BLAST database is built from it, as a stream: a line may be a whole chromosome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from retrieval.formats.items import Bad, bad, shown
from retrieval.formats.sources import Source

Molecule = Literal["nucleotide", "protein"]
# The letters of NCBI's BLAST help: IUPAC's codes, the gap, and for proteins U, O, J and the stop.
_NUCLEOTIDE: Final = b"ACGTURYKMSWBDHVNacgturykmswbdhvn-"
_PROTEIN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*-"
_BASES: Final = b"ACGTUNacgtun"
_BLANK: Final = b" \t\r\n\v\f"
_MAX_TITLE: Final = 2**20
_SHARE_OF_BASES: Final = 0.9


@dataclass(frozen=True, slots=True)
class FastaSequence:
    """Describe one sequence of a FASTA file.

    ``line`` is that of the title; ``length`` counts letters; ``molecule`` is inferred from the letters.
    """

    line: int
    identifier: str
    title: str
    length: int
    molecule: Molecule


def read(source: Source, skip: int = 0) -> Iterator[FastaSequence | Bad]:
    """Yield one item for each title line.

    An item is Bad without letters, without an identifier, or with a letter that stands for no residue. A sequence
    counts as nucleotides if at least 90 % of its letters are A, C, G, T, U or N. Duplicate identifiers are not
    detected.

    Raises:
        ImportFileError: the file does not begin with a title.
    """
    yield from islice(_sequences(source), skip, None)


def _sequences(source: Source) -> Iterator[FastaSequence | Bad]:
    current: _Tally | None = None
    for line, is_start, piece in _pieces(source):
        if is_start and piece.startswith(b">"):
            if current is not None:
                yield current.item()
            current = _Tally(line, piece[1:])
        elif current is None:
            if piece.strip():
                raise source.error(f"this is no FASTA: a line with > was expected, not {shown(_text(piece))}", line)
        else:
            current.add(line, piece)
    if current is None:
        raise source.error("the file is empty; FASTA was expected")
    yield current.item()


def _pieces(source: Source) -> Iterator[tuple[int, bool, bytes]]:
    """Yield (line, whether the line begins here, text): titles whole, sequence lines in chunks."""
    line, is_start, title = 1, True, b""
    for chunk in source.chunks():
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield line, is_start, title + part
            line, is_start, title = line + 1, True, b""
        if is_start and (title + rest).startswith(b">"):
            title += rest
            if len(title) > _MAX_TITLE:
                raise source.error(f"the title is longer than {_MAX_TITLE} bytes", line)
        elif rest:
            yield line, is_start, rest
            is_start = False
    if title:
        yield line, True, title


class _Tally:
    def __init__(self, line: int, title: bytes) -> None:
        self._line = line
        self._identifier, _, self._title = _text(title).strip().partition(" ")
        self._blank_first = title[:1].isspace() or not title.strip()
        self._length = self._bases = 0
        self._no_nucleotide = self._no_residue = ""

    def add(self, line: int, piece: bytes) -> None:
        letters = piece.translate(None, _BLANK)
        self._length += len(letters)
        self._bases += len(letters) - len(letters.translate(None, _BASES))
        if not self._no_nucleotide and (wrong := letters.translate(None, _NUCLEOTIDE)):
            self._no_nucleotide = f"{shown(_text(wrong[:1]))} in line {line} is no letter"
        if not self._no_residue and (wrong := letters.translate(None, _PROTEIN)):
            self._no_residue = f"{shown(_text(wrong[:1]))} in line {line} is no letter"

    def item(self) -> FastaSequence | Bad:
        if self._blank_first:
            return bad(self._line, "no identifier follows the >")
        if not self._length:
            return bad(self._line, f"{shown(self._identifier)} has no sequence")
        molecule: Molecule = "nucleotide" if self._bases >= _SHARE_OF_BASES * self._length else "protein"
        wrong = self._no_residue or (self._no_nucleotide if molecule == "nucleotide" else "")
        if wrong:
            return bad(self._line, f"{shown(self._identifier)}: {wrong} of a {molecule} sequence")
        return FastaSequence(self._line, self._identifier, self._title.strip(), self._length, molecule)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
