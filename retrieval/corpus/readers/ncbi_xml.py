"""Read NCBI's XML: PubMed's records, PMC's full texts in JATS, and chapters of the Bookshelf in BITS.

PubMed: baseline files, update files and efetch replies. PMC: one article, a pmc-articleset (efetch), or a tar(.gz) of
articles. Bookshelf: one chapter, or a tar(.gz) of them, StatPearls above all, which may be fetched from NCBI
(NBK430685) but not redistributed, so a site reads its own copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from retrieval.corpus.items import (
    NO_OPTIONS,
    Item,
    ParsedDocument,
    ReadOptions,
    SkippedRecord,
    TextBuilder,
    Withdrawn,
    date_number,
    document_types,
    path_of,
    unreadable_file,
)
from retrieval.errors import ImportFileError
from retrieval.formats import items as formats
from retrieval.formats import pmc_jats, pubmed_xml
from retrieval.formats.items import Bad, MalformedRecord, bad, date_of
from retrieval.formats.notation import text_of
from retrieval.formats.pmc_jats import author_name, local_name, plain_text
from retrieval.formats.records import Article, FullText, Removal
from retrieval.formats.sources import Source, is_tar, tar_members
from retrieval.formats.xml_records import Layout, RawRecord, parse, records
from retrieval.passages import Document

_WITH_DOI: Final = formats.ReadOptions(doi_suffices=True)
_PMC_ADDRESS: Final = "https://pmc.ncbi.nlm.nih.gov/articles/"
_MAX_DEPTH: Final = 50
_HEADINGS: Final = frozenset(("title", "label", "sec-meta", "subtitle"))
_LEFT_OUT: Final = frozenset(("ref-list", "fn-group", "glossary-ref"))
_ONLY_MARKS: Final = re.compile(r"[\s,;\-–—()\[\]]*")
_HREF: Final = "{http://www.w3.org/1999/xlink}href"
_MAX_LICENCE: Final = 200
ABSTRACT: Final = "Abstract"
_NOTICES: Final = frozenset(("retraction notice", "published erratum", "expression of concern"))
_FLOATS: Final = "Figures and tables"
_MAX_CHAPTER: Final = 64 * 2**20
# A chapter's file is a wrapper around it, or the chapter alone; either is one record.
_CHAPTER_LAYOUTS: Final = tuple(
    Layout("", frozenset((name,)), alone=name, max_record=_MAX_CHAPTER) for name in ("book-part-wrapper", "book-part")
)
_CHAPTER_SUFFIXES: Final = (".nxml", ".xml")
_CHAPTER_NUMBER: Final = re.compile(r"(?:article-|NBK)([0-9]+)", re.ASCII)
_PUBMED_BOOK: Final = re.compile(r"\s*<PubmedBookArticle\b")
_PUBMED_RIGHTS: Final = re.compile(r"<CopyrightInformation>([^<]{1,300})")


def add_sections(
    text: TextBuilder, parent: Element, path: tuple[str, ...] = (), *, bold_headings: bool = False
) -> None:
    """Add the words of ``parent`` in their order, with tables and figures under their labels.

    Letters and numbers stay as printed. ``bold_headings``: a paragraph entirely in bold is the heading of what follows,
    as in StatPearls.

    Raises:
        MalformedRecord: sections are nested deeper than in any article.
    """
    if len(path) > _MAX_DEPTH:
        raise MalformedRecord(f"sections are nested more than {_MAX_DEPTH} deep")
    blocks: list[str] = []
    here = path

    def close() -> None:
        text.add("\n".join(blocks), path_of(here))
        blocks.clear()

    for child in parent:
        name = local_name(child)
        if name in _HEADINGS or name in _LEFT_OUT:
            continue
        if name == "sec":
            close()
            add_sections(text, child, (*path, heading_of(child)), bold_headings=bold_headings)
        elif bold_headings and (heading := _bold_heading(child)):
            close()
            here = (*path, heading)
        elif words := plain_text(child):
            blocks.append(words)
    close()


def heading_of(section: Element) -> str:
    return " ".join(plain_text(section.find("{*}title")).split())


def drop_raised_citations(root: Element) -> None:
    """Remove superscripts that contain only citations.

    Joined to the word before, they would read as part of it or of a number ("p5312"). Citations in brackets stay as
    printed.
    """
    for parent in list(root.iter()):
        children = list(parent)
        kept = [child for child in children if not _is_raised_citation(child)]
        if len(kept) < len(children):
            _keep_tails(parent, children)
            parent[:] = kept


def _keep_tails(parent: Element, children: list[Element]) -> None:
    """Move the text behind each raised citation to what stays before it: ElementTree removes it with the element."""
    before: Element | None = None
    for child in children:
        if not _is_raised_citation(child):
            before = child
        elif before is None:
            parent.text = (parent.text or "") + (child.tail or "")
        else:
            before.tail = (before.tail or "") + (child.tail or "")


def licence_of(meta: Element | None) -> str:
    """Return the address of an article's licence, else the start of its text, "" where it names none."""
    licence = None if meta is None else meta.find("{*}permissions/{*}license")
    if licence is None:
        return ""
    address = licence.get(_HREF) or next((a for e in licence.iter() if (a := e.get(_HREF, ""))), "")
    return address.strip() or " ".join(plain_text(licence).split())[:_MAX_LICENCE]


