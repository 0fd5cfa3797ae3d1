"""Recognize a whole call: endpoint, database, the name and the value of every parameter; all else is refused.

The parameters that steer a call (pages, formats, orders, dates) have lists of values, short enough that these cannot
carry numbers or letters of a person. Pure, but for the look-ups in the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.ncbi.calls.parameter_classes import CLASSES, ParamClass
from retrieval.types import Endpoint, NcbiCall
from server.egress.recognition.terms import (
    FIELDS,
    NotRecognized,
    Part,
    Recognized,
    Refused,
    Search,
    is_field,
    recognize_ids,
    recognize_term,
    refuse,
)
from server.egress.recognition.vocabulary import Vocabulary

# Returns whether this server received the request id from NCBI for the call's key.
IsReceived = Callable[[str], bool]
DATABASES: Final = ("gene", "snp", "omim", "clinvar", "pubmed", "pmc", "nuccore", "protein", "taxonomy", "medgen")
_FORMAT: Final = {"retmode": ("json", "xml")}
_PAGE: Final = {"retmax": ("1", "2", "3", "5", "10", "20", "50", "100", "9999"), "retstart": ("0", "20", "100")}
_YEARS: Final = ("2000", "2005", "2010", "2015", "2020", "2025")
_HITS: Final = dict.fromkeys(("HITLIST_SIZE", "DESCRIPTIONS", "ALIGNMENTS"), ("1", "5", "10", "20", "50", "100"))
_BLAST_FORMAT: Final = ("XML", "Text", "JSON2_S", "Tabular")
# By endpoint: the parameters with fixed values, in the order in which they are sent.
CHOICES: Final[Mapping[Endpoint, Mapping[str, tuple[str, ...]]]] = {
    "esearch": _PAGE
    | _FORMAT
    | {
        "sort": ("relevance", "pub_date"),
        "rettype": ("uilist", "count"),
        "idtype": ("acc",),
        "datetype": ("pdat",),
        "reldate": ("30", "90", "365", "1825", "3650"),
        "mindate": _YEARS,
        "maxdate": (*_YEARS, "3000"),
    },
    "esummary": _PAGE | _FORMAT | {"version": ("2.0",)},
    "efetch": _PAGE
    | {
        "retmode": ("json", "xml", "text"),
        "rettype": ("fasta", "gb", "gp", "abstract", "medline", "docsum", "uilist", "acc"),
    },
    "elink": {"retmax": _PAGE["retmax"]} | _FORMAT | {"cmd": ("neighbor", "neighbor_score")},
    "einfo": _FORMAT | {"version": ("2.0",)},
    "blast_put": {
        "PROGRAM": ("blastn", "blastp", "blastx", "tblastn", "tblastx"),
        "MEGABLAST": ("on", "off"),
        "FORMAT_TYPE": _BLAST_FORMAT,
        "EXPECT": ("10", "1", "0.1", "0.05", "0.01", "0.001"),
        "WORD_SIZE": ("7", "11", "16", "28"),
        "FILTER": ("F", "T", "L", "mL"),
        "SHORT_QUERY_ADJUST": ("true", "false"),
    }
    | _HITS,
    "blast_get": {"FORMAT_TYPE": _BLAST_FORMAT, "FORMAT_OBJECT": ("SearchInfo", "Alignment")} | _HITS,
}  # fmt: skip
BLAST_DATABASES: Final = (
    "nt", "core_nt", "refseq_rna", "refseq_select_rna", "refseq_genomes", "pdbnt", "nr", "refseq_protein",
    "refseq_select_prot", "swissprot", "pdb", "landmark",
)  # fmt: skip
_DATED: Final = frozenset({"pubmed", "pmc"})
_DATE_PARAMS: Final = frozenset({"datetype", "reldate", "mindate", "maxdate"})
# Names of links that are more than source and target.
_LINKS: Final = frozenset(
    {
        "gene_pubmed_rif", "gene_nuccore_refseqrna", "gene_nuccore_refseqgene", "gene_protein_refseq",
        "gene_snp_clinical", "pubmed_pubmed_refs", "pubmed_pubmed_citedin", "pubmed_pubmed_reviews",
        "clinvar_gene_specific", "clinvar_pubmed_citations", "snp_pubmed_cited", "omim_pubmed_cited",
        "omim_pubmed_calculated",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hold a recognized call as it may leave.

    ``call`` is rebuilt: parameters in the table's order, names in their stored spelling. ``characters`` is what its
    variable values cost of a budget, ``parts`` what was chosen in them.
    """

    call: NcbiCall
    classes: tuple[ParamClass, ...]
    characters: int
    parts: tuple[Part, ...] = ()


