"""Read full texts of PubMed Central in JATS XML: one article, a pmc-articleset, or a tar(.gz) of such files.

The open-access packages (ftp.ncbi.nlm.nih.gov/pub/pmc/oa_bulk) are tar.gz files with one .xml or .nxml for each
article.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree.ElementTree import Element

from retrieval.errors import ImportFileError
from retrieval.formats.items import NO_OPTIONS, Good, Item, MalformedRecord, ReadOptions, bad, date_of
from retrieval.formats.mathml import RAISE, math_text
from retrieval.formats.notation import marked, plain, raised, text_of
from retrieval.formats.records import FullText
from retrieval.formats.sources import Member, Source, is_tar, tar_members
from retrieval.formats.table_grid import table_rows
from retrieval.formats.tables import whole
from retrieval.formats.untrusted_input import MAX_DEPTH, TOO_DEEP
from retrieval.formats.xml_records import Layout, RawRecord, parse, records

_BREAK: Final = "\0"  # in no XML document
_BLOCKS: Final = frozenset((
    "abstract", "ack", "app", "boxed-text", "caption", "def-item", "disp-formula", "disp-quote", "fig", "fn", "list",
    "list-item", "p", "sec", "speech", "statement", "subtitle", "supplementary-material", "table-wrap",
    "table-wrap-foot", "title", "tr", "trans-abstract", "verse-line",
    # HTML's, which web pages have, and JATS within its tables.
    "article", "blockquote", "br", "dd", "div", "dl", "dt", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6",
    "li", "main", "ol", "pre", "section", "table", "array", "ul",
))  # fmt: skip
# References have records of their own; the others are not prose.
_EXCLUDED: Final = frozenset(("ref-list", "object-id", "permissions", "processing-meta", "alt-text"))
_NOTES: Final = frozenset(("bibr", "fn", "table-fn"))
_TEX_BODY: Final = re.compile(r"\\begin\{document\}(.*?)(?:\\end\{document\}|$)", re.DOTALL)
_TABLES: Final = frozenset(("table", "array"))
_SPACED: Final = frozenset(("label", "term", "def", "break", "ext-link", "email"))


def plain_text(element: Element | None, excluded: frozenset[str] = frozenset()) -> str:
    """Return the text of an element, with the cells of a table row separated by " | " (see ``table_rows``).

    References and ``excluded`` elements are dropped. A formula is read from its MathML, and where it has none its LaTeX
    stays as written. Powers and indices: see ``notation``.

    Raises:
        MalformedRecord: elements are nested deeper than in any article.
    """
    if element is None:
        return ""
    return _plain_text(element, _EXCLUDED | excluded, 0)


def _plain_text(element: Element, excluded: frozenset[str], depth: int) -> str:
    pieces: list[str] = []
    _walk(element, pieces, excluded, depth)
    lines = (" ".join(line.split()) for line in plain("".join(pieces)).split(_BREAK))
    return "\n".join(line for line in lines if line)


def local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _walk(element: Element, pieces: list[str], excluded: frozenset[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise MalformedRecord(TOO_DEEP)
    if local_name(element) in _TABLES:
        captions = (_plain_text(child, excluded, depth + 1) for child in element if local_name(child) == "caption")
        rows = table_rows(element, lambda cell: _plain_text(cell, excluded, depth + 1))
        pieces.append(_BREAK.join((*captions, *rows)))
        return
    if element.text:
        pieces.append(element.text)
    has_math = any(local_name(child) == "math" for child in element)
    for child in element:
        name = local_name(child)
        if name == "math":
            pieces.append(math_text(child))
        elif name == "tex-math":
            pieces.append("" if has_math else _tex(child))
        elif name not in excluded:
            _add_child(child, pieces, excluded, depth + 1)
        if child.tail:
            pieces.append(child.tail)


def _add_child(child: Element, pieces: list[str], excluded: frozenset[str], depth: int) -> None:
    name = local_name(child)
    separator = _BREAK if name in _BLOCKS else " " if name in _SPACED else ""
    own: list[str] = [separator]
    _walk(child, own, excluded, depth)
    text = "".join(own)
    if (found := marked(child, text)) is not None:
        text = found
    elif child.get("ref-type") in _NOTES and RAISE not in text and "".join(pieces[-2:])[-1:].isalnum():
        # The journal prints it raised; glued to a word or a number it would read as part of it.
        text = raised(text)
    pieces.extend((text, separator))


def _tex(element: Element) -> str:
    """Return a formula in LaTeX without the document around it."""
    text = "".join(element.itertext())
    body = _TEX_BODY.search(text)
    return f" {(body[1] if body else text).strip().strip('$').strip()} "


LAYOUT: Final = Layout("pmc-articleset", frozenset(("article",)), alone="article", max_record=64 * 2**20)
_MEMBER: Final = Layout("", frozenset(("article",)), alone="article", max_record=LAYOUT.max_record)
_SUFFIXES: Final = (".xml", ".nxml")
_NUMBER: Final = re.compile(r"(?:PMC)?([0-9]+)(?:\.[0-9]+)?", re.ASCII)
_NUMBER_IN_NAME: Final = re.compile(r"PMC([0-9]+)", re.ASCII)
_NOT_OF_A_GROUP: Final = frozenset(("contrib-group", "aff", "address", "xref", "fn", "ext-link", "contrib-id"))
_NAME_PART: Final = re.compile(r"[^\W\d_]+")
_MARKS: Final = frozenset(("xref", "fn"))
_ID_TYPES: Final = ("pmc", "pmcid", "pmcaid", "pmc-id")
# The first of these that an article has is its date: first publication, then the issue's, last PMC's own.
_DATE_TYPES: Final = ("epub", "pub", "publication", "ppub", "epub-ppub", "collection", "pmc-release", "")


def read(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield a FullText for each article.

    ``line`` is the number of the member in an archive, else the line on which the article begins. ``body`` is the text
    of sections, captions and tables, without references; see ``plain_text``.
    """
    if not is_tar(source):
        for record in records(source, source.chunks(), LAYOUT):
            if skip > 0:
                skip -= 1
            else:
                yield _item(record, (record.line, source.path.name), options)
        return
    found = False
    for member in tar_members(source):
        if not member.name.endswith(_SUFFIXES):
            continue
        found = True
        if skip > 0:
            skip -= 1
        else:
            yield _member_item(source, member, options)
    if not found:
        raise source.error("the archive holds no .xml or .nxml file")


