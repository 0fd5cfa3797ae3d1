"""Classify the values of a call, so that a rule can state which of them may leave the machine.

Pure. Six classes, from the least sensitive to the most: an id, a symbol, a term of a controlled vocabulary, free text,
genomic coordinates, a sequence. A call has the classes of all its values; formats, dates and counts have none. In doubt
the more sensitive class applies: any value that matches no rule is free text. Names of organisms, which are terms, are
recognized here for the other modules as well. Knows nothing of modes and destinations.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args

from retrieval.ncbi.calls.table import DATABASES
from retrieval.types import NcbiCall

_PIECE: Final = re.compile(
    r'"(?P<quoted>[^"]*)"|\[(?P<tag>[^\[\]]*)\]|(?P<paren>[()])|(?P<odd>["\[\]])|(?P<word>[^\s"\[\]()]+)'
)
_TAG: Final = re.compile(r"\[([^\[\]]*)\]")
_OPERATORS: Final = frozenset({"AND", "OR", "NOT"})
# Entrez accepts "mesh:noexp" and "tiab:~3"; the suffix says how to search, not in which field.
_HOW: Final = re.compile(r":(?:noexp|~[0-9]{1,3})$")


@dataclass(frozen=True, slots=True)
class Clause:
    """Hold one clause.

    ``text``: words with single spaces, "" for a tag without words. ``tag``: lower case, "" if there is none.
    """

    text: str
    tag: str


@dataclass(frozen=True, slots=True)
class Term:
    """Hold the clauses of a term; ``uneven`` means that a bracket or quote is unbalanced."""

    clauses: tuple[Clause, ...]
    uneven: bool


def clauses_of(term: str) -> Term:
    clauses: list[Clause] = []
    words: list[str] = []
    uneven = False

    def close(tag: str = "") -> None:
        if words or tag:
            clauses.append(Clause(" ".join(" ".join(words).split()), tag))
        words.clear()

    for piece in _PIECE.finditer(term):
        if piece["tag"] is not None:
            close(_plain(piece["tag"]) or "?")
        elif piece["paren"] or piece["word"] in _OPERATORS:
            close()
        elif piece["odd"]:
            uneven = True
        else:
            words.append(piece["quoted"] if piece["quoted"] is not None else piece["word"])
    close()
    return Term(tuple(clauses), uneven)


def tags_in(text: str) -> frozenset[str]:
    """Return every tag written in the text, also inside quotes."""
    return frozenset(_plain(tag) for tag in _TAG.findall(text))


def _plain(tag: str) -> str:
    return _HOW.sub("", " ".join(tag.lower().replace("+", " ").split()))


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

    def contains(self, phrase: str) -> bool:
        """Return whether the whole phrase is one of its entries."""
        ...


class NoVocabulary:
    """Know no phrases, so that every phrase is free text."""

    def contains(self, phrase: str) -> bool:
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
        value = folded(value)
        match name:
            case "term" | "ENTREZ_QUERY":
                found |= _of_term(value, _Where(call.db, folded(call.params.get("field", "")), vocabulary))
            case "id":
                found |= {_of_id(word) for word in value.split(",")}
            case "QUERY":
                found.add("sequence")
            case "RID":
                found.add("sequence" if holds_sequence(value) else "id" if _RID.fullmatch(value) else "free_text")
            case "WebEnv":
                found.add("sequence" if holds_sequence(value) else "id" if _WEBENV.fullmatch(value) else "free_text")
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
    return {"sequence" if holds_sequence(" ".join(words)) else "free_text"}


def _of_id(word: str) -> ParamClass:
    if holds_sequence(word):
        return "sequence"
    if is_number(word) or is_identifier(word):
        return "id"
    if holds_place(word) or is_variant(word):
        return "coordinates"
    return "symbol" if is_symbol(word) else "free_text"


def _of_term(term: str, where: _Where) -> set[ParamClass]:
    parsed = clauses_of(term)
    found: set[ParamClass] = {"free_text"} if parsed.uneven else set()
    if holds_sequence(term):
        found.add("sequence")
    clauses = [clause for clause in parsed.clauses if not _is_date(clause)]
    # Checked jointly as well: a position can be spread over clauses and tags, and tags can be quoted.
    together = " ".join(f"{clause.text} {clause.tag}" for clause in clauses)
    if holds_place(together) or _is_split_place(clauses) or tags_in(term) & _PLACE_TAGS:
        found.add("coordinates")
    return found.union(*(_of_clause(clause, where) for clause in clauses))


def _is_date(clause: Clause) -> bool:
    return clause.tag in _DATE_TAGS and is_date(clause.text)


def _is_split_place(clauses: list[Clause]) -> bool:
    """Return whether one clause has a chromosome and another a bare number."""
    on_chromosome = any(
        clause.tag in _CHROMOSOME_TAGS or (clause.text.lower().startswith("chr") and is_chromosome(clause.text))
        for clause in clauses
    )
    return on_chromosome and any(
        is_number(clause.text.replace(",", "")) and clause.tag not in _CHROMOSOME_TAGS | _ID_TAGS for clause in clauses
    )


def _of_clause(clause: Clause, where: _Where) -> set[ParamClass]:
    tag = clause.tag or where.field
    if tag and tag not in _KNOWN_TAGS:
        return {"free_text"}
    if not clause.text:
        return set()
    if tag in _PLACE_TAGS:
        return {"coordinates"}
    return {_of_words(clause.text, tag, where)}


def _of_words(text: str, tag: str, where: _Where) -> ParamClass:
    if where.vocabulary.contains(text) and not holds_sequence(text):
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
        "symbol": tag in _SYMBOL_TAGS and is_symbol(text, tagged=True),
        "id": (tag in _ID_TAGS and (is_number(text) or is_identifier(text)))
        or (tag in _ORGANISM_TAGS and text.lower().startswith("txid") and is_identifier(text)),
        "term": (tag in _ORGANISM_TAGS and is_organism(text))
        or (tag in _CHROMOSOME_TAGS and is_chromosome(text))
        or (tag in _LIMIT_TAGS and text.lower() in _LIMITS),
    }
    for name in CLASSES:
        if fits.get(name):
            return name
    return None


def _of_word(word: str, where: _Where) -> ParamClass:
    """Classify one word without a specific field."""
    if is_variant(word):
        return "coordinates"
    if is_number(word):
        is_record = where.db in _NUMBERED and len(word) <= _MAX_BARE_DIGITS
        return "id" if is_record else "coordinates"
    if is_identifier(word):
        return "id"
    if is_organism(word):
        return "term"
    return "symbol" if is_symbol(word) else "free_text"


MIN_BASES: Final = 20
# A word of only bases with this length is no symbol; the call table accepts it as a BLAST query.
_MIN_BASES_OF_A_WORD: Final = 10
# Symbols without a digit are short; a longer word in capitals may be a peptide.
_MAX_SYMBOL_LETTERS: Final = 10
_MAX_SYMBOL_CHARS: Final = 16
_BASES: Final = re.compile(rf"[ACGTUN]{{{MIN_BASES},}}", re.IGNORECASE)
# With ambiguity codes for bases, and with one-letter codes for amino acids.
_AMBIGUOUS: Final = re.compile(rf"[ACGTUNRYSWKMBDHV]{{{MIN_BASES},}}|[A-Z*]{{{MIN_BASES},}}")
_LETTERS: Final = re.compile(r"[A-Za-z]+")
_ONLY_BASES: Final = re.compile(r"[ACGTUN]+", re.IGNORECASE)
_CHROMOSOME: Final = r"(?:[0-9]{1,2}|X|Y|MT?)"
_AMINO: Final = "(?:Ala|Arg|Asn|Asp|Cys|Gln|Glu|Gly|His|Ile|Leu|Lys|Met|Phe|Pro|Ser|Thr|Trp|Tyr|Val|Ter|Sec)"
_PLACES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # chr1:123-456, chr7 117559590, chromosome X position 1,000,000
        rf"chr(?:omosome|om)?[\s_.]*{_CHROMOSOME}\s*:\s*[0-9]",
        rf"chr(?:omosome|om)?[\s_.]*{_CHROMOSOME}[\s:_.,;-]+(?:position\s+|pos\s+|at\s+)?[0-9][0-9,]{{3,}}",
        # 16:89919709, NC_000001.11:12345
        rf"(?<![A-Za-z0-9]){_CHROMOSOME}\s*:\s*[0-9][0-9,]{{2,}}",
        r"(?<![A-Za-z])[A-Z]{1,4}_?[0-9]{5,}(?:\.[0-9]+)?\s*:",
        # 1-12345-A-G
        rf"(?<![A-Za-z0-9]){_CHROMOSOME}[-_][0-9]{{3,}}[-_][ACGTN*-]+",
        # NM_000492.3:c.350G>A, c.68-7T>A, p.Arg117His, R117H after p.
        r"(?<![A-Za-z0-9])[cgmnor]\.\(?[-*]?[0-9]",
        rf"(?<![A-Za-z])p\.\(?(?:{_AMINO}|[A-Z*])[0-9]",
        rf"(?<![A-Za-z]){_AMINO}[0-9]+(?:{_AMINO}|\*|=|fs|del|dup|ins)",
        r"(?<![A-Za-z0-9])[0-9]+(?:[+-][0-9]+)?[ACGT]+\s*>\s*[ACGT]+",
        # 117559590-117559600, 1,000,000..2,000,000
        r"(?<![0-9])[0-9][0-9,]{3,}\s*(?:-|–|\.\.|:|\bto\b)\s*[0-9][0-9,]{3,}",
        # 17q21.31, Xp22.3
        r"(?<![A-Za-z0-9])(?:[0-9]{1,2}|X|Y)[pq][0-9]{1,2}(?:\.[0-9]{1,3})?(?![0-9A-Za-z])",
    )
)
_VARIANT: Final = re.compile(r"[ACDEFGHIKLMNPQRSTVWY][0-9]{2,5}(?:[ACDEFGHIKLMNPQRSTVWY*X]|fs|del|dup)", re.IGNORECASE)
_IDENTIFIER: Final = re.compile(
    r"rs[0-9]{1,10}"
    r"|(?:A[CP]|N[CGMPRTWZ]|WP|X[MPR]|YP)_[0-9]{6,9}(?:\.[0-9]{1,3})?"  # RefSeq
    r"|(?:NZ_)?[A-Z]{4,6}[0-9]{8,11}(?:\.[0-9]{1,3})?"  # whole-genome shotgun
    r"|(?:[A-Z][0-9]{5}|[A-Z]{2}(?:[0-9]{6}|[0-9]{8})|[A-Z]{3}(?:[0-9]{5}|[0-9]{7}))\.[0-9]{1,3}"  # GenBank
    r"|[A-Z]{2}(?:[0-9]{6}|[0-9]{8})|[A-Z]{3}[0-9]{7}"
    r"|ENS[A-Z]{0,4}[EGPT][0-9]{11}(?:\.[0-9]{1,3})?"
    r"|PMC[0-9]{1,8}|NCT[0-9]{8}|[RSV]CV[0-9]{9}(?:\.[0-9]{1,3})?|CN?[0-9]{6,7}|txid[0-9]{1,8}"
    r"|(?:HGNC|MIM|OMIM|PMID|GeneID|Gene ID):\s?[0-9]{1,8}|(?:GO|HP|MONDO|DOID):[0-9]{4,7}",
    re.IGNORECASE,
)
_RID: Final = re.compile(r"[A-Z0-9]{8,20}")
_WEBENV: Final = re.compile(r"MCID_[0-9a-f]{10,40}")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_CAPITALS: Final = re.compile(r"[A-Z][A-Z0-9]*(?:[-.][A-Z0-9]+){0,3}")
_WITH_DIGIT: Final = re.compile(r"[A-Za-z]{1,8}[0-9][A-Za-z0-9]{0,9}(?:[-.][A-Za-z0-9]{1,6}){0,2}")
_READING_FRAME: Final = re.compile(r"C(?:[0-9]{1,2}|X|Y)orf[0-9]{1,4}", re.IGNORECASE)
_LOOSE: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-.@][A-Za-z0-9]+){0,3}")
_CHROMOSOME_NAME: Final = re.compile(rf"(?:chr)?(?:{_CHROMOSOME}|Un|unknown)", re.IGNORECASE)
_DATE: Final = r"[0-9]{4}(?:[/-][0-9]{1,2}){0,2}"
_DATES: Final = re.compile(rf"{_DATE}(?:\s*:\s*{_DATE})?")


def folded(text: str) -> str:
    """Return the normalized text for the checks, with plain characters for full-width and other compatible ones."""
    return unicodedata.normalize("NFKC", text)


def holds_sequence(text: str) -> bool:
    """Return whether 20 bases or residues occur in a row.

    Spaces, digits or hyphens may separate blocks of bases.
    """
    if _BASES.search(text) or _AMBIGUOUS.search(text):
        return True
    run = 0
    for letters in _LETTERS.findall(text):
        if not _ONLY_BASES.fullmatch(letters):
            run = 0
        elif len(letters) >= _MIN_BASES_OF_A_WORD:
            return True
        else:
            run += len(letters)
        if run >= MIN_BASES:
            return True
    return False


def holds_place(text: str) -> bool:
    """Return whether the text has a position or range in a genome, transcript or protein, a band, or a variant."""
    return any(pattern.search(text) for pattern in _PLACES)


def is_variant(word: str) -> bool:
    """Return whether the word is a variant by position (V600E, C677T); some symbols look the same (F11R)."""
    return _VARIANT.fullmatch(word) is not None


def is_identifier(word: str) -> bool:
    """Return whether the word is an accession or a number with the prefix of its database."""
    return _IDENTIFIER.fullmatch(word) is not None


def is_number(word: str) -> bool:
    """Return whether the word is a bare number of at most the length of NCBI's ids."""
    return _NUMBER.fullmatch(word) is not None


