"""Implement efetch: complete records, in the forms of their database."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.formats.records import Article, Database, FullText, Record, SequenceSegment, Taxon
from retrieval.formats.tables import is_number
from retrieval.gateway.citations.citation import abstract_text, summary_text
from retrieval.gateway.citations.exports import medline_text
from retrieval.gateway.citations.pubmed_citation import citation_of, element_of
from retrieval.gateway.documents.literature import article_markup
from retrieval.gateway.documents.taxonomy import Lineages, taxon_markup
from retrieval.gateway.eutils.esummary import OF_GENE, Summaries, esummary, gene_text
from retrieval.gateway.http_reply import (
    PLAIN,
    XML,
    Reply,
    efetch_error,
    page_of,
    prolog,
    text_of,
    uid_list,
    whole_number,
)
from retrieval.gateway.store.reader import GatewayStore, SegmentLookup

WHOLE: Final = frozenset(("", "null", "xml", "full", "native"))
_NAMES: Final[Mapping[Database, tuple[str, ...]]] = {"pubmed": ("abstract", "medline", "docsum")}
_PUBMED_SET: Final = (
    "PubmedArticleSet",
    "-//NLM//DTD PubMedArticle, 1st January 2025//EN|https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_250101.dtd",
)
_PMC_SET: Final = (
    "pmc-articleset",
    "-//NLM//DTD ARTICLE SET 2.0//EN|https://dtd.nlm.nih.gov/ncbi/pmc/articleset/nlm-articleset-2.0.dtd",
)
_TAXA_SET: Final = (
    "TaxaSet",
    "-//NLM//DTD Taxon, 14th January 2002//EN|https://www.ncbi.nlm.nih.gov/entrez/query/DTD/taxon.dtd",
)
_SETS: Final[Mapping[Database, tuple[str, str]]] = {"pubmed": _PUBMED_SET, "pmc": _PMC_SET, "taxonomy": _TAXA_SET}


@dataclass(frozen=True, slots=True)
class Form:
    """Render records of one database in one form; ``name``: "xml", or that of a text form."""

    db: Database
    name: str

    @property
    def content_type(self) -> str:
        return XML if self.name == "xml" else PLAIN

    @property
    def head(self) -> str:
        if self.name != "xml":
            return ""
        root, doctype = _SETS[self.db]
        return f"{prolog(root, doctype)}<{root}>\n"

    @property
    def tail(self) -> str:
        return f"</{_SETS[self.db][0]}>\n" if self.name == "xml" else ""

    def pieces(self, store: GatewayStore, records: Iterable[Record]) -> Iterator[str]:
        """Yield one text for each record.

        Raises:
            GatewayDataError: a stored article cannot be read.
        """
        lineages = Lineages(store)
        for number, record in enumerate(records, 1):
            match record:
                case Article():
                    yield self._article(record, number)
                case FullText():
                    yield f"{article_markup(record)}\n"
                case Taxon():
                    yield taxon_markup(record, lineages.ancestors(record))
                case _:
                    raise TypeError(f"efetch has no form of its own for {type(record).__name__}")

    def _article(self, article: Article, number: int) -> str:
        if self.name == "xml":
            return f"{article.xml}\n"
        element = element_of(article)
        citation = citation_of(element)
        if self.name == "medline":
            return medline_text(citation, element)
        if self.name == "docsum":
            return summary_text(citation, number)
        return f"{abstract_text(citation, number)}\n\n"


def form_of(db: Database, rettype: str, retmode: str) -> Form | None:
    """Return the form of a ``rettype``, None if the database has none.

    ``retmode`` xml means the complete record, whatever the ``rettype``.
    """
    texts = _NAMES.get(db, ())
    if db not in _SETS or (rettype not in WHOLE and rettype not in texts):
        return None
    if rettype in WHOLE:
        return Form(db, "abstract" if db == "pubmed" and retmode == "text" else "xml")
    return Form(db, "xml" if retmode == "xml" else rettype)


_LINE: Final = 70  # letters of a FASTA line at NCBI
_MAX_IDS: Final = 10_000
_MAX_CHARS: Final = 64 * 2**20
_NO_IDS: Final = "ID list is empty! Possibly it has no correct IDs."
_OLDER: Final[frozenset[Database]] = frozenset({"gene", "snp", "omim", "nuccore"})
# Databases whose docsum has a text form, for any retmode but xml.
_SUMMARY_TEXTS: Final[frozenset[Database]] = _OLDER | {"pubmed"}
_SUMMARIES_ONLY: Final[frozenset[Database]] = frozenset({"clinvar", "medgen"})
_PREFIXES: Final[Mapping[Database, str]] = {"pmc": "pmc", "snp": "rs", "taxonomy": "txid"}
# The DTD of esearch declares a list of IDs, too; efetch has none of its own.
_ID_LIST: Final = "-//NLM//DTD esearch 20060628//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20060628/esearch.dtd"


def efetch(store: GatewayStore, db: Database, params: Mapping[str, str]) -> Reply:
    """Return the records of a call.

    ``rettype`` and ``retmode`` are those of table 1 of https://www.ncbi.nlm.nih.gov/books/NBK25499/.
    """
    uids = uid_list(params)
    if not uids:
        return Reply(200, PLAIN, "Supplied+id+parameter+is+empty.\n")
    if len(uids) > _MAX_IDS:
        return efetch_error(f"Too many UIDs in request. Maximum number of UIDs is {_MAX_IDS}.")
    uids = page_of(uids, params)
    rettype, retmode = (params.get(name, "").strip().lower() for name in ("rettype", "retmode"))
    try:
        if rettype == "uilist":
            return _uid_list(store, db, uids, retmode)
        if rettype == "docsum" and (retmode in ("", "xml") or db not in _SUMMARY_TEXTS):
            return esummary(store, db, {"id": ",".join(uids)})
        return (
            _fixed_form_reply(store, db, uids, params)
            if db in _OLDER
            else _rettype_reply(store, db, uids, (rettype, retmode))
        )
    except _TooLargeError:
        return efetch_error(f"The reply would be larger than {_MAX_CHARS} characters. Ask for fewer UIDs.")


class _TooLargeError(Exception):
    pass


def _joined(pieces: Iterable[str]) -> str:
    parts, size = list[str](), 0
    for piece in pieces:
        size += len(piece)
        if size > _MAX_CHARS:
            raise _TooLargeError
        parts.append(piece)
    return "".join(parts)


def _numbers(db: Database, uids: list[str]) -> list[str]:
    """Return the IDs that can be UIDs, as NCBI reads them: leading zeros and a database's prefix are ignored."""
    bare = (uid.lower().removeprefix(_PREFIXES.get(db, "")) for uid in uids)
    return list(dict.fromkeys(str(int(uid)) for uid in bare if is_number(uid, 12)))


