"""Serve ``/v1/reviews``: a question with its protocol, what its runs found, and what its readers decide of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from server.api.answers.pages import ListReply, listed, page_of, page_parameters
from server.api.declarations import Reads, Responses, errors, parameter
from server.api.http_io import read_body
from server.api.retrieval.documents import JOB, WAIT, submitted
from server.api.retrieval.schemas import NoBody
from server.api.reviews.runs import FILL, RUN, ReviewWork
from server.api.reviews.schemas import (
    ExclusionBody,
    ReviewBody,
    ReviewChange,
    ReviewDeleted,
    ReviewReply,
    columns_of,
    text_of,
)
from server.errors import RequestError
from server.evidence.reviews.document import NOT_STATED, ReviewDocument, described, shown_record
from server.exports.formats import FORMATS, check_export, export
from server.methods.base import AnswerRequest, Message
from server.methods.shared.evidence_table import Exclusion
from server.types import id_of_digest
from server.wiring.services import ServedModel, Services

router = APIRouter(tags=["Reviews"])
_REVIEW: Final = "/v1/reviews/{review_id}"
_METHOD: Final = "clinfo"
_BY_HAND: Final = "by hand"
_MAX_LISTED: Final = 100
_USUAL: Final = 20
_ONE: Final[Responses] = {200: {"model": ReviewReply}, **errors(404, 413, 422)}
_WORK: Final[Responses] = JOB | errors(404, 413, 422, 429)
_TEXT: Final = {"schema": {"type": "string"}}


async def _found(request: Request, review_id: str) -> ReviewDocument:
    services: Services = request.app.state.services
    return await asyncio.to_thread(services.reviews.get, request.state.owner, review_id)


async def _shown(request: Request, document: ReviewDocument) -> Response:
    services: Services = request.app.state.services
    result = await asyncio.to_thread(services.reviews.result, request.state.owner, document.id)
    jobs = await services.retrieval.jobs.of(request.state.owner)
    running = (job.id for job in jobs if job.spec.namespace == document.id and not job.has_ended)
    return JSONResponse(described(document, result) | {"job": next(running, None)})


def _served(request: Request, model: str | None) -> ServedModel:
    """Return the model that runs a review.

    Raises:
        RequestError: there is none of this name, or the key may use no method for reviews.
        RequestError: it is none that reviews literature.
    """
    services: Services = request.app.state.services
    own = next((one.id for one in services.models(request.state.principal) if one.name == _METHOD), f":{_METHOD}")
    served = services.find(own if model is None else model, request.state.principal)
    if served.name != _METHOD:
        raise RequestError(f"model: {served.id} reviews no literature; take {own}", param="model")
    return served


def _checked(request: Request, served: ServedModel, question: str, options: Mapping[str, Any]) -> None:
    """Check a protocol as a run of it would be.

    Raises:
        ArrowheadError: the method refuses it; ``param`` names the option.
    """
    key_id = id_of_digest(request.state.owner)
    messages = (Message("user", question),)
    served.method.check(AnswerRequest(request_id="", messages=messages, options=options, key_id=key_id))


@router.get(
    "/v1/reviews",
    summary="List the reviews of the key",
    openapi_extra=page_parameters(_MAX_LISTED, _USUAL),
    responses={200: {"model": ListReply}, **errors(422)},
)
async def list_reviews(request: Request) -> Response:
    """Return the key's reviews without what their runs found, the newest first."""
    services: Services = request.app.state.services
    page = page_of(request, _MAX_LISTED, _USUAL)
    found = await asyncio.to_thread(lambda: services.reviews.page(request.state.owner, **page))
    return JSONResponse(listed(found, page["limit"], _head))


def _head(document: ReviewDocument) -> dict[str, Any]:
    fields = {name: getattr(document, name) for name in ("id", "question", "model", "created", "updated")}
    return fields | {"object": "review"}


@router.post(
    "/v1/reviews",
    summary="Begin a review: a question with its protocol; nothing is searched yet",
    openapi_extra=Reads(ReviewBody),
    responses=_ONE,
)
async def create_review(request: Request) -> Response:
    services: Services = request.app.state.services
    body = await read_body(request, ReviewBody)
    question, columns = text_of(body.question, "question"), columns_of(body.columns)
    served = _served(request, body.model)
    _checked(request, served, question, body.options)
    fields = {"options": body.options, "columns": columns}
    create = services.reviews.create
    return await _shown(request, await asyncio.to_thread(create, request.state.owner, question, served.id, fields))


@router.get(_REVIEW, summary="Return a review with what its latest run found", responses=_ONE)
async def get_review(request: Request, review_id: str) -> Response:
    return await _shown(request, await _found(request, review_id))


