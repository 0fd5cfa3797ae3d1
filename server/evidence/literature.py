"""Search and fetch PubMed records for one answer: at the gateway, at PubMed, or first here and then there.

``server.egress.router`` decides where calls may go; search terms are free text to it. Articles are compared with
questions by the default encoder, whose vectors are cached.
"""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from xml.etree import ElementTree

from models.decoding.types import CallReply, CallStatus
from retrieval.corpus.ingest.sample import NOTES
from retrieval.errors import NCBI_MALFORMED, NCBI_TIMEOUT, GatewayDataError, ImportFileError, NcbiError, RetrievalError
from retrieval.formats import pubmed_xml
from retrieval.formats import records as formats
from retrieval.formats.items import Bad
from retrieval.formats.sources import Source
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declared
from retrieval.gateway.citations.exports import article_item
from retrieval.graph.linking.dictionary_lookup.names import is_english
from retrieval.ncbi.calls.urls import NcbiSite, public_url
from retrieval.ncbi.replies.parse import parse_reply
from retrieval.ncbi.replies.records import IdList
from retrieval.ncbi.session import call_record, destination_of, status_of
from retrieval.references.csl import item_of_link
from retrieval.types import Condensed, Endpoint, NcbiCall, RawReply, Route
from server.egress.policy import EgressContext
from server.egress.router import Egress
from server.evidence.article_vectors import ArticleFinder, Limits
from server.evidence.comparison import TextComparison
from server.evidence.encoders import EncoderPool
from server.evidence.ncbi import admitted, through_tape
from server.evidence.passages import PassageService
from server.methods.base import AnswerRequest, CallReplied, OptionInvalid
from server.methods.clinfo.literature import Article, Fetched, Hear, Hits, Section
from server.methods.clinfo.options import MAX_ARTICLES, ClinfoOptions, SourceName
from server.methods.clinfo.queries import limits_of
from server.methods.clinfo.screening import is_within_limits, text_of
from server.methods.shared.call_lines import summary
from server.methods.shared.generation import finished
from server.methods.shared.passages import SentenceScores
from server.tape import is_replaying, taped
from server.types import EgressMode

log = logging.getLogger(__name__)
_T = TypeVar("_T")
_NCBI: Final = NcbiSite()
# A longer reply is read on a thread.
_SHORT: Final = 20_000
_BATCH: Final = 200
# Of these, a strict egress policy recognizes no more in one call.
_STRICT_BATCH: Final = 10
_AT_ONCE: Final = 3
_PAGES: Final = (20, 50, 100, 200, 500, MAX_ARTICLES)
_REF_TYPE: Final = re.compile(r'RefType="(\w+)"')
_LABELLED: Final = re.compile(r"([A-Z][A-Z0-9 /,&()-]{2,60}): (.+)")
_NAMES: Final[dict[EgressMode, str]] = {"off": "gateway", "local-first": "gateway, then PubMed", "ncbi": "PubMed"}
_GATEWAYS: Final = frozenset({_NAMES["off"], _NAMES["local-first"]})


class LiteratureService:
    """Open the sources of answers and compare articles with questions; one instance per process."""

    def __init__(
        self, egress: Egress, passages: PassageService, encoders: EncoderPool, finder: ArticleFinder | None = None
    ) -> None:
        """Share what answers need; ``finder`` None: no vectors of articles are kept on this machine."""
        self._egress = egress
        self._finder = finder
        self._passages = passages
        self._comparison = TextComparison(encoders)

    def check(self, ask: AnswerRequest, options: ClinfoOptions) -> None:
        mode = admitted(self._egress, ask, options.egress).mode
        if "pubmed" in options.sources and mode == "off":
            raise OptionInvalid(
                "arrowhead.sources: pubmed is another machine and egress is off for this request; ask for gateway or "
                "namespaces, or have the operator set egress.mode to local-first or ncbi",
                param="arrowhead.sources",
            )
        if options.sources == ("namespaces",) and not self.namespaces(ask, options):
            raise OptionInvalid(
                "arrowhead.sources: this server has no namespace that this request may read", param="arrowhead.sources"
            )

    def open(self, ask: AnswerRequest, options: ClinfoOptions, hear: Hear) -> tuple[EntrezSource, ...]:
        requested = admitted(self._egress, ask, options.egress)
        usual: tuple[SourceName, ...] = ("gateway",) if requested.mode == "off" else ("pubmed",)
        names = [name for name in options.sources or usual if name != "namespaces"]
        modes: dict[SourceName, EgressMode] = {"gateway": "off", "pubmed": requested.mode}
        contexts = (EgressContext(ask.request_id, ask.key_id, modes[name]) for name in names)
        return tuple(
            EntrezSource(self._egress, context, hear, None if context.mode == "ncbi" else self._finder)
            for context in contexts
        )

    def namespaces(self, ask: AnswerRequest, options: ClinfoOptions) -> tuple[str, ...]:
        if options.sources and "namespaces" not in options.sources:
            return ()
        names = self._passages.names(ask.namespaces)
        readable = tuple(name for name in names if name != NOTES)
        return options.namespaces or readable

    async def compare_articles(self, question: str, articles: Sequence[Article]) -> SentenceScores:
        if not articles:
            return SentenceScores()
        # Of PubMed's own record, the gateway may have another text.
        here = [one.pmid for one in articles if one.pmid and one.source in _GATEWAYS]
        # A replay compares the recorded texts, of which the stored vectors may be no longer.
        rows = await self._finder.rows(here) if self._finder and here and not is_replaying() else {}
        known = [rows.get(one.pmid) if one.source in _GATEWAYS else None for one in articles]
        return await self._comparison.compare(question, [text_of(one) for one in articles], known)


