"""Provide the small namespace of notes for trials that comes with the package, created at first use, read-only."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import Backends, NamespaceSettings
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, NamespaceBusy
from retrieval.passages import Document

NOTES: Final = "notes"
NOTES_FILE: Final = Path(__file__).parent / "sample" / "notes.txt"
LICENCE: Final = "CC0; notes for trying out, no medical advice"
_SOURCE: Final = "Arrowhead notes"
_DONE: Final = "notes"
_WAIT_S: Final = 120.0
_POLL_S: Final = 0.2


def notes_namespaces(root: Path, backends: Backends, encoder: str) -> Namespaces:
    """Return namespaces that include the notes, which the first call creates.

    ``encoder`` "" leaves vectors out. Each version of the notes and each encoder has a folder below ``root``. Blocks
    during the creation; the next call completes one that was killed.

    Raises:
        NamespaceBusy: another process has been creating it for two minutes.
        CorpusError: the folder cannot be written.
        ModelError, IndexFault: the encoder or an index failed.
    """
    text = NOTES_FILE.read_text(encoding="utf-8")
    version = hashlib.sha256(f"{encoder}\0{text}".encode()).hexdigest()[:16]
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
