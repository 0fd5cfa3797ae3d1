"""Count keywords in all passages of a namespace at once, and find the other spellings of keywords that it has.

The index is a positional inverted index in NumPy arrays, on disk. A commit adds a segment of what is new; segments of
similar size are merged, so that there are about log2(n) of them. ``manifest.json``, replaced atomically, names the
current files; a crash leaves the old one, and unused files.

``KeywordIndex`` takes hyphens, case, Greek letters, the plural, British and American spelling as one. ``spellings_of``
adds, each only where the namespace has it, words with a slip of the pen, and synonyms, which the caller gives. A slip
is one letter more, less, changed or exchanged with its neighbour, never the first one, which often makes another word
(atypical). Of a word that the namespace has, only longer words and no changed letters count (abduction, adduction), and
only where the slip is rare beside the right word.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal, Protocol

import numpy as np

from retrieval.errors import INDEX_NOT_WRITTEN, IndexDamaged, IndexFault
from retrieval.formats.edits import single_edits
from retrieval.index.base import Ids, RowFilter
from retrieval.lexical.base import WriterLock, checked_id, identity, make_folder, read_manifest, write_manifest
from retrieval.lexical.keyword_frequency.pes2 import KeywordTable
from retrieval.lexical.keyword_frequency.segment import (
    KIND,
    MAX_POSITIONS,
    Form,
    LivePart,
    Segment,
    SegmentBuilder,
    keyword_forms,
    merged,
    read_parts,
    remove_unreferenced,
    stamp,
    write_parts,
)
from retrieval.lexical.tokens import GLUED, HARD, LINKED, SIGN, WORD, Atom, atoms_of
from retrieval.passages import Passage

_MAX_BUILDER_POSITIONS: Final = 2**25
_MAX_RELOADS: Final = 20
Kind = Literal["spelling", "slip", "synonym"]
MAX_SYNONYMS: Final = 24
_MAX_SLIPS: Final = 5
_MIN_UNKNOWN: Final = 5  # letters of a word that the namespace does not have, for which slips are sought
_MIN_KNOWN: Final = 8  # and of one that it has
_RARE: Final = 50  # a slip is at least so many times rarer than the right word


def open_keyword_index(folder: Path) -> KeywordIndex:
    """Open the index of ``folder``, or create it where there is none.

    Raises:
        IndexFault: another schema or tokenizer made it; it could not be created.
        IndexDamaged: a file is missing, or its digest is not the manifest's.
    """
    make_folder(folder, lambda draft: write_manifest(draft, identity(KIND) | {"generation": 0, "segments": []}))
    return KeywordIndex(folder)


def verify_files(folder: Path) -> None:
    """Check every byte of the last commit in a folder.

    Raises:
        IndexDamaged: a file is missing, or its digest is not the manifest's; the message names it.
        IndexFault: another schema or tokenizer made it.
    """
    KeywordIndex(folder).close()


class KeywordIndex:
    """Index the positions of words, to count keywords.

    Thread-safe; counts continue while one thread writes. Adds and deletes become visible and durable with ``commit``,
    as in a ``LexicalIndex``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._write_lock = threading.RLock()
        self._read_lock = threading.RLock()
        self._right = WriterLock(folder)
        self._closed = False
        self._changes = _Changes()
        self._parts: tuple[LivePart, ...] = ()
        self._generation = 0
        self._stamp = (0, 0)
        self._load()

    def add(self, passages: Iterable[Passage], namespace: int = 0) -> int:
        """Add passages and return how many; a passage with a known id replaces the old one, at the end of the order.

        Raises:
            IndexFault: an id that is not 1 to 2**63 - 1; all since the last commit is discarded; another process, or
                another object, is writing.
        """
        count = 0
        with self._write_lock:
            self._take()
            try:
                for passage in passages:
                    self._changes.add(passage, namespace)
                    count += 1
            except BaseException:
                self._drop_changes()
                raise
        return count

    def delete(self, ids: Sequence[int]) -> None:
        """Delete passages; unknown ids are ignored."""
        with self._write_lock:
            self._take()
            for passage_id in ids:
                self._changes.delete(int(passage_id))

    def commit(self) -> None:
        """Make all changes visible and durable.

        Raises:
            IndexFault: the old generation stays in use; all changes since the last commit are discarded.
        """
        with self._write_lock:
            if not self._right.held:
                return
            try:
                parts = _compacted(self._changes.applied(self._parts))
                written = write_parts(self._folder, parts, self._generation + 1)
                with self._read_lock:
                    self._parts, self._stamp = written, stamp(self._folder)
                    self._generation += 1
                remove_unreferenced(self._folder, written)
            except OSError as error:
                raise IndexFault(f"{self._folder}: {error}", INDEX_NOT_WRITTEN) from error
            finally:
                self._drop_changes()

    def count(self, keywords: Sequence[str], where: RowFilter | None = None) -> KeywordTable:
        """Count the keywords in every passage that has at least one, in the order the passages were added.

        Spellings that differ in hyphens, blanks, case, Greek letters or a plural s count alike; a keyword inside a
        longer name (IL-1 in IL-10, BRCA in BRCA1) does not count.
        """
        return self.count_forms(keywords, [keyword_forms(keyword) for keyword in keywords], where)

    def count_forms(
        self, names: Sequence[str], forms: Sequence[Sequence[Form]], where: RowFilter | None = None
    ) -> KeywordTable:
        """Count, under each name, the positions that have one of its forms, as ``count`` does for one keyword."""
        ids = [np.zeros(0, dtype=np.int64)]
        counts = [np.zeros((0, len(forms)), dtype=np.int64, order="F")]
        for part in self._current() if forms else ():
            columns = [part.segment.counts(form) for form in forms]
            keep = np.zeros(len(part.alive), dtype=np.bool_)
            for column in columns:
                keep |= column > 0
            keep &= part.alive
            if where is not None:
                keep &= part.segment.passing(where)
            rows = np.flatnonzero(keep)
            ids.append(part.segment.ids[rows])
            # Column by column in memory, as the ranking sums over keywords.
            counts.append(np.stack([column[rows] for column in columns]).T)
        return KeywordTable(tuple(names), np.concatenate(ids), np.concatenate(counts))

    def holding(self, words: Sequence[Sequence[str]], where: RowFilter | None = None) -> Ids:
        """Return the ids of the passages that have every term of one of ``words``."""
        ids = [np.zeros(0, dtype=np.int64)]
        for part in self._current():
            keep = np.zeros(len(part.alive), dtype=np.bool_)
            for terms in words:
                keep |= part.segment.holding(terms)
            keep &= part.alive
            if where is not None:
                keep &= part.segment.passing(where)
            ids.append(part.segment.ids[keep])
        return np.concatenate(ids)

    def occurrences(self, term: str) -> int:
        """Return how often the passages have a term, counting also passages that were deleted of late."""
        return sum(part.segment.occurrences_of(term) for part in self._current())

    def __len__(self) -> int:
        return sum(int(part.alive.sum()) for part in self._current())

    def close(self) -> None:
        """Close the index and discard uncommitted changes."""
        with self._write_lock, self._read_lock:
            self._drop_changes()
            self._parts = ()
            self._closed = True

    def _current(self) -> tuple[LivePart, ...]:
        with self._read_lock:
            self._check_open()
            if not self._right.held and stamp(self._folder) != self._stamp:
                self._load()
            return self._parts

    def _load(self) -> None:
        """Load the parts that the manifest names.

        A writer removes files that its new manifest no longer names; then the new one is read.
        """
        for _ in range(_MAX_RELOADS):
            seen = stamp(self._folder)
            manifest = read_manifest(self._folder, KIND)
            try:
                parts = read_parts(self._folder, manifest)
            except IndexDamaged:
                if stamp(self._folder) == seen:
                    raise
                continue
            with self._read_lock:
                self._parts, self._stamp, self._generation = parts, seen, int(manifest["generation"])
            return
        raise IndexFault(f"{self._folder} changes faster than it can be read")

    def _take(self) -> None:
        self._check_open()
        if not self._right.held:
            self._right.take()
            if stamp(self._folder) != self._stamp:
                self._load()

    def _drop_changes(self) -> None:
        self._changes = _Changes()
        self._right.release()

    def _check_open(self) -> None:
        if self._closed:
            raise IndexFault(f"the index {self._folder} is closed")


