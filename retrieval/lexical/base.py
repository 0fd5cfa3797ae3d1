"""Define the interface of lexical indices, and manage the folder of one: manifest, lock and ids."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from models.files import parse_json
from retrieval.errors import (
    INDEX_BUSY,
    INDEX_INPUT_INVALID,
    INDEX_MISMATCH,
    INDEX_NOT_WRITTEN,
    IndexDamaged,
    IndexFault,
)
from retrieval.index.base import Ids, RowFilter
from retrieval.lexical.tokens import TOKENIZER_VERSION
from retrieval.passages import Hit, Passage
from retrieval.storage.files import FileLock, sync
from retrieval.types import NameInText

SCHEMA_VERSION: Final = 2
TITLE_WEIGHT: Final = 2
_MAX_ID: Final = 2**63 - 1
MANIFEST: Final = "manifest.json"
_LOCK: Final = "writer.lock"


class Phrases(Protocol):
    """Count phrases, which are tokens of ``phrase_tokens`` in a row, in one commit of an index."""

    def known(self, tokens: Iterable[str]) -> dict[str, int]:
        """Return in how many passages each of the tokens is that any has; those deleted of late may be among them."""
        ...

    def has(self, phrase: tuple[str, ...]) -> bool:
        """Return whether a passage has a phrase, or had a token of late."""
        ...

    def counts(self, phrase: tuple[str, ...], where: RowFilter | None = None) -> tuple[Ids, Ids]:
        """Return the passages that have a phrase, in no order, and how often each has it."""
        ...


class LexicalIndex(Protocol):
    """Index the words and the keywords of one collection of passages.

    Thread-safe. ``add`` and ``delete`` become visible and durable with ``commit``; ``close`` without it, or a crash,
    leaves the last commit. The first change takes the writer lock, ``commit`` releases it.
    """

    def add(self, passages: Iterable[Passage], namespace: int = 0) -> int:
        """Add passages and return how many; a passage replaces an earlier one with its id.

        ``namespace`` is the number that ``RowFilter.namespaces`` matches, since passages do not carry it.

        Raises:
            IndexFault: an id that is not 1 to 2**63 - 1; another process, or another index object, is writing.
        """
        ...

    def delete(self, ids: Sequence[int]) -> None:
        """Delete passages; unknown ids are ignored."""
        ...

    def commit(self) -> None:
        """Make all changes visible and durable.

        Raises:
            IndexFault: the commit is whole or was not made; the same passages can be added again either way.
        """
        ...

    def search(self, query: str, k: int, where: RowFilter | None = None, names: Sequence[NameInText] = ()) -> list[Hit]:
        """Return at most k hits, best first, equal scores by id.

        Any text is words, never query syntax, whatever its punctuation. A passage is credited with the best of a name
        of the query and its synonyms; a synonym counts half of the name, however rare it is.
        """
        ...

    def phrases(self) -> Phrases:
        """Return what counts phrases in the last commit."""
        ...

    def with_words(self, words: Sequence[Sequence[str]], where: RowFilter | None = None) -> Ids:
        """Return the passages whose title or text has every term of one of ``words``, in no order."""
        ...

    def __len__(self) -> int: ...

    def close(self) -> None: ...


def checked_id(passage: Passage) -> int:
    """Return the id of a passage.

    Raises:
        IndexFault: it is not 1 to 2**63 - 1.
    """
    if not 0 < passage.passage_id <= _MAX_ID:
        raise IndexFault(
            f"passage id {passage.passage_id} is not 1 to 2**63 - 1", INDEX_INPUT_INVALID, param="passage_id"
        )
    return passage.passage_id


def identity(kind: str) -> dict[str, Any]:
    """Return the kind and the versions that an index must have for this code to read it."""
    return {"kind": kind, "schema": SCHEMA_VERSION, "tokenizer": TOKENIZER_VERSION, "title_weight": TITLE_WEIGHT}


def read_manifest(folder: Path, kind: str) -> dict[str, Any]:
    """Read the manifest of an index and check its identity.

    Raises:
        IndexDamaged: there is none, or it is no JSON object.
        IndexFault: another kind, schema or tokenizer made it.
    """
    try:
        manifest = parse_json((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise IndexDamaged(f"the manifest of {folder} cannot be read: {error}") from error
    if not isinstance(manifest, dict):
        raise IndexDamaged(f"the manifest of {folder} is no JSON object")
    for key, expected in identity(kind).items():
        if manifest.get(key) != expected:
            raise IndexFault(
                f"{folder} has {key} {manifest.get(key)!r}, this version reads {expected!r}", INDEX_MISMATCH, param=key
            )
    return manifest


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Replace the manifest atomically; it is on the disk when this returns."""
    draft = folder / f".{MANIFEST}.draft"
    write_file(draft, json.dumps(manifest, indent=1, sort_keys=True).encode())
    draft.replace(folder / MANIFEST)
    sync(folder)


def write_file(path: Path, content: bytes | memoryview) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


class WriterLock:
    """Lock a folder for its single writer; the system releases the lock of a process that dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _LOCK
        self._lock: FileLock | None = None

    @property
    def held(self) -> bool:
        return self._lock is not None

    def take(self) -> None:
        """Take the lock, unless this object holds it already.

        Raises:
            IndexFault: another process, or another object of this one, holds it; the folder cannot be written to.
        """
        if self._lock is not None:
            return
        try:
            self._lock = FileLock(self._path)
        except BlockingIOError as error:
            raise IndexFault(f"{self._path.parent} is being written to", INDEX_BUSY) from error
        except OSError as error:
            raise IndexFault(f"{self._path.parent}: {error.strerror}", INDEX_NOT_WRITTEN) from error

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