def _member_item(source: Source, member: Member, options: ReadOptions) -> Item:
    """Return the item of one member; a fault of its file is a Bad, a fault of the archive an ImportFileError."""
    parts, size = [], 0
    for part in member.content:
        size += len(part)
        if size > _MEMBER.max_record:
            return bad(member.number, f"{member.name}: larger than {_MEMBER.max_record} bytes")
        parts.append(part)
    try:
        (record,) = records(source, iter(parts), _MEMBER)
    except ImportFileError as error:
        return bad(member.number, f"{member.name}: {error.reason}")
    return _item(record, (member.number, member.name), options)


def _item(record: RawRecord, place: tuple[int, str], options: ReadOptions) -> Item:
    line, name = place
    try:
        element, xml = parse(record)
        found = _full_text(element, xml, name)
        if not found.pmcid and not (found.doi and options.doi_suffices):
            nor = " nor a DOI" if options.doi_suffices else ""
            raise MalformedRecord(f"article: no PMC number{nor} among its article-ids, nor in the file's name")
        return Good(line, found)
    except MalformedRecord as error:
        return bad(line, f"{name}: {error}")


def _full_text(element: Element, xml: str, name: str) -> FullText:
    meta, journal = element.find("{*}front/{*}article-meta"), element.find("{*}front/{*}journal-meta")
    if meta is None:
        raise MalformedRecord("article: no front matter with article-meta within")
    ids: dict[str, str] = {}
    for found in meta.findall("{*}article-id"):
        ids.setdefault(found.get("pub-id-type", ""), text_of(found))
    return FullText(
        pmcid=_pmcid(ids, name),
        xml=xml,
        pmid=ids.get("pmid", ""),
        doi=ids.get("doi", ""),
        title=" ".join(plain_text(meta.find("{*}title-group/{*}article-title"), _MARKS).split()),
        abstract=_abstract(meta),
        body=plain_text(element.find("{*}body")),
        journal=_journal(journal),
        date=_date(meta),
        authors=_authors(meta),
    )


