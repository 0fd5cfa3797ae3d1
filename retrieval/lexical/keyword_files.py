"""Store segments of a keyword index as NumPy arrays, never pickled, each with its SHA-256 in the manifest."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from retrieval.durable import fact_of
from retrieval.index.errors import IndexDamaged
from retrieval.lexical.folders import MANIFEST, identity, write_manifest
from retrieval.lexical.keyword_segment import Segment

KIND: Final = "keywords"
_ARRAYS: Final[dict[str, type[np.generic]]] = {
    "offsets": np.int64,
    "occurrences": np.uint32,
    "bases": np.int64,
    "ids": np.int64,
    "dates": np.int32,
    "types": np.int64,
    "namespaces": np.int32,
}


@dataclass(frozen=True, slots=True)
class Part:
    """Pair a segment with the mask of its live rows.

    ``files`` maps each array to (file name, digest) once it is written.
    """

    segment: Segment
    alive: NDArray[np.bool_]
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_parts(folder: Path, manifest: Mapping[str, Any]) -> tuple[Part, ...]:
    """Read the parts that the manifest names; arrays stay memory-mapped.

    Raises:
        IndexDamaged: a file is missing, or is not what the manifest says.
    """
    try:
        if not isinstance(manifest["generation"], int):
            raise IndexDamaged(f"{folder}: the manifest has no generation")
        return tuple(_read_part(folder, files) for files in manifest["segments"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IndexDamaged(f"{folder}: {error}") from error


def write_parts(folder: Path, parts: Sequence[Part], generation: int) -> tuple[Part, ...]:
    """Write the arrays that have no files yet, then the manifest; return the parts with their files.

    The returned parts have the given arrays, in memory.

    Raises:
        OSError: the old generation stays valid.
    """
    written = []
    for place, part in enumerate(parts):
        name = f"{generation:08d}-{place}"
        files = dict(part.files)
        if not files:
            for column in _ARRAYS:
                files[column] = _save(folder / f"{name}.{column}.npy", getattr(part.segment, column))
            terms = np.frombuffer("\n".join(part.segment.terms).encode(), dtype=np.uint8)
            files["terms"] = _save(folder / f"{name}.terms.npy", terms)
        if "alive" not in files:
            files["alive"] = _save(folder / f"{name}.alive.npy", part.alive)
        written.append(Part(part.segment, part.alive, files))
    entries = [dict(part.files) for part in written]
    write_manifest(folder, identity(KIND) | {"generation": generation, "segments": entries})
    return tuple(written)


def remove_unread(folder: Path, parts: Sequence[Part]) -> None:
    """Remove files that the manifest does not name: of older generations, and of killed writers."""
    named = {file for part in parts for file, _ in part.files.values()}
    for path in folder.glob("*.npy"):
        if path.name not in named:
            with contextlib.suppress(OSError):
                path.unlink()


def stamp(folder: Path) -> tuple[int, int]:
    """Return a stamp of the manifest that differs after every commit.

    Raises:
        IndexDamaged: the manifest is missing.
    """
    try:
        state = (folder / MANIFEST).stat()
    except OSError as error:
        raise IndexDamaged(f"the manifest of {folder} is missing") from error
    return state.st_mtime_ns, state.st_ino


def _read_part(folder: Path, files: Mapping[str, Sequence[str]]) -> Part:
    columns: dict[str, Any] = {name: _load(folder, files[name], kind) for name, kind in _ARRAYS.items()}
    blob = _load(folder, files["terms"], np.uint8).tobytes().decode()
    terms = {term: number for number, term in enumerate(blob.split("\n"))} if blob else {}
    alive = np.array(_load(folder, files["alive"], np.bool_))
    segment = Segment(terms=terms, **columns)
    lengths = (len(segment.offsets) - 1, len(segment.bases) - 1, len(alive))
    if lengths != (len(terms), len(segment), len(segment)):
        raise IndexDamaged(f"{folder}: files of different segments are mixed")
    return Part(segment, alive, {name: tuple(entry) for name, entry in files.items()})


def _load(folder: Path, entry: Sequence[str], kind: type[np.generic]) -> NDArray[Any]:
    name, digest = entry
    path = folder / Path(name).name
    if fact_of(path).sha256 != digest:
        raise IndexDamaged(f"{path} is not what was written")
    loaded: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    if loaded.dtype != kind or loaded.ndim != 1:
        raise IndexDamaged(f"{path} holds {loaded.dtype}, not {kind.__name__}")
    return loaded


def _save(path: Path, values: NDArray[Any]) -> tuple[str, str]:
    with path.open("wb") as file:
        np.save(file, values, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return path.name, fact_of(path).sha256
