"""Format a citation as text: the source line, the names of notices, wrapped lines."""

from __future__ import annotations

import re
from typing import Final

from retrieval.gateway.citations import Citation

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
    """Return the journal source as NLM writes it.

    Example: "Nat Aging. 2023 Mar;3(3):327-345. doi: 10.1038/x. Epub 2023 Mar 9.".
    """
    numbers = issue_line(citation)
    doi, pii = citation.identifier("doi"), citation.identifier("pii")
    located = [f"pii: {pii}."] if pii and not citation.journal.pages and not _ahead(citation) else []
    located += [f"doi: {doi}."] if doi else []
    parts = [f"{citation.journal.abbreviation}. {numbers}.", *located, _later(citation)]
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
