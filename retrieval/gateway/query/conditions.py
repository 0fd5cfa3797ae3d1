"""Translate one term of a query into a condition on the store's tables and index.

A condition is on index words, table rows, everything or nothing. Conditions are SQL text and combine without being run,
so that SQLite works on its own lists and no set of UIDs is held here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from retrieval.formats.records import Database
from retrieval.gateway.citations.citation import LANGUAGES
from retrieval.gateway.query.subheadings import subheadings_of
from retrieval.gateway.query.syntax import ALL, ORGANISM, SUBHEADING, Operator, SearchField, Term
from retrieval.gateway.store.reader import COLUMNS, EDGE, HUMAN_ONLY, STOPWORDS, words_of, year_word
from retrieval.ncbi.calls.entrez_spelling import GREEK_LETTERS, entrez_spelling

_HUMAN: Final = 9606
_UID_TEXT: Final = re.compile(r"(?:rs|pmid:?|pmc|mim:?|txid|vcv0*)?\s*(\d{1,18})", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"(?:([0-9]{1,2}|X|Y|MT):)?(\d{1,18})(?:\s*:\s*(?:[0-9XYMT]{1,2}:)?(\d{1,18}))?")
_DAY_TEXT: Final = re.compile(r"(\d{4})(?:[/-](\d{1,2}))?(?:[/-](\d{1,2}))?")
_MIN_PREFIX: Final = 2
_MAX_YEARS: Final = 40  # as index words, which combine within one FTS5 expression; longer spans are table ranges
# "last 5 years"
_RELATIVE: Final = re.compile(r"(?:the )?last (\d{1,4}) (day|month|year)s?", re.IGNORECASE)
_DAYS_OF: Final = {"day": 1.0, "month": 365.25 / 12, "year": 365.25}
_OPEN_END: Final = 3000
_ALL_OF_THEM: Final = ("all",)
_CODES: Final = {name.lower(): code for code, name in LANGUAGES.items()}
_GREEK: Final = re.compile("|".join(sorted(GREEK_LETTERS, key=len, reverse=True)))


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Hold an FTS5 expression."""

    match: str


@dataclass(frozen=True, slots=True)
class UidSelect:
    """Hold a statement that selects UIDs."""

    sql: str
    parameters: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchAll:
    """Match every record."""


@dataclass(frozen=True, slots=True)
class MatchNone:
    """Match no record."""


Condition = TextMatch | UidSelect | MatchAll | MatchNone


def rows_of(db: Database, condition: Condition) -> UidSelect:
    """Return the condition as a complete statement."""
    if isinstance(condition, TextMatch):
        return UidSelect(f"SELECT rowid AS uid FROM {db}_index WHERE {db}_index MATCH ?", (condition.match,))
    if isinstance(condition, MatchAll):
        return UidSelect(f"SELECT uid FROM {db}")
    if isinstance(condition, MatchNone):
        return UidSelect(f"SELECT uid FROM {db} WHERE 0")
    return condition


def combine(db: Database, operator: Operator, left: Condition, right: Condition) -> Condition:
    match operator, left, right:
        case "AND", MatchAll(), other:
            return other
        case ("AND", other, MatchAll()) | ("OR", MatchNone(), other) | ("OR" | "NOT", other, MatchNone()):
            return other
        case ("OR", MatchAll(), _) | ("OR", _, MatchAll()):
            return MatchAll()
        case ("AND", MatchNone(), _) | ("AND", _, MatchNone()) | ("NOT", MatchNone(), _) | ("NOT", _, MatchAll()):
            return MatchNone()
        case _, TextMatch(match=a), TextMatch(match=b):
            return TextMatch(f"({a}) {operator} ({b})")
    word = {"AND": "INTERSECT", "OR": "UNION", "NOT": "EXCEPT"}[operator]
    first, second = rows_of(db, left), rows_of(db, right)
    sql = f"SELECT uid FROM ({first.sql}) {word} SELECT uid FROM ({second.sql})"
    return UidSelect(sql, (*first.parameters, *second.parameters))


