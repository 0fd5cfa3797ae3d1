"""Write PubMed's baseline and update files, after the DTD of January 2025."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.samples.packing import write_text
from scripts.samples.world import World, author, disease, pick, prose

PER_FILE: Final = 30_000
PROLOG: Final = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2025//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd">\n<PubmedArticleSet>\n'
)
END: Final = "</PubmedArticleSet>\n"
_MEDLINE_DATES: Final = ("1998 Dec-1999 Jan", "2000 Spring", "1978 Jul 15-31", "1985-1986", "Winter 2003")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LABELS: Final = ("BACKGROUND", "METHODS", "RESULTS", "CONCLUSIONS")
_TYPES: Final = (("D016428", "Journal Article"), ("D016454", "Review"), ("D016449", "Randomized Controlled Trial"),
                 ("D002363", "Case Reports"), ("D016422", "Letter"))  # fmt: skip
_RELATIONS: Final = {1: "RetractionIn", 2: "ErratumIn", 3: "ExpressionOfConcernIn", 4: "UpdateIn", 5: "CommentIn",
                     6: "RetractionOf"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArticleFacts:
    """What a record says, before it is written as XML; texts are XML texts with their markup."""

    pmid: int
    title: str
    abstract: tuple[tuple[str, str], ...]
    authors: tuple[tuple[str, str], ...]
    collective: str
    date: tuple[str, ...]
    journal: int
    headings: tuple[tuple[str, bool, str], ...]
    notices: tuple[tuple[str, int], ...]
    types: tuple[tuple[str, str], ...]
    vernacular: str


def articles(world: World, start: int = 0, count: int | None = None) -> Iterator[ArticleFacts]:
    end = world.articles if count is None else min(world.articles, start + count)
    rng = world.rng(f"pubmed {start}")
    for index in range(start, end):
        yield _article(world, rng, index)


def write_baseline(directory: Path, world: World) -> list[Path]:
    """pubmed26n0001.xml.gz and so on, 30000 records in each, as NCBI cuts it."""
    paths = []
    for number, start in enumerate(range(0, world.articles, PER_FILE), 1):
        paths.append(directory / f"pubmed26n{number:04}.xml.gz")
        write_articles(paths[-1], articles(world, start, PER_FILE))
    return paths


def write_update(path: Path, world: World) -> tuple[int, ...]:
    """An update file: the first records again, a book chapter, and the withdrawal of the PMIDs that are returned."""
    withdrawn = tuple(world.pmid(at) for at in range(world.articles - 3, world.articles)) if world.articles > 10 else ()
    write_text(path, _update(world, withdrawn))
    return withdrawn


def write_articles(path: Path, facts: Iterator[ArticleFacts]) -> int:
    """Returns the number of records."""
    return write_text(path, _wrapped(map(record, facts))) - 2


def record(facts: ArticleFacts) -> str:
    """The PubmedArticle element, indented as in NCBI's files."""
    return "".join(("<PubmedArticle>\n", _citation(facts), _history(facts), "</PubmedArticle>\n"))


def _wrapped(records: Iterator[str]) -> Iterator[str]:
    yield PROLOG
    yield from records
    yield END


def _update(world: World, withdrawn: tuple[int, ...]) -> Iterator[str]:
    yield PROLOG
    yield from map(record, articles(world, 0, 5))
    yield _BOOK.format(pmid=99_000_001, title=disease(1))
    if withdrawn:
        pmids = "".join(f'<PMID Version="1">{pmid}</PMID>\n' for pmid in withdrawn)
        yield f"<DeleteCitation>\n{pmids}</DeleteCitation>\n"
    yield END


def _article(world: World, rng: random.Random, index: int) -> ArticleFacts:
    draw = rng.random()
    paragraphs = [prose(rng, 20) for _ in range(4 if draw < 0.4 else 1)] if draw < 0.85 else []
    year = str(1960 + index % 66)
    month, day = _MONTHS[index % 12], str(index % 28 + 1)
    dates = ((year, month, day), (year, month), (year,), (_MEDLINE_DATES[index % 5],))
    relation = _RELATIONS.get(index % 50)
    notices = ((relation, world.pmid(index + 1)),) if relation else ()
    retracted = (("D016441", "Retracted Publication"),) if relation == "RetractionIn" else ()
    return ArticleFacts(
        pmid=world.pmid(index),
        title=f"{prose(rng, 6)[:-1]} of {world.symbol(index)} in {disease(index).lower()}." if draw > 0.02 else "",
        abstract=tuple(zip(_LABELS if draw < 0.4 else ("",), paragraphs, strict=False)),
        authors=tuple(author(rng) for _ in range(1 + int(rng.random() * 6))) if draw < 0.97 else (),
        collective=f"{disease(index).split(',')[0]} Study Group" if draw > 0.9 else "",
        date=dates[0 if draw < 0.5 else 1 if draw < 0.8 else 2 if draw < 0.9 else 3],
        journal=index % 90,
        headings=tuple(_heading(index * 3 + at) for at in range(int(rng.random() * 6))),
        notices=notices,
        types=(_TYPES[0], pick_type(rng), *retracted) if draw < 0.5 else (_TYPES[0], *retracted),
        vernacular=f"Über {disease(index)}" if draw <= 0.02 else "",
    )


