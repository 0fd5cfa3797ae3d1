"""Build a BLAST database from FASTA files with makeblastdb beside the old one, which it then replaces.

The text streams through makeblastdb's standard input, checked; nothing is unpacked to disk. Knows nothing of searches.
makeblastdb stops at an identifier it cannot parse, and drops unknown letters with only a note. Here an unusual
identifier is rewritten (the original stays in the title), and a wrong letter is an error that names its line.
"""

from __future__ import annotations

import contextlib
import datetime
import gzip
import hashlib
import io
import re
import shutil
import subprocess
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final, Literal

from retrieval.errors import BLAST_DATABASE, GatewayDataError
from retrieval.gateway.blast.databases.catalog import (
    DESCRIPTION,
    NAME,
    BlastDatabase,
    SourceFile,
    describe,
    read_database,
)
from retrieval.gateway.blast.parameters import Molecule
from retrieval.gateway.blast.process import (
    environment,
    error_message,
    kill_group,
    missing_programs,
    with_parent_death_signal,
)
from retrieval.storage.files import build_lock, create_draft, make_folder, recover, replace_folder

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
DEFAULT_TIMEOUT_S: Final = 6 * 3600.0
_LOCK_WAIT_S: Final = 10.0
_SHORT_RUN_S: Final = 60.0
_MAX_OUTPUT: Final = 8192
_MAX_TITLE: Final = 200
_TAXIDS: Final = "taxids.map"
_BAD_IDENTIFIER: Final = re.compile(r"duplicate seq_?ids|seq-?id|CSeqIdException|local id|sequence id", re.IGNORECASE)
_VERSION: Final = re.compile(r"makeblastdb: (\S+)")
_COUNTS: Final = re.compile(r"([\d,]+) sequences; ([\d,]+) total")


