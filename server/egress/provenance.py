"""Tell which identifiers and names one answer may send: those of its question and of the replies that it received.

A number in a database's range can be anyone's, so that its form alone says nothing. An identifier is known here where
the question names it as one (``PMID 7545954``, ``rs334``), or a reply of the same answer has it in a place for ids.
What a call can still say lies in the choice among these. It is stated in bits: the length of a code that tells the call
apart from all others which the answer could send in its place, so that the sum bounds what an answer carries out. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

from retrieval.ncbi.calls.parameter_classes import is_organism
from retrieval.types import NcbiCall
from server.egress.recognition.recognizer import Allowed
from server.egress.recognition.terms import MAX_IDS, NUMBERS, Part, Refused

# What a call costs, before its values: seven endpoints of ten databases, and which parameters are left out.
CALL_BITS: Final = 9.0
# Which parameter a value of a fixed list belongs to.
CHOICE_BITS: Final = 3.0
# Whether a name is of the question or a reply, of the common organisms, or of the site's tables.
_SOURCE_BITS: Final = 2.0
# The largest tables that can be imported, those of all species' genes and organisms, have fewer names than 2**25.
TABLE_BITS: Final = 25.0
_ORGANISM_BITS: Final = 6.0
_VERSION_BITS: Final = 7.0
_COUNT_BITS: Final = math.log2(MAX_IDS)
# About thirty shapes of at most 500 million numbers and 99 versions.
_MOST_ACCESSIONS: Final = 2**41
_MAX_KNOWN: Final = 20_000
_MAX_WORDS: Final = 8_192
_MAX_CHARS: Final = 200_000
_MAX_NAME_WORDS: Final = 12
_MAX_DEPTH: Final = 40

_Key = tuple[str, str]
_LIST: Final = r"[0-9]{1,10}(?:(?:\s*[,;]\s*|\s+(?:and|or)\s+)[0-9]{1,10}(?![0-9-]|\.[0-9]))*"
# How people name a record; between the name and its number may stand what is said of it.
_SAID: Final = re.compile(
    r"(?<![A-Za-z0-9])(?P<label>pmids?|pubmed|pmcids?|gene\s?ids?|entrez(?:\s+gene)?|snp|dbsnp|refsnp|o?mim|clinvar"
    r"|tax(?:on(?:omy)?)?\s?ids?|taxonomy|medgen)"
    r"(?:[\s:#=(]|\b(?:ids?|uids?|no\.?|numbers?|entry|entries|records?|articles?|is|are)\b){0,6}"
    rf"(?P<numbers>(?<![0-9]){_LIST})(?![0-9A-Za-z-]|\.[0-9])",
    re.IGNORECASE,
)
_DBS: Final[tuple[tuple[str, str], ...]] = (
    ("pmid", "pubmed"), ("pubmed", "pubmed"), ("pmc", "pmc"), ("gene", "gene"), ("entrez", "gene"), ("snp", "snp"),
    ("dbsnp", "snp"), ("refsnp", "snp"), ("mim", "omim"), ("omim", "omim"), ("clinvar", "clinvar"), ("tax", "taxonomy"),
    ("medgen", "medgen"),
)  # fmt: skip
# In a query that is written in PubMed's syntax.
_TAGGED: Final = re.compile(r"(?<![A-Za-z0-9])([0-9]{1,10})\s?\[(?:uid|pmid)\]", re.IGNORECASE)
_PREFIXED: Final = re.compile(r"(?<![A-Za-z0-9])(?P<prefix>rs|PMC|txid)(?P<number>[0-9]{1,10})(?![0-9A-Za-z])")
_OF_PREFIX: Final = {"rs": "snp", "PMC": "pmc", "txid": "taxonomy"}
_ACCESSION: Final = re.compile(
    r"(?<![A-Za-z0-9])((?:A[CP]|N[CGMPRTW]|WP|X[MPR]|YP)_[0-9]{6,9}|ENS[A-Z]{0,3}[GTP][0-9]{11}|[RV]CV[0-9]{9})"
    r"(\.[0-9]{1,2})?(?![0-9A-Za-z])"
)
# Where NCBI's XML and text have ids; "" is the database that was asked.
_MARKED: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), db)
    for pattern, db in (
        (r"<Id(?: [^>]*)?>([0-9]{1,10})</Id>", ""),
        (r"<(?:ArticleId|ELocationID) IdType=\"pubmed\">([0-9]{1,10})<", "pubmed"),
        (r"<PMID(?: [^>]*)?>([0-9]{1,10})</PMID>", "pubmed"),
        (r"\bPMID(?:- |: )([0-9]{1,10})\b", "pubmed"),
        (r"<Gene-track_geneid>([0-9]{1,10})<", "gene"),
        (r"\bGeneID:([0-9]{1,10})\b", "gene"),
        (r"(?m)^ID: ([0-9]{1,10})$", ""),
        (r"\bMIM:([0-9]{6})\b", "omim"),
        (r"\btaxon:([0-9]{1,8})\b", "taxonomy"),
        (r"<TaxId>([0-9]{1,8})</TaxId>", "taxonomy"),
        (r"<(?:SNP_ID|snp_id)>([0-9]{1,10})<", "snp"),
    )
)
_FIELDS: Final[Mapping[str, str]] = {
    "uid": "", "uids": "", "idlist": "", "id": "", "links": "", "gene_id": "gene", "geneid": "gene", "mim": "omim",
    "taxid": "taxonomy", "snp_id": "snp", "pmid": "pubmed", "pubmed": "pubmed",
}  # fmt: skip
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")
_ONLY_NUMBERS: Final = re.compile(r"[0-9\s,]+")
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_DIGITS: Final = re.compile(r"[0-9]+")
_LONG_NUMBER: Final = re.compile(r"[0-9]{4,}")
_SYMBOL: Final = re.compile(r"(?<![A-Za-z0-9-])[A-Za-z][A-Za-z0-9-]{1,19}(?![A-Za-z0-9-])")


@dataclass(slots=True)
class Origin:
    """Hold what one answer may name, in the order in which it met it; written by one task at a time.

    ``found_here`` are the ids that only replies to calls have which did not leave: a model can make as many of these
    as it likes, so that each such id counts as one that was chosen among all of its database. ``forms`` are the calls
    that it sent, without their values.
    """

    ids: dict[_Key, int] = field(default_factory=dict)
    found_here: set[_Key] = field(default_factory=set)
    said: str = " "
    num_words: int = 0
    words: set[str] = field(default_factory=set)
    forms: dict[tuple[str, ...], None] = field(default_factory=dict)

    def hear(self, text: str) -> None:
        """Add a text of the person who asks: the identifiers that it names as such, and its words."""
        text = text[:_MAX_CHARS]
        self._add(said_ids(text))
        words = _words_of(text)
        self.num_words += len(words)
        self.said += f"{' '.join(words)} "

    def learn(self, call: NcbiCall, body: str, *, is_paid: bool) -> None:
        """Add the identifiers of a reply, and its words that may be symbols; ``is_paid``: of a call that counted.

        A reply from here tells nothing of its own where the call named a record that the answer had not met.
        """
        if not is_paid and self._names_another(call):
            return
        before = len(self.ids)
        self._add(reply_ids(call, body), is_paid=is_paid)
        if not is_paid:
            self.found_here.update(key for key, place in self.ids.items() if place >= before)
            return
        for found in _SYMBOL.finditer(body):
            if len(self.words) >= _MAX_WORDS:
                break
            self.words.add(found[0].casefold())

    def _names_another(self, call: NcbiCall) -> bool:
        """Return whether a call has a number that may be an id and is none of this answer's."""
        known = {number for _, key in self.ids for number in _DIGITS.findall(key)}
        named = _DIGITS.findall(call.params.get("id", "")) + _LONG_NUMBER.findall(call.params.get("term", ""))
        return not known.issuperset(named)

    def place(self, part: Part) -> int | None:
        """Return the place of an identifier among those of this answer, None if it has not met it.

        An accession without a version stands for each of its versions.
        """
        exact = self.ids.get((part.db, part.text))
        return exact if exact is not None or part.db else self.ids.get(("", part.text.partition(".")[0]))

    def _add(self, found: Iterable[_Key], *, is_paid: bool = True) -> None:
        for key in found:
            if key in self.ids or len(self.ids) < _MAX_KNOWN:
                self.ids.setdefault(key, len(self.ids))
                if is_paid:
                    self.found_here.discard(key)

    def says(self, name: str) -> bool:
        """Return whether the question has a name, or a reply has it as a word."""
        return f" {' '.join(_words_of(name))} " in self.said or name.casefold() in self.words