@dataclass(frozen=True, slots=True)
class EntrezSource:
    """Search and fetch PubMed's records under one egress mode; implements ``ArticleSource``.

    ``finder`` knows the vectors of the articles on this machine, None where the source does not search these.
    """

    egress: Egress
    context: EgressContext
    hear: Hear
    finder: ArticleFinder | None = None

    @property
    def name(self) -> str:
        return _NAMES[self.context.mode]

    async def search(self, term: str, most: int) -> Hits:
        size = next((page for page in _PAGES if page >= most), _PAGES[-1])
        reply, found = await self._ids("esearch", {"term": term, "retmax": str(size), "sort": "relevance"})
        return Hits(found.count, found.ids[:most], note_of(reply), found.not_found)

    async def nearest(self, question: str, options: ClinfoOptions, most: int) -> Hits | None:
        if self.finder is None:
            return None
        # A date may lack its month or day, so that of the first year each article is read.
        first, last = options.first_day // 10_000 * 10_000, options.last_day
        limits = Limits(first, last, lambda record: is_within_limits(article_of(record, self.name), options))
        find = taped("articles", Hits, lambda *given: given[:2], RetrievalError)(self.finder.nearest)
        return await find(question, most, limits if limits_of(options) else None)

    async def count(self, term: str) -> int:
        _, found = await self._ids("esearch", {"term": term, "retmax": "1"})
        return found.count

    async def spelled(self, words: Sequence[str]) -> dict[str, str]:
        # An English word is no slip: "falls" would become "fails" where an index lacks it.
        words = [word for word in words if not is_english(word)]
        if not words:
            return {}
        call = NcbiCall("espell", "pubmed", {"db": "pubmed", "term": " ".join(words)})
        _, found = await self._asked(call, lambda reply: read_spellings(reply.body, words))
        return found

    async def fetch(self, pmids: Sequence[str], seconds: float) -> Fetched:
        """Fetch in batches; of PubMed, more than one are posted and fetched by page, and by id what is then missing."""
        ends = time.monotonic() + seconds
        is_posted = self.context.mode == "ncbi" and len(pmids) > _BATCH == self._batch
        pages = await self._pages(pmids, ends) if is_posted else []
        if None in pages:
            return _merged(pages, pmids)
        # What cannot be read is asked for once more, and then reported.
        results = [Fetched(page.articles) for page in pages if isinstance(page, Fetched)]
        found = {article.pmid for page in results for article in page.articles}
        left = [pmid for pmid in pmids if pmid not in found]
        batches = [left[first : first + self._batch] for first in range(0, len(left), self._batch)]
        calls = [partial(self._fetched, {"id": ",".join(batch)}, batch) for batch in batches]
        return _merged([*results, *await _side_by_side(calls, ends)], pmids)

    async def _pages(self, pmids: Sequence[str], ends: float) -> list[Fetched | NcbiError | None]:
        """Post ids to PubMed's history server and return what it has of them, by page; [] if that failed."""
        (posted,) = await _side_by_side([partial(self._posted, pmids)], ends)
        if not isinstance(posted, Posted):
            return [None] if posted is None else []
        stored = {"query_key": posted.query_key, "WebEnv": posted.webenv, "retmax": str(_BATCH)}
        pages = [stored | {"retstart": str(first)} for first in range(0, len(pmids), _BATCH)]
        # The server may keep another order, so that a page has any of the records.
        return await _side_by_side([partial(self._fetched, page, pmids) for page in pages], ends)

    @property
    def _batch(self) -> int:
        strict = self.egress.policy.is_strict and self.context.mode != "off"
        return _STRICT_BATCH if strict else _BATCH

    async def _posted(self, pmids: Sequence[str]) -> Posted:
        call = NcbiCall("epost", "pubmed", {"db": "pubmed", "id": ",".join(pmids)})
        _, posted = await self._asked(call, lambda reply: read_posted(reply.body, pmids))
        return posted

    async def _fetched(self, which: Mapping[str, str], pmids: Sequence[str]) -> Fetched:
        call = NcbiCall("efetch", "pubmed", {"db": "pubmed", **which, "retmode": "xml"})
        _, found = await self._asked(call, lambda reply: read_articles(reply.body, self.name, pmids))
        return found

    async def _ids(self, endpoint: Endpoint, params: dict[str, str]) -> tuple[RawReply, IdList]:
        call = NcbiCall(endpoint, "pubmed", {"db": "pubmed", **params, "retmode": "json"})
        return await self._asked(call, lambda reply: read_ids(call, reply))

    async def _asked(self, call: NcbiCall, read: Callable[[RawReply], _T]) -> tuple[RawReply, _T]:
        """Send a call and read its reply; what came of it is heard, also of a call that is given up."""
        started = time.monotonic()
        raw: RawReply | None = None
        try:
            raw = await through_tape(self.egress.fetch_for(self.context), self.context.mode)(call)
            # On a thread, since 200 records take longer than the event loop should be blocked.
            found = await asyncio.to_thread(read, raw) if raw.num_bytes > _SHORT else read(raw)
        except NcbiError as error:
            self._tell(call, call_record(started, raw=raw, error=error), raw.route if raw else error.route, error)
            raise
        except asyncio.CancelledError:
            late = NcbiError("given up, as it took too long", NCBI_TIMEOUT)
            self._tell(call, call_record(started, raw=raw, error=late), raw.route if raw else None, late)
            raise
        self._tell(call, call_record(started, raw=raw, condensed=_counted(found)), raw.route)
        return raw, found

    def _tell(
        self, call: NcbiCall, record: dict[str, Any], route: Route | None, error: NcbiError | None = None
    ) -> None:
        """Let the hearer know of a call under its address at NCBI, without a key; the record says where it went."""
        url = public_url(call, _NCBI)
        record |= {"endpoint": call.endpoint, "db": call.db, "url": url} | destination_of(route)
        status: CallStatus = status_of(error) if error else "ok" if record["num_records"] else "empty"
        self.hear(
            CallReplied(
                url=url,
                ordinal=0,
                status=status,
                summary=f"error: {error.message}" if error else summary(CallReply("", status, record)),
                seconds=record["seconds"],
                num_tokens=0,
                record=record,
            )
        )


