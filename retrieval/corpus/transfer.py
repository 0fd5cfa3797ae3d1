"""Export a namespace as one gzip file of JSON lines, and import it.

The first line is about the namespace, each further one a document with its passages; gzip's own checksum tells damage.
Vectors are not exported: an import computes them again.
"""

from __future__ import annotations

import gzip
import json
import shutil
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

from models.files import parse_json
from retrieval.corpus.chunking import Chunker
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.namespace import Namespace
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings, settings_of
from retrieval.corpus.store.base import checked_name
from retrieval.corpus.store.schema import document_of, document_text, spans_of, spans_text
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, DocumentUnreadable, NamespaceDamaged, NamespaceInvalid
from retrieval.storage.files import create_draft, sync_folder

FORMAT: Final = "arrowhead-namespace"
VERSION: Final = 2
_MAX_LINE: Final = 512 * 2**20
_DOCUMENTS: Final = 256


def export(namespaces: Namespaces, name: str, target: Path) -> int:
    """Write a namespace to ``target``, which appears only when it is complete, and return its size in bytes.

    Raises:
        CorpusError: ``target`` exists.
        NamespaceBusy, NamespaceUnknown, NamespaceDamaged
    """
    if target.exists():
        raise CorpusError(f"{target} is there already", NAMESPACE_EXISTS)
    with namespaces.writer_lock(name), namespaces.using(name) as namespace:
        try:
            draft = create_draft(target)
            try:
                _write(namespace, draft / "export")
                sync_folder(draft)
                (draft / "export").rename(target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            return target.stat().st_size
        except OSError as error:
            raise NamespaceDamaged(f"{target}: cannot be written: {error.strerror}") from error


def _write(namespace: Namespace, path: Path) -> None:
    # Without name and time, so that equal content gives equal bytes.
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        for row in chain((_head(namespace),), _rows(namespace)):
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def _head(namespace: Namespace) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": namespace.name,
        "settings": json.loads(namespace.settings.as_text()),
        "created": namespace.store.meta("created"),
        "documents": namespace.store.counts().documents,
    }


def _rows(namespace: Namespace) -> Iterator[dict[str, Any]]:
    """Yield the fields of each document, with all its passages including duplicates of other documents'."""
    for reading, _ in namespace.store.parsed_documents():
        yield {
            "document": json.loads(document_text(reading.document)),
            "text": reading.text,
            "spans": json.loads(spans_text(reading.spans)),
            "passages": json.loads(spans_text(namespace.store.spans(reading.document.document_id))),
            "whole": reading.whole,
        }


@dataclass(frozen=True, slots=True)
class _Head:
    name: str
    settings: NamespaceSettings
    created: str
    documents: int


def import_namespace(namespaces: Namespaces, source: Path, name: str = "") -> str:
    """Import an export and return the name of the new namespace.

    ``name`` replaces the name in the export. The indices are empty: ``adding.catch_up`` fills them.

    Raises:
        DocumentUnreadable: not an export, of another version, or damaged.
        CorpusError, NamespaceInvalid, NamespaceBusy; an error leaves nothing behind.
    """
    try:
        with gzip.open(source) as file, ExitStack() as stack:
            head = _read_head(source, file)
            target = checked_name(name or head.name)
            meta = {"settings": head.settings.as_text(), "created": head.created}
            chunker = Chunker(head.settings.chunking)
            creating = namespaces.stores.creating(target, meta, chunker, head.settings.targets)
            writer = stack.enter_context(creating)
            found = 0
            documents = _documents(source, file)
            while rows := list(islice(documents, _DOCUMENTS)):
                with writer.transaction():
                    for reading, cuts in rows:
                        writer.put(reading, cuts)
                found += len(rows)
            if found != head.documents:
                raise DocumentUnreadable(f"{source}: {found} documents of {head.documents}")
        return target
    except (OSError, EOFError, zlib.error) as error:
        raise DocumentUnreadable(f"{source}: no export of a namespace, or damaged ({error})") from error


def _read_head(source: Path, file: gzip.GzipFile) -> _Head:
    try:
        head = parse_json(file.readline(_MAX_LINE))
        if head["format"] != FORMAT or head["version"] != VERSION:
            raise DocumentUnreadable(f"{source}: no {FORMAT} of version {VERSION}")
        settings = settings_of(json.dumps(head["settings"]))
        return _Head(str(head["name"]), settings, str(head["created"])[:40], int(head["documents"]))
    except (ValueError, TypeError, KeyError) as error:
        raise DocumentUnreadable(f"{source}: no export of a namespace ({type(error).__name__})") from error
    except NamespaceInvalid as error:
        raise DocumentUnreadable(f"{source}: line 1 is damaged ({error.message})") from error


def _documents(source: Path, file: gzip.GzipFile) -> Iterator[tuple[ParsedDocument, tuple[Span, ...]]]:
    number = 1
    while line := file.readline(_MAX_LINE):
        number += 1
        try:
            yield _passage_of(line)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise DocumentUnreadable(f"{source}: line {number} is damaged ({error})") from error


def _passage_of(line: bytes) -> tuple[ParsedDocument, tuple[Span, ...]]:
    """Parse the line of a document.

    Raises:
        ValueError, TypeError, KeyError, IndexError: not a document, or passages outside its text.
    """
    row = parse_json(line)
    text = row["text"]
    spans, cuts = (spans_of(json.dumps(row[name])) for name in ("spans", "passages"))
    if not isinstance(text, str) or not text or not spans:
        raise ValueError("no text")
    json.dumps([text, row["document"]], ensure_ascii=False).encode()
    low = 0
    for span in spans:
        if not low <= span.start < span.end <= len(text):
            raise ValueError("its parts do not lie in its text")
        low = span.end
    if any(not 0 <= cut.start < cut.end <= len(text) for cut in cuts):
        raise ValueError("a passage does not lie in its text")
    return ParsedDocument(document_of(json.dumps(row["document"])), text, spans, whole=bool(row["whole"])), cuts