def pick_type(rng: random.Random) -> tuple[str, str]:
    return _TYPES[1 + int(rng.random() * (len(_TYPES) - 1))]


def _heading(number: int) -> tuple[str, bool, str]:
    """(descriptor, whether major, qualifier)."""
    return (
        disease(number % 5000).split(",")[0],
        number % 4 == 0,
        pick(random.Random(number), ("", "genetics", "therapy")),
    )


def _citation(facts: ArticleFacts) -> str:
    notices = "".join(
        f'<CommentsCorrections RefType="{kind}">\n<RefSource>J Invent Med. 2020 Jan;1(1):1</RefSource>\n'
        f'<PMID Version="1">{pmid}</PMID>\n</CommentsCorrections>\n'
        for kind, pmid in facts.notices
    )
    if notices:
        notices = f"<CommentsCorrectionsList>\n{notices}</CommentsCorrectionsList>\n"
    return (
        f'<MedlineCitation Status="MEDLINE" Owner="NLM" IndexingMethod="Automated">\n'
        f'<PMID Version="1">{facts.pmid}</PMID>\n'
        "<DateRevised>\n<Year>2026</Year>\n<Month>01</Month>\n<Day>02</Day>\n</DateRevised>\n"
        f"{_journal_article(facts)}<MedlineJournalInfo>\n<Country>Iceland</Country>\n"
        f"<MedlineTA>J Invent Med {facts.journal}</MedlineTA>\n<NlmUniqueID>9{facts.journal:06}</NlmUniqueID>\n"
        f"<ISSNLinking>9000-{facts.journal:04}</ISSNLinking>\n</MedlineJournalInfo>\n<CitationSubset>IM</CitationSubset>\n"
        f"{notices}{_headings(facts)}"
        '<KeywordList Owner="NOTNLM">\n<Keyword MajorTopicYN="N">in vitro</Keyword>\n'
        '<Keyword MajorTopicYN="Y">β-blockade</Keyword>\n</KeywordList>\n</MedlineCitation>\n'
    )


def _journal_article(facts: ArticleFacts) -> str:
    vernacular = f"<VernacularTitle>{facts.vernacular}</VernacularTitle>\n" if facts.vernacular else ""
    types = "".join(f'<PublicationType UI="{ui}">{name}</PublicationType>\n' for ui, name in facts.types)
    return (
        f'<Article PubModel="Print-Electronic">\n<Journal>\n'
        f'<ISSN IssnType="Electronic">9000-{facts.journal:04}</ISSN>\n'
        f'<JournalIssue CitedMedium="Internet">\n<Volume>{facts.pmid % 90}</Volume>\n<Issue>3</Issue>\n'
        f"<PubDate>\n{_date(facts.date)}</PubDate>\n</JournalIssue>\n"
        f"<Title>Journal of invented medicine &amp; fiction {facts.journal}</Title>\n"
        f"<ISOAbbreviation>J Invent Med {facts.journal}</ISOAbbreviation>\n</Journal>\n"
        f"<ArticleTitle>{facts.title or '[Not Available].'}</ArticleTitle>\n"
        f"<Pagination>\n<StartPage>{facts.pmid % 700}</StartPage>\n"
        f"<MedlinePgn>{facts.pmid % 700}-9</MedlinePgn>\n</Pagination>\n"
        f'<ELocationID EIdType="doi" ValidYN="Y">{doi(facts.pmid)}</ELocationID>\n'
        f"{_abstract(facts)}{_authors(facts)}<Language>{'ger' if facts.vernacular else 'eng'}</Language>\n"
        f"<PublicationTypeList>\n{types}</PublicationTypeList>\n{vernacular}</Article>\n"
    )


def doi(pmid: int) -> str:
    return f"10.99999/inv.{pmid}"