def _pmcid(ids: Mapping[str, str], name: str) -> int:
    """Return the PMC number from the article's own ids, else from its file name, 0 if neither has one."""
    for kind in _ID_TYPES:
        if found := _NUMBER.fullmatch(ids.get(kind, "")):
            return whole(found[1], "article-id")
    named = _NUMBER_IN_NAME.search(name)
    return whole(named[1], "file name") if named else 0


def _abstract(meta: Element) -> str:
    """Return the abstract proper, which has no type, unlike teasers and graphical abstracts; else the first one."""
    found = meta.findall("{*}abstract")
    proper = [abstract for abstract in found if not abstract.get("abstract-type")] or found[:1]
    return "\n".join(filter(None, map(plain_text, proper)))


def _journal(meta: Element | None) -> tuple[str, ...]:
    """Return the journal's title, abbreviations and ISSNs, without publishers' identifiers."""
    if meta is None:
        return ()
    titles = [*meta.findall(".//{*}journal-title"), *meta.findall(".//{*}abbrev-journal-title")]
    short = [at for at in meta.findall("{*}journal-id") if at.get("journal-id-type") in ("nlm-ta", "iso-abbrev")]
    texts = (text_of(part) for part in (*titles, *short, *meta.findall("{*}issn")))
    return tuple(dict.fromkeys(filter(None, texts)))


def _date(meta: Element) -> str:
    dates = {at.get("pub-type") or at.get("date-type") or "": at for at in reversed(meta.findall("{*}pub-date"))}
    ranked = [*(dates[kind] for kind in _DATE_TYPES if kind in dates), *dates.values()]
    return next(filter(None, map(date_of, ranked)), "")


def _authors(meta: Element) -> tuple[str, ...]:
    contributors = meta.findall("{*}contrib-group/{*}contrib")
    authors = (at for at in contributors if at.get("contrib-type", "author") == "author")
    return tuple(dict.fromkeys(name for author in authors if (name := author_name(author))))


def author_name(author: Element) -> str:
    """Return the name of a contributor, a person ("Last FM") or a group, "" for an anonymous one."""
    name = personal_name(author)
    return group_name(author) if name is None else _name(name)


def personal_name(contributor: Element) -> Element | None:
    """Return the name of a person: of several the one in Latin letters; None for a group, whose members are within."""
    found = [*contributor.findall("{*}name"), *contributor.findall("{*}name-alternatives/{*}name")]
    found += [
        name
        for name in contributor.findall("{*}string-name") + contributor.findall("{*}name-alternatives/{*}string-name")
        if name.find("{*}surname") is not None
    ]
    return min(found, key=lambda name: name.get("name-style", "western") != "western", default=None)


def group_name(contributor: Element) -> str:
    """Return the name of a group, or one that is no surname with given names, "" for neither."""
    paths = ("{*}collab", "{*}collab-alternatives/{*}collab", "{*}string-name", "{*}name-alternatives/{*}string-name")
    found = (plain_text(contributor.find(path), _NOT_OF_A_GROUP) for path in paths)
    return next((" ".join(name.split()).rstrip(",;") for name in found if name), "")


def _name(name: Element) -> str:
    """Return "Last FM": the initials as given, else the first letters of the given names.

    In a script without capitals, as Chinese, given names have no initials and stay whole.
    """
    given_names = name.find("{*}given-names")
    surname = text_of(name.find("{*}surname"))
    if surname and surname.lower() == surname.upper():
        return " ".join(filter(None, (surname, text_of(given_names))))
    first = (
        ""
        if given_names is None
        else given_names.get("initials") or "".join(part[0] for part in _NAME_PART.findall(text_of(given_names)))
    )
    return " ".join(filter(None, (surname, first, text_of(name.find("{*}suffix")))))
