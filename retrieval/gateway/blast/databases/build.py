"""Build a BLAST database from FASTA files with makeblastdb beside the old one, which it then replaces.

The text streams through makeblastdb's standard input; nothing is unpacked to disk. Knows nothing of searches.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from retrieval.errors import BlastDatabaseError
from retrieval.gateway.blast.databases.catalog import DESCRIPTION, NAME, BlastDatabase, describe, read_database
from retrieval.gateway.blast.databases.fasta import FastaTotals, Taxids, fasta_text, taxid_lines
from retrieval.gateway.blast.process import (
    environment,
    error_message,
    kill_group,
    missing_programs,
    with_parent_death_signal,
)
from retrieval.gateway.blast.sequences import Molecule
from retrieval.storage.files import build_lock, create_draft, make_folder, recover, replace_folder

DEFAULT_TIMEOUT_S: Final = 6 * 3600.0
_LOCK_WAIT_S: Final = 10.0
_SHORT_RUN_S: Final = 60.0
_MAX_OUTPUT: Final = 8192
_MAX_TITLE: Final = 200
_TAXIDS: Final = "taxids.map"
_BAD_IDENTIFIER: Final = re.compile(r"duplicate seq_?ids|seq-?id|CSeqIdException|local id|sequence id", re.IGNORECASE)
_VERSION: Final = re.compile(r"makeblastdb: (\S+)")
_COUNTS: Final = re.compile(r"([\d,]+) sequences; ([\d,]+) total")


class _IdentifierError(BlastDatabaseError):
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
        BlastDatabaseError: the name is invalid, a file cannot be read or is not FASTA of the molecule, makeblastdb
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
        raise BlastDatabaseError(f"BLAST database {error}") from error
    except OSError as error:
        raise BlastDatabaseError(f"BLAST database {name}: cannot be written: {error.strerror}") from error
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
        raise BlastDatabaseError(f"BLAST database: a name is {NAME.pattern[:-2]}, not {order.name[:70]!r}")
    if order.molecule not in ("nucl", "prot"):
        raise BlastDatabaseError(f"BLAST database {order.name}: the molecule is nucl or prot")
    if not order.fasta:
        raise BlastDatabaseError(f"BLAST database {order.name}: no FASTA file was given")
    if reason := missing_programs(("makeblastdb", "blastdbcmd")):
        raise BlastDatabaseError(f"BLAST database {order.name}: {reason}")


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
        kind = _IdentifierError if not numbered and _BAD_IDENTIFIER.search(output) else BlastDatabaseError
        reason = error_message(output.encode()) or f"exit status {status}"
        raise kind(f"BLAST database {order.name}: makeblastdb failed: {reason}")
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
        BlastDatabaseError: the program exceeds its time limit.
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
        raise BlastDatabaseError(f"{arguments[0]} ran longer than {timeout_s:g} s")
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
        raise BlastDatabaseError(f"BLAST database {order.name}: it cannot be read back: {error_message(info.encode())}")
    found = tuple(int(count.replace(",", "")) for count in counts.groups())
    if found != (totals.sequences, totals.letters):
        raise BlastDatabaseError(
            f"BLAST database {order.name}: {found[0]} sequences of {found[1]} letters were written, "
            f"{totals.sequences} of {totals.letters} were read"
        )


def _version(folder: Path) -> str:
    _, text = _piped(("makeblastdb", "-version"), (), folder, _SHORT_RUN_S)
    found = _VERSION.search(text)
    return found[1] if found else ""


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
