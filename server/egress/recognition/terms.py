"""Recognize identifiers, and search terms: at most three known names or identifiers with fields, joined by AND or OR.

An identifier has a database's exact shape, is in its range, and is one of few in a call. The ranges end above our
estimate of the highest number that the database had assigned in November 2026 (NCBI publishes no table), so they need
raising every few years; a too new record is refused, never the reverse. Defines what the check of a value gives, too:
the value as it may leave, or why it may not. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from retrieval.ncbi.calls.parameter_classes import ParamClass
from retrieval.types import NameKind
from server.egress.recognition.vocabulary import Vocabulary, is_symbol, known_name, reads_as_language

# What was not recognized, or which bound was reached; the label of the metric.
Reason = Literal[
    "endpoint", "database", "parameter", "characters", "identifier", "word", "form", "combination", "choice",
    "sequence", "position", "request_id", "origin", "class", "answer_budget", "answer_bits", "hour_budget",
    "day_budget",
]  # fmt: skip
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
# The examples in the prompts ask for 5 records at a time. Ten PubMed ids can carry 10 * log2(44,000,000) = 254 bits,
# which is why there are not more.
MAX_IDS: Final = 10
_DECIMAL: Final = re.compile(r"[1-9][0-9]{0,9}")
_VERSION: Final = r"\.(?:[1-9][0-9]?)"

# Entrez's record numbers, first and last of each span.
NUMBERS: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    "pubmed": ((1, 44_000_000),),
    "pmc": ((13_900, 14_500_000),),
    "gene": ((1, 150_000_000),),
    "snp": ((1, 2_300_000_000),),
    "clinvar": ((2, 5_500_000),),
    "taxonomy": ((1, 3_900_000),),
    "medgen": ((1, 2_000_000),),
    "omim": (
        (100_050, 195_999),
        (200_100, 279_999),
        (300_000, 319_999),
        (400_000, 489_999),
        (500_000, 598_999),
        (600_000, 624_999),
    ),
}


@dataclass(frozen=True, slots=True)
class Refused:
    """Name the parameter that keeps a call here; no text contains any part of the call's values.

    ``param`` is a name of the call table or "call".
    """

    param: str
    reason: Reason
    what: str
    remedy: str

    @property
    def text(self) -> str:
        return f"{self.what}; {self.remedy}"


class NotRecognized(Exception):  # an outcome inside this package, no error of the server
    """Carry the refusal out of the checks of a value; never leaves this package."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Part:
    """Hold one thing that a call chooses: an identifier, a name, one of ``choices`` fixed values, a position.

    ``db`` is that of an identifier which is a number, "" for an accession.
    """

    kind: Literal["id", "name", "choice", "place"]
    text: str
    db: str = ""
    choices: int = 1


@dataclass(frozen=True, slots=True)
class Recognized:
    """Hold a recognized value as it may leave, and what was chosen in it."""

    text: str
    classes: frozenset[ParamClass] = frozenset()
    parts: tuple[Part, ...] = ()


def refuse(param: str, reason: Reason, what: str, remedy: str) -> NotRecognized:
    return NotRecognized(Refused(param, reason, what, remedy))


@dataclass(frozen=True, slots=True)
class Accession:
    """Describe one shape of accession: ``prefix``, exactly ``digits`` digits of at most ``last``, ``suffix``."""

    prefix: str
    digits: int
    last: int
    suffix: str = ""

    def fits(self, text: str) -> bool:
        found = re.fullmatch(rf"{self.prefix}([0-9]{{{self.digits}}}){self.suffix}", text)
        return found is not None and 0 < int(found[1]) <= self.last


