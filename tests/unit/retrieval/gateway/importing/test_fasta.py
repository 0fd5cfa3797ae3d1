"""FASTA files before a BLAST database is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ncbi_files import saved

from retrieval.errors import ImportFileError
from retrieval.formats.items import Bad
from retrieval.formats.sources import Source
from retrieval.gateway.importing import fasta
from retrieval.gateway.importing.fasta import FastaSequence
from scripts.samples import sequences
from scripts.samples.world import World, disease


def _read(path: Path, *, chunk: int = 2**18, skip: int = 0) -> list[FastaSequence | Bad]:
    return list(fasta.read(Source(path, chunk=chunk), skip))


@pytest.mark.parametrize("molecule", ["nucleotide", "protein"])
@pytest.mark.parametrize("width", [0, 60])
def test_sequences_come_back_as_they_were_written(tmp_path: Path, molecule: str, width: int) -> None:
    """On one line or many, whatever the size of the chunks."""
    path = tmp_path / "sequences.fa.gz"
    sequences.write_fasta(path, World(), 40, molecule, width)
    found = _read(path)
    assert found == _read(path, chunk=64)
    assert found[3:] == _read(path, skip=3)
    lines = 1
    for index, item in enumerate(found):
        assert isinstance(item, FastaSequence)
        assert item.identifier == f"XX_{900_000 + index}.1"
        assert item.title == f"{disease(index)} [Homo fictus]"
        assert (item.length, item.molecule, item.line) == (sequences.length(index), molecule, lines)
        lines += 1 + (-(-item.length // width) if width else 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (">a\nACG7\n", "'a': '7' in line 3 is no letter of a protein sequence"),
        (">a\nACGT\nACGTACGTACGTACGEACGT\n", "'a': 'E' in line 4 is no letter of a nucleotide sequence"),
        (">a\nMKWé\n", "is no letter of a protein sequence"),
        (">a only a title\n\n", "'a' has no sequence"),
        (">\nACGT\n", "no identifier follows the >"),
        ("> a\nACGT\n", "no identifier follows the >"),
    ],
)
def test_a_faulty_sequence_is_told_and_the_next_one_read(tmp_path: Path, text: str, reason: str) -> None:
    """With the line of its title; the line of the letter is in the reason."""
    first, second = _read(saved(tmp_path / "file.fa", text.replace(">", "\n>", 1) + ">b\nACGT\n"))
    assert isinstance(first, Bad)
    assert first.line == 2
    assert reason in first.reason
    assert isinstance(second, FastaSequence)


def test_codes_for_several_bases_and_gaps_are_letters(tmp_path: Path) -> None:
    """Small ones too; a few do not make a protein of a genome. Windows line ends are none."""
    (item,) = _read(saved(tmp_path / "file.fa", ">a\r\n" + "acgtn" * 20 + "RY-\r\nACGU\r\n"))
    assert isinstance(item, FastaSequence)
    assert (item.length, item.molecule) == (107, "nucleotide")


@pytest.mark.parametrize("text", ["", "\n\n", "ACGT\n", "LOCUS       X\n"])
def test_what_does_not_begin_with_a_title_is_no_fasta(tmp_path: Path, text: str) -> None:
    """Nor is an empty file."""
    with pytest.raises(ImportFileError):
        _read(saved(tmp_path / "file.fa", text))


def test_a_chromosome_on_one_line_takes_no_memory(tmp_path: Path) -> None:
    """Such lines are longer than those of any table; a title is not."""
    (item,) = _read(saved(tmp_path / "file.fa.gz", ">chr1\n" + "ACGT" * 5_000_000))
    assert isinstance(item, FastaSequence)
    assert item.length == 20_000_000
    with pytest.raises(ImportFileError, match="the title is longer than"):
        _read(saved(tmp_path / "file.fa.gz", ">" + "x" * 3_000_000))
