"""Tell packages of Office from archives of files, refuse what would swell, and name the document that one holds."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.items import ReadOptions, sha256_of
from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable
from retrieval.formats.notation import lowered, raised
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declarations
from retrieval.passages import Document

ARCHIVE: Final = "zip"
MAIN_PARTS: Final = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "xlsx"}
# The first file of OpenDocument and EPUB, and one of every package of Office.
_PACKAGES: Final = ("mimetype", "[Content_Types].xml")
_MAX_UNPACKED: Final = 512 * 2**20
_BLOCK: Final = 1 << 16
_XML: Final = (".xml", ".rels")
# What programs put in where nobody wrote a title or a name.
_NO_TITLE: Final = frozenset(("", "untitled", "word document", "powerpoint presentation"))
_NO_AUTHOR: Final = frozenset(("", "python-docx", "openpyxl"))


def package_kind(path: Path) -> str:
    """Return docx, pptx or xlsx for a package of Office, "zip" for an archive of files, "" for any other zip file."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return ""
    own = next((kind for part, kind in MAIN_PARTS.items() if part in names), "")
    return own or ("" if not names or names.intersection(_PACKAGES) else ARCHIVE)


@contextlib.contextmanager
def opened(path: Path, what: str) -> Iterator[None]:
    """Check a package, and translate what its library raises in the block.

    Raises:
        DocumentUnreadable: it is damaged or encrypted, has XML with declarations, or would unpack to more than 512 MiB.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(info.file_size for info in archive.infolist()) > _MAX_UNPACKED:
                raise DocumentUnreadable(f"{path}: it unpacks to more than {_MAX_UNPACKED} bytes", DOCUMENT_TOO_LARGE)
            for info in archive.infolist():
                if info.filename.endswith(_XML):
                    with archive.open(info) as part:
                        refuse_declarations(iter(lambda: part.read(_BLOCK), b""))
        yield
    except DeclaredXml as error:
        raise DocumentUnreadable(f"{path}: {error}") from None
    except (DocumentUnreadable, MemoryError):
        raise
    except Exception as error:  # whatever the library raises for a file it cannot read
        raise DocumentUnreadable(f"{path}: the {what} is damaged ({type(error).__name__})") from None


def office_document(
    path: Path, kind: str, shown: tuple[str, str], about: tuple[str, str], options: ReadOptions
) -> Document:
    """Return the document of a file.

    ``shown``: the title that it shows, and its first heading; ``about``: title and author of the file's properties. Its
    title is the first that there is: shown, of the properties, the heading, the file's name.
    """
    (first, heading), (title, author) = (tuple(" ".join(text.split()) for text in two) for two in (shown, about))
    return Document(
        document_id=f"sha256:{sha256_of(path)}",
        title=first or ("" if title.casefold() in _NO_TITLE else title) or heading or path.stem,
        source=kind,
        authors=() if author in _NO_AUTHOR else (author,),
        licence=options.licence,
        provenance=options.provenance or str(path),
        retrieved=options.retrieved,
    )


def placed(text: str, raise_by: float) -> str:
    """Return a text with the mark of what stands raised (above 0) or lowered (below 0)."""
    return raised(text) if raise_by > 0 else lowered(text) if raise_by < 0 else text


def local_name(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
