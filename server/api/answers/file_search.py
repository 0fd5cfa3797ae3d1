"""Let answers search vector stores: OpenAI's tool ``file_search``, what it finds, and citations of files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from retrieval.corpus.search.ranking import RankedPassage
from server.api.http_io import Body, parse_body
from server.auth.authentication import Principal
from server.errors import UNSUPPORTED_FIELD, RequestError
from server.jobs.attribute_filters import Filter, parse_filter
from server.jobs.vector_stores import Member
from server.methods.base import AUTO, DIRECT, AnswerRequest, Done, Event, Evidence, Reference, Retrieved, TextDelta
from server.methods.shared.passages import PassageQuery
from server.methods.shared.sentences import quotation
from server.wiring.services import ServedModel, Services

TOOL: Final = "file_search"
_METHODS: Final = ("medrag", "i-medrag")
_MAX_STORES: Final = 16
_MAX_RESULTS: Final = 50
_USUAL: Final = 20
# The constant of reciprocal rank fusion.
_RANK: Final = 60


@dataclass(frozen=True, slots=True)
class FileSearch:
    """Hold what a request says about its search of files; ``place`` is the field that names the vector stores."""

    stores: tuple[str, ...]
    k: int = _USUAL
    passes: Filter | None = None
    threshold: float = 0.0
    place: str = "tools"


def _ranker_alone(options: dict[str, Any]) -> dict[str, Any]:
    if options.keys() - {"ranker"}:
        raise ValueError("the verifier decides what answers; leave ranking_options out")
    return options


class FileSearchTool(Body):
    """Search vector stores."""

    type: Literal["file_search"]
    vector_store_ids: list[str] = Field(min_length=1, max_length=_MAX_STORES)
    max_num_results: Annotated[int, Field(ge=1, le=_MAX_RESULTS)] | None = None
    filters: dict[str, Any] | None = Field(default=None, description="as of POST /v1/vector_stores/{id}/search")
    ranking_options: Annotated[dict[str, Any], AfterValidator(_ranker_alone)] | None = None


def tools_schema() -> dict[str, Any]:
    """Return the schema of a list of tools with this one alone, for the document of the API."""
    return {"type": "array", "minItems": 1, "maxItems": 1, "items": FileSearchTool.model_json_schema()}


def take_file_search(body: object) -> tuple[object, FileSearch | None]:
    """Return the body without the tool, and what the tool is to search; None where the request has no such tool.

    Raises:
        RequestError: a field of the tool is wrong; ``param`` names it.
    """
    tools = body.get("tools") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(tools, list) or not any(map(_is_tool, tools)):
        return body, None
    if len(tools) > 1:
        raise RequestError(
            "tools: file_search is served as the only tool of a request", UNSUPPORTED_FIELD, param="tools"
        )
    choice = body.get("tool_choice")
    rest = {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}
    if choice == "none":
        return rest, None
    if choice not in (None, "auto", "required") and choice != {"type": TOOL}:
        raise RequestError('tool_choice: none, auto, required or {"type": "file_search"}', param="tool_choice")
    return rest, _parsed(tools[0], "tools[0]")


def _is_tool(tool: object) -> bool:
    return isinstance(tool, dict) and tool.get("type") == TOOL


def _parsed(tool: Mapping[str, Any], place: str) -> FileSearch:
    wanted = parse_body(FileSearchTool, tool, place)
    passes = None if wanted.filters is None else parse_filter(wanted.filters, f"{place}.filters")
    stores = tuple(dict.fromkeys(wanted.vector_store_ids))
    return FileSearch(stores, wanted.max_num_results or _USUAL, passes, place=f"{place}.vector_store_ids")


def searching_model(services: Services, model: str, principal: Principal) -> ServedModel:
    """Return the method that searches files for a model: its own, or MedRAG for the plain model and Auto.

    Raises:
        RequestError: the key may not use it.
        UNSUPPORTED_FIELD: the method searches no files.
    """
    served = services.find(model, principal)
    if served.name in (DIRECT, AUTO):
        return services.find(f"{services.lifecycle.card.name}:{_METHODS[0]}", principal)
    if served.name not in _METHODS:
        names = ", ".join(_METHODS)
        raise RequestError(
            f"tools: file_search is served by {names}, Auto and the plain model", UNSUPPORTED_FIELD, param="tools"
        )
    return served


@dataclass(frozen=True, slots=True)
class FileScope:
    """Hold which documents a search may find, None for all of its stores, and the file of each by store and id."""

    search: FileSearch
    documents: frozenset[str] | None
    files: Mapping[tuple[str, str], Member]

    def narrowed(self, ask: AnswerRequest) -> AnswerRequest:
        """Return a request that reads the files alone."""
        options = {"k": self.search.k} | dict(ask.options) | {"namespaces": list(self.search.stores)}
        return replace(ask, options=options, documents=self.documents)

    def chunks(self, found: Sequence[RankedPassage]) -> list[Chunk]:
        """Return what was found with its file and its score, as far as this reaches the threshold."""
        rankers = max(1, len({ranker for one in found for ranker in one.ranks}))
        chunks = []
        for one in found:
            reciprocal = sum(1 / (_RANK + rank) for rank in one.ranks.values())
            score = round(reciprocal * (_RANK + 1) / rankers, 4)
            member = self.files.get((one.namespace, one.document.document_id))
            # A document may be of two stores, and its file pass in one of them.
            if score >= self.search.threshold and (member is not None or self.documents is None):
                chunks.append(Chunk(one, member, score))
        return chunks


@dataclass(frozen=True, slots=True)
class Chunk:
    """Hold one passage that was found, the file that it is of, None for a document that came otherwise, and its score.

    The score is 1 for what every ranking has first, and no probability.
    """

    found: RankedPassage
    member: Member | None
    score: float

    @property
    def file(self) -> dict[str, Any]:
        document = self.found.document
        if self.member is not None:
            return {"file_id": self.member.file_id, "filename": self.member.filename}
        return {"file_id": document.document_id, "filename": document.title or document.document_id}

    @property
    def place(self) -> dict[str, Any]:
        """Return where the passage is; ``start`` and ``end`` are characters of the document's text."""
        passage = self.found.passage
        return {
            "vector_store_id": self.found.namespace,
            "passage_id": str(passage.passage_id),
            "page": passage.page or None,
            "start": passage.start,
            "end": passage.end,
        }

    def as_result(self, *, with_content: bool = False) -> dict[str, Any]:
        """Return the result of a search; as content where a store's own search is asked, else as text."""
        text = self.found.passage.text
        shown = {"content": [{"type": "text", "text": text}]} if with_content else {"text": text}
        attributes = dict(self.member.attributes) if self.member else {}
        return self.file | {"score": self.score, "attributes": attributes} | shown | {"arrowhead": self.place}