def _date(parts: tuple[str, ...]) -> str:
    if not parts[0].isdigit():
        return f"<MedlineDate>{parts[0]}</MedlineDate>\n"
    tags = ("Year", "Month", "Day")
    return "".join(f"<{tag}>{part}</{tag}>\n" for tag, part in zip(tags, parts, strict=False))


def _abstract(facts: ArticleFacts) -> str:
    if not facts.abstract:
        return ""
    paragraphs = "".join(
        f'<AbstractText Label="{label}" NlmCategory="{label}">{text}</AbstractText>\n'
        if label
        else f"<AbstractText>{text}</AbstractText>\n"
        for label, text in facts.abstract
    )
    return f"<Abstract>\n{paragraphs}<CopyrightInformation>© The inventors.</CopyrightInformation>\n</Abstract>\n"


def _authors(facts: ArticleFacts) -> str:
    people = "".join(
        f'<Author ValidYN="Y">\n<LastName>{last}</LastName>\n<ForeName>{fore}</ForeName>\n'
        f"<Initials>{initials(fore)}</Initials>\n</Author>\n"
        for last, fore in facts.authors
    )
    if facts.collective:
        people += f'<Author ValidYN="Y">\n<CollectiveName>{facts.collective}</CollectiveName>\n</Author>\n'
    return f'<AuthorList CompleteYN="Y" Type="authors">\n{people}</AuthorList>\n' if people else ""


def initials(fore: str) -> str:
    return "".join(part[0] for part in fore.replace("-", " ").split())


def _headings(facts: ArticleFacts) -> str:
    headings = "".join(
        f'<MeshHeading>\n<DescriptorName UI="D9{at:05}" MajorTopicYN="{"NY"[major]}">{name}</DescriptorName>\n'
        + (f'<QualifierName UI="Q900235" MajorTopicYN="N">{qualifier}</QualifierName>\n' if qualifier else "")
        + "</MeshHeading>\n"
        for at, (name, major, qualifier) in enumerate(facts.headings)
    )
    return f"<MeshHeadingList>\n{headings}</MeshHeadingList>\n" if headings else ""


def _history(facts: ArticleFacts) -> str:
    pmc = f'<ArticleId IdType="pmc">PMC{facts.pmid}</ArticleId>\n' if facts.pmid % 3 == 0 else ""
    return (
        '<PubmedData>\n<History>\n<PubMedPubDate PubStatus="pubmed">\n'
        "<Year>2026</Year>\n<Month>1</Month>\n<Day>2</Day>\n</PubMedPubDate>\n</History>\n<PublicationStatus>ppublish</PublicationStatus>\n<ArticleIdList>\n"
        f'<ArticleId IdType="pubmed">{facts.pmid}</ArticleId>\n<ArticleId IdType="doi">{doi(facts.pmid)}</ArticleId>\n'
        f"{pmc}</ArticleIdList>\n<ReferenceList>\n<Reference>\n<Citation>Someone else. 1999.</Citation>\n"
        '<ArticleIdList>\n<ArticleId IdType="pubmed">1</ArticleId>\n<ArticleId IdType="doi">10.1/not-mine</ArticleId>\n'
        "</ArticleIdList>\n</Reference>\n</ReferenceList>\n</PubmedData>\n"
    )


_BOOK: Final = """<PubmedBookArticle>
<BookDocument>
<PMID Version="1">{pmid}</PMID>
<ArticleIdList><ArticleId IdType="bookaccession">NBK999999</ArticleId></ArticleIdList>
<Book>
<Publisher><PublisherName>Inventors' Press</PublisherName><PublisherLocation>Reykjavík</PublisherLocation></Publisher>
<BookTitle book="inv">Invented Reviews</BookTitle>
<PubDate><Year>1993</Year></PubDate>
<AuthorList Type="editors"><Author><LastName>Müller</LastName><Initials>A</Initials></Author></AuthorList>
</Book>
<ArticleTitle book="inv" part="one">{title}</ArticleTitle>
<Language>eng</Language>
<AuthorList Type="authors"><Author><LastName>Ito</LastName><Initials>K</Initials></Author></AuthorList>
<PublicationType UI="D016454">Review</PublicationType>
<Abstract><AbstractText Label="CLINICAL CHARACTERISTICS">An invented disorder.</AbstractText></Abstract>
<ContributionDate><Year>2001</Year><Month>Feb</Month><Day>3</Day></ContributionDate>
</BookDocument>
<PubmedBookData>
<PublicationStatus>ppublish</PublicationStatus>
<ArticleIdList><ArticleId IdType="pubmed">{pmid}</ArticleId></ArticleIdList>
</PubmedBookData>
</PubmedBookArticle>
"""
