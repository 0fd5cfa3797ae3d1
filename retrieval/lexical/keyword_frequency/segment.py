"""Index the positions of every atom in a batch of passages, in arrays that never change once they are built.

A *position* is a number over all passages of the segment: adjacent atoms have adjacent positions, the end of a sentence
skips one and the end of a passage two, so that no keyword spans either. One occurrence is a
uint32: position << 3 | 4 if it spans two atoms (``anti-inflammatory`` is also indexed as ``antiinflammatory``)
| 2 if the next atom is glued to its end | 1 if the one before is glued to its start (the IL of IL6 is glued to 6).
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from retrieval.errors import IndexDamaged
from retrieval.index.base import Ids, RowFilter
from retrieval.lexical.base import MANIFEST, identity, write_manifest
from retrieval.lexical.tokens import (
    GLUED,
    HARD,
    LINKED,
    NAMED_LETTER,
    SIGN,
    WORD,
    Atom,
    atoms_of,
    atoms_without_offsets,
)
from retrieval.passages import Passage, type_bits
from retrieval.storage.files import digest_file

MAX_POSITIONS: Final = 2**29
_LETTERS: Final = (WORD, NAMED_LETTER)
_LEFT, _RIGHT, _TWO = 1, 2, 4
_FLAGS: Final = np.uint32(3)  # bits of flags
_MAX_FORMS_ATOMS: Final = 8
Positions = NDArray[np.int64]
Occurrences = NDArray[np.uint32]
# Consecutive terms.
Form = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Hold the immutable inverted index of a batch of passages.

    ``occurrences[offsets[t]:offsets[t + 1]]`` are those of term t, ascending; row r has positions ``bases[r]`` to
    ``bases[r + 1]``; the other columns are those of ``retrieval.index.base.Rows``. Rows are in the order added.
    """

    terms: dict[str, int]
    offsets: NDArray[np.int64]
    occurrences: NDArray[np.uint32]
    bases: NDArray[np.int64]
    ids: Ids
    dates: NDArray[np.int32]
    types: NDArray[np.int64]
    namespaces: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ids)

    def counts(self, forms: Sequence[Form]) -> NDArray[np.int64]:
        """Return how often each row has one of the forms of a keyword; forms at the same position count once."""
        starts = self._starts(forms)
        if len(starts) > len(self):
            return np.diff(np.searchsorted(starts, self.bases.astype(np.uint32))).astype(np.int64)
        rows = np.searchsorted(self.bases, starts, side="right") - 1
        return np.bincount(rows, minlength=len(self)).astype(np.int64)

    def occurrences_of(self, term: str) -> int:
        number = self.terms.get(term)
        return 0 if number is None else int(self.offsets[number + 1] - self.offsets[number])

    def holding(self, terms: Sequence[str]) -> NDArray[np.bool_]:
        """Return the mask of the rows that have every term."""
        keep = np.ones(len(self), dtype=np.bool_)
        for term in terms:
            rows = np.searchsorted(self.bases, _positions(self._of(term)), side="right") - 1
            keep &= np.bincount(rows, minlength=len(self)).astype(np.bool_)
        return keep

    def passing(self, where: RowFilter) -> NDArray[np.bool_]:
        """Return the mask of the rows that the filter admits."""
        keep = np.ones(len(self), dtype=np.bool_)
        if where.namespaces is not None:
            keep &= np.isin(self.namespaces, np.array(sorted(where.namespaces), dtype=np.int32))
        if where.date_from or where.date_to:
            keep &= self.dates >= max(where.date_from, 1)
        if where.date_to:
            keep &= self.dates <= where.date_to
        if where.types:
            keep &= (self.types & where.types) != 0
        if where.without_types:
            keep &= (self.types & where.without_types) == 0
        if where.ids is not None:
            keep &= np.isin(self.ids, where.ids)
        return keep

    def _starts(self, forms: Sequence[Form]) -> Occurrences:
        """Return the positions, ascending and each once, where a form begins that is glued to nothing outside.

        Terms that all forms begin with are looked for last, once for all of them, unless they are the rarest.
        """
        shared = len(list(takewhile(lambda terms: len(set(terms)) == 1, zip(*forms, strict=False))))
        if len(forms) < 2 or any(self._rarest(form) < shared for form in forms):
            shared = 0
        found = [self._sequences(form[shared:]) for form in forms]
        if not shared:
            return _distinct([_positions(one[(one & _LEFT) == 0]) for one in found])
        first = _distinct([_positions(one) for one in found]) << _FLAGS
        for term in reversed(forms[0][:shared]):
            _, first = _preceded(first, self._of(term))
        return _positions(first[(first & _LEFT) == 0])

    def _sequences(self, form: Form) -> Occurrences:
        """Return the occurrences of the first term of ``form`` where its terms are consecutive, to the end of a name.

        The rarest term goes first: only its occurrences are looked for in the longer lists of the others.
        """
        lists = [self._of(term) for term in form]
        if not form:
            return np.zeros(0, dtype=np.uint32)
        rarest = self._rarest(form)
        first = last = lists[rarest]
        for after in lists[rarest + 1 :]:
            matched, last = _followed(last, after)
            first = first[matched]
        for before in reversed(lists[:rarest]):
            matched, first = _preceded(first, before)
            last = last[matched]
        ended: Occurrences = first[(last & _RIGHT) == 0]
        return ended

    def _rarest(self, form: Form) -> int:
        """Return the position of the rarest term, 0 for a form without terms."""
        return min(range(len(form)), key=lambda at: self.occurrences_of(form[at]), default=0)

    def _of(self, term: str) -> Occurrences:
        number = self.terms.get(term)
        if number is None:
            return np.zeros(0, dtype=np.uint32)
        return self.occurrences[self.offsets[number] : self.offsets[number + 1]]


