"""Keep literature reviews of keys: what their readers decide, and what their runs have found.

A document stays until its key deletes it. With ``seal`` the bodies are encrypted, together with the id and the key that
they belong to, so that nothing can be put in another's place.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from models.files import parse_json
from retrieval.storage.records import Record, Records, Selection, readable
from server.errors import REVIEW_UNKNOWN, REVIEWS_FULL, RequestError
from server.evidence.reviews.document import ReviewDocument, ReviewResult, document_of, result_of
from server.state.responses import opened

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

log = logging.getLogger(__name__)
_T = TypeVar("_T")
MAX_REVIEWS: Final = 500
_MAX_BYTES: Final = 512 * 2**20
_DOCUMENT: Final = "review"
_RESULT: Final = "review_result"
_SEALED: Final = b"gAAAA"  # what Fernet's tokens begin with


class StoredReviews:
    """Keep reviews within bounds for each key; thread-safe, and blocking. Another key's are as if they were not there.

    The two halves of a review are two records: readers change the one while a run writes the other.
    """

    def __init__(self, records: Records, seal: MultiFernet | None, now: Callable[[], float] = time.time) -> None:
        self._records = records
        self._seal = seal
        self._now = now

    @property
    def is_sealed(self) -> bool:
        """Return whether nothing of a review may be written down that is not encrypted."""
        return self._seal is not None

    def create(self, owner: str, question: str, model: str, fields: Mapping[str, Any]) -> ReviewDocument:
        """Store a new review.

        Raises:
            RequestError: the key has as many as it may.
        """
        self._check_room(owner)
        now = int(self._now())
        new = ReviewDocument(
            id=f"review_{uuid.uuid4().hex}", question=question, model=model, created=now, updated=now, **fields
        )
        self._put(owner, _DOCUMENT, new.id, asdict(new))
        return new

    def change(self, owner: str, review_id: str, fields: Mapping[str, Any]) -> ReviewDocument:
        """Replace fields of a review, and return it.

        Raises:
            RequestError: there is none of this id.
        """
        changed = replace(self.get(owner, review_id), updated=int(self._now()), **fields)
        self._put(owner, _DOCUMENT, review_id, asdict(changed))
        return changed

    def get(self, owner: str, review_id: str) -> ReviewDocument:
        """Return a review of a key.

        Raises:
            RequestError: there is none of this id.
        """
        found = self._get(owner, _DOCUMENT, review_id, document_of)
        if found is None:
            raise RequestError(f"there is no review {review_id[:100]!r}", REVIEW_UNKNOWN, param="review_id")
        return found

    def result(self, owner: str, review_id: str) -> ReviewResult:
        """Return what the runs of a review have found; empty before the first one."""
        return self._get(owner, _RESULT, review_id, result_of) or ReviewResult()

    def save_result(self, owner: str, review_id: str, result: ReviewResult) -> None:
        """Store what the runs have found.

        Raises:
            RequestError: the review was deleted meanwhile, or the key has as much as it may.
        """
        self.get(owner, review_id)
        self._check_room(owner, new=0)
        self._put(owner, _RESULT, review_id, asdict(result))

    def page(self, owner: str, **page: Any) -> list[ReviewDocument]:
        made = partial(self._opened, document_of)
        return self._records.readable(Selection(kind=_DOCUMENT, owner=owner), made, **page)

    def delete(self, owner: str, review_id: str) -> None:
        self.get(owner, review_id)
        self._records.delete(_RESULT, review_id)
        self._records.delete(_DOCUMENT, review_id)

    def _check_room(self, owner: str, new: int = 1) -> None:
        number, _ = self._records.total(Selection(kind=_DOCUMENT, owner=owner))
        _, size = self._records.total(Selection(kind=_RESULT, owner=owner))
        if number + new > MAX_REVIEWS or size > _MAX_BYTES:
            text = f"a key has at most {MAX_REVIEWS} reviews, of {_MAX_BYTES // 2**20} MiB together"
            raise RequestError(text, REVIEWS_FULL)

    def _put(self, owner: str, kind: str, review_id: str, body: Mapping[str, Any]) -> None:
        text = json.dumps([kind, review_id, owner, body], ensure_ascii=False).encode()
        sealed = text if self._seal is None else self._seal.encrypt(text)
        self._records.put(Record(kind=kind, id=review_id, owner=owner, body=sealed, created=int(self._now())))

    def _get(self, owner: str, kind: str, review_id: str, made: Callable[[dict[str, Any]], _T]) -> _T | None:
        record = self._records.get(kind, review_id)
        return None if record is None or record.owner != owner else readable(record, partial(self._opened, made))

    def _opened(self, made: Callable[[dict[str, Any]], _T], record: Record) -> _T | None:
        """Return what is made of the body of a record; those from before there was a seal are plain."""
        if not record.body.startswith(_SEALED):
            return made(parse_json(record.body)[3])
        if self._seal is None:
            log.error("a stored %s is sealed, and state.responses_key_file is not set: id=%s", record.kind, record.id)
            return None
        body = opened(record, self._seal)
        return None if body is None else made(body)
