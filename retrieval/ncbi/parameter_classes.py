"""Classify the values of a call, so that a rule can state which of them may leave the machine.

Pure. Six classes, from the least sensitive to the most: an id, a symbol, a term of a controlled vocabulary, free text,
genomic coordinates, a sequence. A call has the classes of all its values; formats, dates and counts have none. In doubt
the more sensitive class applies: any value that matches no rule is free text. Knows nothing of modes and destinations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Protocol, get_args

from retrieval.ncbi import parameter_shapes as shapes
from retrieval.ncbi.call_table import DATABASES
from retrieval.ncbi.entrez_clauses import Clause, clauses_of, tags_in
from retrieval.ncbi.organisms import is_organism
from retrieval.types import NcbiCall

ParamClass = Literal["id", "symbol", "term", "free_text", "coordinates", "sequence"]
CLASSES: Final[tuple[ParamClass, ...]] = get_args(ParamClass)

_SYMBOL_TAGS: Final = frozenset({"sym", "symbol", "gene", "gene name", "gene symbol", "preferred symbol", "pref"})
_ID_TAGS: Final = frozenset(
    {
        "uid", "id", "pmid", "pmc", "pmcid", "rs", "ss", "acc", "accn", "accession", "pacc", "primary accession", "mim",
        "mim number", "mim id", "gene id", "geneid", "txid", "taxonomy id", "conceptid", "cui", "nucl_accn",
        "prot_accn", "nucleotide accession", "protein accession", "alleleid", "variationid",
    }
)  # fmt: skip
_ORGANISM_TAGS: Final = frozenset({"orgn", "organism", "porgn", "primary organism"})
_DATE_TAGS: Final = frozenset(
    {
        "pdat", "dp", "ppdt", "epdt", "edat", "crdt", "mdat", "mhda", "dcom", "lr", "date - publication",
        "publication date", "entrez date", "create date", "modification date", "update date", "cdat", "udat",
    }
)  # fmt: skip
_CHROMOSOME_TAGS: Final = frozenset({"chr", "chrom", "chromosome"})
_PLACE_TAGS: Final = frozenset(
    {
        "chrpos", "chrpos37", "chrpos38", "cpos", "c37", "bp", "pos", "position", "base position",
        "base position for assembly grch37", "chromosome base position", "base position previous", "ctpos",
        "contig position", "map", "ml", "map location", "default map location", "cyto",
    }
)  # fmt: skip
_TEXT_TAGS: Final = frozenset(
    {
        "all", "all fields", "title", "ti", "tiab", "title/abstract", "word", "tw", "text word", "text words", "ab",
        "abstract", "mesh", "mh", "mesh terms", "majr", "mesh major topic", "sh", "mesh subheading", "dis", "disease",
        "disease/phenotype", "trait", "go", "gene ontology", "prot", "protein name", "dom", "domain name", "nm",
        "supplementary concept", "clin", "clinical significance", "clinsig", "mol", "molecular consequence", "fxn",
        "function class", "gene type", "full name", "gene full name", "gfn",
    }
)  # fmt: skip
# Entrez's own filters: their values select kinds of records.
_LIMIT_TAGS: Final = frozenset(
    {"filter", "fltr", "filt", "sb", "subset", "prop", "properties", "pt", "ptyp", "publication type", "la", "lang",
     "language", "text availability", "snp class", "snp_class", "vari", "srcdb"}
)  # fmt: skip
_LIMITS: Final = frozenset(
    {
        "alive", "alive only", "current only", "discontinued", "replaced", "human", "humans", "animals", "english",
        "review", "systematic review", "systematic", "meta-analysis", "clinical trial", "randomized controlled trial",
        "case reports", "journal article", "guideline", "practice guideline", "free full text", "full text",
        "hasabstract", "medline", "genetype protein coding", "protein coding", "pseudo", "ncrna", "snv", "snp", "indel",
        "refseq", "refseq select", "reviewed refseq", "srcdb refseq", "biomol mrna", "biomol genomic", "by frequency",
        "by cluster", "validated", "clinical", "pathogenic", "benign", "likely pathogenic", "likely benign",
    }
)  # fmt: skip
_KNOWN_TAGS: Final = frozenset().union(
    _SYMBOL_TAGS, _ID_TAGS, _ORGANISM_TAGS, _DATE_TAGS, _CHROMOSOME_TAGS, _PLACE_TAGS, _TEXT_TAGS, _LIMIT_TAGS
)
# Databases in which a bare number in a search is a record id. Elsewhere it may be a position.
_NUMBERED: Final = frozenset({"gene", "omim", "pubmed", "clinvar", "medgen", "taxonomy"})
_MAX_BARE_DIGITS: Final = 8
# The words that link names consist of; any other word could be free text.
_LINK_WORDS: Final = frozenset(
    {
        *DATABASES, "rif", "refs", "refseq", "rna", "refseqrna", "refseqgene", "pos", "citedin", "cited", "reviews",
        "five", "combined", "alsoviewed", "neighbors", "calculated", "assoc", "specific", "diagnosis", "gtr", "pmc",
        "books", "dbvar", "cdd", "structure", "genome", "assembly", "homologene", "bioproject", "biosample", "sra",
        "gds", "geoprofiles", "mesh", "genereviews", "genegenomic", "swissprot", "uniprot", "genbank", "nucest", "mgc",
        "pccompound", "pcsubstance", "biosystems", "unigene", "variation", "user", "gap",
    }
)  # fmt: skip


class Vocabulary(Protocol):
    """Look up phrases in a local controlled vocabulary: MeSH headings, names of diseases."""

    def knows(self, phrase: str) -> bool:
        """Return whether the whole phrase is one of its entries."""
        ...


class NoVocabulary:
    """Know no phrases, so that every phrase is free text."""

    def knows(self, phrase: str) -> bool:
        return False


def classes_of(call: NcbiCall, vocabulary: Vocabulary | None = None) -> tuple[ParamClass, ...]:
    """Return the classes of a checked call's values, the least sensitive first; () if it carries none (einfo).

    Never understates the sensitivity: 20 bases in a row are a sequence and a position is coordinates in any parameter,
    and two or more words that ``vocabulary`` does not know as a phrase are free text.
    """
    return _ordered(_found(call, vocabulary or NoVocabulary()))


def _ordered(found: Iterable[ParamClass]) -> tuple[ParamClass, ...]:
    present = set(found)
    return tuple(name for name in CLASSES if name in present)


def _found(call: NcbiCall, vocabulary: Vocabulary) -> set[ParamClass]:
    found: set[ParamClass] = set()
    for name, value in call.params.items():
        value = shapes.folded(value)
        match name:
            case "term" | "ENTREZ_QUERY":
                found |= _of_term(value, _Where(call.db, shapes.folded(call.params.get("field", "")), vocabulary))
            case "id":
                found |= {_of_id(word) for word in value.split(",")}
            case "QUERY":
                found.add("sequence")
            case "RID":
                found.add("sequence" if shapes.holds_sequence(value) else "id")
            case "seq_start" | "seq_stop":
                found.add("coordinates")
            case "linkname":
                found |= _of_name(value.split("_"), _LINK_WORDS)
            case "field":
                found |= _of_name([" ".join(value.lower().split())], _KNOWN_TAGS)
            case _:
                pass  # the call table permits only counts, dates and choices in the others
    return found


class _Where:
    """Hold the context of a term: the database, the field of words without a tag, the vocabulary."""

    def __init__(self, db: str, field: str, vocabulary: Vocabulary) -> None:
        self.db = db
        self.field = " ".join(field.lower().split())
        self.vocabulary = vocabulary


def _of_name(words: list[str], known: frozenset[str]) -> set[ParamClass]:
    """Classify the parts of a parameter that should be one of NCBI's own names."""
    if all(word in known for word in words):
        return set()
    return {"sequence" if shapes.holds_sequence(" ".join(words)) else "free_text"}


