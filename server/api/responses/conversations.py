"""Serve ``/v1/conversations``: items that several responses share, stored until they expire."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from server.api.answers.pages import ListReply, listed, page_of, page_parameters
from server.api.declarations import Reads, Reply, errors
from server.api.http_io import Body, read_body
from server.api.responses.schemas import read_item
from server.api.responses.state import item_with_id
from server.api.responses.stored import stored_of
from server.state.responses import Conversation, Item

router = APIRouter(tags=["Answers"])
_CONVERSATION: Final = "/v1/conversations/{conversation_id}"
_ITEMS: Final = f"{_CONVERSATION}/items"
_ITEM: Final = f"{_ITEMS}/{{item_id}}"
_MAX_LISTED: Final = 100
_USUAL: Final = 20
Metadata = Annotated[dict[str, Annotated[str, Field(max_length=512)]], Field(max_length=16)]
_Items = Annotated[list[dict[str, Any]], Field(max_length=20)]


class ConversationBody(Body):
    """Begin a conversation."""

    items: _Items | None = None
    metadata: Metadata | None = None


class ConversationUpdate(Body):
    """Replace the metadata of a conversation."""

    metadata: Metadata | None


class ConversationItems(Body):
    """Append items to a conversation."""

    items: _Items


class ConversationReply(Reply):
    """Describe a conversation."""

    id: str
    object: str
    created_at: int
    metadata: dict[str, str]


_ONE: Final[dict[int | str, dict[str, Any]]] = {200: {"model": ConversationReply}, **errors(404, 413, 422)}
_FOUND: Final[dict[int | str, dict[str, Any]]] = {200: {"model": dict[str, Any]}, **errors(404)}


async def _found(request: Request, conversation_id: str) -> Conversation:
    return await asyncio.to_thread(stored_of(request).conversation, request.state.owner, conversation_id)


def _shown(conversation: Conversation) -> Response:
    return JSONResponse(
        {
            "id": conversation.id,
            "object": "conversation",
            "created_at": conversation.created,
            "metadata": dict(conversation.metadata),
        }
    )


def _checked(items: Sequence[dict[str, Any]]) -> list[Item]:
    """Return items with ids.

    Raises:
        RequestError, UNSUPPORTED_FIELD: one is none that is read here; ``param`` names it.
    """
    for place, item in enumerate(items):
        read_item(item, f"items[{place}]")
    return [item_with_id(item) for item in items]


@router.post("/v1/conversations", summary="Begin a conversation", openapi_extra=Reads(ConversationBody), responses=_ONE)
async def create_conversation(request: Request) -> Response:
    stored = stored_of(request)
    body = await read_body(request, ConversationBody)
    items = _checked(body.items or [])
    return _shown(await asyncio.to_thread(stored.begin, request.state.owner, body.metadata or {}, items))


@router.get(_CONVERSATION, summary="Describe a conversation", responses=_ONE)
async def get_conversation(request: Request, conversation_id: str) -> Response:
    return _shown(await _found(request, conversation_id))


@router.post(
    _CONVERSATION,
    summary="Replace the metadata of a conversation",
    openapi_extra=Reads(ConversationUpdate),
    responses=_ONE,
)
async def update_conversation(request: Request, conversation_id: str) -> Response:
    body = await read_body(request, ConversationUpdate)
    changed = replace(await _found(request, conversation_id), metadata=body.metadata or {})
    await asyncio.to_thread(stored_of(request).update, request.state.owner, changed)
    return _shown(changed)


@router.delete(_CONVERSATION, summary="Delete a conversation with its items", responses=_FOUND)
async def delete_conversation(request: Request, conversation_id: str) -> Response:
    await _found(request, conversation_id)
    await asyncio.to_thread(stored_of(request).end, conversation_id)
    return JSONResponse({"id": conversation_id, "object": "conversation.deleted", "deleted": True})


@router.post(
    _ITEMS,
    summary="Append items to a conversation",
    openapi_extra=Reads(ConversationItems),
    responses={200: {"model": ListReply}, **errors(404, 413, 422)},
)
async def add_items(request: Request, conversation_id: str) -> Response:
    await _found(request, conversation_id)
    items = _checked((await read_body(request, ConversationItems)).items)
    await asyncio.to_thread(stored_of(request).add_items, request.state.owner, conversation_id, items)
    return JSONResponse(listed(items, len(items) + 1, dict))


@router.get(
    _ITEMS,
    summary="List the items of a conversation",
    openapi_extra=page_parameters(_MAX_LISTED, _USUAL),
    responses={200: {"model": ListReply}, **errors(404, 422)},
)
async def list_items(request: Request, conversation_id: str) -> Response:
    page = page_of(request, _MAX_LISTED, _USUAL, ("include", "include[]"))
    await _found(request, conversation_id)
    found = await asyncio.to_thread(lambda: stored_of(request).items(request.state.owner, conversation_id, **page))
    return JSONResponse(listed(found, page["limit"], dict))


@router.get(_ITEM, summary="Return an item of a conversation", responses=_FOUND)
async def get_item(request: Request, conversation_id: str, item_id: str) -> Response:
    await _found(request, conversation_id)
    owner = request.state.owner
    return JSONResponse(dict(await asyncio.to_thread(stored_of(request).item, owner, conversation_id, item_id)))


@router.delete(_ITEM, summary="Delete an item of a conversation", responses=_ONE)
async def delete_item(request: Request, conversation_id: str, item_id: str) -> Response:
    conversation = await _found(request, conversation_id)
    await asyncio.to_thread(stored_of(request).item, request.state.owner, conversation_id, item_id)
    await asyncio.to_thread(stored_of(request).remove_item, conversation_id, item_id)
    return _shown(conversation)
