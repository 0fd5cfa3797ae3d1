"""Find the BLAST databases of a site in folders, and check them for missing files.

Two kinds are known. A site's own lies in ``ROOT/NAME/`` with a ``database.json`` (``blast_build`` makes it). One of
NCBI's preformatted ones lies unpacked in a root or in a folder of a root, and is recognized by its file names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from retrieval.errors import BLAST_DATABASE, GatewayDataError
from retrieval.gateway.blast.parameters import Molecule

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
DESCRIPTION: Final = "database.json"
_FOREIGN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
_NUMBERED: Final = re.compile(r"(.+)\.\d{2,3}\Z")  # one volume of several
_PREFIX: Final = {"nucl": "n", "prot": "p"}
_MAX_ALIAS: Final = 1024 * 1024
_MAX_DEPTH: Final = 5

Stamp = tuple[tuple[str, int, int, int], ...]  # name, inode, mtime in ns and size of the files that list the others


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Identify a FASTA source file of a database by name and SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastDatabase:
    """Describe one BLAST database.

    ``folder`` holds the volumes ``name.*``. ``made_at`` is ISO 8601 in UTC; ``made_with`` makeblastdb's version.
    ``default``: answers for NCBI's usual names of its molecule. ``taxids``: whether sequences carry their organism,
    None if unknown. ``numbered``: identifiers were assigned by the build, not taken from the FASTA. ``stamp``
    identifies the build. Counts are None if unknown.
    """

    name: str
    title: str
    molecule: Molecule
    folder: Path
    sequences: int | None = None
    letters: int | None = None
    sources: tuple[SourceFile, ...] = ()
    made_at: str = ""
    made_with: str = ""
    default: bool = False
    taxids: bool | None = None
    numbered: bool = False
    stamp: Stamp = ()


@dataclass(frozen=True, slots=True)
class Discovery:
    """Hold the databases found by lower-case name; ``problems`` has those that exist and cannot be searched."""

    databases: Mapping[str, BlastDatabase]
    problems: Mapping[str, GatewayDataError]


def discover_databases(roots: Sequence[Path]) -> Discovery:
    """Return the databases in the folders now.

    Of equal names the first root's counts. A missing root contains nothing.
    """
    databases: dict[str, BlastDatabase] = {}
    problems: dict[str, GatewayDataError] = {}
    for root in roots:
        for folder in (root, *_subfolders(root)):
            for name, found in _in_folder(folder, is_root=folder == root):
                if name in databases or name in problems:
                    continue
                if isinstance(found, BlastDatabase):
                    databases[name] = found
                else:
                    problems[name] = found
    return Discovery(databases, problems)


def read_database(folder: Path) -> BlastDatabase:
    """Read a site's own database.

    Raises:
        GatewayDataError: there is no readable description, or a file is missing or truncated.
    """
    path = folder / DESCRIPTION
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        files = {str(name): int(size) for name, size in content.pop("files").items()}
        sources = tuple(SourceFile(**source) for source in content.pop("sources"))
        database = BlastDatabase(**content, folder=folder, sources=sources, stamp=_stamp([path]))
    except OSError as error:
        raise GatewayDataError(
            f"BLAST database {folder.name}: {DESCRIPTION}: {error.strerror}", BLAST_DATABASE
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise GatewayDataError(f"BLAST database {folder.name}: {DESCRIPTION} cannot be read", BLAST_DATABASE) from error
    if database.molecule not in _PREFIX or not NAME.match(str(database.name)) or database.name != folder.name:
        raise GatewayDataError(
            f"BLAST database {folder.name}: {DESCRIPTION} describes another database", BLAST_DATABASE
        )
    for name, size in files.items():
        if _size(folder / name) != size:
            raise GatewayDataError(f"BLAST database {folder.name}: {name} is missing or cut off", BLAST_DATABASE)
    return database


def describe(database: BlastDatabase, files: Mapping[str, int]) -> str:
    """Return the text of ``database.json``; ``files`` are the volumes' names and sizes in bytes."""
    content: dict[str, Any] = asdict(database)
    del content["folder"], content["stamp"]
    return json.dumps({**content, "files": dict(files)}, indent=1, sort_keys=True) + "\n"


