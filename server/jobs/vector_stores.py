"""Keep vector stores: namespaces with a name as people type it, their files, and the batches in which these came.

A vector store's id is the name of its namespace, and any namespace is a vector store without further notes. Knows no
HTTP; all blocks, so it is called on threads.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

from models.errors import ArrowheadError, UnsupportedParam
from models.files import parse_json
from retrieval.corpus.ingest.add import ChangeHooks, remove, try_file
from retrieval.corpus.items import ReadOptions
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.store.base import StoredDocument
from retrieval.errors import CorpusError, DocumentUnreadable, NamespaceBusy, NamespaceUnknown, RetrievalError
from retrieval.storage.records import NOT_LISTED, Record, Records, Selection, readable
from server.auth.authentication import Principal
from server.auth.namespace_scopes import NamespaceAccess, private_metadata
from server.errors import BATCH_UNKNOWN, FILE_UNKNOWN, FILES_FULL, STORE_UNKNOWN, RequestError
from server.jobs.attribute_filters import Filter, Value
from server.jobs.queue import Job, Outcome, WorkOrder
from server.jobs.stored_files import StoredFile, StoredFiles
from server.jobs.uploads import Uploads

log = logging.getLogger(__name__)
STORE: Final = "vector_store"
MEMBER: Final = "vector_store_file"
BATCH: Final = "vector_store_batch"
JOB_KIND: Final = "vector_store_files"
MAX_MEMBERS: Final = 10_000
_MAX_DOCUMENTS: Final = 10_000
_EXPIRING: Final = "expires"
_DAY_S: Final = 86_400
_ACTIVE_S: Final = 60.0
_PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.05
_YOUNG_S: Final = 10.0
_ALL: Final = 1_000_000
State = Literal["in_progress", "completed", "cancelled", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStore:
    """Describe a vector store; ``days`` after ``active`` it expires, None for never. ``owner``: "" without notes."""

    id: str
    name: str
    owner: str = ""
    description: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    days: int | None = None
    created: int = 0
    active: int = 0

    @property
    def expires(self) -> int | None:
        return None if self.days is None else self.active + self.days * _DAY_S

    def has_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Describe a file of a vector store; ``documents`` are the ids of what was read from it, once it is."""

    store: str
    file_id: str
    owner: str
    filename: str = ""
    digest: str = ""
    size: int = 0
    attributes: Mapping[str, Value] = field(default_factory=dict)
    batch: str = ""
    state: State = "in_progress"
    fault: tuple[str, str] | None = None
    documents: tuple[str, ...] = ()
    created: int = 0