_REFSEQ_DNA: Final = (
    *(Accession(f"{name}_", 6, 999_999, _VERSION) for name in ("NM", "NR", "NG", "NC", "NT", "XM", "XR", "AC")),
    *(Accession(f"{name}_", 9, 9_999_999, _VERSION) for name in ("NM", "NR")),
    *(Accession(f"{name}_", 9, 80_000_000, _VERSION) for name in ("XM", "XR", "NW")),
)
_REFSEQ_PROTEIN: Final = (
    *(Accession(f"{name}_", 6, 999_999, _VERSION) for name in ("NP", "XP", "YP", "AP")),
    Accession("NP_", 9, 9_999_999, _VERSION),
    Accession("XP_", 9, 80_000_000, _VERSION),
    Accession("YP_", 9, 20_000_000, _VERSION),
    Accession("WP_", 9, 500_000_000, _VERSION),
)
_ENSEMBL: Final = (
    Accession("ENSG", 11, 400_000),
    Accession("ENST", 11, 1_200_000),
    Accession("ENSP", 11, 1_000_000),
    *(Accession(f"ENS{species}{kind}", 11, 400_000) for species in ("MUS", "RNO", "DAR") for kind in "GTP"),
)
_CLINVAR: Final = (
    Accession("VCV", 9, 5_500_000, f"(?:{_VERSION})?"),
    Accession("RCV", 9, 7_500_000, f"(?:{_VERSION})?"),
)
# What the parameter ``id`` takes beside numbers, by database.
ACCESSIONS: Final[Mapping[str, tuple[Accession, ...]]] = {
    "nuccore": _REFSEQ_DNA,
    "protein": _REFSEQ_PROTEIN,
    "clinvar": _CLINVAR,
}
# What a search takes, by the field's kind of number; "" is a word without a field.
_PREFIXED: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "snp": (("rs", "snp"),),
    "pmc": (("PMC", "pmc"),),
    "taxonomy": (("txid", "taxonomy"),),
    "": (("rs", "snp"), ("PMC", "pmc")),
}
_WORDS: Final[Mapping[str, tuple[Accession, ...]]] = {
    "accession": (*_REFSEQ_DNA, *_REFSEQ_PROTEIN),
    "": (*_REFSEQ_DNA, *_REFSEQ_PROTEIN, *_ENSEMBL, *_CLINVAR),
}


def in_range(db: str, text: str) -> bool:
    """Return whether the text is a number of the database, in decimal form without sign or leading zeros."""
    if _DECIMAL.fullmatch(text) is None:
        return False
    return any(first <= int(text) <= last for first, last in NUMBERS.get(db, ()))


def is_identifier(word: str, kind: str = "") -> bool:
    """Return whether a word of a search is an identifier of ``kind``: a database, "accession", or "" for any.

    Without a kind a bare number is none, as it can be anyone's.
    """
    return identifier(word, kind) is not None


def identifier(word: str, kind: str = "") -> Part | None:
    """Return what a word of a search identifies, None if it is no identifier of ``kind``."""
    if kind and in_range(kind, word):
        return Part("id", word, kind)
    for prefix, db in _PREFIXED.get(kind, ()):
        if word.startswith(prefix) and in_range(db, word.removeprefix(prefix)):
            return Part("id", word.removeprefix(prefix), db)
    return Part("id", word) if any(shape.fits(word) for shape in _WORDS.get(kind, ())) else None


def recognize_ids(db: str, value: str) -> Recognized:
    """Return the list of ids of a call.

    Raises:
        NotRecognized: one of them is none, or they are too many, or repeated.
    """
    ids = value.split(",")
    if len(ids) > MAX_IDS:
        raise refuse("id", "identifier", f"more than {MAX_IDS} ids", f"ask for at most {MAX_IDS} records a call")
    if len(set(ids)) != len(ids):
        raise refuse("id", "identifier", "an id occurs twice", "name each record once")
    shapes = ACCESSIONS.get(db, ())
    if not all(in_range(db, one) or any(shape.fits(one) for shape in shapes) for one in ids):
        remedy = (
            "use RefSeq accessions with their version" if db in ("nuccore", "protein") else "use its record numbers"
        )
        raise refuse("id", "identifier", f"an id is none that {db} has", remedy)
    return Recognized(value, frozenset({"id"}), tuple(Part("id", one, db if one.isdecimal() else "") for one in ids))


MAX_CLAUSES: Final = 3
MAX_TERM_CHARS: Final = 300
_OPERATOR: Final = re.compile(r" (AND|OR) ")
_CLAUSE: Final = re.compile(
    r'(?P<quote>"?)(?P<text>[^"\[\]<>{}|\\^~`;=?&$%#!*]+?)(?P=quote)(?: ?\[(?P<tag>[A-Za-z/ ]+)\])?'
)
_POSITION: Final = re.compile(r"[1-9][0-9]{0,8}(?::[1-9][0-9]{0,8})?")

_SYMBOLS: Final[frozenset[NameKind]] = frozenset({"symbol", "alias", "other_symbol"})
_CONDITIONS: Final[frozenset[NameKind]] = frozenset({"disease", "heading"})
_ANY: Final[frozenset[NameKind]] = _SYMBOLS | _CONDITIONS | {"gene_name", "organism"}


@dataclass(frozen=True, slots=True)
class Field:
    """Describe what fits a search field: names of ``kinds``, identifiers of ``ids``, or one of ``fixed`` words.

    ``ids`` as in ``is_identifier``, None for none. ``place``: the field takes positions in a genome.
    """

    kinds: frozenset[NameKind] = frozenset()
    ids: str | None = None
    fixed: frozenset[str] = frozenset()
    place: bool = False


