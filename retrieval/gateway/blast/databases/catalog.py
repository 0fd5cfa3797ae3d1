"""Find the BLAST databases of a site, made by makeblastdb or NCBI's preformatted ones, and check their files.

A database lies in a root or in a folder of a root, and is recognized by its file names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from retrieval.errors import BLAST_DATABASE, GatewayDataError
from retrieval.gateway.blast.parameters import Molecule

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z")
_NUMBERED: Final = re.compile(r"(.+)\.\d{2,3}\Z")  # one volume of several
_PREFIX: Final = {"nucl": "n", "prot": "p"}
_MAX_ALIAS: Final = 1024 * 1024
_MAX_DEPTH: Final = 5

Stamp = tuple[tuple[str, int, int, int], ...]  # name, inode, mtime in ns and size of the files that list the others


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastDatabase:
    """Describe one BLAST database.

    ``folder`` holds the volumes ``name.*``. ``taxids`` False: no sequence names its organism. ``stamp`` identifies the
    build.
    """

    name: str
    molecule: Molecule
    folder: Path
    taxids: bool = True
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
            for name, molecule in _names_in(folder):
                key = name.lower()
                if key in databases or key in problems:
                    continue
                try:
                    databases[key] = read_database(folder, name, molecule)
                except GatewayDataError as error:
                    problems[key] = error
    return Discovery(databases, problems)


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


def _names_in(folder: Path) -> list[tuple[str, Molecule]]:
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
        found += [(name, molecule) for name in sorted(aliases | single) if _NAME.match(name)]
    return found


def read_database(folder: Path, name: str, molecule: Molecule) -> BlastDatabase:
    """Return the database of a name whose files lie in the folder.

    Raises:
        GatewayDataError: a file is missing or cannot be read.
    """
    letter = _PREFIX[molecule]
    parts = _volumes(folder, name, letter, _MAX_DEPTH)
    for part in parts:
        for kind in ("in", "sq", "hr"):
            if _size(part.parent / f"{part.name}.{letter}{kind}") < 0:
                raise GatewayDataError(f"BLAST database {name}: {part.name}.{letter}{kind} is missing", BLAST_DATABASE)
    heads = (f"{name}.{letter}al", f"{name}.{letter}in")
    stamp = _stamp([folder / head for head in heads if (folder / head).exists()])
    # Since version 5 of the format a separate file holds the organisms.
    taxids = (folder / f"{name}.{letter}to").exists()
    return BlastDatabase(name=name, molecule=molecule, folder=folder, taxids=taxids, stamp=stamp)


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
