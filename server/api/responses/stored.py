"""Serve stored responses at ``/v1/responses/{id}``: read, delete, cancel, and list what was sent."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from server.api.answers.pages import ListReply, listed, page_of, page_parameters, part_of
from server.api.declarations import errors
from server.api.responses.background import BackgroundAnswers
from server.api.responses.schemas import ResponseReply
from server.errors import RESPONSE_NOT_STORED, RequestError
from server.state.responses import StoredResponse, StoredResponses
from server.wiring.services import Services

router = APIRouter(tags=["Answers"])
_RESPONSE: Final = "/v1/responses/{response_id}"
_LOST: Final = {"code": "server_error", "message": "the server that answered ended before its answer; ask again"}
_MAX_LISTED: Final = 100
_USUAL: Final = 20


def stored_of(request: Request) -> StoredResponses:
    """Return what is stored.

    Raises:
        RequestError: nothing is stored on this server.
    """
    services: Services = request.app.state.services
    if services.responses is None:
        text = "responses are not stored here; state.responses_key_file switches it on"
        raise RequestError(text, RESPONSE_NOT_STORED, param="response_id")
    return services.responses


async def settled(request: Request, response_id: str, param: str = "response_id") -> StoredResponse:
    """Return a stored response; one that never will end has failed, which of another server is known at its deadline.

    Raises:
        RequestError: there is none of this id for the key; ``param`` names the field.
    """
    services: Services = request.app.state.services
    background: BackgroundAnswers = request.app.state.background
    # Asked before it is read: what ends in between is stored as it ended.
    is_here = background.is_running(request.state.owner, response_id)
    stored = await asyncio.to_thread(stored_of(request).get, request.state.owner, response_id, param)
    if is_here or not stored.is_running or (services.settings.state.url is not None and time.time() <= stored.until):
        return stored
    stored = replace(stored, response={**stored.response, "status": "failed", "error": _LOST})
    await asyncio.to_thread(stored_of(request).save, request.state.owner, stored)
    return stored


@router.get(
    _RESPONSE, summary="Return a stored response", responses={200: {"model": ResponseReply}, **errors(404, 422)}
)
async def get_response(request: Request, response_id: str) -> Response:
    if request.query_params.get("stream") == "true":
        raise RequestError("stream: a stored response is read whole; leave stream out", param="stream")
    return JSONResponse(dict((await settled(request, response_id)).response))


@router.delete(
    _RESPONSE,
    summary="Delete a stored response; one that is being answered is cancelled",
    responses={200: {"model": dict[str, Any]}, **errors(404)},
)
async def delete_response(request: Request, response_id: str) -> Response:
    await settled(request, response_id)
    await request.app.state.background.cancel(request.state.owner, response_id)
    await asyncio.to_thread(stored_of(request).delete, request.state.owner, response_id)
    return JSONResponse({"id": response_id, "object": "response", "deleted": True})


@router.post(
    f"{_RESPONSE}/cancel",
    summary="Cancel a response that is answered in the background",
    responses={200: {"model": ResponseReply}, **errors(404, 422)},
)
async def cancel_response(request: Request, response_id: str) -> Response:
    stored = await settled(request, response_id)
    if not stored.response.get("background"):
        raise RequestError("response_id: only a response in the background can be cancelled", param="response_id")
    await request.app.state.background.cancel(request.state.owner, response_id)
    stored = await asyncio.to_thread(stored_of(request).get, request.state.owner, response_id)
    if stored.is_running:
        stored = replace(stored, response={**stored.response, "status": "cancelled"})
        await asyncio.to_thread(stored_of(request).save, request.state.owner, stored)
    return JSONResponse(dict(stored.response))


@router.get(
    f"{_RESPONSE}/input_items",
    summary="List the items that a stored response was sent",
    openapi_extra=page_parameters(_MAX_LISTED, _USUAL),
    responses={200: {"model": ListReply}, **errors(404, 422)},
)
async def list_input_items(request: Request, response_id: str) -> Response:
    page = page_of(request, _MAX_LISTED, _USUAL, ("include", "include[]"))
    items = part_of((await settled(request, response_id)).input, page, lambda item: str(item["id"]))
    return JSONResponse(listed(items, page["limit"], dict))