async def _side_by_side(calls: Sequence[Callable[[], Awaitable[_T]]], ends: float) -> list[_T | NcbiError | None]:
    """Return the results of calls, a few at a time; a call's error in its place, None for one that is late."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Callable[[], Awaitable[_T]]) -> _T | NcbiError:
        async with slots:
            try:
                return await call()
            except NcbiError as error:
                return error

    return await finished([one(call) for call in calls], max(0.0, ends - time.monotonic()))


def _merged(results: Sequence[Fetched | NcbiError | None], pmids: Sequence[str]) -> Fetched:
    """Return the records of all results in the order of ``pmids``.

    Raises:
        NcbiError: no call succeeded.
    """
    errors = [result for result in results if isinstance(result, NcbiError)]
    if errors and len(errors) == len(results):
        raise errors[0]
    fetched = [result for result in results if isinstance(result, Fetched)]
    articles = {article.pmid: article for result in fetched for article in result.articles}
    unread = [reason for result in fetched for reason in result.unread]
    return Fetched(
        tuple(articles[pmid] for pmid in dict.fromkeys(pmids) if pmid in articles),
        (*unread, *(error.message for error in errors)),
        is_late=None in results,
    )


def _counted(found: object) -> Condensed:
    """Return how many ids, records or words a reply has, with the ids."""
    ids: Sequence[str] = ()
    if isinstance(found, IdList | Posted):
        ids = found.ids
    elif isinstance(found, Fetched):
        ids = [article.pmid for article in found.articles]
    elif isinstance(found, dict):
        ids = list(found)
    return Condensed("", len(ids), ids=tuple(ids))


def read_ids(call: NcbiCall, reply: RawReply) -> IdList:
    """Return the ids of a reply.

    Raises:
        NCBI_MALFORMED: it is no list of ids.
    """
    try:
        parsed = parse_reply(call, reply)
    except NcbiError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise NcbiError(f"the reply of {call.endpoint} has an unknown shape", NCBI_MALFORMED) from error
    if not isinstance(parsed, IdList):
        raise NcbiError(f"{call.endpoint} sent no list of ids", NCBI_MALFORMED)
    return parsed


def note_of(reply: RawReply) -> str:
    """Return what has to be told of a call's way: that it was kept here, or what failed outside; "" for nothing."""
    route = reply.route
    if route is None:
        return ""
    if route.withheld:
        return f"PubMed was not asked, as egress keeps {', '.join(route.withheld)} on this machine"
    return route.note


