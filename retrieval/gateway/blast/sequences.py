"""Parse the sequences of a Put request's QUERY: bare letters or FASTA, one or several, checked for their molecule.

Pure functions, no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

Molecule = Literal["nucl", "prot"]
SHORT_QUERY: Final = 30  # letters; up to this length the URL API adjusts a search to short queries
MIN_LETTERS: Final = {"nucl": 10, "prot": 5}
MAX_LETTERS: Final = 100_000  # of all queries of a Put together
MAX_QUERIES: Final = 50
_MAX_TITLE: Final = 200
_LETTERS: Final = {
    "nucl": re.compile(r"[ACGTUNRYKMSWBDHV]+", re.IGNORECASE),
    "prot": re.compile(r"[ABCDEFGHIJKLMNOPQRSTUVWXYZ*-]+", re.IGNORECASE),
}
_BASES_ONLY: Final = re.compile(r"[ACGTUN]{20,}", re.IGNORECASE)
_IDENTIFIER: Final = re.compile(r"(?:[A-Z]{1,4}_?\d{5,9}|[A-Z]{2}_[A-Z]{4}\d{6,9})(?:\.\d{1,3})?", re.IGNORECASE)
_LAYOUT: Final = re.compile(r"(?<!\S)\d+(?!\S)|\s+")  # blanks, and the line numbers of GenBank's layout
_LINE_END: Final = re.compile(r"\r\n?|\n")
_UNREADABLE: Final = "Message ID#24 Error: Failed to read the Blast query: "
_WRONG_MOLECULE: Final = {
    "nucl": "Protein FASTA provided for nucleotide sequence",
    "prot": "Nucleotide FASTA provided for protein sequence",
}
_NAMES: Final = {"nucl": "Nucleotide", "prot": "Protein"}


@dataclass(frozen=True, slots=True)
class QuerySequence:
    """Hold one query sequence.

    ``title``: printable ASCII without line breaks, may be ""; ``letters``: IUPAC letters, upper case unless the
    client's lower case is preserved.
    """

    title: str
    letters: str


def read_sequences(text: str, molecule: Molecule, *, keep_case: bool = False) -> tuple[QuerySequence, ...]:
    """Parse the sequences of a Put request.

    Raises:
        ValueError: a sequence cannot be searched with; the message is NCBI's where NCBI has one.
    """
    entries = _entries(text)
    if len(entries) > MAX_QUERIES:
        raise ValueError(f"Error: the query holds {len(entries)} sequences, {MAX_QUERIES} are allowed")
    found = tuple(
        QuerySequence(title, letters if keep_case else letters.upper())
        for title, letters in ((title, _letters(body, molecule)) for title, body in entries)
    )
    total = sum(len(sequence.letters) for sequence in found)
    if total > MAX_LETTERS:
        raise ValueError(f"Error: the query has {total} letters, {MAX_LETTERS} are allowed")
    return found


def _entries(text: str) -> list[tuple[str, str]]:
    """Return (title, body) of each FASTA entry; letters before the first ">" are an entry without title."""
    entries: list[tuple[str, list[str]]] = []
    for line in _LINE_END.split(text.strip()):
        if not line:
            continue
        if line.startswith(">"):
            entries.append((_title(line[1:]), []))
        elif entries:
            entries[-1][1].append(line)
        else:
            entries.append(("", [line]))
    if not entries:
        raise ValueError(f"{_UNREADABLE}Sequence contains no data")
    return [(title, "\n".join(body)) for title, body in entries]


def _title(text: str) -> str:
    ascii_text = text.encode("ascii", "replace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in ascii_text).split())[:_MAX_TITLE]


def _letters(body: str, molecule: Molecule) -> str:
    letters = _LAYOUT.sub("", body)
    if not letters:
        raise ValueError(f"{_UNREADABLE}Sequence contains no data")
    if _IDENTIFIER.fullmatch(letters):
        raise ValueError("Error: the query is an identifier; records are not looked up here, send the sequence itself")
    if not _LETTERS[molecule].fullmatch(letters):
        if molecule == "nucl" and _LETTERS["prot"].fullmatch(letters):
            raise ValueError(f"{_UNREADABLE}{_WRONG_MOLECULE['nucl']}")
        raise ValueError(f"{_UNREADABLE}{_NAMES[molecule]} FASTA provided is not valid")
    if molecule == "prot" and not (letters := letters.replace("-", "")):  # blast+ skips gaps, too
        raise ValueError(f"{_UNREADABLE}Sequence contains no data")
    if molecule == "prot" and _BASES_ONLY.fullmatch(letters):
        raise ValueError(f"{_UNREADABLE}{_WRONG_MOLECULE['prot']}")
    if len(letters) < MIN_LETTERS[molecule]:
        raise ValueError(f"Error: the query has {len(letters)} letters, at least {MIN_LETTERS[molecule]} are needed")
    return letters.translate(_URACIL) if molecule == "nucl" else letters


_URACIL: Final = str.maketrans("Uu", "Tt")