class VectorStores:
    """Keep the vector stores of all keys; thread-safe, and blocking."""

    def __init__(
        self,
        records: Records,
        files: StoredFiles,
        namespaces: Namespaces,
        uploads: Uploads,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._records = records
        self._files = files
        self._namespaces = namespaces
        self._uploads = uploads
        self._limits = ReadOptions()
        self._access = NamespaceAccess(namespaces)
        self._now = now

    def create(self, principal: Principal, draft: VectorStore, settings: NamespaceSettings) -> VectorStore:
        """Create a vector store with its namespace; ``draft`` has no id and no times yet."""
        now = int(self._now())
        store = replace(draft, id=f"vs_{uuid.uuid4().hex}", owner=principal.owner, created=now, active=now)
        day = time.strftime("%Y-%m-%d", time.gmtime(now))
        self._namespaces.create(store.id, settings, day, private_metadata(principal))
        self.put(store)
        return store

    def put(self, store: VectorStore) -> None:
        tag = "" if store.days is None else _EXPIRING
        body = _json(asdict(store))
        self._records.put(Record(kind=STORE, id=store.id, owner=store.owner, tag=tag, created=store.created, body=body))

    def get(self, principal: Principal, store_id: str, param: str = "vector_store_id") -> VectorStore:
        """Return a vector store that a key may read.

        Raises:
            RequestError: there is none of this id for the key, or it has expired; ``param`` names the field.
        """
        unknown = RequestError(f"there is no vector store {store_id[:70]!r}", STORE_UNKNOWN, param=param)
        try:
            self._access.require(principal, store_id)
        except RetrievalError:
            raise unknown from None
        if not self._namespaces.stores.exists(store_id):
            raise unknown
        return readable(self._records.get(STORE, store_id), _store) or VectorStore(id=store_id, name=store_id)

    def usable(self, principal: Principal, store_id: str, param: str = "vector_store_id") -> VectorStore:
        """Return a vector store that has not expired, and note that it is used.

        Raises:
            RequestError: as ``get``, or it has expired.
        """
        store = self.get(principal, store_id, param)
        if store.has_expired(self._now()):
            raise RequestError(f"vector store {store_id} has expired", STORE_UNKNOWN, param=param)
        if store.days is not None and self._now() - store.active > _ACTIVE_S:
            store = replace(store, active=int(self._now()))
            self.put(store)
        return store

    def has_expired(self, store: VectorStore) -> bool:
        return store.has_expired(self._now())

    def all(self, principal: Principal) -> list[VectorStore]:
        """Return the vector stores that a key may read: namespaces without notes, then the others, the oldest first."""
        noted = {store.id: store for store in self._records.readable(Selection(kind=STORE), _store, limit=_ALL)}
        names = self._access.names(principal)
        plain = [VectorStore(id=name, name=name) for name in names if name not in noted]
        return plain + [one for one in noted.values() if one.id in names]

    def delete(self, store: VectorStore) -> None:
        """Delete a vector store with its content; the files that were added to it stay.

        Raises:
            NamespaceBusy: it is being changed.
        """
        _patiently(lambda: self._namespaces.delete(store.id))
        self._forget(store.id)

    def _forget(self, store_id: str) -> None:
        self._records.delete_below(store_id)
        self._records.delete(STORE, store_id)

    # Files of a vector store.

    def begin(self, members: Sequence[Member], job_id: str) -> str:
        """Note files that a job adds, unless it has noted them already; return the batch."""
        batch = members[0].batch
        if batch:
            one = members[0]
            body = {"job": job_id, "files": [member.file_id for member in members]}
            record = Record(kind=BATCH, id=batch, owner=one.owner, parent=one.store, created=one.created)
            self._records.put(replace(record, body=_json(body)))
        for member in members:
            self._records.add(_record(member))
        return batch

    def drafts(self, principal: Principal, store: VectorStore, files: Mapping[str, Any], batch: str) -> list[Member]:
        """Return the members for files of a key, by their ids, with their attributes; those that are here take these.

        Raises:
            RequestError: the key has no such file, or the vector store would have too many.
        """
        param = "file_ids" if batch else "file_id"
        known = self._records.total(Selection(kind=MEMBER, parent=store.id))[0]
        if known + len(files) > MAX_MEMBERS:
            raise RequestError(f"a vector store has at most {MAX_MEMBERS} files", FILES_FULL, param=param)
        found = [self._files.get(principal.owner, file_id, param) for file_id in files]
        drafts = [
            Member(
                store=store.id,
                file_id=file.id,
                owner=principal.owner,
                filename=file.filename,
                size=file.size,
                digest=file.digest,
                attributes=files[file.id] or {},
                batch=batch,
                created=int(self._now()),
            )
            for file in found
        ]
        for draft in drafts:
            if (here := self._stored(draft)) is not None:
                again = replace(here, batch=batch) if here.state == "completed" else draft
                attributes = here.attributes if files[draft.file_id] is None else draft.attributes
                self.put_member(replace(again, attributes=attributes))
        return drafts

    def member(self, store: VectorStore, file_id: str) -> Member:
        """Return a file of a vector store; a document that came otherwise is one too, by its own id.

        Raises:
            RequestError: it is not in the vector store.
        """
        found = readable(self._records.get(MEMBER, f"{store.id}/{file_id}"), _member)
        if found is not None:
            return found
        with self._namespaces.using(store.id) as namespace:
            document = namespace.store.stored_document(file_id)
        if document is None:
            text = f"vector store {store.id} has no file {file_id[:100]!r}"
            raise RequestError(text, FILE_UNKNOWN, param="file_id")
        return _member_for(store, document)

    def documents(self, store: VectorStore, limit: int, after: str = "") -> list[Member]:
        """Return the documents of a namespace that nobody added as files, each as if it were one, newest first."""
        with self._namespaces.using(store.id) as namespace:
            last = namespace.store.stored_document(after) if after else None
            if after and last is None:
                raise UnsupportedParam(NOT_LISTED, param="after")
            found = namespace.store.documents((), limit, last.place if last else 0)
        return [_member_for(store, one) for one in found]

    def texts(self, member: Member) -> list[str]:
        """Return the texts of the documents that a file gave."""
        with self._namespaces.using(member.store) as namespace:
            found = map(namespace.store.document, member.documents)
            return [text for document in found if document is not None for text in (document[1],)]

    def members(self, store: VectorStore, *, state: str = "", batch: str = "", **page: Any) -> list[Member]:
        if after := page.get("after"):
            page["after"] = f"{store.id}/{after}"
        selection = Selection(kind=MEMBER, parent=store.id, state=state, tag=batch)
        return self._records.readable(selection, _member, **page)

    def counts(self, store: VectorStore) -> dict[str, int]:
        return self._records.counts(Selection(kind=MEMBER, parent=store.id))

    def counts_of(self, batch: Record) -> dict[str, int]:
        """Return how many files of a batch are in each state, as they are now where they came again later."""
        ids = set(parse_json(batch.body)["files"])
        counts = self._records.counts(Selection(kind=MEMBER, parent=batch.parent, tag=batch.id))
        if sum(counts.values()) == len(ids):
            return counts
        return Counter(
            one.state for one in self._records.page(Selection(kind=MEMBER, parent=batch.parent)) if one.ref in ids
        )

    def put_member(self, member: Member) -> None:
        self._records.put(_record(member))

    def batch(self, store: VectorStore, batch_id: str) -> tuple[Record, str]:
        """Return a batch with the id of its job.

        Raises:
            RequestError: the vector store has no such batch.
        """
        found = self._records.get(BATCH, batch_id)
        job = readable(found, lambda record: str(parse_json(record.body)["job"]))
        if found is None or job is None or found.parent != store.id:
            raise RequestError(f"there is no batch {batch_id[:100]!r}", BATCH_UNKNOWN, param="batch_id")
        return found, job

    def settle(self, store: VectorStore, state: State, batch: str = "") -> None:
        """End the files that still wait, since their job has ended or was cancelled before it came to them."""
        why = ("server_error", "its job ended before it was read; add the file again")
        young = self._now() - _YOUNG_S
        for member in self.members(store, state="in_progress", batch=batch):
            if state == "failed" and member.created > young:
                continue  # its job may have come since
            self.put_member(replace(member, state=state, fault=why if state == "failed" else None))

    def detach(self, member: Member) -> None:
        """Remove a file from a vector store, with the documents that no other file of it has.

        Raises:
            NamespaceBusy: the vector store is being changed.
        """
        self._remove_documents(member)
        self._records.delete(MEMBER, f"{member.store}/{member.file_id}")

    def _remove_documents(self, member: Member) -> None:
        store = VectorStore(id=member.store, name="")
        others = {one for other in self.members(store) if other.file_id != member.file_id for one in other.documents}
        own = [one for one in member.documents if one not in others]

        def work() -> None:
            with self._namespaces.using(member.store) as namespace:
                known = namespace.store.known(own)
            if known:
                remove(self._namespaces, member.store, sorted(known))

        with suppress(NamespaceUnknown):
            _patiently(work)

    def delete_file(self, file_id: str) -> None:
        """Delete a file, and remove it from all vector stores.

        Raises:
            NamespaceBusy: one of them is being changed; the file is still there.
        """
        for member in self._records.readable(Selection(kind=MEMBER, ref=file_id), _member, limit=_ALL):
            self.detach(member)
        self._files.delete(file_id)

    def sweep(self) -> None:
        """Delete what has expired, and what belonged to namespaces that were deleted otherwise."""
        self._files.sweep()
        for file_id in self._files.expired():
            _unless_busy(partial(self.delete_file, file_id))
        for record in self._records.page(Selection(kind=STORE), limit=_ALL):
            if not self._namespaces.stores.exists(record.id):
                self._forget(record.id)
            elif (store := readable(record, _store)) is not None and store.has_expired(self._now()):
                _unless_busy(partial(self.delete, store))

    # What a search may find, and whose it is.

    def by_document(self, store: VectorStore, passes: Filter | None = None) -> dict[str, Member]:
        """Return the first file that passes of each document; documents that came otherwise are not in it."""
        found: dict[str, Member] = {}
        for member in self.members(store, state="completed"):
            for document in member.documents if passes is None or passes(member.attributes) else ():
                found.setdefault(document, member)
        return found

    # The job.

    def perform(self, job: Job, order: WorkOrder) -> Outcome:
        """Read the files of an order into their vector store, one after another."""
        members = [_member_of(fields) for fields in order.arguments["members"]]
        done: dict[str, str] = {}
        try:
            for member in members:
                self._records.add(_record(member))
                ended = self._read(job, self._now_of(member))
                self.put_member(replace(self._now_of(member), **ended))
                done[member.file_id] = ended["state"]
                job.report({"files": len(done)})
        except Exception:
            for member in members[len(done) :]:
                fault = ("server_error", "the vector store could not be changed; the server's log has the cause")
                self.put_member(replace(self._now_of(member), state="failed", fault=fault))
            raise
        return Outcome({"files": done}, cancelled=job.is_cancelled())

    def _now_of(self, member: Member) -> Member:
        """Return the file with the attributes that it has now."""
        return self._stored(member) or member

    def _stored(self, member: Member) -> Member | None:
        return readable(self._records.get(MEMBER, f"{member.store}/{member.file_id}"), _member)

    def _read(self, job: Job, member: Member) -> dict[str, Any]:
        """Read one file, and return the fields of its member that this changes."""
        if job.is_cancelled():
            return {"state": "cancelled"}
        if (same := self._same(member)) is not None:
            return {"state": "completed", "documents": same.documents, "fault": None}
        documents: list[str] = []
        watch = ChangeHooks(
            cancelled=lambda: job.is_cancelled() or len(documents) > _MAX_DOCUMENTS, stored=documents.append
        )
        fault = self._added(member, watch)
        own = tuple(dict.fromkeys(documents))
        if fault is None and len(own) > _MAX_DOCUMENTS:
            fault = ("invalid_file", f"it has more than {_MAX_DOCUMENTS} documents: add it to a namespace")
        if fault is None and not own and not job.is_cancelled():
            fault = ("invalid_file", "nothing in it can be read")
        if fault is None and not job.is_cancelled():
            return {"state": "completed", "documents": own, "fault": None}
        self._remove_documents(replace(member, documents=own))
        return {"state": "failed" if fault else "cancelled", "fault": fault}

    def _added(self, member: Member, watch: ChangeHooks) -> tuple[str, str] | None:
        """Add the file's documents, and return what is wrong with it, if anything is."""
        try:
            file = self._files.get(member.owner, member.file_id)
            refused = self._refused(file, member.store, watch)
        except RequestError as error:
            return "invalid_file", error.message
        if refused is None:
            return None
        code = "unsupported_file" if isinstance(refused, DocumentUnreadable) else "invalid_file"
        return code, self._uploads.conceal(refused.message)

    def _refused(self, file: StoredFile, store_id: str, watch: ChangeHooks) -> CorpusError | None:
        """Add the documents of a file to a namespace, and return why some were refused, if any were."""
        copy = self._uploads.open(file.filename)
        try:
            for piece in self._files.read(file):
                copy.write(piece)
            copy.close()
            # Two files may have one name.
            options = replace(self._limits, provenance=f"{file.id}/{file.filename}")
            result = try_file(self._namespaces, store_id, copy.path, options, watch)
            if result.report.already:  # read before, but not by a file that is here: which documents are its own?
                self._forget_sources(store_id)
                result = try_file(self._namespaces, store_id, copy.path, options, watch)
            return result.refused
        finally:
            copy.discard()

    def _forget_sources(self, store_id: str) -> None:
        with self._namespaces.writing(store_id) as (_, writer), writer.transaction():
            writer.forget_sources()

    def _same(self, member: Member) -> Member | None:
        """Return another file of the vector store with the same content, which was read already."""
        members = self.members(VectorStore(id=member.store, name=""), state="completed")
        return next((one for one in members if one.digest == member.digest), None)


def _member_for(store: VectorStore, stored: StoredDocument) -> Member:
    one = stored.document.document_id
    name = stored.name or stored.document.title or one
    return Member(store=store.id, file_id=one, owner=store.owner, filename=name, state="completed", documents=(one,))


def _patiently(work: Callable[[], object]) -> None:
    """Do a change as soon as the one that is being made has ended.

    Raises:
        NamespaceBusy: it takes too long.
    """
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            work()
        except NamespaceBusy:
            if time.monotonic() > end:
                raise
            time.sleep(_POLL_S)
        else:
            return


def _unless_busy(work: Callable[[], object]) -> None:
    try:
        work()
    except ArrowheadError as error:
        log.warning("what has expired is not deleted yet: cause=%s", type(error).__name__)


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def _store(record: Record) -> VectorStore:
    return VectorStore(**parse_json(record.body))


def _record(member: Member) -> Record:
    return Record(
        kind=MEMBER,
        id=f"{member.store}/{member.file_id}",
        owner=member.owner,
        parent=member.store,
        tag=member.batch,
        ref=member.file_id,
        state=member.state,
        created=member.created,
        body=_json(asdict(member)),
    )


def _member(record: Record) -> Member:
    return _member_of(parse_json(record.body))


def _member_of(fields: Mapping[str, Any]) -> Member:
    fault = fields["fault"]
    documents = tuple(fields["documents"])
    return Member(**{**fields, "fault": None if fault is None else (fault[0], fault[1]), "documents": documents})
