"""Register all readers by name, and guess from a file's content which of them it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from retrieval.corpus.items import NO_OPTIONS, Item, Reader, ReadOptions, unreadable_file
from retrieval.corpus.readers import bioc, json_corpora, ncbi_xml, pdf, plain, reference_files, tables, web_page
from retrieval.corpus.readers.guess import guess_kind
from retrieval.corpus.readers.labels import dailymed
from retrieval.corpus.readers.office import slides, word, workbook
from retrieval.errors import DocumentUnreadable, NamespaceInvalid
from retrieval.formats.sources import Source
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declarations

# Of the texts that the readers give. It grows where a reader gives another one for the same file, so that a file that
# was added before is read again when it is added again.
READING_VERSION: Final = 3
_LFS: Final = b"version https://git-lfs.github.com/spec/"


def _guarded(read: Reader) -> Reader:
    """Let a reader take neither XML with declarations of its own nor a pointer to a file, not even as plain text."""

    def guarded(path: Path, options: ReadOptions = NO_OPTIONS, /) -> Iterator[Item]:
        _refuse(path)
        yield from read(path, options)

    return guarded


def _refuse(path: Path) -> None:
    try:
        with unreadable_file():
            if next(Source(path).chunks(), b"").startswith(_LFS):
                raise DocumentUnreadable(f"{path}: a Git LFS pointer, not the file itself: fetch it with git lfs pull")
            refuse_declarations(Source(path).chunks())
    except DeclaredXml as error:
        raise DocumentUnreadable(f"{path}: {error}") from None


READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {
        name: _guarded(read)
        for name, read in (
            ("pubmed", ncbi_xml.read_pubmed),
            ("pubmed-json", json_corpora.read_pubmed_json),
            ("nbib", reference_files.read_nbib),
            ("pmc", ncbi_xml.read_pmc),
            ("statpearls", ncbi_xml.read_statpearls),
            ("bioc", bioc.read),
            ("dailymed", dailymed.read),
            ("medrag", json_corpora.read_medrag),
            ("beir", json_corpora.read_beir),
            ("cord19", json_corpora.read_cord19),
            ("table", tables.read),
            ("ris", reference_files.read_ris),
            ("bib", reference_files.read_bib),
            ("html", web_page.read),
            ("docx", word.read),
            ("pptx", slides.read),
            ("xlsx", workbook.read),
            ("pdf", pdf.read),
            ("text", plain.read),
        )
    }
)


def reader(name: str) -> Reader:
    """Return the reader of this name.

    Raises:
        NamespaceInvalid: no reader has this name.
    """
    found = READERS.get(name)
    if found is None:
        raise NamespaceInvalid(f"there is no reader {name[:40]!r}; there are {', '.join(READERS)}", param="reader")
    return found


def guess_reader(path: Path) -> str:
    """Return the name of the reader for a file, as ``guess_kind`` does.

    Raises:
        DocumentUnreadable: as there, or it is XML with declarations of its own, or a pointer of Git LFS.
    """
    _refuse(path)
    return guess_kind(path)