class _Changes:
    """Collect adds and deletes since the last commit in their order, so that the last one of an id counts."""

    def __init__(self) -> None:
        self._builder = SegmentBuilder()
        self._built: list[Segment] = []
        self._step = 0
        self._added_at: list[int] = []
        self._deleted_at: dict[int, int] = {}

    def add(self, passage: Passage, namespace: int) -> None:
        self.delete(checked_id(passage))
        self._builder.add(passage, namespace)
        self._added_at.append(self._step)
        if self._builder.positions > _MAX_BUILDER_POSITIONS:
            self._seal()

    def delete(self, passage_id: int) -> None:
        self._step += 1
        self._deleted_at[passage_id] = self._step

    def applied(self, parts: Sequence[LivePart]) -> list[LivePart]:
        """Return the parts after the changes; only those that changed lack files."""
        if len(self._builder):
            self._seal()
        out = []
        deleted = np.fromiter(self._deleted_at, dtype=np.int64, count=len(self._deleted_at))
        for part in parts:
            dead = part.alive & np.isin(part.segment.ids, deleted)
            files = {name: file for name, file in part.files.items() if name != "alive"}
            out.append(LivePart(part.segment, part.alive & ~dead, files) if dead.any() else part)
        first = 0
        for segment in self._built:
            steps = self._added_at[first : first + len(segment)]
            last = [self._deleted_at[number] for number in segment.ids.tolist()]
            out.append(LivePart(segment, np.array(last) <= np.array(steps)))
            first += len(segment)
        return out

    def _seal(self) -> None:
        self._built.append(self._builder.build())
        self._builder = SegmentBuilder()