@router.patch(
    _REVIEW,
    summary="Change question, protocol, columns, or which articles are excluded by hand",
    openapi_extra=Reads(ReviewChange),
    responses=_ONE,
)
async def change_review(request: Request, review_id: str) -> Response:
    """Replace what is given. A change of question or protocol holds from the next run on."""
    services: Services = request.app.state.services
    document = await _found(request, review_id)
    body = await read_body(request, ReviewChange)
    fields: dict[str, Any] = {}
    if body.question is not None:
        fields["question"] = text_of(body.question, "question")
    if body.model is not None:
        fields["model"] = _served(request, body.model).id
    if body.options is not None:
        fields["options"] = body.options
    if fields:
        served = _served(request, fields.get("model", document.model))
        question, options = fields.get("question", document.question), fields.get("options", document.options)
        _checked(request, served, question, options)
    if body.columns is not None:
        fields["columns"] = columns_of(body.columns)
    if body.excluded is not None:
        fields["excluded"] = await _exclusions(request, document, body.excluded)
    change = services.reviews.change
    return await _shown(request, await asyncio.to_thread(change, request.state.owner, review_id, fields))


async def _exclusions(
    request: Request, document: ReviewDocument, excluded: Sequence[ExclusionBody]
) -> tuple[Exclusion, ...]:
    """Return the exclusions by hand.

    Raises:
        RequestError: an article is not in the table, or a reason has no words.
    """
    services: Services = request.app.state.services
    result = await asyncio.to_thread(services.reviews.result, request.state.owner, document.id)
    titles = {row.uid: row.title for row in result.review.rows} | {one.uid: one.title for one in document.excluded}
    found: dict[str, Exclusion] = {}
    for place, one in enumerate(excluded):
        at = f"excluded[{place}]"
        if one.uid not in titles:
            raise RequestError(f"{at}.uid: there is no article {one.uid[:100]!r} in the table", param=f"{at}.uid")
        found[one.uid] = Exclusion(one.uid, titles[one.uid], _BY_HAND, text_of(one.reason, f"{at}.reason"))
    return tuple(found.values())


@router.delete(_REVIEW, summary="Delete a review", responses={200: {"model": ReviewDeleted}, **errors(404)})
async def delete_review(request: Request, review_id: str) -> Response:
    """Delete a review; a run that goes on is stopped."""
    services: Services = request.app.state.services
    await _found(request, review_id)
    for job in await services.retrieval.jobs.of(request.state.owner):
        if job.spec.namespace == review_id and not job.has_ended:
            await services.retrieval.jobs.cancel(job.id, request.state.owner)
    await asyncio.to_thread(services.reviews.delete, request.state.owner, review_id)
    return JSONResponse({"id": review_id, "object": "review.deleted", "deleted": True})


@router.post(
    f"{_REVIEW}/runs",
    summary="Search, screen and answer again; a job",
    openapi_extra=Reads(NoBody, [WAIT]),
    responses=_WORK,
)
async def run_review(request: Request, review_id: str) -> Response:
    """Run a review: its job shows the flow of articles; DELETE /v1/jobs/ID stops it."""
    return await _submitted(request, review_id, RUN)


@router.post(
    f"{_REVIEW}/columns",
    summary="Fill the cells of further columns that nobody has looked for yet; a job",
    openapi_extra=Reads(NoBody, [WAIT]),
    responses=_WORK,
)
async def fill_columns(request: Request, review_id: str) -> Response:
    """Fill each cell with what the article states and its quote; a cell without support stays empty."""
    return await _submitted(request, review_id, FILL)


async def _submitted(request: Request, review_id: str, kind: str) -> Response:
    services: Services = request.app.state.services
    document = await _found(request, review_id)
    await read_body(request, NoBody)
    served = _served(request, document.model)
    work = ReviewWork(services, request.state.owner, served, document)
    return await submitted(request, (kind, review_id), work.run if kind == RUN else work.fill)


@router.get(
    f"{_REVIEW}/export",
    summary="Return the references, the evidence or the report of a review as a file",
    response_class=Response,
    responses={200: {"content": {"*/*": _TEXT}}, **errors(400, 404, 429)},
    openapi_extra={
        "parameters": [{**parameter("format", "query", {"type": "string", "enum": list(FORMATS)}), "required": True}]
    },
)
async def export_review(request: Request, review_id: str) -> Response:
    """Return the review with its further columns; what was excluded by hand is listed with its reasons."""
    form = check_export(request.query_params.get("format"))
    services: Services = request.app.state.services
    document = await _found(request, review_id)
    result = await asyncio.to_thread(services.reviews.result, request.state.owner, review_id)
    head = {"id": review_id, "model": result.model, "created": result.runs[-1].created if result.runs else 0}
    told = {**shown_record(document, result, NOT_STATED), "question": document.question}
    text = json.dumps(head | {"choices": [told] if result.runs else []}, ensure_ascii=False)
    written = await services.compute(request.state.owner, lambda: export(text, form))
    headers = {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{written.name}"'}
    return Response(written.data, media_type=written.media_type, headers=headers)