@dataclass(frozen=True, slots=True)
class Weighed:
    """Hold a call whose identifiers are known, in their order there, and what it can say at most."""

    allowed: Allowed
    bits: float
    form: tuple[str, ...]


def weigh(allowed: Allowed, origin: Origin) -> Weighed | Refused:
    """Return the call with its bits, or why it stays: an identifier that neither question nor reply has."""
    ids = [part for part in allowed.parts if part.kind == "id"]
    places = {part: place for part in ids if (place := origin.place(part)) is not None}
    if len(places) < len(ids):
        param = "id" if "id" in allowed.call.params else "term"
        what = "an id stands neither in the question nor in a reply of this answer"
        return Refused(param, "origin", what, "search for it by its name, or name it in the question, as in PMID 123")
    if "id" in allowed.call.params:
        ordered = ",".join(part.text for part in sorted(ids, key=places.__getitem__))
        params = {**allowed.call.params, "id": ordered}
        allowed = replace(allowed, call=replace(allowed.call, params=params))
    return Weighed(allowed, bits_of(allowed, origin), form_of(allowed))


def form_of(allowed: Allowed) -> tuple[str, ...]:
    """Return the call without its ids and names."""
    choices = (part.text for part in allowed.parts if part.kind == "choice")
    return (allowed.call.endpoint, allowed.call.db, *sorted(allowed.call.params), *choices)