def is_symbol(word: str, *, tagged: bool = False) -> bool:
    """Return whether the word is written like a symbol: in capitals, or with a digit.

    ``tagged``: it is in a field for symbols, so its spelling carries no information.
    """
    word = word.removesuffix("*")
    if not 2 <= len(word) <= _MAX_SYMBOL_CHARS or holds_sequence(word):
        return False
    if tagged:
        return _LOOSE.fullmatch(word) is not None
    if not any(letter.isdigit() for letter in word) and len(word) > _MAX_SYMBOL_LETTERS:
        return False
    return any(pattern.fullmatch(word) for pattern in (_CAPITALS, _WITH_DIGIT, _READING_FRAME))


def is_chromosome(word: str) -> bool:
    return _CHROMOSOME_NAME.fullmatch(word) is not None


def is_date(text: str) -> bool:
    """Return whether the text is a year, month or day, or a range of them."""
    return _DATES.fullmatch(text.strip()) is not None


# Organisms of common questions, as in NCBI Taxonomy; any other keeps its scientific name.
_COMMON: Final = {
    "homo sapiens": "human",
    "mus musculus": "mouse",
    "rattus norvegicus": "rat",
    "danio rerio": "zebrafish",
    "caenorhabditis elegans": "worm",
    "saccharomyces cerevisiae": "yeast",
    "gallus gallus": "chicken",
    "drosophila melanogaster": "fruit fly",
    "bos taurus": "cattle",
    "sus scrofa": "pig",
    "canis lupus": "dog",
    "pan troglodytes": "chimpanzee",
    "macaca mulatta": "rhesus monkey",
    "xenopus laevis": "African clawed frog",
    "xenopus tropicalis": "tropical clawed frog",
    "arabidopsis thaliana": "thale cress",
    "schizosaccharomyces pombe": "fission yeast",
    "oryctolagus cuniculus": "rabbit",
    "ovis aries": "sheep",
    "equus caballus": "horse",
    "felis catus": "cat",
}
# NCBI's common names that differ from the one word people use.
_SHORT: Final = {"house mouse": "mouse", "norway rat": "rat", "brown rat": "rat", "baker's yeast": "yeast"}

