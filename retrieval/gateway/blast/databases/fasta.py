"""Stream FASTA files as the text that makeblastdb reads, checked and with identifiers it accepts.

makeblastdb stops at an identifier it cannot parse, and drops unknown letters with only a note. Here an unusual
identifier is rewritten (the original stays in the title), and a wrong letter is an error that names its line.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Literal

from retrieval.errors import BlastDatabaseError
from retrieval.gateway.blast.databases.catalog import SourceFile
from retrieval.gateway.blast.sequences import Molecule

_BLOCK: Final = 1024 * 1024
_MAX_DEFLINE: Final = 1024 * 1024
_ALLOWED: Final = {
    "nucl": b"ACGTUNRYKMSWBDHVacgtunrykmswbdhv\r\n \t",
    "prot": b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*-\r\n \t",
}
_BLANKS: Final = b"\r\n \t"
_LOCAL: Final = re.compile(r"[A-Za-z0-9_.:#*+=@-]{1,50}\Z")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.:#*+=@-]")
_WORD: Final = r"[A-Za-z0-9_.-]{1,40}"
_ACCESSION: Final = re.compile(
    rf"(?:gi\|\d{{1,18}}\|)?(?:gb|emb|dbj|ref|sp|tr|tpg|tpe|tpd)\|({_WORD})(?:\|[A-Za-z0-9_.:-]{{0,40}})?\Z"
    rf"|gnl\|{_WORD}\|({_WORD})\Z|pdb\|([A-Za-z0-9]{{4}})\|[A-Za-z0-9]{{1,4}}\Z|lcl\|{_WORD}\Z"
)
_LOOKS_LIKE_LETTERS: Final = re.compile(r"[ACGTUNacgtun]{15,}\Z")
_MAX_LOCAL: Final = 50
_OX: Final = re.compile(r"\bOX=(\d{1,9})\b")

Taxids = int | Mapping[str, int] | Literal["uniprot"] | None


@dataclass(slots=True)
class FastaTotals:
    """Collect counts and sources while the text is read; they are complete at its end."""

    sequences: int = 0
    letters: int = 0
    sources: list[SourceFile] = field(default_factory=list)


class _Hashing(io.RawIOBase):
    """Compute a file's digest while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self.digest.update(data)
        return len(data)


def fasta_text(
    paths: Sequence[Path], molecule: Molecule, totals: FastaTotals, *, numbered: bool = False
) -> Iterator[bytes]:
    """Yield the text in blocks of about a megabyte.

    ``numbered`` gives every sequence its own identifier, for files with duplicates.

    Raises:
        BlastDatabaseError: a file cannot be read or is not FASTA of the molecule; the message names file and line.
    """
    block = bytearray()
    for path in paths:
        for piece in _pieces(path, molecule, totals, numbered):
            block += piece
            if len(block) >= _BLOCK:
                yield bytes(block)
                block.clear()
    yield bytes(block)


def taxid_lines(
    paths: Sequence[Path], taxids: Mapping[str, int] | Literal["uniprot"], *, numbered: bool
) -> Iterator[str]:
    """Yield ``identifier taxid`` lines for makeblastdb.

    A mapping is looked up by the identifier as it stands in the FASTA, by its accession, and by the accession without
    version; "uniprot" reads UniProt's OX= field.
    """
    number = 0
    for path in paths:
        for line, _, starts in _lines(path, hashing=None):
            if not starts or not line.startswith(b">"):
                continue
            number += 1
            token, title = _titles(line)[0]
            taxid = _ox_taxid(title) if isinstance(taxids, str) else _mapped(token, taxids)
            if taxid is not None:
                identifier, _ = _identified(token, title, number if numbered else None, number)
                yield f"{_accession(identifier)} {taxid}\n"


def _pieces(path: Path, molecule: Molecule, totals: FastaTotals, numbered: bool) -> Iterator[bytes]:
    allowed, letters_before, open_line = _ALLOWED[molecule], -1, 0
    hashing: list[str] = []
    in_defline = False
    for line, number, starts in _lines(path, hashing):
        if starts and line.startswith(b">"):
            _check_not_empty(path, letters_before == totals.letters, open_line)
            totals.sequences += 1
            letters_before, open_line = totals.letters, number
            yield _defline(line, totals.sequences, numbered)
            in_defline = True
            continue
        if in_defline and not starts:
            raise BlastDatabaseError(f"{path.name}:{number}: the title is longer than {_MAX_DEFLINE} bytes")
        in_defline = False
        if line.translate(None, allowed):
            raise BlastDatabaseError(f"{path.name}:{number}: {_invalid_letter(line, molecule)}")
        content = line.translate(None, _BLANKS)
        if content and open_line == 0:
            raise BlastDatabaseError(f"{path.name}:{number}: no FASTA: sequence before the first title line")
        totals.letters += len(content)
        yield content + b"\n" if content else b""
    _check_not_empty(path, letters_before == totals.letters, open_line)
    totals.sources.append(SourceFile(path.name, hashing[0]))