def _compacted(parts: Sequence[LivePart]) -> list[LivePart]:
    """Merge and rewrite parts that have become inefficient, and drop those without live rows.

    Adjacent parts are merged where the later has grown to half of the earlier; a part with mostly dead rows is
    rewritten.
    """
    out: list[LivePart] = []
    for part in parts:
        out.append(part)
        while (
            len(out) > 1 and 2 * len(out[-1].segment) >= len(out[-2].segment) and _positions(out[-2:]) < MAX_POSITIONS
        ):
            out[-2:] = [_one(out[-2:])]
    living = [part for part in out if part.alive.any()]
    return [_one([part]) if 2 * part.alive.sum() < len(part.alive) else part for part in living]


def _one(parts: Sequence[LivePart]) -> LivePart:
    segment = merged([part.segment for part in parts], [part.alive for part in parts])
    return LivePart(segment, np.ones(len(segment), dtype=np.bool_))


def _positions(parts: Sequence[LivePart]) -> int:
    return sum(int(part.segment.bases[-1]) for part in parts)


class Vocabulary(Protocol):
    """Count the words of a namespace."""

    def occurrences(self, term: str) -> int:
        """Return how often the namespace has a term of ``tokens.atoms_of``."""
        ...


@dataclass(frozen=True, slots=True)
class Spelling:
    """Hold one way to write a keyword, with the forms that the index is asked for."""

    text: str
    kind: Kind
    forms: tuple[Form, ...]


def spellings_of(keyword: str, vocabulary: Vocabulary, synonyms: Sequence[str] = ()) -> tuple[Spelling, ...]:
    """Return the spellings of a keyword, first its own, then those that the namespace may have besides."""
    own = Spelling(keyword, "spelling", keyword_forms(keyword))
    found: dict[tuple[Form, ...], Spelling] = {own.forms: own}
    for spelling in (*_respelled(keyword, vocabulary), *_renamed(keyword, vocabulary, synonyms)):
        found.setdefault(spelling.forms, spelling)
    return tuple(found.values())