def notices_of(meta: Element | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the notices that an article names about itself: (retracted by, corrected by)."""
    related = [] if meta is None else meta.findall("{*}related-article")
    kinds = {"retraction-forward": 0, "correction-forward": 1, "concern-forward": 1, "object-of-concern-forward": 1}
    found: tuple[dict[str, None], dict[str, None]] = ({}, {})
    for article in related:
        kind = kinds.get(article.get("related-article-type", ""))
        if kind is not None and (address := article.get(_HREF, "").strip()):
            found[kind][address] = None
    return tuple(found[0]), tuple(found[1])


def _bold_heading(child: Element) -> str:
    if local_name(child) != "p" or (child.text or "").strip() or len(child) != 1:
        return ""
    only = child[0]
    if local_name(only) != "bold" or (only.tail or "").strip():
        return ""
    return text_of(only).rstrip(":")


def _is_raised_citation(element: Element) -> bool:
    name = local_name(element)
    if name == "xref":
        return element.get("ref-type") == "bibr" and not (element.text or "").strip() and _all_raised(element)
    return name == "sup" and len(element) > 0 and _only_citations(element)


def _all_raised(xref: Element) -> bool:
    return len(xref) > 0 and all(local_name(child) == "sup" and not (child.tail or "").strip() for child in xref)


def _only_citations(raised: Element) -> bool:
    between = (raised.text or "") + "".join(child.tail or "" for child in raised)
    citations = (local_name(child) == "xref" and child.get("ref-type") == "bibr" for child in raised)
    return all(citations) and _ONLY_MARKS.fullmatch(between) is not None


def read_pmc(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each article, its abstract whole.

    Back matter (acknowledgements, references, appendices) is left out. An article that NCBI sends without body, because
    its publisher does not allow it, is a ``SkippedRecord``. A publisher's own file may have a DOI in place of a PMC
    number.
    """
    with unreadable_file():
        for item in pmc_jats.read(Source(path), _WITH_DOI):
            if isinstance(item, Bad):
                yield SkippedRecord(path.name, item.line, item.reason)
            elif isinstance(item.entry, FullText):
                yield _article_item(item.entry, (path, item.line), options)


def _article_item(article: FullText, position: tuple[Path, int], options: ReadOptions) -> Item:
    path, line = position
    try:
        root = ElementTree.fromstring(article.xml)
        if root.find("{*}body") is None:
            return SkippedRecord(path.name, line, f"{_name_of(article)}: no full text, the publisher keeps it back")
        return _article_reading(article, root, line, (options.provenance or path.name, options))
    except MalformedRecord as error:
        return SkippedRecord(path.name, line, bad(line, f"{_name_of(article)}: {error}").reason)


def _name_of(article: FullText) -> str:
    return f"PMC{article.pmcid}" if article.pmcid else f"DOI {article.doi}"


def _article_reading(article: FullText, root: Element, line: int, how: tuple[str, ReadOptions]) -> ParsedDocument:
    provenance, options = how
    meta = root.find("{*}front/{*}article-meta")
    kinds = document_types([root.get("article-type", "")])
    # Some publishers put into the notice itself the relation that belongs in the article it refers to.
    retracted_by, corrected_by = ((), ()) if _NOTICES.intersection(kinds) else notices_of(meta)
    document = Document(
        document_id=f"PMC:{article.pmcid}" if article.pmcid else f"DOI:{article.doi}",
        title=article.title,
        source="pmc" if article.pmcid else "jats",
        url=f"{_PMC_ADDRESS}PMC{article.pmcid}/" if article.pmcid else f"https://doi.org/{quote(article.doi)}",
        authors=article.authors,
        journal=article.journal[0] if article.journal else "",
        date=date_number(article.date),
        types=document_types([root.get("article-type", "")], retracted=bool(retracted_by)),
        licence=licence_of(meta) or options.licence,
        provenance=provenance,
        retrieved=options.retrieved,
        retracted_by=retracted_by,
        corrected_by=corrected_by,
        record=f"PMID:{article.pmid}" if article.pmid else "",
    )
    drop_raised_citations(root)
    text = TextBuilder()
    text.add(_article_abstract(meta), ABSTRACT)
    body = root.find("{*}body")
    if body is not None:
        add_sections(text, body)
    floats = root.find("{*}floats-group")
    if floats is not None:
        text.add(plain_text(floats), _FLOATS)
    return text.reading(document, line)


def _article_abstract(meta: Element | None) -> str:
    """Return the main abstract, else the first of the others, with its headings on lines of their own."""
    found = [] if meta is None else meta.findall("{*}abstract")
    proper = [abstract for abstract in found if not abstract.get("abstract-type")] or found[:1]
    return "\n".join(filter(None, map(plain_text, proper)))


def read_statpearls(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each chapter; in sections, StatPearls' bold paragraphs become headings."""
    with unreadable_file():
        source = Source(path)
        if not is_tar(source):
            yield _chapter_item(
                _chapter_record(source, b"".join(_bounded_chapter(source.chunks()))), (path.name, path.stem, 0), options
            )
            return
        found = False
        for member in tar_members(source):
            if not member.name.endswith(_CHAPTER_SUFFIXES):
                continue
            found = True
            member_position = (f"{path.name}/{member.name}", member.name.rpartition(".")[0], member.number)
            try:
                yield _chapter_item(
                    _chapter_record(source, b"".join(_bounded_chapter(member.content))), member_position, options
                )
            except ImportFileError as error:
                yield SkippedRecord(member_position[0], member.number, error.reason)
        if not found:
            raise source.error("the archive holds no .nxml or .xml file")


def _bounded_chapter(chunks: Iterator[bytes]) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > _MAX_CHAPTER:
            return
        yield chunk


def _chapter_record(source: Source, data: bytes) -> RawRecord:
    """Return the record of the chapter.

    Raises:
        ImportFileError: the text is not a chapter, or is truncated.
    """
    layout = _CHAPTER_LAYOUTS[0] if b"<book-part-wrapper" in data else _CHAPTER_LAYOUTS[1]
    (record,) = records(source, iter([data]), layout)
    return record


def _chapter_item(record: RawRecord, member_position: tuple[str, str, int], options: ReadOptions) -> Item:
    file, stem, line = member_position
    try:
        root, _ = parse(record)
        part = root.find(".//{*}book-part") if root.tag.endswith("wrapper") else root
        meta = None if part is None else part.find("{*}book-part-meta")
        body = None if part is None else part.find("{*}body")
        if part is None or meta is None or body is None:
            raise MalformedRecord("no chapter with book-part-meta and body within")
        title = " ".join(plain_text(meta.find("{*}title-group/{*}title")).split())
        if not title:
            raise MalformedRecord("the chapter has no title")
        document = _chapter_document(root, part, (title, stem), options)
        drop_raised_citations(body)
        text = TextBuilder()
        add_sections(text, body, bold_headings=True)
    except MalformedRecord as error:
        return SkippedRecord(file, line, str(error)[:200])
    return text.reading(document, line)


def _chapter_document(root: Element, part: Element, names: tuple[str, str], options: ReadOptions) -> Document:
    title, stem = names
    meta, book = part.find("{*}book-part-meta"), root.find(".//{*}book-meta")
    ids = [text_of(found) for found in part.findall("{*}book-part-meta/{*}book-part-id")]
    number = _CHAPTER_NUMBER.search(" ".join([*ids, part.get("id", ""), stem]))
    nbk = next((value for value in ids if value.startswith("NBK")), "")
    dates = [] if meta is None else [*meta.findall(".//{*}date"), *meta.findall("{*}pub-date")]
    return Document(
        document_id=f"NBK:{nbk[3:]}" if nbk else f"Bookshelf:{number[0] if number else stem}",
        title=title,
        source="statpearls" if stem.startswith("article-") else "bookshelf",
        url=f"https://www.ncbi.nlm.nih.gov/books/{nbk}/" if nbk else "",
        authors=_chapter_authors(part),
        journal="" if book is None else text_of(book.find("{*}book-title-group/{*}book-title")),
        date=date_number(max(map(date_of, dates), default="")),
        types=document_types(["book chapter"]),
        licence=licence_of(meta) or licence_of(book) or options.licence,
        provenance=options.provenance or stem,
        retrieved=options.retrieved,
    )


def _chapter_authors(part: Element) -> tuple[str, ...]:
    contributors = part.findall("{*}book-part-meta/{*}contrib-group/{*}contrib")
    return tuple(dict.fromkeys(filter(None, map(author_name, contributors))))


def read_pubmed(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield a document for each article and book chapter, ``Withdrawn`` for each PMID of a DeleteCitation."""
    with unreadable_file():
        newest: dict[int, int] = {}
        for item in pubmed_xml.read(Source(path)):
            if isinstance(item, Bad):
                yield SkippedRecord(path.name, item.line, item.reason)
            elif isinstance(item.entry, Removal):
                yield Withdrawn(f"PMID:{item.entry.uid}")
            elif isinstance(item.entry, Article):
                article = item.entry
                if article.version < newest.get(article.pmid, 1):
                    reason = f"PMID {article.pmid}: version {article.version}, of which the file has a newer one"
                    yield SkippedRecord(path.name, item.line, reason)
                    continue
                if article.version > 1:
                    newest[article.pmid] = article.version
                yield article_document(item.entry, item.line, options.provenance or path.name, options)


def article_document(article: Article, line: int, provenance: str, options: ReadOptions) -> ParsedDocument:
    """Convert an article, with the abstract as one part and its labels in capitals before their paragraphs."""
    book = ("book chapter",) if _PUBMED_BOOK.match(article.xml) else ()
    rights = _PUBMED_RIGHTS.search(article.xml)
    document = Document(
        document_id=f"PMID:{article.pmid}",
        title=article.title,
        source="pubmed",
        url=f"https://pubmed.ncbi.nlm.nih.gov/{article.pmid}/",
        authors=article.authors,
        journal=article.journal[0] if article.journal else "",
        date=date_number(article.date),
        types=document_types((*article.types, *book), retracted=bool(article.retracted_by)),
        licence=" ".join(rights[1].split()) if rights else options.licence,
        provenance=provenance,
        retrieved=options.retrieved,
        retracted_by=article.retracted_by,
        corrected_by=article.corrected_by,
        version=article.version if article.version > 1 else 0,
    )
    text = TextBuilder()
    text.add(article.abstract)
    return text.reading(document, line)
