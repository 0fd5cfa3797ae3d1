"""Map a record's text to the columns of the index, and compute what orders equal hits.

Pure functions, no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import singledispatch
from html import unescape
from typing import Final

from retrieval.formats.records import (
    Article,
    Concept,
    FullText,
    Gene,
    OmimEntry,
    Organism,
    Record,
    SequenceSegment,
    Snp,
    Taxon,
    Variation,
    database_of,
)
from retrieval.gateway.store.reader import (
    COLUMNS,
    EDGE,
    PART,
    RankFeatures,
    day,
    index_words,
    whole,
    words_of,
    year_word,
)

Fields = Iterator[tuple[str, str]]
_HEADING: Final = re.compile(r"<MeshHeading>(.*?)</MeshHeading>", re.DOTALL)
_DESCRIPTOR: Final = re.compile(r"<DescriptorName\b[^>]*>(.*?)</DescriptorName>", re.DOTALL)
_QUALIFIER: Final = re.compile(r"<QualifierName\b[^>]*>(.*?)</QualifierName>", re.DOTALL)
_AFFILIATION: Final = re.compile(r"<Affiliation>(.*?)</Affiliation>", re.DOTALL)
_ELEMENT: Final = re.compile(r"<[^>]*>")
_HUMAN: Final = 9606
_ELECTRONIC: Final = re.compile(
    r"<ArticleDate\b[^>]*>\s*<Year>(\d{4})</Year>\s*<Month>(\d{1,2})</Month>\s*<Day>(\d{1,2})</Day>", re.ASCII
)


def organism_names(organism: Organism) -> tuple[str, ...]:
    """Return every name of the organism, its taxonomy ID in Entrez form last."""
    scientific = organism.scientific_name
    species = " ".join(scientific.split()[:2])
    names = (scientific, species, organism.common_name, *organism.other_names, f"txid{organism.tax_id}")
    return tuple(dict.fromkeys(name for name in names if name))


def columns_of(record: Record) -> tuple[str, ...]:
    """Return the index row: one text for each of the database's columns, values between edges, then words' parts."""
    texts: dict[str, list[str]] = {}
    for field, text in fields_of(record):
        if text:
            texts.setdefault(field, []).append(text)
    return tuple(_column(texts[name]) if name in texts else "" for name in COLUMNS[database_of(record)])


def citation_columns_of(article: Article) -> tuple[str, str, str]:
    """Return the words of its headings with their subheadings, of its subheadings, and of its authors' affiliations."""
    qualified: dict[str, None] = {}
    subheadings: dict[str, None] = {}
    for heading in _HEADING.findall(article.xml):
        name = next(map(_plain, _DESCRIPTOR.findall(heading)), "")
        for qualifier in map(_plain, _QUALIFIER.findall(heading)):
            qualified.setdefault(f"{name} {qualifier}")
            subheadings.setdefault(qualifier)
    places = dict.fromkeys(map(_plain, _AFFILIATION.findall(article.xml)))
    return _column([*qualified]), _column([*subheadings]), _column([*places])


def _plain(markup: str) -> str:
    return unescape(_ELEMENT.sub("", markup))


def _column(values: list[str] | tuple[str, ...]) -> str:
    whole = [words for text in values if (words := words_of(text))]
    if not whole:
        return ""
    known = {word for words in whole for word in words}
    hyphenated = " ".join(word for word in known if "-" in word)
    parts = sorted(index_words(hyphenated) - known) if hyphenated else []
    text = f" {EDGE} ".join(" ".join(words) for words in whole)
    tail = f" {PART} " + f" {PART} ".join(parts) if parts else ""
    return f"{EDGE} {text} {EDGE}{tail}"


@singledispatch
def fields_of(record: Record) -> Fields:
    """Yield (column of the index, text) of everything that can be searched."""
    raise TypeError(f"no record of a database: {type(record).__name__}")


def _year(date: str) -> str:
    return year_word(int(date[:4])) if date[:4].isdigit() else ""


@singledispatch
def rank_features_of(record: Record) -> RankFeatures:
    return RankFeatures()


def uid_of(record: Record) -> int:
    """Return Entrez's UID of the record; 0 for a sequence segment, whose number the store assigns."""
    match record:
        case Gene():
            return record.gene_id
        case Snp():
            return record.snp_id
        case OmimEntry():
            return record.mim_number
        case Article():
            return record.pmid
        case FullText():
            return record.pmcid
        case Variation():
            return record.variation_id
        case Taxon():
            return record.tax_id
        case Concept():
            return record.uid
        case SequenceSegment():
            return 0