class _IdentifierError(GatewayDataError):
    """Signal that makeblastdb rejects the identifiers, most often because one is duplicated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BuildRequest:
    fasta: tuple[Path, ...]
    name: str
    title: str
    molecule: Molecule
    taxids: Taxids
    timeout_s: float


def build_blast_database(
    fasta: Sequence[Path],
    directory: Path,
    *,
    name: str,
    title: str,
    molecule: Molecule,
    taxids: Taxids = None,
    default: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> BlastDatabase:
    """Build ``directory/name`` from FASTA files, plain or gzip, and replace an existing database of that name.

    ``taxids``: one NCBI Taxonomy ID for all, a mapping by identifier or accession, or "uniprot" for the OX= field of
    UniProt's titles; without them searches cannot be restricted to organisms. ``default``: the database answers for
    NCBI's usual names. A kill at any moment leaves the old database or the new one; running searches finish on the
    database they started with or are run again.

    Raises:
        GatewayDataError: the name is invalid, a file cannot be read or is not FASTA of the molecule, makeblastdb
            fails, the time limit is exceeded, or another process builds the same database. The old one is unchanged.
    """
    order = _BuildRequest(
        fasta=tuple(fasta),
        name=name,
        title=_plain(title) or name,
        molecule=molecule,
        taxids=taxids,
        timeout_s=timeout_s,
    )
    _check(order)
    try:
        make_folder(directory)
        _replace_target(order, directory / name, default=default)
    except TimeoutError as error:
        raise GatewayDataError(f"BLAST database {error}", BLAST_DATABASE) from error
    except OSError as error:
        raise GatewayDataError(f"BLAST database {name}: cannot be written: {error.strerror}", BLAST_DATABASE) from error
    return read_database(directory / name)


def _replace_target(order: _BuildRequest, target: Path, *, default: bool) -> None:
    with build_lock(target, _LOCK_WAIT_S):
        recover(target)
        draft = create_draft(target)
        try:
            database = replace(_build(order, draft), default=default)
            (draft / DESCRIPTION).write_text(describe(database, _sizes(draft)), encoding="utf-8")
            replace_folder(draft, target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _check(order: _BuildRequest) -> None:
    if not NAME.match(order.name):
        raise GatewayDataError(
            f"BLAST database: a name is {NAME.pattern[:-2]}, not {order.name[:70]!r}", BLAST_DATABASE
        )
    if order.molecule not in ("nucl", "prot"):
        raise GatewayDataError(f"BLAST database {order.name}: the molecule is nucl or prot", BLAST_DATABASE)
    if not order.fasta:
        raise GatewayDataError(f"BLAST database {order.name}: no FASTA file was given", BLAST_DATABASE)
    if reason := missing_programs(("makeblastdb", "blastdbcmd")):
        raise GatewayDataError(f"BLAST database {order.name}: {reason}", BLAST_DATABASE)


def _plain(title: str) -> str:
    text = title.encode("ascii", "replace").decode()
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).lstrip("-")[:_MAX_TITLE]


def _build(order: _BuildRequest, draft: Path) -> BlastDatabase:
    """Build the volumes; number the identifiers only if makeblastdb rejects the original ones."""
    try:
        return _volumes(order, draft, numbered=False)
    except _IdentifierError:
        for path in draft.iterdir():
            path.unlink()
        return _volumes(order, draft, numbered=True)


def _volumes(order: _BuildRequest, draft: Path, *, numbered: bool) -> BlastDatabase:
    arguments = ["makeblastdb", "-in", "-", "-input_type", "fasta", "-dbtype", order.molecule, "-parse_seqids"]
    arguments += ["-blastdb_version", "5", "-title", order.title, "-out", order.name]
    if isinstance(order.taxids, int):
        arguments += ["-taxid", str(order.taxids)]
    elif order.taxids is not None:
        with (draft / _TAXIDS).open("w", encoding="ascii") as file:
            file.writelines(taxid_lines(order.fasta, order.taxids, numbered=numbered))
        arguments += ["-taxid_map", _TAXIDS]
    totals = FastaTotals()
    text = fasta_text(order.fasta, order.molecule, totals, numbered=numbered)
    status, output = _piped(arguments, text, draft, order.timeout_s)
    if status != 0:
        kind = _IdentifierError if not numbered and _BAD_IDENTIFIER.search(output) else GatewayDataError
        reason = error_message(output.encode()) or f"exit status {status}"
        raise kind(f"BLAST database {order.name}: makeblastdb failed: {reason}", BLAST_DATABASE)
    (draft / _TAXIDS).unlink(missing_ok=True)
    _compare_counts(order, draft, totals)
    return BlastDatabase(
        name=order.name,
        title=order.title,
        molecule=order.molecule,
        folder=draft,
        sequences=totals.sequences,
        letters=totals.letters,
        sources=tuple(totals.sources),
        made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        made_with=_version(draft),
        taxids=order.taxids is not None,
        numbered=numbered,
    )


def _piped(arguments: Sequence[str], text: Iterable[bytes], folder: Path, timeout_s: float) -> tuple[int, str]:
    """Return the exit status and the end of the program's output.

    Raises:
        GatewayDataError: the program exceeds its time limit.
    """
    process = subprocess.Popen(
        with_parent_death_signal(arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=environment(),
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    output: list[bytes] = [b""]
    reader = threading.Thread(target=_keep_end, args=(process.stdout, output), daemon=True)
    timer = threading.Timer(timeout_s, kill_group, args=(process.pid,))
    try:
        reader.start()
        timer.start()
        with contextlib.suppress(BrokenPipeError), process.stdin:
            for block in text:
                process.stdin.write(block)
        # The reader ends with the program, which is waited for only afterwards, so that its PID is not reused before.
        reader.join()
    finally:
        on_time = timer.is_alive()
        timer.cancel()
        if reader.is_alive():
            kill_group(process.pid)
        process.wait()
        process.stdout.close()
    if not on_time:
        raise GatewayDataError(f"{arguments[0]} ran longer than {timeout_s:g} s", BLAST_DATABASE)
    return process.returncode, output[0].decode(errors="replace")


def _keep_end(stream: IO[bytes], output: list[bytes]) -> None:
    with contextlib.suppress(ValueError, OSError):
        while chunk := stream.read1(65_536):  # type: ignore[attr-defined]
            output[0] = (output[0] + chunk)[-_MAX_OUTPUT:]


def _compare_counts(order: _BuildRequest, draft: Path, totals: FastaTotals) -> None:
    """Compare the counts sent with those that blastdbcmd reads back, so that no unreadable database is installed."""
    status, info = _piped(("blastdbcmd", "-db", order.name, "-info", "-exact_length"), (), draft, _SHORT_RUN_S)
    counts = _COUNTS.search(info)
    if status != 0 or counts is None:
        raise GatewayDataError(
            f"BLAST database {order.name}: it cannot be read back: {error_message(info.encode())}", BLAST_DATABASE
        )
    found = tuple(int(count.replace(",", "")) for count in counts.groups())
    if found != (totals.sequences, totals.letters):
        raise GatewayDataError(
            f"BLAST database {order.name}: {found[0]} sequences of {found[1]} letters were written, "
            f"{totals.sequences} of {totals.letters} were read",
            BLAST_DATABASE,
        )


def _version(folder: Path) -> str:
    _, text = _piped(("makeblastdb", "-version"), (), folder, _SHORT_RUN_S)
    found = _VERSION.search(text)
    return found[1] if found else ""


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


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
        GatewayDataError: a file cannot be read or is not FASTA of the molecule; the message names file and line.
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
            raise GatewayDataError(
                f"{path.name}:{number}: the title is longer than {_MAX_DEFLINE} bytes", BLAST_DATABASE
            )
        in_defline = False
        if line.translate(None, allowed):
            raise GatewayDataError(f"{path.name}:{number}: {_invalid_letter(line, molecule)}", BLAST_DATABASE)
        content = line.translate(None, _BLANKS)
        if content and open_line == 0:
            raise GatewayDataError(
                f"{path.name}:{number}: no FASTA: sequence before the first title line", BLAST_DATABASE
            )
        totals.letters += len(content)
        yield content + b"\n" if content else b""
    _check_not_empty(path, letters_before == totals.letters, open_line)
    totals.sources.append(SourceFile(path.name, hashing[0]))


def _check_not_empty(path: Path, is_empty: bool, line: int) -> None:
    if is_empty:
        raise GatewayDataError(f"{path.name}:{line}: a sequence without letters", BLAST_DATABASE)


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
        raise GatewayDataError(f"{path.name}: the gzip file is cut off or damaged", BLAST_DATABASE) from error
    except OSError as error:
        raise GatewayDataError(f"{path.name}: cannot be read: {error.strerror}", BLAST_DATABASE) from error


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