def _positions(occurrences: Occurrences) -> Occurrences:
    positions: Occurrences = np.right_shift(occurrences, _FLAGS)
    return positions


def _ends(occurrences: Occurrences) -> Occurrences:
    """Return the positions behind the occurrences."""
    ends: Occurrences = _positions(occurrences) + np.uint32(1) + ((occurrences & _TWO) >> 2)
    return ends


def _followed(occurrences: Occurrences, after: Occurrences) -> tuple[NDArray[np.bool_], Occurrences]:
    """Return which occurrences have one of ``after`` directly behind them, and those ones."""
    if not len(after):
        return np.zeros(len(occurrences), dtype=np.bool_), after
    ends = _ends(occurrences)
    found = after[np.minimum(np.searchsorted(after, ends << _FLAGS), len(after) - 1)]
    matched = _positions(found) == ends
    return matched, found[matched]


def _preceded(occurrences: Occurrences, before: Occurrences) -> tuple[NDArray[np.bool_], Occurrences]:
    """Return which occurrences have one of ``before`` directly in front of them, and those ones.

    It is the last one in front, or the second last if that spans two atoms and so overlaps.
    """
    if not len(before):
        return np.zeros(len(occurrences), dtype=np.bool_), before
    positions = _positions(occurrences)
    at = np.searchsorted(before, positions << _FLAGS) - 1
    found = before[np.maximum(at, 0)]
    matched = _ends(found) == positions
    others = np.flatnonzero(~matched & ((found & _TWO) != 0) & (at > 0))
    if len(others):
        found[others] = before[at[others] - 1]
        matched[others] = _ends(found[others]) == positions[others]
    return matched, found[matched]


def _distinct(runs: Sequence[Occurrences]) -> Occurrences:
    """Return the numbers of ascending runs in one ascending run, each once; quicker than ``np.unique``."""
    if len(runs) == 1:
        return runs[0]
    every: Occurrences = np.concatenate([np.zeros(0, dtype=np.uint32), *runs])
    every.sort(kind="stable")
    is_new = np.ones(len(every), dtype=np.bool_)
    np.not_equal(every[1:], every[:-1], out=is_new[1:])
    distinct: Occurrences = every[is_new]
    return distinct