def _check_not_empty(path: Path, is_empty: bool, line: int) -> None:
    if is_empty:
        raise BlastDatabaseError(f"{path.name}:{line}: a sequence without letters")


def _invalid_letter(line: bytes, molecule: Molecule) -> str:
    wrong = line.translate(None, _ALLOWED[molecule])[:1].decode("ascii", "replace")
    what = "nucleotide" if molecule == "nucl" else "protein"
    return f"{wrong!r} is no letter of a {what} sequence"


def _lines(path: Path, hashing: list[str] | None) -> Iterator[tuple[bytes, int, bool]]:
    """Yield (bytes, line number, whether a line starts here) in pieces of bounded length.

    gzip is recognized by its first bytes.
    """
    try:
        with path.open("rb") as file:
            reader = _Hashing(file)
            buffered = io.BufferedReader(reader, _BLOCK)
            is_gzip = buffered.peek(2)[:2] == b"\x1f\x8b"
            stream: IO[bytes] = gzip.GzipFile(fileobj=buffered) if is_gzip else buffered  # type: ignore[assignment]
            number, starts = 1, True
            while piece := stream.readline(_MAX_DEFLINE):
                yield piece, number, starts
                starts = piece.endswith(b"\n")
                number += starts
            while buffered.read(_BLOCK):  # what follows the gzip stream belongs to the file's digest
                pass
            if hashing is not None:
                hashing.append(reader.digest.hexdigest())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BlastDatabaseError(f"{path.name}: the gzip file is cut off or damaged") from error
    except OSError as error:
        raise BlastDatabaseError(f"{path.name}: cannot be read: {error.strerror}") from error


def _defline(line: bytes, number: int, numbered: bool) -> bytes:
    parts = _titles(line)
    if numbered:
        token, title = parts[0]
        more = "".join(f" ; {t} {rest}" for t, rest in parts[1:])
        identifier, title = _identified(token, title + more, number, number)
        return f">{identifier} {title}".rstrip().encode() + b"\n"
    written = (" ".join(_identified(token, title, None, number)) for token, title in parts)
    return b">" + b"\x01".join(text.rstrip().encode() for text in written) + b"\n"


def _titles(line: bytes) -> list[tuple[str, str]]:
    """Return the (identifier, title) pairs of a title line, at least one.

    Ctrl-A separates the titles of one sequence's several records, as in NCBI's nr.
    """
    parts = (_split(_ascii(part)) for part in line[1:].split(b"\x01"))
    return [part for part in parts if any(part)] or [("", "")]


def _ascii(text: bytes) -> str:
    decoded = text.decode("utf-8", "replace").encode("ascii", "replace").decode()
    return "".join(c if c.isprintable() else " " for c in decoded)


def _split(defline: str) -> tuple[str, str]:
    """Return the first word of a title line and the rest."""
    token, _, title = defline.strip().partition(" ")
    return token, " ".join(title.split())


def _identified(token: str, title: str, suffix: int | None, number: int) -> tuple[str, str]:
    """Return an identifier that makeblastdb can parse, and the title, which keeps a changed original."""
    if suffix is None and (_ACCESSION.match(token) or (_LOCAL.match(token) and not _LOOKS_LIKE_LETTERS.search(token))):
        return token, title
    full_title = f"{token} {title}".strip()
    base = _UNSAFE.sub("_", next((part for part in token.split("|") if part), "")) or f"sequence{number}"
    if suffix is not None:
        ending = f"_{suffix}"
    elif _LOOKS_LIKE_LETTERS.search(base) or len(base) > _MAX_LOCAL:
        ending = "_" + hashlib.sha256(token.encode()).hexdigest()[:8]
    else:
        ending = ""
    return f"lcl|{base[: _MAX_LOCAL - len(ending)]}{ending}", full_title


def _accession(identifier: str) -> str:
    """Return what blast+ calls the accession of an identifier."""
    if identifier.startswith("lcl|"):
        return identifier[4:]
    found = _ACCESSION.match(identifier)
    return next((part for part in found.groups() if part), identifier) if found else identifier


def _mapped(token: str, taxids: Mapping[str, int]) -> int | None:
    accession = _accession(token)
    for key in (token, accession, accession.rpartition(".")[0]):
        if key in taxids:
            return taxids[key]
    return None


def _ox_taxid(title: str) -> int | None:
    found = _OX.search(title)
    return int(found[1]) if found else None