@dataclass(frozen=True, slots=True)
class Posted:
    """Hold where the history server has ids that were posted."""

    webenv: str
    query_key: str
    ids: tuple[str, ...]


def read_posted(body: str, ids: Sequence[str]) -> Posted:
    """Return where an epost reply says that these ids are.

    Raises:
        NCBI_MALFORMED: it does not say so.
    """
    root = _root_of(body, "epost")
    webenv, key = (root.findtext(name, "").strip() for name in ("WebEnv", "QueryKey"))
    if root.tag != "ePostResult" or not webenv or not key:
        raise NcbiError("epost stored no ids", NCBI_MALFORMED)
    return Posted(webenv, key, tuple(ids))


def read_articles(body: str, source: str, asked: Sequence[str]) -> Fetched:
    """Parse an efetch reply; records that cannot be read are reported and affect no other.

    Raises:
        NCBI_MALFORMED: no record can be read.
    """
    found: dict[str, Article] = {}
    unread: list[str] = []
    with tempfile.TemporaryDirectory(prefix="arrowhead-") as folder:
        path = Path(folder) / "articles.xml"
        path.write_text(body, encoding="utf-8", errors="replace")
        try:
            for item in pubmed_xml.read(Source(path)):
                if isinstance(item, Bad):
                    unread.append(item.reason)
                elif isinstance(item.entry, formats.Article):
                    found.setdefault(str(item.entry.pmid), article_of(item.entry, source))
        except ImportFileError as error:
            unread.append(error.reason)
    if unread and not found:
        raise NcbiError(f"no article could be read: {unread[0]}", NCBI_MALFORMED)
    ordered = [found[pmid] for pmid in dict.fromkeys(asked) if pmid in found]
    return Fetched(tuple(ordered), tuple(unread))


def read_spellings(body: str, words: Sequence[str]) -> dict[str, str]:
    """Return the words that an espell reply to a query of these words corrects, with their correction.

    A reply that joins or parts words is none.

    Raises:
        NCBI_MALFORMED: the body is no reply of espell.
    """
    root = _root_of(body, "espell")
    if root.tag != "eSpellResult":
        raise NcbiError(f"espell sent XML of an unknown kind: <{root.tag[:40]}>", NCBI_MALFORMED)
    corrected = (root.findtext("CorrectedQuery") or "").split()
    if len(corrected) != len(words):
        return {}
    pairs = zip(words, corrected, strict=True)
    return {word: better for word, better in pairs if better.casefold() != word.casefold() and better.isalnum()}


def _root_of(body: str, endpoint: str) -> ElementTree.Element:
    try:
        refuse_declared(body)
        return ElementTree.fromstring(body)
    except (DeclaredXml, ElementTree.ParseError) as error:
        raise NcbiError(f"{endpoint} sent no XML that can be read", NCBI_MALFORMED) from error


def article_of(record: formats.Article, source: str) -> Article:
    """Convert a PubMed record; books' own types and the kinds of notices are taken from its element."""
    notices = {kind for kind in _REF_TYPE.findall(record.xml) if kind.endswith("In")}
    if record.retracted_by:
        notices.add("RetractionIn")
    is_book = record.xml.lstrip().startswith("<PubmedBookArticle")
    types = tuple(dict.fromkeys([*(name.lower() for name in record.types), *(["book chapter"] if is_book else [])]))
    return Article(
        key=f"PMID:{record.pmid}",
        title=" ".join(record.title.split()),
        sections=tuple(_section(line) for line in record.abstract.split("\n") if line.strip()),
        pmid=str(record.pmid),
        doi=record.doi.lower(),
        journal=record.journal[0] if record.journal else "",
        date=_day(record.date),
        authors=record.authors,
        types=types,
        notices=frozenset(notices),
        item=_item(record),
        url=f"https://pubmed.ncbi.nlm.nih.gov/{record.pmid}/",
        source=source,
    )


def _item(record: formats.Article) -> dict[str, Any]:
    """Return the record's own CSL-JSON; of an element that cannot be read, title and address alone."""
    try:
        return article_item(record)
    except GatewayDataError:
        return item_of_link(record.title, f"https://pubmed.ncbi.nlm.nih.gov/{record.pmid}/")


def _section(line: str) -> Section:
    found = _LABELLED.fullmatch(line.strip())
    return Section(found[1], found[2]) if found else Section("", line.strip())


def _day(date: str) -> int:
    parts = [*date.split("-"), "", ""]
    return int(f"{parts[0]}{parts[1] or '00'}{parts[2] or '00'}") if parts[0] else 0