async def scope_of(services: Services, principal: Principal, search: FileSearch) -> FileScope:
    """Return what a key's search may find.

    Raises:
        RequestError: there is no such vector store for the key, or it has expired.
    """

    def work() -> FileScope:
        stores = [services.vector_stores.usable(principal, one, search.place) for one in search.stores]
        files = {
            (store.id, document): member
            for store in stores
            for document, member in services.vector_stores.by_document(store, search.passes).items()
        }
        documents = None if search.passes is None else frozenset(document for _, document in files)
        return FileScope(search, documents, files)

    return await asyncio.to_thread(work)


async def found_chunks(services: Services, scope: FileScope, queries: Sequence[str]) -> list[Chunk]:
    """Return the best passages for all queries in turn, each once."""
    search = scope.search
    query = PassageQuery(namespaces=search.stores, k=search.k, documents=scope.documents)
    gathered = await services.passages.find(queries, query, frozenset(search.stores))
    depth = max(map(len, gathered.lists), default=0)
    in_turn = [ranked[rank] for rank in range(depth) for ranked in gathered.lists if rank < len(ranked)]
    once = {one.passage.passage_id: one for one in reversed(in_turn)}
    best = dict.fromkeys(one.passage.passage_id for one in in_turn)
    return scope.chunks([once[passage_id] for passage_id in best])[: search.k]


@dataclass(slots=True)
class FileCitations:
    """Collect, event by event, what an answer read of files, and cite it at its end."""

    scope: FileScope
    chunks: dict[str, Chunk] = field(default_factory=dict)
    _text: list[str] = field(default_factory=list)
    _references: tuple[Reference, ...] = ()
    _done: Done | None = None

    def feed(self, event: Event) -> None:
        match event:
            case Retrieved(passages=passages):
                self.chunks |= {str(one.found.passage.passage_id): one for one in self.scope.chunks(passages)}
            case TextDelta(text=text, channel="answer"):
                self._text.append(text)
            case Evidence(references=references):
                self._references = references
            case Done():
                self._done = event

    def annotations(self) -> list[dict[str, Any]]:
        """Return a ``file_citation`` for each quote that the answer rests on, in its order."""
        records = self._done.details.get("citations", ()) if self._done else ()
        text = "".join(self._text)
        return [
            citation
            for record in records
            if (chunk := self.chunks.get(record["passage_id"])) is not None
            for citation in self._of(record, chunk, text)
        ]

    def _of(self, record: Mapping[str, Any], chunk: Chunk, text: str) -> list[dict[str, Any]]:
        passage = chunk.found.passage
        listed = next((one.start for one in self._references if one.number == record["number"]), 0)
        cited = []
        for start, end in _spans(record, passage.text):
            quote = passage.text[start:end]
            shown = quotation(quote)
            at = text.find(shown)
            place = chunk.place | {"start": passage.start + start, "end": passage.start + end}
            index = at + len(shown) if at >= 0 else listed
            cited.append({"type": "file_citation", "index": index} | chunk.file | {"quote": quote} | place)
        return cited


def _spans(record: Mapping[str, Any], text: str) -> list[tuple[int, int]]:
    """Return where the quotes of a citation stand in the passage: all of it where no sentence is nearer."""
    if sentences := record.get("sentences"):
        return [(one["start"], one["end"]) for one in sentences]
    sentence = record.get("sentence", "")
    start = text.find(sentence) if sentence else -1
    return [(start, start + len(sentence))] if start >= 0 else [(0, len(text))]