class SegmentBuilder:
    """Collect passages for a segment, with eight bytes for each occurrence until ``build``."""

    def __init__(self) -> None:
        self._terms: dict[str, int] = {}
        self._numbers = array("I")
        self._occurrences = array("I")
        self._bases = array("q", [0])
        self._columns: tuple[array[int], ...] = (array("q"), array("i"), array("q"), array("i"))

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def positions(self) -> int:
        return self._bases[-1]

    def add(self, passage: Passage, namespace: int) -> None:
        """Add the text of a passage.

        The title does not count, since it is not part of what is shown as evidence.
        """
        position = self.positions
        atoms = atoms_without_offsets(passage.text)
        for at, atom in enumerate(atoms):
            position += 2 if atom.gap == HARD else 1
            self._put(atom.term, position << 3 | _glue(atoms, at, at))
            if atom.kind in _LETTERS and at + 1 < len(atoms):
                after = atoms[at + 1]
                if after.gap <= LINKED and after.kind in _LETTERS:
                    self._put(atom.term + after.term, position << 3 | _TWO | _glue(atoms, at, at + 1))
        self._bases.append(position + 2)
        values = (passage.passage_id, passage.date, type_bits(passage.types), namespace)
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)

    def build(self) -> Segment:
        ids, dates, types, namespaces = self._columns
        numbers = np.array(self._numbers, dtype=np.uint32)
        sorted_by_term, offsets = _by_term(numbers, np.array(self._occurrences, dtype=np.uint32), len(self._terms))
        return Segment(
            terms=dict(self._terms),
            offsets=offsets,
            occurrences=sorted_by_term,
            bases=np.array(self._bases, dtype=np.int64),
            ids=np.array(ids, dtype=np.int64),
            dates=np.array(dates, dtype=np.int32),
            types=np.array(types, dtype=np.int64),
            namespaces=np.array(namespaces, dtype=np.int32),
        )

    def _put(self, term: str, occurrence: int) -> None:
        self._numbers.append(self._terms.setdefault(term, len(self._terms)))
        self._occurrences.append(occurrence)


def keyword_forms(keyword: str) -> tuple[tuple[str, ...], ...]:
    """Return the sequences of terms that match a keyword: its atoms, also with adjacent words joined.

    () for a keyword without letters, digits and signs of names.
    """
    atoms = atoms_of(keyword)
    plain = tuple(atom.term for atom in atoms)
    if not plain or len(plain) > _MAX_FORMS_ATOMS:
        return (plain,) if plain else ()
    forms: list[list[tuple[str, ...]]] = [[] for _ in range(len(atoms) + 1)]
    forms[0] = [()]
    for at, atom in enumerate(atoms):
        forms[at + 1] += [(*form, atom.term) for form in forms[at]]
        if at and atom.kind in _LETTERS and atoms[at - 1].kind in _LETTERS:
            forms[at + 1] += [(*form, atoms[at - 1].term + atom.term) for form in forms[at - 1]]
    return tuple(dict.fromkeys(forms[-1]))


def merged(segments: Sequence[Segment], alive: Sequence[NDArray[np.bool_]]) -> Segment:
    """Merge the live rows of segments into one, in the same order, without terms of dead rows only."""
    terms: dict[str, int] = {}
    numbers, occurrences, lengths = [], [], []
    base = 0
    for segment, keep in zip(segments, alive, strict=True):
        spans = np.where(keep, np.diff(segment.bases), 0)
        shifts = base + np.cumsum(spans) - spans - segment.bases[:-1]
        positions = (segment.occurrences >> 3).astype(np.int64)
        rows = np.searchsorted(segment.bases, positions, side="right") - 1
        selected = keep[rows]
        moved = ((positions + shifts[rows]) << 3 | (segment.occurrences & 7))[selected]
        old = np.repeat(np.arange(len(segment.terms)), np.diff(segment.offsets))[selected]
        numbers.append(_renumbered(segment, old, terms))
        occurrences.append(moved.astype(np.uint32))
        lengths.append(spans[keep])
        base += int(spans.sum())
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(segment, name)[keep] for segment, keep in zip(segments, alive, strict=True)])
        for name in ("ids", "dates", "types", "namespaces")
    }
    bases = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(lengths))])
    sorted_by_term, offsets = _by_term(np.concatenate(numbers), np.concatenate(occurrences), len(terms))
    return Segment(terms=terms, offsets=offsets, occurrences=sorted_by_term, bases=bases, **columns)


def _renumbered(segment: Segment, old: Positions, terms: dict[str, int]) -> NDArray[np.uint32]:
    """Return the numbers of the terms in ``terms``, to which missing ones are added."""
    used = np.zeros(len(segment.terms), dtype=np.bool_)
    used[old] = True
    new = np.zeros(len(segment.terms), dtype=np.uint32)
    for term, number in segment.terms.items():
        if used[number]:
            new[number] = terms.setdefault(term, len(terms))
    return new[old]


