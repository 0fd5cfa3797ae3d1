"""Checks a FASTA file before a BLAST database is built of it. Streams: a line may be a whole chromosome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from retrieval.gateway.importing.items import Bad, bad, shown
from retrieval.gateway.importing.sources import Source

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
    """``line`` is the title's; ``length`` counts letters; ``molecule`` is a guess from the letters."""

    line: int
    identifier: str
    title: str
    length: int
    molecule: Molecule


def read(source: Source, skip: int = 0) -> Iterator[FastaSequence | Bad]:
    """One item for each title line. Bad: no letters, no identifier, or a letter that no residue has.

    A sequence is taken for nucleotides where nine letters in ten are A, C, G, T, U or N. Whether identifiers are
    distinct is not checked. ImportFileError where the file does not begin with a title.
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
    """(line, whether it begins here, text): titles whole, sequence lines in pieces."""
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