_CHROMOSOMES: Final = frozenset((*(str(number) for number in range(1, 23)), "x", "y", "mt"))
_LIMITS: Final = frozenset(
    {
        "alive", "genetype protein coding", "protein coding", "pseudo", "ncrna", "snv", "indel", "review",
        "systematic review", "meta-analysis", "clinical trial", "randomized controlled trial", "case reports",
        "journal article", "guideline", "practice guideline", "free full text", "hasabstract", "humans", "english",
        "refseq", "refseq select", "biomol mrna", "biomol genomic", "pathogenic", "likely pathogenic", "benign",
        "likely benign", "missense variant", "intron variant", "synonymous variant",
    }
)  # fmt: skip
_OF: Final[Mapping[Field, tuple[str, ...]]] = {
    Field(_SYMBOLS): ("sym", "symbol", "gene", "gene name", "gene symbol", "preferred symbol", "pref"),
    Field(frozenset({"organism"}), ids="taxonomy"): ("orgn", "organism", "porgn", "primary organism"),
    Field(_CONDITIONS): (
        "dis", "disease", "disease/phenotype", "trait", "mesh", "mh", "mesh terms", "majr", "mesh major topic",
    ),
    Field(_SYMBOLS | _CONDITIONS | {"gene_name"}): ("title", "ti", "titl", "tiab", "title/abstract"),
    Field(frozenset({"gene_name"})): ("full name", "gene full name", "gfn"),
    Field(_ANY): ("all", "all fields"),
    Field(fixed=_CHROMOSOMES): ("chr", "chrom", "chromosome"),
    Field(fixed=_LIMITS): (
        "filter", "sb", "subset", "prop", "properties", "pt", "ptyp", "publication type", "la", "lang", "language",
        "fxn", "function class", "clin", "clinsig", "clinical significance",
    ),
    Field(ids="pubmed"): ("pmid",),
    Field(ids="pmc"): ("pmc", "pmcid"),
    Field(ids="snp"): ("rs",),
    Field(ids="omim"): ("mim", "mim id", "mim number"),
    Field(ids="gene"): ("gene id", "geneid"),
    Field(ids="taxonomy"): ("txid", "taxonomy id"),
    Field(ids="accession"): ("accn", "acc", "accession", "pacc", "primary accession"),
    Field(place=True): ("chrpos", "cpos", "base position", "position"),
}  # fmt: skip
# By tag in lower case. ``uid`` is left to the database of the call.
FIELDS: Final[Mapping[str, Field]] = {tag: field for field, tags in _OF.items() for tag in tags}
# With quotes or without, a field or none.
_FORMS: Final = 2 * (len(FIELDS) + 2)
# What a word without a field may be, by database: a single clause needs no field where the database implies it.
IMPLIED: Final[Mapping[str, frozenset[NameKind]]] = {
    "gene": _SYMBOLS | {"gene_name"},
    "snp": _SYMBOLS,
    "omim": _SYMBOLS | _CONDITIONS | {"gene_name"},
    "clinvar": _SYMBOLS | _CONDITIONS,
    "medgen": _SYMBOLS | _CONDITIONS,
    "pubmed": _SYMBOLS | _CONDITIONS | {"gene_name"},
    "pmc": _SYMBOLS | _CONDITIONS | {"gene_name"},
    "nuccore": _SYMBOLS | {"gene_name"},
    "protein": _SYMBOLS | {"gene_name"},
    "taxonomy": frozenset({"organism"}),
}


@dataclass(frozen=True, slots=True)
class Search:
    """Say where a term is searched: the parameter's name, the database, the field of a word without a tag."""

    param: str
    db: str
    field: str = ""
    places: bool = False


@dataclass(frozen=True, slots=True)
class _Clause:
    """Hold a recognized clause; ``spoken``: its symbol can be read as language."""

    text: str
    kind: ParamClass
    part: Part
    organism: bool = False
    spoken: bool = False


def recognize_term(term: str, search: Search, vocabulary: Vocabulary) -> Recognized:
    """Return the term in its stored spelling.

    Raises:
        NotRecognized: it has another form, or words that the vocabulary does not have.
    """
    pieces = _OPERATOR.split(term)
    written, operators = pieces[::2], pieces[1::2]
    if len(written) > MAX_CLAUSES or len(term) > MAX_TERM_CHARS:
        raise refuse(search.param, "combination", f"more than {MAX_CLAUSES} clauses", "search for fewer names at once")
    clauses = [_clause(text, search, vocabulary, alone=len(written) == 1) for text in written]
    _check_together(clauses, search.param)
    joined = clauses[0].text + "".join(f" {op} {one.text}" for op, one in zip(operators, clauses[1:], strict=True))
    return Recognized(joined, frozenset(one.kind for one in clauses), _parts(clauses, operators))