def _rettype_reply(store: GatewayStore, db: Database, uids: list[str], report_type: tuple[str, str]) -> Reply:
    numbers = [number for number in _numbers(db, uids) if number != "0"]
    if not numbers:
        return efetch_error(_NO_IDS)
    if db in _SUMMARIES_ONLY and report_type[0] in WHOLE:
        return esummary(store, db, {"id": ",".join(numbers)})
    form = form_of(db, *report_type)
    if form is None:
        return efetch_error(f"Report '{report_type[0][:40]}' not found in '{db}' presentation")
    found = (record for number in numbers if (record := store.record(db, number)) is not None)
    return Reply(200, form.content_type, f"{form.head}{_joined(form.pieces(store, found))}{form.tail}")


def _uid_list(store: GatewayStore, db: Database, uids: list[str], retmode: str) -> Reply:
    """Return those of the UIDs that are in the store."""
    if db == "nuccore":
        segment_lookup = SegmentLookup(store)
        known = [segment.uid for uid in uids for segment in segment_lookup.named(uid)]
    else:
        numbers = _numbers(db, uids)
        features = store.rank_features(db, map(int, numbers))
        known = [number for number in numbers if int(number) in features]
    if retmode == "xml":
        ids = "".join(f"\t<Id>{text_of(uid)}</Id>\n" for uid in known)
        return Reply(200, XML, f"{prolog('IdList', _ID_LIST)}<IdList>\n{ids}</IdList>\n")
    return Reply(200, PLAIN, "".join(f"{uid}\n" for uid in known))


def _fixed_form_reply(store: GatewayStore, db: Database, uids: list[str], params: Mapping[str, str]) -> Reply:
    """Return the reply of a database that has one form for every rettype."""
    if db == "gene":
        return Reply(200, PLAIN, _joined(_genes(store, uids)) + "\n")
    if db == "snp":
        return _snps(store, uids)
    if db == "omim":
        return Reply(200, PLAIN, _joined(_entries(store, uids)) + "\n")
    return _fasta(store, uids, params)


def _genes(store: GatewayStore, uids: list[str]) -> Iterator[str]:
    for number, uid in enumerate(uids, 1):
        gene = store.gene(str(int(uid))) if is_number(uid) else None
        yield gene_text(gene, number) if gene else f"\n{number}. Error occurred: cannot get document summary {uid}\n"


def _snps(store: GatewayStore, uids: list[str]) -> Reply:
    forms = Summaries(store)
    known = (snp for uid in _numbers("snp", uids) if (snp := store.snp(uid)) is not None)
    body = _joined(forms.markup(snp) + "\n" for snp in known)
    if not body:
        return Reply(400, PLAIN, "cannot get document summary\n")
    return Reply(200, XML, body)


def _entries(store: GatewayStore, uids: list[str]) -> Iterator[str]:
    for number, uid in enumerate(uids, 1):
        entry = store.omim(uid)
        if entry is None:
            yield f"\n{number}. Error occurred: cannot get document summary {uid}\n"
            continue
        titles = entry.alternative_titles or (OF_GENE if entry.is_of_gene else "")
        alternative = f"\n{titles}" if titles else ""
        locus = f"\nLocus: {entry.locus}" if entry.locus else ""
        yield f"\n{number}. {entry.prefix}{entry.mim_number} {entry.title}{alternative}{locus}\nID: {uid}\n"


def _fasta(store: GatewayStore, uids: list[str], params: Mapping[str, str]) -> Reply:
    first = whole_number(params, "seq_start", 0, 10**11)
    last = whole_number(params, "seq_stop", 10**11, 10**11)
    segment_lookup = SegmentLookup(store)
    segments = (segment for uid in uids for segment in segment_lookup.named(uid))
    parts = (part for segment in segments if (part := _clipped(segment, first, last)) is not None)
    body = _joined(map(_fasta_entry, parts))
    return Reply(200, PLAIN, body) if body else Reply(400, PLAIN, "Error: Failed to retrieve sequence\n")


def _clipped(segment: SequenceSegment, first: int, last: int) -> SequenceSegment | None:
    """Return the part of a segment between two 1-based positions of its record; None if they do not overlap."""
    low, high = max(segment.start, first), min(segment.stop, last)
    if low > high:
        return None
    letters = segment.sequence[low - segment.start : high - segment.start + 1]
    return dataclasses.replace(segment, start=low, stop=high, sequence=letters)


def _fasta_entry(part: SequenceSegment) -> str:
    lines = (part.sequence[at : at + _LINE] for at in range(0, len(part.sequence), _LINE))
    return f">{part.uid} {part.title}\n" + "\n".join(lines) + "\n\n"
