"""Define the query language of Entrez: parse query text to a tree, write it as a translation, list the search fields.

Operators are AND, OR, NOT in capitals, applied from left to right; parentheses group; adjacent words are AND-ed; a run
of words before a [tag] is one term; quotes make a phrase. As in Entrez, missing brackets are accepted. The search
fields of each database have their tags, and the columns of the store's index behind them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from retrieval.formats.records import Database
from retrieval.gateway.store.reader import STOPWORDS, words_of

Operator = Literal["AND", "OR", "NOT"]
MAX_TERM_CHARS: Final = 10_000
MAX_TERMS: Final = 300
MAX_DEPTH: Final = 40
_LEXEME: Final = re.compile(
    r'\s*(?:(?P<open>\()|(?P<close>\))|"(?P<quoted>[^"]*)"?|\[(?P<tag>[^\]]*)\]?|(?P<word>[^\s()\[\]"]+))'
)
_OPERATORS: Final[dict[str, Operator]] = {"AND": "AND", "OR": "OR", "NOT": "NOT"}
_RANGE: Final = re.compile(r'"?([\w/.-]+)"?\s*(?:\[([^\]]*)\])?\s*:\s*"?([\w/.-]+)"?\s*\[([^\]]*)\]')
# How a term of the field is looked up: as text of the index, or in a column of the record.
Lookup = Literal[
    "text", "uid", "organism", "number", "day", "electronic", "print", "author", "language", "filter",
    "heading", "citation",
]  # fmt: skip


class QueryTooComplexError(ValueError):
    """Signal more text, terms or nesting than a query may have; the message says which."""


@dataclass(frozen=True, slots=True)
class Term:
    """Hold one search term; ``tag`` as written, without brackets ("" for none)."""

    text: str
    tag: str = ""
    quoted: bool = False

    @property
    def written(self) -> str:
        text = f'"{self.text}"' if self.quoted else self.text
        return f"{text}[{self.tag}]" if self.tag else text


@dataclass(frozen=True, slots=True)
class Run:
    """Hold adjacent words, all of which must match."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """Combine two subtrees with an operator."""

    operator: Operator
    left: Node
    right: Node


Node = Term | Run | Combination


@dataclass(frozen=True, slots=True)
class Query:
    """Hold a parsed query.

    ``tree`` is None if nothing is left to search for; ``ignored`` are the stop words left out, in order.
    """

    tree: Node | None
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Lexeme:
    kind: str
    text: str


def parse_query(text: str) -> Query:
    """Parse a query; any text within the limits is accepted.

    Raises:
        QueryTooComplexError: the text exceeds a limit.
    """
    if len(text) > MAX_TERM_CHARS:
        raise QueryTooComplexError(f"the term has {len(text)} characters, {MAX_TERM_CHARS} are allowed")
    # A range is one term, however it is written: 2010:2015[dp], "2010"[Date] : "2015"[Date].
    text = _RANGE.sub(r"\1:\3[\4]", text)
    lexemes = list(_lexemes(text))
    if sum(lexeme.kind in ("word", "quoted") for lexeme in lexemes) > MAX_TERMS:
        raise QueryTooComplexError(f"the term has more than {MAX_TERMS} words")
    parser = _Parser(lexemes)
    return Query(parser.parse(), tuple(parser.ignored))


def _lexemes(text: str) -> Iterator[_Lexeme]:
    for match in _LEXEME.finditer(text):
        kind = match.lastgroup
        text = (match[kind] or "").strip() if kind is not None else ""
        if kind is not None and (text or kind != "tag"):  # an empty tag has no meaning
            yield _Lexeme(kind, text)


class _Parser:
    def __init__(self, lexemes: list[_Lexeme]) -> None:
        self._lexemes = lexemes
        self._at = 0
        self.ignored: list[str] = []

    def parse(self) -> Node | None:
        tree = self._expression(0)
        while self._at < len(self._lexemes):  # a stray ")" ended the expression: continue after it
            self._at += 1
            tree = _joined("AND", tree, self._expression(0))
        return tree

    def _expression(self, depth: int) -> Node | None:
        if depth > MAX_DEPTH:
            raise QueryTooComplexError(f"parentheses are nested more than {MAX_DEPTH} deep")
        tree: Node | None = None
        operator: Operator = "AND"
        while (lexeme := self._peek()) is not None and lexeme.kind != "close":
            if lexeme.kind == "word" and lexeme.text in _OPERATORS:
                operator = _OPERATORS[lexeme.text]
                self._at += 1
                continue
            tree = _joined(operator, tree, self._operand(depth))
            operator = "AND"
        return tree

    def _operand(self, depth: int) -> Node | None:
        lexeme = self._lexemes[self._at]
        if lexeme.kind != "open":
            return self._run()
        self._at += 1
        inner = self._expression(depth + 1)
        self._at += 1  # the closing bracket, or the end
        return inner

    def _run(self) -> Node | None:
        """Parse words up to an operator or bracket; each [tag] closes one term."""
        terms: list[Term] = []
        pending: list[Term] = []
        while (lexeme := self._peek()) is not None and lexeme.kind in ("word", "quoted", "tag"):
            if lexeme.kind == "word" and lexeme.text in _OPERATORS:
                break
            self._at += 1
            if lexeme.kind == "tag":
                terms += _tagged(pending, lexeme.text)
                pending = []
            else:
                pending.append(Term(lexeme.text, quoted=lexeme.kind == "quoted"))
        terms += (term for term in pending if _searchable(term))
        self.ignored += (term.text for term in pending if not _searchable(term))
        if not terms:
            return None
        return terms[0] if len(terms) == 1 else Run(tuple(terms))

    def _peek(self) -> _Lexeme | None:
        return self._lexemes[self._at] if self._at < len(self._lexemes) else None


def _searchable(term: Term) -> bool:
    words = words_of(term.text)
    return bool(words) and (term.quoted or not set(words) <= STOPWORDS)


def _tagged(pending: list[Term], tag: str) -> list[Term]:
    text = " ".join(term.text for term in pending if term.text)
    quoted = any(term.quoted for term in pending)
    return [Term(text, tag, quoted)] if words_of(text) else []


def _joined(operator: Operator, left: Node | None, right: Node | None) -> Node | None:
    if left is None or right is None:
        return left or right
    return Combination(operator, left, right)


def with_field(node: Node, tag: str) -> Node:
    """Return the tree with a tag on each term that has none."""
    if isinstance(node, Term):
        return node if node.tag else replace(node, tag=tag)
    if isinstance(node, Run):
        return Run(tuple(term if term.tag else replace(term, tag=tag) for term in node.terms))
    return replace(node, left=with_field(node.left, tag), right=with_field(node.right, tag))


def written(node: Node) -> str:
    """Return a query that parses as the tree, each term of which has a tag."""
    if isinstance(node, Term):
        return node.written
    if isinstance(node, Run):
        return " ".join(term.written for term in node.terms)
    return f"({written(node.left)}) {node.operator} ({written(node.right)})"


def terms_of(node: Node) -> Iterator[Term]:
    """Yield all terms, left to right."""
    if isinstance(node, Term):
        yield node
    elif isinstance(node, Run):
        yield from node.terms
    else:
        yield from terms_of(node.left)
        yield from terms_of(node.right)


def translation(node: Node, render: Callable[[Term], str]) -> str:
    """Return Entrez's query translation; ``render`` writes one term with its field."""
    if isinstance(node, Term):
        return render(node)
    if isinstance(node, Run):
        return " AND ".join(map(render, node.terms))
    left, right = _wrapped(node.left, node.operator, render), _wrapped(node.right, "", render)
    return f"{left} {node.operator} {right}"