def _of_id(word: str) -> ParamClass:
    if shapes.holds_sequence(word):
        return "sequence"
    if shapes.is_number(word) or shapes.is_identifier(word):
        return "id"
    if shapes.holds_place(word) or shapes.is_variant(word):
        return "coordinates"
    return "symbol" if shapes.is_symbol(word) else "free_text"


def _of_term(term: str, where: _Where) -> set[ParamClass]:
    parsed = clauses_of(term)
    found: set[ParamClass] = {"free_text"} if parsed.uneven else set()
    if shapes.holds_sequence(term):
        found.add("sequence")
    telling = [clause for clause in parsed.clauses if not _is_date(clause)]
    # Checked jointly as well: a position can be spread over clauses and tags, and tags can be quoted.
    together = " ".join(f"{clause.text} {clause.tag}" for clause in telling)
    if shapes.holds_place(together) or _is_split_place(telling) or tags_in(term) & _PLACE_TAGS:
        found.add("coordinates")
    return found.union(*(_of_clause(clause, where) for clause in telling))


def _is_date(clause: Clause) -> bool:
    return clause.tag in _DATE_TAGS and shapes.is_date(clause.text)


def _is_split_place(clauses: list[Clause]) -> bool:
    """Return whether one clause has a chromosome and another a bare number."""
    on_chromosome = any(
        clause.tag in _CHROMOSOME_TAGS or (clause.text.lower().startswith("chr") and shapes.is_chromosome(clause.text))
        for clause in clauses
    )
    return on_chromosome and any(
        shapes.is_number(clause.text.replace(",", "")) and clause.tag not in _CHROMOSOME_TAGS | _ID_TAGS
        for clause in clauses
    )


