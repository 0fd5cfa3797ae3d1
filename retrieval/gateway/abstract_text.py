"""Render efetch's plain-text forms: rettype=abstract, and the one-paragraph docsum of retmode=text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from retrieval.gateway.citation_text import LANGUAGES, author_names, lines_of, notice_name, source_line
from retrieval.gateway.citations import Book, Citation

_WIDTH: Final = 80
_NOTICE_INDENT: Final = "    "


def abstract_text(citation: Citation, number: int) -> str:
    """Return one numbered record as text, without the blank lines that separate records."""
    blocks = _book_blocks(citation, citation.book, number) if citation.book else _article_blocks(citation, number)
    return "\n\n".join(block for block in blocks if block) + "\n"


def summary_text(citation: Citation, number: int) -> str:
    """Return authors, title, source and identifiers as one numbered paragraph."""
    source = _book_source(citation, citation.book) if citation.book else source_line(citation)
    title = citation.title or (citation.book.title if citation.book else "")
    pmc = citation.identifier("pmc")
    known = f"PubMed PMID: {citation.uid}" + (f"; PubMed Central PMCID: {pmc}" if pmc else "")
    parts = (_sentence(author_names(citation)), _sentence(title), source, f"{known}.")
    return "\n" + _wrapped(f"{number}: {' '.join(filter(None, parts))}") + "\n"


def _article_blocks(citation: Citation, number: int) -> Iterator[str]:
    yield _wrapped(f"{number}. {source_line(citation)}")
    yield _wrapped(citation.title)
    foreign = [LANGUAGES.get(code, code) for code in citation.languages if code != "eng"]
    yield f"[Article in {'; '.join(foreign)}]" if foreign else ""
    yield from _people(citation)
    yield _notices(citation)
    yield from _ending(citation)


def _book_blocks(citation: Citation, book: Book, number: int) -> Iterator[str]:
    yield _wrapped(f"{number}. {_sentence(citation.title or book.title)}")
    yield from _people(citation)
    dates = book.contributed + (f" [updated {book.revised}]" if book.revised else "") if book.contributed else ""
    yield "\n".join(filter(None, (_wrapped(_book_source(citation, book)), _sentence(dates))))
    yield from _ending(citation)


def _book_source(citation: Citation, book: Book) -> str:
    role = "editors" if len(book.editors) > 1 else "editor"
    editors = f"{', '.join(person.name for person in book.editors)}, {role}. " if book.editors else ""
    medium = f" [{book.medium}]" if book.medium else ""
    house = ": ".join(filter(None, (book.place, book.publisher)))
    made = "; ".join(filter(None, (house, book.years)))
    within = "In: " if citation.title else ""
    return f"{within}{editors}{book.title}{medium}." + (f" {made}." if made else "")


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
    parts = (f"{label}: {text}" if label else text for label, text in citation.abstract)
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