def _by_term(
    numbers: NDArray[np.uint32], occurrences: NDArray[np.uint32], num_terms: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    order = np.argsort(numbers, kind="stable")
    offsets = np.zeros(num_terms + 1, dtype=np.int64)
    np.cumsum(np.bincount(numbers, minlength=num_terms), out=offsets[1:])
    return occurrences[order], offsets


def _glue(atoms: Sequence[Atom], first: int, last: int) -> int:
    left = atoms[first].gap == GLUED and _both_names(atoms, first)
    right = last + 1 < len(atoms) and atoms[last + 1].gap == GLUED and _both_names(atoms, last + 1)
    return (_LEFT if left else 0) | (_RIGHT if right else 0)


def _both_names(atoms: Sequence[Atom], at: int) -> bool:
    """Return whether neither the atom nor the one before it is a sign.

    A sign ends a name: CD4 occurs in CD4+, and CD25 in CD4+CD25+.
    """
    return at > 0 and atoms[at].kind != SIGN and atoms[at - 1].kind != SIGN


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
class LivePart:
    """Pair a segment with the mask of its live rows.

    ``files`` maps each array to (file name, digest) once it is written.
    """

    segment: Segment
    alive: NDArray[np.bool_]
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)


def read_parts(folder: Path, manifest: Mapping[str, Any]) -> tuple[LivePart, ...]:
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


def write_parts(folder: Path, parts: Sequence[LivePart], generation: int) -> tuple[LivePart, ...]:
    """Write the arrays that have no files yet, then the manifest; return the parts with their files.

    The returned parts have the given arrays, in memory.

    Raises:
        OSError: the old generation stays valid.
    """
    written = []
    for index, part in enumerate(parts):
        name = f"{generation:08d}-{index}"
        files = dict(part.files)
        if not files:
            for column in _ARRAYS:
                files[column] = _save(folder / f"{name}.{column}.npy", getattr(part.segment, column))
            terms = np.frombuffer("\n".join(part.segment.terms).encode(), dtype=np.uint8)
            files["terms"] = _save(folder / f"{name}.terms.npy", terms)
        if "alive" not in files:
            files["alive"] = _save(folder / f"{name}.alive.npy", part.alive)
        written.append(LivePart(part.segment, part.alive, files))
    entries = [dict(part.files) for part in written]
    write_manifest(folder, identity(KIND) | {"generation": generation, "segments": entries})
    return tuple(written)


def remove_unreferenced(folder: Path, parts: Sequence[LivePart]) -> None:
    """Remove files that the manifest does not name: of older generations, and of killed writers."""
    referenced = {file for part in parts for file, _ in part.files.values()}
    for path in folder.glob("*.npy"):
        if path.name not in referenced:
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


def _read_part(folder: Path, files: Mapping[str, Sequence[str]]) -> LivePart:
    columns: dict[str, Any] = {name: _load(folder, files[name], kind) for name, kind in _ARRAYS.items()}
    blob = _load(folder, files["terms"], np.uint8).tobytes().decode()
    terms = {term: number for number, term in enumerate(blob.split("\n"))} if blob else {}
    alive = np.array(_load(folder, files["alive"], np.bool_))
    segment = Segment(terms=terms, **columns)
    lengths = (len(segment.offsets) - 1, len(segment.bases) - 1, len(alive))
    if lengths != (len(terms), len(segment), len(segment)):
        raise IndexDamaged(f"{folder}: files of different segments are mixed")
    return LivePart(segment, alive, {name: tuple(entry) for name, entry in files.items()})


def _load(folder: Path, entry: Sequence[str], kind: type[np.generic]) -> NDArray[Any]:
    name, digest = entry
    path = folder / Path(name).name
    if digest_file(path).sha256 != digest:
        raise IndexDamaged(f"{path} is not what was written")
    loaded: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    if loaded.dtype != kind or loaded.ndim != 1:
        raise IndexDamaged(f"{path} holds {loaded.dtype}, not {kind.__name__}")
    # Still mapped; slices of a plain array cost a tenth of those of a ``memmap``.
    return np.asarray(loaded)


def _save(path: Path, values: NDArray[Any]) -> tuple[str, str]:
    with path.open("wb") as file:
        np.save(file, values, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return path.name, digest_file(path).sha256