def recognize_choice(endpoint: Endpoint, name: str, value: str) -> Recognized:
    """Return the value of a parameter with fixed values.

    Raises:
        NotRecognized: the value is not in the list.
    """
    choices = CHOICES[endpoint][name]
    if value not in choices:
        raise refuse(name, "choice", "the value is not in the list of values", f"use one of {', '.join(choices)}")
    return _chosen(value, len(choices))


def _chosen(value: str, choices: int) -> Recognized:
    return Recognized(value, parts=(Part("choice", value, choices=choices),))


def recognize_database(name: str, value: str, choices: tuple[str, ...]) -> Recognized:
    if value not in choices:
        raise refuse(name, "database", "the database is not in the list of databases", f"use {', '.join(choices)}")
    return _chosen(value, len(choices))


def recognize_link(dbfrom: str, db: str, value: str) -> Recognized:
    """Return the name of a link between two databases.

    Raises:
        NotRecognized: there is no such link in the list.
    """
    plain = f"{dbfrom}_{db}"
    if value == plain or (value in _LINKS and value.startswith(plain)):
        return _chosen(value, len(_LINKS) + 1)
    raise refuse("linkname", "choice", "the link is not in the list of links", "use dbfrom_db, as gene_omim")


def check_dates(db: str, params: Mapping[str, str]) -> None:
    """Check how dates are combined.

    Raises:
        NotRecognized: a database without dates, a half open range, or a range and a number of days.
    """
    dates = _DATE_PARAMS.intersection(params)
    if not dates:
        return
    if db not in _DATED:
        raise refuse("datetype", "combination", f"{db} is not searched by date", "leave the dates out")
    if ("mindate" in dates) != ("maxdate" in dates) or ("reldate" in dates) == ("mindate" in dates):
        raise refuse("mindate", "combination", "the dates are no range", "give mindate and maxdate, or reldate alone")
    if params.get("mindate", "") > params.get("maxdate", ""):
        raise refuse("mindate", "combination", "the range of dates is empty", "give mindate before maxdate")


# By endpoint: the parameters beside those with fixed values, in the order in which they are checked and sent; True if
# required. A term is read in its field, so that comes first.
VARIABLE: Final[Mapping[Endpoint, Mapping[str, bool]]] = {
    "esearch": {"db": True, "field": False, "term": True},
    "esummary": {"db": True, "id": True},
    "efetch": {"db": True, "id": True, "seq_start": False, "seq_stop": False},
    "elink": {"dbfrom": True, "db": True, "linkname": False, "id": True},
    "einfo": {"db": False},
    "blast_put": {"DATABASE": True, "QUERY": True, "ENTREZ_QUERY": False},
    "blast_get": {"RID": True},
}
_MAX_PARAMS: Final = 12
_MAX_CHARS: Final = 2500
# Values that cost their length of a budget; any other parameter costs one character.
COUNTED: Final = frozenset({"term", "id", "ENTREZ_QUERY", "RID", "QUERY", "seq_start", "seq_stop"})
_POSITION_CHARS: Final = 10
# How many request ids are remembered, of all keys.
MAX_REQUEST_IDS: Final = 2000