def _renamed(keyword: str, vocabulary: Vocabulary, synonyms: Sequence[str]) -> Iterator[Spelling]:
    for synonym in synonyms[:MAX_SYNONYMS]:
        forms = keyword_forms(synonym)
        if forms and any(all(vocabulary.occurrences(term) for term in form) for form in forms):
            yield Spelling(synonym, "synonym", forms)


def _respelled(keyword: str, vocabulary: Vocabulary) -> Iterator[Spelling]:
    """Yield spellings with a slip in one word."""
    atoms = atoms_of(keyword)
    terms = [atom.term for atom in atoms]
    for at, atom in enumerate(atoms):
        for other in _slips(atom.term, vocabulary) if atom.kind == WORD else ():
            changed = (*terms[:at], other, *terms[at + 1 :])
            yield Spelling(" ".join(changed), "slip", (changed,))


def _slips(term: str, vocabulary: Vocabulary) -> list[str]:
    count = vocabulary.occurrences(term)
    if len(term) < (_MIN_KNOWN if count else _MIN_UNKNOWN) or not (term.isascii() and term.isalpha()):
        return []
    most = count / _RARE if count else float("inf")
    found = [
        (number, other)
        for other in _one_letter_off(term, with_changed=not count)
        if 0 < (number := vocabulary.occurrences(other)) <= max(most, 1)
    ]
    return [other for _, other in sorted(found, reverse=True)[:_MAX_SLIPS]]


def _one_letter_off(term: str, *, with_changed: bool) -> set[str]:
    """Return the words that differ in one letter, or in the order of two, but not in the first one."""
    found = set(single_edits(term, 1))
    if not with_changed:
        found = {one for one in found if len(one) != len(term) or sorted(one) == sorted(term)}
    # The plural and its like are no slips.
    return {one for one in found - {term} if one.rstrip("s") != term.rstrip("s")}


@dataclass(frozen=True, slots=True)
class Mention:
    """Mark a position of a text that is one of a keyword's spellings: characters ``start`` to ``end``."""

    keyword: int
    start: int
    end: int


def mentions_in(text: str, keywords: Sequence[Sequence[Spelling]], most: int = 1000) -> list[Mention]:
    """Return where the text has the keywords, as the index counts them, in the order of the text."""
    starting: dict[str, list[tuple[Form, int]]] = {}
    for number, spellings in enumerate(keywords):
        for form in dict.fromkeys(form for spelling in spellings for form in spelling.forms):
            starting.setdefault(form[0], []).append((form, number))
    return list(islice(_mentions(text, starting), most))


def _mentions(text: str, starting: Mapping[str, Sequence[tuple[Form, int]]]) -> Iterator[Mention]:
    atoms = atoms_of(text)
    for at, atom in enumerate(atoms):
        if _is_glued(atoms, at):
            continue
        seen: set[int] = set()
        for first, behind in _readings(atoms, at):
            for form, number in starting.get(first, ()):
                end = _end_of(atoms, behind, form[1:])
                if end and number not in seen and not _is_glued(atoms, end):
                    seen.add(number)
                    yield Mention(number, atom.start, atoms[end - 1].end)


def _readings(atoms: Sequence[Atom], at: int) -> list[tuple[str, int]]:
    """Return the terms that begin at an atom, its own and its join with the next, with the position behind each."""
    found = [(atoms[at].term, at + 1)]
    if at + 1 < len(atoms) and atoms[at + 1].gap <= LINKED:
        found.append((atoms[at].term + atoms[at + 1].term, at + 2))
    return found


def _end_of(atoms: Sequence[Atom], at: int, rest: Form) -> int:
    """Return the position behind the atoms from ``at`` on that are the terms of ``rest``, 0 where they are not."""
    for term in rest:
        if at >= len(atoms) or atoms[at].gap == HARD:
            return 0
        at = next((behind for reading, behind in _readings(atoms, at) if reading == term), 0)
        if not at:
            return 0
    return at


def _is_glued(atoms: Sequence[Atom], at: int) -> bool:
    """Return whether an atom is part of a longer name with the one before; a sign ends a name."""
    if not 0 < at < len(atoms) or atoms[at].gap != GLUED:
        return False
    return SIGN not in (atoms[at - 1].kind, atoms[at].kind)
