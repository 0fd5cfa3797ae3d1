"""Serve ``POST /v1/search`` and ``GET /v1/passages/{namespace}/{id}``.

A search returns passages of namespaces for one query or several.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response

from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.search.keyword_counts import keyword_counts
from retrieval.corpus.search.ranking import BM25, MAX_K, RankedPassage, Retriever
from retrieval.corpus.search.searcher import SearchOptions, default_retriever
from retrieval.corpus.store.base import PassageFilter, Target
from retrieval.errors import NamespaceInvalid, NamespaceUnknown
from retrieval.lexical.question_keywords import Keyword, distinct_keywords, searched_keywords
from retrieval.passages import Document, Passage
from server.api.declarations import RETRIEVAL_ERRORS, Reads, Reply, errors
from server.api.http_io import cancel_on_disconnect, read_body
from server.api.retrieval.schemas import MAX_COUNTED, FilterBody, SearchBody, day_number, shown_day
from server.auth.authentication import Principal
from server.auth.namespace_scopes import NamespaceAccess
from server.errors import PASSAGE_UNKNOWN, RequestError
from server.evidence.passages import distinct_names
from server.settings.retrieval import RetrievalSettings
from server.wiring.services import Services

router = APIRouter(tags=["Retrieval"])
# The hits of all queries of a request may be this many times those of the largest single search.
_MANY: Final = 10
_MAX_QUERIES: Final = 64


class SearchRecord(Reply):
    """Describe how a search was done.

    ``rankers`` are the rankings that were fused, ``missing`` those of the paper that ``rrf-4`` lacks here.
    ``missing_stages``: ``late-interaction`` where a namespace stores token vectors and its encoder is remote.
    ``expanded``: the names that were also searched for by synonyms.
    """

    retriever: str
    rankers: list[str]
    missing: list[str]
    missing_stages: list[str]
    expanded: list[dict[str, Any]]
    namespaces: list[str]
    waiting: dict[str, Any]


class CountedKeyword(Reply):
    """Name a keyword that was counted; passages that have all ``fixed`` ones come first with PES2."""

    text: str
    fixed: bool


class Hits(Reply):
    """List the passages found for one query.

    ``keywords``: those of ``count``, else those by which PES2 ranked, else none. Where there are any, each passage has
    its ``counts`` in their order.
    """

    data: list[dict[str, Any]]
    keywords: list[CountedKeyword]


class SearchResult(Hits):
    """List the passages found for ``query``."""

    object: Literal["list"]
    arrowhead: SearchRecord


class SearchResults(Reply):
    """List the passages found for each of ``queries``."""

    object: Literal["list"]
    results: list[Hits]
    arrowhead: SearchRecord


@router.post(
    "/v1/search",
    summary="Search namespaces with one query or several",
    openapi_extra=Reads(SearchBody),
    responses={200: {"model": SearchResult | SearchResults}, **RETRIEVAL_ERRORS},
)
async def search(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_body(request, SearchBody)
    queries = _checked(body, services.settings.retrieval)
    where = _filter_of(body.filter)
    async with cancel_on_disconnect(request.receive), services.admitted(request.state.owner):
        work = services.retrieval.run(lambda: _search(services, request.state.principal, body, queries, where))
        return _json(await work)


@router.get(
    "/v1/passages/{namespace}/{passage_id}",
    summary="Return one passage with its document",
    responses={200: {"model": dict[str, Any]}, **errors(404, 422, 429)},
)
async def get_passage(request: Request, namespace: str, passage_id: str) -> Response:
    """Return a passage with the other documents that have the same text, which searches omit."""
    services: Services = request.app.state.services
    if not (passage_id.isascii() and passage_id.isdigit() and 0 < int(passage_id[:20]) < 2**63):
        raise RequestError("a passage's id is a number of up to 63 bits", PASSAGE_UNKNOWN)
    async with cancel_on_disconnect(request.receive), services.admitted(request.state.owner):
        principal, number = request.state.principal, int(passage_id)
        return _json(await services.retrieval.run(lambda: _passage(services, principal, namespace, number)))


def _checked(body: SearchBody, settings: RetrievalSettings) -> list[str]:
    """Return the queries after validation against the settings.

    Raises:
        RequestError: a value is not valid; ``param`` names the field.
    """
    if (body.query is None) == (body.queries is None):
        raise RequestError("either query or queries is needed", param="query")
    queries = [body.query] if body.query is not None else body.queries or []
    if len(queries) > _MAX_QUERIES:
        many = f"queries: {len(queries)} given, at most {_MAX_QUERIES} are taken at once"
        raise RequestError(many, param="queries")
    if body.k > MAX_K:
        raise RequestError(f"k: at most {MAX_K} passages are found at once", param="k")
    if body.rerank and settings.cross_encoder is None:
        raise RequestError(
            "rerank: this server has no cross-encoder; retrieval.cross_encoder names one", param="rerank"
        )
    for name, value in (("k", body.k), ("rerank", body.rerank), ("late", body.late or 0)):
        if value * len(queries) > _MANY * MAX_K:
            most = _MANY * MAX_K
            raise RequestError(f"{name}: at most {most} for all queries of a request together", param=name)
    return queries


def _filter_of(body: FilterBody) -> PassageFilter:
    try:
        return PassageFilter(
            date_from=day_number(body.date_from) if body.date_from else 0,
            date_to=day_number(body.date_to) if body.date_to else 0,
            types=tuple(body.types),
            without_types=tuple(body.without_types),
            documents=None if body.documents is None else frozenset(body.documents),
        )
    except NamespaceInvalid as error:
        raise RequestError(f"filter.{error.param}: {error.message}", param=f"filter.{error.param}") from error


def _search(
    services: Services, principal: Principal, body: SearchBody, queries: Sequence[str], where: PassageFilter
) -> bytes:
    retrieval = services.retrieval
    names = _names(services.access, principal, body.namespaces)
    retriever, waiting = _survey(retrieval.namespaces, names, body.retriever)
    lists = retrieval.searcher.lists(names, retriever)
    named = retrieval.names_in(queries) if body.expand and BM25 in lists.rankers else {}
    options = SearchOptions(k=body.k, retriever=retriever, where=where, rerank=body.rerank, late=body.late, names=named)
    found = retrieval.searcher.search_many(queries, names, options)
    hits = []
    for query, ranking in zip(queries, found, strict=True):
        keywords = _counted(body.count, query if "pes2" in lists.rankers else "")
        hits.append(_hits(ranking, keywords, body))
    reply: dict[str, Any] = hits[0] if body.query is not None else {"object": "list", "results": hits}
    record: dict[str, Any] = {"retriever": retriever, "rankers": list(lists.rankers)}
    record["missing"] = list(lists.missing)
    record["missing_stages"] = list(lists.missing_stages)
    record["expanded"] = [{"name": one.name, "synonyms": list(one.synonyms)} for one in distinct_names(named)]
    return _dumped(reply | {"arrowhead": {**record, "namespaces": names, "waiting": waiting}})


def _counted(asked: Sequence[str] | None, query: str) -> Sequence[Keyword]:
    """Return the keywords to count: those that were asked for, else those by which PES2 ranks the query."""
    if asked is not None:
        return distinct_keywords(Keyword(one) for one in asked)
    return searched_keywords(query).keywords[:MAX_COUNTED] if query else ()


def _hits(found: Sequence[RankedPassage], keywords: Sequence[Keyword], body: SearchBody) -> dict[str, Any]:
    data = [_item(one, body.include_text) for one in found]
    if not keywords:
        return {"object": "list", "data": data, "keywords": []}
    counts = keyword_counts(found, [one.text for one in keywords])
    for item, one in zip(data, found, strict=True):
        item["counts"] = counts[one.namespace, one.passage.passage_id]
    shown = [{"text": one.text, "fixed": one.fixed} for one in keywords]
    return {"object": "list", "data": data, "keywords": shown}


def _names(access: NamespaceAccess, principal: Principal, requested: str | list[str] | None) -> list[str]:
    """Return the requested namespaces, each once; the package's notes are among them only by their name.

    Raises:
        NamespaceUnknown: a requested namespace is unknown, or there is none at all.
    """
    known = access.names(principal)
    if requested is None or isinstance(requested, str):
        if not known:
            raise NamespaceUnknown("there is no namespace yet: POST /v1/namespaces makes one", param="namespaces")
        return known
    for name in requested:
        if name not in known and not access.has_sample(principal, name):
            raise NamespaceUnknown(f"there is no namespace {name[:70]!r}", param="namespaces")
    return list(dict.fromkeys(requested))


def _survey(
    namespaces: Namespaces, names: Sequence[str], retriever: Retriever | None
) -> tuple[Retriever, dict[str, dict[Target, int]]]:
    """Return the retriever, and the number of passages missing from the indices of each namespace."""
    targets_of: dict[str, Sequence[Target]] = {}
    waiting: dict[str, dict[Target, int]] = {}
    for name in names:
        with namespaces.using(name) as namespace:
            targets = targets_of[name] = namespace.settings.targets
            pending = namespace.store.counts().pending
            if behind := {target: pending[target] for target in targets if pending[target]}:
                waiting[name] = behind
    return retriever or default_retriever(targets_of.values()), waiting


def _passage(services: Services, principal: Principal, name: str, number: int) -> bytes:
    services.access.require(principal, name)
    with services.retrieval.namespaces.using(name) as namespace:
        found = namespace.store.get([number])
        if not found:
            raise RequestError(f"namespace {name} has no such passage", PASSAGE_UNKNOWN)
        others = namespace.store.also_in(number)
        passage, document = found[0]
        same = [{"document_id": other.document_id, "title": other.title, "url": other.url} for other in others]
        return _dumped(_passage_object(name, passage, document) | {"text": passage.text, "also_in": same})


def _item(found: RankedPassage, include_text: bool) -> dict[str, Any]:
    item = _passage_object(found.namespace, found.passage, found.document)
    item |= {"score": found.hit.score, "ranks": dict(found.ranks)}
    return item | ({"text": found.passage.text} if include_text else {})


def _passage_object(namespace: str, passage: Passage, document: Document) -> dict[str, Any]:
    """Return the passage with its id as text: JavaScript clients cannot represent 63-bit numbers."""
    return {
        "object": "passage",
        "id": str(passage.passage_id),
        "namespace": namespace,
        "document_id": passage.document_id,
        "title": document.title,
        "section": passage.section,
        "page": passage.page or None,
        "start": passage.start,
        "end": passage.end,
        "url": document.url,
        "source": document.source,
        "authors": list(document.authors),
        "journal": document.journal,
        "date": shown_day(document.date),
        "types": list(document.types),
        "licence": document.licence,
        "retracted_by": list(document.retracted_by),
        "corrected_by": list(document.corrected_by),
    }


def _dumped(reply: dict[str, Any]) -> bytes:
    """Serialize the reply on the worker thread: a thousand passages would block the streams of the event loop."""
    return json.dumps(reply, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _json(content: bytes | None) -> Response:
    """Return the reply; ``content`` is None where the client disconnected."""
    return Response(content or b"", media_type="application/json")
