"""Provide the small namespace of notes for trials that comes with the package: created at first use, never changed."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from models.errors import ModelError
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import Backends, NamespaceSettings
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, NamespaceBusy, NamespaceDamaged
from retrieval.lexical.base import SCHEMA_VERSION
from retrieval.lexical.tokens import TOKENIZER_VERSION
from retrieval.passages import Document

log = logging.getLogger(__name__)
NOTES: Final = "notes"
NOTES_FILE: Final = Path(__file__).parent / "sample" / "notes.txt"
LICENCE: Final = "CC0; notes for trying out, no medical advice"
_SOURCE: Final = "Arrowhead notes"
_DONE: Final = "notes"
_WAIT_S: Final = 120.0
_POLL_S: Final = 0.2
_REMOVED: Final = "removed"


class SampleNotes:
    """Keep the notes beside the namespaces of a data folder until they are removed; implements ``Sample``.

    Thread-safe. They lie below ``root``; a removal is a mark there, for everybody or with the name of an owner.
    """

    name = NOTES

    def __init__(self, root: Path, backends: Backends, encoder: str) -> None:
        self._root = root
        self._backends = backends
        self._encoder = encoder
        self._lock = threading.Lock()
        self._opened: Namespaces | None = None

    @property
    def is_there(self) -> bool:
        return not self._mark("").exists()

    @property
    def documents(self) -> int:
        """Return how many notes there are, without opening them."""
        return sum(1 for _ in read_notes(NOTES_FILE.read_text(encoding="utf-8")))

    def is_hidden(self, owner: str) -> bool:
        return bool(owner) and self._mark(owner).exists()

    def set_there(self, there: bool, owner: str = "") -> None:
        """Remove the notes for an owner, or bring them back; for everybody where none is named.

        Raises:
            NamespaceDamaged: the folder cannot be written.
        """
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            if not there:
                self._mark(owner).touch()
                return
            for mark in [self._mark(owner)] if owner else [*self._root.glob(f"{_REMOVED}*")]:
                mark.unlink(missing_ok=True)
        except OSError as error:
            raise NamespaceDamaged(f"{self._root}: cannot be written: {error.strerror}") from error

    def _mark(self, owner: str) -> Path:
        return self._root / (f"{_REMOVED}-{owner}" if owner else _REMOVED)

    def opened(self) -> Namespaces:
        """Return namespaces that include the notes; the first call may create them, which blocks for seconds."""
        with self._lock:
            if self._opened is None:
                began = time.monotonic()
                encoder = self._usable_encoder()
                self._opened = notes_namespaces(self._root, self._backends, encoder)
                seconds = time.monotonic() - began
                log.info("notes of the package ready: encoder=%s seconds=%.1f", encoder or "none", seconds)
            return self._opened

    def _usable_encoder(self) -> str:
        try:
            self._backends.encoders(self._encoder)
        except ModelError as error:
            log.warning("notes are searched by words alone: encoder=%s cause=%s", self._encoder, error.message)
            return ""
        return self._encoder

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()


def notes_namespaces(root: Path, backends: Backends, encoder: str) -> Namespaces:
    """Return namespaces that include the notes, which the first call creates.

    ``encoder`` "" leaves vectors out. Each encoder and each version of the notes and of their index has a folder
    below ``root``. Blocks during the creation; the next call completes one that was killed.

    Raises:
        NamespaceBusy: another process has been creating it for two minutes.
        CorpusError: the folder cannot be written.
        ModelError, IndexFault: the encoder or an index failed.
    """
    text = NOTES_FILE.read_text(encoding="utf-8")
    version = hashlib.sha256(f"{encoder}\0{TOKENIZER_VERSION}\0{SCHEMA_VERSION}\0{text}".encode()).hexdigest()[:16]
    namespaces = Namespaces(root / version, backends)
    deadline = time.monotonic() + _WAIT_S
    try:
        while not _is_whole(namespaces):
            try:
                _make(namespaces, encoder, text)
            except NamespaceBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
    except BaseException:
        namespaces.close()
        raise
    return namespaces


def read_notes(text: str) -> Iterator[ParsedDocument]:
    for part in re.split(r"(?m)^# ", text)[1:]:
        title, _, body = part.partition("\n")
        title, body = title.strip(), body.strip()
        name = "-".join(re.findall(r"[a-z0-9]+", title.lower()))
        document = Document(
            document_id=f"NOTE:{name}", title=title, source=_SOURCE, licence=LICENCE, provenance=NOTES_FILE.name
        )
        yield ParsedDocument(document, body, (Span(0, len(body)),), whole=True)


def _is_whole(namespaces: Namespaces) -> bool:
    if NOTES not in namespaces.names():
        return False
    with namespaces.using(NOTES) as namespace:
        return bool(namespace.store.meta(_DONE))


def _make(namespaces: Namespaces, encoder: str, text: str) -> None:
    # The readers of all formats come with it, which commands that only name the notes must not wait for.
    from retrieval.corpus.ingest.add import add_items

    # Another process may have begun it, and been killed or still be running.
    try:
        namespaces.create(NOTES, NamespaceSettings(encoder=encoder))
    except CorpusError as error:
        if not NAMESPACE_EXISTS.is_of(error):
            raise
    add_items(namespaces, NOTES, read_notes(text))
    namespaces.note(NOTES, _DONE, "whole")