def is_unchanged(database: BlastDatabase) -> bool:
    """Return whether the files are still those of the build that was found."""
    try:
        return _stamp([database.folder / name for name, *_ in database.stamp]) == database.stamp
    except OSError:
        return False


def _subfolders(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if not path.name.startswith(".") and path.is_dir())
    except OSError:
        return []


def _in_folder(folder: Path, *, is_root: bool) -> Iterable[tuple[str, BlastDatabase | GatewayDataError]]:
    if not is_root and (folder / DESCRIPTION).exists():
        try:
            yield folder.name.lower(), read_database(folder)
        except GatewayDataError as error:
            yield folder.name.lower(), error
        return
    for name, molecule in _foreign_names(folder):
        try:
            yield name.lower(), _foreign(folder, name, molecule)
        except GatewayDataError as error:
            yield name.lower(), error


def _foreign_names(folder: Path) -> list[tuple[str, Molecule]]:
    """Return the databases with an index or alias file here, without the numbered volumes of one."""
    try:
        files = sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
    found: list[tuple[str, Molecule]] = []
    molecules: tuple[Molecule, ...] = ("nucl", "prot")
    for molecule in molecules:
        letter = _PREFIX[molecule]
        aliases = {file[:-4] for file in files if file.endswith(f".{letter}al")}
        volumes = {file[:-4] for file in files if file.endswith(f".{letter}in")}
        single = {name for name in volumes if not ((part := _NUMBERED.match(name)) and part[1] in aliases)}
        found += [(name, molecule) for name in sorted(aliases | single) if _FOREIGN_NAME.match(name)]
    return found


def _foreign(folder: Path, name: str, molecule: Molecule) -> BlastDatabase:
    letter = _PREFIX[molecule]
    parts = _volumes(folder, name, letter, _MAX_DEPTH)
    for part in parts:
        for kind in ("in", "sq", "hr"):
            if _size(part.parent / f"{part.name}.{letter}{kind}") < 0:
                raise GatewayDataError(f"BLAST database {name}: {part.name}.{letter}{kind} is missing", BLAST_DATABASE)
    heads = (f"{name}.{letter}al", f"{name}.{letter}in")
    stamp = _stamp([folder / head for head in heads if (folder / head).exists()])
    # Since version 5 of the format a separate file holds the organisms.
    taxids = None if (folder / f"{name}.{letter}to").exists() else False
    return BlastDatabase(name=name, title=name, molecule=molecule, folder=folder, taxids=taxids, stamp=stamp)


def _volumes(folder: Path, name: str, letter: str, depth: int) -> list[Path]:
    """Return the volumes an alias file names, through nested aliases; a database without alias is its own volume."""
    alias = folder / f"{name}.{letter}al"
    if not alias.exists():
        return [folder / name]
    if depth == 0:
        raise GatewayDataError(f"BLAST database {name}: its alias files go in circles", BLAST_DATABASE)
    try:
        with alias.open(encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_ALIAS).splitlines()
    except OSError as error:
        raise GatewayDataError(f"BLAST database {name}: {alias.name}: {error.strerror}", BLAST_DATABASE) from error
    names = [word.strip('"') for line in lines if line.startswith("DBLIST") for word in line.split()[1:]]
    if not names:
        raise GatewayDataError(f"BLAST database {name}: {alias.name} names no volumes", BLAST_DATABASE)
    paths = [folder / part for part in names]
    return [volume for path in paths for volume in _volumes(path.parent, path.name, letter, depth - 1)]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _stamp(paths: Iterable[Path]) -> Stamp:
    return tuple((p.name, s.st_ino, s.st_mtime_ns, s.st_size) for p in paths for s in [p.stat()])
