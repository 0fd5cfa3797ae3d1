"""Keep the files of keys as they were uploaded, in pieces among the records; knows no HTTP."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

from models.files import parse_json
from retrieval.storage.records import Record, Records, Selection, readable
from server.errors import FILE_UNKNOWN, FILES_FULL, RequestError

FILE: Final = "file"
_CONTENT: Final = "file_content"
_PIECE: Final = 2**20
MAX_FILES: Final = 10_000
# Of one key, in files of the largest size.
_MAX_LARGEST: Final = 64
# Pieces of a file whose upload did not end go after this time.
_DRAFT_S: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """Describe a file; ``created`` and ``expires`` are Unix time, ``digest`` is the SHA-256 of its content."""

    id: str
    owner: str
    filename: str
    purpose: str
    size: int
    digest: str
    created: int
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class NewFile:
    """Describe a file that comes in; ``seconds`` is how long it is kept, None for as long as nobody deletes it."""

    filename: str
    purpose: str
    seconds: int | None = None


class StoredFiles:
    """Keep the files of all keys; thread-safe, and blocking. Another key's file is as if it were not there."""

    def __init__(self, records: Records, max_bytes: int, now: Callable[[], float] = time.time) -> None:
        """``max_bytes`` bounds one file; the files of one key are bounded by a multiple of it."""
        self._records = records
        self._max_bytes = max_bytes
        self._now = now

    def check_room(self, owner: str, size: int = 0) -> None:
        """Check that a key may store one more file of ``size`` bytes.

        Raises:
            RequestError: it has as many files, or bytes, as it may.
        """
        number, total = self._records.total(Selection(kind=FILE, owner=owner))
        if number >= MAX_FILES:
            raise RequestError(f"this key has {MAX_FILES} files already", FILES_FULL, param="file")
        if total + size > _MAX_LARGEST * self._max_bytes:
            most = _MAX_LARGEST * self._max_bytes
            raise RequestError(f"the files of one key have at most {most} bytes together", FILES_FULL, param="file")

    def add(self, owner: str, new: NewFile, content: IO[bytes]) -> StoredFile:
        """Store a file; it is there when all of it is.

        Raises:
            RequestError: as ``check_room``.
        """
        file_id, now, digest, size = f"file-{uuid.uuid4().hex}", self._now(), hashlib.sha256(), 0
        self.check_room(owner)
        while piece := content.read(_PIECE):
            place = f"{file_id}/{size // _PIECE:06d}"
            digest.update(piece)
            size += len(piece)
            draft = Record(kind=_CONTENT, id=place, owner=owner, body=piece, parent=file_id, expires=now + _DRAFT_S)
            self._records.put(draft)
        expires = None if new.seconds is None else int(now) + new.seconds
        body = json.dumps({"filename": new.filename, "purpose": new.purpose, "digest": digest.hexdigest()}).encode()
        try:
            self.check_room(owner, size)
        except RequestError:
            self._records.delete_below(file_id)
            raise
        self._records.set_expiry_below(file_id, expires)
        record = Record(
            kind=FILE, id=file_id, owner=owner, body=body, tag=new.purpose, size=size, created=int(now), expires=expires
        )
        self._records.put(record)
        return _file(record)

    def get(self, owner: str, file_id: str, param: str = "file_id") -> StoredFile:
        """Return a file of a key.

        Raises:
            RequestError: there is none of this id that the key uploaded; ``param`` names the field.
        """
        found = readable(self._records.get(FILE, file_id), _file)
        if found is None or found.owner != owner:
            raise RequestError(f"there is no file {file_id[:100]!r}", FILE_UNKNOWN, param=param)
        return found

    def page(self, owner: str, purpose: str, **page: Any) -> list[StoredFile]:
        return self._records.readable(Selection(kind=FILE, owner=owner, tag=purpose), _file, **page)

    def read(self, file: StoredFile) -> Iterator[bytes]:
        """Yield the content in pieces."""
        for place in range(-(-file.size // _PIECE)):
            piece = self._records.get(_CONTENT, f"{file.id}/{place:06d}")
            if piece is None:
                raise RequestError(f"file {file.id} is being deleted", FILE_UNKNOWN, param="file_id")
            yield piece.body

    def delete(self, file_id: str) -> None:
        self._records.delete(FILE, file_id)
        self._records.delete_below(file_id)

    def expired(self) -> list[str]:
        """Return the ids of files whose time is over."""
        return [record.id for record in self._records.expired(FILE)]

    def sweep(self) -> None:
        """Remove the pieces of uploads that did not end."""
        self._records.remove_expired([_CONTENT])


def _file(record: Record) -> StoredFile:
    body = parse_json(record.body)
    expires = None if record.expires is None else int(record.expires)
    return StoredFile(
        id=record.id, owner=record.owner, size=record.size, created=record.created, expires=expires, **body
    )
