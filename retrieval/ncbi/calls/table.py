"""Define the NCBI calls: endpoints, databases, parameters and their permitted values.

Validation (``urls.parse_call_url``), the grammar (``urls.call_regex``) and request building (``urls.build_request``)
all read this table, so whatever a model can write can be sent. It is data only and knows nothing of parsing or HTTP.
Sources: NCBI's E-utilities manual (chapter 4) and the BLAST URL API parameter list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from retrieval.types import Endpoint

EUTILS_HOST: Final = "eutils.ncbi.nlm.nih.gov"
EUTILS_PATH: Final = "/entrez/eutils/"
BLAST_HOST: Final = "blast.ncbi.nlm.nih.gov"
BLAST_PATHS: Final = ("/blast/Blast.cgi", "/Blast.cgi")

MAX_URL_CHARS: Final = 8000
MAX_TERM_CHARS: Final = 300
MAX_IDS: Final = 50
MIN_QUERY_LETTERS: Final = 10
MAX_QUERY_LETTERS: Final = 2000
# A term with a word of this many bases is a sequence in the wrong parameter: Entrez never finds it, and it must not
# leave the machine as a search term.
MAX_BASES_IN_TERM: Final = 50

# Written by models that copy examples; the client sends the operator's own, so these are dropped, never sent on.
DROPPED: Final = frozenset({"tool", "email", "api_key"})

_NUMERIC_IDS = "[0-9]{1,10}(,[0-9]{1,10}){0,49}"
_ACCESSION = r"([0-9]{1,10}|[A-Z]{1,4}_?[0-9]{5,9}(\.[0-9]{1,2})?)"
_ACCESSION_IDS = f"{_ACCESSION}(,{_ACCESSION}){{0,49}}"

# Database -> the grammar of its list of ids. Validation accepts more (``_IDENTIFIER``): NCBI's own "Invalid uid" is
# more informative for a model than a refusal.
DATABASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gene": _NUMERIC_IDS,
        "snp": _NUMERIC_IDS,
        "omim": _NUMERIC_IDS,
        "clinvar": _NUMERIC_IDS,
        "pubmed": _NUMERIC_IDS,
        "nuccore": _ACCESSION_IDS,
        "protein": _ACCESSION_IDS,
        "taxonomy": _NUMERIC_IDS,
        "medgen": _NUMERIC_IDS,
    }
)
DB_ALIASES: Final[Mapping[str, str]] = MappingProxyType({"nucleotide": "nuccore"})

NUCLEOTIDE_DATABASES: Final = ("nt", "core_nt", "refseq_rna", "refseq_select_rna", "refseq_genomes", "pdbnt")
PROTEIN_DATABASES: Final = ("nr", "refseq_protein", "refseq_select_prot", "swissprot", "pdb", "landmark")

# Shapes of the grammar's search terms, in the text of a URL (between words '+' or a space). Longest possible: 10 words
# of 28 letters and 9 spaces = 289; or 3 clauses of 3 words of 24 letters with a tag and two operators = 268.
ENTREZ_TAGS: Final = (
    "sym", "gene", "orgn", "uid", "title", "ti", "tiab", "All+Fields",
    "chr", "acc", "accn", "rs", "dis", "pdat", "au", "mesh",
)  # fmt: skip
WRITTEN_SPACE: Final = "[+ ]"
_BODY = "[A-Za-z0-9._,'/:-]"
WRITTEN_WORD: Final = f"[A-Za-z0-9]{_BODY}{{0,27}}"
_LONG_WORD = f"({WRITTEN_WORD}|\\([A-Za-z0-9]{_BODY}{{0,25}}\\))"
_WORD = f"[A-Za-z0-9]{_BODY}{{0,23}}"
_WRITTEN_TAGS = "|".join(tag.replace("+", r"\+") for tag in ENTREZ_TAGS)
_CLAUSE = f"{_WORD}({WRITTEN_SPACE}{_WORD}){{0,2}}(\\[({_WRITTEN_TAGS})\\])?"
_OPERATION = f"({WRITTEN_SPACE}(AND|OR|NOT){WRITTEN_SPACE}{_CLAUSE}){{0,2}}"
_WRITTEN_TERM = f"({_LONG_WORD}({WRITTEN_SPACE}{_LONG_WORD}){{0,9}}|{_CLAUSE}{_OPERATION})"

_TERM = rf"[^\x00-\x1f\x7f<>]{{1,{MAX_TERM_CHARS}}}"
_IDENTIFIER = r"[A-Za-z0-9_.:\-]{1,40}"
_COUNT = "[1-9][0-9]{0,2}"
_DATE = r"[0-9]{4}(/[0-9]{1,2}){0,2}"
_LETTERS = rf"[A-Za-z*\-]{{{MIN_QUERY_LETTERS},{MAX_QUERY_LETTERS}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """Describe one parameter.

    ``accepts`` must match the whole decoded value (``choices``: compared without case, rewritten to the listed
    spelling). ``written`` is the grammar's pattern of the value, "" if the grammar omits the parameter. With
    ``no_spaces`` all white space is removed before the check. ``what`` completes "… must be …" in a refusal.
    """

    name: str
    accepts: str
    what: str
    choices: tuple[str, ...] = ()
    written: str = ""
    required: bool = False
    no_spaces: bool = False


def _choice(name: str, *choices: str, written: str = "", required: bool = False) -> Param:
    return Param(
        name=name, accepts="", choices=choices, what="one of " + ", ".join(choices), written=written, required=required
    )


_DB = _choice("db", *DATABASES, *DB_ALIASES, written=f"({'|'.join(DATABASES)})", required=True)
_RETMAX = Param(name="retmax", accepts=_COUNT, what="a number from 1 to 999", written="[1-9][0-9]{0,1}")
_RETSTART = Param(name="retstart", accepts="[0-9]{1,6}", what="the place of the first id, a number from 0 to 999999")
_RETMODE = _choice("retmode", "json", "xml", written="(json|xml)")
_VERSION = _choice("version", "2.0")
_SEARCH_TERM = Param(
    name="term",
    accepts=_TERM,
    what=f"a search term of 1 to {MAX_TERM_CHARS} characters without < or >",
    written=_WRITTEN_TERM,
    required=True,
)
_ID = Param(
    name="id",
    accepts=f"{_IDENTIFIER}(,{_IDENTIFIER}){{0,{MAX_IDS - 1}}}",
    what=f"1 to {MAX_IDS} ids separated by commas; a sequence is searched with BLAST CMD=Put",
    written="ids of the database",
    required=True,
    no_spaces=True,
)
_FORMAT_TYPE = _choice("FORMAT_TYPE", "XML", "Text", "HTML", "JSON2_S", "Tabular", written="(XML|Text)")
_HITLIST = Param(name="HITLIST_SIZE", accepts=_COUNT, what="a number from 1 to 999", written="[1-9][0-9]{0,1}")
_RID = Param(
    name="RID",
    accepts=r"[A-Za-z0-9_\-]{6,40}",
    what="the request id that a Put returned (6 to 40 letters and digits)",
    written="[A-Z0-9]{8,20}",
    required=True,
    no_spaces=True,
)
_QUERY = Param(
    name="QUERY",
    accepts=_LETTERS,
    what=f"a bare sequence of {MIN_QUERY_LETTERS} to {MAX_QUERY_LETTERS} letters; an id is looked up with esearch",
    written=f"[ACGTN]{{{MIN_QUERY_LETTERS},{MAX_QUERY_LETTERS}}}",
    required=True,
    no_spaces=True,
)
_SEQUENCE_POSITION = "a position in the sequence, counted from 1"

# efetch: database -> rettype -> the retmodes whose reply is read, "" for a call without the parameter. From table 1 of
# the manual; what is not read (ASN.1, tables of exons, ClinVar's own XML) is refused before it is sent.
_ID_LIST: Final = {"uilist": ("", "text", "xml")}
_SUMMARY: Final = {"docsum": ("", "xml")}
_TEXT_OR_XML: Final = ("", "text", "xml")
EFETCH_FORMS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = MappingProxyType(
    {
        "gene": {"": ("", "json", "text", "xml"), "docsum": _TEXT_OR_XML, **_ID_LIST},
        "snp": {"": ("", "json", "xml"), **_SUMMARY, **_ID_LIST},
        "omim": {"": ("", "json", "text"), **_SUMMARY, **_ID_LIST},
        "clinvar": {**_SUMMARY, **_ID_LIST},
        "pubmed": {"": ("", "xml"), **dict.fromkeys(("abstract", "medline", "docsum"), _TEXT_OR_XML), **_ID_LIST},
        "nuccore": {
            **dict.fromkeys(("fasta", "gb"), _TEXT_OR_XML),
            **dict.fromkeys(("gbwithparts", "fasta_cds_na", "fasta_cds_aa", "acc"), ("", "text")),
            **_SUMMARY,
            **_ID_LIST,
        },
        "protein": {**dict.fromkeys(("fasta", "gp", "gb"), _TEXT_OR_XML), "acc": ("", "text"), **_SUMMARY, **_ID_LIST},
        "taxonomy": {"": ("", "xml"), **_SUMMARY, **_ID_LIST},
        "medgen": {**_SUMMARY, **_ID_LIST},
    }
)
# The forms that the grammar writes.
WRITTEN_RETTYPES: Final = ("", "fasta", "gb", "gp", "abstract", "medline", "docsum")
# Spellings of "the whole record"; "xml" is one with its retmode.
WHOLE_RETTYPES: Final = ("null", "native", "full", "xml")
_RETTYPES: Final = tuple(dict.fromkeys(name for forms in EFETCH_FORMS.values() for name in forms if name))

# The order of parameters is the order in which the grammar writes them.
CALLS: Final[Mapping[Endpoint, tuple[Param, ...]]] = MappingProxyType(
    {
        "esearch": (
            _DB,
            _RETMAX,
            _RETMODE,
            _choice("sort", "relevance", "pub_date", "pub date", "Author", "JournalName", "name", "weight",
                    "chromosome", "gene name", "snp_id", "default", written="relevance"),
            _SEARCH_TERM,
            _RETSTART,
            _choice("rettype", "uilist", "count"),
            Param(name="field", accepts="[A-Za-z ]{1,30}", what="the name of a search field"),
            _choice("datetype", "pdat", "edat", "mdat"),
            Param(name="reldate", accepts="[0-9]{1,5}", what="a number of days"),
            Param(name="mindate", accepts=_DATE, what="a date like 2020/01/31"),
            Param(name="maxdate", accepts=_DATE, what="a date like 2020/01/31"),
            _choice("idtype", "acc"),
        ),
        "esummary": (_DB, _RETMAX, _RETMODE, _ID, _RETSTART, _VERSION),
        "efetch": (
            _DB,
            _RETMAX,
            _choice("retmode", "json", "xml", "text"),
            _choice("rettype", *_RETTYPES, *WHOLE_RETTYPES),
            _ID,
            _RETSTART,
            Param(name="seq_start", accepts="[1-9][0-9]{0,9}", what=_SEQUENCE_POSITION),
            Param(name="seq_stop", accepts="[1-9][0-9]{0,9}", what=_SEQUENCE_POSITION),
            _choice("strand", "1", "2"),
        ),
        "elink": (
            _choice("dbfrom", *DATABASES, *DB_ALIASES, written=f"({'|'.join(DATABASES)})", required=True),
            _DB,
            _RETMAX,
            _RETMODE,
            Param(name="linkname", accepts="[a-z0-9_]{3,60}", what="a link name like gene_omim"),
            _ID,
            _choice("cmd", "neighbor", "neighbor_score", "acheck", "ncheck"),
            Param(name="term", accepts=_TERM, what=_SEARCH_TERM.what),
        ),
        "einfo": (
            _choice("db", *DATABASES, *DB_ALIASES, written=f"({'|'.join(DATABASES)})"),
            _RETMODE,
            _VERSION,
        ),
        "blast_put": (
            _choice("PROGRAM", "blastn", "blastp", "blastx", "tblastn", "tblastx", written="blastn", required=True),
            _choice("MEGABLAST", "on", "yes", "true", "off", "no", "false", written="on"),
            _choice("DATABASE", *NUCLEOTIDE_DATABASES, *PROTEIN_DATABASES,
                    written=f"({'|'.join(NUCLEOTIDE_DATABASES)})", required=True),
            _FORMAT_TYPE,
            _QUERY,
            _HITLIST,
            Param(name="EXPECT", accepts=r"[0-9]{1,6}(\.[0-9]{1,9})?([eE]-?[0-9]{1,3})?", what="a positive number"),
            Param(name="WORD_SIZE", accepts="[1-9][0-9]?", what="a number from 1 to 99"),
            _choice("FILTER", "F", "T", "L", "mL"),
            _choice("SHORT_QUERY_ADJUST", "true", "false", "on", "off"),
            Param(name="ENTREZ_QUERY", accepts=_TERM, what=_SEARCH_TERM.what),
            Param(name="DESCRIPTIONS", accepts=_COUNT, what="a number from 1 to 999"),
            Param(name="ALIGNMENTS", accepts=_COUNT, what="a number from 1 to 999"),
        ),
        "blast_get": (
            _FORMAT_TYPE,
            _RID,
            _HITLIST,
            _choice("FORMAT_OBJECT", "SearchInfo", "Alignment"),
            Param(name="DESCRIPTIONS", accepts=_COUNT, what="a number from 1 to 999"),
            Param(name="ALIGNMENTS", accepts=_COUNT, what="a number from 1 to 999"),
        ),
    }
)  # fmt: skip