def bits_of(allowed: Allowed, origin: Origin) -> float:
    """Return the length of a code for the call, whose ids are known, among all that the answer could send instead."""
    names = (name_bits(part.text, origin) for part in allowed.parts if part.kind == "name")
    positions = sum(part.kind == "place" for part in allowed.parts) * math.log2(10**10)
    ids = [part for part in allowed.parts if part.kind == "id"]
    return _form_bits(allowed, origin) + sum(names) + positions + (_ids_bits(ids, origin) if ids else 0.0)


def _form_bits(allowed: Allowed, origin: Origin) -> float:
    # An answer asks again and again in the same form.
    if form_of(allowed) in origin.forms:
        return 1 + math.log2(len(origin.forms))
    choices = (CHOICE_BITS + math.log2(part.choices) for part in allowed.parts if part.kind == "choice")
    return 1 + CALL_BITS + sum(choices)


def name_bits(name: str, origin: Origin) -> float:
    """Return the length of a code for a name: a few bits in the words of the question and of replies, else many."""
    if origin.says(name):
        return _SOURCE_BITS + math.log2(origin.num_words * _MAX_NAME_WORDS + len(origin.words) + 1)
    return _SOURCE_BITS + (_ORGANISM_BITS if is_organism(name) else TABLE_BITS)


def _ids_bits(ids: Sequence[Part], origin: Origin) -> float:
    """Return the length of a code for a set of ids.

    A run of neighbours is told by its start and length, another set by its place among all of its size.
    """
    found_here = [part for part in ids if (part.db, part.text) in origin.found_here]
    bits = 1 + sum(_COUNT_BITS + math.log2(_num_records(part.db)) for part in found_here)
    places = sorted(place for part in ids if part not in found_here and (place := origin.place(part)) is not None)
    if places:
        known = len(origin.ids)
        is_run = all(second - first == 1 for first, second in pairwise(places))
        bits += 1 + _COUNT_BITS + math.log2(known if is_run else math.comb(known, len(places)) or 1)
    versions = sum(not part.db and ("", part.text) not in origin.ids for part in ids)
    return bits + versions * _VERSION_BITS


def _num_records(db: str) -> int:
    return sum(last - first + 1 for first, last in NUMBERS.get(db, ((1, _MOST_ACCESSIONS),)))


def said_ids(text: str) -> Iterator[_Key]:
    """Yield the identifiers that a person's text names as such, by database; accessions have none.

    A bare number is no identifier: it may be a telephone or record number.
    """
    for found in _SAID.finditer(text):
        label = found["label"].lower()
        db = next(db for start, db in _DBS if label.startswith(start))
        for number in re.findall(r"[0-9]+", found["numbers"]):
            yield db, number
    for tagged in _TAGGED.finditer(text):
        yield "pubmed", tagged[1]
    yield from _written_ids(text)


def _written_ids(text: str) -> Iterator[_Key]:
    for found in _PREFIXED.finditer(text):
        yield _OF_PREFIX[found["prefix"]], found["number"]
    for accession in _ACCESSION.finditer(text):
        yield "", accession[0]


def reply_ids(call: NcbiCall, body: str) -> Iterator[_Key]:
    """Yield the identifiers of a reply: those in NCBI's places for ids, and all that show by their form what they are.

    Other numbers (positions, counts, dates) are none.
    """
    yield from _numbers_of(call, body)
    yield from _written_ids(body)


def _numbers_of(call: NcbiCall, body: str) -> Iterator[_Key]:
    start = body.lstrip()[:1]
    if start in ("{", "["):
        try:
            yield from _in_json(json.loads(body), call.db, "", 0)
        except (ValueError, RecursionError):
            return
        return
    if _ONLY_NUMBERS.fullmatch(body):
        yield from ((call.db, number) for number in body.replace(",", " ").split())
        return
    for pattern, db in _MARKED:
        for found in pattern.finditer(body):
            yield db or call.db, found[1]


def _in_json(value: Any, db: str, name: str, depth: int) -> Iterator[_Key]:
    """Yield the ids of a JSON reply; ``db`` is the database of ids without one of their own, ``name`` the field's."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        # A set of links names its target; ids of the article itself carry their kind.
        db = str(value.get("dbto", db))
        kind = value.get("idtype")
        if kind in ("pubmed", "pmid", "pmc"):
            yield ("pmc" if kind == "pmc" else "pubmed"), str(value.get("value", "")).removeprefix("PMC")
        for key, inner in value.items():
            yield from _in_json(inner, db, str(key).lower(), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _in_json(inner, db, name, depth + 1)
    elif name in _FIELDS and isinstance(value, str | int) and _NUMBER.fullmatch(str(value)):
        yield _FIELDS[name] or db, str(value)


def _words_of(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
