"""Keep responses and conversations of keys, encrypted, until they expire.

What is readable in the database: ids, digests of keys, times and sizes. All else is sealed, together with the id and
the key that it belongs to, so that nothing can be put in another's place.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from retrieval.storage.records import Record, Records, Selection
from server.errors import CONVERSATION_UNKNOWN, ITEM_UNKNOWN, RESPONSE_NOT_STORED, RESPONSES_FULL, RequestError
from server.settings.loading import SettingsInvalid

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

log = logging.getLogger(__name__)
Item = Mapping[str, Any]
_RESPONSE: Final = "response"
_CONVERSATION: Final = "conversation"
_ITEM: Final = "conversation_item"
KINDS: Final = (_RESPONSE, _CONVERSATION, _ITEM)
KEPT_S: Final = 30 * 86_400.0
MAX_RESPONSES: Final = 1000
MAX_CONVERSATIONS: Final = 1000
MAX_ITEMS: Final = 1000
_MAX_BYTES: Final = 64 * 2**20
# As many messages as one request may have.
_MAX_TURNS: Final = 256


def read_seal(path: Path) -> MultiFernet:
    """Return what encrypts with the first key of a file, and decrypts with any of them.

    Raises:
        SettingsInvalid: the file cannot be read, or has a line that is no key.
    """
    from cryptography.fernet import Fernet, MultiFernet

    try:
        keys = [Fernet(line.strip()) for line in path.read_text("ascii").splitlines() if line.strip()]
        return MultiFernet(keys)
    except OSError as error:
        raise SettingsInvalid(f"state.responses_key_file: cannot be read: {error.strerror}") from None
    except ValueError:
        raise SettingsInvalid(
            "state.responses_key_file: needs a key a line, 32 bytes in URL-safe base64, as "
            "`openssl rand -base64 32 | tr '+/' '-_'` writes it"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """Hold a response as its client sees it, the items that it was sent, and what it followed.

    ``until``: Unix time at which one that still runs counts as lost, for the server that ran it has ended.
    """

    id: str
    response: Mapping[str, Any]
    input: Sequence[Item] = ()
    previous: str = ""
    until: float = 0.0

    @property
    def is_running(self) -> bool:
        return self.response["status"] in ("queued", "in_progress")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Describe a conversation; ``created`` is Unix time."""

    id: str
    created: int
    metadata: Mapping[str, str] = field(default_factory=dict)


