"""Export a namespace as one tar file or as a folder.

``manifest.json`` has the SHA-256 of every part; parts are JSON lines, each a document with its passages. Vectors are
not exported: an import computes them again.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from retrieval.corpus.chunking import Chunker
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.namespace import Namespace
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings, settings_of
from retrieval.corpus.store.base import PassageWriter, checked_name
from retrieval.corpus.store.schema import document_of, document_text, spans_of, spans_text
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, DocumentUnreadable, NamespaceDamaged, NamespaceInvalid
from retrieval.storage.files import FILE_MODE, FOLDER_MODE, create_draft, sync_folder

FORMAT: Final = "arrowhead-namespace"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
PART: Final = "documents-{:05}.jsonl"
SEAL: Final = "sha256"
_PART_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class ExportPart:
    """Describe one file of an export."""

    name: str
    bytes: int
    sha256: str


def export(namespaces: Namespaces, name: str, target: Path) -> list[ExportPart]:
    """Write a namespace to ``target``, which appears only when it is complete.

    ``target`` is a tar where its name ends with .tar, else a folder; it must not exist yet.

    Raises:
        CorpusError: ``target`` exists.
        NamespaceBusy, NamespaceUnknown, NamespaceDamaged
    """
    if target.exists():
        raise CorpusError(f"{target} is there already", NAMESPACE_EXISTS)
    with namespaces.writer_lock(name), namespaces.using(name) as namespace:
        try:
            return _export(namespace, target)
        except OSError as error:
            raise NamespaceDamaged(f"{target}: cannot be written: {error.strerror}") from error


def _export(namespace: Namespace, target: Path) -> list[ExportPart]:
    draft = create_draft(target)
    try:
        folder = draft / "export"
        folder.mkdir(mode=FOLDER_MODE)
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
    content = {name: value for name, value in manifest.items() if name != SEAL}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _manifest(namespace: Namespace, parts: list[ExportPart]) -> dict[str, Any]:
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


def _write_parts(namespace: Namespace, folder: Path) -> Iterator[ExportPart]:
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
        yield ExportPart(path.name, size, digest.hexdigest())
        number += 1


def _lines(namespace: Namespace) -> Iterator[bytes]:
    for reading, _ in namespace.store.parsed_documents():
        yield json.dumps(_row(namespace, reading), ensure_ascii=False).encode() + b"\n"


def _row(namespace: Namespace, reading: ParsedDocument) -> dict[str, Any]:
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
    member.mode = FILE_MODE
    return member


_PART_NAME: Final = re.compile(r"documents-[0-9]{5}\.jsonl", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MAX_MANIFEST: Final = 32 * 2**20
_MAX_LINE: Final = 512 * 2**20
_DOCUMENTS: Final = 256


@dataclass(frozen=True, slots=True)
class _Manifest:
    name: str
    settings: NamespaceSettings
    created: str
    documents: int
    parts: dict[str, ExportPart]


def import_namespace(
    namespaces: Namespaces, source: Path, name: str = "", settings: NamespaceSettings | None = None
) -> str:
    """Import an export and return the name of the new namespace.

    ``name`` replaces the name in the export. ``settings`` may choose other back ends than the exported ones; passages
    keep their boundaries. The indices are empty: ``adding.catch_up`` fills them.

    Raises:
        DocumentUnreadable: not an export, of another version, damaged, or with unexpected members.
        CorpusError, NamespaceInvalid, NamespaceBusy; an error leaves nothing behind.
    """
    with ExitStack() as stack:
        try:
            export = stack.enter_context(closing(_Export(source)))
            manifest = export.manifest()
        except (OSError, tarfile.TarError) as error:
            raise DocumentUnreadable(f"{source}: no export of a namespace ({error})") from error
        target = checked_name(name or manifest.name)
        chosen = replace(settings or manifest.settings, chunking=manifest.settings.chunking)
        meta = {"settings": chosen.as_text(), "created": manifest.created}
        creating = namespaces.stores.creating(target, meta, Chunker(chosen.chunking), chosen.targets)
        writer = stack.enter_context(creating)
        try:
            _fill(writer, export, manifest)
        except (OSError, tarfile.TarError, EOFError) as error:
            raise DocumentUnreadable(f"{source}: damaged, or it cannot be read ({error})") from error
    return target


def _fill(writer: PassageWriter, file: _Export, manifest: _Manifest) -> None:
    found, seen = 0, set[str]()
    for part, handle in file.parts(manifest):
        seen.add(part.name)
        for rows in _batches(file.lines(part, handle)):
            with writer.transaction():
                for reading, cuts in rows:
                    writer.put(reading, cuts)
                    found += 1
    if seen != set(manifest.parts) or found != manifest.documents:
        raise file.error(f"{found} documents of {manifest.documents}, {len(seen)} parts of {len(manifest.parts)}")


class _Export:
    """Read an export from a tar, front to end, or from a folder."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._archive = None if source.is_dir() else tarfile.open(source, "r:")  # noqa: SIM115 (closed by close)

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()

    def error(self, reason: str) -> DocumentUnreadable:
        return DocumentUnreadable(f"{self._source}: {reason}")

    def manifest(self) -> _Manifest:
        with self._open_manifest() as handle:
            data = handle.read(_MAX_MANIFEST + 1)
        if len(data) > _MAX_MANIFEST:
            raise self.error("the manifest is too large")
        try:
            return self._checked(json.loads(data))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self.error(f"the manifest is damaged ({type(error).__name__})") from error
        except NamespaceInvalid as error:
            raise self.error(f"the manifest is damaged ({error.message})") from error

    def _open_manifest(self) -> IO[bytes]:
        if self._archive is None:
            return (self._source / MANIFEST).open("rb")
        member = self._archive.next()
        handle = self._archive.extractfile(member) if member is not None and member.isreg() else None
        if member is None or member.name != MANIFEST or handle is None:
            raise self.error(f"no export of a namespace: {MANIFEST} does not come first")
        return handle

    def _checked(self, manifest: Any) -> _Manifest:
        if manifest["format"] != FORMAT or manifest["version"] != VERSION:
            raise self.error(f"no {FORMAT} of version {VERSION}")
        if manifest[SEAL] != seal(manifest):
            raise self.error("the manifest is damaged: its SHA-256 is not its own")
        parts: dict[str, ExportPart] = {}
        for entry in manifest["files"]:
            part = ExportPart(str(entry["name"]), int(entry["bytes"]), str(entry["sha256"]))
            if _PART_NAME.fullmatch(part.name) is None or part.name in parts:
                raise self.error(f"the manifest names a part {part.name[:80]!r}, which cannot be one")
            if part.bytes < 0 or _SHA256.fullmatch(part.sha256) is None:
                raise self.error(f"the manifest says nothing sound of {part.name}")
            parts[part.name] = part
        settings = settings_of(json.dumps(manifest["settings"]))
        return _Manifest(
            str(manifest["name"]), settings, str(manifest["created"])[:40], int(manifest["documents"]), parts
        )

    def parts(self, manifest: _Manifest) -> Iterator[tuple[ExportPart, IO[bytes]]]:
        """Yield each part with an open file.

        Raises:
            DocumentUnreadable: a member that the manifest does not name.
        """
        if self._archive is None:
            for part in manifest.parts.values():
                path = self._source / part.name
                if path.is_symlink():
                    raise self.error(f"{part.name} is a link")
                with path.open("rb") as handle:
                    yield part, handle
            return
        seen = set[str]()
        while (member := self._archive.next()) is not None:
            known = manifest.parts.get(member.name)
            if known is None or member.name in seen or not member.isreg() or member.size != known.bytes:
                raise self.error(f"a member {member.name[:80]!r} does not belong there, or is of another size")
            seen.add(member.name)
            opened = self._archive.extractfile(member)
            assert opened is not None
            with opened:
                yield known, opened

    def lines(self, part: ExportPart, handle: IO[bytes]) -> Iterator[tuple[ParsedDocument, tuple[Span, ...]]]:
        """Yield documents with their passages.

        The digest is known only at the end of the part; until then documents go into a draft.
        """
        digest, size, number = hashlib.sha256(), 0, 0
        while line := handle.readline(_MAX_LINE):
            digest.update(line)
            size += len(line)
            number += 1
            if size > part.bytes:
                break
            try:
                yield _passage_of(line)
            except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
                raise self.error(f"{part.name} line {number} is damaged ({error})") from error
        if size != part.bytes or digest.hexdigest() != part.sha256:
            raise self.error(f"{part.name} is damaged: its SHA-256 is not the manifest's")


def _passage_of(line: bytes) -> tuple[ParsedDocument, tuple[Span, ...]]:
    """Parse one line of a part.

    Raises:
        ValueError, TypeError, KeyError, IndexError, RecursionError: not a document, or passages outside its text.
    """
    row = json.loads(line)
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


def _batches(
    rows: Iterator[tuple[ParsedDocument, tuple[Span, ...]]],
) -> Iterator[list[tuple[ParsedDocument, tuple[Span, ...]]]]:
    batch = []
    for row in rows:
        batch.append(row)
        if len(batch) >= _DOCUMENTS:
            yield batch
            batch = []
    yield batch