def _wrapped(node: Node, operator: str, render: Callable[[Term], str]) -> str:
    text = translation(node, render)
    plain = isinstance(node, Term) or (isinstance(node, Combination) and node.operator == operator)
    return text if plain else f"({text})"


def postfix(node: Node, top: bool = True) -> Iterator[Term | str]:
    """Yield Entrez's translation stack: terms and operators in postfix order."""
    if isinstance(node, Term):
        yield node
        if top:
            yield "GROUP"
    elif isinstance(node, Run):
        for index, term in enumerate(node.terms):
            yield term
            if index:
                yield "AND"
        yield "GROUP"
    else:
        yield from postfix(node.left, top=False)
        yield from postfix(node.right, top=False)
        yield node.operator


@dataclass(frozen=True, slots=True)
class SearchField:
    """Describe one search field; ``tags`` in lower case; ``columns`` of the index, all of them if empty."""

    code: str
    full_name: str
    tags: tuple[str, ...]
    columns: tuple[str, ...] = ()
    lookup: Lookup = "text"


ALL: Final = SearchField("ALL", "All Fields", ("all", "all fields", "*", "text word", "tw", "text", "word"))
_UID: Final = SearchField("UID", "UID", ("uid",), lookup="uid")
ORGANISM: Final = SearchField(
    "ORGN", "Organism", ("orgn", "organism", "taxonomy id", "porgn", "taxid"), ("orgn",), "organism"
)
_CHROMOSOME: Final = SearchField("CHR", "Chromosome", ("chr", "chromosome"), ("chr",))
_ACCESSION: Final = SearchField("ACCN", "Accession", ("accn", "accession", "nucleotide accession"), ("accn",))
_AUTHOR: Final = SearchField(
    "AUTH", "Author", ("au", "auth", "author", "full author name", "fau"), ("author",), "author"
)
_JOURNAL: Final = SearchField("JOUR", "Journal", ("ta", "jour", "journal"), ("journal",))
_TITLE: Final = SearchField("TITL", "Title", ("ti", "titl", "title"), ("title",))
_DAY: Final = SearchField(
    "PDAT",
    "Date - Publication",
    ("dp", "pdat", "date - publication", "publication date", "year", "pubdate", "edat", "crdt"),
    lookup="day",
)
_ELECTRONIC: Final = SearchField(
    "EPDT", "Electronic Publication Date", ("epdat", "epdt", "dep", "electronic publication date"), lookup="electronic"
)
_PRINT: Final = SearchField(
    "PPDT", "Print Publication Date", ("ppdat", "ppdt", "print publication date"), lookup="print"
)
# In every database, "all" is a filter that all records pass.
_FILTER: Final = SearchField("FILT", "Filter", ("filter", "filt", "fltr", "sb", "subset"), lookup="filter")
SUBHEADING: Final = SearchField(
    "SUBH", "MeSH Subheading", ("sh", "subh", "mesh subheading", "subheading", "sh:noexp"), ("subheading",), "citation"
)
AFFILIATION: Final = SearchField("AFFL", "Affiliation", ("ad", "affl", "affiliation"), ("affiliation",), "citation")
_DOI: Final = SearchField("AID", "Article Identifier", ("aid", "doi", "article identifier", "lid"), ("doi",))

