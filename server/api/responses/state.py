"""Let a response follow what is stored, and be stored itself: in its own right, or as turns of a conversation."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from models.errors import ArrowheadError
from server.api.responses.functions import FUNCTION_ITEMS, joined
from server.api.vllm_passthrough.history import part_text
from server.errors import RequestError
from server.methods.base import Message
from server.state.responses import Item, StoredResponse, StoredResponses

log = logging.getLogger(__name__)
_FIELDS: Final = ("store", "previous_response_id", "conversation", "background")


@dataclass(frozen=True, slots=True)
class Kept:
    """Hold what a request says about what is kept; ``is_named``: it says so itself."""

    store: bool = False
    previous: str | None = None
    conversation: str | None = None
    background: bool = False
    is_named: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """Return the members of the response that repeat it."""
        conversation = None if self.conversation is None else {"id": self.conversation}
        said = {"store": self.store, "previous_response_id": self.previous, "background": self.background}
        return said | ({"conversation": conversation} if conversation else {})


NOTHING_KEPT: Final = Kept()


def take_kept(body: object, *, is_on: bool) -> tuple[Any, Kept]:
    """Return the body without what it says of keeping, and that; unchanged where nothing is stored here.

    Raises:
        RequestError: a field is wrong, or two exclude each other; ``param`` names it.
    """
    if not is_on or not isinstance(body, dict):
        return body, NOTHING_KEPT
    store, background = _flag(body, "store", usual=True), _flag(body, "background", usual=False)
    previous, conversation = body.get("previous_response_id"), body.get("conversation")
    if isinstance(conversation, dict) and conversation.keys() == {"id"}:
        conversation = conversation["id"]
    for name, value in (("previous_response_id", previous), ("conversation", conversation)):
        if value is not None and not (isinstance(value, str) and 0 < len(value) <= 200):
            raise RequestError(f"{name}: an id", param=name)
    if previous is not None and conversation is not None:
        raise RequestError("previous_response_id: not together with conversation", param="previous_response_id")
    if background and (not store or body.get("stream")):
        raise RequestError("background: needs store, and no stream: it is read again by its id", param="background")
    rest = {name: value for name, value in body.items() if name not in _FIELDS}
    is_named = any(body.get(name) not in (None, False) for name in _FIELDS)
    return rest, Kept(store, previous, conversation, background, is_named)


def _flag(body: Mapping[str, Any], name: str, *, usual: bool) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise RequestError(f"{name}: true or false", param=name)
    return usual if value is None else value


def input_items(value: object) -> list[Item]:
    """Return the input of a checked request as items with ids."""
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    return [item_with_id(item) for item in items] if isinstance(items, list) else []


def item_with_id(item: Mapping[str, Any]) -> Item:
    """Return an item as it is stored: with an id of our own, and the content of a message as parts."""
    kind = item.get("type", "message")
    made = {"id": f"{'msg' if kind == 'message' else 'item'}_{uuid.uuid4().hex}", "type": kind, "status": "completed"}
    content = item.get("content")
    if kind == "message" and isinstance(content, str):
        part = "output_text" if item.get("role") == "assistant" else "input_text"
        more: Item = {"annotations": []} if part == "output_text" else {}
        content = [{"type": part, "text": content, **more}]
    named = {name: value for name, value in item.items() if value is not None and name != "id"}
    return made | named | ({"content": content} if content is not None else {})


def messages_of(items: Sequence[Item]) -> list[Message]:
    """Return the messages of stored items; searches and reasoning say nothing to a model."""
    found = []
    for item in items:
        kind = item.get("type", "")
        if kind == "message":
            role = "system" if item["role"] == "developer" else str(item["role"])
            text = "\n".join(part_text(part) for part in item["content"])
            found.append(Message(role, text))
        elif kind in FUNCTION_ITEMS:
            found.append(FUNCTION_ITEMS[kind].model_validate(item).to_message())
    return joined(found)


@dataclass(frozen=True, slots=True)
class Keeper:
    """Store one response, as its request wants it; ``items`` are those that it was sent."""

    stored: StoredResponses
    owner: str
    kept: Kept
    items: Sequence[Item]

    async def keep(self, response: dict[str, Any], until: float = 0.0) -> dict[str, Any]:
        """Store a response, and return it as it is now: where this fails, it says that it is not stored.

        A response that has ended is also added to its conversation; where this fails, it names none.
        """
        try:
            return await asyncio.to_thread(self._keep, response, until)
        except ArrowheadError as error:
            log.error("a response is not stored: id=%s cause=%s", response["id"], type(error).__name__)
            return response | {"store": False}

    async def replace(self, response: dict[str, Any]) -> None:
        """Store how a response in the background ended, unless it was cancelled or deleted meanwhile."""
        try:
            stored = await asyncio.to_thread(self.stored.get, self.owner, response["id"])
        except ArrowheadError:
            return
        if stored.is_running:
            await self.keep(response)

    def _keep(self, response: dict[str, Any], until: float) -> dict[str, Any]:
        kept = self.kept
        if kept.conversation is not None and response["status"] in ("completed", "incomplete"):
            try:
                self.stored.add_items(self.owner, kept.conversation, [*self.items, *response["output"]])
            except ArrowheadError as error:
                log.error("a turn is not added: response=%s cause=%s", response["id"], type(error).__name__)
                response = response | {"conversation": None}
        if kept.store:
            one = StoredResponse(
                id=response["id"], response=response, input=self.items, previous=kept.previous or "", until=until
            )
            self.stored.save(self.owner, one)
        return response


async def history_of(stored: StoredResponses, owner: str, kept: Kept, more: int) -> list[Message]:
    """Return the messages before those of a request, whose turn has at least ``more`` items.

    Raises:
        RequestError: there is no such response or conversation for the key.
        RequestError: the response has not ended, or follows too many; the conversation has no room for the turn.
    """

    def work() -> list[Item]:
        if kept.previous is not None:
            return stored.history(owner, kept.previous)
        if kept.conversation is None:
            return []
        stored.conversation(owner, kept.conversation, "conversation")
        stored.check_room(owner, kept.conversation, more)
        return stored.items(owner, kept.conversation)

    return messages_of(await asyncio.to_thread(work))