def _parts(clauses: list[_Clause], operators: list[str]) -> tuple[Part, ...]:
    """Return what a term chooses: how its clauses are joined, and of each the field, the quotes and the value."""
    joined = Part("choice", f"{len(clauses)} {' '.join(operators)}", choices=2**MAX_CLAUSES - 1)
    fields = (
        Part("choice", f"{one.text.partition('[')[2]}{one.text[:1] == chr(34)}", choices=_FORMS) for one in clauses
    )
    return (joined, *fields, *(one.part for one in clauses))


def _is_plain_case(part: str) -> bool:
    return part in (part.lower(), part.upper(), part.title(), "MeSH")


def is_field(name: str) -> bool:
    return name == "uid" or name in FIELDS


def _check_together(clauses: list[_Clause], param: str) -> None:
    """Check what clauses say together: no word twice, one organism, one symbol that is an ordinary word."""
    if len({one.text.casefold() for one in clauses}) != len(clauses):
        raise refuse(param, "combination", "a clause occurs twice", "write each clause once")
    if sum(one.organism for one in clauses) > 1:
        raise refuse(param, "combination", "more than one organism", "name one organism a call")
    named = [one for one in clauses if not one.organism]
    if any(one.kind == "id" for one in named) and any(one.kind != "id" for one in named):
        raise refuse(param, "combination", "an identifier beside a name", "search for the identifier alone")
    if sum(one.spoken for one in clauses) > 1:
        raise refuse(param, "combination", "several symbols that are ordinary words", "search for them one by one")


def _clause(text: str, search: Search, vocabulary: Vocabulary, *, alone: bool) -> _Clause:
    found = _CLAUSE.fullmatch(text)
    if found is None or found["text"] != " ".join(found["text"].split()) or "  " in text:
        raise refuse(
            search.param, "form", "the term is no list of names with fields", "write NAME[field] AND NAME[field]"
        )
    tag = found["tag"]
    if tag is None:
        if not alone:
            raise refuse(search.param, "form", "a name has no field", "write each name's field, as in BRCA1[gene]")
        return _untagged(found, search, vocabulary)
    name = tag.lower()
    if not is_field(name) or not all(_is_plain_case(part) for part in tag.split(" ")):
        raise refuse(search.param, "word", "a field is not in the list of fields", "use a field as gene, orgn or mesh")
    return _in_field(found["text"], found["quote"], name, search, vocabulary)


def _untagged(found: re.Match[str], search: Search, vocabulary: Vocabulary) -> _Clause:
    """Recognize a whole term without a tag, in the field of the call or in what its database implies."""
    if search.field:
        clause = _in_field(found["text"], found["quote"], search.field, search, vocabulary)
        return replace(clause, text=clause.text.partition("[")[0])
    if (known := identifier(found["text"])) is not None:
        return _Clause(found["text"], "id", known)
    return _name(found["text"], found["quote"], IMPLIED.get(search.db, frozenset()), search.param, vocabulary)


def _in_field(text: str, quote: str, tag: str, search: Search, vocabulary: Vocabulary) -> _Clause:
    field = FIELDS[tag] if tag != "uid" else Field(ids=search.db)
    if field.place and search.places and _POSITION.fullmatch(text):
        return _Clause(f"{text}[{tag}]", "coordinates", Part("place", text))
    if field.place:
        raise refuse(search.param, "position", "a field takes positions in a genome", "search by a symbol or an id")
    if field.ids is not None and (known := identifier(text, field.ids)) is not None:
        return _Clause(f"{text}[{tag}]", "id", known, organism="organism" in field.kinds)
    if text.lower() in field.fixed and text in (text.lower(), text.upper(), text.capitalize(), text.title()):
        fixed = Part("choice", text.lower(), choices=len(field.fixed))
        return _Clause(f"{quote}{text.lower()}{quote}[{tag}]", "term", fixed)
    if not field.kinds:
        raise refuse(search.param, "identifier", "a value does not fit its field", "search by a symbol or an id")
    clause = _name(text, quote, field.kinds, search.param, vocabulary)
    return replace(clause, text=f"{clause.text}[{tag}]")


def _name(text: str, quote: str, kinds: frozenset[NameKind], param: str, vocabulary: Vocabulary) -> _Clause:
    entry = known_name(text, kinds, vocabulary)
    if entry is None:
        raise NotRecognized(
            Refused(
                param,
                "word",
                "a name is not in this site's vocabulary, or too ordinary a word",
                "use an official symbol, a disease or MeSH name of the gateway's data, or an id",
            )
        )
    kind: ParamClass = "symbol" if is_symbol(entry) else "term"
    # In small letters, as OMIM's titles are in capitals, and a capital AND is an operator.
    name = entry.spelling if is_symbol(entry) else entry.spelling.lower()
    part, spoken = Part("name", name), reads_as_language(entry, vocabulary)
    return _Clause(f"{quote}{name}{quote}", kind, part, entry.kind == "organism", spoken)
