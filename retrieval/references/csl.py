"""Define a reference as an item of CSL-JSON, and write items: as files of reference managers, and as a plain line.

CSL-JSON: https://docs.citationstyles.org. An item holds only what is known; a missing key is unknown. RIS:
https://refman.com, "RIS format", with the tags that PubMed's own export uses for PMID (AN) and PMCID (C2). The styles
of journals are the reference managers' work.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from retrieval.passages import Document

Item = Mapping[str, Any]
PUBMED: Final = "https://pubmed.ncbi.nlm.nih.gov/"
_PMID: Final = re.compile(r"https?://(?:pubmed\.ncbi\.nlm\.nih\.gov|(?:www\.)?ncbi\.nlm\.nih\.gov/pubmed)/([0-9]+)/?")
_DOI: Final = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(10\.[0-9]{4,9}/\S+)", re.IGNORECASE)
_DOCUMENT_ID: Final = re.compile(r"(PMID|PMC):([0-9]+)")
_LAST_AND_INITIALS: Final = re.compile(r"(.+?) ([A-ZÀ-Þ]{1,4})(?: (Jr|Sr|II|III|IV|2nd|3rd))?")
_RIS_TYPES: Final[Mapping[str, str]] = {
    "article-journal": "JOUR", "chapter": "CHAP", "book": "BOOK", "webpage": "ELEC", "document": "GEN",
}  # fmt: skip
_BIBTEX_TYPES: Final[Mapping[str, str]] = {"article-journal": "article", "chapter": "incollection", "book": "book"}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_RANGE: Final = re.compile(r"([A-Za-z]*)([0-9]+)\s*[-–]\s*([A-Za-z]*)([0-9]+)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_TEX: Final = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
}  # fmt: skip
_TEX_CHARACTERS: Final = re.compile(r"[\\{}$&#%_^~]")
_WORD: Final = re.compile(r"[a-z][a-z0-9]+")
_SMALL_WORDS: Final = frozenset(("a", "an", "the", "of", "in", "on", "and", "for", "with", "to", "is", "are", "do"))
# ICMJE lists so many authors before "et al.".
_MAX_NAMES: Final = 6


def item_of_link(title: str, url: str) -> dict[str, Any]:
    """Return the item of a source of which no more than title and address is known."""
    pmid, doi = pmid_of(url), doi_of(url)
    kind = "article-journal" if pmid or doi else "webpage"
    known = {"title": plain_title(title), "URL": url, "PMID": pmid, "DOI": doi}
    identity = f"pmid:{pmid}" if pmid else doi or url or title
    return {"id": identity, "type": kind, **{name: value for name, value in known.items() if value}}


def document_item(document: Document) -> dict[str, Any]:
    """Return the item of a document of a namespace, with what its source told of it.

    Authors are "Last FM"; a name without initials stands as it is.
    """
    found = _DOCUMENT_ID.fullmatch(document.document_id)
    kind, number = (found[1], found[2]) if found else ("", "")
    in_journal = bool(document.journal or kind)
    address = document.url or (f"{PUBMED}{number}/" if kind == "PMID" else "")
    known = {
        "title": plain_title(document.title or document.document_id),
        "author": [_author(name) for name in document.authors],
        "container-title": document.journal,
        "issued": _issued(document.date),
        "PMID": number if kind == "PMID" else pmid_of(address),
        "PMCID": f"PMC{number}" if kind == "PMC" else "",
        "URL": address,
        "note": "Retracted" if document.is_retracted else "",
    }
    fields = {name: value for name, value in known.items() if value}
    return {"id": document.document_id, "type": "article-journal" if in_journal else "document", **fields}


def _author(name: str) -> dict[str, str]:
    found = _LAST_AND_INITIALS.fullmatch(name.strip())
    if found is None:
        return {"literal": name.strip()}
    return person(found[1], " ".join(found[2]), found[3] or "")


def _issued(date: int) -> dict[str, Any]:
    parts = [date // 10_000, date // 100 % 100, date % 100]
    known = parts[: parts.index(0)] if 0 in parts else parts
    return {"date-parts": [known]} if known else {}


def pmid_of(url: str) -> str:
    """Return the PMID of an address of PubMed, "" for other addresses."""
    found = _PMID.match(url)
    return found[1] if found else ""


def doi_of(text: str) -> str:
    """Return the bare DOI of a DOI or its address, "" for other text."""
    found = _DOI.fullmatch(text.strip())
    return found[1] if found else ""


def plain_title(title: str) -> str:
    """Return a title on one line, without the full stop that PubMed ends it with."""
    shown = " ".join(title.split())
    return shown[:-1] if shown.endswith(".") and not shown.endswith("..") else shown


def person(family: str, given: str = "", suffix: str = "") -> dict[str, str]:
    """Return a CSL name; one in a script without capitals stays as it is written, as it has no initials."""
    if family.lower() == family.upper():
        return {"literal": f"{family} {given}".strip() if given else family}
    parts = {"family": family, "given": given, "suffix": suffix}
    return {name: value for name, value in parts.items() if value}


def year_of(item: Item) -> str:
    return str(date_parts(item)[0]) if date_parts(item) else ""


def date_parts(item: Item) -> Sequence[int]:
    """Return (year, month, day) of its publication as far as they are known; an impossible part ends it."""
    dates = (item.get("issued") or {}).get("date-parts") or [[]]
    parts: list[int] = []
    for part, most in zip(dates[0], (9999, 12, 31), strict=False):
        if not str(part).isascii() or not str(part).isdigit() or not 1 <= int(part) <= most:
            break
        parts.append(int(part))
    return tuple(parts)


def address_of(item: Item) -> str:
    """Return the address of the work: that of its DOI, its PubMed record or its own, "" for none."""
    if doi := str(item.get("DOI", "")):
        return f"https://doi.org/{doi}"
    pmid = str(item.get("PMID", ""))
    return f"{PUBMED}{pmid}/" if pmid else str(item.get("URL", ""))


def csl_json(items: Sequence[Item]) -> str:
    return json.dumps(list(items), ensure_ascii=False, indent=2) + "\n"


def ris(items: Sequence[Item]) -> str:
    """Return the records, each line ending in CR LF as the format wants it."""
    return "".join(f"{tag}  - {_line(value)}\r\n" for item in items for tag, value in _ris_fields(item))


def _ris_fields(item: Item) -> Iterator[tuple[str, str]]:
    """Yield (tag, value) of one record from TY to ER, without those that have no value."""
    yield "TY", _RIS_TYPES.get(str(item.get("type")), "GEN")
    yield from (("AU", _inverted(name)) for name in item.get("author", ()))
    yield from (("A2", _inverted(name)) for name in item.get("editor", ()))
    first, last = page_range(str(item.get("page") or item.get("number") or ""))
    parts = [f"{part:02d}" for part in date_parts(item)]
    fields = {
        "TI": item.get("title"),
        "T2": item.get("container-title"),
        "J2": item.get("container-title-short"),
        "PY": year_of(item),
        "DA": "/".join([*parts, "", "", ""][:3]) + "/" if parts else "",
        "VL": item.get("volume"),
        "IS": item.get("issue"),
        "SP": first,
        "EP": last,
        "ET": item.get("edition"),
        "PB": item.get("publisher"),
        "CY": item.get("publisher-place"),
        "SN": item.get("ISSN") or item.get("ISBN"),
        "LA": item.get("language"),
        "DO": item.get("DOI"),
        "AN": item.get("PMID"),
        "C2": item.get("PMCID"),
        "DB": "PubMed" if item.get("PMID") else "",
        "UR": item.get("URL"),
        "N1": item.get("note"),
    }
    yield from ((tag, str(value)) for tag, value in fields.items() if value)
    yield "ER", ""


def page_range(pages: str) -> tuple[str, str]:
    """Return first and last page, the last one written out: ("1507", "1508") for "1507-8"."""
    found = _RANGE.fullmatch(pages.strip())
    if found is None:
        return pages.strip(), ""
    prefix, first, own_prefix, last = found.groups()
    if not own_prefix and len(last) < len(first):
        last = first[: len(first) - len(last)] + last
    return prefix + first, (own_prefix or prefix) + last


def bibtex(items: Sequence[Item]) -> str:
    """Return the entries in UTF-8, each under a key of its own."""
    entries = [_entry(key, item) for key, item in zip(_keys(items), items, strict=True)]
    return "\n".join(entries)


def _entry(key: str, item: Item) -> str:
    kind = _BIBTEX_TYPES.get(str(item.get("type")), "misc")
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in _bibtex_fields(item) if value)
    return f"@{kind}{{{key},\n{lines}}}\n"


def _bibtex_fields(item: Item) -> Iterator[tuple[str, str]]:
    parts = date_parts(item)
    first, last = page_range(str(item.get("page") or item.get("number") or ""))
    container = "journal" if item.get("type") == "article-journal" else "booktitle"
    # A second pair of braces keeps the capitals of gene symbols.
    yield "title", f"{{{title}}}" if (title := _tex(item.get("title"))) else ""
    yield "author", " and ".join(_tex_name(name) for name in item.get("author", ()))
    yield "editor", " and ".join(_tex_name(name) for name in item.get("editor", ()))
    yield container, _tex(item.get("container-title"))
    yield "year", year_of(item)
    yield "month", _MONTHS[parts[1] - 1] if len(parts) > 1 and 1 <= parts[1] <= 12 else ""
    yield "volume", _tex(item.get("volume"))
    yield "number", _tex(item.get("issue"))
    yield "pages", _tex("--".join(filter(None, (first, last))))
    for name in ("edition", "publisher", "note"):
        yield name, _tex(item.get(name))
    yield "address", _tex(item.get("publisher-place"))
    yield "issn", _tex(item.get("ISSN"))
    yield "isbn", _tex(item.get("ISBN"))
    for name in ("DOI", "PMID", "PMCID", "URL"):
        yield name.lower(), _verbatim(item.get(name))


def _keys(items: Sequence[Item]) -> Iterator[str]:
    """Yield a key for each item as in "horby2021dexamethasone", with a letter where two are alike."""
    used: dict[str, int] = {}
    for item in items:
        authors = item.get("author") or [{}]
        name = authors[0].get("family") or authors[0].get("literal") or ""
        names, titled = _WORD.findall(_ascii(name))[:1], _title_words(item)[:1]
        pmid = re.sub("[^0-9]", "", str(item.get("PMID", "")))
        first, *rest = [*names, *titled] or [f"pmid{pmid}" if pmid else "source"]
        key = "".join((first, year_of(item), *rest))
        used[key] = used.get(key, 0) + 1
        yield key if used[key] == 1 else f"{key}-{used[key]}"


def _title_words(item: Item) -> list[str]:
    return [word for word in _WORD.findall(_ascii(item.get("title"))) if word not in _SMALL_WORDS]


def _ascii(text: Any) -> str:
    decomposed = unicodedata.normalize("NFKD", str(text or ""))
    return decomposed.encode("ascii", "ignore").decode().lower()


def _line(value: Any) -> str:
    """Return a value on one line, so that none can begin a field or a record."""
    return " ".join(_CONTROL.sub(" ", str(value)).split())


def _tex(value: Any) -> str:
    return _TEX_CHARACTERS.sub(lambda found: _TEX[found[0]], _line(value or ""))


def _verbatim(value: Any) -> str:
    """Return an address or identifier, of which BibTeX reads only braces as its own."""
    return quote(_line(value or ""), safe="!#$&'()*+,/:;=?@[]~_-.%<>")


def _inverted(name: Mapping[str, str]) -> str:
    """Return "Family, Given, Suffix", or the literal name of a group, which a comma at its end keeps whole."""
    if literal := name.get("literal"):
        return f"{_line(literal)},"
    parts = [name.get("family", ""), name.get("given", ""), name.get("suffix", "")]
    return ", ".join(_line(part) for part in parts if part)


def _tex_name(name: Mapping[str, str]) -> str:
    if literal := name.get("literal"):
        return f"{{{_tex(literal)}}}"
    parts = [name.get("family", ""), name.get("suffix", ""), name.get("given", "")]
    family = _tex(parts[0])
    # "and" in a name would part it in two.
    shown = f"{{{family}}}" if " and " in f" {family.lower()} " or "," in family else family
    return ", ".join([shown, *(_tex(part) for part in parts[1:] if part)])


def reference_line(item: Item) -> str:
    """Return the reference on one line of plain text as ICMJE's Recommendations write it, without number.

    An address is printed where neither DOI nor PMID identifies the work.
    """
    container = _line(item.get("container-title-short") or item.get("container-title") or "")
    is_part = item.get("type") == "chapter" and container != ""
    parts = [_names(item.get("author", ())), plain_title(_line(item.get("title", ""))) or "[Untitled]"]
    if is_part:
        editors = _names(item.get("editor", ()))
        parts.append(f"In: {editors}, editors" if editors else f"In: {container}")
        parts += [container if editors else "", _place(item)]
    else:
        parts += [container, _issue(item) if container else _place(item)]
    line = " ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in parts if part)
    return " ".join((line, *_identifiers(item)))


def _names(names: Sequence[Mapping[str, str]]) -> str:
    shown = [name.get("literal") or _initialled(name) for name in names[:_MAX_NAMES]]
    return ", ".join([*filter(None, map(_line, shown)), *(["et al"] if len(names) > _MAX_NAMES else [])])


def _initialled(name: Mapping[str, str]) -> str:
    """Return "Family GI Suffix"."""
    initials = "".join(part[0].upper() for part in re.split(r"[\s-]+", name.get("given", "")) if part)
    return " ".join(filter(None, (name.get("family", ""), initials, name.get("suffix", ""))))


def _issue(item: Item) -> str:
    """Return "2021;384(8):693-704" as far as it is known."""
    number = f"({_line(item['issue'])})" if item.get("issue") else ""
    volume, pages = f"{_line(item.get('volume') or '')}{number}", _line(item.get("page") or item.get("number") or "")
    return year_of(item) + (f";{volume}" if volume else "") + (f":{pages}" if pages else "")


def _place(item: Item) -> str:
    """Return "Seattle (WA): University of Washington; 1998" as far as it is known."""
    house = ": ".join(filter(None, (_line(item.get("publisher-place") or ""), _line(item.get("publisher") or ""))))
    return "; ".join(filter(None, (house, year_of(item))))


def _identifiers(item: Item) -> Iterator[str]:
    known = {"doi:": "DOI", "PMID: ": "PMID", "PMCID: ": "PMCID"}
    shown = [f"{label}{_line(item[name])}." for label, name in known.items() if item.get(name)]
    yield from shown or filter(None, [_line(item.get("URL", ""))])
