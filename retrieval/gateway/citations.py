"""Define the records of a citation (article, book or chapter), independent of the XML it was read from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Person:
    """Hold one person or group.

    ``name`` is "Last FM Jr", ``full`` "Last, First M Jr"; of a group both are its name. ``identifiers`` are
    "SOURCE: value".
    """

    name: str
    full: str
    collective: bool = False
    affiliations: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """Hold one comment or correction.

    ``kind`` is its RefType, e.g. "RetractionIn"; ``source`` the citation of the other record.
    """

    kind: str
    source: str
    pmid: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Hold a journal and its issue; ``issns`` are (number, "Print", "Electronic" or "Linking")."""

    abbreviation: str = ""
    title: str = ""
    nlm_id: str = ""
    country: str = ""
    issns: tuple[tuple[str, str], ...] = ()
    volume: str = ""
    issue: str = ""
    pages: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """Hold a book.

    ``name`` and ``part`` are Bookshelf's identifiers; ``years`` "1993", "1993-2024" or, if still growing, "1993-".
    """

    title: str
    publisher: str = ""
    place: str = ""
    medium: str = ""
    edition: str = ""
    collection: str = ""
    volume_title: str = ""
    report: str = ""
    isbns: tuple[str, ...] = ()
    name: str = ""
    part: str = ""
    years: str = ""
    contributed: str = ""
    revised: str = ""
    editors: tuple[Person, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """Hold the bibliographic data of an article, a book or a chapter.

    ``published`` and ``epublished`` are dates as PubMed prints them ("2016 Mar 5", "1998 Dec-1999 Jan"). ``ids`` and
    ``locations`` are (kind, value), ``history`` (status, "2015/12/15 06:00"), ``abstract`` (label, text). ``model`` is
    how it is published ("Print-Electronic"), ``publication_status`` how far ("ppublish").
    """

    uid: str
    title: str
    vernacular: str = ""
    authors: tuple[Person, ...] = ()
    journal: Journal = field(default_factory=Journal)
    published: str = ""
    epublished: str = ""
    model: str = ""
    owner: str = ""
    status: str = ""
    publication_status: str = ""
    languages: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    ids: tuple[tuple[str, str], ...] = ()
    history: tuple[tuple[str, str], ...] = ()
    notices: tuple[Notice, ...] = ()
    abstract: tuple[tuple[str, str], ...] = ()
    rights: str = ""
    locations: tuple[tuple[str, str], ...] = ()
    conflicts: str = ""
    book: Book | None = None

    def identifier(self, kind: str) -> str:
        """Return the first identifier of this kind, in the ID list or the electronic locations; "" if there is none."""
        return next((value for name, value in (*self.ids, *self.locations) if name == kind), "")
