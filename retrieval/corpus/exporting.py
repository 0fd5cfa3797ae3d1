"""Export a namespace as one tar file or as a folder.

``manifest.json`` has the SHA-256 of every part; parts are JSON lines, each a document with its passages. Vectors are
not exported: an import computes them again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.errors import NamespaceDamaged, NamespaceExists
from retrieval.corpus.items import Reading
from retrieval.corpus.namespace import Namespace
from retrieval.corpus.namespaces import Namespaces
from retrieval.corpus.store_schema import document_text, spans_text
from retrieval.durable import sync_folder
from retrieval.gateway.atomic_folders import draft_beside

FORMAT: Final = "arrowhead-namespace"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
PART: Final = "documents-{:05}.jsonl"
SEAL: Final = "sha256"
_PART_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Part:
    """Describe one file of an export."""

    name: str
    bytes: int
    sha256: str


def export(namespaces: Namespaces, name: str, target: Path) -> list[Part]:
    """Write a namespace to ``target``, which appears only when it is complete.

    ``target`` is a tar where its name ends with .tar, else a folder; it must not exist yet.

    Raises:
        NamespaceExists: ``target`` exists.
        NamespaceBusy, NamespaceUnknown, NamespaceDamaged
    """
    if target.exists():
        raise NamespaceExists(f"{target} is there already")
    with namespaces.sole_writer(name), namespaces.using(name) as namespace:
        try:
            return _export(namespace, target)
        except OSError as error:
            raise NamespaceDamaged(f"{target}: cannot be written: {error.strerror}") from error


def _export(namespace: Namespace, target: Path) -> list[Part]:
    draft = draft_beside(target)
    try:
        folder = draft / "export"
        folder.mkdir()
        parts = list(_write_parts(namespace, folder))
        manifest = _manifest(namespace, parts)
        text = json.dumps(manifest | {SEAL: seal(manifest)}, indent=1, ensure_ascii=False)
        (folder / MANIFEST).write_text(f"{text}\n", encoding="utf-8")
        sync_folder(folder)
        if target.suffix == ".tar":
            packed = draft / "export.tar"
            with tarfile.open(packed, "w", format=tarfile.PAX_FORMAT) as archive:
                for member in (MANIFEST, *(part.name for part in parts)):
                    archive.add(folder / member, member, filter=_anonymous)
            sync_folder(draft)
            packed.rename(target)
        else:
            folder.rename(target)
        return parts
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def seal(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of the manifest without its own digest field."""
    said = {name: value for name, value in manifest.items() if name != SEAL}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _manifest(namespace: Namespace, parts: list[Part]) -> dict[str, Any]:
    store = namespace.store
    counts = store.counts()
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": namespace.name,
        "settings": json.loads(namespace.settings.as_text()),
        "created": store.meta("created"),
        "fingerprint": json.loads(store.meta("fingerprint") or "null"),
        "documents": counts.documents,
        "passages": counts.passages,
        "files": [{"name": part.name, "bytes": part.bytes, "sha256": part.sha256} for part in parts],
    }


def _write_parts(namespace: Namespace, folder: Path) -> Iterator[Part]:
    """Write the documents into parts of at most ``_PART_BYTES`` each, or of one larger document."""
    lines = _lines(namespace)
    line = next(lines, None)
    number = 0
    while line is not None:
        path, digest, size = folder / PART.format(number), hashlib.sha256(), 0
        with path.open("wb") as file:
            while line is not None and (not size or size + len(line) <= _PART_BYTES):
                file.write(line)
                digest.update(line)
                size += len(line)
                line = next(lines, None)
        yield Part(path.name, size, digest.hexdigest())
        number += 1


def _lines(namespace: Namespace) -> Iterator[bytes]:
    for reading, _ in namespace.store.readings():
        yield json.dumps(_row(namespace, reading), ensure_ascii=False).encode() + b"\n"


def _row(namespace: Namespace, reading: Reading) -> dict[str, Any]:
    """Return the JSON fields of a document, with all its passages including duplicates of other documents'."""
    return {
        "document": json.loads(document_text(reading.document)),
        "text": reading.text,
        "spans": json.loads(spans_text(reading.spans)),
        "passages": json.loads(spans_text(namespace.store.spans(reading.document.document_id))),
        "whole": reading.whole,
    }


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Normalize owner, time and mode, so that equal content gives equal bytes on every machine."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member
