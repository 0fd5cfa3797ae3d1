"""Read DailyMed's labels of drugs: SPL's XML, and zip archives of it, as DailyMed packs them within one another.

Structured Product Labeling is HL7's format (``urn:hl7-org:v3``); a label's sections are those of the prescribing
information, boxed warning and dosage among them.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final
from xml.etree import ElementTree

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    date_number,
    document_types,
    path_of,
    unreadable_file,
)
from retrieval.errors import DocumentUnreadable
from retrieval.formats.notation import marked, marked_text, plain, text_of
from retrieval.formats.sources import Source
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declarations
from retrieval.passages import Document

ROOT: Final = "document"
NAMESPACE: Final = "urn:hl7-org:v3"
_SITE: Final = "https://dailymed.nlm.nih.gov/dailymed/drugInfo.cfm?setid="
_MAX_LABEL: Final = 64 * 2**20
# Of a whole release's parts, each of which is an archive of archives.
_MAX_ARCHIVE: Final = 64 * 2**20
_MAX_DEPTH: Final = 60
# The first bytes of a label, which name its format.
_HEAD: Final = 4096
_BLOCKS: Final = (
    "paragraph", "list", "item", "table", "thead", "tbody", "tfoot", "caption", "footnote", "title",
)  # fmt: skip
_LEFT_OUT: Final = ("renderMultiMedia", "observationMedia")
_DAMAGED: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
Element = ElementTree.Element


def holds_labels(path: Path) -> bool:
    """Return whether the first XML of a zip archive is a label, or that of the first archive within it."""
    try:
        with zipfile.ZipFile(path) as archive:
            name, file = _first_xml(archive)
            if file is not None and name.endswith(".zip"):
                with zipfile.ZipFile(io.BytesIO(file.read(_MAX_ARCHIVE))) as inner:
                    name, file = _first_xml(inner)
            return file is not None and name.endswith(".xml") and NAMESPACE.encode() in file.read(_HEAD)
    except (*_DAMAGED, OSError, ValueError):
        return False


def _first_xml(archive: zipfile.ZipFile) -> tuple[str, IO[bytes] | None]:
    """Return name and content of the first XML or archive of an archive, without content where it has none."""
    names = (name for name in archive.namelist() if name.lower().endswith((".xml", ".zip")))
    name = next(names, None)
    return ("", None) if name is None else (name.lower(), archive.open(name))


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each label; one that cannot be read is skipped, with the reason.

    Raises:
        DocumentUnreadable: the archive is damaged or holds no label.
    """
    with unreadable_file():
        if not zipfile.is_zipfile(path):
            data = b"".join(_bounded(Source(path).chunks()))
            if data.startswith(b"PK"):
                raise DocumentUnreadable(f"{path}: the zip archive is damaged or cut: get it again")
            yield _item(path.name, data, 0, options)
            return
        number = 0
        try:
            for number, (name, data) in enumerate(_labels(path), 1):
                yield _item(name, data, number, options)
        except _DAMAGED as error:
            raise DocumentUnreadable(f"{path}: the zip archive is damaged ({error}): get it again") from None
        if not number:
            raise DocumentUnreadable(f"{path}: the archive holds no label (.xml)")


def _labels(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each XML file, also of those in the archives within an archive."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.lower().endswith(".xml"):
                with archive.open(info) as file:
                    yield f"{path.name}/{info.filename}", _limited(file)
            elif info.filename.lower().endswith(".zip") and info.file_size <= _MAX_ARCHIVE:
                with zipfile.ZipFile(io.BytesIO(archive.read(info))) as inner:
                    for label in inner.infolist():
                        if label.filename.lower().endswith(".xml"):
                            with inner.open(label) as file:
                                yield f"{path.name}/{info.filename}/{label.filename}", _limited(file)


def _bounded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        yield chunk
        size += len(chunk)
        if size > _MAX_LABEL:
            return


def _limited(file: IO[bytes]) -> bytes:
    return file.read(_MAX_LABEL + 1)


def _item(name: str, data: bytes, number: int, options: ReadOptions) -> Item:
    if len(data) > _MAX_LABEL:
        return SkippedRecord(name, number, f"the label is larger than {_MAX_LABEL} bytes")
    try:
        refuse_declarations(iter([data]))
        root = ElementTree.fromstring(data)
    except (DeclaredXml, ElementTree.ParseError) as error:
        return SkippedRecord(name, number, f"no XML that can be read: {error}"[:200])
    if root.tag != f"{{{NAMESPACE}}}{ROOT}":
        return SkippedRecord(name, number, "no SPL label: the root is not HL7's document")
    text = TextBuilder()
    for section in root.findall("./{*}component/{*}structuredBody/{*}component/{*}section"):
        _add_section(text, section, ())
    if not len(text):
        return SkippedRecord(name, number, "the label has no text")
    return text.reading(_document(root, name, options), number)


def _document(root: Element, name: str, options: ReadOptions) -> Document:
    number = _attribute(root, "./{*}setId", "root").lower() or Path(name).stem
    product = root.find(".//{*}manufacturedProduct/{*}manufacturedProduct")
    names = [] if product is None else [text_of(product.find("./{*}name"))]
    generic = "" if product is None else text_of(product.find(".//{*}genericMedicine/{*}name"))
    if generic and generic.casefold() not in map(str.casefold, names):
        names.append(f"({generic})")
    maker = text_of(root.find("./{*}author/{*}assignedEntity/{*}representedOrganization/{*}name"))
    kind = _attribute(root, "./{*}code", "displayName")
    version = _attribute(root, "./{*}versionNumber", "value")
    return Document(
        document_id=f"DailyMed:{number}",
        title=" ".join(filter(None, names)) or text_of(root.find("./{*}title"))[:300] or number,
        source="dailymed",
        url=f"{_SITE}{number}",
        authors=(maker,) if maker else (),
        journal="DailyMed",
        date=date_number(_attribute(root, "./{*}effectiveTime", "value")[:8]),
        types=document_types(["drug label", *([kind.lower()] if kind else [])]),
        licence=options.licence,
        provenance=options.provenance or name,
        retrieved=options.retrieved,
        version=int(version) if version.isdigit() and int(version) < 2**31 else 0,
    )


def _attribute(root: Element, path: str, name: str) -> str:
    found = root.find(path)
    return "" if found is None else found.get(name, "").strip()


def _add_section(text: TextBuilder, section: Element, above: tuple[str, ...]) -> None:
    if len(above) > _MAX_DEPTH:
        return
    heading = text_of(section.find("./{*}title")) or _attribute(section, "./{*}code", "displayName").capitalize()
    path = (*above, heading) if heading else above
    body = section.find("./{*}text")
    if body is not None:
        blocks = (" ".join(plain(block).split()) for block in _blocks(body, 0))
        text.add("\n\n".join(filter(None, blocks)), path_of(path))
    for part in section.findall("./{*}component/{*}section"):
        _add_section(text, part, path)


def _blocks(element: Element, depth: int) -> Iterator[str]:
    """Yield the text of each paragraph, item and row, the cells of a row with bars between them."""
    waiting = element.text or ""
    for child in element if depth < _MAX_DEPTH else ():
        name = str(child.tag).rpartition("}")[2]
        if name == "tr":
            yield waiting
            yield " | ".join(filter(None, map(text_of, child)))
            waiting = ""
        elif name in _BLOCKS:
            yield waiting
            yield from _blocks(child, depth + 1)
            waiting = ""
        elif name not in _LEFT_OUT:
            own = marked_text(child)
            found = marked(child, own)
            waiting += own if found is None else found
        waiting += child.tail or ""
    yield waiting
