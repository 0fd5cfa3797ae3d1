"""Define the records of a citation (article, book or chapter), independent of the XML it was read from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Person:
    """Hold one person or group.

    ``name`` is "Last FM Jr", ``full`` "Last, First M Jr"; of a group both are its name. ``identifiers`` are
    "SOURCE: value". ``family``, ``given`` and ``suffix`` are the parts of a person's name where the source tells them
    apart.
    """

    name: str
    full: str
    collective: bool = False
    affiliations: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    family: str = ""
    given: str = ""
    suffix: str = ""


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

    ``years`` are "1993", "1993-2024" or, if still growing, "1993-"; ``contributed`` is the date of the chapter.
    """

    title: str
    publisher: str = ""
    place: str = ""
    years: str = ""
    contributed: str = ""
    editors: tuple[Person, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """Hold the bibliographic data of an article, a book or a chapter.

    ``published`` and ``epublished`` are dates as PubMed prints them ("2016 Mar 5", "1998 Dec-1999 Jan"). ``ids`` and
    ``locations`` are (kind, value), ``history`` (status, "2015/12/15 06:00"), ``abstract`` (label, text). ``model`` is
    how it is published ("Print-Electronic"), ``publication_status`` how far ("ppublish"). ``other_abstract`` is shown
    where there is no abstract proper.
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
    other_abstract: tuple[tuple[str, str], ...] = ()
    rights: str = ""
    locations: tuple[tuple[str, str], ...] = ()
    conflicts: str = ""
    book: Book | None = None

    def identifier(self, kind: str) -> str:
        """Return the first identifier of this kind, in the ID list or the electronic locations; "" if there is none."""
        return next((value for name, value in (*self.ids, *self.locations) if name == kind), "")


_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
# The MARC codes of languages in PubMed; a rarer one is printed as it is.
LANGUAGES: Final = {
    "ara": "Arabic", "bul": "Bulgarian", "chi": "Chinese", "cze": "Czech", "dan": "Danish", "dut": "Dutch",
    "eng": "English", "fin": "Finnish", "fre": "French", "ger": "German", "gre": "Greek, Modern", "heb": "Hebrew",
    "hrv": "Croatian", "hun": "Hungarian", "ita": "Italian", "jpn": "Japanese", "kor": "Korean", "nor": "Norwegian",
    "per": "Persian", "pol": "Polish", "por": "Portuguese", "rum": "Romanian", "rus": "Russian", "slo": "Slovak",
    "slv": "Slovenian", "spa": "Spanish", "srp": "Serbian", "swe": "Swedish", "tur": "Turkish", "ukr": "Ukrainian",
    "und": "Undetermined",
}  # fmt: skip


def source_line(citation: Citation) -> str:
    """Return the source in a journal or a book as NLM writes it.

    Example: "Nat Aging. 2023 Mar;3(3):327-345. doi: 10.1038/x. Epub 2023 Mar 9.".
    """
    if citation.book:
        return _book_source(citation, citation.book)
    numbers = issue_line(citation)
    doi, pii = citation.identifier("doi"), citation.identifier("pii")
    located = [f"pii: {pii}."] if pii and not citation.journal.pages and not _ahead(citation) else []
    located += [f"doi: {doi}."] if doi else []
    published = [f"{part}." for part in (citation.journal.abbreviation, numbers) if part]
    parts = [*published, *located, _later(citation)]
    return " ".join(filter(None, parts))


def issue_line(citation: Citation) -> str:
    """Return date, volume, issue and pages, as in "2023 Mar;3(3):327-345"."""
    journal = citation.journal
    issue = f"({journal.issue})" if journal.issue else ""
    pages = journal.pages or (citation.identifier("pii") if _ahead(citation) else "")
    numbers = f"{journal.volume}{issue}" + (f":{pages}" if pages else "")
    separator = ";" if journal.volume or issue else ""
    return f"{_first_date(citation)}{separator}{numbers}"


def _ahead(citation: Citation) -> bool:
    return citation.publication_status == "aheadofprint"


def _first_date(citation: Citation) -> str:
    electronic_first = citation.model.startswith("Electronic-") or _ahead(citation)
    return (citation.epublished if electronic_first else "") or citation.published


def _later(citation: Citation) -> str:
    """Return the other date with a label for its kind."""
    if _ahead(citation):
        return "Online ahead of print."
    if not citation.epublished:
        return ""
    if citation.model == "Print-Electronic":
        return f"Epub {citation.epublished}."
    if citation.model == "Electronic-eCollection":
        return f"eCollection {citation.published}."
    return f"Print {citation.published}." if citation.model == "Electronic-Print" else ""


def notice_name(kind: str) -> str:
    """Return a RefType in words: "Retraction in" for "RetractionIn"."""
    return _CAPITAL.sub(" ", kind).replace("and ", " and ").capitalize()


def author_names(citation: Citation) -> str:
    return ", ".join(person.name for person in citation.authors)


def lines_of(text: str, width: int) -> list[str]:
    """Break ``text`` at blanks into lines of at most ``width`` characters; a longer word stands on its own line."""
    lines, line = list[str](), ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if line and len(longer) > width:
            lines.append(line)
            longer = word
        line = longer
    return [*lines, line]


_WIDTH: Final = 80
_NOTICE_INDENT: Final = "    "


def abstract_text(citation: Citation, number: int) -> str:
    """Return one numbered record as text, without the blank lines that separate records."""
    blocks = _blocks(citation, number)
    return "\n\n".join(block for block in blocks if block) + "\n"


def summary_text(citation: Citation, number: int) -> str:
    """Return authors, title, source and identifiers as one numbered paragraph."""
    pmc = citation.identifier("pmc")
    known = f"PubMed PMID: {citation.uid}" + (f"; PubMed Central PMCID: {pmc}" if pmc else "")
    parts = (_sentence(author_names(citation)), _sentence(citation.title), source_line(citation), f"{known}.")
    return "\n" + _wrapped(f"{number}: {' '.join(filter(None, parts))}") + "\n"


def _blocks(citation: Citation, number: int) -> Iterator[str]:
    yield _wrapped(f"{number}. {source_line(citation)}")
    yield _wrapped(_sentence(citation.title))
    foreign = [LANGUAGES.get(code, code) for code in citation.languages if code != "eng"]
    yield f"[Article in {'; '.join(foreign)}]" if foreign else ""
    yield from _people(citation)
    yield _notices(citation)
    yield from _ending(citation)


def _book_source(citation: Citation, book: Book) -> str:
    role = "editors" if len(book.editors) > 1 else "editor"
    editors = f"{', '.join(person.name for person in book.editors)}, {role}. " if book.editors else ""
    imprint = "; ".join(filter(None, (": ".join(filter(None, (book.place, book.publisher))), book.years)))
    within = f"In: {editors}{book.title}." if citation.title != book.title else editors.rstrip()
    return " ".join(filter(None, (within, f"{imprint}." if imprint else "")))


def _people(citation: Citation) -> Iterator[str]:
    places = list(dict.fromkeys(place for person in citation.authors for place in person.affiliations))
    marks = {place: f"({index})" for index, place in enumerate(places, 1)} if len(places) > 1 else {}
    names = (
        person.name + "".join(marks.get(place, "") for place in person.affiliations) for person in citation.authors
    )
    yield _wrapped(_sentence(", ".join(names)))
    if places:
        yield "\n".join(["Author information:", *(_wrapped(marks.get(place, "") + place) for place in places)])


def _notices(citation: Citation) -> str:
    """Return the notices of other records about this one (retractions, errata, comments), without citations."""
    kinds = dict.fromkeys(notice.kind for notice in citation.notices if notice.kind != "Cites")
    blocks = []
    for kind in kinds:
        sources = (notice.source for notice in citation.notices if notice.kind == kind)
        lines = (lines_of(source, _WIDTH - len(_NOTICE_INDENT)) for source in sources)
        body = "\n".join(_NOTICE_INDENT + f" \n{_NOTICE_INDENT}".join(found) for found in lines)
        blocks.append(f"{notice_name(kind)}\n{body}")
    return "\n".join(blocks)


def _ending(citation: Citation) -> Iterator[str]:
    parts = (f"{label}: {text}" if label else text for label, text in citation.abstract or citation.other_abstract)
    yield "\n".join(map(_wrapped, parts))
    yield _wrapped(citation.rights)
    yield _identifiers(citation)
    yield _wrapped(f"Conflict of interest statement: {citation.conflicts}" if citation.conflicts else "")


def _identifiers(citation: Citation) -> str:
    doi, pmc = citation.identifier("doi"), citation.identifier("pmc")
    indexed = " [Indexed for MEDLINE]" if citation.status == "MEDLINE" else ""
    lines = (f"DOI: {doi}" if doi else "", f"PMCID: {pmc}" if pmc else "", f"PMID: {citation.uid}{indexed}")
    return "\n".join(filter(None, lines))


def _sentence(text: str) -> str:
    return text if not text or text[-1] in ".?!" else f"{text}."


def _wrapped(text: str) -> str:
    return " \n".join(lines_of(text, _WIDTH))