@fields_of.register
def _(record: Gene) -> Fields:
    yield "sym", record.symbol
    yield "sym", record.official_symbol
    yield from (("alias", alias) for alias in record.aliases)
    yield from (("keyword", word) for word in record.keywords)
    yield "name", record.name
    yield from (("designation", text) for text in record.designations)
    yield from (("mim", number) for number in record.mim)
    yield "ens", record.ensembl
    yield "chr", record.chromosome
    yield "map", record.map_location
    yield "accn", record.accession
    yield "type", f"genetype {record.gene_type.replace('-', ' ')}" if record.gene_type else ""
    yield "alive", "alive" if record.status == 0 else ""
    yield "text", record.summary
    yield "orgn", f"txid{record.organism.tax_id}"


@rank_features_of.register
def _(record: Gene) -> RankFeatures:
    return RankFeatures(record.weight, record.status == 0, record.organism.tax_id == _HUMAN)


@fields_of.register
def _(record: Snp) -> Fields:
    for symbol, gene_id in record.genes:
        yield "gene", symbol
        yield "gene_id", gene_id
    yield "chr", record.chromosome
    yield "accn", record.accession
    yield "fxn", record.function_class.replace("_", " ")
    yield "fxn", record.function_class
    yield "clin", record.clinical


@rank_features_of.register
def _(record: Snp) -> RankFeatures:
    return RankFeatures(number=whole(record.position))


@fields_of.register
def _(record: OmimEntry) -> Fields:
    yield "title", record.title
    yield "alt", record.alternative_titles
    yield "map", record.locus


@rank_features_of.register
def _(record: OmimEntry) -> RankFeatures:
    return RankFeatures(live=record.prefix != "^", number=len(words_of(record.title)))


@fields_of.register
def _(record: SequenceSegment) -> Fields:
    yield "accn", record.accession
    yield "accn", record.accession.split(".")[0]
    yield "title", record.title
    yield "orgn", f"txid{record.tax_id}"


@rank_features_of.register
def _(record: SequenceSegment) -> RankFeatures:
    return RankFeatures(human=record.tax_id == _HUMAN)


@fields_of.register
def _(record: Article) -> Fields:
    yield "title", record.title
    yield "abstract", record.abstract
    yield from (("author", name) for name in record.authors)
    yield from (("journal", name) for name in record.journal)
    yield from (("mesh", heading) for heading in record.mesh)
    yield from (("majr", heading) for heading in record.mesh_major)
    yield from (("keyword", word) for word in record.keywords)
    yield from (("type", name) for name in record.types)
    yield from (("lang", name) for name in record.languages)
    yield "doi", record.doi
    yield "pmc", record.pmc
    yield "filter", "hasabstract" if record.abstract else ""
    yield "filter", _year(record.date)
    yield "filter", _year(electronic_day(record))


def electronic_day(record: Article) -> str:
    """Return the day of electronic publication as "20160915", which may be another year's than that of the issue."""
    found = _ELECTRONIC.search(record.xml)
    return f"{found[1]}{found[2].zfill(2)}{found[3].zfill(2)}" if found else ""


@rank_features_of.register
def _(record: Article) -> RankFeatures:
    return RankFeatures(number=day(record.date))


@fields_of.register
def _(record: FullText) -> Fields:
    yield "title", record.title
    yield "abstract", record.abstract
    yield "body", record.body
    yield from (("author", name) for name in record.authors)
    yield from (("journal", name) for name in record.journal)
    yield "doi", record.doi
    yield "pmid", record.pmid
    yield "filter", _year(record.date)


@rank_features_of.register
def _(record: FullText) -> RankFeatures:
    return RankFeatures(number=day(record.date))


@fields_of.register
def _(record: Variation) -> Fields:
    yield "name", record.name
    for symbol, gene_id in record.genes:
        yield "gene", symbol
        yield "gene_id", gene_id
    yield "clin", record.significance
    yield from (("dis", name) for name in record.phenotypes)
    yield "type", record.kind
    yield "chr", record.chromosome
    yield "map", record.cytogenetic
    yield from (("accn", accession) for accession in record.accessions)
    yield "rs", record.rs
    yield "review", record.review_status


@rank_features_of.register
def _(record: Variation) -> RankFeatures:
    return RankFeatures(number=whole(record.position))


@fields_of.register
def _(record: Taxon) -> Fields:
    yield "scientific", record.scientific_name
    yield from (("name", name) for name, _ in record.names)
    yield "level", record.rank
    yield "parent", str(record.parent_id)
    yield "orgn", f"txid{record.tax_id}"


@fields_of.register
def _(record: Concept) -> Fields:
    yield "title", record.name
    yield from (("synonym", name) for name in record.synonyms)
    yield "definition", record.definition
    yield "cui", record.cui
    yield from (("source", f"{source} {number}") for source, number in record.source_ids)
    yield from (("source", number) for _, number in record.source_ids)
    yield "semtype", record.semantic_type