def _of_clause(clause: Clause, where: _Where) -> set[ParamClass]:
    tag = clause.tag or where.field
    if tag and tag not in _KNOWN_TAGS:
        return {"free_text"}
    if not any(letter.isalnum() for letter in clause.text):
        return set()
    if tag in _PLACE_TAGS:
        return {"coordinates"}
    return {_of_words(clause.text, tag, where)}


def _of_words(text: str, tag: str, where: _Where) -> ParamClass:
    if where.vocabulary.knows(text) and not shapes.holds_sequence(text):
        return "term"
    known = _by_tag(text, tag)
    if known is not None:
        return known
    if " " in text or (tag and tag not in _TEXT_TAGS):
        return "free_text"
    return _of_word(text, where)


def _by_tag(text: str, tag: str) -> ParamClass | None:
    """Return the class of a value that fits its field, None if it does not fit."""
    fits = {
        "symbol": tag in _SYMBOL_TAGS and shapes.is_symbol(text, tagged=True),
        "id": (tag in _ID_TAGS and (shapes.is_number(text) or shapes.is_identifier(text)))
        or (tag in _ORGANISM_TAGS and text.lower().startswith("txid") and shapes.is_identifier(text)),
        "term": (tag in _ORGANISM_TAGS and is_organism(text))
        or (tag in _CHROMOSOME_TAGS and shapes.is_chromosome(text))
        or (tag in _LIMIT_TAGS and text.lower() in _LIMITS),
    }
    for name in CLASSES:
        if fits.get(name):
            return name
    return None


def _of_word(word: str, where: _Where) -> ParamClass:
    """Classify one word without a specific field."""
    if shapes.is_variant(word):
        return "coordinates"
    if shapes.is_number(word):
        is_record = where.db in _NUMBERED and len(word) <= _MAX_BARE_DIGITS
        return "id" if is_record else "coordinates"
    if shapes.is_identifier(word):
        return "id"
    if is_organism(word):
        return "term"
    return "symbol" if shapes.is_symbol(word) else "free_text"