def term_condition(
    db: Database, term: Term, field: SearchField, tax_ids: Callable[[str], Sequence[int]] = lambda _: ()
) -> Condition:
    """Return the condition for one term of a query; ``tax_ids`` tells the organisms of a name."""
    match field.lookup:
        case "uid":
            return _uids(db, term)
        case "number":
            return _numbers(db, term)
        case "day" | "electronic" | "print":
            return _days(db, term.text, field.lookup)
        case "organism":
            return _organism(db, term, tax_ids)
    # A subheading's code may be a function word ("in").
    written = with_subheadings(term) if field is SUBHEADING else spellings(db, term)
    if not written:
        return MatchNone()
    if field.lookup == "filter" and written[0] == _ALL_OF_THEM:
        return MatchAll()
    if field.lookup == "filter" and not field.columns:
        return MatchNone()
    if field.lookup == "author":
        return TextMatch(_in_columns(field.columns, any_of(list(map(author_phrase, written)))))
    if field.lookup == "language" and (code := _CODES.get(term.text.strip().lower())):
        written = [*written, (code,)]
    if field.lookup == "citation":
        return _in_citations(field.columns, written, term)
    if field.lookup == "heading" and (heading := heading_of(term)) is not None:
        qualified = _in_citations(("qualified",), with_subheadings(term), term)
        return combine(db, "AND", term_condition(db, heading, field), qualified)
    matches = [phrase(words, prefix=is_truncated(term)) for words in written]
    found: Condition = TextMatch(_in_columns(field.columns, any_of(matches)))
    if field is not ALL:
        return found
    # Entrez's automatic term mapping of a bare word: a number may be a UID, a name may be an organism's.
    found = combine(db, "OR", found, _uids(db, term)) if _UID_TEXT.fullmatch(term.text.strip()) else found
    if not term.quoted and (ids := tax_ids(term.text)):
        found = combine(db, "OR", found, _tax_condition(db, ids))
    return found


def heading_of(term: Term) -> Term | None:
    """Return the heading of a term with a subheading ("asthma/drug therapy"), None for one without."""
    heading, slash, subheading = term.text.partition("/")
    return replace(term, text=heading.strip()) if slash and heading.strip() and subheading.strip() else None


def with_subheadings(term: Term) -> list[tuple[str, ...]]:
    """Return the words of a term that ends with a subheading, with its full name and with each narrower one's.

    Only a whole subheading is meant: its words stand at the edge of a value, unless the term is truncated.
    """
    before, slash, subheading = term.text.rpartition("/")
    names = subheadings_of(subheading, exploded="noexp" not in term.tag.lower())
    terms = (replace(term, text=f"{before}{slash}{name}") for name in names)
    start, end = () if slash else (EDGE,), () if is_truncated(term) else (EDGE,)
    return [(*start, *words, *end) for one in terms for words in spellings("pubmed", one)]


def _in_citations(columns: Sequence[str], written: Sequence[tuple[str, ...]], term: Term) -> Condition:
    matches = any_of([phrase(words, prefix=is_truncated(term)) for words in written])
    sql = "SELECT rowid AS uid FROM pubmed_citation WHERE pubmed_citation MATCH ?"
    return UidSelect(sql, (_in_columns(columns, matches),))


def spellings(db: Database, term: Term) -> list[tuple[str, ...]]:
    """Return the words of a term in each way that records may write them, [] for a term of function words.

    Greek letters as names and as letters (TGF-beta1, TGF-β1). In the text of articles, where hyphens are of many kinds
    and part a word, also without them (Li–Fraumeni).
    """
    plain = entrez_spelling(term.text)
    forms = [plain, term.text, _GREEK.sub(lambda name: GREEK_LETTERS[name[0]], plain.lower())]
    if db in ("pubmed", "pmc"):
        forms.append(plain.replace("-", " "))
    words = (tuple(w for w in words_of(form) if term.quoted or w not in STOPWORDS) for form in forms)
    return [one for one in dict.fromkeys(words) if one]


def any_of(matches: Sequence[str]) -> str:
    """Return an FTS5 expression for any of these, which is the one where there is only one."""
    return matches[0] if len(matches) == 1 else f"({' OR '.join(dict.fromkeys(matches))})"


def is_truncated(term: Term) -> bool:
    stem = term.text.rstrip("*")
    return term.text.endswith("*") and len(stem) >= _MIN_PREFIX


def phrase(words: Sequence[str], *, prefix: bool = False) -> str:
    """Return an FTS5 phrase of adjacent words; with ``prefix`` the last one matches as a prefix."""
    quoted = " ".join(words).replace('"', '""')
    return f'"{quoted}" *' if prefix else f'"{quoted}"'