_LEADING_COMMON: Final = frozenset({"Human", "Mouse", "Rat", "Zebrafish", "Chicken", "Yeast"})
_NOT_A_SPECIES: Final = frozenset({"synthetic", "clone", "sequence", "vector", "construct", "chromosome"})


def common_name(scientific: str, common: str = "") -> str:
    """Return the everyday name ("mouse"), else NCBI's common name, else the scientific name unchanged."""
    words = scientific.lower().split()
    known = _COMMON.get(" ".join(words[:2]))
    return known or _SHORT.get(common.lower(), common) or scientific


def is_organism(name: str) -> bool:
    """Return whether the whole text is one of the known names, scientific or common."""
    plain = " ".join(name.lower().split())
    return plain in _COMMON or plain in _SHORT or any(plain == common.lower() for common in _COMMON.values())


def species_of_title(title: str) -> str:
    """Return the common name of the species at the start of a nucleotide definition line, "" if there is none."""
    text = title
    for lead in ("PREDICTED:", "TPA:", "TPA_inf:", "TPA_asm:", "UNVERIFIED:", "UNVERIFIED_ORG:", "MAG:"):
        text = text.removeprefix(lead).strip()
    words = text.split()
    if words and words[0] in _LEADING_COMMON:
        return words[0].lower()
    if len(words) < 2 or not words[0][:1].isupper() or not words[1][:1].islower():
        return ""
    return "" if words[1] in _NOT_A_SPECIES else common_name(" ".join(words[:2]))


def organism_in(question: str) -> str:
    """Return the common name of the organism in a question ("… in mouse?", "of Danio rerio"), "" if there is none.

    A word in capitals is a symbol, as that of the gene CAT.
    """
    words = [word.lower() for word in re.findall(r"[A-Za-z]+", question) if not word.isupper() or question.isupper()]
    text = f" {' '.join(words)} "
    return next((name for names in _COMMON.items() for name in names[1:] if any(f" {n} " in text for n in names)), "")