FIELDS: Final[Mapping[Database, tuple[SearchField, ...]]] = {
    "gene": (
        ALL,
        SearchField("UID", "UID", ("uid", "gene id", "geneid"), lookup="uid"),
        SearchField(
            "GENE", "Gene Name", ("gene", "gene name", "sym", "symbol", "pref", "prefered symbol"), ("sym", "alias")
        ),
        SearchField(
            "TITL", "Gene/Protein Name", ("titl", "title", "gfn", "gene full name", "name"), ("name", "designation")
        ),
        ORGANISM,
        _CHROMOSOME,
        SearchField("MAP", "Default Map Location", ("map", "map location"), ("map",)),
        SearchField("MIM", "MIM ID", ("mim", "mim id"), ("mim",)),
        SearchField("PROP", "Properties", ("prop", "properties", "filter", "fltr", "sb"), ("type", "alive"), "filter"),
        _ACCESSION,
    ),
    "snp": (
        ALL,
        _UID,
        SearchField("RS", "Reference SNP ID", ("rs", "reference snp id", "snpid"), lookup="uid"),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym", "gene_name"), ("gene",)),
        SearchField("GENE_ID", "Gene ID", ("gene_id", "gene id", "geneid"), ("gene_id",)),
        _CHROMOSOME,
        SearchField("CPOS", "Base Position", ("cpos", "chrpos", "base position", "position"), lookup="number"),
        SearchField("FXN", "Function Class", ("fxn", "function class", "func"), ("fxn",)),
        SearchField("CLIN", "Clinical Significance", ("clin", "clinical significance"), ("clin",)),
        ORGANISM,
        _ACCESSION,
    ),
    "omim": (
        ALL,
        SearchField("UID", "MIM ID", ("uid", "mim", "mim id"), lookup="uid"),
        SearchField("TITL", "Title", ("titl", "title", "ti"), ("title", "alt")),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym"), ("title",)),
        SearchField("MAP", "Gene Map", ("map", "gmap", "gene map", "locus"), ("map",)),
    ),
    "nuccore": (ALL, SearchField("UID", "UID", ("uid",), ("accn",)), _ACCESSION, _TITLE, ORGANISM),
    "pubmed": (
        ALL,
        SearchField("UID", "UID", ("uid", "pmid"), lookup="uid"),
        _TITLE,
        SearchField("TIAB", "Title/Abstract", ("tiab", "title/abstract"), ("title", "abstract", "keyword")),
        SearchField("ABST", "Abstract", ("ab", "abst", "abstract"), ("abstract",)),
        SearchField("MESH", "MeSH Terms", ("mh", "mesh", "mesh terms", "mh:noexp", "mesh:noexp"), ("mesh",), "heading"),
        SearchField("MAJR", "MeSH Major Topic", ("majr", "mesh major topic"), ("majr",), "heading"),
        SUBHEADING,
        AFFILIATION,
        _AUTHOR,
        _JOURNAL,
        _DAY,
        _ELECTRONIC,
        _PRINT,
        SearchField("PTYP", "Publication Type", ("pt", "ptyp", "publication type"), ("type",)),
        SearchField("LANG", "Language", ("la", "lang", "language"), ("lang",), "language"),
        SearchField("OTRM", "Other Term", ("ot", "other term", "keyword"), ("keyword",)),
        _DOI,
        SearchField("PMC", "PMC ID", ("pmc", "pmcid", "pmc id"), ("pmc",)),
        SearchField("FILT", "Filter", ("filter", "sb", "subset", "text availability"), ("filter",), "filter"),
    ),
    "pmc": (
        ALL,
        SearchField("UID", "UID", ("uid", "pmcid"), lookup="uid"),
        _TITLE,
        SearchField("ABST", "Abstract", ("ab", "abst", "abstract"), ("abstract",)),
        SearchField("BODY", "Body - All Words", ("body", "body - all words"), ("body",)),
        _AUTHOR,
        _JOURNAL,
        _DAY,
        _DOI,
        SearchField("PMID", "PMID", ("pmid",), ("pmid",)),
    ),
    "clinvar": (
        ALL,
        SearchField("UID", "UID", ("uid", "varid", "variation id"), lookup="uid"),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym"), ("gene",)),
        SearchField("GENE_ID", "Gene ID", ("gene_id", "gene id", "geneid"), ("gene_id",)),
        SearchField("VARNAME", "Variant name", ("varname", "variant name", "title", "titl", "ti"), ("name",)),
        SearchField(
            "CLSI",
            "Clinical significance",
            ("clsi", "clinsig", "clinical significance", "properties", "prop"),
            ("clin",),
        ),
        SearchField("DIS", "Disease/Phenotype", ("dis", "disease", "disease/phenotype", "trait"), ("dis",)),
        SearchField("TYPE", "Type of variation", ("type", "vartype", "type of variation"), ("type",)),
        SearchField("RVST", "Review status", ("rvst", "revstat", "review status"), ("review",)),
        SearchField("RS", "dbSNP ID", ("rs", "rsid", "dbsnp id"), ("rs",)),
        _CHROMOSOME,
        SearchField("CPOS", "Base Position", ("cpos", "chrpos", "chrpos38", "base position"), lookup="number"),
        _ACCESSION,
        ORGANISM,
    ),
    "taxonomy": (
        ALL,
        SearchField("UID", "UID", ("uid", "taxid", "txid"), lookup="uid"),
        SearchField("SCIN", "Scientific Name", ("scin", "scientific name", "orgn", "organism"), ("scientific",)),
        SearchField("ALLN", "All Names", ("alln", "all names", "comn", "common name", "name"), ("scientific", "name")),
        SearchField("RANK", "Rank", ("rank",), ("level",)),
    ),
    "medgen": (
        ALL,
        _UID,
        SearchField("TITL", "Title", ("titl", "title", "ti"), ("title", "synonym")),
        SearchField("CUI", "Concept ID", ("cui", "conceptid", "concept id"), ("cui",)),
        SearchField("SRC", "Source ID", ("src", "sourceid", "source id", "mim", "omim"), ("source",)),
        SearchField("DEF", "Definition", ("def", "definition"), ("definition",)),
    ),
}


def field_of(db: Database, tag: str) -> SearchField | None:
    """Return the field of a tag: All Fields for an empty tag, None if the database has no such field."""
    if not tag:
        return ALL
    normalized_tag = " ".join(tag.lower().split())
    fields = (*FIELDS[db], _FILTER)
    return next((f for f in fields if normalized_tag in f.tags or normalized_tag == f.code.lower()), None)
