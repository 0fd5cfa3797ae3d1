"""Define the bodies of files and vector stores, their pages, and their objects as OpenAI has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from retrieval.corpus.chunking import Chunking
from server.api.declarations import Reply
from server.api.http_io import Body
from server.errors import RequestError
from server.jobs.stored_files import StoredFile
from server.jobs.vector_stores import Member, VectorStore

PURPOSES: Final = ("assistants", "user_data")
STATES: Final = ("in_progress", "completed", "cancelled", "failed")
MAX_BATCH: Final = 2000
MAX_RESULTS: Final = 50
# OpenAI counts chunks in tokens, a namespace in characters.
_CHARS_PER_TOKEN: Final = 4
_Key = Annotated[str, Field(min_length=1, max_length=64)]
Metadata = Annotated[dict[_Key, Annotated[str, Field(max_length=512)]], Field(max_length=16)]
AttributeValue = Annotated[str, Field(max_length=512)] | bool | int | float
Attributes = Annotated[dict[_Key, AttributeValue], Field(max_length=16)]
FileId = Annotated[str, Field(min_length=1, max_length=200)]


class ExpiresAfter(Body):
    """Say how many days after its last use a vector store expires."""

    anchor: Literal["last_active_at"]
    days: int = Field(ge=1, le=365)


class StaticChunks(Body):
    """Set the size of chunks and their overlap, in tokens of four characters."""

    max_chunk_size_tokens: int = Field(ge=100, le=4096)
    chunk_overlap_tokens: int = Field(ge=0)


class ChunkingStrategy(Body):
    """Say how files are cut into chunks."""

    type: Literal["auto", "static"]
    static: StaticChunks | None = None

    @property
    def chunking(self) -> Chunking:
        if self.static is None:
            return Chunking()
        overlap = self.static.chunk_overlap_tokens * _CHARS_PER_TOKEN
        return Chunking(size=self.static.max_chunk_size_tokens * _CHARS_PER_TOKEN, overlap=overlap)


class VectorStoreUpdate(Body):
    """Change what a vector store is called, and how long it lives."""

    name: str | None = Field(default=None, max_length=512)
    metadata: Metadata | None = None
    expires_after: ExpiresAfter | None = None


class VectorStoreBody(VectorStoreUpdate):
    """Create a vector store, and add files to it."""

    description: str | None = Field(default=None, max_length=2000)
    file_ids: list[FileId] | None = Field(default=None, max_length=500)
    chunking_strategy: ChunkingStrategy | None = None


class MemberUpdate(Body):
    """Set the attributes of a file of a vector store."""

    attributes: Attributes | None


class MemberBody(Body):
    """Add a file to a vector store."""

    file_id: FileId
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None


class BatchBody(Body):
    """Add several files to a vector store: by their ids, or each with attributes of its own."""

    file_ids: list[FileId] | None = Field(default=None, min_length=1, max_length=MAX_BATCH)
    files: list[MemberBody] | None = Field(default=None, min_length=1, max_length=MAX_BATCH)
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None

    @property
    def by_id(self) -> dict[str, Any]:
        if (self.file_ids is None) == (self.files is None):
            raise RequestError("file_ids: either file_ids or files is needed", param="file_ids")
        if self.files is not None:
            return {one.file_id: one.attributes for one in self.files}
        return dict.fromkeys(self.file_ids or (), self.attributes)

    @property
    def strategies(self) -> list[ChunkingStrategy | None]:
        return [self.chunking_strategy, *(one.chunking_strategy for one in self.files or ())]


class RankingOptions(Body):
    """Bound the score of what is found."""

    ranker: Literal["none", "auto", "default-2024-11-15"] = "auto"
    score_threshold: float = Field(default=0.0, ge=0, le=1)


class StoreSearchBody(Body):
    """Search a vector store."""

    query: (
        Annotated[str, Field(min_length=1, max_length=4096)]
        | Annotated[list[Annotated[str, Field(min_length=1, max_length=4096)]], Field(min_length=1, max_length=16)]
    )
    max_num_results: int = Field(default=10, ge=1, le=MAX_RESULTS)
    filters: dict[str, Any] | None = None
    ranking_options: RankingOptions | None = None
    rewrite_query: bool | None = None


class ObjectReply(Reply):
    """Describe a file, a vector store, a file of one, or a batch."""

    id: str
    object: str


def file_object(file: StoredFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": file.created,
        "expires_at": file.expires,
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def counts_object(counts: Mapping[str, int]) -> dict[str, int]:
    return {state: counts.get(state, 0) for state in STATES} | {"total": sum(counts.values())}


def store_object(store: VectorStore, counts: Mapping[str, int], size: int, *, has_expired: bool) -> dict[str, Any]:
    status = "expired" if has_expired else "in_progress" if counts.get("in_progress") else "completed"
    return {
        "id": store.id,
        "object": "vector_store",
        "created_at": store.created,
        "name": store.name,
        "description": store.description,
        "usage_bytes": size,
        "file_counts": counts_object(counts),
        "status": status,
        "expires_after": None if store.days is None else {"anchor": "last_active_at", "days": store.days},
        "expires_at": store.expires,
        "last_active_at": store.active or None,
        "metadata": dict(store.metadata),
    }


def member_object(member: Member, chunking: Chunking) -> dict[str, Any]:
    sizes = {
        "max_chunk_size_tokens": chunking.size // _CHARS_PER_TOKEN,
        "chunk_overlap_tokens": chunking.overlap // _CHARS_PER_TOKEN,
    }
    fault = member.fault
    return {
        "id": member.file_id,
        "object": "vector_store.file",
        "created_at": member.created,
        "vector_store_id": member.store,
        "status": member.state,
        "last_error": None if fault is None else {"code": fault[0], "message": fault[1]},
        "usage_bytes": member.size,
        "attributes": dict(member.attributes),
        "chunking_strategy": {"type": "static", "static": sizes},
        "arrowhead": {"filename": member.filename, "documents": len(member.documents)},
    }