@dataclass(frozen=True, slots=True)
class Recognizer:
    """Judge calls; ``allow`` are the classes that may leave, without free text."""

    vocabulary: Vocabulary
    allow: frozenset[ParamClass]

    def judge(self, call: NcbiCall, is_received: IsReceived) -> Allowed | Refused:
        """Return the call as it may leave, or what keeps it here.

        ``is_received``: whether a BLAST request id came from NCBI to this server, for the key of the call.
        """
        try:
            return self._recognize(call, is_received)
        except NotRecognized as outcome:
            return outcome.refused

    def _recognize(self, call: NcbiCall, is_received: IsReceived) -> Allowed:
        if call.endpoint not in VARIABLE:
            raise refuse("call", "endpoint", "the endpoint is not in the list of calls", "use esearch or esummary")
        names = (*VARIABLE[call.endpoint], *CHOICES[call.endpoint])
        _check_parameters(call, names)
        if call.db != call.params.get("DATABASE" if call.endpoint == "blast_put" else "db", ""):
            raise refuse("db", "database", "the database is given in two ways", "name one database")
        checks = self._checks(call, is_received)
        found: dict[str, Recognized] = {}
        for name in names:
            if (value := call.params.get(name)) is not None:
                check = checks.get(name)
                found[name] = check(value) if check else recognize_choice(call.endpoint, name, value)
        check_dates(call.db, call.params)
        classes = frozenset().union(*(one.classes for one in found.values()))
        if kept := classes - self.allow:
            raise refuse("call", "class", f"{', '.join(sorted(kept))} may not leave", "extend egress.allow")
        sent = {name: one.text for name, one in found.items()}
        parts = tuple(part for one in found.values() for part in one.parts)
        return Allowed(NcbiCall(call.endpoint, call.db, sent), _ordered(classes), characters_of(sent), parts)

    def _checks(self, call: NcbiCall, is_received: IsReceived) -> Mapping[str, Callable[[str], Recognized]]:
        params = call.params
        dbs = BLAST_DATABASES if call.endpoint == "blast_put" else DATABASES
        places = "coordinates" in self.allow
        field = params.get("field", "")
        term = Search("term", call.db, field, places)
        blast = Search("ENTREZ_QUERY", "", "", places)
        return {
            "db": lambda value: recognize_database("db", value, dbs),
            "dbfrom": lambda value: recognize_database("dbfrom", value, dbs),
            "DATABASE": lambda value: recognize_database("DATABASE", value, dbs),
            "field": _field,
            "term": lambda value: recognize_term(value, term, self.vocabulary),
            "ENTREZ_QUERY": lambda value: recognize_term(value, blast, self.vocabulary),
            "id": lambda value: recognize_ids(params.get("dbfrom", call.db), value),
            "linkname": lambda value: recognize_link(params.get("dbfrom", ""), call.db, value),
            "RID": lambda value: _request_id(value, is_received),
            "QUERY": self._sequence,
            "seq_start": lambda value: self._position("seq_start", value),
            "seq_stop": lambda value: self._position("seq_stop", value),
        }

    def _sequence(self, value: str) -> Recognized:
        if "sequence" not in self.allow or not value.isalpha():
            raise refuse("QUERY", "sequence", "a sequence may not leave", "search the gateway's BLAST databases")
        return Recognized(value, frozenset({"sequence"}))

    def _position(self, name: str, value: str) -> Recognized:
        if "coordinates" not in self.allow or not value.isdecimal() or len(value) > _POSITION_CHARS:
            raise refuse(name, "position", "a position in a sequence may not leave", "fetch the whole record")
        return Recognized(value, frozenset({"coordinates"}), (Part("place", value),))


def characters_of(params: Mapping[str, str]) -> int:
    """Return what the values of a recognized call cost of a budget."""
    return sum(len(value) if name in COUNTED else 1 for name, value in params.items())


def _check_parameters(call: NcbiCall, names: tuple[str, ...]) -> None:
    """Check names and characters of all parameters, before any value is interpreted."""
    if len(call.params) > _MAX_PARAMS or sum(map(len, call.params.values())) > _MAX_CHARS:
        raise refuse("call", "parameter", "the call is too long", "ask for less at once")
    if any(name not in names for name in call.params):
        raise refuse("call", "parameter", "a parameter is not in the list of parameters", f"use {', '.join(names)}")
    for name, value in call.params.items():
        # Printable ASCII is its own normal form: text that normalization would turn into it is refused as well.
        if not value or not value.isascii() or not value.isprintable() or value != value.strip():
            raise refuse(name, "characters", "the value is empty, or not printable ASCII", "write plain Latin letters")
    if missing := [name for name, needed in VARIABLE[call.endpoint].items() if needed and name not in call.params]:
        raise refuse(missing[0], "parameter", f"{missing[0]} is missing", "give it")


def _field(value: str) -> Recognized:
    if not is_field(value):
        raise refuse("field", "choice", "the field is not in the list of fields", "use a field as gene, orgn or mesh")
    return _chosen(value, len(FIELDS) + 1)


def _request_id(value: str, is_received: IsReceived) -> Recognized:
    if not is_received(value):
        raise refuse("RID", "request_id", "the request id did not come from NCBI to this server", "search again")
    return Recognized(value, frozenset({"id"}), (Part("choice", value, choices=MAX_REQUEST_IDS),))


def _ordered(classes: frozenset[ParamClass]) -> tuple[ParamClass, ...]:
    return tuple(name for name in CLASSES if name in classes)