class StoredResponses:
    """Keep responses and conversations within bounds for each key; thread-safe, and blocking.

    Another key's are as if they were not there. Everything expires 30 days after its last change.
    """

    def __init__(
        self,
        records: Records,
        seal: MultiFernet,
        now: Callable[[], float] = time.time,
        max_responses: int = MAX_RESPONSES,
    ) -> None:
        """Keep at most ``max_responses`` of each key."""
        self._records = records
        self._seal = seal
        self._now = now
        self._max_responses = max_responses

    def save(self, owner: str, stored: StoredResponse) -> None:
        """Store a response; beyond the bounds of its key the oldest ones go."""
        body = {"response": dict(stored.response), "input": list(stored.input)}
        more = {"previous": stored.previous, "until": stored.until}
        self._put(owner, _RESPONSE, stored.id, body | more)
        mine = Selection(kind=_RESPONSE, owner=owner)
        number, size = self._records.total(mine)
        while number > 1 and (number > self._max_responses or size > _MAX_BYTES):
            (oldest,) = self._records.page(mine, limit=1)
            self._records.delete(_RESPONSE, oldest.id)
            number, size = number - 1, size - oldest.size

    def get(self, owner: str, response_id: str, param: str = "response_id") -> StoredResponse:
        """Return a response of a key.

        Raises:
            RequestError: there is none of this id for the key; ``param`` names the field.
        """
        body = self._get(owner, _RESPONSE, response_id)
        if body is None:
            text = f"there is no stored response {response_id[:100]!r}"
            raise RequestError(text, RESPONSE_NOT_STORED, param=param)
        return StoredResponse(id=response_id, **body)

    def delete(self, owner: str, response_id: str) -> None:
        self.get(owner, response_id)
        self._records.delete(_RESPONSE, response_id)

    def history(self, owner: str, response_id: str) -> list[Item]:
        """Return the items of a response and of all that it followed, in order.

        Raises:
            RequestError: one of them is no longer stored.
            RequestError: they are too many, or the last one has not ended.
        """
        turns: list[list[Item]] = []
        while response_id:
            stored = self.get(owner, response_id, "previous_response_id")
            if stored.is_running or len(turns) >= _MAX_TURNS:
                why = "has not ended" if stored.is_running else f"follows more than {_MAX_TURNS} others"
                raise RequestError(f"previous_response_id: the response {why}", param="previous_response_id")
            turns.append([*stored.input, *stored.response["output"]])
            response_id = stored.previous
        return [item for turn in reversed(turns) for item in turn]

    # Conversations.

    def begin(self, owner: str, metadata: Mapping[str, str], items: Sequence[Item]) -> Conversation:
        """Create a conversation.

        Raises:
            RequestError: the key has as many as it may.
        """
        if self._records.total(Selection(kind=_CONVERSATION, owner=owner))[0] >= MAX_CONVERSATIONS:
            raise RequestError(f"this key has {MAX_CONVERSATIONS} conversations already", RESPONSES_FULL)
        made = Conversation(id=f"conv_{uuid.uuid4().hex}", created=int(self._now()), metadata=metadata)
        self.update(owner, made)
        self.add_items(owner, made.id, items)
        return made

    def update(self, owner: str, conversation: Conversation) -> None:
        body = {"created": conversation.created, "metadata": dict(conversation.metadata)}
        self._put(owner, _CONVERSATION, conversation.id, body)

    def conversation(self, owner: str, conversation_id: str, param: str = "conversation_id") -> Conversation:
        """Return a conversation of a key.

        Raises:
            RequestError: there is none of this id for the key; ``param`` names the field.
        """
        body = self._get(owner, _CONVERSATION, conversation_id)
        if body is None:
            text = f"there is no conversation {conversation_id[:100]!r}"
            raise RequestError(text, CONVERSATION_UNKNOWN, param=param)
        return Conversation(id=conversation_id, **body)

    def end(self, conversation_id: str) -> None:
        """Delete a conversation with its items."""
        self._records.delete(_CONVERSATION, conversation_id)
        self._records.delete_below(conversation_id)

    def add_items(self, owner: str, conversation_id: str, items: Sequence[Item]) -> None:
        """Append items to a conversation, which lives on from now.

        Raises:
            RequestError: it would have more items, or the key more bytes, than it may.
        """
        self.update(owner, self.conversation(owner, conversation_id))
        self.check_room(owner, conversation_id, len(items), "items")
        for item in items:
            self._put(owner, _ITEM, f"{conversation_id}/{item['id']}", item, parent=conversation_id)
        self._records.set_expiry_below(conversation_id, self._now() + KEPT_S)

    def check_room(self, owner: str, conversation_id: str, more: int, param: str = "conversation") -> None:
        """Check that a conversation has room for more items.

        Raises:
            RequestError: as ``add_items``; ``param`` names the field.
        """
        number, _ = self._records.total(Selection(kind=_ITEM, parent=conversation_id))
        _, size = self._records.total(Selection(kind=_ITEM, owner=owner))
        if number + more > MAX_ITEMS or size > _MAX_BYTES:
            text = f"a conversation has at most {MAX_ITEMS} items, those of a key {_MAX_BYTES} bytes together"
            raise RequestError(text, RESPONSES_FULL, param=param)

    def items(self, owner: str, conversation_id: str, **page: Any) -> list[Item]:
        if after := page.get("after"):
            page["after"] = f"{conversation_id}/{after}"
        found = self._records.page(Selection(kind=_ITEM, owner=owner, parent=conversation_id), **page)
        return [item for record in found if (item := self._opened(record)) is not None]

    def item(self, owner: str, conversation_id: str, item_id: str) -> Item:
        """Return an item of a conversation.

        Raises:
            RequestError: there is none of this id.
        """
        found = self._get(owner, _ITEM, f"{conversation_id}/{item_id}")
        if found is None:
            raise RequestError(f"there is no item {item_id[:100]!r}", ITEM_UNKNOWN, param="item_id")
        return found

    def remove_item(self, conversation_id: str, item_id: str) -> None:
        self._records.delete(_ITEM, f"{conversation_id}/{item_id}")

    def sweep(self) -> None:
        """Remove what has expired."""
        self._records.remove_expired(KINDS)

    def close(self) -> None:
        self._records.close()

    def _put(self, owner: str, kind: str, record_id: str, body: Item, parent: str = "") -> None:
        now = self._now()
        sealed = self._seal.encrypt(json.dumps([kind, record_id, owner, body], ensure_ascii=False).encode())
        record = Record(kind=kind, id=record_id, owner=owner, parent=parent, body=sealed, created=int(now))
        self._records.put(replace(record, expires=now + KEPT_S))

    def _get(self, owner: str, kind: str, record_id: str) -> dict[str, Any] | None:
        record = self._records.get(kind, record_id)
        return None if record is None or record.owner != owner else self._opened(record)

    def _opened(self, record: Record) -> dict[str, Any] | None:
        return opened(record, self._seal)


def opened(record: Record, seal: MultiFernet) -> dict[str, Any] | None:
    """Return the body of a sealed record, None where no key of the file opens it, or it was another record's."""
    from cryptography.fernet import InvalidToken

    try:
        kind, record_id, owner, body = json.loads(seal.decrypt(record.body))
    except InvalidToken:
        log.error(
            "a stored %s cannot be opened: no key of state.responses_key_file fits: id=%s", record.kind, record.id
        )
        return None
    if (kind, record_id, owner) != (record.kind, record.id, record.owner):
        log.error("a stored %s was put in another's place: id=%s", record.kind, record.id)
        return None
    return dict(body)