def whole(words: Sequence[str]) -> str:
    """Return an FTS5 phrase for a value of exactly these words."""
    return phrase([EDGE, *words, EDGE])


def author_phrase(words: Sequence[str]) -> str:
    """Return an FTS5 phrase that matches a name from its start.

    Initials may be fewer than the record has (Smith J finds Smith JA).
    """
    return phrase([EDGE, *words], prefix=len(words) > 1)


def _in_columns(columns: Sequence[str], match: str) -> str:
    return f"{{{' '.join(columns)}}} : {match}" if columns else match


def _uids(db: Database, term: Term) -> Condition:
    found = [int(m[1]) for part in re.split(r"[\s,]+", term.text.strip()) if (m := _UID_TEXT.fullmatch(part))]
    if not found:
        return MatchNone()
    return UidSelect(f"SELECT uid FROM {db} WHERE uid IN ({','.join('?' * len(found))})", tuple(found))


def _numbers(db: Database, term: Term) -> Condition:
    """Return the condition for a position or a range of positions, with or without its chromosome."""
    found = _NUMBERS.fullmatch(term.text.strip().removeprefix("chr"))
    if found is None:
        return MatchNone()
    low, high = int(found[2]), int(found[3] or found[2])
    inside = UidSelect(f"SELECT uid FROM {db} WHERE number BETWEEN ? AND ?", (low, high))
    if not found[1]:
        return inside
    return combine(db, "AND", inside, TextMatch(_in_columns(("chr",), whole([found[1].lower()]))))


def _days(db: Database, text: str, lookup: str) -> Condition:
    """Return the condition for a year, month or day, a range of them with ':', or "last 5 years".

    Entrez's year 3000 means an open end. A date of publication is that of the issue or the electronic one.
    """
    first, colon, last = _span(text).partition(":")
    low, high = _DAY_TEXT.fullmatch(first.strip()), _DAY_TEXT.fullmatch((last if colon else first).strip())
    if low is None or high is None:
        return MatchNone()
    years = range(int(low[1]), int(high[1]) + 1)
    if lookup == "day" and not low[2] and not high[2] and len(years) <= _MAX_YEARS:
        words = (_in_columns(("filter",), phrase([year_word(year)])) for year in years)
        return TextMatch(" OR ".join(words)) if years else MatchNone()
    edges = (_edge(low, "00", "00"), _edge(high, "99", "99"))
    of_issue = UidSelect(f"SELECT uid FROM {db} WHERE number BETWEEN ? AND ?", edges)
    if lookup == "print" or db != "pubmed":
        return of_issue
    electronic = UidSelect("SELECT uid FROM pubmed WHERE key BETWEEN ? AND ?", tuple(map(str, edges)))
    return electronic if lookup == "electronic" else combine(db, "OR", of_issue, electronic)


def _span(text: str) -> str:
    """Return a span of days as a range; one that counts back from today has an open end."""
    text = " ".join(text.split())
    found = _RELATIVE.fullmatch(text)
    if found is None:
        return text
    days = min(int(found[1]) * _DAYS_OF[found[2].lower()], 365_000)
    return f"{datetime.now(UTC).date() - timedelta(days=round(days)):%Y/%m/%d}:{_OPEN_END}"


def _edge(found: re.Match[str], month: str, day: str) -> int:
    return int(f"{found[1]}{(found[2] or month).zfill(2)}{(found[3] or day).zfill(2)}")


def _organism(db: Database, term: Term, tax_ids: Callable[[str], Sequence[int]]) -> Condition:
    """Return the condition for an organism by any of its names.

    Words before the name ("LMP10 human[orgn]") are searched on their own.
    """
    words = words_of(term.text)
    for first in range(len(words)):
        ids = tax_ids(" ".join(words[first:]))
        if not ids:
            continue
        found = _tax_condition(db, ids)
        for word in words[:first]:
            found = combine(db, "AND", found, TextMatch(phrase([word])))
        return found
    return MatchNone()


def _tax_condition(db: Database, ids: Sequence[int]) -> Condition:
    if db in HUMAN_ONLY:
        return MatchAll() if _HUMAN in ids else MatchNone()
    if ORGANISM.columns[0] not in COLUMNS[db]:
        return MatchNone()
    # One word, not a value between edges: half of all records may be of one organism, and a phrase would be slow.
    return TextMatch(" OR ".join(_in_columns(ORGANISM.columns, phrase([f"txid{tax_id}"])) for tax_id in ids))
